"""Points drawn into the ball of a distance that has no exact projection: Newton's steps, else halvings of the way."""

from __future__ import annotations

import torch
from torch import Tensor

from pwcf.attacks.base import Task
from pwcf.attacks.perceptual.rows import column
from pwcf.attacks.perceptual.ruler import Ruler

# The published numbers: steps aim this much inside the ball (absolute) and are longer by this share; after so many of
# them the way to the image is halved as often. With eps far below the published 0.5 the steps mostly fail.
OVERSHOOT, STEPS, HALVINGS = 0.1, 10, 10
# What is absolute is meant for distances between features. In other units it is this share of eps: 0.1 of 0.5.
OVERSHOOT_SHARE = 0.2


def into_ball(task: Task, ruler: Ruler, points: Tensor, rows: Tensor) -> Tensor:
    """The points (b, ...) of some samples (b,) within eps; those that are stay.

    Steps go down the distance's slope to where its linear model is within eps. A sample that is still outside in the
    end goes back to where it began and from there straight towards its image. The reference then does so with the whole
    batch, and from where the steps have led: its copy of where they began is no copy. Its gradients add up, besides.
    """
    found = points.clone()
    eps = ruler.eps[rows]
    inside = torch.full_like(eps, OVERSHOOT) if ruler.network is not None else OVERSHOOT_SHARE * eps
    outside = torch.arange(len(points), device=points.device)
    for _ in range(STEPS):
        look = ruler.look(found[outside], rows[outside])
        still = ~(look.distance <= eps[outside])
        outside, slope = outside[still], look.slope[still]
        if outside.numel() == 0:
            return found
        here = rows[outside]
        slope = torch.where((task.lower < task.upper)[here], slope, 0.0)
        size = slope.flatten(1).square().sum(1)
        length = (look.distance[still] - eps[outside] + inside[outside]) * (1 + OVERSHOOT) / size
        length = torch.where(torch.isfinite(length), length, 0.0)
        found[outside] = torch.clamp(found[outside] - column(length, slope) * slope, task.lower[here], task.upper[here])
    return found.index_copy(0, outside, towards_images(task, ruler, points[outside], rows[outside]))


def towards_images(task: Task, ruler: Ruler, points: Tensor, rows: Tensor) -> Tensor:
    """The last of the points (b, ...) on the way from the image that some halvings show to be within eps."""
    images, eps = task.images[rows], ruler.eps[rows]
    low, high = torch.zeros_like(eps), torch.ones_like(eps)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        near = ruler.values(images + column(middle, images) * (points - images), rows) <= eps
        low, high = torch.where(near, middle, low), torch.where(near, high, middle)
    return torch.clamp(images + column(low, images) * (points - images), task.lower[rows], task.upper[rows])
