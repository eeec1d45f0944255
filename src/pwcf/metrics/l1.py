"""The l1 norm."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pwcf.metrics.halfspace import dot, room_against, size_and_room
from pwcf.metrics.lp import Lp


@dataclass(frozen=True)
class L1(Lp):
    """|candidate - reference|_1 per row."""

    p: float = 1.0

    def norm(self, move: Tensor) -> Tensor:
        length: Tensor = torch.linalg.vector_norm(move, ord=1.0, dim=1)
        return length

    def steepest(self, gradient: Tensor) -> Tensor:
        """Move only the entry with the largest |gradient|."""
        largest = gradient.abs().argmax(1, keepdim=True)
        return torch.zeros_like(gradient).scatter(1, largest, gradient.gather(1, largest).sign())

    def project(self, point: Tensor, centre: Tensor, radius: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
        """Euclidean projection onto ball and box.

        z moves from the centre towards the point by min(max(size - lam, 0), room), with the least lam >= 0 that stays
        in the ball. The length of the move is piecewise linear in lam, so lam is found exactly by sorting its kinks.
        """
        size, room = size_and_room(point, centre, lower, upper)
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

    def nearest_on_halfspace(self, point: Tensor, g: Tensor, h: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
        """Move the entries with the largest |g| first.

        If the box does not meet the half-space, the result is the corner closest to it.
        """
        room = room_against(point, g, lower, upper)
        need = (dot(g, point) - h).clamp(min=0).unsqueeze(-1)
        size, order = g.abs().sort(dim=-1, descending=True)
        room = room.gather(-1, order)
        gain = size * room
        left = (need - (gain.cumsum(-1) - gain)).clamp(min=0)  # what those before entry i have not gained
        move = torch.minimum(left / size.clamp(min=torch.finfo(h.dtype).tiny), room) * size.sign()
        moves = torch.zeros_like(move).scatter(-1, order, move)
        return torch.clamp(torch.addcmul(point, g.sign(), moves, value=-1), lower, upper)

    def slacks(self, n: int) -> int:
        """Return n, one per entry: |x' - x|_1 = min 1't  s.t.  -t <= x' - x <= t."""
        return n
