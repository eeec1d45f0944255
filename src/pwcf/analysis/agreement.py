"""Attacks against each other, sample by sample: whose radii are smaller, and who breaks what the others do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pwcf._common import statistics
from pwcf.analysis.masks import aligned, attacked_in, one_metric
from pwcf.analysis.naming import NamedRuns, takes_runs
from pwcf.analysis.radii import Spread, describe
from pwcf.evaluation import Run
from pwcf.problems import MaxLoss, MinRadius
from pwcf.runs import RecordedRun


@dataclass(frozen=True)
class Agreement:
    """Which of the same n samples, all classified correctly, several attacks break."""

    names: list[str]
    broken: Tensor
    """(a, n) bool"""

    @property
    def samples(self) -> int:
        """How many samples the verdicts are about."""
        return self.broken.shape[1]

    @property
    def counts(self) -> Tensor:
        """(a,) how many each breaks"""
        return self.broken.sum(1)

    @property
    def union(self) -> int:
        """How many at least one breaks."""
        return int(self.broken.any(0).sum())

    @property
    def alone(self) -> Tensor:
        """(a,) how many each breaks that no other does: ``statistics.broken_alone``"""
        return torch.tensor(statistics.broken_alone(self.broken.numpy(), [True] * self.samples), dtype=torch.int64)

    @property
    def only_first(self) -> Tensor:
        """(a, a) [i, j]: how many attack i breaks and attack j does not"""
        return (self.broken[:, None] & ~self.broken[None, :]).sum(2)

    def union_curve(self) -> list[tuple[str, int]]:
        """(name, how many are broken with it and all before it): always next the one that adds most."""
        left = list(range(len(self.names)))
        so_far = torch.zeros(self.samples, dtype=torch.bool)
        curve = []
        while left:
            gains = [int((self.broken[i] & ~so_far).sum()) for i in left]
            best = left.pop(gains.index(max(gains)))
            so_far |= self.broken[best]
            curve.append((self.names[best], int(so_far.sum())))
        return curve


def agreement(broken: Mapping[str, Tensor]) -> Agreement:
    """Agreement of attacks from their verdicts.

    Args:
        broken: by the name of the attack, (n,) bool on the same samples, all of them classified correctly as they are.

    Returns:
        ``Agreement`` about a attacks and n samples.
    """
    if not broken:
        raise ValueError("broken: expected the verdicts of at least one attack, found none")
    return Agreement(list(broken), torch.stack([verdict.cpu().bool() for verdict in broken.values()]))


@takes_runs
def agreement_of(runs: NamedRuns, eps: float | None = None) -> Agreement:
    """Agreement of runs about one model, on the samples that all of them attacked.

    Args:
        runs: by name, of max-loss, each within its own eps; or of min-radius, with eps.
        eps: of min-radius runs: a sample is broken if its radius is no larger.

    Returns:
        ``Agreement`` about the runs in their order.
    """
    if not runs:
        raise ValueError("runs: expected at least one, found none")
    recorded = [run for run in runs.values() if isinstance(run, RecordedRun)]
    listed = aligned(list(runs.values()))
    models = {run.header.model.fingerprint for run in recorded}
    if len(models) > 1:
        raise ValueError(f"runs: expected one model, found {len(models)}; agreement is about one model")
    if eps is not None:
        one_metric(listed, "agreement_of")
        if losses := [name for name, run in runs.items() if isinstance(run.problem, MaxLoss)]:
            raise ValueError(f"eps: expected none, {losses[0]} has its own; found {eps!r}")
    attacked = torch.stack([attacked_in(run) for run in listed]).all(0)
    return agreement({name: _broken(run, eps)[attacked] for name, run in zip(runs, listed, strict=True)})


def agreement_within(run: Run, eps: float) -> Agreement:
    """Agreement of the attacks of one min-radius run. Later attacks may go on from what earlier ones have found.

    Args:
        run: of min-radius.
        eps: a sample is broken if the attack's radius is no larger.

    Returns:
        ``Agreement`` about the attacks, in the order they were asked, on the attacked samples.
    """
    if not isinstance(run.problem, MinRadius):
        raise ValueError(
            f"run: expected one of MinRadius, found {run.problem}: there later attacks are only asked about what "
            "earlier ones have not broken; run each of them on its own and use agreement_of"
        )
    attacked = attacked_in(run)
    return agreement({each.name: (each.radius.cpu() <= eps)[attacked] for each in run.contributions})


def _broken(run: Run, eps: float | None) -> Tensor:
    if isinstance(run.problem, MaxLoss):
        return run.adversarial.cpu()
    if eps is None:
        raise ValueError(f"eps: expected a number for {run.problem}, found none")
    return run.radius.cpu() <= eps


# A radius that is smaller by less than this share is the same radius: attacks stop somewhere near the boundary.
CLEARLY = 0.01


@dataclass(frozen=True)
class Comparison:
    """The paper's "statistical comparison of the minimal radius": over the samples for which both have a point.

    ``RadiusComparison`` is the same sample by sample.
    """

    first: Spread
    second: Spread
    difference: Spread
    """the first's radius minus the second's, as everywhere: below zero the first is better"""


def compare(first: Tensor, second: Tensor, clean_correct: Tensor) -> Comparison:
    """Compare the radii of two attacks in three statistics: of the first, of the second, and of their difference.

    ``compare_radii`` compares two runs sample by sample; ``pwcf.runs.comparison`` any number (``pwcf compare``).

    Args:
        first: (n,) radii, inf where there is no point.
        second: (n,) those of the other attack, of the same samples.
        clean_correct: (n,) bool, classified correctly as they are.

    Returns:
        ``Comparison`` over the samples for which both have a point; the difference is first minus second.
    """
    both = clean_correct & torch.isfinite(first) & torch.isfinite(second)
    n, common = int(clean_correct.sum()), int(both.sum())
    values = first[both].double(), second[both].double()
    sides = (*values, values[0] - values[1])
    return Comparison(*(Spread(n, common, *describe(side)) for side in sides))


def wins(radii: Sequence[Tensor], clean_correct: Tensor) -> Tensor:
    """On which share of the samples each attack's radius is smaller than each other one's, by more than 1 %.

    A point is better than none; where neither has one nobody wins.

    Args:
        radii: of a attacks, (n,) each, inf where there is no point.
        clean_correct: (n,) bool, classified correctly as they are.

    Returns:
        (a, a) float64, [i, j]: the share of samples classified correctly on which attack i beats attack j.
    """
    won, pairs = wins_and_pairs(radii, clean_correct)
    return won.double() / pairs


def wins_and_pairs(radii: Sequence[Tensor], clean_correct: Tensor) -> tuple[Tensor, int]:
    """On how many samples each attack beats each other one, as ``wins`` in numbers that add up over data sets.

    Args:
        radii: of a attacks, (n,) each, inf where there is no point.
        clean_correct: (n,) bool, classified correctly as they are.

    Returns:
        (a, a) int64, [i, j]: samples on which attack i beats attack j; and the number of samples classified correctly.
    """
    values = torch.stack([radius.double() for radius in radii])[:, clean_correct]
    clearly = values[:, None] < (1 - CLEARLY) * values[None, :]
    return clearly.sum(2), int(clean_correct.sum())
