"""Attacks against each other: mean radii over the budget, and local optimality on every model and metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

import torch

from pwcf.analysis import AttackScore, RunsLike, attack_scores
from pwcf.report.figures.canvas import (
    PAGE,
    NothingToShow,
    drawn,
    in_lines,
    legend_below,
    line_handle,
    notes_below,
    numbers,
    panels,
    plain,
    sheet,
)
from pwcf.report.figures.matrices import frameless, write_numbers
from pwcf.report.style import PlotStyle, is_ours, plot_styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHOWN = 1.5
"""Attacks whose best mean is beyond so many times the lowest are cut off: differences that matter would not be seen."""


@drawn
def radius_over_budget(scores: Sequence[AttackScore] | RunsLike) -> Figure:
    """Mean radius over the budget, a line for every attack, a panel for every model and metric.

    Samples without a point count as the largest radius that any run found there.

    Args:
        scores: runs with several budgets, or ``analysis.attack_scores`` of them.

    Returns:
        A figure with a panel for each model and topic that has several budgets.
    """
    groups: dict[str, dict[str, dict[int, float]]] = {}
    for score in _scores(scores):
        if score.budget is not None and score.filled_mean == score.filled_mean:
            lines = groups.setdefault(f"{score.model} · {score.topic}", {})
            # Of several runs with one budget, seeds for instance, the best counts.
            means = lines.setdefault(score.attack, {})
            means[score.budget] = min(score.filled_mean, means.get(score.budget, score.filled_mean))
    groups = {
        title: lines for title, lines in groups.items() if len({at for means in lines.values() for at in means}) > 1
    }
    if not groups:
        raise NothingToShow(
            "radius-over-budget: expected min-radius runs of one model and metric with several budgets, found none"
        )
    styles = plot_styles((attack for lines in groups.values() for attack in lines), stand_out=True)
    figure, axes = panels(len(groups), height=2.0)
    for axis, (title, lines) in zip(axes, groups.items(), strict=True):
        _panel(axis, lines, styles)
        axis.set_title(in_lines(title, 30))
    axes[0].set_ylabel("mean radius")
    legend_below(
        figure, [line_handle(style, marker=True) for style in styles.values()], [plain(name) for name in styles]
    )
    return figure


def _panel(axis: Axes, lines: Mapping[str, Mapping[int, float]], styles: Mapping[str, PlotStyle]) -> None:
    for name, means in lines.items():
        style, budgets = styles[name], sorted(means)
        axis.plot(
            budgets, [means[at] for at in budgets], color=style.colour, linestyle=style.line, marker=style.marker,
            linewidth=style.width, markersize=4, zorder=style.order, label=name,
        )  # fmt: skip
    everyone = [mean for means in lines.values() for mean in means.values()]
    lowest = min(everyone)
    # All of ours, and of the others what is about as good.
    limit = max(
        SHOWN * lowest, *(mean for name, means in lines.items() if is_ours(name) for mean in means.values()), 0.0
    )
    highest = max(mean for mean in everyone if mean <= limit)
    room = 0.06 * (highest - lowest) or 0.05 * lowest or 0.05
    axis.set_ylim(lowest - room, highest + room)
    axis.set_xscale("log")
    ticks = sorted({at for means in lines.values() for at in means})
    axis.set_xticks(ticks, [str(at) for at in ticks])
    axis.minorticks_off()
    hidden = sum(min(means.values()) > limit for means in lines.values())
    notes = ["samples without a point count as the largest radius found"]
    notes_below(axis, "budget: passes per sample", notes + ([f"{hidden} attack(s) above"] if hidden else []))


def _scores(scores: Sequence[AttackScore] | RunsLike) -> list[AttackScore]:
    if isinstance(scores, Sequence) and all(isinstance(each, AttackScore) for each in scores):
        return [each for each in scores if isinstance(each, AttackScore)]
    return attack_scores(cast(RunsLike, scores))


@drawn
def local_optimality(scores: Sequence[AttackScore] | RunsLike) -> Figure:
    """AttackBench's local optimality of every attack on every model and metric, each at its largest budget.

    1: as good as all runs together; 0: it breaks nothing.

    Args:
        scores: runs, or ``analysis.attack_scores`` of them.

    Returns:
        A figure with one matrix, attacks by models and topics.
    """
    cells: dict[tuple[str, str], AttackScore] = {}
    for score in _scores(scores):
        key = score.attack, f"{score.model} · {score.topic}"
        if score.xi == score.xi and (key not in cells or (score.budget or 0) >= (cells[key].budget or 0)):
            cells[key] = score
    attacks = sorted(dict.fromkeys(attack for attack, _ in cells), key=lambda name: not is_ours(name))
    if len(attacks) < 2:
        raise NothingToShow("xi: expected min-radius runs of two attacks on one model and metric, found fewer")
    columns = list(dict.fromkeys(column for _, column in cells))
    values = torch.full((len(attacks), len(columns)), torch.nan, dtype=torch.float64)
    for (attack, column), score in cells.items():
        values[attacks.index(attack), columns.index(column)] = score.xi
    names = [plain(name, 30) for name in attacks]
    figure, axes = sheet(
        1, 1, width=min(PAGE, 0.75 * len(columns) + 0.07 * max(map(len, names)) + 1.2), height=0.3 * len(names) + 1.2
    )
    axis = axes[0][0]
    axis.imshow(numbers(values), vmin=0, vmax=1, cmap="cividis", aspect="auto")
    frameless(axis)
    write_numbers(axis, values, values, lambda value: f"{value:.2f}")
    axis.set_yticks(range(len(names)), names)
    axis.set_xticks(range(len(columns)), [in_lines(name, 14) for name in columns], rotation=45, ha="right")
    notes_below(axis, "local optimality", ["1: as good as all runs about that model and metric together"])
    return figure
