"""Inverse Hessian approximations: the recursion they stand for, and which pairs they accept."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from pwcf.solvers.hessian import FullBFGS, InverseHessian, LimitedBFGS, hessian_from, make_hessian
from pwcf.solvers.host import Array

KINDS = ["bfgs", "lbfgs"]


def _make(kind: str, b: int, n: int, memory: int = 5, dtype: torch.dtype = torch.float64) -> InverseHessian:
    return make_hessian(kind, b, n, memory, torch.zeros(1, dtype=dtype))


def _pairs(b: int, n: int, count: int) -> list[tuple[Tensor, Tensor]]:
    """Pairs (s, y) of one positive definite quadratic per row."""
    factor = torch.randn(b, n, n, dtype=torch.float64)
    curvature = factor @ factor.mT / n + 0.5 * torch.eye(n, dtype=torch.float64)
    steps = [torch.randn(b, n, dtype=torch.float64) for _ in range(count)]
    return [(s, (curvature @ s.unsqueeze(-1)).squeeze(-1)) for s in steps]


def _all(b: int) -> Array:
    return np.arange(b)


def _dense(hessian: InverseHessian, b: int, n: int, rows: Array | None = None) -> Tensor:
    """H as matrices (r, n, n): the Gram matrix of the unit vectors."""
    rows = _all(b) if rows is None else rows
    eye = torch.eye(n, dtype=torch.float64).expand(len(rows), n, n)
    return hessian.products(rows, eye).gram


def _times(hessian: InverseHessian, rows: Array, v: Tensor) -> Tensor:
    """H v through ``combine``."""
    weight = torch.ones(len(rows), 1, dtype=torch.float64)
    return hessian.products(rows, v.unsqueeze(1)).combine(weight)


def _bfgs_step(H: Tensor, s: Tensor, y: Tensor) -> Tensor:
    """(I - rho s y') H (I - rho y s') + rho s s' for one row."""
    rho = 1 / (s @ y)
    left = torch.eye(len(s), dtype=s.dtype) - rho * torch.outer(s, y)
    return left @ H @ left.T + rho * torch.outer(s, s)


