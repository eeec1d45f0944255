"""The geometry of FAB: linear models of the boundary, the step between them, and where runs start.

All rows at once; points are flat (r, n) except where the model is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from pwcf.attacks.base import Task, resolve_targets
from pwcf.losses import margin, mask_label
from pwcf.metrics import HasHalfspaceStep, Metric, dual_norm
from pwcf.problems import is_defined
from pwcf.problems.robustness import ROUNDING

# The plane lies where rounding no longer decides, and as much again further: at a tie itself FAB would stand still.
BEYOND = 2 * ROUNDING


class Plane(NamedTuple):
    """The decision boundary as a linear model has it: g'z = h, the wanted classes at g'z < h."""

    g: Tensor
    """(r, n)"""
    h: Tensor
    """(r,)"""
    usable: Tensor
    """(r,) bool: everything is finite, and there is a slope"""


class FlatBox(NamedTuple):
    """(r, n) each."""

    lower: Tensor
    upper: Tensor

    def clip(self, x: Tensor) -> Tensor:
        return torch.clamp(x, self.lower, self.upper)


class FabWeights(NamedTuple):
    """The paper's constants."""

    alpha_max: float
    eta: float
    beta: float


def onto_plane(metric: Metric, point: Tensor, plane: Plane, box: FlatBox) -> Tensor:
    """The nearest point of plane and box in the metric's sense; the corner nearest to the plane where they do not meet.

    From the good side too: then the way is back towards the boundary.
    """
    side = torch.where((plane.g * point).sum(1) >= plane.h, 1.0, -1.0).to(point.dtype)
    g, h = side.unsqueeze(1) * plane.g, side * plane.h
    assert isinstance(metric, HasHalfspaceStep)
    return metric.nearest_on_halfspace(point, g, h, *box)


def biased_step(
    metric: Metric, shape: torch.Size, x: Tensor, image: Tensor, plane: Plane, box: FlatBox, weights: FabWeights
) -> Tensor:
    """Between the projections of x and of the image, the nearer to that of x the nearer x is to the plane.

    Both are overshot by eta; alpha is the image's share (paper, "biased gradient step").
    """
    both = torch.cat([x, image])  # one call: it is made of many small operations
    plane_twice, box_twice = Plane(*(torch.cat([a, a]) for a in plane)), FlatBox(*(torch.cat([a, a]) for a in box))
    onto = onto_plane(metric, both, plane_twice, box_twice)
    moves = onto - both
    from_x, from_image = moves.chunk(2)
    tiny = torch.finfo(x.dtype).tiny
    size_x, size_image = metric(both.view(-1, *shape), onto.view(-1, *shape)).chunk(2)
    alpha = (size_x / (size_x + size_image).clamp(min=tiny)).clamp(max=weights.alpha_max).unsqueeze(1)
    biased = (1 - alpha) * (x + weights.eta * from_x) + alpha * (image + weights.eta * from_image)
    return box.clip(biased)


