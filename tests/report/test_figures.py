"""Figures show what the analyses say, tables say it in every format, and the commands write both."""

from __future__ import annotations

import csv
import math
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import pwcf
from pwcf import analysis
from pwcf.analysis import Trace
from pwcf.cli import main
from pwcf.report import Choices, figures, tables, write_figures
from pwcf.report.figures.canvas import in_lines, metric_label, plain
from pwcf.report.figures.pictures import draw_input, draw_perturbation
from pwcf.report.page.payload import payload_of
from pwcf.report.registry import FIGURES, TABLES, by_model, pairs_of, place_of
from pwcf.report.style import BLUE, COLOURS, LINE_STYLES, VERMILION, plot_styles
from pwcf.report.table_format import Table, escaped
from pwcf.runs import RecordedRun
from pwcf.runs.originals import original_images
from runfolders import MODEL, Place, make_place
from runs_by_hand import run_of

INF = math.inf


def lines_of(axis: object, label: str) -> list[np.ndarray]:
    """(x, y) of the lines with a label."""
    return [np.array(line.get_data()) for line in axis.get_lines() if line.get_label() == label]  # type: ignore[attr-defined]


def texts_of(figure: Figure) -> str:
    """All that is written, notes wrapped or not."""
    found = [text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, "get_text"))]
    return " ".join(" ".join(found).replace("\u00a0", " ").split())


def heights(axis: object) -> list[float]:
    return [patch.get_height() for patch in axis.patches]  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    made = make_place(tmp_path_factory.mktemp("figures"), 16)
    nearly = MODEL.format(seed=0).replace("weight *= 4", "weight *= 4\n        made[1].weight += 0.02")
    (made.path / "other.py").write_text(nearly.replace("def net", "def other"))
    assert made.run("lmn", metric="l2", budget=80) == 0
    assert made.run("fab", metric="l2", budget=80, attacks="fab") == 0
    assert made.run("other", metric="l2", budget=80, model=f"{made.path}/other.py:other") == 0
    assert made.run("l1", metric="l1", budget=80) == 0
    eps = {"metric": "linf", "question": "max-loss", "eps": "0.02", "budget": 80}
    assert made.run("margin", **eps) == 0
    assert made.run("ce", loss="ce", attacks="apgd-ce", **eps) == 0
    return made


def named(place: Place, *names: str) -> dict[str, RecordedRun]:
    return analysis.name_runs([pwcf.load_run(place.path / name) for name in names])


# ---- accuracy ---------------------------------------------------------------------------------------


def test_curves_are_those_of_the_analysis(place: Place) -> None:
    runs = named(place, "lmn", "fab")
    figure = figures.accuracy_curves(runs)
    (axis,) = figure.axes
    for name, run in runs.items():
        ((eps, accuracy),) = lines_of(axis, name)
        curve = analysis.curve_of(run)
        assert eps[:-1].tolist() == curve.eps.tolist()
        assert accuracy[:-1].tolist() == curve.accuracy.tolist()
    assert axis.get_title() == r"$\ell_{2}$"
    # From a radius on the sample counts as broken, not before.
    assert {line.get_drawstyle() for line in axis.get_lines()} == {"steps-post"}
    assert [text.get_text() for text in figure.legends[0].get_texts()] == list(runs)


def test_a_panel_for_every_metric_and_max_loss_as_points_with_intervals(place: Place) -> None:
    runs = named(place, "lmn", "l1", "margin", "ce")
    figure = figures.accuracy_curves(runs)
    assert [axis.get_title() for axis in figure.axes] == [r"$\ell_{2}$", r"$\ell_{1}$", r"$\ell_\infty$"]
    bars = figure.axes[2].containers
    assert len(bars) == 2
    for bar, run in zip(bars, list(runs.values())[2:], strict=True):
        found = analysis.accuracy_of(run)
        (low, high) = bar[2][0].get_segments()[0]
        assert (bar[0].get_ydata()[0], low[1], high[1]) == pytest.approx((found.robust, found.low, found.high))
        assert bar[0].get_xdata()[0] == pytest.approx(0.02, rel=0.05)


def test_crossings_of_models_are_marked_and_named() -> None:
    first = run_of("cccccccc", [1, 1, 1, 1, 4, 4, 4, 4])
    second = run_of("cccccccc", [2] * 8)
    figure = figures.accuracy_curves({"steep": first, "flat": second})
    (crossing,) = analysis.crossings(analysis.curves_of({"steep": first, "flat": second}))
    ((x, y),) = lines_of(figure.axes[0], "_crossing")
    assert (x[0], y[0]) == (crossing.eps, crossing.accuracy) == (2, 0.25)
    assert "1: from 2 on steep is above flat" in texts_of(figure)


def test_runs_about_different_samples_say_so_in_figure_and_page(place: Place) -> None:
    runs = named(place, "lmn", "fab")
    assert "different samples" not in texts_of(figures.accuracy_curves(runs))
    assert [panel["different"] for panel in payload_of([*runs.values()]).content["sweeps"]] == [""]
    name = next(iter(runs))
    for some, number in ((range(5), "5 to 15"), (range(1, 16), "15 each")):
        fewer = {key: run.select(torch.tensor(some if key == name else range(15))) for key, run in runs.items()}
        said = f"the runs are about different samples ({number}), so their shares are no match"
        assert said in texts_of(figures.accuracy_curves(fewer))
        assert [panel["different"] for panel in payload_of([*fewer.values()]).content["sweeps"]] == [said]


