"""APGD as an attack: runs, targets and restarts as far as the budget goes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pwcf._common.rng import seeds_of
from pwcf.attacks.apgd.ascent import run
from pwcf.attacks.apgd.objective import Objective
from pwcf.attacks.apgd.plan import Phase, Plan, phases
from pwcf.attacks.base import Answer, Attack, Task, check_settings
from pwcf.attacks.radius_search import search_radius
from pwcf.attacks.targets import ANY
from pwcf.losses import as_loss, mask_label
from pwcf.metrics import HasProjection, HasSteepest, Norm
from pwcf.problems import MaxLoss, MinRadius, Problem

# The pass that ranks the classes.
RANKING = 1


@dataclass(frozen=True)
class Apgd(Attack):
    """Auto-PGD (Croce and Hein 2020), for l1 with adaptive sparsity (Croce and Hein 2021), and exact projections."""

    loss: str | None = None
    """"ce", "margin" or "dlr"; None: that of a max-loss problem, the margin for min-radius"""
    targets: int | None = None
    """None: away from the label. k: towards the k likeliest other classes in turn, with a run each"""
    steps: int | None = None
    """of a run, at most. None: about 100, the published number, as the budget has it"""
    restarts: int | None = None
    """runs, at most; of each target, if there are targets. None: as many as the budget allows"""
    sequential: bool = False
    """l2: project onto the ball and then onto the box, as AutoAttack does, in place of the exact projection"""
    name: str = "apgd"

    def __post_init__(self) -> None:
        if self.loss is not None:
            as_loss(self.loss)
        check_settings(self, "targets", "steps", "restarts")

    @property
    def about(self) -> str:
        parts = [
            "pwcf's own APGD",
            self.loss or "the problem's loss",
            "untargeted" if self.targets is None else f"{self.targets} targets",
            "steps by budget" if self.steps is None else f"{self.steps} steps",
            "restarts by budget" if self.restarts is None else f"{self.restarts} restart(s)",
        ]
        return ", ".join(parts + ["sequential projections"] * self.sequential)

    def unsupported_reason(self, problem: Problem, classes: int | None) -> str | None:
        metric = problem.metric
        if isinstance(metric, Norm) and isinstance(metric, HasProjection) and isinstance(metric, HasSteepest):
            return None
        return f"{self.name} needs a norm with project and steepest; {metric.name} does not offer them."

    def __call__(self, task: Task) -> Answer:
        if reason := self.unsupported_reason(task.problem, None):
            raise ValueError(reason)
        if task.images.shape[0] == 0:
            return Answer(task.images)
        if isinstance(task.problem, MinRadius):
            return search_radius(self._within, task)
        return Answer(self._within(replace(task, known=None)))

    def _within(self, task: Task) -> Tensor:
        """(n, ...) misclassified points within eps; the images where there is none.

        The first run of samples with a known point begins there.
        """
        problem = task.problem
        assert isinstance(problem, MaxLoss)
        objective = Objective(task, self.loss or problem.loss)
        ranked = self._targets(task)
        budget = task.budget - RANKING * (self.targets is not None)
        most = None if self.restarts is None else self.restarts * ranked.shape[1]
        plan = Plan.within(budget, problem.metric.exponent, self.steps, most)
        if plan.steps == 0:
            return task.images
        seeds = seeds_of(task.images, task.seed)
        known = (
            torch.zeros_like(objective.broken) if task.known is None else (task.known != task.images).flatten(1).any(1)
        )
        for number in range(plan.runs):
            aim = ranked[:, number % ranked.shape[1]]
            left = ~objective.broken
            warm = (left & known).nonzero().squeeze(1)
            cold = (left & ~known).nonzero().squeeze(1)
            if task.known is not None and warm.numel() > 0:
                # From a point that is nearly an answer there is no use in a larger ball.
                run(objective, warm, aim[warm], task.known[warm].flatten(1), [Phase(1.0, plan.steps)], self.sequential)
                known = torch.zeros_like(known)
            starts = [seeds[i] + number for i in cold.tolist()]
            run(objective, cold, aim[cold], starts, phases(problem.metric.exponent, plan.steps), self.sequential)
        return objective.answers

    def _targets(self, task: Task) -> Tensor:
        """(n, k) the classes that runs aim at in turn."""
        if self.targets is None or task.problem.targeted or task.budget <= RANKING:
            return torch.full_like(task.labels, ANY).unsqueeze(1)
        logits = task.model.logits(task.images, task.samples)
        order = mask_label(logits, task.labels).argsort(dim=1, descending=True)
        return order[:, : min(self.targets, logits.shape[1] - 1)]
