"""What every analysis of runs needs first: who was attacked, which samples runs share, how to call them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from pwcf._common.status import Status
from pwcf.evaluation import Run
from pwcf.problems import MinRadius
from pwcf.runs import RecordedRun
from pwcf.runs.comparison import sample_places

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


def needs_recording(run: Run, what: str) -> RecordedRun:
    if not isinstance(run, RecordedRun):
        raise ValueError(f"{what}: expected a recorded run (pwcf.load_run), found what evaluate returned; see pwcf run")
    return run


def one_metric(runs: Sequence[Run], what: str) -> None:
    names = {run.problem.metric.name for run in runs}
    if len(names) > 1:
        raise ValueError(f"{what}: expected runs in one metric, found {', '.join(sorted(names))}: they are no match")


def shared_places(first: Run, second: Run) -> tuple[Tensor, Tensor]:
    """(m,) and (m,): where the samples that two runs share are in each. Without records: one after the other."""
    if isinstance(first, RecordedRun) and isinstance(second, RecordedRun):
        a, b = sample_places(first.rows), sample_places(second.rows)
        shared = [(a[key], b[key]) for key in a if key in b]
        pairs = torch.tensor(shared, dtype=torch.int64).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1]
    if len(first.status) != len(second.status):
        raise ValueError(f"runs: expected the same samples, found {len(first.status)} and {len(second.status)} of them")
    everyone = torch.arange(len(first.status))
    return everyone, everyone


def align(runs: Sequence[RecordedRun]) -> list[RecordedRun]:
    """The runs on the samples that all of them have, in one order: a sample is known by its image and label."""
    if not runs:
        return []
    places = [sample_places(needs_recording(run, "align").rows) for run in runs]
    shared = [key for key in places[0] if all(key in each for each in places)]
    return [
        run.select(torch.tensor([place[key] for key in shared], dtype=torch.int64))
        for run, place in zip(runs, places, strict=True)
    ]


def name_runs(runs: Iterable[RecordedRun]) -> dict[str, RecordedRun]:
    """Short names of what differs: model and question, then attacks, data, budget, seed as far as it takes to tell."""
    listed = [needs_recording(run, "name_runs") for run in runs]
    parts = [_parts(run, model) for run, model in zip(listed, _models(listed), strict=True)]
    differing: list[int] = []
    for i in range(len(parts[0]) if parts else 0):
        if i >= ALWAYS and len({tuple(each[j] for j in differing) for each in parts}) == len(parts):
            break
        if len({each[i] for each in parts}) > 1:
            differing.append(i)
    # One run, or several alike: the question says most.
    names = [" · ".join(each[i] for i in differing) if differing else f"{each[0]} · {each[1]}" for each in parts]
    return dict(zip(unique_names(names), listed, strict=True))


def unique_names(names: Iterable[str], form: str = "{} ({})") -> list[str]:
    """The same names, those that come again with a number."""
    seen: dict[str, None] = {}
    for name in names:
        again, count = name, 1
        while again in seen:
            count += 1
            again = form.format(name, count)
        seen[again] = None
    return list(seen)


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
    problem, targeted = run.problem, ", targeted" if run.problem.targeted else ""
    if isinstance(problem, MinRadius):
        return problem.metric.name + targeted
    eps = eps_text(problem.eps) if isinstance(problem.eps, float) else "per sample"
    return f"{problem.metric.name} within {eps}, {problem.loss}{targeted}"


def eps_text(eps: float) -> str:
    """Steps of 8-bit images as fractions, as everyone writes them: 8/255, but 0.2."""
    steps = eps * 255
    if 0.5 < steps < 64 and abs(steps - round(steps)) < 1e-6 and float(f"{eps:.3g}") != eps:
        return f"{round(steps)}/255"
    return f"{eps:.4g}"


ALWAYS = 2
"""as many of what follows are named wherever they differ"""


def _models(runs: Sequence[RecordedRun]) -> list[str]:
    """Their names, with more of where they come from where two models are called the same."""
    owners: dict[str, set[str]] = {}
    for run in runs:
        owners.setdefault(model_name(run), set()).add(run.header.model.fingerprint)
    names = []
    for run in runs:
        name, spec = model_name(run), run.header.model.spec
        # The file of a.py:net, else a few letters of its digest.
        before = spec.rpartition("/")[2].partition(":")[0] if ":" in spec else run.header.model.fingerprint[:6]
        names.append(f"{before}:{name}" if len(owners[name]) > 1 else name)
    return names


def _parts(run: RecordedRun, model: str) -> tuple[str, ...]:
    settings = run.header.settings
    return (
        model,
        question_name(run),
        attacks_name(run),
        settings.data.rpartition("/")[2],
        f"budget {run.header.budget}",
        f"seed {settings.seed}",
    )
