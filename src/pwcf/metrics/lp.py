"""The l_p norms, p >= 1: the code they share. l1, l2 and linf, which have more capabilities, have their own files."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from pwcf.metrics.halfspace import dot, least_zero, room_against
from pwcf.metrics.metric import Norm


@dataclass(frozen=True)
class Lp(Norm):
    """|candidate - reference|_p per row, for 1 < p < inf.

    Use ``pwcf.metrics.lp(p)`` to make one: it returns the special classes for l1, l2 and linf.
    """

    p: float

    def __post_init__(self) -> None:
        # l1, l2 and linf offer more than this class does: made here they would pass for norms without a projection.
        if type(self) is Lp and (not 1 < self.p < math.inf or self.p == 2):
            raise ValueError(f"p: expected 1 < p < inf other than 2, found {self.p:g}; use pwcf.metrics.lp({self.p:g})")

    @property
    def exponent(self) -> float:
        return self.p

    @property
    def name(self) -> str:
        return "linf" if math.isinf(self.p) else f"l{self.p:g}"

    @property
    def dual(self) -> float:
        """q with 1/p + 1/q = 1: the exponent of the dual norm."""
        if self.p == 1:
            return math.inf
        return 1.0 if math.isinf(self.p) else self.p / (self.p - 1)

    def norm(self, move: Tensor) -> Tensor:
        # The largest entry is factored out: |move|^p overflows or vanishes in float32 already at p = 40.
        size = move.abs()
        largest = size.detach().amax(1, keepdim=True)
        scale = torch.where(largest > 0, largest, torch.ones_like(largest))
        total = (size / scale).pow(self.p).sum(1)
        # The root has no finite slope at 0; there the distance is 0 and its gradient is taken to be 0.
        safe = torch.where(total > 0, total, torch.ones_like(total))
        return scale.squeeze(1) * torch.where(total > 0, safe.pow(1 / self.p), total)

    def dual_norm(self, gradient: Tensor) -> Tensor:
        length: Tensor = torch.linalg.vector_norm(gradient, ord=self.dual, dim=1)
        return length

    def steepest(self, gradient: Tensor) -> Tensor:
        """Return directions (b, n) of l_p length 1; 0 for rows whose gradient is 0."""
        size = gradient.abs()
        largest = size.amax(1, keepdim=True)
        # The largest entry is factored out: powers of tiny gradients would vanish.
        powers = (size / torch.where(largest > 0, largest, 1.0)) ** (1 / (self.p - 1))
        move = gradient.sign() * powers
        length = self.norm(move).unsqueeze(1)
        return move / torch.where(length > 0, length, 1.0)

    def nearest_on_halfspace(self, point: Tensor, g: Tensor, h: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
        """Move all entries, by amounts that one scale t sets (1 < p < inf).

        Entry i moves by -sign(g_i) min(t |g_i|^(1/(p-1)), room_i) with the least t that meets the half-space. If the
        box does not meet the half-space, the result is the corner closest to it.
        """
        size, room = g.abs(), room_against(point, g, lower, upper)
        largest = size.amax(-1, keepdim=True).clamp(min=torch.finfo(g.dtype).tiny)
        shape = (size / largest).pow(1 / (self.p - 1))
        need = dot(g, point) - h

        def move(t: Tensor) -> Tensor:
            return torch.minimum(t.unsqueeze(-1) * shape, room)

        t = least_zero(lambda t: need - dot(size, move(t)), need, dot(size, shape), torch.zeros_like(h))
        return torch.clamp(torch.addcmul(point, g.sign(), move(t), value=-1), lower, upper)
