"""Exact Euclidean projections onto the intersection of an l_p ball and a box, p = 1, 2, inf, all rows at once.

    min |z - point|_2   subject to   |z - centre|_p <= radius,  lower <= z <= upper

with the centre inside the box. Projecting onto the two sets one after the other is wrong for l1 and l2 (paper,
appendix): it ends inside both but not at the nearest point. Here the multiplier of the ball is found exactly: the
pieces of its piecewise formula are gone through.
"""

from __future__ import annotations

import torch
from torch import Tensor


def project_linf(point: Tensor, centre: Tensor, radius: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """All (b, n); radius (b,). Ball and box are one box."""
    r = radius.unsqueeze(-1)
    return torch.clamp(point, torch.maximum(centre - r, lower), torch.minimum(centre + r, upper))


def project_l2(point: Tensor, centre: Tensor, radius: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """z = clip(centre + s (point - centre)) with the largest s <= 1 that stays in the ball.

    |z - centre|^2 is the sum of min(s size, room)^2. For a given set of entries at the box s is known; it can only
    grow as entries join the set, so the set is found after a few rounds, without sorting.
    """
    size, room = _size_and_room(point, centre, lower, upper)
    squares, rooms = size.square(), torch.where(torch.isinf(room), 0.0, room).square()
    target, tiny = radius.square(), torch.finfo(size.dtype).tiny
    stopped = torch.zeros_like(size, dtype=torch.bool)
    while True:
        left = (target - (rooms * stopped).sum(1)).clamp(min=0)
        s = (left / (squares * ~stopped).sum(1).clamp(min=tiny)).sqrt().clamp(max=1).unsqueeze(-1)
        stops = stopped | (s * size > room)
        if torch.equal(stops, stopped):
            break
        stopped = stops
    fits = torch.minimum(size, room).square().sum(1, keepdim=True) <= target.unsqueeze(-1)
    return torch.clamp(torch.where(fits, point, centre + s * (point - centre)), lower, upper)


def project_l1(point: Tensor, centre: Tensor, radius: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """z moves by min(max(size - lam, 0), room) towards the point, with the least lam >= 0 that stays in the ball."""
    size, room = _size_and_room(point, centre, lower, upper)
    # As lam falls from the top, entry i starts to move at lam = size and stops at lam = size - room.
    starts, ends = size, (size - room).clamp(min=0)
    lams = torch.cat([starts, ends], 1)
    turn = torch.cat([torch.ones_like(starts), -torch.ones_like(ends)], 1)
    lams, order = lams.sort(dim=1, descending=True)
    slope = turn.gather(1, order).cumsum(1)  # how many move between this lam and the next one
    drop = lams - torch.cat([lams[:, 1:], torch.zeros_like(lams[:, :1])], 1)
    moved = (slope * drop).cumsum(1)  # sum of the moves at the next lam
    piece = (moved < radius.unsqueeze(-1)).sum(1, keepdim=True).clamp(max=lams.shape[1] - 1)
    before = moved.gather(1, piece) - (slope * drop).gather(1, piece)
    more = (radius.unsqueeze(-1) - before).clamp(min=0) / slope.gather(1, piece).clamp(min=1)
    lam = (lams.gather(1, piece) - more).clamp(min=0)
    fits = torch.minimum(size, room).sum(1, keepdim=True) <= radius.unsqueeze(-1)
    move = torch.minimum((size - lam).clamp(min=0), room)
    return torch.clamp(torch.where(fits, point, centre + (point - centre).sign() * move), lower, upper)


def _size_and_room(point: Tensor, centre: Tensor, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
    """How far the point is from the centre in every entry, and how far the box lets one go that way."""
    move = point - centre
    room = torch.where(move > 0, upper - centre, centre - lower).expand_as(move)
    return move.abs(), room
