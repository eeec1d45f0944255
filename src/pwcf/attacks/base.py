"""What an attack is asked, and what it is: a function from a task to points."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from pwcf.metrics import ReferenceDistance
from pwcf.models import CountedClassifier
from pwcf.problems import Problem


@dataclass(frozen=True)
class Diagnostics:
    """What an attack may tell of its n samples beside their points, by writing into these. Users hear of it."""

    still_helping: Tensor
    """(n,) bool: the later restarts still found something clearly nearer"""
    unbracketed: Tensor
    """(n,) bool: a search over radii found nothing in the largest ball it tried"""

    @classmethod
    def none(cls, n: int) -> Diagnostics:
        return cls(torch.zeros(n, dtype=torch.bool), torch.zeros(n, dtype=torch.bool))


@dataclass(frozen=True)
class Task:
    """A question about n correctly classified samples (targeted: samples that are not yet of the wanted class)."""

    model: CountedClassifier
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
    known: Tensor | None = None
    """(n, ...) the nearest points other attacks have found, the images where there is none; None: nobody has looked"""
    findings: Diagnostics | None = None
    """where the attack may leave what it noticed"""

    def measure(self) -> ReferenceDistance:
        """Distances from the images, the passes of a metric's network counted beside the model's."""
        return ReferenceDistance(
            self.problem.metric, self.images, self.samples, self.model.metric_passes, self.model.batch
        )

    def select(self, rows: Tensor) -> Task:
        """The same question about some of the samples (m,), by their places in this task."""
        return replace(
            self,
            images=self.images[rows],
            labels=self.labels[rows],
            samples=self.samples[rows],
            lower=self.lower[rows],
            upper=self.upper[rows],
            eps=None if self.eps is None else self.eps[rows],
            known=None if self.known is None else self.known[rows],
            findings=None,
        )


@runtime_checkable
class Attack(Protocol):
    """One way to answer. Points are rechecked by the caller; an attack need not tell good ones from bad.

    Three things more are used where an attack has them: ``unsupported_reason(problem, classes)``, a sentence why it
    cannot answer, or None; ``about``, in words which implementation and settings it is; ``black_box``, whether it goes
    without gradients.
    """

    @property
    def name(self) -> str: ...

    def __call__(self, task: Task) -> Tensor:
        """(n, ...) the best point for every sample; the image itself where there is none."""
        ...


class CannotAnswer(ValueError):
    """None of the attacks that were asked for can answer the question; the message says why."""


def check_settings(attack: object, *names: str, least: int = 1) -> None:
    """Raise where one of these settings is neither None, for what the budget allows, nor a count."""
    for name in names:
        value = getattr(attack, name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
            raise ValueError(f"{name}: expected an integer >= {least} or None, found {value!r}")


def needs_slope(problem: Problem) -> str | None:
    """Why an attack that follows the distance's slope cannot answer; None if it can."""
    metric = problem.metric
    return None if metric.differentiable else f"{metric.name} has no slope; 'sigma-zero' answers for l0."
