"""The eps at which robust accuracy is told where nobody asked for others. Without a network library."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from pwcf._common import statistics

# What papers report, by metric, for images in [0, 1]: grey ones (MNIST, Fashion-MNIST), colour ones (CIFAR, SVHN), and
# large colour ones (ImageNet).
GREY: dict[str, tuple[float, ...]] = {"linf": (0.1, 0.2, 0.3), "l2": (0.5, 1.0, 2.0), "l1": (5.0, 10.0)}
COLOUR: dict[str, tuple[float, ...]] = {
    "linf": (1 / 255, 2 / 255, 4 / 255, 8 / 255),
    "l2": (0.25, 0.5, 1.0),
    "l1": (8.0, 12.0),
    "lpips": (0.25, 0.5, 1.0),
    "pd": (0.25, 0.5, 1.0),
}
LARGE = COLOUR | {"l2": (0.5, 1.0, 3.0), "l1": (60.0, 255.0)}
LARGE_SIDE = 128
"""pixels of the longer side of a large image, at least"""
TELLS = 0.05
"""an eps that breaks less than this share of the attacked samples, or leaves less, tells little of a model"""
ENOUGH = 2
"""eps that tell something: with fewer, round numbers near the quartiles of the radii join the usual ones"""
APART = 1.3
"""a round number is left out where a usual one is within this factor"""


def usual_eps(
    metric: str, shape: Sequence[int], bounds: Sequence[float], radii: Iterable[statistics.Column]
) -> list[float]:
    """Choose the eps at which robust accuracy is told, by the metric, the kind of image and the radii.

    Those that papers use come first, whatever the radii: numbers are compared at them. Where they tell little of these
    models, because nearly all or nearly no samples are broken, or where the metric has none, round numbers (1, 2, 5,
    10, ...) near the quartiles of the radii are added.

    Args:
        metric: its name.
        shape: of one input.
        bounds: of its entries; the eps of papers are for [0, 1].
        radii: of each model the radii of its attacked samples, inf where there is no point.

    Returns:
        Rising eps; none where there are neither usual ones nor radii.
    """
    known = [np.sort(np.asarray(each, dtype=np.float64)) for each in radii]
    usual = _of_papers(metric, shape) if tuple(bounds) == (0.0, 1.0) else ()
    if sum(any(TELLS <= _within(each, eps) <= 1 - TELLS for each in known) for eps in usual) >= ENOUGH:
        return list(usual)
    middle = [statistics.quantile(each, q) for each in known for q in (0.25, 0.5, 0.75)]
    near = {_rounded(value) for value in _spread(value for value in middle if 0 < value < math.inf)}
    return sorted({*usual, *(eps for eps in near if all(max(eps / one, one / eps) > APART for one in usual))})


def eps_for(asked: Mapping[str, Sequence[float]], metric: str) -> list[float]:
    """The eps that a person asked for in a metric, rising: those under its name, and those under "" for every one."""
    return sorted({*asked.get("", ()), *asked.get(metric, ())})


def _of_papers(metric: str, shape: Sequence[int]) -> tuple[float, ...]:
    image = len(shape) == 3 and shape[0] in (1, 3)
    if not image:
        return ()
    kind = GREY if shape[0] == 1 else LARGE if max(shape) >= LARGE_SIDE else COLOUR
    return kind.get(metric, ())


def _within(rising: statistics.Column, eps: float) -> float:
    return float(np.searchsorted(rising, eps, side="right")) / max(len(rising), 1)


def _spread(values: Iterable[float]) -> list[float]:
    """Least, middle and largest: of many models a few numbers are enough."""
    rising = sorted(values)
    return [rising[0], rising[len(rising) // 2], rising[-1]] if rising else []


def _rounded(value: float) -> float:
    """The nearest of 1, 2, 5 times a power of ten, by ratio."""
    power = math.floor(math.log10(value))
    candidates = [float(f"{factor}e{power + more}") for more in (0, 1) for factor in (1, 2, 5)]
    return min(candidates, key=lambda one: abs(math.log(one / value)))
