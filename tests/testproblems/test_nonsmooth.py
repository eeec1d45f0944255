"""The minimax, nonsmooth and complementarity problems: form, optima and smooth pieces."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pwcf import testproblems
from pwcf.testproblems import TestProblem, problem

MODULES = {"minimax", "approximation", "nonsmooth", "complementarity"}
ALL = [make() for make in problem._REGISTRY.values() if make.__module__.rpartition(".")[2] in MODULES]
MINIMAX = [p for p in ALL if p.pieces is not None]


def _ids(p: TestProblem) -> str:
    return p.name


def _violation(p: TestProblem, x: Tensor) -> float:
    worst = [0.0]
    for constraint in p.constraints:
        assert constraint.function is not None
        value = constraint.function(x)
        worst.append(float((value if constraint.sense == "ineq" else value.abs()).max()))
    if p.bounds is not None:
        low, high = (torch.as_tensor(side, dtype=torch.float64) for side in p.bounds)
        worst += [float((low - x).max()), float((x - high).max())]
    return max(worst)


def test_how_many() -> None:
    assert len(ALL) >= 60
    assert len(MINIMAX) >= 35
    assert sum("MacMPEC" in p.reference for p in ALL) >= 25
    assert all(testproblems.get(p.name).n == p.n for p in ALL)


@pytest.mark.parametrize("p", ALL, ids=_ids)
def test_optimum_at_the_minimizer(p: TestProblem) -> None:
    assert p.minimizer is not None
    assert p.minimizer.shape == p.start.shape == (p.n,)
    value = float(p.objective(p.minimizer[None]))
    assert value == pytest.approx(p.optimum, rel=1e-9, abs=1e-9)
    assert _violation(p, p.minimizer[None]) <= 1e-9


@pytest.mark.parametrize("p", ALL, ids=_ids)
def test_start_and_rows(p: TestProblem) -> None:
    x = torch.cat([p.start[None], p.starts(3)]).requires_grad_()
    value = p.objective(x)
    assert value.shape == (4,)
    (gradient,) = torch.autograd.grad(value.sum(), x)
    assert value.isfinite().all()
    assert gradient.isfinite().all()
    alone = torch.cat([p.objective(row[None]) for row in x])
    assert torch.equal(alone, value)
    assert p.objective(x.float()).dtype == torch.float32


@pytest.mark.parametrize("p", MINIMAX, ids=_ids)
def test_objective_is_the_maximum_of_the_pieces(p: TestProblem) -> None:
    assert p.pieces is not None
    x = p.starts(5, seed=2)
    values = p.pieces(x)
    assert values.shape[0] == 5
    assert values.shape[1] >= 2
    assert torch.equal(values.amax(-1), p.objective(x))


@pytest.mark.parametrize("p", MINIMAX, ids=_ids)
def test_pieces_are_stationary_at_the_minimizer(p: TestProblem) -> None:
    """No direction of length 1e-3 lowers the linearised maximum by more than the curvature can hide (unconstrained)."""
    if p.constraints or p.bounds is not None:
        pytest.skip("multipliers of the constraints take part")
    assert p.pieces is not None
    assert p.minimizer is not None
    x = p.minimizer.clone()
    pieces = p.pieces
    jacobian = torch.autograd.functional.jacobian(lambda z: pieces(z[None])[0], x)
    values = pieces(x[None])[0]
    generator = torch.Generator().manual_seed(0)
    steps = torch.randn(2000, p.n, generator=generator, dtype=torch.float64)
    steps = 1e-3 * steps / steps.norm(dim=-1, keepdim=True)
    linear = (values + steps @ jacobian.T).amax(-1)
    assert float(linear.min()) >= p.optimum - 1e-8 * max(1.0, abs(p.optimum))
