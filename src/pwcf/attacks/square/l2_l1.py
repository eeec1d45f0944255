"""l2 and l1: a query moves what a second window holds, and what is left of the ball, into bumps in a first one.

Mass is what adds up over entries: squares of changes for l2, their sizes for l1.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import torch
from torch import Tensor

from pwcf._common.rng import RowRng
from pwcf.attacks.square.windows import Grid, MaskExtent, Proposal, SquareBall
from pwcf.metrics import L1

# The start is this many tiles of bumps in each direction, or a few more.
TILES = 5
# A new bump and what is in the window may cancel. With less than this left of two of norm 1 the bump alone is taken.
CANCELLED = 1e-6
# The k-th ring about the middle of a bump has height sum over j >= k of 1 / (j + 1)^power. l1 wants peaks, because few
# entries of large change are its best points.
POWERS = {2.0: 2, 1.0: 4}


@dataclass(frozen=True)
class WindowDraws:
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
    def of(cls, rng: RowRng, extent: MaskExtent, grid: Grid, sides: tuple[int, int], queries: int) -> WindowDraws:
        uniform = rng.uniform(queries, 5 + grid.channels)
        line, column = extent.places(uniform[..., 0:2], sides, grid)
        line2, column2 = extent.places(uniform[..., 2:4], sides, grid)
        first = torch.stack([line * grid.width + column, line2 * grid.width + column2], 2)
        shared = (_shared(line2 - line, sides[0]), _shared(column2 - column, sides[1]))
        return cls(first, *shared, (uniform[..., 4] < 0.5).long(), torch.where(uniform[..., 5:] < 0.5, 1.0, -1.0))

    def apart(self, query: int) -> Tensor:
        """(m, 1, k) entries of the second window that are not in the first."""
        shared = self.shared_lines[:, query].unsqueeze(2) & self.shared_columns[:, query].unsqueeze(1)
        return ~shared.flatten(1).unsqueeze(1)

    def select(self, rows: Tensor) -> WindowDraws:
        return replace(self, **{field.name: getattr(self, field.name)[rows] for field in fields(self)})


class WindowPair(NamedTuple):
    """One query's two windows, (m, channels, k) each: places, points before the query, centres; the first one's box."""

    first: Tensor
    second: Tensor
    first_points: Tensor
    second_points: Tensor
    first_centre: Tensor
    second_centre: Tensor
    lower: Tensor
    upper: Tensor


class BumpProposal(Proposal):
    """What l2 and l1 share: windows, and what goes into the first one (paper, algorithm 3)."""

    least = 3
    drawn: WindowDraws

    def __init__(self, ball: SquareBall, rng: RowRng) -> None:
        self.p, self.grid, self.extent, self.rng = ball.p, ball.grid, ball.extent, rng
        self.centre, self.lower, self.upper, self.radius = ball.centre, ball.lower, ball.upper, ball.inner
        self.points = self.started(self._tiles())
        self.held = torch.zeros_like(self.radius)
        self._draw((1, 1), 0)

    @abstractmethod
    def started(self, change: Tensor) -> Tensor:
        """Points of the ball from changes (m, channels, entries) of any size."""

    def mass(self, change: Tensor) -> Tensor:
        return change.square() if self.p == 2 else change.abs()

    def draw(self, sides: tuple[int, int], queries: int) -> None:
        self._draw(sides, queries)
        # Counted afresh now and then, so that rounding does not add up over thousands of queries.
        self.held = self.mass(self.points - self.centre).sum((1, 2))

    def keep(self, rows: Tensor) -> None:
        self.points, self.centre, self.lower, self.upper, self.radius, self.held = (
            t[rows] for t in (self.points, self.centre, self.lower, self.upper, self.radius, self.held)
        )
        self.drawn, self.extent = self.drawn.select(rows), self.extent.select(rows)
        self.rng.keep(rows)

    def _draw(self, sides: tuple[int, int], queries: int) -> None:
        self.drawn = WindowDraws.of(self.rng, self.extent, self.grid, sides, queries)
        self.offsets = self.grid.offsets(sides, self.centre.device)
        self.pairs = bump_pairs(sides, self.p).to(self.centre)

    def _tiles(self) -> Tensor:
        """(m, channels, entries) tiles of bumps, a sign for each of them in each channel."""
        grid, device = self.grid, self.centre.device
        sides = max(1, grid.height // TILES), max(1, grid.width // TILES)
        down, across = grid.height // sides[0], grid.width // sides[1]
        lines = (grid.height - down * sides[0]) // 2 + sides[0] * torch.arange(down, device=device)
        columns = (grid.width - across * sides[1]) // 2 + sides[1] * torch.arange(across, device=device)
        first = (lines.unsqueeze(1) * grid.width + columns).flatten()
        places = (first.unsqueeze(1) + grid.offsets(sides, device)).flatten()
        uniform = self.rng.uniform(1 + grid.channels, down * across)
        pairs = bump_pairs(sides, self.p).to(self.centre)[(uniform[:, 0] < 0.5).long()]  # (m, tiles, k)
        signs = torch.where(uniform[:, 1:] < 0.5, 1.0, -1.0).to(pairs)
        change = torch.zeros_like(self.centre)
        change[:, :, places] = (signs.unsqueeze(3) * pairs.unsqueeze(1)).flatten(2)
        return change * (self.upper > self.lower)

    def windows(self, query: int) -> WindowPair:
        k = len(self.offsets)
        places = (self.drawn.first[:, query].unsqueeze(2) + self.offsets).view(-1, 1, 2 * k)
        places = places.expand(-1, self.grid.channels, -1)
        first, second = places[..., :k], places[..., k:]
        points, centre = self.points.gather(2, places), self.centre.gather(2, places)
        box = self.lower.gather(2, first), self.upper.gather(2, first)
        return WindowPair(first, second, points[..., :k], points[..., k:], centre[..., :k], centre[..., k:], *box)

    def moved(self, query: int, w: WindowPair) -> tuple[Tensor, Tensor]:
        """(m, channels, k) new changes of the first window, not yet in the box; (m,) the mass both windows had."""
        old = w.first_points - w.first_centre
        old_mass = self.mass(old).sum(2, keepdim=True)
        second_mass = self.mass(w.second_points - w.second_centre) * self.drawn.apart(query)
        mass = old_mass + second_mass.sum(2, keepdim=True)
        signs = self.drawn.signs[:, query].unsqueeze(2).to(old)
        bump = self.pairs[self.drawn.beside[:, query]].unsqueeze(1) * signs * (w.upper > w.lower)
        both = bump + old / self._norm(old_mass).clamp(min=torch.finfo(old.dtype).tiny)
        size = self._norm(self.mass(both).sum(2, keepdim=True))
        cancelled = size < CANCELLED
        both, size = torch.where(cancelled, bump, both), torch.where(cancelled, 1.0, size)
        return both * (self._allowance(mass) / size), mass.sum((1, 2))

    def _norm(self, mass: Tensor) -> Tensor:
        return mass.sqrt() if self.p == 2 else mass

    def _allowance(self, mass: Tensor) -> Tensor:
        """(m, channels, 1) norm of a channel's new changes: its own mass and its share of what the ball has left."""
        c = self.grid.channels
        whole = self.radius.square() if self.p == 2 else self.radius
        left = (whole - self.held).clamp(min=0).view(-1, 1, 1) / c
        # In l1 a channel asks for c times as much; the projection that follows takes it from the smallest changes of
        # all channels (AutoAttack's version).
        return (left + mass).sqrt() if self.p == 2 else (left + mass) * c


