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

# Secant steps, superlinear: three or four are the rule, a row with most entries at a bound takes more.
SECANTS = 15
# The cut is met up to eps to this power of the first excess (6e-6 in float32); rules ask for much more than they need.
MET = 0.75
# A secant of a function that has gone nearly flat may point far away; no step is longer than the one before by more.
GROWTH = 30.0
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

    first = _dot(g, point) - h
    # Of this size is what rounding leaves of the excess.
    noise = torch.finfo(h.dtype).eps * _norm2(g) * _norm2(point)
    lam = _secant(lambda lam: _dot(g, at(lam)) - h, first, _norm2(g).square(), noise)
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

    first = _dot(g, at(torch.zeros_like(h))) - h
    noise = torch.finfo(h.dtype).eps * _norm2(g) * _norm2(point)
    lam = _secant(lambda lam: _dot(g, at(lam)) - h, first, _dot(g, direction), noise)
    return onto_cut_and_box(at(lam), g, h, lower, upper)


def least_linf_radius(centre: Tensor, g: Tensor, h: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """(r,) the smallest t such that the box, and the linf ball of radius t about ``centre``, meet g'z <= h.

    Where the box alone does not, the smallest t beyond which nothing changes.
    """
    size, room = g.abs(), _room(centre, g, lower, upper)
    need = _dot(g, centre) - h
    t = _secant(
        lambda t: need - _dot(size, torch.minimum(room, t.unsqueeze(-1))), need, size.sum(-1), torch.zeros_like(h)
    )
    return torch.minimum(t, room.amax(-1))


def nearest_lp(p: float, centre: Tensor, g: Tensor, h: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """The nearest z to ``centre`` in the l_p sense, 1 < p < inf, with g'z <= h in the box.

    The move of entry i is -sign(g_i) min(t |g_i|^(1/(p-1)), room_i) with the least t that satisfies the cut. Where no z
    does, the corner that comes closest to it.
    """
    size, room = g.abs(), _room(centre, g, lower, upper)
    largest = size.amax(-1, keepdim=True).clamp(min=torch.finfo(g.dtype).tiny)
    shape = (size / largest).pow(1 / (p - 1))
    need = _dot(g, centre) - h

    def move(t: Tensor) -> Tensor:
        return torch.minimum(t.unsqueeze(-1) * shape, room)

    t = _secant(lambda t: need - _dot(size, move(t)), need, _dot(size, shape), torch.zeros_like(h))
    return torch.clamp(torch.addcmul(centre, g.sign(), move(t), value=-1), lower, upper)


def nearest_l1(centre: Tensor, g: Tensor, h: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """The nearest z to ``centre`` in the l1 sense with g'z <= h in the box: entries with the largest |g| move first.

    Where no z satisfies the cut, the corner that comes closest to it.
    """
    room = _room(centre, g, lower, upper)
    need = (_dot(g, centre) - h).clamp(min=0).unsqueeze(-1)
    size, order = g.abs().sort(dim=-1, descending=True)
    room = room.gather(-1, order)
    gain = size * room
    left = (need - (gain.cumsum(-1) - gain)).clamp(min=0)  # what those before entry i have not gained
    move = torch.minimum(left / size.clamp(min=torch.finfo(h.dtype).tiny), room) * size.sign()
    moves = torch.zeros_like(move).scatter(-1, order, move)
    return torch.clamp(torch.addcmul(centre, g.sign(), moves, value=-1), lower, upper)


def sparse_on_cut(
    point: Tensor, centre: Tensor, g: Tensor, h: Tensor, threshold: Tensor, lower: Tensor, upper: Tensor
) -> Tensor:
    """min threshold |z - centre|_1 + 1/2 |z - point|_2^2  s.t.  g'z <= h, z in the box: the prox step of l1 on the cut.

    z = clip(centre + soft(point - centre - lam g, threshold)) with the least lam >= 0 that satisfies the cut.
    """
    start, level, need = point - centre, threshold.unsqueeze(-1), h - _dot(g, centre)
    low, high = lower - centre, upper - centre

    def move(lam: Tensor) -> Tensor:
        v = torch.addcmul(start, lam.unsqueeze(-1), g, value=-1)
        return torch.clamp(v - torch.clamp(v, -level, level), low, high)

    # At this lam the entry with the largest slope has crossed the whole box: a linear model that asks for more is
    # not to be believed. Without the limit rows jump to far corners; on an MNIST net radii became a sixth larger.
    limit = (upper - lower).amax(-1) / g.abs().amax(-1).clamp(min=torch.finfo(h.dtype).tiny)
    lam = _bracketed(lambda lam: _dot(g, move(lam)) - need, _norm2(g).square(), limit)
    return torch.clamp(centre + move(lam), lower, upper)


def _secant(excess_at: Callable[[Tensor], Tensor], first: Tensor, slope: Tensor, noise: Tensor) -> Tensor:
    """(r,) the least s >= 0 with excess_at(s) <= 0, for convex decreasing functions with these values and slopes at 0.

    From two points on the left of the zero, the secant's zero is on its left too: steps never go too far.
    """
    tiny = torch.finfo(first.dtype).tiny
    met = torch.finfo(first.dtype).eps ** MET * first.clamp(min=0) + noise
    excess, step = first, torch.zeros_like(first)
    step = torch.where(first > met, first / slope.clamp(min=tiny), step)
    s = torch.zeros_like(first)
    for _ in range(SECANTS):
        if not bool((step > 0).any()):
            break
        s = s + step
        before, excess = excess, excess_at(s)
        longer = (excess * step / (before - excess).clamp(min=tiny)).clamp(min=0)
        step = torch.where(excess > met, torch.minimum(longer, GROWTH * step), torch.zeros_like(step))
    return s


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


def _room(centre: Tensor, g: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """How far every entry can go against its slope."""
    half, middle = 0.5 * (upper - lower), 0.5 * (upper + lower)
    return torch.addcmul(half, g.sign(), centre - middle).clamp(min=0)


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(-1)


def _norm2(v: Tensor) -> Tensor:
    norm: Tensor = torch.linalg.vector_norm(v, dim=-1)
    return norm
