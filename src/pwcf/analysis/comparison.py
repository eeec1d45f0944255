"""Two attacks, or all of them, against each other, sample by sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pwcf.analysis.spread import Spread, describe

# A radius that is smaller by less than this share is the same radius: attacks stop somewhere near the boundary.
CLEARLY = 0.01


@dataclass(frozen=True)
class Comparison:
    """The paper's "statistical comparison of the minimal radius": over the samples for which both have a point."""

    first: Spread
    second: Spread
    difference: Spread
    """the first's radius minus the second's: below zero the first is better"""


def compare(first: Tensor, second: Tensor, right: Tensor) -> Comparison:
    """Radii (n,) of two attacks on samples that are right as they are (n,)."""
    both = right & torch.isfinite(first) & torch.isfinite(second)
    n, common = int(right.sum()), int(both.sum())
    values = first[both].double(), second[both].double()
    sides = (*values, values[0] - values[1])
    return Comparison(*(Spread(n, common, *describe(side)) for side in sides))


def wins(radii: Sequence[Tensor], right: Tensor) -> Tensor:
    """(a, a) float64: [i, j] is the share of samples on which attack i's radius is smaller than j's by over 1 %.

    Of the samples that are right as they are. A point is better than none; where neither has one nobody wins.
    """
    won, pairs = wins_and_pairs(radii, right)
    return won.double() / pairs


def wins_and_pairs(radii: Sequence[Tensor], right: Tensor) -> tuple[Tensor, int]:
    """(a, a) int64 on how many samples each attack beats each other one, and of how many samples: these add up."""
    values = torch.stack([radius.double() for radius in radii])[:, right]
    clearly = values[:, None] < (1 - CLEARLY) * values[None, :]
    return clearly.sum(2), int(right.sum())
