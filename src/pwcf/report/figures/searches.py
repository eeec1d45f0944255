"""Searches: where they end, when they found their best point, and how they got there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import torch

from pwcf.analysis import Trace, attacked_in, takes_runs, termination_of
from pwcf.evaluation import Run
from pwcf.report.figures.canvas import (
    COLUMN,
    PAGE,
    NothingToShow,
    bins_for,
    drawn,
    edges_of,
    in_lines,
    legend_below,
    line_handle,
    long_tailed,
    notes_below,
    numbers,
    panels,
    plain,
    sheet,
)
from pwcf.report.style import BLUE, GREEN, GREY, ORANGE, PINK, SKY, VERMILION, plot_styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# What supports its answer is blue or green, what does not is orange or red; the order is that of the bars, upwards.
ENDS = {
    "converged": BLUE,
    "found": GREEN,
    "budget": ORANGE,
    "stalled": PINK,
    "not-found": VERMILION,
    "contradicted": GREY,
    "max-iterations": SKY,
}
LEAST = 1e-6
"""violations below are drawn as this: the axis is logarithmic"""


@drawn
@takes_runs
def termination(runs: Mapping[str, Run], by: Literal["passes", "seconds"] = "passes") -> Figure:
    """Where searches end, a histogram for every run, coloured by how they ended.

    Args:
        runs: of any question.
        by: passes a sample took, all attacks, checks and evidence together, with the budget as a dashed line; or
            seconds, which samples that were worked on together share (``pwcf run --chunk 1`` for each one's own).

    Returns:
        A figure with a panel for each run that attacked samples.
    """
    if by not in ("passes", "seconds"):
        raise ValueError(f"by: expected passes or seconds, found {by!r}")
    ended = {name: termination_of(run) for name, run in runs.items() if bool(attacked_in(run).any())}
    if not ended:
        raise NothingToShow("termination: expected runs with attacked samples, found none")
    effort = {name: (each.passes if by == "passes" else each.seconds).double() for name, each in ended.items()}
    pooled = torch.cat(list(effort.values()))
    logarithmic = long_tailed(pooled)
    edges = edges_of(pooled, bins_for(max(map(len, effort.values()))), logarithmic)
    figure, axes = panels(len(ended), height=1.5)
    seen: dict[str, str] = {}
    for axis, (name, values) in zip(axes, effort.items(), strict=True):
        run = runs[name]
        status = [run.status[i].value for i in attacked_in(run).nonzero().squeeze(1).tolist()]
        kinds = sorted(set(status), key=lambda kind: (list(ENDS).index(kind) if kind in ENDS else len(ENDS), kind))
        parts = [numbers(values[torch.tensor([each == kind for each in status])]) for kind in kinds]
        colours = [ENDS.get(kind, GREY) for kind in kinds]
        seen |= dict(zip(kinds, colours, strict=True))
        axis.hist(parts, edges, stacked=True, color=colours, label=kinds, linewidth=0)
        budget = ended[name].budget
        if by == "passes" and budget is not None:
            axis.axvline(budget, color=GREY, linestyle=(0, (4, 2)), linewidth=1, label="_budget")
        if logarithmic:
            axis.set_xscale("log")
        axis.set_title(in_lines(name, 30))
        notes_below(axis, by, [", ".join(f"{kind} {count}" for kind, count in ended[name].status.items())])
    _same_x(axes)
    _samples(figure, axes)
    legend_below(figure, *_patches(seen, budget=by == "passes" and any(e.budget is not None for e in ended.values())))
    return figure


@drawn
def best_found(traces: Mapping[str, Sequence[Trace]], budget: int | None = None) -> Figure:
    """At which pass each attack found its best point (the paper's first figure), a panel for every attack.

    Args:
        traces: by attack, one for every sample: ``analysis.trace`` or ``analysis.retrace``.
        budget: passes, drawn as a dashed line: what lies beyond would have been missed with it.

    Returns:
        A figure with a histogram for each attack.
    """
    if not traces:
        raise NothingToShow("best_found: expected traces of at least one attack, found none")
    found = {name: [at for each in several if (at := each.best_at) is not None] for name, several in traces.items()}
    pooled = torch.tensor([at for several in found.values() for at in several], dtype=torch.float64)
    if not len(pooled):
        raise NothingToShow("best_found: expected traces with a feasible point, found none")
    last = max(float(each.passes[-1]) for several in traces.values() for each in several if len(each.passes))
    whole = torch.tensor([0.0, max(last, budget or 0)], dtype=torch.float64)
    edges = edges_of(whole, bins_for(max(map(len, found.values()))))
    styles = plot_styles(found)
    figure, axes = panels(len(found), height=1.5)
    for axis, (name, values) in zip(axes, found.items(), strict=True):
        searched = sum(bool(len(each.passes)) for each in traces[name])
        axis.hist(values, edges, color=styles[name].colour, linewidth=0, label=name)
        notes = [f"{len(values)} of {searched} searches found a point"]
        if budget is not None:
            axis.axvline(budget, color=ORANGE, linestyle=(0, (4, 2)), linewidth=1.3, label="_budget")
            notes.append(f"{sum(at > budget for at in values)} best points after {budget} passes")
        axis.set_title(in_lines(name, 30))
        notes_below(axis, "passes until the best point", notes)
    _same_x(axes)
    _samples(figure, axes)
    return figure


@drawn
def trajectories(traces: Mapping[str, Sequence[Trace]], sample: int = 0) -> Figure:
    """How several attacks, or variants of one, searched one sample.

    Above the objective: thin at every point that was asked about, thick the best feasible one so far, a dot where it
    was found. Below by how much points break their constraints; zero is drawn at the lower edge.

    Args:
        traces: by attack or variant: ``analysis.trace`` or ``analysis.retrace``.
        sample: which of each one's traces.

    Returns:
        A figure with two panels, a line for each attack or variant in both.
    """
    chosen = {}
    for name, several in traces.items():
        if not 0 <= sample < len(several):
            raise ValueError(f"sample: expected 0 to {len(several) - 1}, found {sample}")
        if len(several[sample].passes):
            chosen[name] = several[sample]
    if not chosen:
        raise NothingToShow(
            f"trajectories: expected a search of sample {sample}, found none: it is misclassified as it is"
        )
    kinds = {each.eps is None for each in chosen.values()}
    if len(kinds) > 1:
        raise ValueError("trajectories: expected one question, found both min-radius and max-loss")
    styles = plot_styles(chosen)
    figure, axes = sheet(2, 1, width=COLUMN if len(chosen) < 3 else PAGE * 0.75, height=1.4)
    above, below = axes[0][0], axes[1][0]
    for name, each in chosen.items():
        style = styles[name]
        x = numbers(each.passes)
        above.plot(x, numbers(each.objective), color=style.colour, linewidth=0.5, alpha=0.35, label="_asked")
        best = torch.where(torch.isfinite(each.best), each.best, torch.nan)
        above.step(
            x, numbers(best), where="post", color=style.colour, linestyle=style.line, linewidth=1.6, label=name,
            zorder=style.order,
        )  # fmt: skip
        if each.best_at is not None:
            above.plot([each.best_at], [float(each.best[-1])], "o", color=style.colour, markersize=4, label="_best")
        below.plot(
            x, numbers(each.violation.clamp(min=LEAST)), color=style.colour, linestyle=style.line, linewidth=0.7,
            label=name, zorder=style.order,
        )  # fmt: skip
    _room_for_the_best(above, chosen)
    _violation_scale(below, chosen)
    above.sharex(below)
    above.tick_params(labelbottom=False)
    above.set_ylabel("distance" if kinds == {True} else "loss")
    below.set_ylabel("violation")
    notes_below(below, "passes", _where(chosen))
    figure.align_ylabels()
    legend_below(figure, [line_handle(style) for style in styles.values()], [plain(name) for name in styles])
    return figure


def _where(chosen: Mapping[str, Trace]) -> list[str]:
    """In words what each one reached."""
    notes = []
    for name, each in chosen.items():
        at = each.best_at
        reached = "no feasible point" if at is None else f"best {float(each.best[-1]):.4g} after {at} passes"
        notes.append(f"{plain(name, 34)}: {reached}")
    return notes


def _room_for_the_best(axis: Axes, chosen: Mapping[str, Trace]) -> None:
    """First points may be far off: the axis is made for the best ones so far, with room for what is around them."""
    best = torch.cat([each.best[torch.isfinite(each.best)] for each in chosen.values()])
    asked = torch.cat([each.objective[torch.isfinite(each.objective)] for each in chosen.values()])
    if not len(best):
        return
    low, high = float(best.min()), float(best.max())
    # A search that is feasible only at its end is to be seen on its way, too.
    high = max(high, *(float(each.objective.nanmedian()) for each in chosen.values()))
    if all(each.eps is None for each in chosen.values()):
        if high > 20 * low > 0:
            axis.set_yscale("log")
            axis.set_ylim(max(low / 3, float(asked[asked > 0].min()) / 1.2), 1.5 * high)
        else:
            axis.set_ylim(0, min(1.2 * high, 1.05 * float(asked.max())))


def _violation_scale(axis: Axes, chosen: Mapping[str, Trace]) -> None:
    """Logarithmic, with a place for zero at its foot."""
    most = max(float(each.violation.max()) for each in chosen.values())
    top = max(math.ceil(math.log10(max(most, LEAST))), -3)
    axis.set_yscale("log")
    axis.set_ylim(LEAST / 2, 2 * 10.0**top)
    decades = range(-4, top + 1, 2)
    axis.set_yticks([LEAST, *(10.0**each for each in decades)], ["0", *(f"$10^{{{each}}}$" for each in decades)])
    axis.minorticks_off()


def _same_x(axes: Sequence[Axes]) -> None:
    for axis in axes[1:]:
        axis.sharex(axes[0])


def _samples(figure: Figure, axes: Sequence[Axes]) -> None:
    """The first panel of every row says what bars count."""
    for axis in axes:
        place = axis.get_subplotspec()
        if place is not None and place.is_first_col():
            axis.set_ylabel("samples")
        axis.locator_params(axis="y", integer=True)


def _patches(colours: Mapping[str, str], budget: bool) -> tuple[list[object], list[str]]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[object] = [Patch(facecolor=colour) for colour in colours.values()]
    names = list(colours)
    if budget:
        handles.append(Line2D([], [], color=GREY, linestyle=(0, (4, 2)), linewidth=1))
        names.append("budget of passes")
    return handles, names
