"""l2 and l1: a query moves what a second window holds, and what is left of the ball, into bumps in a first one.

Mass is what adds up over entries: squares of changes for l2, their sizes for l1.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor

from pwcf.attacks.square.ball import Ball
from pwcf.attacks.square.bumps import bump_pairs
from pwcf.attacks.square.draws import Draws
from pwcf.attacks.square.moves import Moves
from pwcf.attacks.square.plans import Plan

# The start is this many tiles of bumps in each direction, or a few more.
TILES = 5
# A new bump and what is in the window may cancel. With less than this left of two of norm 1 the bump alone is taken.
CANCELLED = 1e-6


class Windows(NamedTuple):
    """One query's two windows, (m, channels, k) each: places, points before the query, centres; the first one's box."""

    first: Tensor
    second: Tensor
    first_points: Tensor
    second_points: Tensor
    first_centre: Tensor
    second_centre: Tensor
    lower: Tensor
    upper: Tensor


class Masses(Moves):
    """What l2 and l1 share: windows, and what goes into the first one (paper, algorithm 3)."""

    least = 3
    plan: Plan

    def __init__(self, ball: Ball, draws: Draws) -> None:
        self.p, self.grid, self.reach, self.draws = ball.p, ball.grid, ball.reach, draws
        self.centre, self.lower, self.upper, self.radius = ball.centre, ball.lower, ball.upper, ball.inner
        self.points = self.started(self._tiles())
        self.held = torch.zeros_like(self.radius)
        self._plan((1, 1), 0)

    @abstractmethod
    def started(self, change: Tensor) -> Tensor:
        """Points of the ball from changes (m, channels, entries) of any size."""

    def mass(self, change: Tensor) -> Tensor:
        return change.square() if self.p == 2 else change.abs()

    def draw(self, sides: tuple[int, int], queries: int) -> None:
        self._plan(sides, queries)
        # Counted afresh now and then, so that rounding does not add up over thousands of queries.
        self.held = self.mass(self.points - self.centre).sum((1, 2))

    def keep(self, rows: Tensor) -> None:
        self.points, self.centre, self.lower, self.upper, self.radius, self.held = (
            t[rows] for t in (self.points, self.centre, self.lower, self.upper, self.radius, self.held)
        )
        self.plan, self.reach = self.plan.select(rows), self.reach.select(rows)
        self.draws.keep(rows)

    def _plan(self, sides: tuple[int, int], queries: int) -> None:
        self.plan = Plan.drawn(self.draws, self.reach, self.grid, sides, queries)
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
        uniform = self.draws.uniform(1 + grid.channels, down * across)
        pairs = bump_pairs(sides, self.p).to(self.centre)[(uniform[:, 0] < 0.5).long()]  # (m, tiles, k)
        signs = torch.where(uniform[:, 1:] < 0.5, 1.0, -1.0).to(pairs)
        change = torch.zeros_like(self.centre)
        change[:, :, places] = (signs.unsqueeze(3) * pairs.unsqueeze(1)).flatten(2)
        return change * (self.upper > self.lower)

    def windows(self, query: int) -> Windows:
        k = len(self.offsets)
        places = (self.plan.first[:, query].unsqueeze(2) + self.offsets).view(-1, 1, 2 * k)
        places = places.expand(-1, self.grid.channels, -1)
        first, second = places[..., :k], places[..., k:]
        points, centre = self.points.gather(2, places), self.centre.gather(2, places)
        box = self.lower.gather(2, first), self.upper.gather(2, first)
        return Windows(first, second, points[..., :k], points[..., k:], centre[..., :k], centre[..., k:], *box)

    def moved(self, query: int, w: Windows) -> tuple[Tensor, Tensor]:
        """(m, channels, k) new changes of the first window, not yet in the box; (m,) the mass both windows had."""
        old = w.first_points - w.first_centre
        old_mass = self.mass(old).sum(2, keepdim=True)
        second_mass = self.mass(w.second_points - w.second_centre) * self.plan.apart(query)
        mass = old_mass + second_mass.sum(2, keepdim=True)
        signs = self.plan.signs[:, query].unsqueeze(2).to(old)
        bump = self.pairs[self.plan.beside[:, query]].unsqueeze(1) * signs * (w.upper > w.lower)
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
