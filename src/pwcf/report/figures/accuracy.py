"""Robust accuracy over eps: whole curves, since one eps cannot tell which model is more robust."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from pwcf.analysis import (
    CurvePanel,
    accuracy_of,
    by_topic,
    curve_of,
    curve_panel,
    different_samples,
    names_without_question,
    takes_runs,
)
from pwcf.analysis.curves import STABLE
from pwcf.evaluation import Run
from pwcf.problems import MaxLoss, MinRadius
from pwcf.report.figures.canvas import (
    NothingToShow,
    drawn,
    legend_below,
    line_handle,
    metric_label,
    notes_below,
    numbers,
    panels,
    plain,
)
from pwcf.report.style import BLACK, COLOURS, PlotStyle, plot_styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@drawn
@takes_runs
def accuracy_curves(runs: Mapping[str, Run]) -> Figure:
    """Robust accuracy over eps, a panel for every metric.

    Curves are min-radius runs, which answer for every eps. Points are max-loss runs at their eps, with the 95 %
    interval for samples like these. Rings are stable crossings (``analysis.model_crossings``): from there on the other
    model is the more robust one, with a clear lead on both sides. ``analysis.curve_panel`` says where the axis ends and
    which crossings are marked, for the page too.

    Args:
        runs: by name, of either question.

    Returns:
        A figure with a panel for each topic (``analysis.by_topic``).
    """
    if not runs:
        raise NothingToShow("accuracy_curves: expected runs, found none")
    short = names_without_question(runs)
    styles = plot_styles(short.values(), colours=(BLACK, *COLOURS))
    groups = by_topic(runs)
    figure, axes = panels(len(groups), height=2.0)
    for axis, (metric, members) in zip(axes, groups.items(), strict=True):
        _panel(axis, metric, members, short, styles)
    axes[0].set_ylabel("robust accuracy")
    lines = {short[name] for name, run in runs.items() if isinstance(run.problem, MinRadius)}
    points = {short[name] for name, run in runs.items() if isinstance(run.problem, MaxLoss)}
    handles = [line_handle(style, marker=name in points, line=name in lines) for name, style in styles.items()]
    legend_below(figure, handles, [plain(name) for name in styles])
    return figure


def _panel(
    axis: Axes, metric: str, members: Mapping[str, Run], short: Mapping[str, str], styles: Mapping[str, PlotStyle]
) -> None:
    curves = {name: run for name, run in members.items() if isinstance(run.problem, MinRadius)}
    asked = {name: run for name, run in members.items() if isinstance(run.problem, MaxLoss)}
    points = {name: accuracy_of(run) for name, run in asked.items()}
    shown = curve_panel(members)
    end = shown.end
    for name, run in curves.items():
        curve, style = curve_of(run), styles[short[name]]
        last = curve.eps.new_tensor([max(end, float(curve.eps[-1]))])
        x, y = torch.cat((curve.eps, last)), torch.cat((curve.accuracy, curve.accuracy[-1:]))
        axis.step(
            numbers(x), numbers(y), where="post", color=style.colour, linestyle=style.line, linewidth=style.width,
            zorder=style.order, label=short[name],
        )  # fmt: skip
    for name, place in zip(points, _beside([point.eps for point in points.values()], end), strict=True):
        point, style = points[name], styles[short[name]]
        spread = [[point.robust - point.low], [point.high - point.robust]]
        axis.errorbar(
            [place], [point.robust], yerr=spread, fmt=style.marker, color=style.colour, markersize=4, capsize=2,
            elinewidth=0.8, markeredgecolor="white", markeredgewidth=0.4, zorder=style.order + 5, label=short[name],
        )  # fmt: skip
    notes = _mark(axis, shown, short)
    if different := different_samples([*members.values()]):
        notes.append(different)
    if shown.beyond:
        notes.append(f"{shown.beyond} radii lie beyond the axis")
    axis.set(xlim=(0, end), ylim=(-0.03, 1.03), title=metric_label(metric))
    axis.locator_params(axis="x", nbins=5)
    notes_below(axis, "eps", notes)


def _beside(eps: list[float], end: float) -> list[float]:
    """Points of one eps a little beside each other, or their intervals hide one another."""
    places = []
    for i, value in enumerate(eps):
        before, all_alike = eps[:i].count(value), eps.count(value)
        places.append(value + 0.018 * end * (before - (all_alike - 1) / 2))
    return places


def _mark(axis: Axes, shown: CurvePanel, short: Mapping[str, str]) -> list[str]:
    """Draw numbered rings at crossings; returns the sentences that belong to the numbers, with the legend's names."""
    notes = []
    for i, crossing in enumerate(shown.crossings, 1):
        axis.plot(
            [crossing.eps], [crossing.accuracy], "o", markersize=7, markerfacecolor="none", markeredgecolor="#404040",
            markeredgewidth=0.8, zorder=20, label="_crossing",
        )  # fmt: skip
        axis.annotate(
            str(i), (crossing.eps, crossing.accuracy), xytext=(5, 4), textcoords="offset points", fontsize=7, zorder=21
        )
        notes.append(
            f"{i}: from {crossing.eps:.3g} on {plain(short[crossing.after], 24)} is above "
            f"{plain(short[crossing.before], 24)}"
        )
    if shown.more:
        notes.append(f"and {shown.more} more crossings")
    if shown.crossings:
        notes.append(f"crossings are shown where there is {STABLE}")
    return notes
