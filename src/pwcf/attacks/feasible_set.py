"""The feasible set of max-loss, ball and box, and its linear oracle.

The oracle solves  max g's  s.t.  |s - x|_p <= eps,  lower <= s <= upper.  An optimal s moves each entry in the
direction of g_i or not at all. Without the box g's is then g'x + eps |g|_q, with q the dual exponent of p. With the
room r_i that the box leaves in that direction, entry i moves by

- linf: min(eps, r_i);
- l1: all of the room of the entries with the largest |g_i|, until eps is used up;
- 1 < p < inf: min(t |g_i|^(1/(p-1)), r_i), with the t at which the move has length eps;
- other norms: as much as to the nearest point of the half-space g's >= level, with the largest level within eps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pwcf._common.rng import noise_of
from pwcf._common.rows import PerRow, bisect
from pwcf.attacks.base import Task
from pwcf.metrics import HasDualNorm, HasHalfspaceStep, Metric

# Halvings of the interval of levels, for norms that are not l_p: as exact as float32.
HALVINGS = 30


@dataclass
class FeasibleSet(PerRow):
    """Ball and box of r rows. Images are flat."""

    centre: Tensor
    """(r, n)"""
    eps: Tensor
    """(r,) float64"""
    lower: Tensor
    """(r, n)"""
    upper: Tensor
    metric: Metric
    shape: torch.Size
    """of an image"""

    @classmethod
    def of(cls, task: Task) -> FeasibleSet:
        """Those of all samples of a max-loss task."""
        assert task.eps is not None
        centre, lower, upper = (t.flatten(1) for t in (task.images, task.lower, task.upper))
        return cls(centre, task.eps.to(centre.device), lower, upper, task.problem.metric, task.images.shape[1:])

    def select(self, rows: Tensor) -> FeasibleSet:
        """Those of some rows (m,), by their places."""
        if rows.numel() == self.eps.numel():
            return self
        return replace(
            self, centre=self.centre[rows], eps=self.eps[rows], lower=self.lower[rows], upper=self.upper[rows]
        )

    def inside(self, x: Tensor) -> Tensor:
        """Clip points (r, n) that rounding has led out of the set.

        Where the distance is beyond eps all entries go one unit in the last place towards the image.
        """
        x = torch.clamp(x, self.lower, self.upper)
        beyond = (self.distance(x) > self.eps).unsqueeze(1)
        return torch.where(beyond, torch.nextafter(x, self.centre), x)

    def distance(self, x: Tensor) -> Tensor:
        """(r,) float64 distances of points (r, n) from the images."""
        return self.metric.distance64(self.centre.view(-1, *self.shape), x.view(-1, *self.shape))

    def shrunk(self, x: Tensor) -> Tensor:
        """Points (r, n) moved straight towards their images as far as the ball asks; the metric is a norm."""
        share = (self.eps / self.distance(x).clamp(min=torch.finfo(torch.float64).tiny)).clamp(max=1)
        return self.inside(self.centre + share.to(x.dtype).unsqueeze(1) * (x - self.centre))

    def random_vertex(self, seeds: list[int]) -> Tensor:
        """(r, n) the oracle's answers for random directions, each from a seed of its own."""
        return self.vertex(noise_of(seeds, len(seeds), self.centre))

    def vertex(self, g: Tensor) -> Tensor:
        """Solve  max g's  over ball and box.

        Args:
            g: (r, n) gradients, 0 in entries that must not change.

        Returns:
            (r, n) the points s; the images where the gradient is 0.
        """
        # Only the direction of g counts. With entries of at most 1 powers neither overflow nor vanish all together.
        largest = g.abs().amax(1, keepdim=True)
        g = g / torch.where(largest > 0, largest, 1.0)
        p = self.metric.exponent
        if p is None:
            return self.inside(self._vertex_of_norm(g))
        # No entry moves by more than eps: the rest of its room does not count.
        eps = self.eps.to(g.dtype).unsqueeze(1)
        room = torch.where(g > 0, self.upper - self.centre, self.centre - self.lower)
        room = torch.where(g != 0, torch.minimum(room, eps), 0.0)
        move = room if p == math.inf else _fill(g.abs(), room, eps) if p == 1 else _scaled(g.abs(), room, eps, p)
        return self.inside(self.centre + g.sign() * move)

    def _vertex_of_norm(self, g: Tensor) -> Tensor:
        metric = self.metric
        assert isinstance(metric, HasHalfspaceStep)
        assert isinstance(metric, HasDualNorm)

        def reach(level: Tensor) -> Tensor:
            """The nearest points with g's >= level."""
            return metric.nearest_on_halfspace(self.centre, -g, -level, self.lower, self.upper)

        def within(level: Tensor) -> Tensor:
            return metric.norm(reach(level) - self.centre) <= self.eps

        least, corner = (g * self.centre).sum(1), torch.where(g > 0, self.upper, self.lower)
        level, _ = bisect(within, least, (g * corner).sum(1), HALVINGS)
        return reach(level)


def _fill(size: Tensor, room: Tensor, eps: Tensor) -> Tensor:
    """(r, n) moves of l1 length eps (r, 1): the room of the entries with the largest slopes ``size`` first."""
    order = size.argsort(dim=1, descending=True)
    ordered = room.gather(1, order)
    before = ordered.cumsum(1) - ordered
    moves = torch.minimum((eps - before).clamp(min=0), ordered)
    return torch.zeros_like(moves).scatter(1, order, moves)


def _scaled(size: Tensor, room: Tensor, eps: Tensor, p: float) -> Tensor:
    """(r, n) moves min(t size^(1/(p-1)), room) of l_p length eps (r, 1), 1 < p < inf.

    If the entries that fill their room were known, t would be, too. t only grows as entries join them, so a few rounds
    find them without sorting.
    """
    tiny = torch.finfo(size.dtype).tiny
    # In units of eps: powers of small numbers would vanish.
    room = room / eps.clamp(min=tiny)
    pace = size.pow(1 / (p - 1))
    full_part, free_part = room.pow(p), pace.pow(p)
    full = torch.zeros_like(size, dtype=torch.bool)
    while True:
        left = (1 - (full_part * full).sum(1, keepdim=True)).clamp(min=0)
        t = (left / (free_part * ~full).sum(1, keepdim=True).clamp(min=tiny)).pow(1 / p)
        fills = full | (t * pace > room)
        if torch.equal(fills, full):
            return eps * torch.where(full, room, t * pace)
        full = fills
