"""The linf norm."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from pwcf.metrics.halfspace import dot, least_zero, room_against
from pwcf.metrics.lp import Lp


@dataclass(frozen=True)
class Linf(Lp):
    """|candidate - reference|_inf per row."""

    p: float = math.inf

    def norm(self, move: Tensor) -> Tensor:
        return move.abs().amax(1)  # many times faster than vector_norm

    def steepest(self, gradient: Tensor) -> Tensor:
        """Every entry by as much."""
        return gradient.sign()

    def project(self, point: Tensor, centre: Tensor, radius: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
        """Ball and box are one box."""
        r = radius.unsqueeze(-1)
        return torch.clamp(point, torch.maximum(centre - r, lower), torch.minimum(centre + r, upper))

    def nearest_on_halfspace(self, point: Tensor, g: Tensor, h: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
        """All entries move by the least radius that meets the half-space, as far as the box lets them."""
        t = self.least_radius(point, g, h, lower, upper)
        return torch.clamp(torch.addcmul(point, t.unsqueeze(1), g.sign(), value=-1), lower, upper)

    def least_radius(self, centre: Tensor, g: Tensor, h: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
        """(r,) the smallest t such that the box, and the linf ball of radius t about ``centre``, meet g'z <= h.

        Where the box alone does not, the smallest t beyond which nothing changes.
        """
        size, room = g.abs(), room_against(centre, g, lower, upper)
        need = dot(g, centre) - h
        t = least_zero(
            lambda t: need - dot(size, torch.minimum(room, t.unsqueeze(-1))), need, size.sum(-1), torch.zeros_like(h)
        )
        return torch.minimum(t, room.amax(-1))

    def slacks(self, n: int) -> int:
        """One for all entries: |x' - x|_inf = min t  s.t.  -t <= x' - x <= t."""
        return 1
