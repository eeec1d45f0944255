"""What an evaluation returns."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import torch
from torch import Tensor

from pwcf.models import Passes
from pwcf.problems import MaxLoss, Problem
from pwcf.solvers import Status
from pwcf.verify import AnswerEvidence


@dataclass(frozen=True)
class Run:
    """The answers to one question about n samples; every adversarial point was verified."""

    problem: Problem
    radius: Tensor
    """(n,) float64 distance of ``x_adv``; inf where none was found, 0 where the model is wrong as it is"""
    adversarial: Tensor
    """(n,) bool"""
    x_adv: Tensor
    """(n, ...) equal to the images where none was found"""
    status: list[Status]
    evidence: AnswerEvidence
    passes: Passes
    attack: list[str]
    """(n,) which attack found the point; "" where none did"""
    seconds: float
    warnings: list[str]
    """what looked wrong with the model, in sentences"""

    @property
    def robust_accuracy(self) -> float:
        """Max-loss: share of all samples without an adversarial point; clean mistakes count as broken."""
        if not isinstance(self.problem, MaxLoss):
            raise AttributeError("robust_accuracy: needs an eps; use MaxLoss, or robust_accuracy_at(eps)")
        return float((~self.adversarial & self._defined).double().mean())

    @property
    def clean_accuracy(self) -> float:
        """Share of samples that are classified correctly as they are; targeted, that are not of the wanted class."""
        right = [status not in (Status.ALREADY_MISCLASSIFIED, Status.NONFINITE) for status in self.status]
        return sum(right) / max(len(right), 1)

    @property
    def _defined(self) -> Tensor:
        """(n,) whether the model gave logits at all. Where it did not it is not right, and not robust."""
        return torch.tensor([status is not Status.NONFINITE for status in self.status], dtype=torch.bool)

    def robust_accuracy_at(self, eps: float) -> float:
        """Share of samples whose radius is above eps: one min-radius run answers for every eps."""
        return float(((self.radius > eps) & self._defined).double().mean())

    def summary(self) -> str:
        """A few lines for a person."""
        n = len(self.status)
        clean = "not yet of the wanted class" if self.problem.targeted else "clean accuracy"
        lines = [f"{self.problem}: {n} samples, {clean} {self.clean_accuracy:.1%}"]
        attacked = torch.tensor([s is not Status.ALREADY_MISCLASSIFIED for s in self.status], dtype=torch.bool)
        attacked &= self._defined
        found = self.adversarial & attacked
        lines.append(f"  adversarial points found and verified: {int(found.sum())} of {int(attacked.sum())} attacked")
        if isinstance(self.problem, MaxLoss):
            lines.append(f"  robust accuracy {self.robust_accuracy:.1%}")
        elif bool(found.any()):
            r = self.radius[found]
            lines.append(
                f"  radius: mean {r.mean():.4g}, median {r.median():.4g}, least {r.min():.4g}, largest {r.max():.4g}"
            )
            lines.append(
                f"  evidence: stationarity median {self.evidence.stationarity[found].median():.2g}; nearby the radius "
                f"could still shrink by {self.evidence.shrink[found].median():.2%} (median)"
            )
        winners = Counter(name for name in self.attack if name)
        if len(winners) > 1:
            lines.append("  found by: " + ", ".join(f"{name} {count}" for name, count in winners.most_common()))
        states = Counter(status.value for status in self.status)
        lines.append("  status: " + ", ".join(f"{name} {count}" for name, count in states.most_common()))
        if bool(attacked.any()):
            total = self.passes.total[attacked].double().mean()
            lines.append(f"  passes per attacked sample: {total:.0f}; {self.seconds:.1f} s in all")
        lines += [f"  warning: {sentence}" for sentence in self.warnings]
        return "\n".join(lines)
