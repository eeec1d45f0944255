"""What a rival's points are worth, judged without the rival."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def distances(images: Tensor, points: Tensor, norm: str) -> Tensor:
    """Distances (n,) in float64."""
    difference = (points.double() - images.double()).flatten(1)
    order = {"l1": 1.0, "l2": 2.0, "linf": float("inf")}[norm]
    return torch.linalg.vector_norm(difference, ord=order, dim=1)


@torch.no_grad()
def misclassified(net: nn.Module, points: Tensor, labels: Tensor) -> Tensor:
    """Inside [0, 1], free of NaN and wrong in a fresh forward pass: (n,) bool."""
    inside = ((points >= 0) & (points <= 1)).flatten(1).all(1)
    return inside & (net(points).argmax(1) != labels)


def into_box(points: Tensor) -> Tensor:
    """Points moved into [0, 1]: some rivals leave it by a rounding error, which must not cost them the sample."""
    return points.detach().clamp(0, 1)


def radii(net: nn.Module, images: Tensor, labels: Tensor, points: Tensor, norm: str) -> Tensor:
    """Verified radii (n,), inf where the point does not count."""
    points = into_box(points)
    found = misclassified(net, points, labels)
    return torch.where(found, distances(images, points, norm), float("inf"))


def broken(net: nn.Module, images: Tensor, labels: Tensor, points: Tensor, norm: str, eps: float) -> Tensor:
    """Verified successes (n,) within ``eps``, up to 1e-6 relative and the rounding of an entry next to 1 in float32.

    A rival that adds eps to a pixel in float32 ends beyond it by half a unit in the last place.
    """
    points = into_box(points)
    return misclassified(net, points, labels) & (distances(images, points, norm) <= eps * (1 + 1e-6) + 6e-8)
