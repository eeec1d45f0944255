"""Make good answers of nearly good ones: the last step to the boundary, and the grid of 8-bit images."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from pwcf._common.rows import bisect, per_row
from pwcf.metrics import HasProjection, ReferenceDistance

Rounding = Literal["away", "nearest", "towards"]
# Halvings towards the image: 2^-8 of the distance is left, where the next float32 would hardly differ.
HALVINGS = 8
# How far out a point that just fails to be misclassified is looked for.
OUTWARDS = (1.0003, 1.003, 1.02)
OUTWARDS_PASSES = 1 + len(OUTWARDS)
# Roundings to 8 bits that are tried in turn where there is an eps to be kept.
ROUNDINGS: tuple[Rounding, ...] = ("away", "nearest", "towards")
# Stretchings of a point that is no longer misclassified once it is rounded to 8 bits.
STRETCHES = (1.0, 1.05, 1.2, 2.0)
# Values of an 8-bit image between the bounds.
LEVELS = 255


def outwards(
    wrong: Callable[[Tensor], Tensor], images: Tensor, points: Tensor, box: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """Points that only rounding keeps from being misclassified, a little further out; and (n,) which are wrong now."""
    hit = wrong(points)
    for factor in OUTWARDS:
        if bool(hit.all()):
            break
        trial = torch.clamp(images + factor * (points - images), *box)
        new = wrong(trial) & ~hit
        points = torch.where(per_row(new, points), trial, points)
        hit = hit | new
    return points, hit


def to_boundary(
    wrong: Callable[[Tensor], Tensor], images: Tensor, points: Tensor, adversarial: Tensor, halvings: int = HALVINGS
) -> Tensor:
    """Bisect between images (right) and points (wrong where ``adversarial`` (n,)); ``wrong`` maps (n, ...) -> (n,).

    Every point returned was seen to be wrong as it is, in the dtype it is returned in.
    """
    best = points

    def still_right(share: Tensor) -> Tensor:
        nonlocal best
        trial = images + per_row(share, images) * (points - images)
        hit = wrong(trial) & adversarial
        best = torch.where(per_row(hit, trial), trial, best)
        return ~hit

    low = torch.zeros(images.shape[0], dtype=images.dtype, device=images.device)
    bisect(still_right, low, torch.ones_like(low), halvings)
    return best


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


def grid_passes(eps: bool) -> int:
    """What ``onto_grid`` spends on a sample."""
    return len(STRETCHES) * (len(ROUNDINGS) if eps else 1)


def onto_grid(
    wrong: Callable[[Tensor], Tensor],
    measure: ReferenceDistance,
    points: Tensor,
    eps: Tensor | None,
    bounds: tuple[float, float],
) -> Tensor:
    """Stretched as little as it takes to be misclassified once rounded to 8 bits; within eps (n,) if there is one."""
    images, metric = measure.images, measure.metric
    best = to_grid(images, points, bounds)
    settled = torch.zeros(images.shape[0], dtype=torch.bool, device=images.device)
    for stretch in STRETCHES:
        trial = torch.clamp(images + stretch * (points - images), *bounds)
        # In linf the ball is a box, and what is left of a stretched point is as far out as it may be.
        if eps is not None and metric.exponent == math.inf and isinstance(metric, HasProjection):
            lower, upper = (torch.as_tensor(side, dtype=trial.dtype, device=trial.device) for side in bounds)
            flat = trial.flatten(1), images.flatten(1), eps.to(trial.dtype)
            trial = metric.project(*flat, lower, upper).view_as(trial)
        for rounding in ROUNDINGS if eps is not None else ROUNDINGS[:1]:
            rounded = to_grid(images, trial, bounds, rounding)
            hit = wrong(rounded) & ~settled
            if eps is not None:
                hit &= measure.distance64(rounded) <= eps
            best = torch.where(per_row(hit, rounded), rounded, best)
            settled |= hit
    return best
