"""AttackBench's yardstick: how near is an attack to all attacks together?

    d*_i = min over attacks of the radius of sample i,   eps_max = max of the finite d*_i
    A    = area under robust accuracy over eps, from 0 to eps_max;   A* = the same of d*
    xi   = 1 - (A - A*) / (clean accuracy · eps_max - A*)

1: as good as all together; 0: it breaks nothing. Samples without a point count in full, as robust up to eps_max.
(Cinà, Rony, Pintor, Demetrio, Demontis, Biggio, Ben Ayed, Roli: AttackBench, 2024.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pwcf._common import statistics
from pwcf.analysis.masks import aligned, attacked_in, status_values
from pwcf.analysis.naming import NamedRuns, attacks_name, comparable_groups, takes_runs
from pwcf.analysis.radii import filled_mean
from pwcf.problems import MinRadius
from pwcf.runs import RecordedRun


def best(radii: Sequence[Tensor]) -> Tensor:
    """Pointwise least radii of several attacks: d* above.

    Args:
        radii: of at least one attack, (n,) each, inf where there is no point.

    Returns:
        (n,) float64; inf where no attack found a point.
    """
    if not radii:
        raise ValueError("radii: expected those of at least one attack, found none")
    return torch.stack([radius.double() for radius in radii]).amin(0)


def largest_finite(radius: Tensor, clean_correct: Tensor) -> float:
    """Largest finite radius: eps_max above, if the radii are the best ones.

    Args:
        radius: (n,) inf where there is no point.
        clean_correct: (n,) bool, classified correctly as they are.

    Returns:
        The largest radius; NaN where there is no point at all.
    """
    values = radius[clean_correct & torch.isfinite(radius)]
    return float(values.max()) if len(values) else float("nan")


def area(radius: Tensor, clean_correct: Tensor, eps_max: float) -> float:
    """Area under robust accuracy over eps, from 0 to eps_max: A above.

    It is the mean of min(radius, eps_max), with 0 for misclassified samples.

    Args:
        radius: (n,) inf where there is no point.
        clean_correct: (n,) bool, classified correctly as they are.
        eps_max: where the area ends.

    Returns:
        The area, at most eps_max times the clean accuracy.
    """
    return float(torch.where(clean_correct, radius.double().clamp(max=eps_max), 0.0).mean())


def local_optimality(radius: Tensor, best: Tensor, clean_correct: Tensor) -> float:
    """Local optimality xi of one attack against the best of all attacks.

    Args:
        radius: (n,) of the attack, inf where there is no point.
        best: (n,) the least of all attacks: see ``best``.
        clean_correct: (n,) bool, classified correctly as they are.

    Returns:
        xi, 1 for an attack as good as all together. NaN where xi says nothing: no one found a point, or all best radii
        are the same.
    """
    eps_max = largest_finite(best, clean_correct)
    clean = float(clean_correct.double().mean())
    least = area(best, clean_correct, eps_max)
    # Both are sums of the same terms: a difference of rounding is none.
    room = clean * eps_max - least
    if not room > 1e-12 * eps_max:
        return float("nan")
    return 1 - (area(radius, clean_correct, eps_max) - least) / room


@dataclass(frozen=True)
class AttackScore:
    """How one min-radius run compares with all others about the same model, metric and data."""

    run: str
    model: str
    topic: str
    """metric, and data where there are several"""
    attack: str
    budget: int | None
    """None for runs that were not recorded"""
    attacked: int
    """samples that all runs of the group share and attacked"""
    found: int
    mean: float
    """of the radii that were found"""
    median: float
    """over all attacked samples, inf where most have no point"""
    filled_mean: float
    """with the largest radius that any run found for samples without a point: to find only what is near is no merit"""
    xi: float
    """local optimality against the pointwise best of all runs of the group"""
    passes: float
    seconds: float
    """per sample of the run"""


@takes_runs
def attack_scores(runs: NamedRuns) -> list[AttackScore]:
    """Score all min-radius runs against each other, on the samples that those about one model, metric and data share.

    Args:
        runs: by name; those of max-loss are left out.

    Returns:
        A score for each run, in the order of models and metrics; within them by budget, the best first.
    """
    asked = {name: run for name, run in runs.items() if isinstance(run.problem, MinRadius)}
    scores: list[AttackScore] = []
    for (model, topic), parts in comparable_groups(asked).items():
        for members in parts:
            found = _scores(model, topic, members)
            scores += sorted(found, key=lambda score: (score.budget or 0, _last_if_nan(score.filled_mean)))
    return scores


def _scores(model: str, topic: str, members: NamedRuns) -> list[AttackScore]:
    shared = dict(zip(members, aligned(list(members.values())), strict=True))
    clean_correct = torch.stack([attacked_in(run) for run in shared.values()]).all(0)
    radii = {name: run.radius.cpu().double() for name, run in shared.items()}
    together = best(list(radii.values()))
    finite = [largest_finite(radius, clean_correct) for radius in radii.values()]
    worst = max((radius for radius in finite if not math.isnan(radius)), default=math.nan)
    scores = []
    for name, run in shared.items():
        some = run.select(clean_correct.nonzero().squeeze(1))
        status, radius = status_values(some), some.radius.cpu().numpy()
        adversarial = some.adversarial.cpu().numpy()
        scores.append(
            AttackScore(
                run=name,
                model=model,
                topic=topic,
                attack=attacks_name(run),
                budget=run.header.budget if isinstance(run, RecordedRun) else None,
                attacked=len(status),
                found=int(statistics.found(status, adversarial).sum()),
                mean=statistics.mean_radius(status, adversarial, radius),
                median=statistics.median_radius(status, radius),
                filled_mean=filled_mean(radii[name], clean_correct, worst),
                xi=local_optimality(radii[name], together, clean_correct) if len(status) else math.nan,
                passes=statistics.mean_passes(status, some.passes.total.cpu().numpy()),
                seconds=members[name].seconds / max(len(members[name].status), 1),
            )
        )
    return scores


def _last_if_nan(value: float) -> float:
    return math.inf if math.isnan(value) else value
