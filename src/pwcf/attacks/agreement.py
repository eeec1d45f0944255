"""Independent searches that agree: how much a much longer search is likely to lower a radius.

A search that starts elsewhere and ends at the same radius says that there is hardly anything nearer; one that ends
farther away says nothing. So the ends of all searches of a sample are kept, and those within WITHIN of its radius are
counted. On networks with masked gradients searches that start at one kind of place end together above the nearest
point: those that agree must have begun both near the image and far from it.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

# An end that is this much farther away than the radius agrees with it: ends are polished by a few steps only.
WITHIN = 0.02
# The gain that is left open where two searches agree, halved by each further one that does; and the least where all
# that agree began at one kind of place. Fitted on three nets, see docs/lmn.md.
OF_TWO, ONE_KIND = 0.08, 0.1


class Searches(NamedTuple):
    """Independent searches of n samples, m of each."""

    ends: Tensor
    """(n, m) the least radius that each found by itself: inf where it found nothing, NaN where there was no such one"""
    far: Tensor
    """(n, m) bool: it began far from the image, towards a landmark"""


class Agreement(NamedTuple):
    """How many searches ended at a radius, of how many, and what that says; (n,) each."""

    agreement: Tensor
    """int64"""
    searches: Tensor
    """int64"""
    gain: Tensor
    """float64: by what share of its radius a much longer search is likely to lower it at most: on the nets it was
    fitted on, in nine of ten cases; NaN of fewer than two searches"""


def agreement_of(searches: Searches, radius: Tensor) -> Agreement:
    """How far searches agree on the radii (n,)."""
    ends, far = searches
    near = ends <= (1 + WITHIN) * radius.to(ends).unsqueeze(1)
    count, known = near.sum(1), (~torch.isnan(ends)).sum(1)
    gain = OF_TWO * 2.0 ** (2.0 - count.double())
    both = (near & far).any(1) & (near & ~far).any(1)
    gain = torch.where(both, gain, gain.clamp(min=ONE_KIND))
    return Agreement(count, known, torch.where(known >= 2, gain, torch.nan))
