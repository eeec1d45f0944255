"""One step of FAB: from a hyperplane to the next point, all rows at once, everything flat (r, n)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from pwcf.metrics import HasHalfspaceStep, Norm


class Plane(NamedTuple):
    """The decision boundary as a linear model has it: g'z = h, the wanted classes at g'z < h."""

    g: Tensor
    """(r, n)"""
    h: Tensor
    """(r,)"""
    usable: Tensor
    """(r,) bool: everything is finite, and there is a slope"""


class Box(NamedTuple):
    """(r, n) each."""

    lower: Tensor
    upper: Tensor

    def clip(self, x: Tensor) -> Tensor:
        return torch.clamp(x, self.lower, self.upper)


class Weights(NamedTuple):
    """The paper's constants."""

    alpha_max: float
    eta: float
    beta: float


def onto_plane(metric: Norm, point: Tensor, plane: Plane, box: Box) -> Tensor:
    """The nearest point of plane and box in the metric's sense; the corner nearest to the plane where they do not meet.

    From the good side too: then the way is back towards the boundary.
    """
    side = torch.where((plane.g * point).sum(1) >= plane.h, 1.0, -1.0).to(point.dtype)
    g, h = side.unsqueeze(1) * plane.g, side * plane.h
    assert isinstance(metric, HasHalfspaceStep)
    return metric.nearest_on_halfspace(point, g, h, *box)


def biased_step(metric: Norm, x: Tensor, image: Tensor, plane: Plane, box: Box, weights: Weights) -> Tensor:
    """Between the projections of x and of the image, the nearer to that of x the nearer x is to the plane.

    Both are overshot by eta; alpha is the image's share (paper, "biased gradient step").
    """
    both = torch.cat([x, image])  # one call: it is made of many small operations
    plane_twice, box_twice = Plane(*(torch.cat([a, a]) for a in plane)), Box(*(torch.cat([a, a]) for a in box))
    moves = onto_plane(metric, both, plane_twice, box_twice) - both
    from_x, from_image = moves.chunk(2)
    tiny = torch.finfo(x.dtype).tiny
    size_x, size_image = metric.norm(moves).chunk(2)
    alpha = (size_x / (size_x + size_image).clamp(min=tiny)).clamp(max=weights.alpha_max).unsqueeze(1)
    biased = (1 - alpha) * (x + weights.eta * from_x) + alpha * (image + weights.eta * from_image)
    return box.clip(biased)
