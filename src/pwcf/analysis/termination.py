"""When searches end: how many passes and seconds a sample took, and why it ended."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import torch
from torch import Tensor

from pwcf.analysis.of_runs import attacked_in
from pwcf.evaluation import Run
from pwcf.runs import RecordedRun


@dataclass(frozen=True)
class Termination:
    """Of the m samples that were attacked."""

    passes: Tensor
    """(m,) int64 forward + backward, of all attacks, checks and evidence together"""
    seconds: Tensor
    """(m,) float64. Samples that were worked on together share their time: run with --chunk 1 for each one's own."""
    status: dict[str, int]
    """how many ended in which way"""
    budget: int | None
    """how many passes a sample could have had; None for runs that were not recorded"""


def termination_of(run: Run) -> Termination:
    attacked = attacked_in(run)
    places = attacked.nonzero().squeeze(1).tolist()
    status = Counter(run.status[i].value for i in places)
    n = max(len(run.status), 1)
    if isinstance(run, RecordedRun):
        seconds = torch.from_numpy(run.rows["seconds"].to_numpy().copy()).double()
    else:
        seconds = torch.full((len(run.status),), run.seconds / n, dtype=torch.float64)
    budget = run.header.budget if isinstance(run, RecordedRun) else None
    return Termination(run.passes.total[attacked], seconds[attacked], dict(status.most_common()), budget)
