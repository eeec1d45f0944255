"""A norm of a user's own, in one file: the weighted l2 norm |w * (z - x)|_2 with positive weights."""

from __future__ import annotations

import torch
from torch import Tensor

from pwcf._common.rows import bisect
from pwcf.metrics import Norm
from pwcf.metrics.halfspace import dot, least_zero, room_against

HALVINGS = 60


class WeightedL2(Norm):
    """|w * (candidate - reference)|_2 per row.

    Args:
        weights: (n,) > 0, one for every entry of a flattened input.
    """

    def __init__(self, weights: Tensor) -> None:
        self.weights = weights

    @property
    def name(self) -> str:
        return "weighted-l2"

    def norm(self, move: Tensor) -> Tensor:
        length: Tensor = torch.linalg.vector_norm(self.weights.to(move) * move, dim=1)
        return length

    def dual_norm(self, gradient: Tensor) -> Tensor:
        length: Tensor = torch.linalg.vector_norm(gradient / self.weights.to(gradient), dim=1)
        return length

    def steepest(self, gradient: Tensor) -> Tensor:
        size = self.dual_norm(gradient).unsqueeze(1)
        return gradient / self.weights.to(gradient).square() / torch.where(size > 0, size, 1.0)

    def project(self, point: Tensor, centre: Tensor, radius: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
        """Euclidean projection onto the ellipsoid and the box.

        z = clip(centre + move / (1 + k w^2)) with the least multiplier k >= 0 that stays in the ellipsoid. At
        k = |move / w|_2 / radius it does.
        """
        w, move = self.weights.to(point), point - centre

        def at(k: Tensor) -> Tensor:
            return torch.clamp(centre + move / (1 + k.unsqueeze(1) * w.square()), lower, upper)

        high = torch.linalg.vector_norm(move / w, dim=1) / radius.clamp(min=torch.finfo(point.dtype).tiny)
        inside = self.norm(at(torch.zeros_like(high)) - centre) <= radius
        _, k = bisect(lambda k: self.norm(at(k) - centre) > radius, torch.zeros_like(high), high, HALVINGS)
        return at(torch.where(inside, 0.0, k))

    def nearest_on_halfspace(self, point: Tensor, g: Tensor, h: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
        """z = clip(point - t g / w^2) with the least t >= 0 that meets g'z <= h."""
        size, room = g.abs(), room_against(point, g, lower, upper)
        pace, need = size / self.weights.to(g).square(), dot(g, point) - h

        def move(t: Tensor) -> Tensor:
            return torch.minimum(t.unsqueeze(-1) * pace, room)

        t = least_zero(lambda t: need - dot(size, move(t)), need, dot(size, pace), torch.zeros_like(h))
        return torch.clamp(point - g.sign() * move(t), lower, upper)
