"""The windows of l2 and l1, drawn for some queries to come."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from pwcf.attacks.square.draws import Draws
from pwcf.attacks.square.windows import Grid, Reach


@dataclass(frozen=True)
class Plan:
    """Two windows of the same sides for every row and query."""

    first: Tensor
    """(m, queries, 2) places of the windows' first entries"""
    shared_lines: Tensor
    """(m, queries, height of a window) bool: lines of the second window that the first one has too"""
    shared_columns: Tensor
    """(m, queries, width of a window)"""
    beside: Tensor
    """(m, queries) 0 or 1: which of the two pairs of bumps"""
    signs: Tensor
    """(m, queries, channels) -1 or 1, float"""

    @classmethod
    def drawn(cls, draws: Draws, reach: Reach, grid: Grid, sides: tuple[int, int], queries: int) -> Plan:
        uniform = draws.uniform(queries, 5 + grid.channels)
        line, column = reach.places(uniform[..., 0:2], sides, grid)
        line2, column2 = reach.places(uniform[..., 2:4], sides, grid)
        first = torch.stack([line * grid.width + column, line2 * grid.width + column2], 2)
        shared = (_shared(line2 - line, sides[0]), _shared(column2 - column, sides[1]))
        return cls(first, *shared, (uniform[..., 4] < 0.5).long(), torch.where(uniform[..., 5:] < 0.5, 1.0, -1.0))

    def apart(self, query: int) -> Tensor:
        """(m, 1, k) entries of the second window that are not in the first."""
        shared = self.shared_lines[:, query].unsqueeze(2) & self.shared_columns[:, query].unsqueeze(1)
        return ~shared.flatten(1).unsqueeze(1)

    def select(self, rows: Tensor) -> Plan:
        return replace(self, **{field.name: getattr(self, field.name)[rows] for field in fields(self)})


def _shared(ahead: Tensor, side: int) -> Tensor:
    """(m, queries, side) for a second window that begins ``ahead`` (m, queries) of the first."""
    place = ahead.unsqueeze(2) + torch.arange(side, device=ahead.device)
    return (place >= 0) & (place < side)
