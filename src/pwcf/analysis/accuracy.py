"""Robust accuracy: over all samples, those that are wrong as they are count as broken."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Curve(NamedTuple):
    """Robust accuracy over eps: from ``eps[i]`` on, and up to the next one, it is ``accuracy[i]``."""

    eps: Tensor
    """(k,) rising, the first is 0"""
    accuracy: Tensor
    """(k,) falling, the first is the clean accuracy"""


def robust_accuracy(adversarial: Tensor, right: Tensor) -> float:
    """Share of samples (n,) that are right as they are and have no adversarial point; NaN of no samples."""
    return float((right & ~adversarial).double().mean())


def robust_accuracy_at(radius: Tensor, right: Tensor, eps: float) -> float:
    """The same from radii (n,): a sample is broken if its radius is no larger than eps."""
    return robust_accuracy(radius <= eps, right)


def robust_accuracy_curve(radius: Tensor, right: Tensor) -> Curve:
    """For every eps at once: it falls at each radius (n,)."""
    values = radius[right].double()
    steps = torch.unique_consecutive(torch.cat((values.new_zeros(1), values[torch.isfinite(values)].sort().values)))
    above = len(values) - torch.searchsorted(values.sort().values, steps, right=True)
    return Curve(steps, above.double() / max(len(radius), 1))
