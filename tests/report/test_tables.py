"""Tables and figures of attacks against each other, over several models, metrics and budgets."""

from __future__ import annotations

import math

import pytest
import torch

import pwcf
from pwcf import analysis
from pwcf.report import FIGURES, TABLES, Choices, figures, tables
from pwcf.runs import RecordedRun
from runfolders import MODEL, Place, make_place
from runs_by_hand import run_of

INF = math.inf


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    made = make_place(tmp_path_factory.mktemp("tables"), 12)
    (made.path / "other.py").write_text(MODEL.format(seed=3).replace("def net", "def other"))
    for attack in ("lmn", "fab"):
        for budget in (60, 160):
            assert made.run(f"{attack}-{budget}", metric="l2", budget=budget, attacks=attack) == 0
        eps = {"metric": "l2", "question": "max-loss", "eps": "0.2", "budget": 60}
        assert made.run(f"{attack}-eps", attacks=attack, **eps) == 0
    assert made.run("other", metric="l2", budget=60, model=f"{made.path}/other.py:other") == 0
    return made


def loaded(place: Place, *names: str) -> dict[str, RecordedRun]:
    return analysis.name_runs([pwcf.load_run(place.path / name) for name in names])


RADII = ("lmn-60", "lmn-160", "fab-60", "fab-160", "other")


def test_attacks_are_scored_against_the_best_of_all_runs_of_their_model(place: Place) -> None:
    runs = loaded(place, *RADII)
    table = TABLES["attacks"].make(runs, Choices())
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert [row["model"] for row in rows] == ["net"] * 4 + ["other"]
    assert [row["budget"] for row in rows] == [60, 60, 160, 160, 60]
    of_net = [run for run in runs.values() if analysis.model_name(run) == "net"]
    right, best = analysis.attacked_in(of_net[0]), analysis.best([run.radius for run in of_net])
    for row in rows[:4]:
        (run,) = (r for r in of_net if (r.header.budget, analysis.attacks_name(r)) == (row["budget"], row["attack"]))
        assert row["xi"] == pytest.approx(analysis.local_optimality(run.radius, best, right), rel=1e-12)
        assert (row["found"], row["of"]) == (int(analysis.found_in(run).sum()), int(right.sum()))
        assert row["mean radius"] == pytest.approx(float(run.radius[analysis.found_in(run)].mean()))
    assert max(row["xi"] for row in rows[:4]) <= 1
    assert math.isnan(rows[4]["xi"]) or rows[4]["xi"] == 1  # nobody to be compared with


def test_the_best_comes_first_and_finding_only_what_is_near_is_no_merit() -> None:
    runs = {"near": run_of("cnnn", [1, INF, INF, INF], attacks=("near",)),
            "all": run_of("cccc", [1, 2, 3, 4], attacks=("all",))}  # fmt: skip
    scores = analysis.attack_scores(runs)
    assert [score.attack for score in scores] == ["all", "near"]
    assert (scores[1].mean, scores[1].median, scores[1].filled_mean) == (1, INF, 13 / 4)
    assert scores[0].xi == 1
    assert scores[1].xi == pytest.approx(1 - (13 / 4 - 10 / 4) / (4 - 10 / 4))


def test_scores_are_on_shared_samples(place: Place) -> None:
    runs = {"all": pwcf.load_run(place.path / "lmn-60"), "some": pwcf.load_run(place.path / "fab-60")}
    runs["some"] = runs["some"].select(torch.tensor([7, 3, 2]))
    first, second = analysis.attack_scores(runs)
    assert first.attacked == second.attacked == int(analysis.attacked_in(runs["some"]).sum())


def test_wins_are_counted_on_both_sides() -> None:
    runs = {"a": run_of("ccccw", [1, 1, 5, 1, 0]), "b": run_of("ccncw", [2, 1.005, INF, 0.5, 0])}
    (row,) = tables.wins_table(runs).rows
    assert row == ("l2", "a", "b", 2, 1, 1, 4)


