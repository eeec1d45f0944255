"""What perturbations look like."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
import torch

import pwcf
from pwcf import analysis
from pwcf.runs.originals import original_images
from runfolders import Place
from runs_by_hand import run_of

INF = math.inf


def test_sparsity_of_one_entry_is_1_and_of_all_alike_the_root_of_their_number() -> None:
    x_adv = torch.zeros(3, 1, 4, 4)
    x_adv[0, 0, 2, 1], x_adv[1] = -0.3, 0.2
    run = run_of("ccn", [1, 1, INF], x_adv=x_adv)
    values = analysis.sparsity_of(run, torch.zeros_like(x_adv))
    assert values[:2].tolist() == pytest.approx([1, 4])
    assert math.isnan(values[2])
    with pytest.raises(ValueError, match="images: expected those"):
        analysis.sparsity_of(run)
    with pytest.raises(ValueError, match="images: expected shape"):
        analysis.sparsity_of(run, torch.zeros(3, 4))


def test_magnitudes_are_shares_of_all_entries() -> None:
    x_adv = torch.tensor([[0.0, 0.1, -0.4, 0.4]])
    found = analysis.magnitudes_of(run_of("c", [1], x_adv=x_adv), torch.zeros(1, 4), bins=4)
    assert found.share.tolist() == [0.25, 0.25, 0, 0.5]
    assert found.untouched == 0.25
    nothing = analysis.magnitudes_of(run_of("n", [INF], x_adv=x_adv), torch.zeros(1, 4))
    assert nothing.share.sum() == 0


def test_amplified_uses_the_whole_range() -> None:
    picture, factor = analysis.amplified(torch.tensor([0.01, -0.02, 0.0]))
    assert picture.tolist() == pytest.approx([0.75, 0, 0.5])
    assert factor == pytest.approx(25)
    assert analysis.amplified(torch.zeros(2))[0].tolist() == [0.5, 0.5]


def test_kolmogorov_smirnov_is_scipys() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=80), rng.normal(0.5, size=60)
    ours = analysis.kolmogorov_smirnov(torch.from_numpy(a), torch.from_numpy(b))
    assert ours == pytest.approx(scipy.stats.ks_2samp(a, b).statistic)


def test_points_that_stayed_on_disk_are_missed_by_name(place: Place) -> None:
    run = pwcf.load_run(place.path / "l2", tensors=False)
    with pytest.raises(ValueError, match="tensors=True"):
        analysis.magnitudes_of(run, torch.zeros(20, 1, 6, 6))


def test_sparsity_is_recorded_as_it_is_computed(place: Place) -> None:
    run = pwcf.load_run(place.path / "l2")
    images = original_images(run)
    recorded, computed = analysis.sparsity_of(run), analysis.sparsity_of(run, images)
    assert torch.allclose(recorded, computed, equal_nan=True, rtol=1e-5)
    assert int(torch.isnan(recorded).sum()) == int((~analysis.found_in(run)).sum()) > 0


def test_l1_is_sparser_than_l2_on_the_samples_they_share(place: Place) -> None:
    l1, l2 = (pwcf.load_run(place.path / name) for name in ("l1", "l2"))
    found = analysis.pattern_difference(l1, l2, original_images(l1))
    assert found.samples == 10  # twelve, of which two are wrong
    assert found.sparser > 0.9
    assert found.distance > 0.5
    assert 0 < found.cosine < 1
    itself = analysis.pattern_difference(l2, l2, original_images(l2))
    assert (itself.sparser, itself.distance, itself.cosine) == (0.5, 0, pytest.approx(1))
    rows = {row.name: row for row in analysis.sparsity_table({"l1": l1, "l2": l2})}
    assert rows["l1"].median < rows["l2"].low <= rows["l2"].median <= rows["l2"].high
