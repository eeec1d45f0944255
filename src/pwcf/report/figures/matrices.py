"""Matrices with numbers in them: who breaks what, and models against metrics."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pwcf import analysis
from pwcf.analysis import Agreement, CrossMetric, RunsLike
from pwcf.report.figures.canvas import PAGE, SMALL, NothingToShow, drawn, metric_label, numbers, plain, sheet
from pwcf.report.style import BLUE, GREY, ORANGE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DARK = 0.55
"""cividis is dark below this share of its range: numbers on it are white"""


@drawn
def agreement(agreement: Agreement | RunsLike) -> Figure:
    """Who breaks what: samples that one attack breaks and another does not, what each breaks alone, and together.

    Args:
        agreement: max-loss runs, ``analysis.agreement_of`` runs, or ``agreement_within`` one.

    Returns:
        A figure with three panels: a matrix of pairs, bars, and the curve of the union.
    """
    agreement = agreement if isinstance(agreement, Agreement) else analysis.agreement_of(agreement)
    if not agreement.samples:
        raise NothingToShow("agreement: expected attacked samples, found none")
    count = len(agreement.names)
    places = list(range(count))
    figure, axes = sheet(1, 3, width=PAGE, height=max(1.9, 0.24 * count + 1.1))
    matrix, bars, curve = axes[0]
    # Rows of the matrix and the bars are the same attacks: they are named once, and known by their numbers elsewhere.
    _matrix(matrix, agreement.only_first.double())
    matrix.set_yticks(places, [f"{plain(name, 34)}  {i}" for i, name in enumerate(agreement.names, 1)])
    matrix.set_xticks(places, [str(i + 1) for i in places])
    matrix.set_title("row breaks, column does not")
    counts, alone = agreement.counts, agreement.alone
    bars.barh(places, numbers(counts - alone), color=BLUE, label="others too")
    bars.barh(places, numbers(alone), left=numbers(counts - alone), color=ORANGE, label="no other")
    for place, (total, only) in enumerate(zip(counts.tolist(), alone.tolist(), strict=True)):
        bars.text(total, place, f" {total}" + (f" ({only} alone)" if only else ""), va="center", fontsize=SMALL)
    bars.set_yticks(places, [str(i + 1) for i in places])
    bars.set_xlim(0, 1.6 * max(int(counts.max()), 1))
    bars.set_ylim(count - 0.5, -0.5)
    bars.grid(False, axis="y")
    bars.set_title(f"broken, of {agreement.samples}")
    bars.locator_params(axis="x", integer=True, nbins=4)
    union = agreement.union_curve()
    curve.plot(range(1, count + 1), [broken for _, broken in union], "o-", color="black", markersize=4, label="union")
    curve.axhline(agreement.samples, color=GREY, linewidth=0.8, linestyle=(0, (4, 2)), label="_all")
    steps = [str(agreement.names.index(name) + 1) for name, _ in union]
    curve.set_xticks(range(1, count + 1), [f"+{step}" if i else step for i, step in enumerate(steps)])
    curve.set_title("broken together")
    curve.set_xlim(0.6, count + 0.4)
    low = min(broken for _, broken in union)
    curve.set_ylim(max(0, low - 0.35 * (agreement.samples - low) - 1), agreement.samples + 0.5)
    curve.locator_params(axis="y", integer=True)
    return figure


@drawn
def cross_metric(table: CrossMetric | RunsLike, relative: bool = False) -> Figure:
    """Median radii, models by rows and metrics by columns; colours compare the models of one column.

    Args:
        table: runs, or ``analysis.cross_metric`` of them.
        relative: numbers divided by the first model's: what training bought, and where it bought nothing.

    Returns:
        A figure with one matrix, models by metrics.
    """
    table = table if isinstance(table, CrossMetric) else analysis.cross_metric(table)
    if not table.models:
        raise NothingToShow("cross_metric: expected runs of min-radius, found none")
    values = table.relative() if relative else table.median
    finite = torch.where(torch.isfinite(values), values, torch.nan)
    best = torch.nan_to_num(finite, nan=-torch.inf).amax(0)
    # Where most samples stand the median is infinite: that is the most robust one can be.
    shades = torch.where(torch.isinf(values), 1.0, finite / torch.where(best > 0, best, 1.0))
    names = [plain(name, 30) for name in table.models]
    longest = max(map(len, names))
    figure, axes = sheet(1, 1, width=min(PAGE, 0.75 * len(table.metrics) + 0.07 * longest + 0.9),
                         height=0.34 * len(names) + 0.75)  # fmt: skip
    axis = axes[0][0]
    axis.imshow(numbers(shades), vmin=0, vmax=1, cmap="cividis", aspect="auto")
    frameless(axis)
    write_numbers(axis, values, shades, lambda value: f"{value:.3g}")
    axis.set_xticks(range(len(table.metrics)), [metric_label(name) for name in table.metrics])
    axis.set_yticks(range(len(names)), names)
    axis.xaxis.tick_top()
    axis.tick_params(length=0)
    axis.set_xlabel("median radius" + (f", of {plain(table.models[0], 24)}'s" if relative else ""))
    return figure


def _matrix(axis: Axes, values: Tensor) -> None:
    largest = float(values.max()) or 1.0
    shown = values.clone()
    shown.fill_diagonal_(torch.nan)
    shades = shown / largest
    axis.imshow(numbers(shades), vmin=0, vmax=1, cmap="cividis", aspect="auto")
    write_numbers(axis, shown, shades, lambda value: f"{value:.0f}")
    frameless(axis)


def frameless(axis: Axes) -> None:
    """No ticks, no grid, no frame."""
    axis.grid(False)
    axis.tick_params(length=0)
    for spine in axis.spines.values():
        spine.set_visible(False)


def write_numbers(axis: Axes, values: Tensor, shades: Tensor, text: Callable[[float], str]) -> None:
    """Into the cells of a matrix, in white where its shade (0 to 1) is dark."""
    for i, row in enumerate(values.tolist()):
        for j, value in enumerate(row):
            shade = float(shades[i, j])
            if math.isnan(value):
                continue
            shown = "∞" if math.isinf(value) else text(value)
            axis.text(j, i, shown, ha="center", va="center", fontsize=SMALL, color="white" if shade < DARK else "black")
