"""Radii: how they are distributed, what an eps makes of them, and whose are smaller sample by sample."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import torch
from torch import Tensor

from pwcf._common.wording import share_text
from pwcf.analysis import (
    attacked_in,
    by_topic,
    compare_radii,
    eps_choices,
    eps_text,
    found_in,
    names_without_question,
    radii_of,
    takes_runs,
)
from pwcf.analysis.agreement import CLEARLY
from pwcf.analysis.masks import aligned
from pwcf.evaluation import Run
from pwcf.report.figures.canvas import (
    ABREAST,
    COLUMN,
    PAGE,
    NothingToShow,
    bins_for,
    drawn,
    edges_of,
    legend_below,
    line_handle,
    long_tailed,
    metric_label,
    min_radius_runs,
    notes_below,
    numbers,
    panels,
    plain,
    sheet,
)
from pwcf.report.style import BLACK, BLUE, COLOURS, GREY, VERMILION, PlotStyle, plot_styles
from pwcf.runs import RecordedRun, RunLike, recorded

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Eps = Sequence[float] | Mapping[str, Sequence[float]]
"""choices for every metric, or by the metric's name"""
HISTOGRAMS = 3
"""more than so many in one panel hide each other: they are drawn as shares of samples up to a radius"""

LISTED = 2
"""runs whose shares are written one by one"""
LOGARITHMIC = 30
"""how many times the least radius the largest may be on a linear axis"""
UNEVEN = 15
"""how many times the median difference the largest may be on a linear axis"""


@drawn
@takes_runs
def radius_distribution(
    runs: Mapping[str, Run], eps: Eps = (), kind: Literal["auto", "histogram", "ecdf"] = "auto"
) -> Figure:
    """How radii are distributed, a panel for every metric, and what each eps would break of them.

    Args:
        runs: those of min-radius are shown.
        eps: dashed lines; below stands the share of attacked samples that each breaks. An eps far beyond all radii
            (the paper's case: l1 and 12) breaks everything and says nothing about the model.
        kind: histograms, or the share of attacked samples with a radius up to a value; auto: histograms of up to 3.

    Returns:
        A figure with a panel for each topic (``analysis.by_topic``).
    """
    if kind not in ("auto", "histogram", "ecdf"):
        raise ValueError(f"kind: expected auto, histogram or ecdf, found {kind!r}")
    chosen = min_radius_runs(runs, "radius_distribution")
    short = names_without_question(chosen)
    styles = plot_styles(short.values(), colours=(BLUE, VERMILION, *COLOURS[2:], BLACK))
    groups = by_topic(chosen)
    figure, axes = panels(len(groups))
    for axis, (metric, members) in zip(axes, groups.items(), strict=True):
        asked = next(iter(members.values())).problem.metric.name
        lines = list(eps.get(asked, ())) if isinstance(eps, Mapping) else list(eps)
        bars = kind == "histogram" or (kind == "auto" and len(members) <= HISTOGRAMS)
        _distribution(axis, metric, members, lines, bars, short, styles)
    if len(styles) > 1:
        legend_below(figure, [line_handle(style) for style in styles.values()], [plain(name) for name in styles])
    return figure


def _distribution(
    axis: Axes, metric: str, members: Mapping[str, Run], eps: list[float], bars: bool,
    short: Mapping[str, str], styles: Mapping[str, PlotStyle],
) -> None:  # fmt: skip
    radii = {name: radii_of(run) for name, run in members.items()}
    pooled = torch.cat(list(radii.values()))
    if not len(pooled):
        raise NothingToShow(f"radius_distribution: expected radii in {metric}, found none: no run has found a point")
    # An eps far beyond all radii would leave them a single bar.
    logarithmic = long_tailed(torch.cat((pooled, pooled.new_tensor([value for value in eps if value > 0]))))
    edges = edges_of(pooled, bins_for(max(map(len, radii.values()))), logarithmic)
    notes = []
    for name, values in radii.items():
        style = styles[short[name]]
        if bars:
            axis.hist(numbers(values), edges, color=style.colour, alpha=0.35, linewidth=0, zorder=style.order)
            axis.hist(
                numbers(values), edges, histtype="step", color=style.colour, linestyle=style.line,
                linewidth=style.width, zorder=style.order, label=short[name],
            )  # fmt: skip
        else:
            share = torch.arange(1, len(values) + 1) / max(int(attacked_in(members[name]).sum()), 1)
            axis.step(
                numbers(values), numbers(share), where="post", color=style.colour, linestyle=style.line,
                linewidth=style.width, zorder=style.order, label=short[name],
            )  # fmt: skip
        missing = int(attacked_in(members[name]).sum()) - len(values)
        if missing:
            whose = f"{plain(short[name], 24)}: " if len(members) > 1 else ""
            notes.append(f"{whose}{missing} of {missing + len(values)} without a point")
    if logarithmic:
        axis.set_xscale("log")
    for value in eps:
        axis.axvline(value, color=GREY, linestyle=(0, (4, 2)), linewidth=1, zorder=15, label="_eps")
        notes.append(_what_it_breaks(value, members, short))
    axis.set_title(metric_label(metric))
    axis.set_ylabel("samples" if bars else "share of samples")
    if bars:
        axis.locator_params(axis="y", integer=True)
    else:
        axis.set_ylim(0, 1.03)
    notes_below(axis, "radius", notes)


