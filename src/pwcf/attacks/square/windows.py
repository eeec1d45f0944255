"""What the norms share: windows of images, the ball that points stay in, and what a proposal is."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

# Least side of an image whose last line and column are left out.
BORDERED = 16
# Sums of a few thousand terms in float32 are right to about this share.
SUMS = 1e-6


@dataclass(frozen=True)
class Grid:
    """Images as channels of height x width. A vector is one channel of one line; its windows are intervals."""

    channels: int
    height: int
    width: int

    @classmethod
    def of(cls, shape: torch.Size) -> Grid:
        """The last two sides are height and width, whatever comes before are channels."""
        height, width = (1, 1, *shape)[-2:]
        return cls(math.prod(shape[:-2]), height, width)

    @property
    def entries(self) -> int:
        """Of one channel."""
        return self.height * self.width

    def sides(self, share: float, least: int) -> tuple[int, int]:
        """Height and width of the square with this share of the entries, ``least`` or more.

        Where a square does not fit into one side, the other one makes up for it. With ``least`` > 1 sides are odd:
        such windows have a middle.
        """
        side = math.sqrt(share * self.entries)
        high, wide = side, side
        if side > self.height:
            high, wide = self.height, share * self.width
        elif side > self.width:
            high, wide = share * self.height, self.width
        odd = int(least > 1)
        return (
            min(max(round(high), least) | odd, self.height),
            min(max(round(wide), least) | odd, self.width),
        )

    def offsets(self, sides: tuple[int, int], device: torch.device) -> Tensor:
        """(k,) places of a window's entries, counted from its first one."""
        lines, columns = (torch.arange(side, device=device) for side in sides)
        return (lines.unsqueeze(1) * self.width + columns).flatten()


@dataclass(frozen=True)
class MaskExtent:
    """First and last line and column, each (m,), in which something may change: windows elsewhere would be wasted."""

    top: Tensor
    bottom: Tensor
    left: Tensor
    right: Tensor

    @classmethod
    def of(cls, free: Tensor) -> MaskExtent:
        """From (m, channels, height, width) bool, something in every row."""
        lines, columns = free.any(3).any(1), free.any(2).any(1)
        return cls(*_ends(lines), *_ends(columns))

    def select(self, rows: Tensor) -> MaskExtent:
        return MaskExtent(self.top[rows], self.bottom[rows], self.left[rows], self.right[rows])

    def places(self, uniform: Tensor, sides: tuple[int, int], grid: Grid) -> tuple[Tensor, Tensor]:
        """(m, q) first lines and columns of windows from (m, q, 2) numbers in [0, 1).

        All windows that reach something free are equally likely.

        As in AutoAttack's code, windows of an image leave out its last line and column unless nothing else may change:
        on MNIST, where borders do not matter, l1 robust accuracy is three points lower for it. In small images, and
        vectors, every entry matters.
        """
        border = int(min(grid.height, grid.width) >= BORDERED)
        line = _placed(uniform[..., 0], self.top, self.bottom, sides[0], grid.height - border)
        column = _placed(uniform[..., 1], self.left, self.right, sides[1], grid.width - border)
        return line, column


@dataclass(frozen=True)
class SquareBall:
    """|z - centre|_p <= eps within the box, for m rows as (m, channels, height * width)."""

    p: float
    grid: Grid
    centre: Tensor
    lower: Tensor
    upper: Tensor
    eps: Tensor
    """(m,) float64"""
    extent: MaskExtent

    @classmethod
    def of(cls, p: float, images: Tensor, lower: Tensor, upper: Tensor, eps: Tensor) -> SquareBall:
        """Of images (m, ...) with eps > 0, something free in each of them."""
        grid = Grid.of(images.shape[1:])
        x, l, u = (t.reshape(len(images), grid.channels, grid.entries) for t in (images, lower, upper))
        free = (u > l).view(-1, grid.channels, grid.height, grid.width)
        return cls(p, grid, x, l, u, eps, MaskExtent.of(free))

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


class Proposal(ABC):
    """The best points so far, and one change of each that is being tried.

    ``draw`` makes windows for some queries to come; then ``propose`` (number of the query since) and ``settle`` in
    turn. ``keep`` lets rows go, after ``settle``.
    """

    grid: Grid
    points: Tensor
    """(m, channels, entries) the start; then what is tried, and after ``settle`` the best"""
    least: int
    """least side of a window"""

    @abstractmethod
    def draw(self, sides: tuple[int, int], queries: int) -> None: ...

    @abstractmethod
    def propose(self, query: int) -> None: ...

    @abstractmethod
    def settle(self, better: Tensor) -> None:
        """Rows (m,) bool that keep what was tried; the others are as before."""

    @abstractmethod
    def keep(self, rows: Tensor) -> None:
        """Only these rows (k,) go on."""


def _ends(some: Tensor) -> tuple[Tensor, Tensor]:
    """(m,) first and last True of (m, k)."""
    count = some.shape[1]
    numbers = torch.arange(count, device=some.device)
    return torch.where(some, numbers, count).amin(1), torch.where(some, numbers, -1).amax(1)


def _placed(uniform: Tensor, first: Tensor, last: Tensor, side: int, limit: int) -> Tensor:
    low = (first - side + 1).clamp(min=0).unsqueeze(1)
    high = torch.maximum(last.clamp(max=max(limit - side, 0)).unsqueeze(1), low)
    # The product with the largest u may round up to the whole count.
    return torch.minimum(low + (uniform * (high - low + 1)).long(), high)
