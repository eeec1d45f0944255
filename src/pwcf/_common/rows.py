"""Rows of a batch: one number per row spread over its entries, one bisection for all rows at once, writes to some."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import torch
from torch import Tensor


@dataclass
class PerRow:
    """Every tensor among the fields has the rows in its first dimension."""

    def keep(self, rows: Tensor) -> None:
        """Only these rows (places or flags) stay."""
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Tensor):
                setattr(self, field.name, value[rows])


def per_row(values: Tensor, like: Tensor) -> Tensor:
    """``values`` (b,) in the shape that broadcasts over ``like`` (b, ...)."""
    return values.view(-1, *(1 for _ in like.shape[1:]))


def bisect(holds: Callable[[Tensor], Tensor], low: Tensor, high: Tensor, halvings: int) -> tuple[Tensor, Tensor]:
    """Halve the intervals [low, high] (b,) of all rows at once.

    Args:
        holds: (b,) -> (b,) bool, asked in the middle of every interval. True moves the lower end there.
        low: (b,) where it is taken to hold.
        high: (b,) where it is taken not to.
        halvings: how often.

    Returns:
        The ends (b,), (b,) of the last intervals.
    """
    for _ in range(halvings):
        middle = 0.5 * (low + high)
        held = holds(middle)
        low, high = torch.where(held, middle, low), torch.where(held, high, middle)
    return low, high


def waits_are_free(tensor: Tensor) -> bool:
    """Whether the host may look at values at no cost: on a CPU. An accelerator stands still meanwhile."""
    return tensor.device.type == "cpu"


def overwrite(rows: Tensor, *pairs: tuple[Tensor, Tensor]) -> None:
    """Of pairs (old, new), both (b, ...), write new into old in place where ``rows`` (b,) bool.

    On a CPU only these rows are touched.
    """
    if waits_are_free(rows):
        some = rows.nonzero().squeeze(1)
        for old, new in pairs:
            old[some] = new[some]
    else:
        for old, new in pairs:
            old.copy_(torch.where(per_row(rows, old), new, old))
