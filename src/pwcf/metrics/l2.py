"""The l2 norm."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pwcf.metrics.halfspace import size_and_room
from pwcf.metrics.lp import Lp


@dataclass(frozen=True)
class L2(Lp):
    """|candidate - reference|_2 per row."""

    p: float = 2.0

    def norm(self, move: Tensor) -> Tensor:
        length: Tensor = torch.linalg.vector_norm(move, ord=2.0, dim=1)
        return length

    def steepest(self, gradient: Tensor) -> Tensor:
        """Return gradient / |gradient|_2. The largest entry is factored out: tiny ones would vanish when squared."""
        largest = gradient.abs().amax(1, keepdim=True)
        scaled = gradient / torch.where(largest > 0, largest, torch.ones_like(largest))
        length: Tensor = torch.linalg.vector_norm(scaled, dim=1, keepdim=True)
        return scaled / length.clamp(min=1)

    def project(self, point: Tensor, centre: Tensor, radius: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
        """Euclidean projection onto ball and box.

        z = clip(centre + s (point - centre)) with the largest s <= 1 that stays in the ball.

        |z - centre|^2 is the sum of min(s size, room)^2. If the entries at the box were known, s would be, too. s only
        grows as entries join that set, so a few rounds find the set without sorting.
        """
        size, room = size_and_room(point, centre, lower, upper)
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
