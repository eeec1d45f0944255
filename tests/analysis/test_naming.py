"""What runs, models, data and questions are called, and which runs are about the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import pwcf
from pwcf import analysis
from pwcf.cli import main
from runfolders import Place, make_place
from runs_by_hand import run_of


def test_runs_are_called_by_what_differs(place: Place) -> None:
    runs = [pwcf.load_run(place.path / name) for name in ("l2", "l1", "loss")]
    # Budgets and data are the same or not needed: two runs whose questions differ need no more.
    assert list(analysis.name_runs(runs)) == ["l2", "l1", "l2 ≤ 0.2"]
    assert list(analysis.name_runs(runs[:1])) == ["net · l2"]
    assert list(analysis.name_runs([runs[0], runs[0]])) == ["net · l2", "net · l2 (2)"]
    assert list(analysis.name_runs([])) == []
    with pytest.raises(TypeError, match="runs: expected runs, or paths of their folders, found int"):
        analysis.gather(3)  # type: ignore[arg-type]


def test_what_is_drawn_together_is_about_one_metric_one_aim_and_the_same_data(place: Place, tmp_path: Path) -> None:
    other = make_place(tmp_path, 6)
    stored = dict(np.load(tmp_path / "data.npz"))
    np.savez(tmp_path / "data.npz", images=1 - stored["images"], labels=stored["labels"])
    assert other.run("l2", metric="l2", budget=150) == 0
    assert place.run("wanted", "--targeted", metric="l2", budget=150, limit=6) == 0
    l2, l1, wanted = (pwcf.load_run(place.path / name) for name in ("l2", "l1", "wanted"))
    elsewhere = pwcf.load_run(tmp_path / "l2")
    runs = {"a": l2, "b": l1, "c": wanted}
    assert set(analysis.data_groups(runs).values()) == {0}  # fewer samples of the same data
    assert list(analysis.topics(runs).values()) == ["l2", "l1", "l2, targeted"]
    assert list(analysis.name_runs(runs.values())) == ["l2", "l1", "l2, targeted"]
    several = {"a": l2, "d": elsewhere, "b": l1}
    groups = analysis.data_groups(several)
    assert groups["a"] == groups["b"] != groups["d"]
    here, there = f"{place.path.name}/data.npz", f"{tmp_path.name}/data.npz"
    assert list(analysis.topics(several).values()) == [f"l2 · {here}", f"l2 · {there}", f"l1 · {here}"]
    table = analysis.cross_metric(several)
    assert table.metrics == [f"l2 · {here}", f"l2 · {there}", f"l1 · {here}"]
    assert table.median[0, 0] != table.median[0, 1]
    # Two that share nothing, and a third that shares with both.
    ends = {"first": l2.select(torch.arange(0, 4)), "last": l2.select(torch.arange(8, 12))}
    assert len(set(analysis.data_groups(ends).values())) == 2
    assert len(set(analysis.data_groups({**ends, "all": l2}).values())) == 1
    assert set(analysis.topics({"x": run_of("c", [1]), "y": run_of("c", [1])}).values()) == {"l2"}


def test_an_eps_is_written_as_people_write_it() -> None:
    assert [analysis.eps_text(eps) for eps in (8 / 255, 0.2, 0.1, 12.0, 2 / 255)] == [
        "8/255",
        "0.2",
        "0.1",
        "12",
        "2/255",
    ]


def test_names_say_no_more_than_it_takes(place: Place) -> None:
    assert place.run("fab", metric="l2", attacks="fab", budget=150, limit=4) == 0
    assert place.run("more", metric="l2", budget=300, limit=4) == 0
    l2, l1, fab, more = (pwcf.load_run(place.path / name) for name in ("l2", "l1", "fab", "more"))
    assert list(analysis.name_runs([l1, fab])) == ["l1", "l2"]
    assert list(analysis.name_runs([l2, fab])) == ["lmn", "fab"]
    assert list(analysis.name_runs([l2, more])) == ["budget 200", "budget 300"]
    assert list(analysis.name_runs([l2, fab, more])) == ["lmn · budget 200", "fab · budget 150", "lmn · budget 300"]


def test_models_that_are_called_the_same_are_told_apart(place: Place, tmp_path: Path) -> None:
    other = make_place(tmp_path, 6)
    other.model(3)
    (tmp_path / "net.py").rename(tmp_path / "other.py")
    words = other.words("l2", metric="l2", budget=150, model=f"{tmp_path}/other.py:net")
    assert main(words) == 0
    runs = [pwcf.load_run(place.path / "l2"), pwcf.load_run(tmp_path / "l2")]
    assert list(analysis.name_runs(runs)) == ["net.py:net", "other.py:net"]