@pytest.mark.parametrize("count", [0, 1, 3, 5, 6, 13])
def test_compact_form_is_the_recursion(count: int) -> None:
    b, n, memory = 3, 8, 5
    pairs = _pairs(b, n, count)
    hessian = _make("lbfgs", b, n, memory)
    for s, y in pairs:
        hessian.update(_all(b), s, y)
    for row in range(b):
        expected = torch.eye(n, dtype=torch.float64)
        if pairs:
            s, y = (vector[row] for vector in pairs[-1])
            expected *= (s @ y) / (y @ y)
        for s, y in pairs[-memory:]:
            expected = _bfgs_step(expected, s[row], y[row])
        torch.testing.assert_close(_dense(hessian, b, n)[row], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("count", [1, 2, 7])
def test_full_bfgs_is_the_recursion(count: int) -> None:
    b, n = 3, 6
    pairs = _pairs(b, n, count)
    hessian = _make("bfgs", b, n)
    for s, y in pairs:
        hessian.update(_all(b), s, y)
    for row in range(b):
        s, y = (vector[row] for vector in pairs[0])
        expected = torch.eye(n, dtype=torch.float64) * (s @ y) / (y @ y)
        for s, y in pairs:
            expected = _bfgs_step(expected, s[row], y[row])
        torch.testing.assert_close(_dense(hessian, b, n)[row], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_secant_equation_and_positive_definiteness(kind: str) -> None:
    b, n = 4, 7
    hessian = _make(kind, b, n)
    for s, y in _pairs(b, n, 9):
        hessian.update(_all(b), s, y)
        torch.testing.assert_close(_times(hessian, _all(b), y), s, rtol=1e-8, atol=1e-8)
        H = _dense(hessian, b, n)
        torch.testing.assert_close(H, H.mT, rtol=1e-9, atol=1e-9)
        assert (torch.linalg.eigvalsh(H) > 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_starts_as_the_identity(kind: str) -> None:
    assert torch.equal(_dense(_make(kind, 2, 4), 2, 4), torch.eye(4, dtype=torch.float64).expand(2, 4, 4))


@pytest.mark.parametrize("kind", KINDS)
def test_gram_and_combine_use_the_same_matrix(kind: str) -> None:
    b, n, k = 3, 9, 4
    hessian = _make(kind, b, n)
    for s, y in _pairs(b, n, 7):
        hessian.update(_all(b), s, y)
    V, weights = torch.randn(b, k, n, dtype=torch.float64), torch.randn(b, k, dtype=torch.float64)
    metric, H = hessian.products(_all(b), V), _dense(hessian, b, n)
    torch.testing.assert_close(metric.gram, V @ H @ V.mT)
    torch.testing.assert_close(metric.combine(weights), torch.einsum("bij,bkj,bk->bi", H, V, weights))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("curvature", [-1.0, 0.0])
def test_pairs_without_positive_curvature_are_skipped(kind: str, curvature: float) -> None:
    b, n = 3, 4
    hessian = _make(kind, b, n)
    ((s, y), (s_next, y_next)) = _pairs(b, n, 2)
    hessian.update(_all(b), s, y)
    before = _dense(hessian, b, n).clone()
    y_next = y_next.clone()
    y_next[1] = curvature * s_next[1]
    hessian.update(_all(b), s_next, y_next)
    after = _dense(hessian, b, n)
    assert torch.equal(after[1], before[1])
    for row in (0, 2):
        assert not torch.equal(after[row], before[row])
    hessian.update(_all(b), torch.zeros_like(s), torch.zeros_like(y))
    assert torch.equal(_dense(hessian, b, n), after)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("chosen", [[2], [0, 3], [5, 1, 2, 4], [0, 1, 2, 3, 4]])
def test_updating_some_rows_leaves_the_others(kind: str, chosen: list[int]) -> None:
    b, n = 6, 5
    pairs = _pairs(b, n, 7)
    part, whole = _make(kind, b, n), _make(kind, b, n)
    rows = np.array(chosen)
    for s, y in pairs:
        whole.update(_all(b), s, y)
        part.update(rows, s[rows], y[rows])
    found, expected = _dense(part, b, n), _dense(whole, b, n)
    assert torch.equal(found[rows], expected[rows])
    others = [row for row in range(b) if row not in chosen]
    assert torch.equal(found[others], torch.eye(n, dtype=torch.float64).expand(len(others), n, n))
    assert torch.equal(_dense(whole, b, n, rows), expected[rows])
    v = torch.randn(b, n, dtype=torch.float64)
    assert torch.equal(_times(whole, rows, v[rows]), _times(whole, _all(b), v)[rows])


@pytest.mark.parametrize("kind", KINDS)
def test_rows_with_different_numbers_of_pairs(kind: str) -> None:
    """Rows that have seen 0, 1, ..., 7 pairs are as if each were alone."""
    b, n = 8, 6
    pairs = _pairs(b, n, 7)
    together = _make(kind, b, n)
    for number, (s, y) in enumerate(pairs):
        rows = np.arange(number + 1, b)
        together.update(rows, s[rows], y[rows])
    for row in range(b):
        alone = _make(kind, 1, n)
        for s, y in pairs[:row]:
            alone.update(_all(1), s[row : row + 1], y[row : row + 1])
        assert torch.equal(_dense(alone, 1, n)[0], _dense(together, b, n)[row])


@pytest.mark.parametrize("kind", KINDS)
def test_rebuilt_from_its_tensors(kind: str) -> None:
    b, n = 3, 5
    hessian = _make(kind, b, n)
    for s, y in _pairs(b, n, 6):
        hessian.update(_all(b), s, y)
    again = hessian_from(hessian.tensors())
    assert type(again) is (FullBFGS if kind == "bfgs" else LimitedBFGS)
    assert torch.equal(_dense(again, b, n), _dense(hessian, b, n))


@pytest.mark.parametrize("kind", KINDS)
def test_float32_keeps_its_dtype(kind: str) -> None:
    b, n = 2, 5
    hessian = _make(kind, b, n, dtype=torch.float32)
    for s, y in _pairs(b, n, 4):
        hessian.update(_all(b), s.float(), y.float())
    found = hessian.products(_all(b), y.float().unsqueeze(1))
    assert found.gram.dtype == torch.float64
    result = found.combine(torch.ones(b, 1, dtype=torch.float64))
    assert result.dtype == torch.float32
    torch.testing.assert_close(result, s.float(), rtol=1e-3, atol=1e-4)


def test_rows_are_copied_out_and_put_back() -> None:
    b, n = 4, 5
    hessian = _make("lbfgs", b, n)
    assert isinstance(hessian, LimitedBFGS)
    for s, y in _pairs(b, n, 3):
        hessian.update(_all(b), s, y)
    before = _dense(hessian, b, n)
    some = hessian[torch.tensor([2, 0])]
    assert torch.equal(_dense(some, 2, n), before[[2, 0]])
    (s, y), *_ = _pairs(2, n, 1)
    some.update(_all(2), s, y)
    assert torch.equal(_dense(hessian, b, n), before)
    hessian.put(torch.tensor([1, 3]), some)
    after = _dense(hessian, b, n)
    assert torch.equal(after[[1, 3]], _dense(some, 2, n))
    assert torch.equal(after[[0, 2]], before[[0, 2]])


def test_a_matrix_that_rounding_has_spoilt_is_repaired() -> None:
    """An eigenvalue that has become negative is raised; the others, and other rows, stay."""
    n, eigenvalues = 4, torch.tensor([-1e-7, 1e-3, 1.0, 50.0], dtype=torch.float64)
    basis = torch.linalg.qr(torch.randn(n, n, dtype=torch.float64)).Q
    H = torch.stack([torch.eye(n, dtype=torch.float64), (basis * eigenvalues) @ basis.mT])
    hessian = FullBFGS(H.clone(), torch.ones(2, dtype=torch.bool))
    hessian.repair(np.array([1]))
    assert torch.equal(hessian.H[0], H[0])
    found = torch.linalg.eigvalsh(hessian.H[1])
    assert 0 < found[0] < 1e-11
    torch.testing.assert_close(found[1:], eigenvalues[1:], rtol=1e-9, atol=0)
