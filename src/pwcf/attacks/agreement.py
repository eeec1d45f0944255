"""Independent searches that agree: how much a much longer search is likely to lower a radius.

A search that starts elsewhere and ends at the same radius says that there is hardly anything nearer; one that ends
farther away says nothing. So the ends of all searches of a sample are kept, and those within WITHIN of its radius are
counted. Hops, which begin around the best point found before them, fall back to it and are not independent: they find
nearer points, and are not counted. Two things tell that a search is done:

- Several searches agree, some of which began at the image or at noise around it: gradients there can be trusted.
- On networks with masked gradients those end too far away, and the ones that began at landmarks often end together
  above the nearest point. There a few searches must agree, and many in a row, hops included, must have found nothing
  nearer.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from pwcf.metrics import Metric

# Where a search began: at the image or at noise around it, towards a landmark, or around the best point so far.
NEAR, FAR, HOP = range(3)
# An end that is this much farther away than the radius agrees with it: ends are polished by a few steps only.
WITHIN = 0.02
# The gain that is left open where two searches agree, halved by each further one that does, if so many of them began
# near the image. In linf ends of different minima lie closer together, and one more must agree: of 69 claims on three
# nets 8 were false where five did, 1 where six do. In l1 searches that begin near the image often end together above
# the nearest point, and more of those must: on one net 7 of 26 claims were false where two did, 2 of 24 where four do.
OF_TWO, OF_TWO_LINF, FROM_NEAR, FROM_NEAR_L1 = 0.08, 0.16, 2, 4
# The gain that is left open otherwise; where so many agree it halves with every HALF_LIFE searches in a row that have
# lowered the radius by less than SETTLED: of 100 samples on one net in l2 22 of 67 claims were false with 6, 10 of 54
# are with 10. In linf, where hops come early, 14 of 97 are with 6, 11 of 94 with 10, for half as many passes again. See
# docs/lmn.md for where constants were fitted.
MISLED, FEW, HALF_LIFE, HALF_LIFE_LINF, SETTLED = 0.1, 3, 10.0, 6.0, 0.01


class Searches(NamedTuple):
    """Searches of n samples, m of each, in the order in which they were made."""

    ends: Tensor
    """(n, m) the least radius that each found by itself: inf where it found nothing, NaN where there was no such one"""
    began: Tensor
    """(n, m) int64: where it began: NEAR, FAR or HOP"""


class Agreement(NamedTuple):
    """How many independent searches ended at a radius, of how many, and what that says; (n,) each."""

    agreement: Tensor
    """int64"""
    searches: Tensor
    """int64"""
    gain: Tensor
    """float64: by what share of its radius a much longer search is likely to lower it at most: on the nets it was
    fitted on, in nine of ten cases; NaN of fewer than two searches"""


def agreement_of(searches: Searches, radius: Tensor, metric: Metric) -> Agreement:
    """How far searches agree on the radii (n,) in a metric."""
    ends, began = searches
    independent = ~torch.isnan(ends) & (began != HOP)
    agree = independent & (ends <= (1 + WITHIN) * radius.to(ends).unsqueeze(1))
    count, known = agree.sum(1), independent.sum(1)
    gain = (OF_TWO_LINF if metric.exponent == math.inf else OF_TWO) * 2.0 ** (2.0 - count.double())
    enough = FROM_NEAR_L1 if metric.exponent == 1 else FROM_NEAR
    trusted = (agree & (began == NEAR)).sum(1) >= enough
    gain = torch.where(trusted, gain, gain.clamp(min=MISLED))
    half_life = HALF_LIFE_LINF if metric.exponent == math.inf else HALF_LIFE
    settled = MISLED * 2.0 ** (-searches_since_settled(ends).double() / half_life)
    gain = torch.where(count >= FEW, torch.minimum(gain, settled), gain)
    return Agreement(count, known, torch.where(known >= 2, gain, torch.nan))


def searches_since_settled(ends: Tensor) -> Tensor:
    """(n,) of the searches (n, m), how many came after the first that ended within SETTLED of the least end."""
    if not ends.shape[1]:
        return torch.zeros(len(ends), dtype=torch.int64, device=ends.device)
    known = torch.nan_to_num(ends, nan=torch.inf)
    first = (known <= (1 + SETTLED) * known.amin(1, keepdim=True)).long().argmax(1)
    later = torch.arange(ends.shape[1], device=ends.device) > first.unsqueeze(1)
    return (later & ~torch.isnan(ends)).sum(1)
