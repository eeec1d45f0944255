"""l2: the two windows are all that changes."""

from __future__ import annotations

import torch
from torch import Tensor

from pwcf.attacks.square.masses import Masses


class Spread(Masses):
    """Mass is kept, so that points never leave the ball: what the box cuts off is put elsewhere by the next query."""

    def started(self, change: Tensor) -> Tensor:
        size = self.mass(change).sum((1, 2), keepdim=True).sqrt().clamp(min=torch.finfo(change.dtype).tiny)
        return torch.clamp(self.centre + change * (self.radius.view(-1, 1, 1) / size), self.lower, self.upper)

    def propose(self, query: int) -> None:
        w = self.now = self.windows(query)
        change, mass = self.moved(query, w)
        self.tried = torch.clamp(w.first_centre + change, w.lower, w.upper)
        self.held_tried = self.held - mass + self.mass(self.tried - w.first_centre).sum((1, 2))
        self._write(self.tried, w.second_centre)

    def settle(self, better: Tensor) -> None:
        w, rows = self.now, better.view(-1, 1, 1)
        self._write(torch.where(rows, self.tried, w.first_points), torch.where(rows, w.second_centre, w.second_points))
        self.held = torch.where(better, self.held_tried, self.held)

    def _write(self, first: Tensor, second: Tensor) -> None:
        """Where the windows overlap the first one counts."""
        self.points.scatter_(2, self.now.second, second)
        self.points.scatter_(2, self.now.first, first)