def _what_it_breaks(eps: float, members: Mapping[str, Run], short: Mapping[str, str]) -> str:
    shares = {name: eps_choices(run, (eps,))[0].within for name, run in members.items()}
    if len(shares) > LISTED:
        return (
            f"eps {eps_text(eps)} breaks {share_text(min(shares.values()), 0)} to {share_text(max(shares.values()), 0)}"
        )
    if len(shares) == 1:
        return f"eps {eps_text(eps)} breaks {share_text(next(iter(shares.values())), 0)}"
    each = ", ".join(f"{share_text(share, 0)}\u00a0({plain(short[name], 24)})" for name, share in shares.items())
    return f"eps {eps_text(eps)} breaks {each}"


class Pair(NamedTuple):
    """Two runs about the same question and samples, with their names."""

    first_name: str
    first: Run
    second_name: str
    second: Run


@drawn
def radius_comparison(first: RunLike, second: RunLike, names: tuple[str, str] = ("first", "second")) -> Figure:
    """Two min-radius runs sample by sample (the paper's figure of PWCF against FAB).

    Above the radii of the first, rising; below the first's minus the second's: below zero the first is smaller.
    Differences of up to 1 % are grey.

    Args:
        first: of min-radius; in memory, loaded, or the path of its folder.
        second: of min-radius in the same metric.
        names: of both.

    Returns:
        A figure with two panels, over the samples for which both have a point.
    """
    return _comparisons({"": Pair(names[0], recorded(first), names[1], recorded(second))})


@drawn
def radius_comparisons(pairs: Mapping[str, Pair]) -> Figure:
    """Several pairs of runs beside each other, each as in ``radius_comparison``.

    Args:
        pairs: by title.

    Returns:
        A figure with two panels for each pair.
    """
    return _comparisons(
        {
            title: pair._replace(first=recorded(pair.first), second=recorded(pair.second))
            for title, pair in pairs.items()
        }
    )


