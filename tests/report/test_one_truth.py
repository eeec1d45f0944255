"""One run, one number: summary, ``pwcf show``, DataFrame, tables, page and comparison say the same."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import torch

import pwcf
from pwcf import analysis
from pwcf._common.wording import gain_text, largest_loss_text, nearest_text, radius_text, sweep_text
from pwcf.cli import main
from pwcf.cli.progress import Tally
from pwcf.report import TABLES, Choices, figures, tables
from pwcf.report.page.payload import payload_of
from runfolders import MODEL, Place, make_place, rewrite_rows

# Logits of a few samples are not finite.
HOLES = """
def holes():
    made = net()

    class Holes(nn.Module):
        def forward(self, x):
            return made(x) + torch.where(x.flatten(1)[:, :1] > 0.9, torch.nan, 0.0)

    return Holes()
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    made = make_place(tmp_path_factory.mktemp("truth"), 30)
    (made.path / "net.py").write_text(MODEL.format(seed=0) + HOLES)
    model = f"{made.path}/net.py:holes"
    assert made.run("radius", model=model, metric="l2", budget=900, chunk=8) == 0
    assert made.run("few", model=model, metric="l2", budget=60, attacks="square", chunk=8) == 0
    assert made.run("loss", model=model, question="max-loss", metric="linf", eps="8/255", budget=60, chunk=8) == 0
    return made


