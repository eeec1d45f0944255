"""Where which of two models is more robust turns for good: curves of few samples cross often, and mostly by chance."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations, pairwise

import torch

from pwcf.analysis import Crossing, Curve, crossings

LEAD = 0.03
"""A share of the samples by which one must be ahead somewhere before and after a turn."""
FEWEST = 3
"""samples that this lead must be, too"""


def turns(curves: Mapping[str, Curve], samples: int) -> list[Crossing]:
    """Of the crossings those between stretches on which someone is clearly ahead, in the order of eps.

    ``samples``: of each curve.
    """
    found = []
    least = max(LEAD, FEWEST / max(samples, 1)) - 1e-9
    for pair in combinations(curves, 2):
        first, second = (curves[name] for name in pair)
        crossed = crossings({name: curves[name] for name in pair})
        ends = [0.0, *(each.eps for each in crossed), math.inf]
        steps = torch.unique(torch.cat((first.eps, second.eps)))
        apart = first.heights(steps) - second.heights(steps)
        # (crossing it begins with, who is ahead) of every stretch with a clear lead
        clear: list[tuple[int, str]] = []
        for i, (start, end) in enumerate(pairwise(ends)):
            within = apart[(steps >= start) & (steps < end)]
            lead = float(within[within.abs().argmax()]) if len(within) else 0.0
            if abs(lead) >= least:
                clear.append((i, pair[0] if lead > 0 else pair[1]))
        for (_, before), (i, after) in pairwise(clear):
            if before != after:
                crossing = crossed[i - 1]
                found.append(Crossing(crossing.eps, before, after, crossing.accuracy))
    return sorted(found, key=lambda each: each.eps)
