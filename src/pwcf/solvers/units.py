"""Units of the variables: where their sizes differ widely the solver works with x / unit.

BFGS learns any scaling in time, but its first steps, the reach of a bound and the neighbourhood of a point are balls.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pwcf.solvers.bounds import Bounds

# Sizes that differ by less than this factor are left alone.
ALIKE = 30.0
# A variable between bounds that are far apart is taken to be at most this many times as large as its start.
GROWTH = 10.0


@dataclass(frozen=True)
class Units:
    """One factor per variable, (1, n) or (b, n), or None if all are 1. They are powers of two: no digit is lost."""

    factors: Tensor | None = None

    def of(self, rows: Tensor) -> Tensor | None:
        """The factors of some rows of the user's batch."""
        return self.factors if self.factors is None or self.factors.shape[0] == 1 else self.factors[rows]

    def rows(self, rows: Tensor, x: Tensor) -> Tensor:
        """The factors of x (r, n), one row each, to be kept with the state of a row; (r, 0) if all are 1."""
        factors = self.of(rows)
        return x.new_ones(x.shape[0], 0) if factors is None else factors.expand_as(x).clone()

    @classmethod
    def kept(cls, factors: Tensor) -> Units:
        """The units that ``rows`` gave."""
        return cls(factors if factors.shape[1] else None)

    def to_user(self, x: Tensor, rows: Tensor) -> Tensor:
        """The solver's x (r, n) of some rows in the user's units."""
        factors = self.of(rows)
        return x if factors is None else x * factors

    def from_user(self, x: Tensor) -> Tensor:
        """The user's x (..., b, n), or bounds (1, n), in the solver's units."""
        return x if self.factors is None else x / self.factors

    def bounds(self, box: Bounds) -> Bounds:
        """The user's bounds in the solver's units."""
        return Bounds(*(None if side is None else self.from_user(side) for side in (box.lower, box.upper)))


def units(x0: Tensor, box: Bounds) -> Units:
    """Units for starts x0 (b, n) within bounds: the sizes of the variables, if these differ widely.

    Only bounds can tell that a variable is small: a start near zero is often just a start, and a unit that is too small
    would shorten the reach of the stopping test.
    """
    size = x0.abs().clamp(min=1)
    if box.lower is not None and box.upper is not None:
        between = box.upper - box.lower
        known = torch.isfinite(between) & (between > 0)
        size = torch.where(known, torch.minimum(between, GROWTH * size), size)
    wide = size.amax(1) > ALIKE * size.amin(1)
    if not bool(wide.any()):
        return Units()
    factors = torch.exp2(size.log2().round())
    return Units(torch.where(wide.unsqueeze(-1), factors, torch.ones_like(factors)))