def test_robust_accuracies_stand_beside_what_radii_say(place: Place) -> None:
    runs = loaded(place, "lmn-eps", "fab-eps", "lmn-60")
    table = tables.accuracy_table(runs)
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert sorted(row["attack"] for row in rows[:2]) == ["fab", "lmn"]
    assert rows[2]["attack"] == "all together"
    (lmn,) = (row for row in rows if row["attack"] == "lmn")
    run, radii = pwcf.load_run(place.path / "lmn-eps"), pwcf.load_run(place.path / "lmn-60")
    assert lmn["robust accuracy"] == run.robust_accuracy
    assert lmn["by radii"] == radii.robust_accuracy_at(0.2)
    assert math.isnan(next(row for row in rows if row["attack"] == "fab")["by radii"])
    assert rows[2]["robust accuracy"] <= min(row["robust accuracy"] for row in rows[:2])


def test_radii_over_the_budget_are_the_scores(place: Place) -> None:
    runs = loaded(place, *RADII)
    scores = analysis.attack_scores(runs)
    figure = figures.radius_over_budget(scores)
    (axis,) = figure.axes  # the other model has one budget
    for attack in ("lmn", "fab"):
        (line,) = (line for line in axis.get_lines() if line.get_label() == attack)
        expected = [s.filled_mean for s in scores if s.attack == attack and s.model == "net"]
        assert line.get_ydata().tolist() == expected
        assert line.get_xdata().tolist() == [60, 160]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["lmn", "fab"]
    with pytest.raises(figures.NothingToShow, match="several budgets"):
        figures.radius_over_budget(analysis.attack_scores(loaded(place, "lmn-60", "fab-60")))


def test_local_optimality_is_shown_at_the_largest_budget(place: Place) -> None:
    scores = analysis.attack_scores(loaded(place, *RADII))
    figure = figures.local_optimality(scores)
    words = [text.get_text() for text in figure.axes[0].texts]
    for attack in ("lmn", "fab"):
        (score,) = (s for s in scores if (s.attack, s.model, s.budget) == (attack, "net", 160))
        assert f"{score.xi:.2f}" in words
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["lmn", "fab"]
    with pytest.raises(figures.NothingToShow, match="two attacks"):
        figures.local_optimality(scores[-1:])


@pytest.mark.parametrize("kind", ["attacks", "wins", "accuracy"])
def test_what_is_missing_is_said(place: Place, kind: str) -> None:
    wrong = loaded(place, "lmn-60") if kind == "accuracy" else loaded(place, "lmn-eps")
    with pytest.raises(figures.NothingToShow, match="expected"):
        TABLES[kind].make(wrong, Choices())
    assert {"xi", "radius-over-budget"} < set(FIGURES)


def test_a_sweep_has_a_row_for_every_run_and_eps(place: Place) -> None:
    runs = loaded(place, "lmn-160", "lmn-eps")
    table = TABLES["sweep"].make(runs, Choices({"l2": [0.1, 0.3]}))
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert [(row["question"], row["eps"]) for row in rows] == [
        ("min-radius", "0.1"), ("min-radius", "0.3"), ("max-loss", "0.2"),
    ]  # fmt: skip
    radii, within = runs.values()
    shares = [radii.robust_accuracy_at(0.1), radii.robust_accuracy_at(0.3), within.robust_accuracy]
    assert [row["robust accuracy"] for row in rows] == shares
    assert all(row["low"] <= row["robust accuracy"] <= row["high"] for row in rows)
    usual = {row[3] for row in TABLES["sweep"].make(runs, Choices()).rows}
    assert {"0.5", "1", "2", "0.2"} <= usual


def test_classes_have_a_row_for_every_run_and_class(place: Place) -> None:
    runs = loaded(place, "lmn-160", "lmn-eps")
    table = TABLES["classes"].make(runs, Choices({"": [0.1]}))
    assert table.columns[-3:] == ("median radius", "at l2 0.1", "robust accuracy")
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    for name, run in runs.items():
        expected = analysis.robustness_by_class(run, eps=[0.1])
        mine = [row for row in rows if row["run"] == name]
        assert [(row["class"], row["samples"]) for row in mine] == [(each.name, each.samples) for each in expected]
        for row, each in zip(mine, expected, strict=True):
            if isinstance(run.problem, pwcf.MaxLoss):
                assert row["robust accuracy"] == each.robust_accuracy
                assert math.isnan(row["median radius"])
            else:
                assert row["median radius"] == each.median or math.isnan(each.median)
                assert row["at l2 0.1"] == each.robust_at[0]
    # Columns that no run fills are left out.
    only = TABLES["classes"].make(loaded(place, "lmn-eps"), Choices())
    assert only.columns[-1] == "robust accuracy"
    assert "median radius" not in only.columns