class L2Proposal(BumpProposal):
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


class L1Proposal(L2Proposal):
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


def bump_pairs(sides: tuple[int, int], p: float) -> Tensor:
    """(2, k) float64 of l_p norm 1 for windows of these sides: halves one above the other, and side by side.

    A side of length 1 has no halves; then both are the other one.
    """
    high, wide = sides
    stacked, beside = _pair(high, wide, p), _pair(wide, high, p).T
    if high == 1:
        stacked = beside
    elif wide == 1:
        beside = stacked
    return torch.stack([stacked.flatten(), beside.flatten()])


def _pair(high: int, wide: int, p: float) -> Tensor:
    """(high, wide): the upper half up, the lower half down."""
    half = high // 2
    both = torch.cat([_bump(half, wide, p), -_bump(high - half, wide, p)])
    return _unit(both, p)


def _bump(high: int, wide: int, p: float) -> Tensor:
    """(high, wide) of norm 1, highest in the middle, level on squares about it."""
    lines, columns = (torch.arange(side) - side // 2 for side in (high, wide))
    ring = torch.maximum(lines.abs().unsqueeze(1), columns.abs())
    rings = max(high // 2, wide // 2) + 1
    heights = torch.arange(1, rings + 1, dtype=torch.float64).pow(-POWERS[p])
    bump = heights.flip(0).cumsum(0).flip(0)[ring]
    return _unit(bump, p)


def _unit(pattern: Tensor, p: float) -> Tensor:
    if not pattern.numel():  # half a line
        return pattern
    size: Tensor = torch.linalg.vector_norm(pattern, ord=p)
    return pattern / size


def _shared(ahead: Tensor, side: int) -> Tensor:
    """(m, queries, side) for a second window that begins ``ahead`` (m, queries) of the first."""
    place = ahead.unsqueeze(2) + torch.arange(side, device=ahead.device)
    return (place >= 0) & (place < side)