class BoundaryPlanes:
    """Looks at points of a task's samples; ``rows`` (r,) are their places in it, x (r, ...) the points."""

    def __init__(self, task: Task) -> None:
        self.task, self.metric = task, task.problem.metric
        free = task.upper > task.lower
        self.free = None if bool(free.all()) else free

    def of_class(self, rows: Tensor, x: Tensor, targets: Tensor) -> tuple[Tensor, Plane]:
        """Logits (r, classes) and the boundary to the targets (r,): 1 forward and 1 backward pass.

        A target ANY is the likeliest other class at x.
        """
        labels = self.task.labels[rows]
        sign = 1 if self.task.problem.targeted else -1

        def condition(logits: Tensor, some: slice) -> Tensor:
            aimed = resolve_targets(logits.detach(), labels[some], targets[some])
            return sign * margin(logits, labels[some], aimed)

        logits, c, gradient = self.task.model.value_and_gradient(x, self.task.samples[rows], condition)
        return logits, self._plane(rows, x, logits, c, gradient)

    def of_nearest(self, rows: Tensor, x: Tensor, classes: int) -> tuple[Tensor, Plane]:
        """The same to that of the likeliest other ``classes`` whose linear boundary is nearest: 1 + classes passes."""
        size = self.task.model.batch
        parts = [
            self._nearest(rows[start : start + size], x[start : start + size], classes)
            for start in range(0, x.shape[0], size)
        ]
        logits, g, h, usable = (torch.cat(part) for part in zip(*((a, *plane) for a, plane in parts), strict=True))
        return logits, Plane(g, h, usable)

    def _nearest(self, rows: Tensor, x: Tensor, classes: int) -> tuple[Tensor, Plane]:
        """For as many rows as share a call."""
        labels = self.task.labels[rows]
        with torch.enable_grad():
            leaf = x.detach().requires_grad_(True)
            logits = self.task.model.differentiable(leaf, self.task.samples[rows])
            likeliest = mask_label(logits.detach(), labels).topk(classes, dim=1).indices
            conditions = [-margin(logits, labels, likeliest[:, j]) for j in range(classes)]
        g, h = torch.zeros_like(x.flatten(1)), torch.zeros_like(x.flatten(1)[:, 0])
        least, usable = torch.full_like(h, torch.inf), torch.zeros_like(h, dtype=torch.bool)
        for j, c in enumerate(conditions):
            gradient = None
            if c.requires_grad:
                (gradient,) = torch.autograd.grad(c.sum(), leaf, retain_graph=j + 1 < classes, allow_unused=True)
            values = c.detach().to(x.dtype)
            gradient = torch.zeros_like(x) if gradient is None else gradient
            plane = self._plane(rows, x, logits.detach(), values, gradient)
            distance = values.abs() / dual_norm(self.metric, plane.g)
            nearer = plane.usable & (distance < least)
            g, h = torch.where(nearer.unsqueeze(1), plane.g, g), torch.where(nearer, plane.h, h)
            least, usable = torch.where(nearer, distance, least), usable | nearer
        return logits.detach(), Plane(g, h, usable)

    def _plane(self, rows: Tensor, x: Tensor, logits: Tensor, c: Tensor, gradient: Tensor) -> Plane:
        """Where c, linear about x, is so far below 0 that rounding does not decide. Fixed entries have no slope."""
        if self.free is not None:
            gradient = torch.where(self.free[rows], gradient, torch.zeros_like(gradient))
        g = gradient.flatten(1)
        largest = torch.where(torch.isfinite(logits), logits, 0).abs().amax(1)
        level = BEYOND * torch.finfo(logits.dtype).eps * largest.to(c.dtype)
        h = (g * x.flatten(1)).sum(1) - c - level
        slope = g.abs().sum(1)
        usable = is_defined(logits) & torch.isfinite(h) & torch.isfinite(slope) & (slope > 0)
        if not bool(usable.all()):
            g, h = torch.where(usable.unsqueeze(1), g, torch.zeros_like(g)), torch.where(usable, h, torch.zeros_like(h))
        return Plane(g, h, usable)


def random_starts(
    metric: Metric,
    shape: torch.Size,
    seeds: Sequence[int],
    image: Tensor,
    radius: Tensor,
    box: FlatBox,
    scattered: bool = False,
) -> Tensor:
    """(r, n) points at ``radius`` (r,) from the images in random directions, cut to the box.

    ``scattered``: at a random share of the radius.
    """
    directions, shares = [], []
    for seed in seeds:
        generator = torch.Generator().manual_seed(seed)
        if metric.exponent == torch.inf:
            directions.append(2 * torch.rand(image.shape[1], generator=generator) - 1)
        else:
            directions.append(torch.randn(image.shape[1], generator=generator))
        shares.append(torch.rand((), generator=generator))
    direction = torch.stack(directions).to(image)
    tiny = torch.finfo(image.dtype).tiny
    # A norm has this length everywhere; of other metrics it is a guess.
    size = metric(torch.zeros_like(direction).view(-1, *shape), direction.view(-1, *shape)).clamp(min=tiny)
    length = radius.to(image)
    if scattered:
        length = length * torch.stack(shares).to(image)
    return box.clip(image + (length / size).unsqueeze(1) * direction)
