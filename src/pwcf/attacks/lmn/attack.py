"""``"lmn"``, linearised minimum norm: the linearised search, with restarts until independent searches agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pwcf.attacks.ascent import climb
from pwcf.attacks.base import Answer, Attack, Task, needs_slope
from pwcf.attacks.linearised.schedule import Stage, endless, stages
from pwcf.attacks.linearised.search import LinearisedSearch
from pwcf.attacks.lmn import farthest_points
from pwcf.attacks.lmn.until_converged import until_converged
from pwcf.problems import MaxLoss, Problem


@dataclass(frozen=True)
class Lmn(Attack):
    """Linearised minimum norm: exact steps where the metric has structure, else steps along its gradient."""

    name: str = "lmn"
    converges = True

    @property
    def about(self) -> str:
        return "linearised minimum norm (lmn), pwcf's structured method"

    def unsupported_reason(self, problem: Problem, classes: int | None) -> str | None:
        return needs_slope(problem)

    def __call__(self, task: Task) -> Answer:
        if isinstance(task.problem, MaxLoss) and not task.problem.clip:
            return _largest_loss(task)
        return LmnSearch(task).run()


def _largest_loss(task: Task) -> Answer:
    """Half of the budget for a misclassified point within eps, the other half for the largest loss, from there."""
    answer = LmnSearch(replace(task, budget=task.budget // 2)).run()
    points, _ = climb(task, answer.points, (task.budget - task.budget // 2) // 2)
    # What the search saw misclassified are its own points, which these are not.
    return Answer(points, replace(answer.diagnostics, seen=None))


class LmnSearch(LinearisedSearch):
    """A min-radius search; max-loss is the same search after a few steps of its own, ended at eps."""

    def run(self, plan: Sequence[Stage] | None = None) -> Answer:
        """The nearest misclassified points seen; the images themselves where there is none.

        Stages are made from the budget, unless there is a plan.
        """
        limit = self.passes() + self.task.budget
        logits = self.task.model.logits(self.task.images, self.task.samples)
        classes = 2 if self.task.problem.targeted else logits.shape[1]
        budget = self.task.budget - (self.task.known is not None)  # a look at what is known
        if plan is None and self.eps is None:
            parts = endless(self.metric, budget, classes)
            if parts is not None:
                self.begin(self.choose_targets(logits, parts.first[0].targets))
                return until_converged(self, parts, limit)
        if self.eps is not None:
            budget -= farthest_points.passes(self.metric)
        plan = plan or stages(self.metric, budget, classes)
        self.begin(self.choose_targets(logits, max(stage.targets for stage in plan)))
        if self.eps is not None:
            farthest_points.try_farthest_points(self)
        return self.run_stages(plan)
