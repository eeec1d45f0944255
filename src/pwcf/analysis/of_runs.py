"""What every analysis of runs needs first: who was attacked, which samples runs share, how to call them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from pwcf.evaluation import Run
from pwcf.problems import MinRadius
from pwcf.runs import RecordedRun
from pwcf.runs.comparison import sample_places
from pwcf.solvers import Status

R = TypeVar("R", bound=Run)
NamedRuns = Mapping[str, Run]
"""Runs by the names they have in tables and figures; ``name_runs`` makes short ones."""


def defined_in(run: Run) -> Tensor:
    """(n,) bool: where the model gave logits at all."""
    return torch.tensor([status is not Status.NONFINITE for status in run.status], dtype=torch.bool)


def attacked_in(run: Run) -> Tensor:
    """(n,) bool: right as they are, so there was something to attack."""
    idle = (Status.NONFINITE, Status.ALREADY_MISCLASSIFIED)
    return torch.tensor([status not in idle for status in run.status], dtype=torch.bool)


def found_in(run: Run) -> Tensor:
    """(n,) bool: attacked, and a verified point was found."""
    return attacked_in(run) & run.adversarial.cpu()


def converged_in(run: Run) -> Tensor:
    """(n,) bool: min-radius, found, and the evidence says that nearby nothing is left to gain."""
    return torch.tensor([status is Status.CONVERGED for status in run.status], dtype=torch.bool)


def needs_radii(run: Run, what: str) -> None:
    if not isinstance(run.problem, MinRadius):
        raise ValueError(f"{what}: expected a run of MinRadius, found {run.problem}; its distances are no radii")


def align(runs: Sequence[RecordedRun]) -> list[RecordedRun]:
    """The runs on the samples that all of them have, in one order: a sample is known by its image and label."""
    if not runs:
        return []
    places = [sample_places(run.rows) for run in runs]
    shared = [key for key in places[0] if all(key in each for each in places)]
    return [
        run.select(torch.tensor([place[key] for key in shared], dtype=torch.int64))
        for run, place in zip(runs, places, strict=True)
    ]


def name_runs(runs: Iterable[RecordedRun]) -> dict[str, RecordedRun]:
    """Short names of what differs: model and question, then attacks, data, budget, seed as far as it takes to tell."""
    listed = list(runs)
    parts = [_parts(run) for run in listed]
    differing: list[int] = []
    for i in range(len(parts[0]) if parts else 0):
        if i >= ALWAYS and len({tuple(each[j] for j in differing) for each in parts}) == len(parts):
            break
        if len({each[i] for each in parts}) > 1:
            differing.append(i)
    # One run, or several alike: the question says most.
    names = [" · ".join(each[i] for i in differing) if differing else f"{each[0]} · {each[1]}" for each in parts]
    named: dict[str, RecordedRun] = {}
    for name, run in zip(names, listed, strict=True):
        again, count = name, 1
        while again in named:
            count += 1
            again = f"{name} ({count})"
        named[again] = run
    return named


def model_name(run: RecordedRun) -> str:
    """As it was called, without what stands before it."""
    spec = run.header.model.spec
    short = spec.rpartition("/")[2] if "/" in spec and "://" not in spec else spec
    stem = short.partition(":")[2] or short
    weights = run.header.settings.weights
    return f"{stem} {weights.rpartition('/')[2]}" if weights else stem


def metric_name(run: Run) -> str:
    return run.problem.metric.name


def attacks_name(run: Run) -> str:
    return "+".join(each.name for each in run.contributions) or "none"


def question_name(run: Run) -> str:
    """A metric, and for max-loss how far and by which loss."""
    if isinstance(run.problem, MinRadius):
        return run.problem.metric.name
    return str(run.problem).removeprefix("max-loss, ")


ALWAYS = 2
"""as many of what follows are named wherever they differ"""


def _parts(run: RecordedRun) -> tuple[str, ...]:
    settings = run.header.settings
    return (
        model_name(run),
        question_name(run),
        attacks_name(run),
        settings.data.rpartition("/")[2],
        f"budget {run.header.budget}",
        f"seed {settings.seed}",
    )
