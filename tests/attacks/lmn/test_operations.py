"""How many operations, and how many waits of the host, a step costs beside the model."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from pwcf import MinRadius
from pwcf._common import rows
from pwcf.attacks.linearised.search import SearchRows
from pwcf.attacks.lmn.attack import LmnSearch
from pwcf.models import Classifier, CountedClassifier
from searches import search_of

WAITS = ("aten::_local_scalar_dense", "aten::nonzero", "aten::is_nonzero", "aten::equal")
ROWS, N = 8, 192


class _StepCount(TorchDispatchMode):
    """Counts operations and those that wait for the device, while it is on."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = self.waits = self.steps = 0
        self.on = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self.on:
            name = func._schema.name
            indices = args[1] if name.startswith("aten::index") and isinstance(args[1], (list, tuple)) else ()
            self.operations += 1
            self.waits += name in WAITS or any(isinstance(i, Tensor) and i.dtype == torch.bool for i in indices)
        return func(*args, **(kwargs or {}))


def _points(norm: str) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    W, U = torch.randn(N, 32, generator=generator) / N**0.5, torch.randn(32, 10, generator=generator)
    classifier = Classifier(lambda x: torch.tanh((x - 0.5) @ W) @ U)
    images = 0.5 + 0.2 * torch.randn(ROWS, N, generator=generator).clamp(-2, 2)
    labels, problem = classifier(images).argmax(1), MinRadius(norm)
    return search_of(CountedClassifier(classifier, ROWS), problem, images, labels, 500).run().points


@pytest.fixture
def counter(monkeypatch: pytest.MonkeyPatch) -> _StepCount:
    """On during every step, except while the model is asked."""
    counter = _StepCount()
    step, linearise = LmnSearch._step, LmnSearch.linearise

    def counted(self: LmnSearch, *args: Any) -> SearchRows:
        counter.on, counter.steps = True, counter.steps + 1
        try:
            return step(self, *args)
        finally:
            counter.on = False

    def not_counted(self: LmnSearch, *args: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        counter.on = False
        try:
            return linearise(self, *args)
        finally:
            counter.on = True

    monkeypatch.setattr(LmnSearch, "_step", counted)
    monkeypatch.setattr(LmnSearch, "linearise", not_counted)
    return counter


# The limits are a little above what it takes today: raise them only for something that is worth its price.
@pytest.mark.parametrize(("norm", "limit"), [("l1", 330), ("l2", 90), ("linf", 210)])
def test_operations_of_a_step(norm: str, limit: int, counter: _StepCount) -> None:
    with counter:
        _points(norm)
    assert counter.operations <= limit * counter.steps


@pytest.mark.parametrize(("norm", "limit"), [("l1", 500), ("l2", 210), ("linf", 390)])
def test_a_step_on_an_accelerator_waits_twice_for_the_same_points(
    norm: str, limit: int, counter: _StepCount, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_cpu = _points(norm)
    counter.steps = 0
    monkeypatch.setattr(rows, "waits_are_free", lambda tensor: False)
    with counter:
        points = _points(norm)
    assert counter.waits <= 2 * counter.steps
    assert counter.operations <= limit * counter.steps
    assert torch.equal(points, on_cpu)
