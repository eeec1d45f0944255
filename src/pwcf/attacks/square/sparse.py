"""l1: after each query the changes are projected onto ball and box, which takes the smallest of them away."""

from __future__ import annotations

import torch
from torch import Tensor

from pwcf.attacks.square.spread import Spread
from pwcf.metrics import L1


class Sparse(Spread):
    """AutoAttack's version (Croce and Hein 2021). With one channel mass is kept as in l2: no projection."""

    def started(self, change: Tensor) -> Tensor:
        # Published the tiles have norm 1 each, more than a usual ball holds; in a larger one they grow.
        size = self.mass(change).sum((1, 2), keepdim=True).clamp(min=torch.finfo(change.dtype).tiny)
        return self._projected(change * (self.radius.view(-1, 1, 1) / size).clamp(min=1))

    def propose(self, query: int) -> None:
        if self.grid.channels == 1:
            super().propose(query)
            return
        w = self.windows(query)
        change, _ = self.moved(query, w)
        changes = self.points - self.centre
        changes.scatter_(2, w.second, 0.0)
        changes.scatter_(2, w.first, change)
        self.before, self.points = self.points, self._projected(changes)

    def settle(self, better: Tensor) -> None:
        if self.grid.channels == 1:
            super().settle(better)
            return
        rows = better.nonzero().squeeze(1)
        tried, self.points = self.points[rows], self.before
        self.points[rows] = tried
        self.held[rows] = self.mass(tried - self.centre[rows]).sum((1, 2))

    def _projected(self, changes: Tensor) -> Tensor:
        """Points in ball and box nearest to centre + changes. Sorting is dear: only entries that change take part."""
        flat, centre = changes.flatten(1), self.centre.flatten(1)
        lower, upper = self.lower.flatten(1), self.upper.flatten(1)
        row, place = flat.nonzero(as_tuple=True)
        counts = torch.bincount(row, minlength=len(flat))
        rank = torch.arange(len(row), device=row.device) - (counts.cumsum(0) - counts)[row]
        # Beyond a row's count places are 0, and so is what is added there.
        places = torch.zeros(len(flat), max(1, int(counts.max())), dtype=torch.int64, device=row.device)
        places[row, rank] = place
        some = flat.new_zeros(places.shape)
        some[row, rank] = flat[row, place]
        own = centre.gather(1, places)
        box = lower.gather(1, places) - own, upper.gather(1, places) - own
        some = L1().project(some, torch.zeros_like(some), self.radius, *box)
        moved = torch.zeros_like(centre).scatter_add_(1, places, some)
        return torch.clamp(centre + moved, lower, upper).view_as(self.centre)
