"""APGD as an attack: runs, targets and restarts as far as the budget goes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from pwcf._common.rng import seeds_of
from pwcf.attacks.apgd.ascent import ApgdPhase, ascend
from pwcf.attacks.apgd.targets import CANDIDATES, LOOK, RANKINGS, RankedTargets, Ranking, likeliest, nearest
from pwcf.attacks.base import ANY, Task, check_settings, needs_methods
from pwcf.attacks.objective import MaxLossObjective
from pwcf.attacks.radius_search import MaxLossAttack
from pwcf.losses import as_loss
from pwcf.metrics import HasProjection
from pwcf.problems import MaxLoss, Problem

# The published length of a run.
STEPS = 100
# Where restarts are wished for and steps are not, a run is not cut below this many: fewer lead nowhere.
SHORT = 10
# l1 (Croce and Hein 2021): the ball is this many times as large over that share of the steps. Runs that are too short
# to be divided stay in the ball itself.
LARGER, SHARES, LEAST_DIVIDED = (3.0, 2.0, 1.0), (0.3, 0.3, 0.4), 10


@dataclass(frozen=True)
class Apgd(MaxLossAttack):
    """Auto-PGD (Croce and Hein 2020), for l1 with adaptive sparsity (Croce and Hein 2021), and exact projections."""

    loss: str | None = None
    """"ce", "margin", "dlr" or "pm"; None: that of a max-loss problem, the margin for min-radius"""
    targets: int | None = None
    """None: away from the label. k: towards the k first of the other classes in turn, with a run each"""
    steps: int | None = None
    """of a run, at most. None: about 100, the published number, as the budget has it"""
    restarts: int | None = None
    """runs, at most; of each target, if there are targets. None: as many as the budget allows"""
    sequential: bool = False
    """l2: project onto the ball and then onto the box, as AutoAttack does, in place of the exact projection"""
    ranking: Ranking = "logit"
    """which classes are the first: "logit", the likeliest; "malt", of the 100 likeliest those whose boundary is nearest
    if the model is linear (Melamed et al. 2024)"""
    name: str = "apgd"

    def __post_init__(self) -> None:
        if self.loss is not None:
            as_loss(self.loss)
        check_settings(self, "targets", "steps", "restarts")
        if self.ranking not in RANKINGS:
            raise ValueError(f"ranking: expected one of {', '.join(RANKINGS)}, found {self.ranking!r}")

    @property
    def about(self) -> str:
        by = f", the nearest of {CANDIDATES} classes by MALT" if self.ranking == "malt" else ""
        parts = [
            "pwcf's own APGD",
            self.loss or "the problem's loss",
            "untargeted" if self.targets is None else f"{self.targets} targets{by}",
            "steps by budget" if self.steps is None else f"{self.steps} steps",
            "restarts by budget" if self.restarts is None else f"{self.restarts} restart(s)",
        ]
        return ", ".join(parts + ["sequential projections"] * self.sequential)

    def unsupported_reason(self, problem: Problem, classes: int | None) -> str | None:
        return needs_methods(self.name, problem, project=HasProjection)

    def within_eps(self, task: Task) -> Tensor:
        """(n, ...) misclassified points within eps; the images where there is none.

        The first run of samples with a known point begins there.
        """
        problem = task.problem
        assert isinstance(problem, MaxLoss)
        objective = MaxLossObjective(task, self.loss or problem.loss)
        ranked, spent = self._targets(task)
        budget = task.budget - spent
        most = None if self.restarts is None else self.restarts * ranked.shape[1]
        schedule = ApgdSchedule.within(budget, problem.metric.exponent, self.steps, most)
        if schedule.steps == 0:
            return task.images
        seeds = seeds_of(task.images, task.seed)
        known = (
            torch.zeros_like(objective.broken) if task.known is None else (task.known != task.images).flatten(1).any(1)
        )
        for number in range(schedule.runs):
            aim = ranked[:, number % ranked.shape[1]]
            left = ~objective.broken
            warm = (left & known).nonzero().squeeze(1)
            cold = (left & ~known).nonzero().squeeze(1)
            if task.known is not None and warm.numel() > 0:
                # From a point that is nearly an answer there is no use in a larger ball.
                ascend(
                    objective,
                    warm,
                    aim[warm],
                    task.known[warm].flatten(1),
                    [ApgdPhase(1.0, schedule.steps)],
                    self.sequential,
                )
                known = torch.zeros_like(known)
            starts = [seeds[i] + number for i in cold.tolist()]
            ascend(objective, cold, aim[cold], starts, phases(problem.metric.exponent, schedule.steps), self.sequential)
        return objective.answers

    def _targets(self, task: Task) -> RankedTargets:
        """The classes that runs aim at in turn."""
        if self.targets is None or task.problem.targeted:
            # A pass is set aside for the ranking even where the problem names the target: schedules stay as they were.
            return RankedTargets(torch.full_like(task.labels, ANY).unsqueeze(1), 0 if self.targets is None else LOOK)
        return (nearest if self.ranking == "malt" else likeliest)(task, self.targets)


@dataclass(frozen=True)
class ApgdSchedule:
    """How a budget is spent: so many runs of so many steps."""

    runs: int
    steps: int

    @classmethod
    def within(cls, budget: int, p: float | None, steps: int | None, most_runs: int | None) -> ApgdSchedule:
        """What fits: fewer runs first, then fewer steps. None: whatever uses the budget best, at about 100 steps."""
        wished = STEPS if steps is None else steps
        if steps is not None:
            fitting = budget // cost(p, steps)
        elif most_runs is None:
            fitting = round(budget / cost(p, STEPS))
        else:
            fitting = budget // cost(p, SHORT)
        runs = max(1, fitting if most_runs is None else min(fitting, most_runs))
        longest = longest_run(p, budget // runs)
        return cls(runs, longest if steps is None else min(wished, longest))


def phases(p: float | None, steps: int) -> list[ApgdPhase]:
    """The parts of a run."""
    if p != 1 or steps < LEAST_DIVIDED:
        return [ApgdPhase(1.0, steps)]
    first, second = (math.ceil(share * steps) for share in SHARES[:2])
    return [ApgdPhase(factor, n) for factor, n in zip(LARGER, (first, second, steps - first - second), strict=True)]


def cost(p: float | None, steps: int) -> int:
    """Passes of a run: value and slope where a phase begins and after every step, but at the last point no slope."""
    return 2 * (steps + len(phases(p, steps))) - 1


def longest_run(p: float | None, budget: int) -> int:
    """Steps of the longest run within the budget; 0 if none is."""
    longest = (budget - 1) // 2
    while longest > 0 and cost(p, longest) > budget:
        longest -= 1
    return max(0, longest)
