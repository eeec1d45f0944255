"""Bounds: broadcasting, projection, and which entries they hold."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from pwcf.solvers.bounds import Bounds, make_bounds

B, N = 3, 4
X = torch.zeros(B, N, dtype=torch.float64)


def _make(low: object, high: object) -> Bounds:
    return make_bounds((low, high), X, torch.Size([N]))


def test_absent_bounds() -> None:
    for box in (make_bounds(None, X, torch.Size([N])), _make(None, None), _make(-math.inf, math.inf)):
        assert not box.present
        assert box.free(X, X) is None
        assert torch.equal(box.project(X + 5), X + 5)


@pytest.mark.parametrize(
    ("low", "rows"),
    [
        (-1, 1),
        (-1.0, 1),
        (torch.tensor(-1.0), 1),
        (torch.full((N,), -1.0), 1),
        (torch.full((1, N), -1.0), 1),
        (torch.full((B, N), -1.0), B),
        (torch.full((B, 1), -1.0), B),
    ],
)
def test_broadcasting(low: float | Tensor, rows: int) -> None:
    box = _make(low, None)
    assert box.lower is not None
    assert box.upper is None
    assert box.lower.shape == (rows, N)
    assert box.lower.dtype == X.dtype
    assert torch.equal(box.project(X - 3), X - 1)


def test_rows_get_their_own_bounds() -> None:
    low = torch.arange(B * N, dtype=torch.float64).reshape(B, N)
    part = _make(low, low + 1).of(torch.tensor([2, 0]))
    assert part.lower is not None
    assert part.upper is not None
    assert torch.equal(part.lower, low[[2, 0]])
    assert torch.equal(part.upper, low[[2, 0]] + 1)


def test_rows_of_shape_and_square_batches_are_told_apart() -> None:
    """b = n: a vector of n numbers bounds entries, not rows."""
    x = torch.zeros(4, 4, dtype=torch.float64)
    vector = torch.arange(4.0)
    box = make_bounds((vector, None), x, torch.Size([4]))
    assert torch.equal(box.project(x - 1), vector.double().expand(4, 4))


def test_free_entries() -> None:
    box = _make(0.0, 1.0)
    x = torch.tensor([[0.0, 0.0, 1.0, 1.0], [0.5, 0.5, 0.0, 1.0]], dtype=torch.float64)
    gradient = torch.tensor([[1.0, -1.0, 1.0, -1.0], [1.0, -1.0, 0.0, 0.0]], dtype=torch.float64)
    free = box.free(x, gradient)
    assert free is not None
    assert free.tolist() == [[0.0, 1.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0]]


def test_largest_decrease_over_the_box() -> None:
    x = torch.tensor([[0.5, 0.25, 0.0, 1.0]], dtype=torch.float64)
    gradient = torch.tensor([[2.0, -4.0, 3.0, -5.0]], dtype=torch.float64)
    closed = _make(0.0, 1.0).largest_decrease(x, gradient)
    torch.testing.assert_close(closed, torch.tensor([2 * 0.5 + 4 * 0.75], dtype=torch.float64))
    assert torch.isinf(_make(0.0, None).largest_decrease(x, gradient)).all()
    assert torch.isfinite(_make(0.0, None).largest_decrease(x, gradient.abs())).all()
    assert torch.isfinite(_make(None, 1.0).largest_decrease(x, -gradient.abs())).all()


@pytest.mark.parametrize(
    ("bounds", "error"),
    [
        (3.0, TypeError),
        ((1.0,), TypeError),
        ((0.0, 1.0, 2.0), TypeError),
        (("low", 1.0), TypeError),
        ((True, 1.0), TypeError),
        ((math.nan, 1.0), ValueError),
        ((0.0, torch.tensor([1.0, 1.0, math.nan, 1.0])), ValueError),
        ((1.0, 0.0), ValueError),
        ((torch.tensor([0.0, 0.0, 0.0, 2.0]), 1.0), ValueError),
        ((torch.zeros(N + 1), None), ValueError),
        ((None, torch.zeros(B + 1, N)), ValueError),
    ],
)
def test_bad_bounds_are_named(bounds: object, error: type[Exception]) -> None:
    with pytest.raises(error, match="bounds"):
        make_bounds(bounds, X, torch.Size([N]))  # type: ignore[arg-type]