def shown(place: Place, name: str, capsys: pytest.CaptureFixture[str]) -> dict:
    capsys.readouterr()
    assert main(["show", str(place.path / name), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("name", ["radius", "few", "loss"])
def test_every_place_shows_the_same_numbers(place: Place, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    run = pwcf.load_run(place.path / name)
    told = shown(place, name, capsys)
    statuses = set(told["status"])
    assert {"nonfinite", "already-misclassified"} < statuses
    attacked, found = analysis.attacked_in(run), analysis.found_in(run)
    assert (told["attacked"], told["found"]) == (int(attacked.sum()), int(found.sum()))
    assert 0 < told["attacked"] < 30

    page = payload_of([place.path / name]).content
    line = page["runs"][0]["overview"]
    assert line["clean"] == told["clean_accuracy"] == run.clean_accuracy
    assert [line[key] for key in ("attacked", "found", "converged", "passes", "seconds")] == [
        told[key] for key in ("attacked", "found", "converged", "passes", "seconds")
    ]

    frame = run.to_pandas()
    assert (frame["attacked"].sum(), frame["found"].sum()) == (told["attacked"], told["found"])

    summary = run.summary()
    assert f"clean accuracy {told['clean_accuracy']:.1%}" in summary
    assert f"verified: {told['found']} of {told['attacked']} attacked" in summary
    assert f"passes per attacked sample: {told['passes']:.0f};" in summary
    assert summary.startswith(told["question"] + ": 30 samples")

    if name != "loss":
        assert told["eps"]
        assert f"robust accuracy: {sweep_text(told['robust_at'], told['eps'], run.problem.metric.name)}" in summary

    table = tables.overview_table({"it": run})
    row = dict(zip(table.columns, table.rows[0], strict=True))
    assert row["found"] == f"{told['found']} of {told['attacked']}"
    assert row["clean"] == f"{told['clean_accuracy']:.1%}"
    assert row["passes"] == round(told["passes"], 1)

    tally = Tally()
    tally.add(run.rows.to_pydict())
    assert (tally.attacked, tally.found, tally.passes) == (told["attacked"], told["found"], told["passes"])
    assert tally.converged == (told["converged"] or 0)

    assert main(["compare", str(place.path / name), str(place.path / name), "--json"]) == 0
    compared = next(iter(json.loads(capsys.readouterr().out)["runs"].values()))
    assert compared["clean_accuracy"] == told["clean_accuracy"]
    assert compared["passes"] == told["passes"]

    quartiles = page["sparsity"][0]["rows"][0]["quartiles"]
    sparsity = analysis.sparsity_table({"it": run})[0]
    assert quartiles == [sparsity.low, sparsity.median, sparsity.high]
    assert list(TABLES["sparsity"].make({"it": run}, Choices()).rows[0][-3:]) == quartiles
    (drawn,) = figures.sparsity({"it": run}).axes[0].get_lines()
    assert drawn.get_xdata()[0] == quartiles[1]

    if name == "loss":
        robust = told["robust_accuracy"]
        assert robust == run.robust_accuracy == analysis.accuracy_of(run).robust == line["robust"]
        assert robust == compared["robust_accuracy"] == tally.figure(True)[1]
        assert tables.accuracy_table({"it": run}).rows[0][5] == robust
        assert page["cards"][0]["runs"][0]["value"] == robust
        assert f"robust accuracy {robust:.1%}" in summary
        assert told["radius"] == {}
        assert told["near"] == run.nearest_seen()
        if told["near"]:
            assert nearest_text(told["near"]) in summary
        assert told["largest_loss"] == run.largest_loss()
        words = largest_loss_text(told["largest_loss"], "margin", False)
        assert words in summary
        assert any(words in sentence for sentence in page["cards"][0]["runs"][0]["evidence"])
        assert main(["show", str(place.path / name)]) == 0
        assert words in " ".join(capsys.readouterr().out.split())
        return
    mean, median = told["radius"]["mean"], told["radius"]["median"]
    assert mean == line["mean"] == tally.figure(False)[1]
    assert mean == frame["radius"][frame["found"]].to_numpy().mean()
    score = analysis.attack_scores({"it": run})[0]
    assert (score.mean, score.found, score.attacked, score.passes) == (
        mean, told["found"], told["attacked"], told["passes"]
    )  # fmt: skip
    expected = analysis.quantiles_of(run, (0.5,))[0.5]
    assert (np.inf if median is None else median) == expected == score.median
    assert line["median"] == page["cards"][0]["runs"][0]["value"] == ("inf" if median is None else median)
    assert analysis.cross_metric({"it": run}).median[0, 0] == expected
    figures_told = told["radius"] | {"median": expected}
    assert f"radius: {radius_text(figures_told, told['found'], told['attacked'])}" in summary
    assert row["median radius [quartiles]"].startswith(f"{expected:.4g} [".replace("inf", "∞"))
    quantiles = [
        "inf" if value == np.inf else value for value in analysis.quantiles_of(run, (0.25, 0.5, 0.75)).values()
    ]
    card = page["cards"][0]["runs"][0]
    assert page["radii"][0]["rows"][0]["quartiles"] == quantiles == [card["low"], card["value"], card["high"]]
    gain = np.nan if page["gain"] is None else page["gain"]["rows"][0]["quartiles"][1]
    assert np.isnan(gain) == (name == "few")  # Square cannot tell
    assert (None if np.isnan(gain) else gain) == told["gain"]
    np.testing.assert_equal(gain, frame["gain"][frame["found"]].median())
    assert f"evidence: {gain_text(gain)}" in summary
    assert main(["show", str(place.path / name)]) == 0
    assert gain_text(gain) in " ".join(capsys.readouterr().out.split())


def test_a_question_is_called_the_same_everywhere(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    run = pwcf.load_run(place.path / "loss")
    assert shown(place, "loss", capsys)["question"] == str(run.problem) == "max-loss, linf ≤ 8/255, margin"
    assert analysis.question_name(run) == "linf ≤ 8/255, margin"
    content = payload_of([place.path / "loss"]).content
    assert content["runs"][0]["asked"] == "linf ≤ 8/255, margin"
    assert content["runs"][0]["name"] == next(iter(analysis.name_runs([run]))) == "holes · linf ≤ 8/255"
    assert content["cards"][0]["title"] == analysis.question_title(run) == "Accuracy under attack within linf 8/255"
    assert tables.accuracy_table({"it": run}).rows[0][2] == "8/255"


def test_page_and_figure_draw_the_same_crossings(tmp_path: Path) -> None:
    """Two models whose order turns once for good, and wavers by a sample before."""
    place = make_place(tmp_path, 12)
    for name in ("a", "b"):
        (tmp_path / f"{name}.py").write_text(
            MODEL.format(seed=0).replace("def net", f"def {name}") + f"\nNAME = {name!r}\n"
        )
        assert place.run(name, model=f"{tmp_path}/{name}.py:{name}", metric="l2", budget=60, chunk=12) == 0
    radii = {
        "a": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 2.0, 2.1, 2.2, 2.3, 2.4, 2.5],
        "b": [0.11, 0.19, 1.0, 1.0, 1.0, 1.0, 1.1, 1.1, 1.1, 1.2, 1.2, 1.2],
    }
    for name, values in radii.items():
        rewrite_radii(place.path / name, values)
    runs = analysis.name_runs(pwcf.load_run(place.path / name) for name in radii)
    found = analysis.model_crossings(runs)
    everything = analysis.crossings(analysis.curves_of(runs))
    assert 0 < len(found) < len(everything)
    panel = payload_of([place.path / name for name in radii]).content["curves"][0]
    figure = figures.accuracy_curves(runs)
    drawn = [line.get_data() for line in figure.axes[0].get_lines() if line.get_label() == "_crossing"]
    assert [each["eps"] for each in panel["crossings"]] == [each.eps for each in found]
    assert [float(x[0]) for x, _ in drawn] == [each.eps for each in found]
    pairs = [(each["before"], each["after"]) for each in panel["crossings"]]
    assert pairs == [(each.before, each.after) for each in found] == [("b", "a")]
    words = " ".join(text.get_text() for text in figure.axes[0].texts)
    assert "at least 3% and 3 samples" in re.sub(r"\s+", " ", words)


def test_page_and_figure_end_their_axes_and_cut_crossings_alike(tmp_path: Path) -> None:
    """More crossings than are shown, and one beyond the axis: there a weak attack's radii cross."""
    place = make_place(tmp_path, 40)
    for model in ("a", "b"):
        (tmp_path / f"{model}.py").write_text(
            MODEL.format(seed=0).replace("def net", f"def {model}") + f"\nNAME = {model!r}\n"
        )
    lost = {"a": [1, 1, 1], "b": []}
    for turn in range(2, 10):
        lost["b" if turn % 2 == 0 else "a"] += [turn] * 6
    strong = {model: [*values, *[10] * (40 - len(values))] for model, values in lost.items()}
    radii = {
        ("a", "lmn"): strong["a"], ("b", "lmn"): strong["b"],
        ("a", "fab"): [20] * 20 + [300] * 20, ("b", "fab"): [50] * 20 + [200] * 20,
    }  # fmt: skip
    for (model, attack), values in radii.items():
        out = f"{model}-{attack}"
        spec = f"{tmp_path}/{model}.py:{model}"
        assert place.run(out, model=spec, metric="l2", budget=60, attacks=attack, chunk=40) == 0
        rewrite_radii(place.path / out, [float(value) for value in values])
    folders = [place.path / f"{model}-{attack}" for model, attack in radii]
    runs = analysis.name_runs(pwcf.load_run(folder) for folder in folders)
    assert [each.eps for each in analysis.model_crossings(runs)] == [2, 3, 4, 5, 6, 7, 8, 9, 200]

    panel = payload_of(folders).content["curves"][0]
    assert [each["eps"] for each in panel["crossings"]] == [2, 3, 4, 5, 6, 7]
    assert (panel["more"], panel["beyond"]) == (2, 80)
    axis = figures.accuracy_curves(runs).axes[0]
    drawn = [line.get_data() for line in axis.get_lines() if line.get_label() == "_crossing"]
    assert [(float(x[0]), float(y[0])) for x, y in drawn] == [
        (each["eps"], each["accuracy"]) for each in panel["crossings"]
    ]
    assert axis.get_xlim() == (0, panel["reach"]) == (0, pytest.approx(10.3))
    words = re.sub(r"\s+", " ", " ".join(text.get_text() for text in axis.texts))
    assert "and 2 more crossings" in words
    assert "80 radii lie beyond the axis" in words


def test_alone_means_the_same_in_the_terminal_and_in_agreements(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = {name: place.path / name for name in ("radius", "few")}
    runs = {name: pwcf.load_run(folder) for name, folder in folders.items()}
    agreement = analysis.agreement_of(runs, 1e9)
    assert alone_in(folders, capsys) == agreement.alone.tolist()
    # Another model that misclassifies what the weak attack does not break: nobody has broken that alone.
    other = tmp_path / "other"
    shutil.copytree(folders["radius"], other)
    wrong = [status.value == "not-found" for status in runs["few"].status]
    assert any(wrong)
    for path in other.rglob("*.parquet"):
        rows = pyarrow.parquet.read_table(path)
        index = rows["index"].to_pylist()
        status = [
            "already-misclassified" if wrong[i] else s for i, s in zip(index, rows["status"].to_pylist(), strict=True)
        ]
        place_of = rows.column_names.index("status")
        kept = rows.schema.field("status").type
        rewrite_rows(path, rows.set_column(place_of, "status", pyarrow.array(status, kept)))
    assert alone_in({"other": other, "few": folders["few"]}, capsys) == [0, 0]


def alone_in(folders: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> list[int]:
    capsys.readouterr()
    assert main(["compare", *map(str, folders.values()), "--json"]) == 0
    return [each["alone"] for each in json.loads(capsys.readouterr().out)["runs"].values()]


def rewrite_radii(folder: Path, values: list[float]) -> None:
    """Other radii for the samples of a run of one shard; all of them count as attacked and found."""
    (path,) = folder.rglob("*.parquet")
    rows = pyarrow.parquet.read_table(path)
    replaced = {"radius": values, "adversarial": [True] * len(values), "status": ["budget"] * len(values)}
    for name, column in replaced.items():
        place = rows.column_names.index(name)
        rows = rows.set_column(place, name, pyarrow.array(column, rows.schema.field(name).type))
    rewrite_rows(path, rows)
    assert torch.equal(pwcf.load_run(folder, tensors=False).radius, torch.tensor(values, dtype=torch.float64))
