"""Robust accuracy: over all samples, those that are wrong as they are count as broken."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

import torch
from torch import Tensor

from pwcf.analysis.of_runs import attacked_in, converged_in, defined_in
from pwcf.evaluation import Run
from pwcf.problems import MaxLoss


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
    clean = float(attacked_in(run).double().mean()) if n else math.nan
    return Accuracy(float(eps), n, clean, robust / n if n else math.nan, low, high, int(unsettled.sum()))


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
