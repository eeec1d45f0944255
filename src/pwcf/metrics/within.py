"""Distances as they are judged, and points drawn back to where they may be."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from pwcf.metrics.metric import Metric

# Halvings of the way to a point beyond eps: as exact as float32.
TOWARDS = 24


def measured(metric: Metric, images: Tensor, points: Tensor) -> Tensor:
    """(n,) float64, without gradients."""
    with torch.no_grad():
        return metric.exactly(images, points)


def within(
    distance: Callable[[Tensor], Tensor], images: Tensor, points: Tensor, eps: Tensor, box: tuple[Tensor, Tensor]
) -> Tensor:
    """Points drawn towards their images (within the box) until they are within eps (n,); those that are stay.

    ``distance`` maps points (n, ...), one for every image, to (n,) float64.
    """
    shape = (-1, *(1 for _ in images.shape[1:]))
    outside = distance(points) > eps
    if not bool(outside.any()):
        return points
    low, high = torch.zeros_like(eps), torch.ones_like(eps)
    for _ in range(TOWARDS):
        middle = 0.5 * (low + high)
        trial = images + middle.view(shape).to(images.dtype) * (points - images)
        far = distance(trial) > eps
        low, high = torch.where(far, low, middle), torch.where(far, middle, high)
    drawn = torch.clamp(images + low.view(shape).to(images.dtype) * (points - images), *box)
    return torch.where(outside.view(shape), drawn, points)
