"""What an evaluation returns."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from pwcf._common import statistics
from pwcf._common.status import Status
from pwcf._common.wording import gain_text, nearest_text, share_text
from pwcf.models import Passes
from pwcf.problems import MaxLoss, Problem
from pwcf.verify import AnswerEvidence

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Contribution:
    """What one attack found. In min-radius those after the first may go on from what the others have found."""

    name: str
    about: str
    """which implementation it is, with its version and settings as far as it tells them"""
    black_box: bool
    radius: Tensor
    """(n,) float64 distance of its verified point; inf where it found none beside what it was told, NaN where it was
    not asked"""
    passes: Tensor
    """(n,) int64 forward + backward passes it took, the verification of its points included"""
    seconds: float

    @property
    def found(self) -> Tensor:
        """(n,) bool"""
        return torch.isfinite(self.radius)

    @property
    def asked(self) -> Tensor:
        """(n,) bool: not where the model was wrong already, nor in max-loss what others had broken before"""
        return ~torch.isnan(self.radius)


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
    metric_passes: Passes
    """of the network that measures the distance, if there is one: no part of the budget"""
    attack: list[str]
    """(n,) which attack found the point; "clean" where the model is wrong as it is, "" where none was found"""
    seconds: float
    warnings: list[str]
    """what looked wrong with the model or its answers, in sentences"""
    contributions: list[Contribution]
    """what every attack found, in the order they were asked"""
    clean_logits: Tensor
    """(n, classes) what the model says of the images, in its own dtype, on the CPU; (n, 0) in a run that was read from
    disk, and where there are no images to ask the model about"""
    logits: Tensor
    """(n, classes) what it said of ``x_adv`` when the points were verified, each in a call of its own; where x_adv is
    the image, ``clean_logits``"""
    loss: Tensor
    """(n,) float64 the loss at ``x_adv``: that of the question, or the margin"""
    nearest: Tensor
    """(n,) float64 the least distance of a misclassified point that was seen; in max-loss it may be beyond eps, which
    says how near the search came. inf where none was seen"""

    def select(self, rows: Tensor) -> Run:
        """The answers about some of the samples (m,), by their places."""
        here = rows.to(self.x_adv.device)
        evidence = {name: values[rows] for name, values in vars(self.evidence).items()}
        problem = self.problem
        if isinstance(problem, MaxLoss) and isinstance(problem.eps, Tensor) and problem.eps.dim() == 1:
            eps = problem.eps[rows.to(problem.eps.device)]
            problem = MaxLoss(problem.metric, eps, problem.loss, targeted=problem.targeted)
        return replace(
            self,
            problem=problem,
            radius=self.radius[rows],
            adversarial=self.adversarial[rows],
            x_adv=self.x_adv[here],
            status=[self.status[i] for i in rows.tolist()],
            evidence=replace(self.evidence, **evidence),
            passes=self.passes.select(rows),
            metric_passes=self.metric_passes.select(rows),
            attack=[self.attack[i] for i in rows.tolist()],
            clean_logits=self.clean_logits[rows],
            logits=self.logits[rows],
            loss=self.loss[rows],
            nearest=self.nearest[rows],
            contributions=[replace(c, radius=c.radius[rows], passes=c.passes[rows]) for c in self.contributions],
        )

    @property
    def robust_accuracy(self) -> float:
        """Max-loss: share of all samples without an adversarial point; clean mistakes count as broken."""
        if not isinstance(self.problem, MaxLoss):
            raise AttributeError("robust_accuracy: needs an eps; use MaxLoss, or robust_accuracy_at(eps)")
        return statistics.robust_accuracy(self._status_values, self.adversarial.cpu().numpy())

    @property
    def clean_accuracy(self) -> float:
        """Share of samples classified correctly as they are; targeted: not yet of the wanted class."""
        return statistics.clean_accuracy(self._status_values)

    @property
    def _status_values(self) -> list[str]:
        return [status.value for status in self.status]

    def robust_accuracy_at(self, eps: float) -> float:
        """Share of samples whose radius is above eps: one min-radius run answers for every eps."""
        return statistics.robust_accuracy_at(self._status_values, self.radius.cpu().numpy(), eps)

    def to_pandas(self) -> pandas.DataFrame:
        """A row for every sample (needs pandas).

        Returns:
            Columns ``attacked`` and ``found`` say over which samples statistics are: the mean radius is that of
            ``frame.radius[frame.found]``, the median that of ``frame.radius[frame.attacked]``.
        """
        import pandas

        columns = {
            "status": self._status_values,
            **self._masks(),
            "adversarial": self.adversarial.cpu().numpy(),
            "radius": self.radius.cpu().numpy(),
            **{name: values.cpu().numpy() for name, values in vars(self.evidence).items()},
            "forward": self.passes.forward.numpy(),
            "backward": self.passes.backward.numpy(),
            "metric_forward": self.metric_passes.forward.numpy(),
            "metric_backward": self.metric_passes.backward.numpy(),
            "attack": self.attack,
        }
        return pandas.DataFrame(columns)

    def _masks(self) -> dict[str, Any]:
        """Columns of a DataFrame beside those that a folder keeps."""
        status = self._status_values
        return {
            "attacked": statistics.attacked(status),
            "found": statistics.found(status, self.adversarial.cpu().numpy()),
        }

    def nearest_seen(self) -> dict[str, float]:
        """Max-loss: how near the search came to the samples that it did not break, in eps, and how many searches agree.

        Returns:
            ``samples``, ``median``, ``least``, ``agreement`` and ``searches``; empty in min-radius, and where no
            misclassified point of any such sample was seen.
        """
        if not isinstance(self.problem, MaxLoss):
            return {}
        near = (self.nearest, self.problem.radii(len(self.status)), self.evidence.agreement, self.evidence.searches)
        columns = (values.cpu().numpy() for values in near)
        return statistics.nearest_seen(self._status_values, self.adversarial.cpu().numpy(), *columns)

    def summary(self) -> str:
        """A few lines for a person; the numbers are those of ``pwcf show``."""
        status, radius = self._status_values, self.radius.cpu().numpy()
        clean = "not yet of the wanted class" if self.problem.targeted else "clean accuracy"
        lines = [f"{self.problem}: {len(status)} samples, {clean} {share_text(self.clean_accuracy)}"]
        attacked, found = self._masks().values()
        lines.append(f"  adversarial points found and verified: {int(found.sum())} of {int(attacked.sum())} attacked")
        if isinstance(self.problem, MaxLoss):
            lines.append(f"  robust accuracy {share_text(self.robust_accuracy)}")
            if near := self.nearest_seen():
                lines.append(f"  {nearest_text(near)}")
        elif found.any():
            mean = statistics.mean_radius(status, self.adversarial.cpu().numpy(), radius)
            median, nearest = statistics.median_radius(status, radius), radius[found]
            lines.append(
                f"  radius: mean {mean:.4g}, median {median:.4g}, least {nearest.min():.4g}, "
                f"largest {nearest.max():.4g}"
            )
            lines.append(f"  evidence: {gain_text(statistics.median(self.evidence.gain.cpu().numpy()[found]))}")
        if len(self.contributions) > 1:
            lines += self._attacks()
        states = Counter(status)
        lines.append("  status: " + ", ".join(f"{name} {count}" for name, count in states.most_common()))
        if attacked.any():
            total = statistics.mean_passes(status, self.passes.total.cpu().numpy())
            lines.append(f"  passes per attacked sample: {total:.0f}; {self.seconds:.1f} s in all")
        if self.problem.metric.about:
            lines.append(f"  distance: {self.problem.metric.about}")
        if attacked.any() and self.problem.metric.network:
            own = statistics.mean_passes(status, self.metric_passes.total.cpu().numpy())
            lines.append(f"  passes of its network per attacked sample: {own:.0f}")
        lines += [f"  warning: {sentence}" for sentence in self.warnings]
        return "\n".join(lines)

    def _attacks(self) -> list[str]:
        """A line for each attack: what it found of what it was asked, and how often it was the best."""
        width = max(len(each.name) for each in self.contributions)
        best = Counter(self.attack)
        lines = [f"  {'attack':{width}}  asked  found   best  passes  seconds"]
        for each in self.contributions:
            asked = int(each.asked.sum())
            passes = float(each.passes[each.asked].double().mean()) if asked else 0.0
            lines.append(
                f"  {each.name:{width}} {asked:6d} {int(each.found.sum()):6d} {best[each.name]:6d} {passes:7.0f} "
                f"{each.seconds:8.1f}"
            )
        return lines
