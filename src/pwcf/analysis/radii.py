"""How radii are distributed, which eps makes sense of them, and which samples are hard."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from torch import Tensor

from pwcf.analysis.of_runs import attacked_in, found_in, needs_radii, one_metric, shared_places
from pwcf.evaluation import Run

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class EpsChoice:
    """What one eps would have told of a model whose radii are known."""

    eps: float
    robust: float
    """robust accuracy at this eps"""
    within: float
    """share of the attacked samples that it breaks: near 0 or 1 it tells nothing of the rest"""
    of_median: float
    """eps divided by the median radius: how far beyond (or short of) the typical sample it asks"""


@dataclass(frozen=True)
class RadiusComparison:
    """Two runs sample by sample: the paper's figure of per-sample radii."""

    sample: Tensor
    """(m,) places in the first run, by its rising radius"""
    second_sample: Tensor
    """(m,) places of the same samples in the second"""
    first: Tensor
    """(m,)"""
    second: Tensor
    """(m,)"""

    @property
    def difference(self) -> Tensor:
        """(m,) the second's minus the first's: below zero the second is better"""
        return self.second - self.first


def radii_of(run: Run) -> Tensor:
    """(m,) float64, rising: the radii that were found of samples that are right as they are."""
    needs_radii(run, "radii")
    return run.radius.cpu().double()[found_in(run)].sort().values


def quantiles_of(run: Run, at: Sequence[float] = QUANTILES) -> dict[float, float]:
    """Of the radii of all attacked samples, between neighbours as numpy does; inf where so many have no point."""
    needs_radii(run, "quantiles")
    ordered = run.radius.cpu().double()[attacked_in(run)].sort().values
    if not len(ordered):
        return dict.fromkeys(at, float("nan"))
    return {q: _quantile(ordered, q) for q in at}


def _quantile(ordered: Tensor, q: float) -> float:
    place = q * (len(ordered) - 1)
    low, high = float(ordered[math.floor(place)]), float(ordered[math.ceil(place)])
    # Between a radius and none there is no mean: the radius, which so many samples have at most.
    return low if math.isinf(high) or low == high else low + (place - math.floor(place)) * (high - low)


def eps_choices(run: Run, choices: Iterable[float]) -> list[EpsChoice]:
    """Against the radii: an eps far above (below) all of them breaks everything (nothing), whatever the attack."""
    needs_radii(run, "eps_choices")
    attacked = attacked_in(run)
    radius = run.radius.cpu().double()
    median = quantiles_of(run, (0.5,))[0.5]
    found = []
    for eps in choices:
        broken = attacked & (radius <= eps)
        within = float(broken.double().sum() / attacked.sum().clamp(min=1))
        robust = float((attacked & ~broken).double().mean())
        found.append(EpsChoice(float(eps), robust, within, float(eps) / median if median else math.inf))
    return found


def hardest(run: Run, count: int = 10) -> list[int]:
    """Samples that take most to be misclassified: those without a point first, then by falling radius."""
    return _ordered(run, count, descending=True)


def easiest(run: Run, count: int = 10) -> list[int]:
    """Samples that take least, of those that are right as they are."""
    return _ordered(run, count, descending=False)


def _ordered(run: Run, count: int, descending: bool) -> list[int]:
    needs_radii(run, "hardest and easiest samples")
    places = attacked_in(run).nonzero().squeeze(1)
    order = run.radius.cpu()[places].argsort(descending=descending, stable=True)
    return [int(i) for i in places[order[:count]]]


def compare_radii(first: Run, second: Run) -> RadiusComparison:
    """Two min-radius runs about the same samples, where both have a point."""
    for run in (first, second):
        needs_radii(run, "compare_radii")
    one_metric((first, second), "compare_radii")
    here, there = shared_places(first, second)
    both = found_in(first)[here] & found_in(second)[there]
    here, there = here[both], there[both]
    order = first.radius.cpu()[here].argsort(stable=True)
    here, there = here[order], there[order]
    return RadiusComparison(here, there, first.radius.cpu().double()[here], second.radius.cpu().double()[there])
