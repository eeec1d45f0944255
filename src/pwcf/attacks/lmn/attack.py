"""``"lmn"``: the best we have, for any metric."""

from __future__ import annotations

from dataclasses import dataclass

from pwcf.attacks.base import Answer, Attack, Task, needs_slope
from pwcf.attacks.lmn.search import Search
from pwcf.problems import Problem


@dataclass(frozen=True)
class Lmn(Attack):
    """The linearised method: exact steps where the metric has structure, along its gradient where it has none."""

    name: str = "lmn"

    @property
    def about(self) -> str:
        return "pwcf's linearised method"

    def unsupported_reason(self, problem: Problem, classes: int | None) -> str | None:
        return needs_slope(problem)

    def __call__(self, task: Task) -> Answer:
        return Search(task).run()
