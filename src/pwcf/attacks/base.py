"""What an attack is given, what it returns, and the base class of all attacks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from pwcf._common.status import Status
from pwcf.attacks.agreement import Searches
from pwcf.losses import mask_label
from pwcf.metrics import ReferenceDistance
from pwcf.models import CountedClassifier
from pwcf.problems import Problem

Stop = Literal["converged", "budget"]


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
    stop: Stop = "budget"
    """"converged": a sample whose search has converged stops; "budget": all samples use their budget up"""
    tol: float = 1e-2
    """a search has converged where it is likely to gain no more than this share of the radius"""
    known: Tensor | None = None
    """(n, ...) the nearest points other attacks have found, the images where there is none; None: nobody has looked"""

    def measure(self) -> ReferenceDistance:
        """Distances from the images; passes of a metric's network are counted beside the model's."""
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
        )


@dataclass(frozen=True)
class SolverEnd:
    """How an iterative solver with a stopping test of its own ended on n samples."""

    status: list[Status]
    """which test ended it"""
    stationarity: Tensor
    """(n,) by what share the objective could fall if linear models around its answer held"""
    violation: Tensor
    """(n,) of the constraints at its answer, unscaled"""

    @classmethod
    def joined(cls, ends: Sequence[SolverEnd]) -> SolverEnd | None:
        """The ends of all samples, from those of some at a time; None of none."""
        if not ends:
            return None
        status = [one for end in ends for one in end.status]
        numbers = (torch.cat([getattr(end, name) for end in ends]) for name in ("stationarity", "violation"))
        return cls(status, *numbers)


@dataclass(frozen=True)
class Diagnostics:
    """What an attack noticed about its n samples. ``evaluate`` turns it into warnings. None: it does not look."""

    still_helping: Tensor | None = None
    """(n,) bool: the later restarts still found something clearly nearer"""
    unbracketed: Tensor | None = None
    """(n,) bool: a search over radii found nothing in the largest ball it tried"""
    searches: Searches | None = None
    """the ends of its independent searches"""
    linear: Tensor | None = None
    """(n,) bool: between the image and the point the model is linear, as far as it was looked at"""
    seen: Tensor | None = None
    """(n,) bool: the attack saw the model misclassify the point it returns"""
    nearest: Tensor | None = None
    """(n,) max-loss: the least distance of a misclassified point that was seen, within eps or not; inf if none was"""
    solver: SolverEnd | None = None
    """how its solver ended, if its answers are those of a solver that tells"""


@dataclass(frozen=True)
class Answer:
    """What an attack returns for a task of n samples.

    Args:
        points: (n, ...) the best point for every sample; the image itself where there is none. The caller rechecks
            them, so an attack need not tell good points from bad ones.
        diagnostics: what the attack noticed on the way.
    """

    points: Tensor
    diagnostics: Diagnostics = Diagnostics()


class Attack(ABC):
    """One way to answer a question. Subclasses have a ``name`` and define ``__call__``; the rest has defaults."""

    name: str
    """what tables call it; attacks of one evaluation have names that differ"""
    black_box: bool = False
    """whether it goes without gradients"""
    converges: bool = False
    """whether it can tell that a sample's search has converged, and stop there"""

    @property
    def about(self) -> str:
        """Which implementation it is, with its settings, in words."""
        return type(self).__name__

    def unsupported_reason(self, problem: Problem, classes: int | None) -> str | None:
        """Why the attack cannot answer such a problem, in a sentence; None if it can.

        Args:
            problem: the question.
            classes: how many classes the model has; None where that is not known.
        """
        return None

    @abstractmethod
    def __call__(self, task: Task) -> Answer:
        """Search for the nearest misclassified points, or in max-loss for some within eps.

        Args:
            task: n samples and what is asked about them, with the budget and the seed.

        Returns:
            Points (n, ...) and diagnostics.
        """


class CannotAnswer(ValueError):
    """An attack that was named, or every attack of a preset, cannot answer the question; the message says why."""


def check_settings(attack: object, *names: str, least: int = 1) -> None:
    """Raise where one of these settings is neither None, for what the budget allows, nor a count."""
    for name in names:
        value = getattr(attack, name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
            raise ValueError(f"{name}: expected an integer >= {least} or None, found {value!r}")


def needs_methods(attack: str, problem: Problem, **methods: type) -> str | None:
    """Why an attack that needs these methods of the metric cannot answer, in a sentence; None if it can.

    Args:
        attack: its name.
        problem: the question.
        methods: the names of the methods, each with the capability of ``pwcf.metrics`` that has it.
    """
    metric = problem.metric
    missing = [name for name, capability in methods.items() if not isinstance(metric, capability)]
    return f"{attack} needs a metric with {' and '.join(missing)}; {metric.name} offers none." if missing else None


def needs_slope(problem: Problem) -> str | None:
    """Why an attack that follows the distance's slope cannot answer; None if it can."""
    metric = problem.metric
    return None if metric.differentiable else f"{metric.name} is not differentiable; use 'sigma-zero' for l0."


ANY = -1
"""In place of a class: whichever other class is nearest in logits where the row is now."""


def resolve_targets(logits: Tensor, labels: Tensor, targets: Tensor) -> Tensor:
    """(r,) the targets (r,), and where these are ANY the class with the largest logit beside the label's."""
    return torch.where(targets == ANY, mask_label(logits, labels).argmax(1), targets)
