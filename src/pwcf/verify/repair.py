"""Repair of answers: moves to the boundary, and rounding to the grid of 8-bit images."""

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
    """Move points a little further out if only rounding keeps them from being misclassified.

    Args:
        wrong: points (n, ...) -> (n,) bool, whether they are misclassified; one pass per sample.
        images: (n, ...) inputs.
        points: (n, ...) candidates.
        box: least and largest value of every entry, (n, ...) each.

    Returns:
        Points (n, ...), and (n,) bool, which of them are misclassified now.
    """
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
    """Bisect between images and adversarial points for a point nearer to the image.

    Every returned point was itself seen to be misclassified, in the dtype in which it is returned.

    Args:
        wrong: points (n, ...) -> (n,) bool, whether they are misclassified; one pass per sample.
        images: (n, ...) correctly classified inputs.
        points: (n, ...) candidates.
        adversarial: (n,) bool, which points are misclassified; the others are returned unchanged.
        halvings: steps of the bisection, a pass each.

    Returns:
        (n, ...) the nearest misclassified points seen.
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
    """Round points to the k/255 grid between the bounds. Entries equal to the image's stay as they are.

    Args:
        images: (n, ...) inputs.
        points: (n, ...) points within the bounds.
        bounds: least and largest value of an input.
        rounding: "away" from the image, so that the attack is not weakened, to the "nearest" level, or "towards" it.

    Returns:
        (n, ...) rounded points.
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
    """Return how many passes per sample ``onto_grid`` takes at most.

    Args:
        eps: whether it has an eps to keep.

    Returns:
        Forward passes per sample.
    """
    return len(STRETCHES) * (len(ROUNDINGS) if eps else 1)


def onto_grid(
    wrong: Callable[[Tensor], Tensor],
    measure: ReferenceDistance,
    points: Tensor,
    eps: Tensor | None,
    bounds: tuple[float, float],
) -> Tensor:
    """Round points to 8 bits so that they stay misclassified, stretching them as little as possible before.

    Args:
        wrong: points (n, ...) -> (n,) bool, whether they are misclassified; one pass per sample.
        measure: distances from the n images.
        points: (n, ...) misclassified points.
        eps: (n,) float64 largest distances, or None.
        bounds: least and largest value of an input.

    Returns:
        (n, ...) points on the grid. Where no trial is misclassified within eps, the plainly rounded point.
    """
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
