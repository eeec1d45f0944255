"""Radii: spread, quantiles, eps against them, models against metrics."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import pwcf
from pwcf import analysis
from runfolders import Place
from runs_by_hand import run_of

INF = math.inf


def of(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


ALL = torch.ones(4, dtype=torch.bool)


LAST_WRONG = torch.tensor([True, True, True, False])


def test_spread_is_over_what_was_found() -> None:
    found = analysis.spread(of(1, 2, INF, 0), LAST_WRONG)
    assert (found.clean_correct, found.found) == (3, 2)
    assert (found.mean, found.median_found, found.std) == (1.5, 1.5, 0.5)
    assert analysis.filled_mean(of(1, 2, INF, 0), LAST_WRONG, 6) == 3
    none = analysis.spread(of(INF, INF), ALL[:2])
    assert none.found == 0
    assert math.isnan(none.mean)


def test_eps_choices_against_the_radii() -> None:
    run = run_of("cccnw", [1, 2, 4, INF, 0])
    low, high = analysis.eps_choices(run, [0.5, 4])
    assert (low.robust, low.within, low.of_median) == (0.8, 0, pytest.approx(1 / 6))
    assert (high.robust, high.within, high.of_median) == (0.2, 0.75, pytest.approx(4 / 3))


def test_hardest_and_easiest() -> None:
    run = run_of("cwcnc", [2, 0, 5, INF, 1])
    assert analysis.hardest(run, 3) == [3, 2, 0]
    assert analysis.easiest(run, 2) == [4, 0]
    assert analysis.radii_of(run).tolist() == [1, 2, 5]
    # 1, 2, 5 and none: between 2 and 5, and between 5 and none there is nothing.
    assert analysis.quantiles_of(run, (0.5, 0.9, 1.0)) == {0.5: 3.5, 0.9: 5, 1.0: INF}


def test_radii_sample_by_sample() -> None:
    found = analysis.compare_radii(run_of("cccn", [3, 1, 2, INF]), run_of("ccnc", [2, 1.5, INF, 1]))
    assert found.sample.tolist() == found.second_sample.tolist() == [1, 0]
    assert found.difference.tolist() == [-0.5, 1]  # first minus second, as in analysis.compare
    with pytest.raises(ValueError, match="one metric, found l1, l2"):
        analysis.compare_radii(run_of("c", [1]), run_of("c", [1], pwcf.MinRadius("l1")))
    with pytest.raises(ValueError, match="same samples, found 1 and 2"):
        analysis.compare_radii(run_of("c", [1]), run_of("cc", [1, 1]))


def test_cross_metric_has_a_row_for_each_model_and_a_column_for_each_metric() -> None:
    table = analysis.cross_metric({
        "net": run_of("ccc", [1, 2, 3]),
        "max": run_of("f", [1], pwcf.MaxLoss("l2", 1)),  # no radii: left out
        "robust": run_of("ccc", [1, 4, 9], pwcf.MinRadius("l1")),
    })  # fmt: skip
    assert (table.models, table.metrics) == (["net", "robust"], ["l2", "l1"])
    assert table.median[0, 0] == 2
    assert table.median[1, 1] == 4
    assert bool(table.median[0, 1].isnan())
    assert table.relative(0)[0, 0] == 1


def test_radii_are_compared_by_image_and_places_are_those_of_the_runs_given(place: Place) -> None:
    run = pwcf.load_run(place.path / "l2")
    first, second = run.select(torch.arange(5, 20)), run.select(torch.tensor([19, 18, 17, 7, 6]))
    found = analysis.compare_radii(first, second)
    assert len(found.sample) >= 3
    assert torch.equal(first.radius[found.sample], found.first)
    assert torch.equal(second.radius[found.second_sample], found.second)
    assert torch.equal(found.first, found.second)
