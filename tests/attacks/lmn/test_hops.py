"""Hops: restarts of one row from noise around the best point so far."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from pwcf import MinRadius
from pwcf.attacks.agreement import HOP
from pwcf.attacks.linearised.schedule import FIRST_HOP, FIRST_HOP_L1, FIRST_HOP_LINF, endless
from pwcf.attacks.linearised.search import HOP_SIZE
from pwcf.attacks.lmn.attack import LmnSearch
from pwcf.metrics import L1, L2, Linf, Metric
from pwcf.models import Classifier, CountedClassifier
from searches import search_of

ROWS, N, BUDGET = 4, 48, 3500
GENERATOR = torch.Generator().manual_seed(3)
W, U = torch.randn(N, 24, generator=GENERATOR), torch.randn(24, 6, generator=GENERATOR)
IMAGES = 0.3 + 0.4 * torch.rand(ROWS, N, generator=GENERATOR)


def _network(x: Tensor) -> Tensor:
    return torch.tanh((x - 0.5) @ W.to(x)) @ U.to(x)


def _search(norm: str, rows: slice = slice(None)) -> LmnSearch:
    classifier, images = Classifier(_network), IMAGES[rows].double()
    return search_of(
        CountedClassifier(classifier, len(images)), MinRadius(norm), images, _network(images).argmax(1), BUDGET
    )


@pytest.mark.parametrize(("metric", "first"), [(L1(), FIRST_HOP_L1), (L2(), FIRST_HOP), (Linf(), FIRST_HOP_LINF)])
def test_every_second_restart_is_a_hop_of_one_row_from_one_on(metric: Metric, first: int) -> None:
    plan = endless(metric, 10_000, 10)
    assert plan is not None
    stages = {number: plan.restart(number) for number in range(1, 30)}
    assert [number for number, stage in stages.items() if stage.start == "hop"] == list(range(first, 30, 2))
    assert {stage.targets for stage in stages.values() if stage.start == "hop"} == {1}
    assert all(2 * stage.steps <= plan.restart_passes for stage in stages.values())


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_a_hop_begins_around_the_best_point(norm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise has as many times the length of the move; a start at noise around the image would be farther away."""
    start, shares = LmnSearch._start, []

    def watched(self: LmnSearch, stage: Any, *args: Any) -> Tensor:
        where = start(self, stage, *args)
        if stage.start == "hop":
            image = args[2]
            move = (self.table.best()[1] - self.centre)[image]
            step = where - self.table.best()[1][image]
            order = torch.inf if norm == "linf" else 2
            shares.append(step.norm(order, dim=1) / (HOP_SIZE * move.norm(order, dim=1)))
            # Noise is independent of the move: on the average a start has the whole move in it.
            towards.append(((where - self.centre[image]) * move).sum(1) / move.square().sum(1))
        return where

    towards: list[Tensor] = []
    monkeypatch.setattr(LmnSearch, "_start", watched)
    _search(norm).run()
    assert len(shares) >= 2
    assert torch.cat(shares).max() <= 1.25
    assert 0.6 < torch.cat(towards).mean() < 1.4


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_a_sample_with_hops_has_the_same_answer_alone(norm: str) -> None:
    together = _search(norm).run()
    assert together.diagnostics.searches is not None
    assert (together.diagnostics.searches.began == HOP).any()
    for row in range(ROWS):
        alone = _search(norm, slice(row, row + 1)).run()
        torch.testing.assert_close(alone.points, together.points[row : row + 1], rtol=1e-7, atol=1e-9)
