"""Root finding that the norms share: one number per row, the zero of a monotone function.

The nearest point of a half-space g'z <= h and a box is found by the multiplier of the half-space, or by a scale t.
These functions run at every step of an attack for every row. They therefore make few passes over (r, n) and avoid
``torch.where`` and comparisons there, which cost ten times an arithmetic pass on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from pwcf._common import rows as batch_rows

# Secant steps, superlinear: three or four are the rule, a row with most entries at a bound takes more.
SECANTS = 15
# Where the host must not wait it looks only every so many rounds whether all rows have settled.
LOOK_AFTER = 8
# The cut is met up to eps to this power of the first excess (6e-6 in float32); rules ask for much more than they need.
MET = 0.75
# A secant of a nearly flat function may point far away: a step is at most this many times the one before.
GROWTH = 30.0


def least_zero(excess_at: Callable[[Tensor], Tensor], first: Tensor, slope: Tensor, noise: Tensor) -> Tensor:
    """Find the least s >= 0 with excess_at(s) <= 0 for convex decreasing functions, one per row.

    The secant through two points left of the zero has its own zero left of it, too: steps never overshoot.

    Args:
        excess_at: (r,) -> (r,).
        first: (r,) values at 0.
        slope: (r,) sizes of the slopes at 0.
        noise: (r,) excess that counts as none, added to a tolerance relative to ``first``.

    Returns:
        (r,) s.
    """
    tiny = torch.finfo(first.dtype).tiny
    met = torch.finfo(first.dtype).eps ** MET * first.clamp(min=0) + noise
    excess, none = first, torch.zeros_like(first)
    step = torch.where(first > met, first / slope.clamp(min=tiny), none)
    s = none
    for number in range(SECANTS):
        if looks_now(first, number) and not bool((step > 0).any()):
            break
        s = s + step
        before, excess = excess, excess_at(s)
        fall = before - excess
        longer = excess * step / fall.clamp(min=tiny)
        # A convex function that no longer falls has no zero: every entry is at its bound.
        step = torch.where((excess > met) & (fall > 0), torch.minimum(longer, GROWTH * step), none)
    return s


def looks_now(rows: Tensor, number: int) -> bool:
    """Whether to look, before a round, if all rows have settled. Rows that have stay as they are in further rounds."""
    return batch_rows.waits_are_free(rows) or (number > 0 and number % LOOK_AFTER == 0)


def room_against(centre: Tensor, g: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """Return how far every entry can move against the sign of g within the box, (r, n)."""
    half, middle = 0.5 * (upper - lower), 0.5 * (upper + lower)
    return torch.addcmul(half, g.sign(), centre - middle).clamp(min=0)


def dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(-1)


def size_and_room(point: Tensor, centre: Tensor, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
    """Return |point - centre| per entry, and how far the box lets the entry move in that direction."""
    move = point - centre
    room = torch.where(move > 0, upper - centre, centre - lower).expand_as(move)
    return move.abs(), room
