"""Radii: their spread and quantiles, which eps makes sense of them, which samples are hard, models against metrics."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pwcf._common import statistics
from pwcf.analysis.masks import attacked_in, found_in, needs_radii, one_metric, shared_places
from pwcf.analysis.naming import NamedRuns, model_names, takes_runs, topics
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
    """Share of the attacked samples that it breaks, so not 1 minus the robust accuracy, which is over all samples.
    Near 0 or 1 it tells nothing of the rest."""
    of_median: float
    """eps divided by the median radius: how far beyond (or short of) the typical sample it asks"""


@dataclass(frozen=True)
class RadiusComparison:
    """Two runs sample by sample: the paper's figure of per-sample radii. ``Comparison`` has their statistics."""

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
        """(m,) the first's radius minus the second's, as everywhere: below zero the first is better"""
        return self.first - self.second


def radii_of(run: Run) -> Tensor:
    """Radii that a min-radius run found for attacked samples, rising.

    Args:
        run: of min-radius.

    Returns:
        (m,) float64, all finite, rising; samples without a point are left out.
    """
    needs_radii(run, "radii")
    return run.radius.cpu().double()[found_in(run)].sort().values


def quantiles_of(run: Run, at: Sequence[float] = QUANTILES) -> dict[float, float]:
    """Quantiles of the radii of all attacked samples, those without a point included.

    Args:
        run: of min-radius.
        at: numbers between 0 and 1.

    Returns:
        By each number its quantile, interpolated as numpy does; inf where so many samples have no point.
    """
    needs_radii(run, "quantiles")
    rising = run.radius.cpu().double()[attacked_in(run)].sort().values.numpy()
    return {q: statistics.quantile(rising, q) for q in at}


def eps_choices(run: Run, choices: Iterable[float]) -> list[EpsChoice]:
    """What each eps would have said of a model whose radii are known.

    An eps far above (below) all radii breaks everything (nothing), whatever the attack.

    Args:
        run: of min-radius.
        choices: eps >= 0.

    Returns:
        For each eps the robust accuracy, the share it breaks, and its size in median radii.
    """
    needs_radii(run, "eps_choices")
    attacked = attacked_in(run)
    radius = run.radius.cpu().double()
    median = quantiles_of(run, (0.5,))[0.5]
    found = []
    for eps in choices:
        broken = attacked & (radius <= eps)
        within = float(broken.double().sum() / attacked.sum().clamp(min=1))
        of_median = float(eps) / median if median else math.inf
        found.append(EpsChoice(float(eps), run.robust_accuracy_at(eps), within, of_median))
    return found


def hardest(run: Run, count: int = 10) -> list[int]:
    """Samples that take most to be misclassified: those without a point first, then by falling radius.

    Args:
        run: of min-radius.
        count: how many, at most.

    Returns:
        Places of attacked samples in the run.
    """
    return _ordered(run, count, descending=True)


def easiest(run: Run, count: int = 10) -> list[int]:
    """Samples that take least to be misclassified, by rising radius.

    Args:
        run: of min-radius.
        count: how many, at most.

    Returns:
        Places of attacked samples in the run.
    """
    return _ordered(run, count, descending=False)


def _ordered(run: Run, count: int, descending: bool) -> list[int]:
    needs_radii(run, "hardest and easiest samples")
    places = attacked_in(run).nonzero().squeeze(1)
    order = run.radius.cpu()[places].argsort(descending=descending, stable=True)
    return [int(i) for i in places[order[:count]]]


def compare_radii(first: Run, second: Run) -> RadiusComparison:
    """Compare two min-radius runs sample by sample, where both have a point.

    ``compare`` gives the statistics of such a comparison; ``pwcf.runs.comparison`` compares any number of runs.

    Args:
        first: of min-radius.
        second: of min-radius in the same metric; runs that were not recorded must be about the same samples.

    Returns:
        ``RadiusComparison`` of m samples, by rising radius of the first; ``difference`` is first minus second.
    """
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
    """Statistics of the radii that were found: samples without a point are left out, so ``found`` belongs beside them.

    NaN where nothing was found.
    """

    clean_correct: int
    """samples classified correctly as they are"""
    found: int
    """of these, with a point"""
    mean: float
    """of the radii that were found"""
    median_found: float
    """of the radii that were found. Over all attacked samples, where one without a point counts as infinitely far, it
    is ``quantiles_of(run)[0.5]``: the median radius of summaries, tables and page."""
    std: float
    """of the radii that were found, divided by their number: it describes these samples, it does not estimate others"""


def spread(radius: Tensor, clean_correct: Tensor) -> Spread:
    """Statistics of the radii that were found.

    Args:
        radius: (n,) inf where there is no point.
        clean_correct: (n,) bool, classified correctly as they are.

    Returns:
        How many samples there are and how many have a point; mean, median and deviation of the radii of the latter.
    """
    values = radius[clean_correct]
    return Spread(len(values), int(torch.isfinite(values).sum()), *describe(values[torch.isfinite(values)]))


def filled_mean(radius: Tensor, clean_correct: Tensor, missing: float) -> float:
    """Mean radius over all samples classified correctly, those without a point included.

    Args:
        radius: (n,) inf where there is no point.
        clean_correct: (n,) bool, classified correctly as they are.
        missing: the radius that counts for a sample without a point.

    Returns:
        The mean; NaN of no samples.
    """
    values = radius[clean_correct].double()
    return describe(torch.where(torch.isfinite(values), values, missing))[0]


def describe(values: Tensor) -> tuple[float, float, float]:
    """Mean, median and standard deviation of values.

    Args:
        values: (n,) finite.

    Returns:
        The mean, the median by the rule of ``quantiles_of``, and the deviation divided by n; NaN of no values.
    """
    if not len(values):
        return (float("nan"),) * 3
    ordered = values.double().sort().values
    return float(ordered.mean()), statistics.quantile(ordered.numpy(), 0.5), float(ordered.std(correction=0))


@dataclass(frozen=True)
class CrossMetric:
    """Median radii, models by rows and metrics by columns."""

    models: list[str]
    metrics: list[str]
    median: Tensor
    """(models, metrics) over all attacked samples; NaN where there is no run, inf where most samples stand"""

    def relative(self, to: int = 0) -> Tensor:
        """Medians (models, metrics) divided by those of one model, number ``to``."""
        return self.median / self.median[to : to + 1]


@takes_runs
def cross_metric(runs: NamedRuns) -> CrossMetric:
    """Median radii of models by metrics: robustness in one metric says little of another.

    Data have columns of their own where there are several, and so have targeted runs. Of several runs of one model in
    one metric the one with the smallest median counts. Models are called by their own names where the runs are
    recorded, else by the runs'.

    Args:
        runs: by name; those of max-loss are left out.

    Returns:
        Medians (models, metrics) with the names of rows and columns.
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