def test_crossings_have_the_names_of_the_legend(place: Place) -> None:
    """Models of one class, given in Python, have no names of their own."""
    x = torch.rand(24, 2, generator=torch.Generator().manual_seed(0))
    nets = [lambda x, far=far: torch.stack((x[:, 0] - far, x[:, 1] * 0), 1) for far in (0.2, 0.6)]
    runs = {
        name: pwcf.evaluate(net, x, net(x).argmax(1), pwcf.MinRadius("l2"), budget=60)
        for name, net in zip(("near", "far"), nets, strict=True)
    }
    said = texts_of(figures.accuracy_curves(runs))
    assert re.search("1: from .* on (near is above far|far is above near)", said), said


def test_attacks_on_one_model_do_not_cross(place: Place) -> None:
    runs = named(place, "lmn", "fab", "other")
    figure = figures.accuracy_curves(runs)
    by_name = {name: analysis.curve_of(run) for name, run in runs.items()}
    same_attack = {name: curve for name, curve in by_name.items() if "fab" not in name}
    assert len(lines_of(figure.axes[0], "_crossing")) == len(analysis.stable_crossings(same_attack, 16))


def test_radii_that_weak_attacks_give_do_not_stretch_the_axis(place: Place) -> None:
    run = pwcf.load_run(place.path / "lmn")
    far = analysis.found_in(run).nonzero()[0]
    weak = run.select(torch.arange(16))
    weak.radius[far] = 1e6
    figure = figures.accuracy_curves({"good": run, "weak": weak})
    assert figure.axes[0].get_xlim()[1] < 10
    assert "radii lie beyond the axis" in texts_of(figure)


# ---- radii ------------------------------------------------------------------------------------------


def test_histograms_count_every_radius_and_tell_what_eps_breaks() -> None:
    run = run_of("ccccnw", [1, 2, 3, 4, INF, 0])
    figure = figures.radius_distribution({"a": run}, eps=(2.5,))
    (axis,) = figure.axes
    bars = [patch for patch in axis.patches if not patch.get_label().startswith("a")]
    assert sum(bar.get_height() for bar in bars) == 4
    ((x, _),) = lines_of(axis, "_eps")
    assert x.tolist() == [2.5, 2.5]
    told = texts_of(figure)
    assert "eps 2.5 breaks 40%" in told  # 2 of the 5 attacked, as analysis.eps_choices says
    assert analysis.eps_choices(run, [2.5])[0].within == pytest.approx(0.4)
    assert "1 of 5 without a point" in told


def test_eps_may_be_given_for_one_metric_alone() -> None:
    runs = {"a": run_of("cc", [1, 2]), "b": run_of("cc", [1, 2], pwcf.MinRadius("l1"))}
    figure = figures.radius_distribution(runs, eps={"l1": [1.5]})
    assert [len(lines_of(axis, "_eps")) for axis in figure.axes] == [0, 1]


def test_many_runs_are_drawn_as_shares_up_to_a_radius() -> None:
    runs = {f"run {i}": run_of("ccn", [1 + i, 2, INF]) for i in range(4)}
    figure = figures.radius_distribution(runs)
    ((x, y),) = lines_of(figure.axes[0], "run 0")
    assert x.tolist() == [1, 2]
    assert y.tolist() == pytest.approx([1 / 3, 2 / 3])
    assert not figures.radius_distribution(runs, kind="ecdf").axes[0].patches
    assert figures.radius_distribution(runs, kind="histogram").axes[0].patches


def test_radii_of_very_different_sizes_get_a_logarithmic_axis() -> None:
    assert figures.radius_distribution({"a": run_of("cccc", [0.1, 0.1, 1, 90])}).axes[0].get_xscale() == "log"
    assert figures.radius_distribution({"a": run_of("cccc", [1, 2, 3, 4])}).axes[0].get_xscale() == "linear"
    figures.radius_distribution({"a": run_of("c", [0.5])})  # one sample


def test_comparison_shows_the_first_and_the_differences_by_sign() -> None:
    first, second = run_of("ccccn", [3, 1, 2, 4, INF]), run_of("ccccc", [1, 1.001, 3, 3.99, 1])
    figure = figures.radius_comparison(first, second, names=("fab", "lmn"))
    above, below = figure.axes
    found = analysis.compare_radii(first, second)
    assert heights(above) == found.first.tolist() == [1, 2, 3, 4]
    assert heights(below) == pytest.approx(found.difference.tolist())
    grey = "#999999"
    assert [to_hex(bar.get_facecolor()) for bar in below.patches] == [grey, BLUE.lower(), VERMILION.lower(), grey]
    assert "fab smaller on 1, lmn on 1, within 1%: 2" in texts_of(figure)
    assert above.get_ylabel() == "radius\nfab"
    assert below.get_ylabel() == "fab\n– lmn"


def test_comparison_refuses_what_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="one metric, found l1 and l2"):
        figures.radius_comparison(run_of("c", [1]), run_of("c", [1], pwcf.MinRadius("l1")))
    with pytest.raises(ValueError, match="both runs have a point, found none"):
        figures.radius_comparison(run_of("cn", [1, INF]), run_of("nc", [INF, 1]))


