"""Robust accuracy at one eps and over all of them, and where the curves of two models cross.

Robust accuracy is over all samples: those that are misclassified as they are count as broken. One eps cannot tell which
model is more robust; whole curves can.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations, pairwise
from statistics import NormalDist
from typing import NamedTuple

import torch
from torch import Tensor

from pwcf._common import statistics
from pwcf.analysis.masks import aligned, attacked_in, converged_in, defined_in, needs_radii
from pwcf.analysis.naming import NamedRuns, attacks_name, model_key, takes_runs
from pwcf.analysis.radii import radii_of
from pwcf.evaluation import Run
from pwcf.problems import MaxLoss, MinRadius

LEAD = 0.03
"""share of the samples by which a model must be ahead on either side of a stable crossing"""
FEWEST = 3
"""samples that this lead must be at least"""
SHOWN = 6
"""crossings that figure and page mark in a panel, at most"""
# The axis ends at this many times the 95 % quantile of a model's radii by the attack that is best at it: what weaker
# attacks say beyond is no robustness.
CUT = 1.4


class Curve(NamedTuple):
    """Robust accuracy over eps: from ``eps[i]`` on, and up to the next one, it is ``accuracy[i]``."""

    eps: Tensor
    """(k,) rising, the first is 0"""
    accuracy: Tensor
    """(k,) falling, the first is the clean accuracy"""

    def at(self, eps: float) -> float:
        """Robust accuracy at any eps >= 0: the number of ``Run.robust_accuracy_at``."""
        return float(self.heights(self.eps.new_tensor([eps]))[0])

    def heights(self, eps: Tensor) -> Tensor:
        """Robust accuracies (m,) at many eps (m,) >= 0."""
        return self.accuracy[torch.searchsorted(self.eps, eps, right=True) - 1]


@dataclass(frozen=True)
class Accuracy:
    """One robust accuracy, and how far it can be trusted."""

    eps: float
    """the largest, where samples have their own"""
    samples: int
    clean: float
    robust: float
    low: float
    """of the confidence interval for samples like these (Wilson's); it knows nothing of attacks that fell short"""
    high: float
    unsettled: int
    """Samples that count as robust though nothing proves it: a longer search may yet break them. From radii: those
    above eps whose search did not converge. Max-loss: all that stand."""

    @property
    def least(self) -> float:
        """If all of the unsettled samples were broken."""
        return self.robust - self.unsettled / max(self.samples, 1)


def accuracy_of(run: Run, eps: float | None = None, confidence: float = 0.95) -> Accuracy:
    """Robust accuracy of a max-loss run, or of a min-radius run at one eps, with its confidence interval.

    Args:
        run: of either question, about n samples.
        eps: of a min-radius run, >= 0; None for a max-loss run, which has its own.
        confidence: of the interval, between 0 and 1.

    Returns:
        ``Accuracy`` over all n samples; its ``robust`` is ``run.robust_accuracy`` or ``run.robust_accuracy_at(eps)``.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence: expected a number between 0 and 1, found {confidence!r}")
    if isinstance(run.problem, MaxLoss):
        if eps is not None:
            raise ValueError(f"eps: expected none, the run was asked {run.problem}; found {eps!r}")
        standing = ~run.adversarial.cpu() & defined_in(run)
        unsettled = standing
        share = run.robust_accuracy
        several = torch.as_tensor(run.problem.eps, dtype=torch.float64)
        eps = float(several.max()) if several.numel() else math.nan
    else:
        if eps is None or not eps >= 0:
            raise ValueError(f"eps: expected a number >= 0 for {run.problem}, found {eps!r}")
        standing = (run.radius.cpu() > eps) & defined_in(run)
        unsettled = standing & ~converged_in(run)
        share = run.robust_accuracy_at(eps)
    n = len(standing)
    low, high = wilson(int(standing.sum()), n, confidence)
    return Accuracy(float(eps), n, run.clean_accuracy, share, low, high, int(unsettled.sum()))


def wilson(hits: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval of a share, which holds for small n and for shares near 0 and 1 too.

    Args:
        hits: how many of n.
        n: how many there are.
        confidence: between 0 and 1.

    Returns:
        The lower and the upper end; 0 and 1 for n = 0.
    """
    if n == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share = hits / n
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    # At the ends the interval is closed in theory; rounding must not open it.
    return (0.0 if hits == 0 else middle - half), (1.0 if hits == n else middle + half)


def robust_accuracy(adversarial: Tensor, clean_correct: Tensor) -> float:
    """Robust accuracy from verdicts that no single run has, such as those of several attacks together.

    The quantity of ``Run.robust_accuracy``, with masks in the place of statuses.

    Args:
        adversarial: (n,) bool, where an adversarial point was found.
        clean_correct: (n,) bool, classified correctly as they are.

    Returns:
        The share of all n samples that are classified correctly and have no adversarial point; NaN of no samples.
    """
    return float((clean_correct & ~adversarial).double().mean())


def robust_accuracy_at(radius: Tensor, clean_correct: Tensor, eps: float) -> float:
    """Robust accuracy at one eps from radii that no single run has; the quantity of ``Run.robust_accuracy_at``.

    Args:
        radius: (n,) inf where there is no adversarial point.
        clean_correct: (n,) bool, classified correctly as they are.
        eps: a sample is broken if its radius is no larger.

    Returns:
        The share of all n samples that are classified correctly and not broken; NaN of no samples.
    """
    return robust_accuracy(radius <= eps, clean_correct)


def robust_accuracy_curve(radius: Tensor, clean_correct: Tensor) -> Curve:
    """Robust accuracy from radii for every eps at once: ``robust_accuracy_at`` at every place where it changes.

    Args:
        radius: (n,) inf where there is no adversarial point.
        clean_correct: (n,) bool, classified correctly as they are.

    Returns:
        A curve of k steps, one for each different finite radius.
    """
    values = radius[clean_correct].double()
    steps = torch.unique_consecutive(torch.cat((values.new_zeros(1), values[torch.isfinite(values)].sort().values)))
    above = len(values) - torch.searchsorted(values.sort().values, steps, right=True)
    return Curve(steps, above.double() / max(len(radius), 1))


@dataclass(frozen=True)
class Crossing:
    """From ``eps`` on the order of two curves is the other way round."""

    eps: float
    before: str
    """who is more robust for smaller eps"""
    after: str
    """who is from here on"""
    accuracy: float
    """about where they cross"""


def curve_of(run: Run) -> Curve:
    """Robust accuracy of a min-radius run, for every eps at once.

    Args:
        run: of min-radius.

    Returns:
        The curve over all samples of the run.
    """
    needs_radii(run, "curve")
    return robust_accuracy_curve(run.radius.cpu(), attacked_in(run))


@takes_runs
def curves_of(runs: NamedRuns) -> dict[str, Curve]:
    """Robust accuracy curves of several min-radius runs.

    Args:
        runs: of min-radius, by name, in one metric: the eps of different metrics are no match.

    Returns:
        The curve of each run, by its name.
    """
    metrics = {run.problem.metric.name for run in runs.values()}
    if len(metrics) > 1:
        raise ValueError(f"runs: expected one metric, found {', '.join(sorted(metrics))}; curves of each on their own")
    return {name: curve_of(run) for name, run in runs.items()}


def crossings(curves: Mapping[str, Curve]) -> list[Crossing]:
    """All places where two curves change their order. Touching is no crossing.

    Args:
        curves: by name, in one metric.

    Returns:
        The crossings of every two curves, by rising eps.
    """
    found = []
    for (first, a), (second, b) in combinations(curves.items(), 2):
        eps = torch.unique(torch.cat((a.eps, b.eps)))
        heights = [curve.heights(eps) for curve in (a, b)]
        apart = heights[0] - heights[1]
        # Where they touch nobody is ahead: only places where somebody is are held against each other.
        places = apart.nonzero().squeeze(1)
        signs = apart[places].sign()
        for i in places[1:][signs[1:] != signs[:-1]].tolist():
            before, after = (second, first) if apart[i] > 0 else (first, second)
            found.append(Crossing(float(eps[i]), before, after, float(heights[0][i] + heights[1][i]) / 2))
    return sorted(found, key=lambda crossing: crossing.eps)


def stable_crossings(curves: Mapping[str, Curve], samples: int) -> list[Crossing]:
    """Crossings between stretches on which one curve is clearly ahead.

    Curves of few samples cross often, mostly by chance: on both sides the lead must reach 3 % and 3 samples somewhere.

    Args:
        curves: by name, in one metric.
        samples: how many each curve is made of.

    Returns:
        The crossings of every two curves, by rising eps.
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


STABLE = f"a lead of at least {LEAD:.0%} and {FEWEST} samples on both sides"
"""what makes a crossing stable, for captions"""


@takes_runs
def model_crossings(runs: NamedRuns) -> list[Crossing]:
    """Stable crossings of the min-radius runs of every two models under the same attacks, on the samples they share.

    What else crosses (attacks on one model, samples of which one run has more) says nothing of models.

    Args:
        runs: by name; those of max-loss are left out.

    Returns:
        The crossings, by rising eps; ``before`` and ``after`` are names of runs.
    """
    asked = {name: run for name, run in runs.items() if isinstance(run.problem, MinRadius)}
    found: list[Crossing] = []
    for (first, a), (second, b) in combinations(asked.items(), 2):
        if model_key(first, a) == model_key(second, b) or attacks_name(a) != attacks_name(b):
            continue
        shared = dict(zip((first, second), aligned((a, b)), strict=True))
        if samples := len(shared[first].status):
            found += stable_crossings(curves_of(shared), samples)
    return sorted(found, key=lambda crossing: crossing.eps)


@dataclass(frozen=True)
class CurvePanel:
    """What a panel of robust accuracy curves shows: where its eps axis ends, and which crossings it marks."""

    end: float
    """of the axis"""
    beyond: int
    """radii that lie beyond the end"""
    crossings: list[Crossing]
    """to be marked: the first ``SHOWN`` stable crossings of models within the axis, by rising eps"""
    more: int
    """further crossings within the axis"""


@takes_runs
def curve_panel(runs: NamedRuns) -> CurvePanel:
    """Decide where the eps axis of a panel ends and which crossings it marks: figure and page both ask here.

    The axis has room for every max-loss run and for the radii of every model by the attack that is best at it. A few
    radii far out are cut off, and counted.

    Args:
        runs: by name, of one topic (``by_topic``): curves of min-radius runs, points of max-loss runs.

    Returns:
        End of the axis, radii beyond it, crossings to be marked, and how many more there are.
    """
    curves = {name: run for name, run in runs.items() if isinstance(run.problem, MinRadius)}
    asked = [accuracy_of(run).eps for run in runs.values() if isinstance(run.problem, MaxLoss)]
    ends: dict[str, float] = {}
    radii = {name: radii_of(run) for name, run in curves.items()}
    for name, rising in radii.items():
        if len(rising):
            far = min(1.03 * float(rising[-1]), CUT * statistics.quantile(rising.numpy(), 0.95))
            model = model_key(name, curves[name])
            ends[model] = min(far, ends.get(model, math.inf))
    end = max([*ends.values(), *(1.15 * eps for eps in asked if not math.isnan(eps))], default=1.0) or 1.0
    found = [crossing for crossing in model_crossings(curves) if crossing.eps <= end]
    beyond = sum(int((rising > end).sum()) for rising in radii.values())
    return CurvePanel(end, beyond, found[:SHOWN], len(found[SHOWN:]))
