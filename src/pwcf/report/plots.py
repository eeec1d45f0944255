"""Plots of a benchmark: needs matplotlib, the extra ``plots``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pwcf.report.groups import OURS, Group
from pwcf.report.looks import GREY, Look, looks_of
from pwcf.report.panels import accuracy_over_eps, heat_map, radius_over_budget
from pwcf.report.tables import pooled_wins

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL = 3.5, 2.8
LEGEND = 1.7
DPI = 110


def write_plots(groups: Sequence[Group], folder: Path) -> tuple[list[Path], str]:
    """All plots that have something to show, and a sentence on what was left out."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        return [], "no plots: matplotlib is not installed; get it by pip install 'pwcf[plots]'"
    shown = [group for group in groups if group.radius_cells and group.eps_max > 0]
    if not shown:
        return [], "no plots: there are no radii of any attack"
    folder.mkdir(parents=True, exist_ok=True)
    for old in (*folder.glob("radius_vs_budget.png"), *folder.glob("wins_*.png")):  # of an earlier report
        old.unlink()
    names = sorted({name for group in shown for name in group.attacks}, key=lambda name: (name != OURS, name))
    looks = looks_of(names, OURS)
    drawn = []
    if any(len(group.budgets) > 1 for group in shown):
        caption = "samples without a point count as the largest radius that any attack found"
        drawn.append(_save(_grid(shown, looks, radius_over_budget, caption), folder / "radius_vs_budget.png"))
    caption = "at the largest budget" + ("; markers: max-loss cells" if any(g.loss_cells for g in shown) else "")
    drawn.append(_save(_grid(shown, looks, accuracy_over_eps, caption), folder / "robust_accuracy.png"))
    for norm in dict.fromkeys(group.norm for group in shown):
        figure = _heat_map(shown, norm)
        if figure is not None:
            drawn.append(_save(figure, folder / f"wins_{norm}.png"))
    return drawn, ""


def _grid(
    groups: Sequence[Group],
    looks: dict[str, Look],
    draw: Callable[[Axes, Group, dict[str, Look]], None],
    caption: str,
) -> Figure:
    """A panel for every net (rows) and norm (columns), one legend outside."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    nets = list(dict.fromkeys(group.net for group in groups))
    norms = list(dict.fromkeys(group.norm for group in groups))
    width, height = PANEL[0] * len(norms) + LEGEND, max(PANEL[1] * len(nets), 0.26 * len(looks) + 0.6)
    figure = Figure(figsize=(width, height), layout="constrained", dpi=DPI)
    axes = figure.subplots(len(nets), len(norms), squeeze=False)
    for axis in axes.flat:
        axis.set_visible(False)
    for group in groups:
        axis = axes[nets.index(group.net)][norms.index(group.norm)]
        axis.set_visible(True)
        axis.set_title(f"{group.net}, {group.norm}", fontsize=9)
        axis.tick_params(labelsize=8)
        axis.grid(alpha=0.25, linewidth=0.6)
        draw(axis, group, looks)
    handles = [
        Line2D([], [], color=look.colour, linestyle=look.style, marker=look.marker, markersize=5, linewidth=look.width)
        for look in looks.values()
    ]
    figure.legend(handles, list(looks), loc="outside right upper", fontsize=9, frameon=False, handlelength=3)
    figure.supxlabel(caption, fontsize=8, color=GREY)
    return figure


def _heat_map(groups: Sequence[Group], norm: str) -> Figure | None:
    """Who beats whom under one norm; None where there is but one attack."""
    from matplotlib.figure import Figure

    names, share = pooled_wins(groups, norm)
    if len(names) < 2:
        return None
    side = max(0.42 * len(names), 2.4)
    figure = Figure(figsize=(side + 2.0, side + 1.6), layout="constrained", dpi=DPI)
    axis = figure.subplots()
    image = heat_map(axis, names, share)
    axis.set_ylabel("this attack's radius is smaller by > 1 % ...", fontsize=8)
    axis.set_xlabel("... than this one's", fontsize=8)
    axis.set_title(f"{norm}: percent of samples won", fontsize=9)
    figure.colorbar(image, ax=axis, shrink=0.7).ax.tick_params(labelsize=8)
    return figure


def _save(figure: Figure, path: Path) -> Path:
    figure.savefig(path)
    return path