def test_pairs_are_one_model_and_metric(place: Place) -> None:
    pairs = pairs_of(named(place, "lmn", "fab", "other", "l1"))
    (pair,) = pairs.values()
    assert (pair.first_name, pair.second_name) == ("lmn", "fab")
    assert len(figures.radius_comparisons({str(i): pair for i in range(4)}).axes) == 8
    two = pairs_of(named(place, "lmn", "other"))  # two runs are a pair, whatever they are about
    assert len(two) == 1
    with pytest.raises(figures.NothingToShow, match="two min-radius runs, found fewer"):
        pairs_of(named(place, "lmn", "margin"))
    with pytest.raises(figures.NothingToShow, match="of one model in one metric"):
        pairs_of({name: run for name, run in named(place, "lmn", "other", "l1").items()})


def test_radii_by_sample_are_on_shared_samples(place: Place) -> None:
    runs = named(place, "lmn", "fab")
    few = {"all": runs["lmn"], "few": runs["fab"].select(torch.tensor([9, 3, 1, 7]))}
    figure = figures.radii_by_sample(few)
    shared = analysis.align(list(few.values()))
    attacked = analysis.attacked_in(shared[0])
    assert attacked.tolist() != [True] * 4  # every seventh label is wrong
    for name, run in zip(few, shared, strict=True):
        ((x, y),) = lines_of(figure.axes[0], name)
        assert x.tolist() == shared[0].index[attacked].tolist()
        assert y.tolist() == run.radius[attacked].tolist()


def test_missing_radii_are_shown_as_missing() -> None:
    runs = {"a": run_of("ccc", [1, 2, 3]), "b": run_of("cnc", [1, INF, 300])}
    figure = figures.radii_by_sample(runs, ordered=True)
    ((x, y),) = lines_of(figure.axes[0], "b")
    assert np.isnan(y).tolist() == [False, True, False]
    assert lines_of(figure.axes[0], "_missing")[0][0].tolist() == [x[1]]
    assert figure.axes[0].get_yscale() == "log"
    assert "no point found" in texts_of(figure)
    with pytest.raises(ValueError, match="found 2 and 3 of them"):
        figures.radii_by_sample({"a": run_of("cc", [1, 2]), "b": run_of("ccc", [1, 2, 3])})


# ---- searches ---------------------------------------------------------------------------------------


def test_termination_counts_by_status_and_draws_the_budget(place: Place) -> None:
    runs = named(place, "lmn", "margin")
    figure = figures.termination(runs)
    for axis, run in zip(figure.axes, runs.values(), strict=True):
        ended = analysis.termination_of(run)
        counted = {bars[0].get_label(): sum(bar.get_height() for bar in bars) for bars in axis.containers}
        assert counted == ended.status
        assert lines_of(axis, "_budget")[0][0].tolist() == [80, 80]
    assert "budget of passes" in [text.get_text() for text in figure.legends[0].get_texts()]
    by_time = figures.termination(runs, by="seconds")
    assert not lines_of(by_time.axes[0], "_budget")
    with pytest.raises(ValueError, match="passes or seconds, found 'hours'"):
        figures.termination(runs, by="hours")  # type: ignore[arg-type]


def trace_of(objective: list[float], wrong: list[bool], eps: float | None = None) -> Trace:
    k = len(objective)
    values = torch.tensor(objective, dtype=torch.float64)
    margin = torch.where(torch.tensor(wrong, dtype=torch.bool), 0.5, -0.25).double()
    return Trace(
        torch.arange(1, k + 1) * 10, values if eps is None else torch.zeros(k).double(),
        margin if eps is None else values, torch.zeros(k).double(), torch.tensor(wrong, dtype=torch.bool), eps,
    )  # fmt: skip


def test_best_found_is_a_histogram_of_when() -> None:
    traces = {
        "a": [trace_of([3, 2, 1], [True, True, True]), trace_of([3, 2, 1], [True, False, False]), trace_of([], [])],
        "b": [trace_of([1, 1], [False, False])],
    }
    figure = figures.best_found(traces, budget=15)
    bars = [(bar.get_x(), bar.get_x() + bar.get_width(), bar.get_height()) for bar in figure.axes[0].patches]
    assert sum(height for *_, height in bars) == 2
    for at in (10, 30):  # of the two samples with a feasible point
        assert any(low <= at <= high and height == 1 for low, high, height in bars)
    told = texts_of(figure)
    assert "2 of 2 searches found a point" in told
    assert "1 best points after 15 passes" in told
    assert "0 of 1 searches found a point" in told
    assert lines_of(figure.axes[0], "_budget")[0][0].tolist() == [15, 15]
    with pytest.raises(figures.NothingToShow, match="feasible point"):
        figures.best_found({"b": traces["b"]})


def test_trajectories_show_the_best_so_far_and_the_violation() -> None:
    each = trace_of([5, 3, 1, 4, 2], [False, True, False, True, True])
    figure = figures.trajectories({"a": [each], "b": [trace_of([2, 2], [True, True])]})
    above, below = figure.axes
    ((passes, best),) = lines_of(above, "a")
    assert passes.tolist() == each.passes.tolist()
    assert np.isnan(best[0])
    assert best[1:].tolist() == each.best[1:].tolist() == [3, 3, 3, 2]
    assert [line.tolist() for line in lines_of(above, "_best")[0]] == [[50], [2]]
    assert lines_of(below, "a")[0][1].tolist() == pytest.approx([0.25, 1e-6, 0.25, 1e-6, 1e-6])
    assert below.get_yticklabels()[0].get_text() == "0"
    assert "a: best 2 after 50 passes" in texts_of(figure)
    assert above.get_ylabel() == "distance"
    assert figures.trajectories({"a": [trace_of([0.1, 0.2], [True, True], eps=1.0)]}).axes[0].get_ylabel() == "loss"