def _comparisons(pairs: Mapping[str, Pair]) -> Figure:
    if not pairs:
        raise NothingToShow("radius_comparison: expected two runs of min-radius in one metric, found none")
    for pair in pairs.values():
        metrics = {run.problem.metric.name for run in (pair.first, pair.second)}
        if len(metrics) > 1:
            raise ValueError(
                f"radius_comparison: expected one metric, found {' and '.join(sorted(metrics))}; "
                "their radii are no comparable lengths"
            )
    blocks = math.ceil(len(pairs) / ABREAST)
    columns = math.ceil(len(pairs) / blocks)
    figure, axes = sheet(2 * blocks, columns, width=min(PAGE, COLUMN * columns), height=1.2)
    alike = len({(pair.first_name, pair.second_name) for pair in pairs.values()}) == 1
    for number, (title, pair) in enumerate(pairs.items()):
        above, below = (axes[2 * (number // columns) + half][number % columns] for half in (0, 1))
        _comparison(above, below, title, pair, names_too=not alike)
        if number % columns == 0:
            one, two = plain(pair.first_name, 14), plain(pair.second_name, 14)
            above.set_ylabel(f"radius\n{one}" if alike else "radius of\nthe first")
            below.set_ylabel(f"{one}\n– {two}" if alike else "difference")
    for empty in range(len(pairs), blocks * columns):
        for row in (-2, -1):
            axes[row][empty % columns].set_visible(False)
    figure.align_ylabels()
    return figure


def _comparison(above: Axes, below: Axes, title: str, pair: Pair, names_too: bool) -> None:
    found = compare_radii(pair.first, pair.second)
    if not len(found.first):
        raise NothingToShow("radius_comparison: expected samples for which both runs have a point, found none")
    rank = list(range(1, len(found.first) + 1))
    above.bar(rank, numbers(found.first), width=1, color=GREY, alpha=0.6, linewidth=0, log=long_tailed(found.first))
    difference = found.difference
    smaller, larger = difference < -CLEARLY * found.second, difference > CLEARLY * found.first
    colours = [BLUE if s else VERMILION if l else "#999999" for s, l in zip(smaller, larger, strict=True)]
    below.bar(rank, numbers(difference), width=1, color=colours, linewidth=0)
    below.axhline(0, color="black", linewidth=0.6)
    _signed_scale(below, difference)
    above.set_title(plain(title) if title else metric_label(pair.first.problem.metric.name))
    above.tick_params(labelbottom=False)
    above.set_xlim(0.4, len(rank) + 0.6)
    below.set_xlim(above.get_xlim())
    for axis in (above, below):
        axis.locator_params(axis="x", integer=True)
    one, two = plain(pair.first_name, 28), plain(pair.second_name, 28)
    same = len(rank) - int(smaller.sum()) - int(larger.sum())
    notes = [f"{one} smaller on {int(smaller.sum())}, {two} on {int(larger.sum())}, within 1%: {same}"]
    if names_too:
        notes.insert(0, f"first: {one}; difference: {one} minus {two}")
    notes_below(below, "sample, by radius", notes)


def _signed_scale(axis: Axes, difference: Tensor) -> None:
    """Logarithmic to both sides where a few differences are far larger than most."""
    widest, typical = float(difference.abs().max()), float(difference.abs().median())
    if not widest > UNEVEN * typical > 0:
        axis.margins(y=0.15)
        return
    decade = 10.0 ** math.floor(math.log10(widest))
    axis.set_yscale("symlog", linthresh=decade / 100, linscale=0.5)
    low, high = min(float(difference.min()), 0.0), max(float(difference.max()), 0.0)
    axis.set_ylim(2 * low if low else -decade / 100, 2 * high if high else decade / 100)
    bottom, top = axis.get_ylim()
    ticks = [tick for tick in (-decade, -decade / 10, 0.0, decade / 10, decade) if bottom <= tick <= top]
    axis.set_yticks(ticks, [f"{tick:g}".replace("-", "\u2212") for tick in ticks])
    axis.minorticks_off()


@drawn
@takes_runs
def radii_by_sample(runs: Mapping[str, Run], ordered: bool = False) -> Figure:
    """Radii of several runs over the samples they share: metrics, attacks or formulations side by side.

    Args:
        runs: those of min-radius are shown.
        ordered: samples by rising radius of the first run instead of by their number.

    Returns:
        A figure with one panel, a line for each run.
    """
    chosen = min_radius_runs(runs, "radii_by_sample")
    shared, index = _shared(chosen)
    if not len(index):
        raise NothingToShow("radii_by_sample: expected samples that all runs share, found none")
    attacked = torch.stack([attacked_in(run) for run in shared.values()]).any(0)
    if not bool(attacked.any()):
        raise NothingToShow("radii_by_sample: expected attacked samples, found none: all are misclassified as they are")
    radii = {
        name: torch.where(found_in(run), run.radius.cpu().double(), torch.nan)[attacked] for name, run in shared.items()
    }
    x = index[attacked].double()
    if ordered:
        order = next(iter(radii.values())).nan_to_num(torch.inf).argsort(stable=True)
        radii = {name: values[order] for name, values in radii.items()}
        x = torch.arange(1, len(order) + 1).double()
    styles = plot_styles(radii, colours=(*COLOURS, BLACK))
    figure, axes = sheet(1, 1, width=PAGE if len(x) > 40 else COLUMN * 1.3, height=2.1)
    axis = axes[0][0]
    for name, values in radii.items():
        style = styles[name]
        axis.plot(
            numbers(x), numbers(values), color=style.colour, marker=style.marker, markersize=2.8, linewidth=0.7,
            linestyle=style.line, label=name,
        )  # fmt: skip
        missing = x[~torch.isfinite(values)]
        if len(missing):
            axis.plot(
                numbers(missing), [0.985] * len(missing), style.marker, transform=axis.get_xaxis_transform(),
                markersize=3.5, markerfacecolor="none", color=style.colour, clip_on=False, label="_missing",
            )  # fmt: skip
    pooled = torch.cat(list(radii.values()))
    pooled = pooled[torch.isfinite(pooled)]
    if len(pooled) and float(pooled.min()) > 0 and float(pooled.max()) > LOGARITHMIC * float(pooled.min()):
        axis.set_yscale("log")
    metrics = {run.problem.metric.name for run in shared.values()}
    axis.set_ylabel(f"radius ({metric_label(metrics.pop())})" if len(metrics) == 1 else "radius")
    notes = ["open markers at the top: no point found"] if len(pooled) < sum(map(len, radii.values())) else []
    axis.locator_params(axis="x", integer=True)
    notes_below(axis, "sample, by radius of the first" if ordered else "sample", notes)
    legend_below(figure, *_handles(styles))
    return figure


def _handles(styles: Mapping[str, PlotStyle]) -> tuple[list[object], list[str]]:
    return [line_handle(style, marker=True) for style in styles.values()], [plain(name) for name in styles]


def _shared(runs: Mapping[str, Run]) -> tuple[dict[str, Run], Tensor]:
    """On the samples that all have, and their places in the first one's data."""
    listed = aligned(list(runs.values()))
    index = listed[0].index if isinstance(listed[0], RecordedRun) else torch.arange(len(listed[0].status))
    return dict(zip(runs, listed, strict=True)), index
