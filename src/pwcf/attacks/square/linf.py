"""linf: every entry is at one of its two ends; a query moves the windows of all channels to one end each."""

from __future__ import annotations

import torch
from torch import Tensor

from pwcf._common.rng import RowRng
from pwcf.attacks.square.windows import Proposal, SquareBall


class LinfProposal(Proposal):
    """Starts with vertical stripes of random ends (paper, algorithm 2)."""

    least = 1

    def __init__(self, ball: SquareBall, rng: RowRng) -> None:
        self.grid, self.extent, self.rng = ball.grid, ball.extent, rng
        # Both ends in one line: an index plus 0 or ``entries`` reads the one or the other.
        least, most = ball.corners()
        self.ends = torch.cat([least, most], 2)
        c, h, w = ball.grid.channels, ball.grid.height, ball.grid.width
        up = (rng.uniform(c, w) < 0.5).unsqueeze(2).expand(-1, c, h, w).flatten(2)
        self.points = torch.where(up, most, least)
        self.first = torch.zeros(len(up), 0, dtype=torch.int64, device=up.device)  # (m, queries)
        self.shift = self.first.unsqueeze(2)  # (m, queries, channels)

    def draw(self, sides: tuple[int, int], queries: int) -> None:
        uniform = self.rng.uniform(queries, 2 + self.grid.channels)
        line, column = self.extent.places(uniform[..., :2], sides, self.grid)
        self.first = line * self.grid.width + column
        self.shift = (uniform[..., 2:] < 0.5) * self.grid.entries
        self.offsets = self.grid.offsets(sides, self.points.device)

    def propose(self, query: int) -> None:
        window = self.first[:, query, None, None] + self.offsets
        self.window = window.expand(-1, self.grid.channels, -1)
        self.before = self.points.gather(2, self.window)
        self.tried = self.ends.gather(2, self.window + self.shift[:, query].unsqueeze(2))
        self.points.scatter_(2, self.window, self.tried)

    def settle(self, better: Tensor) -> None:
        self.points.scatter_(2, self.window, torch.where(better.view(-1, 1, 1), self.tried, self.before))

    def keep(self, rows: Tensor) -> None:
        self.points, self.ends, self.extent = self.points[rows], self.ends[rows], self.extent.select(rows)
        self.first, self.shift = self.first[rows], self.shift[rows]
        self.rng.keep(rows)
