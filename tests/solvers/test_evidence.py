"""Honest evidence: what a solution says of itself is true, checked against known optima."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from torch import Tensor

import pwcf
from pwcf import Solution, testproblems
from pwcf.solvers.folding import fold
from pwcf.testproblems import TestProblem

# Convex families with a known optimum other than zero.
FAMILIES: dict[str, dict[str, Any]] = {
    "max_affine": {"n": 5},
    "least_absolute_deviations": {"n": 5},
    "classifier_linf": {"n": 8},
    "classifier_l1": {"n": 8},
    "classifier_l2": {"n": 8},
    "linear_lp_ball": {"n": 6, "p": 1.5},
    "linear_l1_ball": {"n": 6},
    "linear_linf_ball": {"n": 6},
    "projection_lp_ball": {"n": 6, "p": 1.5},
    "projection_simplex": {"n": 6},
    "lasso_box": {"n": 6, "m": 9},
}
SINGLE = ("least_absolute_deviations", "classifier_l2", "linear_lp_ball", "projection_lp_ball", "lasso_box")
CASES = pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, torch.float64) for name in FAMILIES] + [(name, torch.float32) for name in SINGLE],
)
SEEDS = (1, 1001)
F64 = torch.float64


@functools.cache
def _solved(name: str, dtype: torch.dtype) -> list[tuple[TestProblem, Solution]]:
    """Two instances of a family, two starts each."""
    solved = []
    for seed in SEEDS:
        problem = testproblems.get(name, **FAMILIES[name], seed=seed)
        x0 = problem.starts(2, seed=seed, dtype=dtype)
        solution = pwcf.minimize(problem.objective, x0, problem.constraints, bounds=problem.bounds, max_iterations=250)
        solved.append((problem, solution))
    return solved


def _excess(problem: TestProblem, solution: Solution) -> Tensor:
    """True excess, relative to the objective."""
    assert abs(problem.optimum) > 0.01
    return (solution.objective - problem.optimum) / solution.objective.abs()


def _violation(problem: TestProblem, x: Tensor) -> Tensor:
    """Total violation at x as the documentation defines it."""
    total = torch.zeros(len(x), dtype=torch.float64)
    for constraint in problem.constraints:
        assert constraint.function is not None
        values = constraint.function(x)
        values = values.unsqueeze(-1) if values.dim() == 1 else values
        if constraint.fold is not None:
            total += fold(values, constraint.sense, constraint.fold).double()
        else:
            total += (values.abs() if constraint.sense == "eq" else values.clamp(min=0)).double().sum(-1)
    return total


@CASES
def test_converged_rows_are_near_the_optimum(name: str, dtype: torch.dtype) -> None:
    for problem, solution in _solved(name, dtype):
        excess = _excess(problem, solution)[solution.converged]
        assert (excess <= 1e-2).all(), excess


@pytest.mark.parametrize("name", FAMILIES)
def test_the_bound_holds(name: str) -> None:
    """For convex problems stationarity is at least the true excess."""
    for problem, solution in _solved(name, torch.float64):
        bound = solution.evidence.stationarity[solution.converged]
        assert (bound >= _excess(problem, solution)[solution.converged] - 1e-6).all()
        assert (bound <= 1e-4).all()


def test_most_rows_converge() -> None:
    converged = torch.cat([solution.converged for name in FAMILIES for _, solution in _solved(name, torch.float64)])
    assert converged.double().mean() > 0.5


@pytest.mark.parametrize("name", ["max_affine", "least_absolute_deviations", "linear_lp_ball", "lasso_box"])
def test_every_row_converges_on_easy_families(name: str) -> None:
    for _, solution in _solved(name, torch.float64):
        assert solution.converged.all(), solution.summary()


@CASES
def test_reported_numbers_are_those_of_the_point(name: str, dtype: torch.dtype) -> None:
    rounding = 1e-12 if dtype == torch.float64 else 1e-5
    feasibility = 1e-6 if dtype == torch.float64 else 1e-5
    for problem, solution in _solved(name, dtype):
        value = problem.objective(solution.x).double()
        torch.testing.assert_close(solution.objective, value, rtol=rounding, atol=rounding)
        violation = _violation(problem, solution.x)
        torch.testing.assert_close(solution.evidence.violation, violation, rtol=rounding, atol=rounding)
        assert (solution.evidence.violation[solution.converged] <= feasibility).all()
        if problem.bounds is not None:
            low, high = (torch.as_tensor(side).to(solution.x) for side in problem.bounds)
            assert ((solution.x >= low) & (solution.x <= high)).all()


@CASES
def test_no_row_is_better_than_the_optimum(name: str, dtype: torch.dtype) -> None:
    """Beyond what the tolerance on feasibility may bring."""
    slack = 1e-4 if dtype == torch.float64 else 1e-3
    for problem, solution in _solved(name, dtype):
        feasible = solution.evidence.violation <= (1e-6 if dtype == torch.float64 else 1e-5)
        assert (_excess(problem, solution)[feasible] >= -slack).all()


@pytest.mark.parametrize("tol", [1e-2, 1e-6])
def test_tol_is_kept(tol: float) -> None:
    problem = testproblems.get("least_absolute_deviations", n=4)
    solution = pwcf.minimize(problem.objective, problem.starts(4), tol=tol)
    assert solution.converged.all()
    assert (solution.evidence.stationarity <= tol).all()
    assert (_excess(problem, solution) <= tol).all()


def test_interrupted_rows_have_evidence_but_no_claim() -> None:
    """A bound is computed for rows that hit a limit; it holds for them too."""
    problem = testproblems.get("least_absolute_deviations", n=4)
    solution = pwcf.minimize(problem.objective, problem.starts(4), max_iterations=5)
    assert not solution.converged.any()
    excess = _excess(problem, solution)
    assert (solution.evidence.stationarity >= excess - 1e-6).all()
    assert (excess > 1e-4).all()


def test_an_infeasible_point_is_no_evidence() -> None:
    """A row without a feasible point does not bound anything."""
    line = pwcf.eq(lambda x: x.sum(-1) - 100)
    solution = pwcf.minimize(lambda x: (x**2).sum(-1) + 1, torch.zeros(2, 3, dtype=torch.float64), [line], budget=1)
    assert (solution.evidence.violation == 100).all()
    assert (solution.evidence.stationarity == torch.inf).all()
    assert not solution.converged.any()


def test_a_saddle_or_a_local_minimum_is_not_judged_by_step_length_alone() -> None:
    """Far from the minimum on a nearly flat slope: a small gradient is not a small excess."""

    def objective(x: Tensor) -> Tensor:
        return 1 + 1e-3 * (x - 50).abs().sum(-1)

    solution = pwcf.minimize(objective, torch.zeros(2, 3, dtype=torch.float64))
    excess = (solution.objective - 1) / solution.objective
    assert (excess[solution.converged] <= 1e-2).all()
    assert solution.converged.any()


# ---- behind the folds, and the published test ---------------------------------------------------------


def _slack_problem(rows: int, n: int) -> tuple[Tensor, Tensor, list[pwcf.Constraint]]:
    """min t s.t. |x - a| <= t (folded) and w'x + beta <= 0: starts, optimum margin / ||w||_1, constraints."""
    generator = torch.Generator().manual_seed(3)
    a = torch.rand(rows, n, dtype=F64, generator=generator)
    w = torch.randn(rows, n, dtype=F64, generator=generator)
    beta = 0.5 - (w * a).sum(-1)  # margin 1/2 at a

    def slack(x: Tensor, index: Tensor) -> Tensor:
        deviation = x[:, :-1] - a[index]
        return torch.cat([deviation - x[:, -1:], -deviation - x[:, -1:]], 1)

    def boundary(x: Tensor, index: Tensor) -> Tensor:
        return (w[index] * x[:, :-1]).sum(-1) + beta[index]

    starts = torch.cat([a, torch.ones(rows, 1, dtype=F64)], 1)
    return starts, 0.5 / w.abs().sum(-1), [pwcf.ineq(slack, fold=True), pwcf.ineq(boundary)]


