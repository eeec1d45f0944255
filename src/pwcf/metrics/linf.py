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
        """Move every entry by the same amount."""
        return gradient.sign()

    def project(self, point: Tensor, centre: Tensor, radius: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
        """Clamp: the intersection of ball and box is a box."""
        r = radius.unsqueeze(-1)
        return torch.clamp(point, torch.maximum(centre - r, lower), torch.minimum(centre + r, upper))

    def nearest_on_halfspace(self, point: Tensor, g: Tensor, h: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
        """Move all entries by the least radius that meets the half-space, as far as the box allows."""
        t = self.least_radius(point, g, h, lower, upper)
        return torch.clamp(torch.addcmul(point, t.unsqueeze(1), g.sign(), value=-1), lower, upper)

    def least_radius(self, centre: Tensor, g: Tensor, h: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
        """Find the smallest linf ball about the centre that meets a half-space inside the box.

        Args:
            centre: (r, n) points inside the box.
            g: (r, n) normals of the half-spaces g'z <= h.
            h: (r,) their right-hand sides.
            lower: least values: (r, n), (1, n) or a number as a 0-dim tensor.
            upper: largest values, of the same kind.

        Returns:
            (r,) radii. If the box does not meet the half-space, the radius at which the ball covers all that counts.
        """
        size, room = g.abs(), room_against(centre, g, lower, upper)
        need = dot(g, centre) - h
        t = least_zero(
            lambda t: need - dot(size, torch.minimum(room, t.unsqueeze(-1))), need, size.sum(-1), torch.zeros_like(h)
        )
        return torch.minimum(t, room.amax(-1))

    def slacks(self, n: int) -> int:
        """Return 1, one for all entries: |x' - x|_inf = min t  s.t.  -t <= x' - x <= t."""
        return 1
