"""Native bounds lo <= x <= hi by two-metric projection, beside (and better than) folded boxes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Bounds:
    """Bounds of all rows, (1, n) if shared or (b, n) per row; None where a side is absent."""

    lower: Tensor | None = None
    upper: Tensor | None = None

    @property
    def present(self) -> bool:
        """Whether there is any bound."""
        return self.lower is not None or self.upper is not None

    def of(self, rows: Tensor) -> Bounds:
        """The bounds of some rows of the user's batch."""

        def pick(side: Tensor | None) -> Tensor | None:
            return side if side is None or side.shape[0] == 1 else side[rows]

        return Bounds(pick(self.lower), pick(self.upper))

    def project(self, x: Tensor) -> Tensor:
        """The nearest point within the bounds, for x (r, n)."""
        return x if not self.present else torch.clamp(x, self.lower, self.upper)

    def free(self, x: Tensor, gradient: Tensor) -> Tensor | None:
        """1 where a step against ``gradient`` may move, 0 where x sits at a bound and is pushed out."""
        if not self.present:
            return None
        # Moves are tested at their sign: the size of a gradient may vanish beside that of x.
        return ((self.project(x - gradient.sign()) != x) | (gradient == 0)).to(x.dtype)

    def largest_decrease(self, x: Tensor, gradient: Tensor) -> Tensor:
        """max of -gradient'(y - x) over the whole box, inf if the box is open where it matters."""
        lower = torch.full_like(x, -torch.inf) if self.lower is None else self.lower
        upper = torch.full_like(x, torch.inf) if self.upper is None else self.upper
        down = torch.where(gradient > 0, gradient * (x - lower), torch.zeros_like(x))
        up = torch.where(gradient < 0, gradient * (x - upper), torch.zeros_like(x))
        return (down + up).sum(-1)


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
