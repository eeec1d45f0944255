"""Folding: the same feasible set, the right norm, and gradients that are never NaN."""

from __future__ import annotations

import math

import hypothesis
import hypothesis.strategies as st
import pytest
import torch
from torch import Tensor

import pwcf
from pwcf.solvers.folding import fold, violations

NORMS = [1.0, 1.5, 2.0, 3.0, 40.0, math.inf]
SENSES = ["ineq", "eq"]


def _gradient(values: Tensor, sense: str, p: float) -> Tensor:
    point = values.clone().requires_grad_(True)
    (gradient,) = torch.autograd.grad(fold(point, sense, p).sum(), point)
    return gradient


@pytest.mark.parametrize("p", NORMS)
@pytest.mark.parametrize("sense", SENSES)
def test_value_is_the_norm_of_the_violations(p: float, sense: str) -> None:
    values = torch.randn(50, 7, dtype=torch.float64)
    positive = values.abs() if sense == "eq" else values.clamp(min=0)
    assert torch.equal(violations(values, sense), positive)
    expected = torch.linalg.vector_norm(positive, p, dim=-1)
    torch.testing.assert_close(fold(values, sense, p), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("p", "expected"), [(1.0, 7.0), (2.0, 5.0), (math.inf, 4.0), (3.0, (27 + 64) ** (1 / 3))])
def test_values_by_hand(p: float, expected: float) -> None:
    inequality = torch.tensor([[3.0, -100.0, 4.0, 0.0]], dtype=torch.float64)
    assert float(fold(inequality, "ineq", p)) == pytest.approx(expected, rel=1e-14)
    equality = torch.tensor([[3.0, -4.0, 0.0]], dtype=torch.float64)
    assert float(fold(equality, "eq", p)) == pytest.approx(expected, rel=1e-14)


@hypothesis.given(
    values=st.lists(st.sampled_from([-2.0, -1e-9, 0.0, 1e-300, 1e-9, 3.0, 1e200]), min_size=1, max_size=5),
    p=st.sampled_from(NORMS),
    sense=st.sampled_from(SENSES),
)
def test_feasible_set_is_the_same(values: list[float], p: float, sense: str) -> None:
    satisfied = all(v == 0 if sense == "eq" else v <= 0 for v in values)
    folded = fold(torch.tensor([values], dtype=torch.float64), sense, p)
    assert folded.isfinite().all()
    assert (float(folded) <= 0) == satisfied
    assert float(folded) >= 0


@pytest.mark.parametrize("p", NORMS)
def test_gradient_is_zero_where_all_is_satisfied(p: float) -> None:
    inside = torch.tensor([[-1.0, -2.0], [-1e-8, -5.0]], dtype=torch.float64)
    assert torch.equal(_gradient(inside, "ineq", p), torch.zeros_like(inside))


@pytest.mark.parametrize("p", NORMS)
@pytest.mark.parametrize("sense", SENSES)
def test_gradient_is_finite_at_zero(p: float, sense: str) -> None:
    values = torch.tensor([[0.0, 0.0], [0.0, -1.0], [0.0, 2.0], [1e-300, 0.0]], dtype=torch.float64)
    gradient = _gradient(values, sense, p)
    assert gradient.isfinite().all()
    assert (gradient.abs() <= 1 + 1e-12).all()


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0, math.inf])
@pytest.mark.parametrize("sense", SENSES)
def test_gradient_by_finite_differences(p: float, sense: str) -> None:
    values = torch.randn(6, 4, dtype=torch.float64)
    gradient, step = _gradient(values, sense, p), 1e-6
    for column in range(4):
        shift = torch.zeros_like(values)
        shift[:, column] = step
        slope = (fold(values + shift, sense, p) - fold(values - shift, sense, p)) / (2 * step)
        torch.testing.assert_close(gradient[:, column], slope, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("p", [1.5, 2.0, 40.0, math.inf])
@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_no_overflow_and_no_underflow(p: float, size: float) -> None:
    values = torch.tensor([[3.0, 4.0]], dtype=torch.float64)
    torch.testing.assert_close(fold(size * values, "ineq", p) / size, fold(values, "ineq", p))
    torch.testing.assert_close(_gradient(size * values, "ineq", p), _gradient(values, "ineq", p))


@pytest.mark.parametrize("p", NORMS)
def test_no_columns_are_always_satisfied(p: float) -> None:
    assert torch.equal(fold(torch.zeros(3, 0), "ineq", p), torch.zeros(3))


@pytest.mark.parametrize("p", NORMS)
def test_row_alone_is_the_row_in_the_batch(p: float) -> None:
    values = torch.randn(7, 5, dtype=torch.float64)
    together = fold(values, "ineq", p)
    for row in range(7):
        assert torch.equal(fold(values[row : row + 1], "ineq", p)[0], together[row])


@pytest.mark.parametrize("make", [pwcf.ineq, pwcf.eq])
def test_which_norms_are_accepted(make: object) -> None:
    maker = pwcf.ineq if make is pwcf.ineq else pwcf.eq
    assert maker(torch.sin).fold is None
    assert maker(torch.sin, fold=True).fold == 2.0
    assert maker(torch.sin, fold=1).fold == 1.0
    assert maker(torch.sin, fold=math.inf).fold == math.inf
    for bad in (0.999, 0.5, 0, -1.0, math.nan):
        with pytest.raises(ValueError, match="fold"):
            maker(torch.sin, fold=bad)


@pytest.mark.parametrize("make", [pwcf.ineq, pwcf.eq])
def test_a_constraint_needs_a_function(make: object) -> None:
    maker = pwcf.ineq if make is pwcf.ineq else pwcf.eq
    with pytest.raises(TypeError, match="function"):
        maker(torch.zeros(3))  # type: ignore[arg-type]


def test_sense_and_name_are_kept() -> None:
    assert pwcf.ineq(torch.sin).sense == "ineq"
    assert pwcf.eq(torch.sin).sense == "eq"
    assert pwcf.eq(torch.sin, name="on the sphere").name == "on the sphere"


@pytest.mark.parametrize("p", [1.0, 2.0, math.inf])
def test_folded_problems_have_the_answer_of_the_unfolded(p: float) -> None:
    """Projection of (2, 2, -3) on the cube, and on the point (1, -1, 0) given by equalities."""
    target = torch.tensor([2.0, 2.0, -3.0], dtype=torch.float64)
    corner = torch.tensor([1.0, -1.0, 0.0], dtype=torch.float64)

    def distance(x: Tensor) -> Tensor:
        return ((x - target) ** 2).sum(-1)

    x0 = torch.zeros(2, 3, dtype=torch.float64)
    cube = pwcf.minimize(distance, x0, [pwcf.ineq(lambda x: x.abs() - 1, fold=p)])
    torch.testing.assert_close(cube.objective, torch.full_like(cube.objective, 6.0), rtol=1e-4, atol=0)
    assert (cube.evidence.violation <= 1e-6).all()
    point = pwcf.minimize(distance, x0, [pwcf.eq(lambda x: x - corner, fold=p)])
    torch.testing.assert_close(point.x, corner.expand(2, -1), rtol=0, atol=1e-5)
