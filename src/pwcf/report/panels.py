"""What one panel of a plot shows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from pwcf.analysis import robust_accuracy, robust_accuracy_curve
from pwcf.report.groups import OURS, Group
from pwcf.report.looks import GREY, Look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

# Attacks that are worse by far are cut off: the differences that matter would not be seen.
SHOWN = 1.5


def radius_over_budget(axis: Axes, group: Group, looks: dict[str, Look]) -> None:
    """Mean radius of every attack; missing points count as the largest radius found."""
    drawn: dict[str, list[float]] = {}
    for name, look in looks.items():
        budgets = [budget for attack, budget in group.radius_cells if attack == name]
        means = [group.fair_mean(group.radius_cells[name, budget].radius) for budget in budgets]
        if means:
            kind = {"color": look.colour, "linestyle": look.style, "marker": look.marker, "zorder": look.order}
            axis.plot(budgets, means, linewidth=look.width, markersize=4, **kind)  # type: ignore[arg-type]
            drawn[name] = means
    everyone = [mean for means in drawn.values() for mean in means]
    lowest = min(everyone)
    # All of ours, and of the others what is about as good.
    limit = max(SHOWN * lowest, *drawn.get(OURS, [lowest]))
    highest = max(mean for mean in everyone if mean <= limit)
    room = 0.06 * (highest - lowest) or 0.05 * lowest
    axis.set_ylim(lowest - room, highest + room)
    axis.set_xscale("log")
    axis.set_xticks(group.budgets, [str(budget) for budget in group.budgets])
    axis.minorticks_off()
    hidden = sum(min(means) > limit for means in drawn.values())
    if hidden:
        _note(axis, f"{hidden} attack(s) above")
    axis.set_xlabel("budget: passes a sample", fontsize=8)
    axis.set_ylabel("mean radius", fontsize=8)


def accuracy_over_eps(axis: Axes, group: Group, looks: dict[str, Look]) -> None:
    """Robust accuracy by the radii at the largest budget; markers are the max-loss cells at their eps."""
    budget = group.budgets[-1]
    for name, radius in group.radii(budget).items():
        look = looks[name]
        eps, accuracy = robust_accuracy_curve(radius, group.right)
        end = torch.tensor([max(group.eps_max, float(eps[-1]))], dtype=eps.dtype)
        x, y = torch.cat((eps, end)).tolist(), torch.cat((accuracy, accuracy[-1:])).tolist()
        kind = {"color": look.colour, "linestyle": look.style, "linewidth": look.width, "zorder": look.order}
        axis.step(x, y, where="post", **kind)  # type: ignore[arg-type]
    for (eps_asked, name, at), cell in group.loss_cells.items():
        if at == max(b for e, _, b in group.loss_cells if e == eps_asked) and name in looks:
            look = looks[name]
            broken = robust_accuracy(cell.adversarial, group.right)
            axis.plot(
                [eps_asked], [broken], look.marker, color=look.colour, mec="white", mew=0.6, ms=7, zorder=look.order + 1
            )
    axis.set_xlim(0, 1.03 * group.eps_max)
    axis.locator_params(axis="x", nbins=6)
    axis.set_ylim(-0.03, 1.03)
    axis.set_xlabel(f"eps ({group.norm})", fontsize=8)
    axis.set_ylabel("robust accuracy", fontsize=8)


def heat_map(axis: Axes, names: Sequence[str], share: torch.Tensor) -> AxesImage:
    """Share of samples on which the row beats the column, with numbers."""
    image = axis.imshow((100 * share).tolist(), vmin=0, vmax=100, cmap="cividis")
    places = range(len(names))
    axis.set_xticks(places, names, rotation=90, fontsize=8)
    axis.set_yticks(places, names, fontsize=8)
    for i in places:
        for j in places:
            value = float(share[i, j])
            if not math.isnan(value):
                # cividis is dark below the middle.
                colour = "white" if value < 0.55 else "black"
                axis.text(j, i, f"{100 * value:.0f}", ha="center", va="center", fontsize=7, color=colour)
    return image


def _note(axis: Axes, text: str) -> None:
    plain = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
    place = axis.text(0.985, 0.975, text, transform=axis.transAxes, ha="right", va="top", bbox=plain, zorder=20)
    place.set(fontsize=7, color=GREY)
