"""How many operations, and how many waits of the host, an evaluation costs beside the user's functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import pwcf
from pwcf import testproblems
from pwcf.solvers.oracle import Oracle

# The limits below are a little above what it takes today: raise them only for something that is worth its price.
WAITS = ("aten::_local_scalar_dense", "aten::nonzero", "aten::is_nonzero", "aten::equal")


class _OperationCount(TorchDispatchMode):
    """Counts operations and those that wait for the device, except while it is paused."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = self.waits = self.evaluations = 0
        self.paused = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not self.paused:
            name = func._schema.name
            indices = args[1] if name.startswith("aten::index") and isinstance(args[1], (list, tuple)) else ()
            self.operations += 1
            self.waits += name in WAITS or any(
                isinstance(index, Tensor) and index.dtype == torch.bool for index in indices
            )
        return func(*args, **(kwargs or {}))


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], tuple[float, float]]:
    """Operations and waits per evaluation of what is called."""
    evaluate = Oracle.evaluate

    def run(solve: Callable[[], Any]) -> tuple[float, float]:
        counter = _OperationCount()

        def paused(self: Oracle, x: Tensor, rows: Tensor) -> Any:
            counter.paused, counter.evaluations = True, counter.evaluations + 1
            try:
                return evaluate(self, x, rows)
            finally:
                counter.paused = False

        monkeypatch.setattr(Oracle, "evaluate", paused)
        with counter:
            solve()
        return counter.operations / counter.evaluations, counter.waits / counter.evaluations

    return run


def _linf_radius(rows: int, n: int) -> Callable[[], pwcf.Solution]:
    """The paper's form: min tau s.t. f_y - max_other f <= 0, |x' - x| <= tau and 0 <= x' <= 1, both folded."""
    W, U, x = torch.randn(n, 16) / n**0.5, torch.randn(16, 5), 0.5 + 0.1 * torch.randn(rows, n).clamp(-2, 2)
    label = (torch.tanh(x @ W) @ U).argmax(1)

    def condition(z: Tensor, index: Tensor) -> Tensor:
        logits, own = torch.tanh(z[:, :n] @ W) @ U, label[index].unsqueeze(1)
        return logits.gather(1, own).squeeze(1) - logits.scatter(1, own, -torch.inf).amax(1)

    def slack(z: Tensor, index: Tensor) -> Tensor:
        move, tau = n**0.5 * (z[:, :n] - x[index]), z[:, n:]
        return torch.cat([move - tau, -move - tau], 1)

    def box(z: Tensor) -> Tensor:
        return torch.cat([-z[:, :n], z[:, :n] - 1], 1)

    start = x + 0.05 * torch.randn(rows, n)
    start = torch.cat([start, n**0.5 * (start - x).abs().amax(1, keepdim=True)], 1)
    least = torch.cat([torch.full((n,), -torch.inf), torch.zeros(1)])
    constraints = [pwcf.ineq(condition), pwcf.ineq(slack, fold=True), pwcf.ineq(box, fold=True)]
    return lambda: pwcf.minimize(lambda z: z[:, n], start, constraints, bounds=(least, None), budget=15)


def test_operations_of_one_smooth_row(count: Callable[[Callable[[], Any]], tuple[float, float]]) -> None:
    problem = testproblems.get("hs71")
    start = problem.start.double().unsqueeze(0)
    operations, waits = count(
        lambda: pwcf.minimize(problem.objective, start, list(problem.constraints), bounds=problem.bounds)
    )
    assert operations <= 150
    assert waits <= 2


def test_operations_of_the_papers_formulation(count: Callable[[Callable[[], Any]], tuple[float, float]]) -> None:
    operations, waits = count(_linf_radius(8, 48))
    assert operations <= 400
    assert waits <= 2
