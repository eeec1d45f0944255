"""Windows of images: their sides, and where every row has its own."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

# Least side of an image whose last line and column are left out.
BORDERED = 16


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
class Reach:
    """First and last line and column, each (m,), in which something may change: windows elsewhere would be wasted."""

    top: Tensor
    bottom: Tensor
    left: Tensor
    right: Tensor

    @classmethod
    def of(cls, free: Tensor) -> Reach:
        """From (m, channels, height, width) bool, something in every row."""
        lines, columns = free.any(3).any(1), free.any(2).any(1)
        return cls(*_ends(lines), *_ends(columns))

    def select(self, rows: Tensor) -> Reach:
        return Reach(self.top[rows], self.bottom[rows], self.left[rows], self.right[rows])

    def places(self, uniform: Tensor, sides: tuple[int, int], grid: Grid) -> tuple[Tensor, Tensor]:
        """(m, q) first lines and columns of windows from (m, q, 2) numbers in [0, 1): all that reach are as likely.

        As in AutoAttack's code, windows of an image leave out its last line and column unless nothing else may change:
        on MNIST, where borders do not matter, l1 robust accuracy is three points lower for it. In small images, and
        vectors, every entry matters.
        """
        border = int(min(grid.height, grid.width) >= BORDERED)
        line = _placed(uniform[..., 0], self.top, self.bottom, sides[0], grid.height - border)
        column = _placed(uniform[..., 1], self.left, self.right, sides[1], grid.width - border)
        return line, column


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
