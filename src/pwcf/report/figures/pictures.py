"""Inputs of any shape drawn into a panel: vectors as lines, images, and other channels side by side."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pwcf.report.figures.canvas import numbers
from pwcf.report.style import BLUE, GREY, VERMILION

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Diverging, white in the middle, and told apart by everyone.
SIGNED = "PuOr"


def is_picture(x: Tensor) -> bool:
    """(h, w) or (c, h, w) with more than one row: everything else is a vector."""
    return x.dim() in (2, 3) and x.shape[-2] > 1 and x.shape[-1] > 1


def draw_input(axis: Axes, x: Tensor, bounds: tuple[float, float], reference: Tensor | None = None) -> None:
    """An input (...) within its bounds; of a vector beside the one it came from."""
    low, high = bounds
    if not is_picture(x):
        values = numbers(x.flatten())
        if reference is not None:
            axis.plot(numbers(reference.flatten()), color=GREY, linewidth=0.7)
        axis.plot(values, color=BLUE, linewidth=0.7)
        axis.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))
        return
    picture = ((x.double() - low) / (high - low)).clamp(0, 1)
    flat = _flat(picture)
    if flat.dim() == 3:
        axis.imshow(numbers(flat.permute(1, 2, 0)), interpolation="nearest")
    else:
        axis.imshow(numbers(flat), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    bare(axis)


FULL = 0.99
"""so many of the entries that moved are within the colours; the rest has the last one"""


def draw_perturbation(axis: Axes, d: Tensor) -> float:
    """x' - x (...); returns the size of an entry at the end of the scale.

    Few entries are far larger than the others in most perturbations: a scale up to the largest would show nothing else.
    """
    largest = _full_scale(d)
    if not is_picture(d):
        values = d.flatten().double()
        axis.bar(
            range(len(values)), numbers(values), width=1.0, linewidth=0,
            color=[VERMILION if value > 0 else BLUE for value in values.tolist()],
        )  # fmt: skip
        axis.axhline(0, color="black", linewidth=0.5)
        return largest
    if d.dim() == 3 and d.shape[0] == 3:
        shown = 0.5 + 0.5 * d.double() / (largest or 1.0)
        axis.imshow(numbers(shown.permute(1, 2, 0).clamp(0, 1)), interpolation="nearest")
    else:
        scale = largest or 1.0
        axis.imshow(numbers(_flat(d.double())), cmap=SIGNED, vmin=-scale, vmax=scale, interpolation="nearest")
    bare(axis)
    return largest


def _full_scale(d: Tensor) -> float:
    """Of a vector the largest entry, which bars show as it is."""
    size = d.flatten().abs().double()
    moved = size[size > 0].sort().values
    if not len(moved):
        return 0.0
    return float(moved[-1] if not is_picture(d) else moved[math.ceil(FULL * len(moved)) - 1])


def bare(axis: Axes) -> None:
    """A picture: no ticks, no grid, a frame."""
    axis.set_xticks([])
    axis.set_yticks([])
    axis.grid(False)
    for spine in axis.spines.values():
        spine.set_visible(True)
        spine.set_linewidth(0.4)


def _flat(x: Tensor) -> Tensor:
    """(h, w), or (3, h, w): other numbers of channels side by side, so that none is hidden."""
    if x.dim() == 2:
        return x
    channels, height, width = x.shape
    if channels == 1:
        return x[0]
    if channels == 3:
        return x
    columns = math.ceil(math.sqrt(channels))
    rows = math.ceil(channels / columns)
    tiles = torch.full((rows * columns, height, width), torch.nan, dtype=x.dtype)  # places that are left stay white
    tiles[:channels] = x
    return tiles.reshape(rows, columns, height, width).transpose(1, 2).reshape(rows * height, columns * width)
