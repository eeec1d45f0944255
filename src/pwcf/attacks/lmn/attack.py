"""``"lmn"``, linearised minimum norm: the linearised search, with restarts until independent searches agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pwcf.attacks.ascent import climb
from pwcf.attacks.base import Answer, Attack, Task, needs_slope
from pwcf.attacks.linearised.schedule import Stage, endless
from pwcf.attacks.linearised.search import LinearisedSearch
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
    """The linearised search; min-radius goes on until it has converged."""

    def run(self, plan: Sequence[Stage] | None = None) -> Answer:
        if plan is None and self.eps is None:
            limit = self.passes() + self.task.budget
            parts = endless(self.metric, self.budget, self.classes)
            if parts is not None:
                self.begin(parts.first[0].targets)
                return until_converged(self, parts, limit)
        return super().run(plan)
