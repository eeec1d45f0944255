"""Mean, median and standard deviation of radii."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Spread:
    """Of the samples that are right as they are: how many there are, and the radii of those with a point.

    A sample without a point has no radius; the mean leaves it out, so ``found`` belongs beside it. NaN: none found.
    """

    right: int
    found: int
    mean: float
    median: float
    std: float
    """divided by their number: it describes these samples, it does not estimate other ones"""


def spread(radius: Tensor, right: Tensor) -> Spread:
    """Of radii (n,), inf where there is no point, and whether the samples are right as they are (n,)."""
    values = radius[right]
    return Spread(len(values), int(torch.isfinite(values).sum()), *describe(values[torch.isfinite(values)]))


def filled_mean(radius: Tensor, right: Tensor, missing: float) -> float:
    """Mean over all samples that are right, with ``missing`` for those without a point: every sample counts."""
    values = radius[right].double()
    return describe(torch.where(torch.isfinite(values), values, missing))[0]


def describe(values: Tensor) -> tuple[float, float, float]:
    """Mean, median (of an even number: between the two in the middle) and standard deviation."""
    if not len(values):
        return (float("nan"),) * 3
    ordered = values.double().sort().values
    middle = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
    return float(ordered.mean()), float(middle), float(ordered.std(correction=0))
