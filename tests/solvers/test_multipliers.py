"""Lagrange multipliers at the answer: known ones, their signs and shapes, and what is said of kinks."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import pwcf
from pwcf import testproblems
from pwcf.solvers import Solution

F64 = torch.float64


def _solve(name: str, rows: int = 3, **settings: object) -> tuple[pwcf.testproblems.TestProblem, Solution]:
    problem = testproblems.get(name)
    arguments: dict[str, object] = {"bounds": problem.bounds} | settings
    return problem, pwcf.minimize(problem.objective, problem.starts(rows), problem.constraints, **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # from the solution of the KKT system at the published minimizers
        ("hs71", [[0.55229366], [0.16146857]]),
        ("hs43", [[1.0, 0.0, 2.0]]),
        ("hs100", [[1.13972, 0.0, 0.0, 0.36861]]),
        ("hs76", [[5 / 11, 0.0, 0.0]]),
        ("hs40", [[0.5, -0.47194, 0.35355]]),
    ],
)
def test_known_multipliers(name: str, expected: list[list[float]]) -> None:
    """To 1e-3 at answers that are accurate to a tol of 1e-6."""
    problem, solution = _solve(name, tol=1e-6)
    assert solution.converged.all()
    assert len(solution.multipliers) == len(problem.constraints)
    for found, known in zip(solution.multipliers, expected, strict=True):
        right = torch.tensor(known, dtype=F64).expand(3, -1)
        torch.testing.assert_close(found.reshape(3, -1), right, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["hs21", "hs35", "hs71", "hs76", "hs43"])
def test_the_gradient_of_the_lagrangian_vanishes(name: str) -> None:
    problem, solution = _solve(name, tol=1e-6)
    x = solution.x.clone().requires_grad_(True)
    lagrangian = problem.objective(x) + (solution.bound_multipliers * x).sum(1)
    for constraint, k in zip(problem.constraints, solution.multipliers, strict=True):
        assert constraint.function is not None
        values = constraint.function(x)
        if constraint.sense == "ineq":
            assert (k >= 0).all()
        lagrangian = lagrangian + (k.reshape(values.shape) * values).reshape(3, -1).sum(1)
    (gradient,) = torch.autograd.grad(lagrangian.sum(), x)
    (plain,) = torch.autograd.grad(problem.objective(x).sum(), x)
    assert (gradient.norm(dim=1) <= 1e-3 * plain.norm(dim=1)).all()


def test_signs_and_shapes_of_bound_multipliers() -> None:
    """min (x - 3)^2 + (y + 3)^2 + z^2 over the box [-1, 1]^3 has multipliers 4 above, -4 below, 0 inside."""
    target = torch.tensor([3.0, -3.0, 0.0], dtype=F64)
    solution = pwcf.minimize(lambda x: ((x - target) ** 2).sum(-1), torch.zeros(2, 3, dtype=F64), bounds=(-1, 1))
    assert solution.multipliers == []
    torch.testing.assert_close(
        solution.bound_multipliers, torch.tensor([[4.0, -4.0, 0.0]], dtype=F64).expand(2, 3), rtol=0, atol=1e-6
    )


def test_a_multiplier_is_the_price_of_its_constraint() -> None:
    def solve(room: float) -> Solution:
        ball = pwcf.ineq(lambda x: (x**2).sum(-1) - room)
        return pwcf.minimize(
            lambda x: (x[..., 0] - 2) ** 2 + (x[..., 1] - 1) ** 2, torch.ones(2, dtype=F64), [ball], tol=1e-6
        )

    middle, price = solve(1.0), (solve(0.99).objective - solve(1.01).objective) / 0.02
    torch.testing.assert_close(middle.multipliers[0], price, rtol=1e-3, atol=0)


def test_of_equal_constraints_only_the_active_ones_count() -> None:
    """x >= 1 three times: as a constraint, farther away, and as twice the same."""
    bounds = pwcf.ineq(lambda x: torch.stack([1 - x[:, 0], 0.5 - x[:, 0], 2 - 2 * x[:, 0]], 1))
    solution = pwcf.minimize(lambda x: 4 * (x**2).sum(1), torch.full((2, 2), 3.0, dtype=F64), [bounds])
    near, far, double = solution.multipliers[0].unbind(1)
    assert (far == 0).all()
    torch.testing.assert_close(near + 2 * double, torch.full((2,), 8.0, dtype=F64), rtol=1e-3, atol=0)


# ---- kinks --------------------------------------------------------------------------------------------


def _kink(x: Tensor) -> Tensor:
    return torch.maximum(3 * x[..., 0], x[..., 1]) + x[..., 2]


@pytest.mark.parametrize("keep_state", [False, True])
def test_multipliers_where_two_faces_meet(keep_state: bool) -> None:
    """max(3x, y) on x + y >= 1: no face alone gives the multiplier 3/4, which is 3/2 or 1/2 there."""
    half = pwcf.ineq(lambda x: 1 - x[..., :2].sum(-1))
    x0 = torch.tensor([[3.0, 1.0, 2.0], [0.0, 2.0, 1.0]], dtype=F64)
    lower = torch.tensor([-9.0, -9.0, 0.5], dtype=F64)
    solution = pwcf.minimize(_kink, x0, [half], bounds=(lower, None), keep_state=keep_state)
    assert solution.converged.all()
    torch.testing.assert_close(solution.multipliers[0], torch.full((2,), 0.75, dtype=F64), rtol=1e-3, atol=0)
    at_bounds = solution.bound_multipliers
    assert (at_bounds[:, :2] == 0).all()
    if keep_state:
        torch.testing.assert_close(at_bounds[:, 2], torch.full((2,), -1.0, dtype=F64), rtol=1e-3, atol=0)
    else:  # one gradient does not say
        assert at_bounds[:, 2].isnan().all()


def test_a_fold_has_one_multiplier() -> None:
    corner = pwcf.ineq(lambda x: 1 - x, fold=True)
    one = pwcf.minimize(lambda x: x.sum() + 1, torch.full((2,), 3.0, dtype=F64), [corner])
    rows = pwcf.minimize(lambda x: x.sum(1) + 1, torch.full((2, 2), 3.0, dtype=F64), [corner])
    assert one.multipliers[0].shape == ()
    assert rows.multipliers[0].shape == (2,)
    # the multiplier of the norm of (1 - x)+ at the corner is at least the norm of (1, 1)
    assert (rows.multipliers[0] >= 2**0.5 - 1e-2).all()


# ---- cost ---------------------------------------------------------------------------------------------


def test_multipliers_cost_one_evaluation_and_only_if_asked() -> None:
    calls: list[int] = []

    def objective(x: Tensor) -> Tensor:
        calls.append(len(x))
        return (x**2).sum(1)

    half = pwcf.ineq(lambda x: 1 - x.sum(1))
    solution = pwcf.minimize(objective, torch.ones(4, 3, dtype=F64), [half], slots=2)
    before = len(calls)
    assert solution.multipliers[0] is solution.multipliers[0]
    assert solution.bound_multipliers.shape == (4, 3)
    assert calls[before:] == [2, 2]


def test_rows_without_finite_values_have_no_multipliers() -> None:
    offset = torch.tensor([0.0, torch.nan], dtype=F64)
    half = pwcf.ineq(lambda x: 1 - x.sum(1))
    x0 = torch.ones(2, 2, dtype=F64)
    solution = pwcf.minimize(lambda x, rows: (x**2).sum(1) + offset[rows], x0, [half])
    assert solution.multipliers[0].isnan().tolist() == [False, True]


def test_empty_batch() -> None:
    solution = pwcf.minimize(lambda x: x.sum(1), torch.zeros(0, 3), [pwcf.ineq(lambda x: x)])
    assert solution.multipliers[0].numel() == 0
    assert solution.bound_multipliers.shape == (0, 3)


def test_multipliers_of_rows_together_equal_those_of_rows_alone() -> None:
    problem, together = _solve("hs71", rows=4, tol=1e-6)
    for row, start in enumerate(problem.starts(4)):
        alone = pwcf.minimize(problem.objective, start[None], problem.constraints, bounds=problem.bounds, tol=1e-6)
        for many, one in zip(together.multipliers, alone.multipliers, strict=True):
            torch.testing.assert_close(many[row], one[0], rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(together.bound_multipliers[row], alone.bound_multipliers[0], rtol=1e-9, atol=1e-12)
