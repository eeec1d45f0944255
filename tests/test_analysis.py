"""Analysis of radii: against values worked out by hand."""

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


def test_robust_accuracy_and_its_curve() -> None:
    radius = of(1, 2, 2, 0)
    eps, accuracy = analysis.robust_accuracy_curve(radius, LAST_WRONG)
    assert eps.tolist() == [0, 1, 2]
    assert accuracy.tolist() == [0.75, 0.5, 0]
    for at, expected in ((0.99, 0.75), (1, 0.5), (1.99, 0.5), (2, 0)):
        assert analysis.robust_accuracy_at(radius, LAST_WRONG, at) == expected
    # A sample without a class is not right, so it is not robust, though it has no point either.
    assert analysis.robust_accuracy_at(of(INF, INF, 1, INF), LAST_WRONG, 1) == 0.5
    assert analysis.robust_accuracy(torch.tensor([True, False, False, False]), LAST_WRONG) == 0.5


def test_spread_is_over_what_was_found() -> None:
    found = analysis.spread(of(1, 2, INF, 0), LAST_WRONG)
    assert (found.right, found.found) == (3, 2)
    assert (found.mean, found.median, found.std) == (1.5, 1.5, 0.5)
    assert analysis.filled_mean(of(1, 2, INF, 0), LAST_WRONG, 6) == 3
    none = analysis.spread(of(INF, INF), ALL[:2])
    assert none.found == 0
    assert math.isnan(none.mean)


def test_wins_need_more_than_a_percent() -> None:
    a, b = of(1, 0.995, 1, INF), of(1.02, 1, INF, INF)
    assert analysis.wins([a, b], ALL).tolist() == [[0, 0.5], [0, 0]]
    # Of the samples that are right.
    assert analysis.wins([a, b], torch.tensor([True, True, False, False])).tolist() == [[0, 0.5], [0, 0]]
    assert analysis.wins([a, b], torch.tensor([True, False, False, False])).tolist() == [[0, 1], [0, 0]]


def test_comparison_is_over_samples_that_both_have() -> None:
    found = analysis.compare(of(1, 2, INF, 0), of(2, 5, 1, 7), LAST_WRONG)
    assert (found.first.right, found.first.found) == (3, 2)
    assert (found.first.mean, found.second.mean, found.difference.mean) == (1.5, 3.5, -2)
    assert (found.first.std, found.second.std, found.difference.std) == (0.5, 1.5, 1)
    three = analysis.compare(of(1, 2, 9), of(2, 2, 2), ALL[:3])
    assert three.difference.median == 0
    assert three.first.median == 2