def test_trajectories_say_what_is_missing() -> None:
    with pytest.raises(ValueError, match="expected 0 to 0, found 3"):
        figures.trajectories({"a": [trace_of([1], [True])]}, sample=3)
    with pytest.raises(figures.NothingToShow, match="misclassified as it is"):
        figures.trajectories({"a": [trace_of([], [])]})
    both = {"a": [trace_of([1], [True])], "b": [trace_of([1], [True], eps=1.0)]}
    with pytest.raises(ValueError, match="one question"):
        figures.trajectories(both)


# ---- patterns ---------------------------------------------------------------------------------------


def test_perturbations_show_the_points_and_their_histograms(place: Place) -> None:
    runs = named(place, "lmn", "margin")
    images = original_images(runs[next(iter(runs))])
    figure = figures.perturbations(runs, images)
    shown = [axis for axis in figure.axes if axis.get_visible()]
    assert len(shown) == 1 + 3 * 2
    found = torch.stack([analysis.found_in(run) for run in runs.values()]).all(0)
    sample = int(found.nonzero()[0])
    for column, run in enumerate(runs.values(), start=1):
        adversarial, change, bars = (figure.axes[row * 3 + column] for row in range(3))
        assert np.allclose(adversarial.get_images()[0].get_array(), run.x_adv[sample, 0])
        d = analysis.perturbations_of(run, images)[sample]
        assert np.allclose(change.get_images()[0].get_array(), d[0])
        assert change.get_images()[0].get_clim() == pytest.approx((-float(d.abs().max()), float(d.abs().max())))
        assert sum(heights(bars)) == pytest.approx(1)
    assert f"sample {sample}" in texts_of(figure)


def test_perturbations_find_the_sample_in_runs_of_another_order(place: Place) -> None:
    first = pwcf.load_run(place.path / "lmn")
    turned = pwcf.load_run(place.path / "fab").select(torch.arange(15, -1, -1))
    images = original_images(first)
    figure = figures.perturbations({"a": first, "b": turned}, images, 2)
    assert np.allclose(figure.axes[2].get_images()[0].get_array(), turned.x_adv[13, 0])
    few = turned.select(torch.tensor([0, 1]))
    with pytest.raises(ValueError, match="one that all runs have, b has none like 2"):
        figures.perturbations({"a": first, "b": few}, images, 2)
    with pytest.raises(ValueError, match="expected 0 to 15, found 99"):
        figures.perturbations({"a": first}, images, 99)
    with pytest.raises(ValueError, match="the first run's 16, found 3"):
        figures.perturbations({"a": first}, images[:3], 2)
    with pytest.raises(ValueError, match="tensors=True"):
        figures.perturbations({"a": pwcf.load_run(place.path / "lmn", tensors=False)}, images, 2)
    with pytest.raises(figures.NothingToShow, match="a has none"):
        figures.perturbations({"a": first}, images, 0)  # wrong as it is


@pytest.mark.parametrize("shape", [(5,), (1, 1, 5), (4, 4), (1, 4, 4), (2, 4, 4), (3, 4, 4), (4, 4, 4), (7, 3, 4)])
def test_inputs_of_every_shape_are_drawn_whole(shape: tuple[int, ...]) -> None:
    axes = Figure().subplots(1, 2)
    x = torch.rand(shape, generator=torch.Generator().manual_seed(0))
    draw_input(axes[0], x, (0, 1), x)
    assert draw_perturbation(axes[1], x - 0.5) == pytest.approx(float((x - 0.5).abs().max()))
    if len(shape) == 1 or shape[-2] == 1:
        assert axes[0].get_lines()[-1].get_ydata().tolist() == pytest.approx(x.flatten().tolist())
        assert heights(axes[1]) == pytest.approx((x - 0.5).flatten().tolist())
        return
    picture = np.asarray(axes[0].get_images()[0].get_array())
    # Nothing is left out: of other than three channels all stand beside each other.
    assert np.isin(x.double().numpy().round(6), picture.round(6)).all()
    assert picture.ndim == (3 if shape[0] == 3 and len(shape) == 3 else 2)


def test_magnitudes_are_shares_of_entries_above(place: Place) -> None:
    runs = named(place, "lmn", "l1")
    images = original_images(next(iter(runs.values())))
    figure = figures.magnitudes(runs, images)
    for name, run in runs.items():
        ((x, y),) = lines_of(figure.axes[0], name)
        size = analysis.perturbations_of(run, images)[analysis.found_in(run)].abs()
        assert y[0] == pytest.approx(float((size > 0).double().mean()))
        middle = len(x) // 2
        assert y[middle] == pytest.approx(float((size >= x[middle]).double().mean()), abs=1e-3)


def test_sparsity_is_a_grid_with_shared_bins_and_medians(place: Place) -> None:
    runs = named(place, "lmn", "fab", "l1", "margin", "ce")
    figure = figures.sparsity(runs)
    shown = [axis for axis in figure.axes if axis.get_visible()]
    assert len(shown) == 5
    assert {axis.get_title() for axis in shown} == {
        "lmn, min-radius",
        "fab, min-radius",
        "lmn, margin",
        "apgd-ce",
        "",
    }
    values = analysis.sparsity_of(next(iter(runs.values())))
    values = values[torch.isfinite(values)]
    assert sum(heights(shown[0])) == len(values)
    assert f"median {float(values.quantile(0.5)):.3g}" in texts_of(figure)
    edges = [[patch.get_x() for patch in axis.patches] for axis in shown]
    assert all(each == pytest.approx(edges[0]) for each in edges)


