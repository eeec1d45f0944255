"""Which attacks break the same samples, which break some that no other does, and what all break together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from pwcf.analysis.of_runs import NamedRuns, align, attacked_in, one_metric
from pwcf.evaluation import Run
from pwcf.problems import MaxLoss, MinRadius
from pwcf.runs import RecordedRun


@dataclass(frozen=True)
class Agreement:
    """Of several attacks on the same n samples that are right as they are."""

    names: list[str]
    broken: Tensor
    """(a, n) bool"""

    @property
    def samples(self) -> int:
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
        """(a,) how many each breaks that no other does"""
        return (self.broken & (self.broken.sum(0) == 1)).sum(1)

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
    """From verdicts (n,) bool by name."""
    if not broken:
        raise ValueError("broken: expected the verdicts of at least one attack, found none")
    return Agreement(list(broken), torch.stack([verdict.cpu().bool() for verdict in broken.values()]))


def agreement_of(runs: NamedRuns, eps: float | None = None) -> Agreement:
    """Of runs about one model, on the samples they share.

    Args:
        runs: of max-loss, each within its own eps; or of min-radius, with eps.
        eps: of min-radius runs: a sample is broken if its radius is no larger.
    """
    if not runs:
        raise ValueError("runs: expected at least one, found none")
    recorded = [run for run in runs.values() if isinstance(run, RecordedRun)]
    listed: list[Run] = [*align(recorded)] if len(recorded) == len(runs) else list(runs.values())
    if len({len(run.status) for run in listed}) > 1:
        raise ValueError("runs: expected the same samples, found different numbers of them")
    models = {run.header.model.fingerprint for run in recorded}
    if len(models) > 1:
        raise ValueError(f"runs: expected one model, found {len(models)}; who breaks what is told of one model")
    if eps is not None:
        one_metric(listed, "agreement_of")
        if losses := [name for name, run in runs.items() if isinstance(run.problem, MaxLoss)]:
            raise ValueError(f"eps: expected none, {losses[0]} has its own; found {eps!r}")
    attacked = torch.stack([attacked_in(run) for run in listed]).all(0)
    return agreement({name: _broken(run, eps)[attacked] for name, run in zip(runs, listed, strict=True)})


def agreement_within(run: Run, eps: float) -> Agreement:
    """Of the attacks of one min-radius run. Attacks after the first may go on from what others have found."""
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
