"""The paper's loss clipping: a loss that has said "misclassified" need not grow any more."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pwcf.losses import clip_level, clipped, cross_entropy, margin
from pwcf.report.figures.canvas import PAGE, drawn, numbers, sheet
from pwcf.report.style import BLUE, VERMILION

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POINTS = 400


@drawn
def loss_clipping(classes: int = 10) -> Figure:
    """Cross-entropy and margin loss with their clipped forms, and below how steep they are.

    Args:
        classes: of the model; cross-entropy is clipped at its logarithm.

    Returns:
        A figure with four panels.
    """
    if classes < 2:
        raise ValueError(f"classes: expected at least 2, found {classes}")
    # The same number of points on both sides of the level: p = 1 / classes for cross-entropy.
    p = torch.linspace(0.01, 0.999, POINTS, dtype=torch.float64)
    difference = torch.linspace(-1, 1, POINTS, dtype=torch.float64)
    figure, axes = sheet(2, 2, width=PAGE * 0.8, height=1.55)
    labels = torch.zeros(POINTS, dtype=torch.int64)
    _losses(
        axes[0][0], axes[1][0], p, lambda x: cross_entropy(_probable(x, classes), labels), clip_level("ce", classes)
    )
    _losses(axes[0][1], axes[1][1], difference, lambda x: margin(_apart(x), labels), clip_level("margin", classes))
    axes[0][0].set(title="cross-entropy", ylabel="loss")
    axes[0][1].set(title="margin")
    axes[1][0].set(xlabel="probability of the label", ylabel="gradient norm")
    axes[1][1].set(xlabel="largest other logit minus the label's")
    axes[0][0].legend(loc="upper right")
    for row in axes:
        for axis, values in zip(row, (p, difference), strict=True):
            axis.set_xlim(float(values[0]) - 0.01, float(values[-1]))
    figure.align_ylabels()
    return figure


def _losses(above: Axes, below: Axes, x: Tensor, loss: Callable[[Tensor], Tensor], level: float) -> None:
    for name, colour, style, width, limit in (
        ("unclipped", VERMILION, "--", 1.3, torch.inf),
        ("clipped", BLUE, "-", 1.7, level),
    ):
        place = x.clone().requires_grad_()
        value = clipped(loss(place), limit)
        (slope,) = torch.autograd.grad(value.sum(), place)
        above.plot(numbers(x), numbers(value), color=colour, linestyle=style, linewidth=width, label=name)
        below.plot(numbers(x), numbers(slope.abs()), color=colour, linestyle=style, linewidth=width, label=name)


def _probable(p: Tensor, classes: int) -> Tensor:
    """(b, classes) logits by which the first class has probability p (b,), the others share the rest."""
    rest = ((1 - p) / (classes - 1)).log()
    return torch.cat((p.log().unsqueeze(1), rest.unsqueeze(1).expand(-1, classes - 1)), 1)


def _apart(difference: Tensor) -> Tensor:
    """(b, 2) logits with so much between the other class and the first."""
    return torch.stack((torch.zeros_like(difference), difference), 1)
