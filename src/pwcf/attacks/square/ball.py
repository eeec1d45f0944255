"""Where the points of the rows may be."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from pwcf.attacks.square.windows import Grid, Reach

# Sums of a few thousand terms in float32 are right to about this share.
SUMS = 1e-6


@dataclass(frozen=True)
class Ball:
    """|z - centre|_p <= eps within the box, for m rows as (m, channels, height * width)."""

    p: float
    grid: Grid
    centre: Tensor
    lower: Tensor
    upper: Tensor
    eps: Tensor
    """(m,) float64"""
    reach: Reach

    @classmethod
    def of(cls, p: float, images: Tensor, lower: Tensor, upper: Tensor, eps: Tensor) -> Ball:
        """Of images (m, ...) with eps > 0, something free in each of them."""
        grid = Grid.of(images.shape[1:])
        x, l, u = (t.reshape(len(images), grid.channels, grid.entries) for t in (images, lower, upper))
        free = (u > l).view(-1, grid.channels, grid.height, grid.width)
        return cls(p, grid, x, l, u, eps, Reach.of(free))

    @property
    def inner(self) -> Tensor:
        """(m,) of the images' dtype: a radius that is within eps whatever rounding does to the entries of z."""
        largest = torch.maximum(self.lower.abs(), self.upper.abs()).flatten(1).amax(1).double()
        entry = 0.5 * torch.finfo(self.centre.dtype).eps * largest
        every = entry * (self.grid.channels * self.grid.entries) ** (0 if math.isinf(self.p) else 1 / self.p)
        radius = torch.maximum((1 - SUMS) * self.eps - every, 0.5 * self.eps)
        return radius.to(self.centre.dtype)

    def corners(self) -> tuple[Tensor, Tensor]:
        """Least and largest values (m, channels, entries) within eps, entry by entry, rounded towards the centre."""
        eps, centre = self.eps.view(-1, 1, 1), self.centre.double()
        least, most = (centre - eps).to(self.centre.dtype), (centre + eps).to(self.centre.dtype)
        least = torch.where(centre - least > eps, torch.nextafter(least, self.centre), least)
        most = torch.where(most - centre > eps, torch.nextafter(most, self.centre), most)
        return torch.maximum(least, self.lower), torch.minimum(most, self.upper)