# ---- matrices and losses ----------------------------------------------------------------------------


def test_agreement_shows_pairs_alone_and_union() -> None:
    found = analysis.agreement(
        {
            "a": torch.tensor([True, True, False, False]),
            "b": torch.tensor([True, False, True, False]),
            "c": torch.tensor([True, False, False, False]),
        }
    )
    matrix, bars, curve = figures.agreement(found).axes
    assert [text.get_text() for text in matrix.texts] == ["1", "1", "1", "1", "0", "0"]  # without the diagonal
    assert heights(bars)  # barh: widths are the counts
    widths = [patch.get_width() for patch in bars.patches]
    assert widths == [1, 1, 1, 1, 1, 0]  # with others, then alone
    assert [text.get_text().strip() for text in bars.texts] == ["2 (1 alone)", "2 (1 alone)", "1"]
    assert lines_of(curve, "union")[0].tolist() == [[1, 2, 3], [broken for _, broken in found.union_curve()]]
    assert [label.get_text() for label in curve.get_xticklabels()] == ["1", "+2", "+3"]
    with pytest.raises(figures.NothingToShow, match="attacked samples"):
        figures.agreement(analysis.agreement({"a": torch.zeros(0, dtype=torch.bool)}))


def test_cross_metric_has_every_number() -> None:
    table = analysis.CrossMetric(["m", "n"], ["l2", "pd"], torch.tensor([[1.5, math.nan], [3.0, INF]]))
    figure = figures.cross_metric(table)
    axis = figure.axes[0]
    assert [text.get_text() for text in axis.texts] == ["1.5", "3", "∞"]
    assert [label.get_text() for label in axis.get_xticklabels()] == [r"$\ell_{2}$", "pd"]
    assert np.asarray(axis.get_images()[0].get_array())[:, 0].tolist() == [0.5, 1.0]  # by the best of the column
    assert [text.get_text() for text in figures.cross_metric(table, relative=True).axes[0].texts][:2] == ["1", "2"]


def test_clipped_losses_have_no_slope_where_they_are_clipped() -> None:
    axes = figures.loss_clipping(classes=10).axes
    p, clipped = lines_of(axes[0], "clipped")[0]
    assert clipped.max() == pytest.approx(math.log(10))
    assert lines_of(axes[0], "unclipped")[0][1].max() == pytest.approx(-math.log(p[0]))
    p, slope = lines_of(axes[2], "clipped")[0]
    assert (slope[p < 0.0999] == 0).all()
    assert slope[p > 0.101] == pytest.approx(1 / p[p > 0.101])
    margin, value = lines_of(axes[1], "clipped")[0]
    assert value == pytest.approx(np.minimum(margin, 0.01))


# ---- all of them ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "draw",
    [
        lambda: figures.accuracy_curves({}),
        lambda: figures.radius_distribution({}),
        lambda: figures.radius_distribution({"a": run_of("n", [INF])}),
        lambda: figures.radius_distribution({"a": run_of("f", [1], pwcf.MaxLoss("l2", 1.0))}),
        lambda: figures.radius_comparisons({}),
        lambda: figures.radii_by_sample({}),
        lambda: figures.radii_by_sample({"a": run_of("w", [0])}),
        lambda: figures.termination({}),
        lambda: figures.termination({"a": run_of("w", [0])}),
        lambda: figures.best_found({}),
        lambda: figures.trajectories({}),
        lambda: figures.perturbations({}, torch.zeros(1, 4)),
        lambda: figures.perturbations({"a": run_of("n", [INF])}, torch.zeros(1, 4)),
        lambda: figures.magnitudes({"a": run_of("n", [INF])}, torch.zeros(1, 4)),
        lambda: figures.sparsity({}),
        lambda: figures.cross_metric(analysis.cross_metric({})),
        lambda: tables.overview_table({}),
        lambda: tables.radius_table({"a": run_of("c", [1])}),
        lambda: tables.cross_metric_table(analysis.cross_metric({})),
        lambda: TABLES["sparsity"].make({}, Choices()),
    ],
)
def test_where_there_is_nothing_a_sentence_says_what_is_missing(draw: object) -> None:
    with pytest.raises(figures.NothingToShow, match=r"^[\w-]+: expected .*found"):
        draw()  # type: ignore[operator]


def test_type_is_legible_and_the_callers_settings_are_left_alone(place: Place, tmp_path: Path) -> None:
    with matplotlib.rc_context({"font.size": 3, "axes.labelsize": 2}):
        before = dict(matplotlib.rcParams)
        figure = figures.accuracy_curves(named(place, "lmn", "fab", "other", "margin"))
        assert dict(matplotlib.rcParams) == before
        figures.save(figure, tmp_path / "a.pdf")
    sizes = [text.get_fontsize() for text in figure.findobj(lambda artist: hasattr(artist, "get_fontsize"))]
    assert min(sizes) >= 7
    assert figure.get_figwidth() <= 7
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()


