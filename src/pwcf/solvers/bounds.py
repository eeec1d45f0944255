"""Native bounds lo <= x <= hi, as constraints of quadratic programs or by two-metric projection: better than folds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from pwcf.solvers.host import Array


class Walls(NamedTuple):
    """The bounds as m linear constraints: sign * x[entry] <= limit."""

    values: Tensor
    """(r, m) of these constraints at x, <= 0; -inf where a row has no bound."""
    entry: Array
    """(m,)"""
    sign: Array
    """(m,) 1 for an upper bound, -1 for a lower one."""


@dataclass(frozen=True)
class Bounds:
    """Bounds of all rows, (1, n) if shared or (b, n) per row; None where a side is absent."""

    lower: Tensor | None = None
    upper: Tensor | None = None

    @property
    def present(self) -> bool:
        """Whether there is any bound."""
        return self.lower is not None or self.upper is not None

    @property
    def per_row(self) -> bool:
        """Whether rows have different bounds."""
        return any(side is not None and side.shape[0] > 1 for side in (self.lower, self.upper))

    def of(self, rows: Tensor) -> Bounds:
        """The bounds of some rows of the user's batch."""

        def pick(side: Tensor | None) -> Tensor | None:
            return side if side is None or side.shape[0] == 1 else side[rows]

        return Bounds(pick(self.lower), pick(self.upper))

    def project(self, x: Tensor) -> Tensor:
        """The nearest point within the bounds, for x (r, n)."""
        return x if not self.present else torch.clamp(x, self.lower, self.upper)

    def snap(self, x: Tensor) -> Tensor:
        """As ``project``; entries beside a bound by the error of a quadratic program are put onto it: they are held."""
        if not self.present:
            return x
        size = 1 + x.abs()
        if self.lower is not None and self.upper is not None:
            size = torch.minimum(size, self.upper - self.lower)
        rounding = 0.01 * torch.finfo(x.dtype).eps ** 0.5 * size
        if self.lower is not None:
            x = torch.where(x - self.lower <= rounding, self.lower, x)
        if self.upper is not None:
            x = torch.where(self.upper - x <= rounding, self.upper, x)
        return x

    def free(self, x: Tensor, gradient: Tensor) -> Tensor | None:
        """1 where a step against ``gradient`` may move, 0 where x sits at a bound and is pushed out."""
        if not self.present:
            return None
        held = None
        if self.lower is not None:
            held = (gradient > 0).logical_and_(x <= self.lower)
        if self.upper is not None:
            high = (gradient < 0).logical_and_(x >= self.upper)
            held = high if held is None else held.logical_or_(high)
        assert held is not None
        return held.logical_not_().to(x.dtype)

    def room(self, x: Tensor, direction: Tensor) -> Tensor:
        """How far each entry of x can go along the sign of ``direction`` (r, n); inf where nothing stops it."""
        down, up = self._rooms(x)
        return torch.where(direction > 0, up, torch.where(direction < 0, down, torch.zeros_like(x)))

    def fixed(self, x: Tensor) -> Tensor:
        """Which entries of x (r, n) have no room at all, their bounds being equal."""
        if self.lower is None or self.upper is None:
            return torch.zeros_like(x, dtype=torch.bool)
        return (self.lower == self.upper).expand_as(x)

    def nearest(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """For every entry of x (r, n) the room up to its nearer bound, inf if it has none, and where that is: 1, -1."""
        down, up = self._rooms(x)
        return torch.minimum(up, down), torch.where(up <= down, 1.0, -1.0).to(x.dtype)

    def _rooms(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """How far each entry of x can go down and up."""
        down = torch.full_like(x, torch.inf) if self.lower is None else x - self.lower
        up = torch.full_like(x, torch.inf) if self.upper is None else self.upper - x
        return down, up

    def walls(self, x: Tensor) -> Walls:
        """The bounds as linear constraints at x (r, n); all lower ones, then all upper ones."""
        n, sides = x.shape[1], [(s, sign) for s, sign in ((self.lower, -1.0), (self.upper, 1.0)) if s is not None]
        values = [x - side if sign > 0 else side - x for side, sign in sides]
        return Walls(torch.cat(values, 1), *_wall_places(n, tuple(sign for _, sign in sides)))

    def largest_decrease(self, x: Tensor, gradient: Tensor) -> Tensor:
        """max of -gradient'(y - x) over the whole box, inf if the box is open where it matters."""
        decrease = gradient.abs() * self.room(x, -gradient)
        return torch.where(gradient == 0, torch.zeros_like(x), decrease).sum(-1)


@lru_cache(maxsize=8)
def _wall_places(n: int, signs: tuple[float, ...]) -> tuple[Array, Array]:
    """Entries and signs of the walls, sides of n each."""
    return np.tile(np.arange(n), len(signs)), np.repeat(signs, n)


def make_bounds(bounds: tuple[object, object] | None, x0: Tensor, shape: torch.Size) -> Bounds:
    """Check and broadcast the user's ``bounds`` to (1 or b, n)."""
    if bounds is None:
        return Bounds()
    if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
        raise TypeError(f"bounds: expected (lo, hi), numbers, tensors or None, found {bounds!r}")
    b = x0.shape[0]

    def side(value: object, label: str, absent: float) -> Tensor | None:
        if value is None:
            return None
        if not isinstance(value, (Tensor, int, float)) or isinstance(value, bool):
            raise TypeError(f"bounds: expected {label} to be a number, a tensor or None, found {type(value).__name__}")
        tensor = torch.as_tensor(value, dtype=x0.dtype, device=x0.device)
        if bool(torch.isnan(tensor).any()):
            raise ValueError(f"bounds: {label} contains NaN")
        if bool((tensor == absent).all()):
            return None
        rows = b if tensor.dim() == len(shape) + 1 and tensor.shape[0] == b else 1
        try:
            return tensor.expand(rows, *shape).reshape(rows, -1).contiguous()
        except RuntimeError:
            raise ValueError(
                f"bounds: {label} has shape {tuple(tensor.shape)}; expected something that broadcasts to "
                f"{tuple(shape)} or {(b, *shape)}"
            ) from None

    lower, upper = side(bounds[0], "lo", -torch.inf), side(bounds[1], "hi", torch.inf)
    if lower is not None and upper is not None and bool((lower > upper).any()):
        raise ValueError("bounds: lo exceeds hi in some entries; expected lo <= hi")
    return Bounds(lower, upper)
