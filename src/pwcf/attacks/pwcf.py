"""``"pwcf"``: the best we have, for any metric."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from pwcf.attacks.attack import Task
from pwcf.attacks.linearised.search import Search


@dataclass(frozen=True)
class Pwcf:
    """The linearised method: exact steps where the metric has structure, along its gradient where it has none."""

    name: str = "pwcf"

    def __call__(self, task: Task) -> Tensor:
        return Search(task).run()
