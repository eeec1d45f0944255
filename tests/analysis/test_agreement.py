"""Attacks against each other: whose radii are smaller, and who breaks what."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import pwcf
from pwcf import analysis
from runs_by_hand import run_of

INF = math.inf


def of(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


ALL = torch.ones(4, dtype=torch.bool)


LAST_WRONG = torch.tensor([True, True, True, False])


def test_wins_need_more_than_a_percent() -> None:
    a, b = of(1, 0.995, 1, INF), of(1.02, 1, INF, INF)
    assert analysis.wins([a, b], ALL).tolist() == [[0, 0.5], [0, 0]]
    # Of the samples that are right.
    assert analysis.wins([a, b], torch.tensor([True, True, False, False])).tolist() == [[0, 0.5], [0, 0]]
    assert analysis.wins([a, b], torch.tensor([True, False, False, False])).tolist() == [[0, 1], [0, 0]]


def test_comparison_is_over_samples_that_both_have() -> None:
    found = analysis.compare(of(1, 2, INF, 0), of(2, 5, 1, 7), LAST_WRONG)
    assert (found.first.clean_correct, found.first.found) == (3, 2)
    assert (found.first.mean, found.second.mean, found.difference.mean) == (1.5, 3.5, -2)
    assert (found.first.std, found.second.std, found.difference.std) == (0.5, 1.5, 1)
    three = analysis.compare(of(1, 2, 9), of(2, 2, 2), ALL[:3])
    assert three.difference.median_found == 0
    assert three.first.median_found == 2


def test_agreement_by_hand() -> None:
    broken = {"a": "1100", "b": "0110", "c": "0100"}
    found = analysis.agreement({name: torch.tensor([bit == "1" for bit in bits]) for name, bits in broken.items()})
    assert (found.samples, found.union, found.counts.tolist()) == (4, 3, [2, 2, 1])
    assert found.alone.tolist() == [1, 1, 0]
    assert found.only_first.tolist() == [[0, 1, 1], [1, 0, 1], [0, 0, 0]]
    assert found.union_curve() == [("a", 2), ("b", 3), ("c", 3)]


def test_agreement_of_runs_leaves_out_what_was_not_attacked() -> None:
    loss = pwcf.MaxLoss("l2", 1.0)
    found = analysis.agreement_of({"a": run_of("fnw", [1, INF, 0], loss), "b": run_of("nfw", [INF, 1, 0], loss)})
    assert (found.samples, found.union, found.alone.tolist()) == (2, 2, [1, 1])
    radii = {"a": run_of("cc", [1, 3]), "b": run_of("cc", [2, 2])}
    assert analysis.agreement_of(radii, 1.5).counts.tolist() == [1, 0]
    with pytest.raises(ValueError, match="eps: expected a number"):
        analysis.agreement_of(radii)


def test_agreement_refuses_an_eps_that_would_mean_two_things() -> None:
    l1, l2 = run_of("c", [1], pwcf.MinRadius("l1")), run_of("c", [1])
    with pytest.raises(ValueError, match="one metric"):
        analysis.agreement_of({"a": l1, "b": l2}, 1.0)
    with pytest.raises(ValueError, match="loss has its own"):
        analysis.agreement_of({"loss": run_of("f", [1], pwcf.MaxLoss("l2", 1.0))}, 2.0)


def test_a_choice_of_samples_keeps_each_ones_eps() -> None:
    run = run_of("fnf", [1, INF, 1], pwcf.MaxLoss("l2", torch.tensor([0.1, 2.0, 0.4])))
    some = run.select(torch.tensor([2, 0]))
    assert some.problem.radii(2).tolist() == pytest.approx([0.4, 0.1])  # type: ignore[union-attr]
    assert analysis.accuracy_of(some).eps == pytest.approx(0.4)
    assert math.isnan(analysis.accuracy_of(run.select(torch.tensor([], dtype=torch.int64))).robust)


def test_agreement_within_a_run_is_of_its_attacks() -> None:
    found = analysis.agreement_within(run_of("ccw", [1, 3, 0], attacks=("one", "two")), 2.0)
    assert (found.names, found.counts.tolist()) == (["one", "two"], [1, 1])
    with pytest.raises(ValueError, match="on its own"):
        analysis.agreement_within(run_of("f", [1], pwcf.MaxLoss("l2", 1)), 1.0)
