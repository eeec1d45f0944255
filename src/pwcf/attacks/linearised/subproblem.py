"""Exact solutions of the linearised problem, all rows at once.

At a point x the condition c(z) <= 0 becomes the *cut*  g'z <= h.  Which point on the cut's good side to take depends on
the metric; all are found by the multiplier lam of the cut, along which a monotone function of one variable is
followed to its zero.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

# Newton's method on a convex piecewise linear function: every step passes at least one breakpoint, in practice many.
NEWTON = 12
# Bisections of lam: the cut is met to 2^-30 of its own scale.
BISECTIONS = 30


def onto_cut_and_box(point: Tensor, g: Tensor, h: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """The nearest z to ``point`` (r, n), in the l2 sense, with g'z <= h (r,) and lower <= z <= upper.

    The point must be inside the box. Where no z satisfies the cut, the one that comes closest to it.
    """
    z, lam = point, torch.zeros_like(h)
    for _ in range(NEWTON):
        excess = (g * z).sum(-1) - h
        free = torch.where(g > 0, z > lower, z < upper)
        slope = (g * g * free).sum(-1)
        going = (excess > 0) & (slope > 0)
        if not bool(going.any()):
            break
        # From lam = 0 entries only come to rest at a bound: the function is convex and Newton never overshoots.
        lam = lam + torch.where(going, excess / slope.clamp(min=torch.finfo(h.dtype).tiny), torch.zeros_like(h))
        z = torch.clamp(point - lam.unsqueeze(-1) * g, lower, upper)
    return z


def least_linf_radius(centre: Tensor, g: Tensor, h: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """(r,) the smallest t such that the box, and the linf ball of radius t about ``centre``, meet g'z <= h.

    Where the box alone does not, the smallest t beyond which nothing changes.
    """
    room = torch.where(g > 0, centre - lower, upper - centre)
    t = _scale_to_gain(g.abs(), torch.ones_like(g), room, (g * centre).sum(-1) - h)
    return torch.minimum(t, room.amax(-1))


def nearest_lp(p: float, centre: Tensor, g: Tensor, h: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """The nearest z to ``centre`` in the l_p sense, 1 < p < inf, with g'z <= h in the box.

    The move of entry i is -sign(g_i) min(t |g_i|^(1/(p-1)), room_i) with the least t that satisfies the cut. Where no z
    does, the corner that comes closest to it.
    """
    room = torch.where(g > 0, centre - lower, upper - centre)
    size = g.abs()
    largest = size.amax(-1, keepdim=True).clamp(min=torch.finfo(g.dtype).tiny)
    shape = (size / largest).pow(1 / (p - 1))
    t = _scale_to_gain(size, shape, room, (g * centre).sum(-1) - h)
    return torch.clamp(centre - g.sign() * torch.minimum(t.unsqueeze(-1) * shape, room), lower, upper)


def _scale_to_gain(size: Tensor, shape: Tensor, room: Tensor, need: Tensor) -> Tensor:
    """(r,) the least t >= 0 with  sum_i size_i min(t shape_i, room_i) >= need, or one beyond which nothing changes."""
    t = torch.zeros_like(need)
    for _ in range(NEWTON):
        move = t.unsqueeze(-1) * shape
        gained = (size * torch.minimum(room, move)).sum(-1)
        slope = (size * shape * (room > move)).sum(-1)
        going = (gained < need) & (slope > 0)
        if not bool(going.any()):
            break
        # The function is concave: from the left Newton's method never goes too far.
        t = t + torch.where(going, (need - gained) / slope.clamp(min=torch.finfo(need.dtype).tiny), torch.zeros_like(t))
    return t


def nearest_l1(centre: Tensor, g: Tensor, h: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """The nearest z to ``centre`` in the l1 sense with g'z <= h in the box: entries with the largest |g| move first.

    Where no z satisfies the cut, the corner that comes closest to it.
    """
    room = torch.where(g > 0, centre - lower, upper - centre)
    need = ((g * centre).sum(-1) - h).clamp(min=0).unsqueeze(-1)
    size, order = g.abs().sort(dim=-1, descending=True)
    gain = size * room.gather(-1, order)
    left = (need - (gain.cumsum(-1) - gain)).clamp(min=0)  # what those before entry i have not gained
    move = torch.minimum(left / size.clamp(min=torch.finfo(h.dtype).tiny), room.gather(-1, order))
    move = torch.where(size > 0, move, torch.zeros_like(move))
    moves = torch.zeros_like(move).scatter(-1, order, move)
    return torch.clamp(centre - g.sign() * moves, lower, upper)


def sparse_on_cut(
    point: Tensor, centre: Tensor, g: Tensor, h: Tensor, threshold: Tensor, lower: Tensor, upper: Tensor
) -> Tensor:
    """min threshold |z - centre|_1 + 1/2 |z - point|_2^2  s.t.  g'z <= h, z in the box: the prox step of l1 on the cut.

    z = clip(centre + soft(point - centre - lam g, threshold)) with the least lam >= 0 that satisfies the cut.
    """
    level = threshold.unsqueeze(-1)

    def at(lam: Tensor) -> Tensor:
        move = point - centre - lam.unsqueeze(-1) * g
        return torch.clamp(centre + move.sign() * (move.abs() - level).clamp(min=0), lower, upper)

    return _bisected(at, g, h, upper - lower)


def _bisected(at: Callable[[Tensor], Tensor], g: Tensor, h: Tensor, span: Tensor) -> Tensor:
    """at(lam) with the least lam >= 0 such that g'at(lam) <= h, or the largest one allowed."""
    low = torch.zeros_like(h)
    first = at(low)
    met = (g * first).sum(-1) <= h
    # At this lam the entry with the largest slope has crossed the whole box: a linear model that asks for more is
    # not to be believed. Without the limit rows jump to far corners; on an MNIST net radii became a sixth larger.
    high = span.amax(-1) / g.abs().amax(-1).clamp(min=torch.finfo(h.dtype).tiny)
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        late = (g * at(middle)).sum(-1) > h
        low, high = torch.where(late, middle, low), torch.where(late, high, middle)
    return torch.where(met.unsqueeze(-1), first, at(high))
