"""The perturbations of a window for l2 and l1: two bumps side by side, one up and one down, as published."""

from __future__ import annotations

import torch
from torch import Tensor

# The k-th ring about the middle of a bump has height sum over j >= k of 1 / (j + 1)^power. l1 wants peaks, because few
# entries of large change are its best points.
POWERS = {2.0: 2, 1.0: 4}


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
