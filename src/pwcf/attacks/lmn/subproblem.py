"""Exact solutions of the linearised problem, all rows at once.

At a point x the condition c(z) <= 0 becomes the *cut*  g'z <= h.  Which point on the cut's good side to take depends on
the metric; all are found by one number per row, the multiplier lam of the cut or a scale t, along which a monotone
function is followed to its zero. These functions run at every step for every row: they are made of few passes over
(r, n), and do without ``torch.where`` and comparisons on them, which cost ten times an arithmetic pass on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from pwcf.metrics.halfspace import dot, least_zero

# How fast the bracketing search widens its interval. Where few entries move the zero is this far out again and again.
WIDENING = 4.0
# Steps of the bracketing search, where the function is neither convex nor concave; and how far beyond the cut it may
# end, as a power of eps of the first excess.
BRACKETINGS, BEYOND = 40, 0.5


def onto_cut_and_box(point: Tensor, g: Tensor, h: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """The nearest z to ``point`` (r, n), in the l2 sense, with g'z <= h (r,) and lower <= z <= upper.

    The point must be inside the box. Where no z satisfies the cut, the one that comes closest to it.
    """

    def at(lam: Tensor) -> Tensor:
        return torch.clamp(torch.addcmul(point, lam.unsqueeze(-1), g, value=-1), lower, upper)

    first = dot(g, point) - h
    # Of this size is what rounding leaves of the excess.
    noise = torch.finfo(h.dtype).eps * _norm2(g) * _norm2(point)
    lam = least_zero(lambda lam: dot(g, at(lam)) - h, first, _norm2(g).square(), noise)
    return at(lam)


def along_onto_cut_and_box(
    point: Tensor, direction: Tensor, g: Tensor, h: Tensor, lower: Tensor, upper: Tensor
) -> Tensor:
    """clip(point - lam direction) with the least lam >= 0 that meets g'z <= h.

    For direction = g this is the nearest point; for H g it is the nearest one in the norm of H^-1, up to the entries at
    bounds. With many of those the excess need not fall all the way: what is left of it goes along g.
    """

    def at(lam: Tensor) -> Tensor:
        return torch.clamp(torch.addcmul(point, lam.unsqueeze(-1), direction, value=-1), lower, upper)

    first = dot(g, at(torch.zeros_like(h))) - h
    noise = torch.finfo(h.dtype).eps * _norm2(g) * _norm2(point)
    lam = least_zero(lambda lam: dot(g, at(lam)) - h, first, dot(g, direction), noise)
    return onto_cut_and_box(at(lam), g, h, lower, upper)


def sparse_on_cut(
    point: Tensor, centre: Tensor, g: Tensor, h: Tensor, threshold: Tensor, lower: Tensor, upper: Tensor
) -> Tensor:
    """min threshold |z - centre|_1 + 1/2 |z - point|_2^2  s.t.  g'z <= h, z in the box: the prox step of l1 on the cut.

    z = clip(centre + soft(point - centre - lam g, threshold)) with the least lam >= 0 that satisfies the cut.
    """
    start, level, need = point - centre, threshold.unsqueeze(-1), h - dot(g, centre)
    low, high = lower - centre, upper - centre

    def move(lam: Tensor) -> Tensor:
        v = torch.addcmul(start, lam.unsqueeze(-1), g, value=-1)
        return torch.clamp(v - torch.clamp(v, -level, level), low, high)

    # At this lam the entry with the largest slope has crossed the whole box: a linear model that asks for more is
    # not to be believed. Without the limit rows jump to far corners; on an MNIST net radii became a sixth larger.
    limit = (upper - lower).amax(-1) / g.abs().amax(-1).clamp(min=torch.finfo(h.dtype).tiny)
    lam = _bracketed(lambda lam: dot(g, move(lam)) - need, _norm2(g).square(), limit)
    return torch.clamp(centre + move(lam), lower, upper)


def _bracketed(excess_at: Callable[[Tensor], Tensor], steepest: Tensor, limit: Tensor) -> Tensor:
    """(r,) the least s in [0, limit] with excess_at(s) <= 0 up to BEYOND, else the limit.

    For decreasing functions that nowhere fall faster than ``steepest``: before excess / steepest there is no zero. From
    there the interval is widened until it holds one; then regula falsi with the Illinois rule, by which an end that
    stays twice counts half, so that both ends move.
    """
    first = excess_at(torch.zeros_like(limit))
    near = torch.finfo(limit.dtype).eps ** BEYOND * first
    low, at_low = torch.zeros_like(limit), first
    tiny, eps = torch.finfo(limit.dtype).tiny, torch.finfo(limit.dtype).eps
    high = torch.minimum(WIDENING * first.clamp(min=0) / steepest.clamp(min=tiny), limit)
    high = torch.maximum(high, eps * limit)  # steepest may have overflown
    at_high = excess_at(high)
    while bool((short := (at_high > 0) & (high < limit)).any()):
        low, at_low = torch.where(short, high, low), torch.where(short, at_high, at_low)
        high = torch.where(short, torch.minimum(WIDENING * high, limit), high)
        at_high = excess_at(high)
    side, weight_low, weight_high = torch.zeros_like(limit), at_low, at_high
    for _ in range(BRACKETINGS):
        # Settled: nothing to do, nothing that can be done, or the upper end is just beyond the zero.
        going = (first > 0) & (at_high < -near)
        if not bool(going.any()):
            break
        s = (low * weight_high - high * weight_low) / (weight_high - weight_low)
        s = torch.where((s > low) & (s < high), s, 0.5 * (low + high))
        excess = excess_at(s)
        right = excess <= 0
        weight_high = torch.where(right, excess, torch.where(side < 0, 0.5 * weight_high, weight_high))
        weight_low = torch.where(right, torch.where(side > 0, 0.5 * weight_low, weight_low), excess)
        move_high, move_low = going & right, going & ~right
        high, at_high = torch.where(move_high, s, high), torch.where(move_high, excess, at_high)
        low = torch.where(move_low, s, low)
        side = torch.where(right, 1.0, -1.0)
    return torch.where(first > 0, high, torch.zeros_like(high))


def _norm2(v: Tensor) -> Tensor:
    norm: Tensor = torch.linalg.vector_norm(v, dim=-1)
    return norm