@pytest.mark.parametrize("ending", ["pdf", "png", "svg"])
def test_the_same_figure_is_the_same_file(tmp_path: Path, ending: str) -> None:
    table = analysis.CrossMetric(["a model"], ["l2"], torch.ones(1, 1))
    paths = [figures.save(figures.cross_metric(table), tmp_path / f"{i}.{ending}") for i in (1, 2)]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    if ending == "svg":
        assert "a model" in paths[0].read_text("utf-8")  # text stays text
    with pytest.raises(ValueError, match="ends in pdf, png, svg"):
        figures.save(figures.cross_metric(table), tmp_path / "a.gif")


def test_without_matplotlib_a_sentence_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'pwcf\[plots\]'"):
        figures.loss_clipping()


def test_many_names_get_styles_of_their_own_and_ours_comes_first() -> None:
    styles = plot_styles([f"attack {i}" for i in range(len(COLOURS) * len(LINE_STYLES))])
    assert len({(style.colour, style.line) for style in styles.values()}) == 18
    ordered = plot_styles(["fab", "net · lmn", "lmnx"])
    assert list(ordered) == ["net · lmn", "fab", "lmnx"]
    assert [style.colour for style in ordered.values()] == list(COLOURS[:3])
    black, *others = plot_styles(["fab", "lmn", "apgd"], stand_out=True).values()
    assert (black.colour, black.order) == ("#000000", 10)
    assert [style.colour for style in others] == list(COLOURS[:2])
    figure = figures.accuracy_curves({f"a long name of run {i}": run_of("cc", [1 + i, 2]) for i in range(30)})
    panel_height = figure.get_figheight() - 0.16 * 30
    assert 1 < panel_height < 4  # the figure grows with its legend


def test_names_as_they_are_written() -> None:
    assert metric_label("linf") == r"$\ell_\infty$"
    assert metric_label("l1.5") == r"$\ell_{1.5}$"
    assert metric_label("lpips") == "lpips"
    assert plain("net · l2 ≤ 0.5, ce") == r"net · $\ell_{2}$ ≤ 0.5, ce"
    assert plain("l2_net") == "l2_net"
    assert plain("a$b") == r"a\$b"
    assert len(plain("x" * 99, 20)) <= 20
    assert in_lines("one · two · three", 10) == "one · two\nthree"
    assert in_lines("one · two", 10) == "one · two"
    # An eps is never cut: this was "linf ≤ 3…, margin".
    assert in_lines("linf ≤ 32/255, margin", 18) == "$\\ell_\\infty$ ≤ 32/255,\nmargin"
    assert in_lines("l2, targeted", 8) == "$\\ell_{2}$,\ntargeted"
    assert in_lines("x" * 30, 10) == plain("x" * 30, 13)


def test_a_model_has_one_look_in_panels_that_name_the_question(place: Place) -> None:
    runs = named(place, "lmn", "fab", "l1")  # "l2 · lmn", "l2 · fab", "l1 · lmn"
    assert list(analysis.names_without_question(runs).values()) == ["lmn", "fab", "lmn"]
    figure = figures.accuracy_curves(runs)
    colours = [[line.get_color() for line in axis.get_lines() if line.get_label() == "lmn"] for axis in figure.axes]
    assert colours[0] == colours[1]
    both = named(place, "margin", "ce")  # the loss is said where there are several
    assert list(analysis.names_without_question(both).values()) == ["margin", "ce"]
    metrics = named(place, "lmn", "l1")  # "l2", "l1": nothing but the question
    assert analysis.names_without_question(metrics) == {"l2": "net", "l1": "net"}
    assert analysis.names_without_question({"mine": runs["l1 · lmn"]}) == {"mine": "mine"}
    alike = {"l2 · a": run_of("c", [1]), "a · l2": run_of("c", [1])}  # no two get the same name
    assert analysis.names_without_question(alike) == {name: name for name in alike}


# ---- tables -----------------------------------------------------------------------------------------


def test_latex_is_escaped() -> None:
    table = Table(("a_b", "50 %"), [("x & y · z", 0.5), ("[1] \\cmd{$}#^~<", -1e-5), ("∞", math.inf), ("", math.nan)])
    lines = table.latex("100 % of_it", "tab:one").splitlines()
    assert lines[:4] == [r"\begin{table}", r"\centering", r"\caption{100 \% of\_it}", r"\label{tab:one}"]
    assert lines[4:7] == [r"\begin{tabular}{lr}", r"\toprule", r"a\_b & 50 \% \\"]
    assert lines[8] == r"x \& y $\cdot$ z & 0.5 \\"
    assert lines[9] == (
        r"{[}1] \textbackslash{}cmd\{\$\}\#\textasciicircum{}\textasciitilde{}\textless{} & $-1 \cdot 10^{-5}$ \\"
    )
    assert lines[10:12] == [r"$\infty$ & $\infty$ \\", r" & -- \\"]
    assert lines[-1] == r"\end{table}"
    assert escaped("\\_") == r"\textbackslash{}\_"


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no LaTeX here")
def test_latex_compiles(place: Place, tmp_path: Path) -> None:
    body = "\n\n".join(
        TABLES[name].make(named(place, "margin", "ce"), Choices()).latex() for name in ("overview", "agreement")
    )
    odd = Table(("a",), [('[\\&%$#_{}~^<>|"·∞±≤≥×→…–',)]).latex("a_b")
    text = "\\documentclass{article}\\usepackage{booktabs}\\begin{document}" + body + odd + "\\end{document}"
    (tmp_path / "t.tex").write_text(text, "utf-8")
    words = ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "t.tex"]
    assert subprocess.run(words, cwd=tmp_path, capture_output=True).returncode == 0


