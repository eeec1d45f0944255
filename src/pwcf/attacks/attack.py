"""What an attack is asked, and what it is: a function from a task to points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor

from pwcf.models import Counted
from pwcf.problems import Problem


@dataclass(frozen=True)
class Task:
    """A question about n correctly classified samples (targeted: samples that are not yet of the wanted class)."""

    model: Counted
    """counts passes under the numbers in ``samples``"""
    problem: Problem
    images: Tensor
    """(n, ...)"""
    labels: Tensor
    """(n,) the true classes; if ``problem.targeted`` the wanted ones"""
    samples: Tensor
    """(n,) the samples' numbers in the whole evaluation"""
    lower: Tensor
    """(n, ...) the least value of every entry: the bounds, and the image itself where it must not change"""
    upper: Tensor
    """(n, ...)"""
    eps: Tensor | None
    """(n,) float64 for max-loss, None for min-radius"""
    budget: int
    """forward + backward passes per sample this attack may spend"""
    seed: int


@runtime_checkable
class Attack(Protocol):
    """One way to answer. Points are rechecked by the caller; an attack need not tell good ones from bad."""

    @property
    def name(self) -> str: ...

    def __call__(self, task: Task) -> Tensor:
        """(n, ...) the best point for every sample; the image itself where there is none."""
        ...
