"""Robust accuracy over eps: whole curves, since one eps cannot tell which model is more robust."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from pwcf.analysis import (
    Crossing,
    accuracy_of,
    attacked_in,
    by_topic,
    curve_of,
    model_crossings,
    model_names,
    names_without_question,
)
from pwcf.analysis.curves import STABLE
from pwcf.analysis.naming import model_key
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

NAMED = 3
"""crossings that are put into words in a panel"""
# The axis ends at this many times the 95 % quantile of a model's radii by the attack that is best at it: what weaker
# attacks say beyond is no robustness. It is counted below.
CUT = 1.4


@drawn
def accuracy_curves(runs: Mapping[str, Run]) -> Figure:
    """Robust accuracy over eps, a panel for every metric.

    Curves are min-radius runs, which answer for every eps. Points are max-loss runs at their eps, with the 95 %
    interval for samples like these. Rings are stable crossings (``analysis.model_crossings``): from there on the other
    model is the more robust one, with a clear lead on both sides.
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
    end, beyond = _end(curves, [point.eps for point in points.values()])
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
    found = [crossing for crossing in model_crossings(curves) if crossing.eps <= end]
    notes = _mark(axis, found, model_names(curves))
    if beyond:
        notes.append(f"{beyond} radii lie beyond the axis")
    axis.set(xlim=(0, end), ylim=(-0.03, 1.03), title=metric_label(metric))
    axis.locator_params(axis="x", nbins=5)
    notes_below(axis, "eps", notes)


def _end(curves: Mapping[str, Run], eps: list[float]) -> tuple[float, int]:
    """Where the axis ends, and how many radii lie beyond."""
    of_models: dict[str, float] = {}
    pooled = []
    for name, run in curves.items():
        radii = run.radius.cpu().double()[attacked_in(run)]
        pooled.append(radii[torch.isfinite(radii)])
        if len(pooled[-1]):
            far = min(1.03 * float(pooled[-1].max()), CUT * float(pooled[-1].quantile(0.95)))
            model = model_key(name, run)
            of_models[model] = min(far, of_models.get(model, math.inf))
    end = max([*of_models.values(), *([1.15 * max(eps)] if eps else [])], default=1.0) or 1.0
    return end, sum(int((radii > end).sum()) for radii in pooled)


def _beside(eps: list[float], end: float) -> list[float]:
    """Points of one eps a little beside each other, or their intervals hide one another."""
    places = []
    for i, value in enumerate(eps):
        before, all_alike = eps[:i].count(value), eps.count(value)
        places.append(value + 0.018 * end * (before - (all_alike - 1) / 2))
    return places


def _mark(axis: Axes, found: list[Crossing], models: Mapping[str, str]) -> list[str]:
    """Rings at crossings, with numbers where there are few; the sentences that belong to the numbers."""
    notes = []
    for i, crossing in enumerate(found):
        axis.plot(
            [crossing.eps], [crossing.accuracy], "o", markersize=7, markerfacecolor="none", markeredgecolor="#404040",
            markeredgewidth=0.8, zorder=20, label="_crossing",
        )  # fmt: skip
        if i < NAMED:
            axis.annotate(
                str(i + 1), (crossing.eps, crossing.accuracy), xytext=(5, 4), textcoords="offset points", fontsize=7,
                zorder=21,
            )  # fmt: skip
            notes.append(
                f"{i + 1}: from {_digits(crossing.eps)} on {plain(models[crossing.after], 24)} is above "
                f"{plain(models[crossing.before], 24)}"
            )
    if len(found) > NAMED:
        notes.append(f"and {len(found) - NAMED} more crossings")
    if found:
        notes.append(f"crossings are shown where there is {STABLE}")
    return notes


def _digits(value: float) -> str:
    return "0" if value == 0 or math.isnan(value) else f"{value:.3g}"
