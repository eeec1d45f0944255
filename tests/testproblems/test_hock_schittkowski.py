"""The Hock-Schittkowski problems: optimum and feasibility at the minimizer, and functions that are fit for batches."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
from scipy.optimize import nnls
from torch import Tensor

from pwcf import testproblems
from pwcf.testproblems import TestProblem

HS = [testproblems.get(name) for name in testproblems.names() if re.fullmatch(r"hs\d+", name)]


def _ids(problem: TestProblem) -> str:
    return problem.name


def _functions(problem: TestProblem) -> list[Callable[[Tensor], Tensor]]:
    return [problem.objective] + [constraint.function for constraint in problem.constraints if constraint.function]


def _bounds(problem: TestProblem) -> tuple[Tensor, Tensor]:
    low, high = problem.bounds or (-torch.inf, torch.inf)
    return tuple(torch.as_tensor(side, dtype=torch.float64).expand(problem.n) for side in (low, high))


def test_numbers() -> None:
    """Each problem once, in the order of the book, and under its name in the package."""
    numbers = [int(problem.name[2:]) for problem in HS]
    assert numbers == sorted(set(numbers))
    assert testproblems.hs71().name == "hs71"


@pytest.mark.parametrize("problem", HS, ids=_ids)
def test_minimizer(problem: TestProblem) -> None:
    x = problem.minimizer[None]
    assert x.shape == (1, problem.n)
    assert float(problem.objective(x)) == pytest.approx(problem.optimum, rel=1e-9, abs=1e-9)
    low, high = _bounds(problem)
    assert ((low <= x) & (x <= high)).all()
    for constraint in problem.constraints:
        value = constraint.function(x)
        # The larger terms of a column cancel at the minimizer: rounding is relative to them, at most 1e6 here.
        assert float((value.abs() if constraint.sense == "eq" else value).max()) <= 1e-9


@pytest.mark.parametrize("problem", [problem for problem in HS if problem.name != "hs13"], ids=_ids)
def test_minimizer_is_stationary(problem: TestProblem) -> None:
    """The gradient is a combination of those of the active constraints (problem 13 has no multipliers)."""
    x = problem.minimizer
    low, high = _bounds(problem)
    gradient = torch.autograd.functional.jacobian(lambda z: problem.objective(z[None])[0], x)
    normals = [torch.eye(problem.n, dtype=x.dtype)[x == high], -torch.eye(problem.n, dtype=x.dtype)[x == low]]
    for constraint in problem.constraints:
        value = constraint.function(x[None])[0]
        rows = torch.autograd.functional.jacobian(lambda z, c=constraint: c.function(z[None])[0], x)
        normals += [rows, -rows] if constraint.sense == "eq" else [rows[value > -1e-7]]
    matrix = torch.cat(normals)
    matrix = matrix / matrix.norm(dim=1, keepdim=True).clamp_min(1e-300)
    residual = nnls(matrix.T.numpy(), -gradient.numpy())[1] if len(matrix) else float(gradient.norm())
    assert residual <= 1e-6 * max(1.0, float(gradient.norm()))


@pytest.mark.parametrize("problem", HS, ids=_ids)
def test_functions(problem: TestProblem) -> None:
    """Finite with finite gradients at the starts, every row on its own, in both precisions."""
    x = torch.cat([problem.start.clamp(*_bounds(problem))[None], problem.starts(2, seed=1)])
    assert len(problem.starts(8).unique(dim=0)) > 1
    for function in _functions(problem):
        leaf = x.clone().requires_grad_()
        value = function(leaf)
        assert value.shape[0] == 3
        assert value.dim() == (1 if function is problem.objective else 2)
        (gradient,) = torch.autograd.grad(value.sum(), leaf)
        assert value.isfinite().all()
        assert gradient.isfinite().all()
        for row in range(3):
            assert torch.equal(function(x[row : row + 1])[0], value[row])
        single = function(x.float())
        assert single.dtype == torch.float32
        assert torch.allclose(single.double(), value, rtol=1e-3, atol=1e-3 * float(value.detach().abs().max()))


@pytest.mark.parametrize("problem", [problem for problem in HS if problem.convex], ids=_ids)
def test_midpoint_convexity(problem: TestProblem) -> None:
    """Between points around the start, around the minimizer, and from one to the other."""
    wide = {**vars(problem), "spread": 12 * problem.spread}
    a = TestProblem(**wide).starts(50, seed=3)
    b = TestProblem(**{**wide, "start": problem.minimizer}).starts(50, seed=4)
    a, b = torch.cat([a, a, b]), torch.cat([b, a.flip(0), b.flip(0)])
    for function in _functions(problem):
        mean = (function(a) + function(b)) / 2
        assert (function((a + b) / 2) <= mean + 1e-9 * (1 + mean.abs())).all()
    for constraint in problem.constraints:
        if constraint.sense == "eq":
            mean = (constraint.function(a) + constraint.function(b)) / 2
            assert torch.allclose(constraint.function((a + b) / 2), mean)
