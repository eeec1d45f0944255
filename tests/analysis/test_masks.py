"""Which samples runs share, and what runs without a folder lack."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import pwcf
from pwcf import analysis
from pwcf.data import DataError
from pwcf.runs import RunError
from pwcf.runs.originals import original_images
from runfolders import Place
from runs_by_hand import run_of


def test_runs_share_samples_by_their_images(place: Place) -> None:
    runs = analysis.align([pwcf.load_run(place.path / name) for name in ("l2", "l1")])
    assert [len(run.radius) for run in runs] == [12, 12]
    assert runs[0].rows["image"].to_pylist() == runs[1].rows["image"].to_pylist()
    assert runs[0].x_adv.shape == runs[1].x_adv.shape
    assert analysis.align([]) == []


def test_plain_runs_are_told_what_they_lack() -> None:
    run = run_of("c", [1], x_adv=torch.tensor([[0.5, 0.0]]))
    assert analysis.sparsity_table({"a": run}, torch.zeros(1, 2))[0].median == 1
    for ask in (lambda: analysis.align([run]), lambda: analysis.name_runs([run]),  # type: ignore[list-item]
                lambda: analysis.pattern_difference(run, run)):  # type: ignore[arg-type]  # fmt: skip
        with pytest.raises(ValueError, match="expected a recorded run"):
            ask()


def test_originals_are_those_of_the_run_or_an_error(place: Place, tmp_path: Path) -> None:
    run = pwcf.load_run(place.path / "l1")
    stored = np.load(place.path / "data.npz")
    assert np.array_equal(original_images(run).numpy(), stored["images"][:12])
    some = run.select(torch.tensor([7, 3, 4]))
    assert np.array_equal(original_images(some).numpy(), stored["images"][[7, 3, 4]])
    np.savez(tmp_path / "other.npz", images=stored["images"][::-1], labels=stored["labels"])
    with pytest.raises(RunError, match="sample 0 is not the image"):
        original_images(run, str(tmp_path / "other.npz"))
    with pytest.raises(DataError, match="no such file"):
        original_images(run, str(tmp_path / "none.npz"))