def test_claims_on_folded_slack_forms_rest_on_the_constraints_behind_the_fold() -> None:
    starts, optimum, constraints = _slack_problem(12, 6)
    solution = pwcf.minimize(lambda x: x[:, -1], starts, constraints)
    excess = (solution.objective - optimum) / optimum
    assert excess.abs().max() <= 1e-4
    assert solution.converged.sum() >= 10


def test_published_test_is_another_test() -> None:
    """It stops where its step is short, which on a vertex can be anywhere: that is why it is not the default."""
    generator = torch.Generator().manual_seed(0)
    a, w = (torch.rand(20, 10, dtype=F64, generator=generator) for _ in range(2))
    halfspace = pwcf.ineq(lambda x, rows: 1 - (w[rows] * (x - a[rows])).sum(-1))

    def solve(test: str) -> pwcf.Solution:
        return pwcf.minimize(lambda x, rows: (x - a[rows]).abs().amax(-1), a + 0.01, [halfspace], tol=1e-2, test=test)

    optimum = 1 / w.abs().sum(-1)
    bundle, published = solve("bundle"), solve("published")
    assert (((published.objective - optimum) / optimum)[published.converged] > 1e-2).any()
    assert (((bundle.objective - optimum) / optimum)[bundle.converged] <= 1e-2).all()
