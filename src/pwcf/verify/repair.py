"""Make good answers of nearly good ones: the last step to the boundary, and the grid of 8-bit images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from pwcf.metrics import Metric
from pwcf.verify.recheck import measured

Rounding = Literal["away", "nearest", "towards"]
# Halvings towards the image: 2^-8 of the distance is left, where the next float32 would hardly differ.
HALVINGS = 8
# Halvings of the way to a point beyond eps: as exact as float32.
TOWARDS = 24
# Values of an 8-bit image between the bounds.
LEVELS = 255


def to_boundary(
    wrong: Callable[[Tensor], Tensor], images: Tensor, points: Tensor, adversarial: Tensor, halvings: int = HALVINGS
) -> Tensor:
    """Bisect between images (right) and points (wrong where ``adversarial`` (n,)); ``wrong`` maps (n, ...) -> (n,).

    Every point returned was seen to be wrong as it is, in the dtype it is returned in.
    """
    shape = (-1, *(1 for _ in images.shape[1:]))
    low = torch.zeros(images.shape[0], dtype=images.dtype, device=images.device)
    high = torch.ones_like(low)
    best = points
    for _ in range(halvings):
        middle = 0.5 * (low + high)
        trial = images + middle.view(shape) * (points - images)
        hit = wrong(trial) & adversarial
        best = torch.where(hit.view(shape), trial, best)
        high, low = torch.where(hit, middle, high), torch.where(hit, low, middle)
    return best


def within(metric: Metric, images: Tensor, points: Tensor, eps: Tensor, box: tuple[Tensor, Tensor]) -> Tensor:
    """Points drawn towards their images (within the box) until they are within eps (n,); those that are stay."""
    shape = (-1, *(1 for _ in images.shape[1:]))
    outside = measured(metric, images, points) > eps
    if not bool(outside.any()):
        return points
    low, high = torch.zeros_like(eps), torch.ones_like(eps)
    for _ in range(TOWARDS):
        middle = 0.5 * (low + high)
        trial = images + middle.view(shape).to(images.dtype) * (points - images)
        far = measured(metric, images, trial) > eps
        low, high = torch.where(far, low, middle), torch.where(far, middle, high)
    drawn = torch.clamp(images + low.view(shape).to(images.dtype) * (points - images), *box)
    return torch.where(outside.view(shape), drawn, points)


def to_grid(images: Tensor, points: Tensor, bounds: tuple[float, float], rounding: Rounding = "away") -> Tensor:
    """Points on the k/255 grid between the bounds, rounded away from the image so that the attack is not weakened.

    Or to the nearest level, or towards the image. Entries that did not move stay as they are.
    """
    lower, upper = bounds
    unit = (upper - lower) / LEVELS
    exact = (points - lower) / unit
    if rounding == "nearest":
        away = exact.round()
    else:
        away = torch.where((points > images) == (rounding == "away"), exact.ceil(), exact.floor())
    away = away.clamp(0, LEVELS)
    # A point on the grid up to rounding is on it: ceil and floor would move it by a whole level.
    nearest = exact.round()
    away = torch.where((exact - nearest).abs() < 1e-3, nearest, away)
    # Computed in float64: in float32 half of the levels would differ from k / 255 in the last digit.
    grid = (lower + (upper - lower) * away.double() / LEVELS).to(points.dtype).clamp(lower, upper)
    return torch.where(points == images, images, grid)
