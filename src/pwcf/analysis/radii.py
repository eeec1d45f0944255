"""Radii: their spread and quantiles, which eps makes sense of them, which samples are hard, models against metrics."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pwcf._common import statistics
from pwcf.analysis.masks import attacked_in, found_in, needs_radii, one_metric, shared_places
from pwcf.analysis.naming import NamedRuns, model_names, topics
from pwcf.evaluation import Run
from pwcf.problems import MinRadius

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class EpsChoice:
    """What one eps says of a model whose radii are known."""

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
    """(m,) float64, rising: the radii that were found of samples that are classified correctly."""
    needs_radii(run, "radii")
    return run.radius.cpu().double()[found_in(run)].sort().values


def quantiles_of(run: Run, at: Sequence[float] = QUANTILES) -> dict[float, float]:
    """Of the radii of all attacked samples, between neighbours as numpy does; inf where so many have no point."""
    needs_radii(run, "quantiles")
    rising = run.radius.cpu().double()[attacked_in(run)].sort().values.numpy()
    return {q: statistics.quantile(rising, q) for q in at}


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
    """Samples that take least, of those that are classified correctly."""
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


@dataclass(frozen=True)
class Spread:
    """Of the samples that are classified correctly: how many there are, and the radii of those with a point.

    A sample without a point has no radius; the mean leaves it out, so ``found`` belongs beside it. NaN: none found.
    """

    right: int
    found: int
    mean: float
    median: float
    std: float
    """divided by their number: it describes these samples, it does not estimate other ones"""


def spread(radius: Tensor, right: Tensor) -> Spread:
    """Spread of radii (n,), inf where there is no point; ``right`` (n,): classified correctly as they are."""
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


@dataclass(frozen=True)
class CrossMetric:
    """Median radii, models by rows and metrics by columns."""

    models: list[str]
    metrics: list[str]
    median: Tensor
    """(models, metrics) over all attacked samples; NaN where there is no run, inf where most samples stand"""

    def relative(self, to: int = 0) -> Tensor:
        """(models, metrics) divided by one model's: what training bought, and where it bought nothing."""
        return self.median / self.median[to : to + 1]


def cross_metric(runs: NamedRuns) -> CrossMetric:
    """Of all min-radius runs among these; robustness in one metric says little of another.

    Data have columns of their own where there are several, and so have targeted runs.
    Of several runs of one model in one metric the one with the smallest median counts. Models are called by their own
    names where the runs are recorded, else by the runs'.
    """
    chosen: dict[tuple[str, str], float] = {}
    columns, models_of = topics(runs), model_names(runs)
    for name, run in runs.items():
        if isinstance(run.problem, MinRadius):
            key = (models_of[name], columns[name])
            found = quantiles_of(run, (0.5,))[0.5]
            # A run that attacked nothing says nothing.
            if key not in chosen or found < chosen[key] or math.isnan(chosen[key]):
                chosen[key] = found
    models = list(dict.fromkeys(model for model, _ in chosen))
    metrics = list(dict.fromkeys(metric for _, metric in chosen))
    median = torch.full((len(models), len(metrics)), torch.nan, dtype=torch.float64)
    for (model, metric), value in chosen.items():
        median[models.index(model), metrics.index(metric)] = value
    return CrossMetric(models, metrics, median)