def test_the_overview_says_what_analyses_say(place: Place) -> None:
    runs = named(place, "lmn", "margin")
    table = tables.overview_table(runs)
    radius, loss = (dict(zip(table.columns, row, strict=True)) for row in table.rows)
    first, second = runs.values()
    low, middle, high = analysis.quantiles_of(first, (0.25, 0.5, 0.75)).values()
    assert radius["median radius [quartiles]"] == f"{middle:.4g} [{low:.4g}, {high:.4g}]"
    assert radius["found"] == f"{int(analysis.found_in(first).sum())} of {int(analysis.attacked_in(first).sum())}"
    assert radius["converged"] + radius["unsettled"] == int(analysis.attacked_in(first).sum())  # type: ignore[operator]
    accuracy = analysis.accuracy_of(second)
    assert loss["robust [95%]"] == f"{accuracy.robust:.1%} [{accuracy.low:.1%}, {accuracy.high:.1%}]"
    assert loss["unsettled"] == accuracy.unsettled
    assert loss["samples"] == 16
    missing = tables.overview_table({"a": run_of("cnn", [1, INF, INF])}).rows[0]
    assert "∞ [1, ∞]" in missing


def test_the_comparison_of_radii_is_the_papers(place: Place) -> None:
    runs = named(place, "lmn", "fab", "other", "l1")
    table = tables.radius_table(runs)
    (row,) = table.rows  # other models and metrics are not compared
    first, second = list(runs.values())[:2]
    found = analysis.compare(first.radius, second.radius, analysis.attacked_in(first))
    values = dict(zip(table.columns, row, strict=True))
    assert values["samples"] == found.first.found
    assert values["difference mean"] == found.difference.mean
    assert values["second std"] == found.second.std


def test_other_tables(place: Place) -> None:
    runs = named(place, "lmn", "other", "l1")
    found = analysis.cross_metric(runs)
    table = tables.cross_metric_table(found)
    assert table.columns == ("model", "l2", "l1")
    assert table.rows[0][1:] == tuple(found.median[0].tolist())
    assert math.isnan(float(table.rows[1][2]))  # no run of the other model in l1
    rows = TABLES["sparsity"].make(runs, Choices()).rows
    assert [row[0] for row in rows] == list(runs)
    broken = {"a": torch.tensor([True, True, False]), "b": torch.tensor([False, True, False])}
    told = tables.agreement_table(analysis.agreement(broken)).rows
    assert told[0][:3] == ("a", 2, 1)
    assert told[0][4] == 1
    assert told[-1][:2] == ("all together, of 3", 2)
    assert told[-1][3:] == (0, 1)


# ---- the commands -----------------------------------------------------------------------------------


def paths(place: Place, *names: str) -> list[str]:
    return [str(place.path / name) for name in names]


