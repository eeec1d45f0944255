"""Local optimality: against values worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from pwcf import analysis

INF = math.inf


def of(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


ALL = torch.ones(4, dtype=torch.bool)


LAST_WRONG = torch.tensor([True, True, True, False])


def test_best_is_the_least_of_every_sample() -> None:
    assert analysis.best([of(1, INF, 3, INF), of(2, 5, 1, INF)]).tolist() == [1, 5, 1, INF]
    with pytest.raises(ValueError, match="at least one"):
        analysis.best([])


def test_local_optimality_by_hand() -> None:
    best = of(1, 2, 4, 2)
    # A* = 9/4, eps_max = 4, clean = 1: the room is 4 - 9/4 = 7/4. A = (2 + 2 + 4 + 4)/4 = 3: xi = 1 - (3/4)/(7/4).
    assert analysis.local_optimality(of(2, 2, 8, 4), best, ALL) == pytest.approx(4 / 7)
    assert analysis.local_optimality(best, best, ALL) == 1
    assert analysis.local_optimality(of(INF, INF, INF, INF), best, ALL) == 0


def test_local_optimality_counts_wrong_samples_by_the_clean_accuracy_and_missing_points_in_full() -> None:
    # Right: d* = 1, 3, inf; eps_max = 3, A* = (1 + 3 + 3)/4, room = 3/4 · 3 - 7/4 = 1/2.
    best = of(1, 3, INF, 0)
    # A = (1.5 + 3 + 3)/4: xi = 1 - (1/8)/(1/2).
    assert analysis.local_optimality(of(1.5, INF, INF, 0), best, LAST_WRONG) == pytest.approx(0.75)
    # What a sample that is wrong holds is of no importance.
    assert analysis.local_optimality(of(1.5, INF, INF, 9), of(1, 3, INF, 9), LAST_WRONG) == pytest.approx(0.75)


def test_local_optimality_says_nothing_where_there_is_nothing_to_say() -> None:
    assert math.isnan(analysis.local_optimality(of(INF, INF), of(INF, INF), ALL[:2]))
    # Up to eps_max, the only best radius there is, no attack breaks anything.
    assert math.isnan(analysis.local_optimality(of(5, 5), of(0.3, 0.3), ALL[:2]))


def test_area_is_that_under_the_curve() -> None:
    radius = 3 * torch.rand(50, dtype=torch.float64)
    radius[7] = INF
    right = torch.rand(50) < 0.8
    eps, accuracy = analysis.robust_accuracy_curve(radius, right)
    eps_max = 2.0
    edges = torch.cat((eps[eps < eps_max], of(eps_max)))
    by_steps = (edges.diff() * accuracy[: len(edges) - 1]).sum()
    assert analysis.area(radius, right, eps_max) == pytest.approx(float(by_steps), rel=1e-12)
