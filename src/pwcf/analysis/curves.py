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

from pwcf.analysis.masks import aligned, attacked_in, converged_in, defined_in, needs_radii
from pwcf.analysis.naming import NamedRuns, attacks_name, model_key
from pwcf.evaluation import Run
from pwcf.problems import MaxLoss, MinRadius

LEAD = 0.03
"""share of the samples by which a model must be ahead on either side of a stable crossing"""
FEWEST = 3
"""samples that this lead must be at least"""


class Curve(NamedTuple):
    """Robust accuracy over eps: from ``eps[i]`` on, and up to the next one, it is ``accuracy[i]``."""

    eps: Tensor
    """(k,) rising, the first is 0"""
    accuracy: Tensor
    """(k,) falling, the first is the clean accuracy"""

    def at(self, eps: float) -> float:
        """The accuracy at any eps >= 0."""
        return float(self.heights(self.eps.new_tensor([eps]))[0])

    def heights(self, eps: Tensor) -> Tensor:
        """(m,) the accuracies at many eps (m,) >= 0."""
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
    """Robust accuracy of a max-loss run, or at any eps of a min-radius run."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence: expected a number between 0 and 1, found {confidence!r}")
    if isinstance(run.problem, MaxLoss):
        if eps is not None:
            raise ValueError(f"eps: expected none, the run was asked {run.problem}; found {eps!r}")
        standing = ~run.adversarial.cpu() & defined_in(run)
        unsettled = standing
        several = torch.as_tensor(run.problem.eps, dtype=torch.float64)
        eps = float(several.max()) if several.numel() else math.nan
    else:
        if eps is None or not eps >= 0:
            raise ValueError(f"eps: expected a number >= 0 for {run.problem}, found {eps!r}")
        standing = (run.radius.cpu() > eps) & defined_in(run)
        unsettled = standing & ~converged_in(run)
    n, robust = len(standing), int(standing.sum())
    low, high = wilson(robust, n, confidence)
    return Accuracy(float(eps), n, run.clean_accuracy, robust / n if n else math.nan, low, high, int(unsettled.sum()))


def wilson(hits: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval of a share: right for small n and for shares near 0 and 1 too."""
    if n == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share = hits / n
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    # At the ends the interval is closed in theory; rounding must not open it.
    return (0.0 if hits == 0 else middle - half), (1.0 if hits == n else middle + half)


def robust_accuracy(adversarial: Tensor, right: Tensor) -> float:
    """Share of samples (n,) that are classified correctly and have no adversarial point; NaN of no samples."""
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
    """Robust accuracy of a min-radius run, for every eps at once."""
    needs_radii(run, "curve")
    return robust_accuracy_curve(run.radius.cpu(), attacked_in(run))


def curves_of(runs: NamedRuns) -> dict[str, Curve]:
    """Of min-radius runs; they must be about one metric, or their eps are not the same thing."""
    metrics = {run.problem.metric.name for run in runs.values()}
    if len(metrics) > 1:
        raise ValueError(f"runs: expected one metric, found {', '.join(sorted(metrics))}; curves of each on their own")
    return {name: curve_of(run) for name, run in runs.items()}


def crossings(curves: Mapping[str, Curve]) -> list[Crossing]:
    """Where two curves change places, in the order of eps. Touching is no crossing."""
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
    """Crossings between stretches on which one curve is clearly ahead, in the order of eps.

    Curves of few samples cross often, mostly by chance: on both sides the lead must reach 3 % and 3 samples somewhere.

    Args:
        curves: by name.
        samples: how many each curve is made of.
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


def model_crossings(runs: NamedRuns) -> list[Crossing]:
    """Stable crossings of the min-radius runs of every two models under the same attacks, on the samples they share.

    What else crosses (attacks on one model, samples of which one run has more) says nothing of models.
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