def test_kinds_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["figure", "--list"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in (*FIGURES, "all"))
    assert main(["table", "--list"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in TABLES)


def test_a_figure_is_written(place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "new" / "radii.svg"
    words = ["figure", "radii", *paths(place, "lmn", "margin", "l1"), "-o", str(out), "--eps", "l2=1/4,l1=3"]
    assert main(words) == 0
    assert capsys.readouterr().out == f"{out}\n"
    drawn = out.read_text("utf-8")
    assert "eps 0.25 breaks" in drawn
    assert "eps 3 breaks" in drawn
    assert main(["figure", "loss-clipping", "-o", str(tmp_path / "a.pdf")]) == 0


def test_perturbations_open_the_data_again(place: Place, tmp_path: Path) -> None:
    out = tmp_path / "a.svg"
    assert main(["figure", "perturbations", *paths(place, "lmn", "l1"), "--sample", "2", "-o", str(out)]) == 0
    assert "sample 2" in out.read_text("utf-8")


def test_searches_are_done_again(place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "a.svg"
    both = paths(place, "lmn", "fab")
    assert main(["figure", "trajectories", *both, "--sample", "3", "--trust", "-o", str(out)]) == 0
    assert "searching again: 1 sample(s), lmn, 80 passes each" in capsys.readouterr().err
    run = pwcf.load_run(both[0])
    (trace,) = analysis.retrace(run, [place_of(run, 3)], trust=True)["lmn"]
    assert f"lmn: best {float(trace.best[-1]):.4g} after {trace.best_at} passes" in " ".join(
        out.read_text("utf-8").split()
    )
    words = ["figure", "best-found", both[0], "--budget", "40", "--samples", "3", "--trust", "-o", str(out)]
    assert main(words) == 0
    assert "of 3 searches found a point" in out.read_text("utf-8")


@pytest.mark.parametrize("ending", ["md", "csv", "tex"])
def test_tables_are_written(place: Place, tmp_path: Path, ending: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / f"t.{ending}"
    words = ["table", "radii", *paths(place, "lmn", "fab")]
    assert main([*words, "-o", str(out)]) == 0
    capsys.readouterr()
    text = out.read_text("utf-8")
    assert main(words) == 0
    printed = capsys.readouterr().out
    if ending == "md":
        assert text == printed
    elif ending == "csv":
        assert next(csv.DictReader(text.splitlines()))["metric"] == "l2"
    else:
        assert text.startswith(r"\begin{tabular}{lll")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["figure"], "KIND: expected one of accuracy"),
        (["figure", "colours", "-o", "a.pdf"], "found 'colours'"),
        (["figure", "accuracy", "RUN"], "-o: expected a file"),
        (["figure", "accuracy", "RUN", "-o", "a.gif"], "ends in .pdf, .png, .svg"),
        (["figure", "accuracy", "-o", "a.pdf"], "expected folders of runs, found none"),
        (["figure", "accuracy", "nowhere", "-o", "a.pdf"], "nowhere"),
        (["figure", "comparison", "RUN", "-o", "a.pdf"], "expected two min-radius runs"),
        (["figure", "radii", "RUN", "--eps", "much", "-o", "a.pdf"], "--eps: expected numbers"),
        (["figure", "radii", "RUN", "--eps", "1/0", "-o", "a.pdf"], "--eps: expected numbers"),
        (["figure", "agreement", "RUN", "-o", "a.pdf"], "expected one eps"),
        (["figure", "termination", "RUN", "--by", "hours", "-o", "a.pdf"], "expected passes or seconds"),
        (["figure", "perturbations", "RUN", "--sample", "99", "-o", "a.pdf"], "up to 15; found 99"),
        (["figure", "perturbations", "RUN", "--data", "gone.npz", "-o", "a.pdf"], "gone.npz"),
        (["figure", "all", "RUN", "-o", "FILE"], "expected a folder"),
        (["table", "all", "RUN"], "KIND: expected one of overview"),
        (["table", "overview", "RUN", "-o", "a.pdf"], "ends in .tex, .md, .csv"),
        (["table", "radii", "RUN"], "expected two min-radius runs"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    place: Place,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    there = {"RUN": str(place.path / "lmn"), "FILE": str(place.path / "net.py")}
    assert main([there.get(word, word) for word in words]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert said in error
    assert not list(tmp_path.iterdir())


def laid_out(figure: Figure, path: Path) -> Path:
    """Instead of ``save``, which takes seconds: panels that have no room are a warning here too."""
    if path.suffix == ".pdf":
        figure.draw_without_rendering()
    path.parent.mkdir(exist_ok=True)
    path.touch()
    return path


def test_all_of_several_models(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pwcf.report.all_figures.save", laid_out)
    out = tmp_path / "all"
    assert main(["figure", "all", *paths(place, "lmn", "other", "margin", "ce"), "-o", str(out)]) == 0
    told = capsys.readouterr().out
    files = {path.name for path in out.iterdir()}
    assert f"{out}: {len(files)} files" in told
    for stem in ("accuracy", "radii", "termination", "cross-metric", "loss-clipping", "agreement"):
        assert {f"{stem}.pdf", f"{stem}.png"} <= files
    assert {"perturbations-net.pdf", "perturbations-other.pdf", "table-overview.tex", "table-overview.md"} <= files
    assert "left out: figure best-found (it searches again" in told
    assert "left out: table radii (radii: expected two" in told


def test_parts_keep_names_that_somebody_chose(place: Place) -> None:
    runs = named(place, "lmn", "other", "l1")
    assert [list(part) for part in by_model(runs).values()] == [["l2", "l1"], ["other · l2"]]
    mine = dict(zip("abc", runs.values(), strict=True))
    assert [list(part) for part in by_model(mine).values()] == [["a", "c"], ["b"]]


def test_write_figures_needs_no_command(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = {name: FIGURES[name] for name in ("accuracy", "comparison", "trajectories")}
    monkeypatch.setattr("pwcf.report.all_figures.FIGURES", few)
    written = write_figures(named(place, "l1"), tmp_path / "one", Choices(eps={"": [3.0]}))
    assert all(path.exists() for path in written.files)
    assert {"figure comparison", "figure trajectories"} <= set(written.left_out)


def test_models_that_are_called_alike_stay_apart(place: Place, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text((place.path / "other.py").read_text().replace("def other", "def net"))
    words = {"model": f"{tmp_path}/net.py:net", "data": f"{place.path}/data.npz", "metric": "l2", "budget": 80}
    assert Place(tmp_path).run("alike", **words) == 0
    runs = [pwcf.load_run(place.path / "lmn"), pwcf.load_run(tmp_path / "alike")]
    found = analysis.cross_metric(analysis.name_runs(runs))
    assert found.models == ["net", "net (2)"]
    assert found.median[:, 0].tolist() == [analysis.quantiles_of(run, (0.5,))[0.5] for run in runs]


def test_the_commands_of_the_page_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "analyses.md").read_text("utf-8")
    blocks = re.findall(r"^```(python|sh)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert all(f"`{name}`" in page or f" {name} " in page for name in (*FIGURES, *TABLES))
    assert all(
        f"figures.{name}(" in page for name in figures.__all__ if name.islower() and name != "radius_comparisons"
    )
    monkeypatch.chdir(tmp_path)
    for target in ("figures", "all_figures"):
        monkeypatch.setattr(f"pwcf.report.{target}.save", laid_out)
    exec(blocks[0][1], {})  # the others are run by test_readme.py
    for line in "".join(content for kind, content in blocks if kind == "sh").splitlines():
        words = shlex.split(line)
        # All figures are drawn by test_all_of_several_models.
        if words[:3] != ["pwcf", "figure", "all"]:
            assert main(words[1:]) == 0, f"{line}\n{capsys.readouterr().err}"
    assert (tmp_path / "trajectories.pdf").exists()
    assert (tmp_path / "radii.tex").read_text("utf-8").startswith(r"\begin{tabular}")
