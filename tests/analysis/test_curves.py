"""Robust accuracy at one eps and over all of them, and where curves cross."""

from __future__ import annotations

import math

import pytest
import scipy.stats
import torch
from torch import Tensor

import pwcf
from pwcf import analysis
from runs_by_hand import run_of

INF = math.inf


def of(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


LAST_WRONG = torch.tensor([True, True, True, False])


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


def test_accuracy_at_eps_counts_who_may_still_fall() -> None:
    run = run_of("ccbnwx", [1, 3, 3, INF, 0, INF])
    found = analysis.accuracy_of(run, 2.0)
    # 3 (converged), 3 (budget) and the one without a point stand; the last two of these are not settled.
    assert (found.samples, found.robust, found.clean, found.unsettled) == (6, 0.5, 4 / 6, 2)
    assert found.least == pytest.approx(1 / 6)
    assert found.low < 0.5 < found.high
    assert analysis.accuracy_of(run, 3.0).robust == pytest.approx(1 / 6)  # a radius of eps is broken


def test_accuracy_of_max_loss_is_its_own_and_nothing_that_stands_is_proved() -> None:
    run = run_of("ffnnw", [1, 1, INF, INF, 0], pwcf.MaxLoss("l2", 1.5))
    found = analysis.accuracy_of(run)
    assert (found.eps, found.robust, found.unsettled) == (1.5, 0.4, 2)
    with pytest.raises(ValueError, match="eps: expected none"):
        analysis.accuracy_of(run, 1.0)
    with pytest.raises(ValueError, match="eps: expected a number"):
        analysis.accuracy_of(run_of("c", [1]))


@pytest.mark.parametrize(("hits", "n"), [(0, 10), (3, 10), (10, 10), (480, 500)])
def test_wilson_is_scipys(hits: int, n: int) -> None:
    theirs = scipy.stats.binomtest(hits, n).proportion_ci(0.95, "wilson")
    assert analysis.wilson(hits, n) == pytest.approx((theirs.low, theirs.high))


def test_curve_reads_off_between_its_steps() -> None:
    curve = analysis.curve_of(run_of("ccbnw", [1, 3, 2, INF, 0]))
    assert curve.eps.tolist() == [0, 1, 2, 3]
    assert [curve.at(eps) for eps in (0, 0.5, 1, 2.5, 99)] == pytest.approx([0.8, 0.8, 0.6, 0.4, 0.2])
    with pytest.raises(ValueError, match="MinRadius"):
        analysis.curve_of(run_of("f", [1], pwcf.MaxLoss("l2", 1)))


def test_crossings_are_where_the_order_turns_and_touching_is_none() -> None:
    flat = analysis.curve_of(run_of("cccc", [1, 2, 3, 4]))
    steep = analysis.curve_of(run_of("cccc", [1.5, 2.1, 2.2, 2.3]))
    found = analysis.crossings({"flat": flat, "steep": steep})
    # At 1 flat loses one and steep is ahead; at 2.2 steep has lost three, flat two.
    assert [(c.eps, c.before, c.after) for c in found] == [(pytest.approx(2.2), "steep", "flat")]
    assert analysis.crossings({"a": flat, "b": flat}) == []
    touching = analysis.curve_of(run_of("cccc", [1, 2, 3.5, 4.5]))
    assert analysis.crossings({"a": flat, "b": touching}) == []
    with pytest.raises(ValueError, match="one metric, found l1, l2"):
        analysis.curves_of({"a": run_of("c", [1]), "b": run_of("c", [1], pwcf.MinRadius("l1"))})


def curve(*falls: float) -> analysis.Curve:
    """From 1, at eps 0, 1, 2, ..."""
    return analysis.Curve(torch.arange(len(falls), dtype=torch.float64), torch.tensor(falls, dtype=torch.float64))


def test_stable_crossings_have_a_clear_lead_on_both_sides() -> None:
    falling = curve(0.9, 0.8, 0.3, 0.1)
    assert [
        (each.eps, each.before, each.after)
        for each in analysis.stable_crossings({"a": falling, "b": curve(0.7, 0.7, 0.6, 0.5)}, 100)
    ] == [(2.0, "a", "b")]
    # Ahead by one in a hundred, for a while: chance.
    assert analysis.stable_crossings({"a": falling, "b": curve(0.7, 0.81, 0.2, 0.05)}, 100) == []
    # And where such a stretch lies between two clear ones the turn is at its end.
    wavering = analysis.stable_crossings({"a": curve(0.9, 0.70, 0.61, 0.3), "b": curve(0.7, 0.71, 0.60, 0.5)}, 100)
    assert [(each.eps, each.before, each.after) for each in wavering] == [(3.0, "a", "b")]
    assert analysis.stable_crossings({"a": falling}, 100) == []
    # Of ten samples two are a fifth, and may be chance all the same.
    assert analysis.stable_crossings({"a": falling, "b": curve(0.7, 0.7, 0.6, 0.5)}, 10) == []
