"""What an evaluation returns."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from pwcf._common import later, statistics
from pwcf._common.status import Status
from pwcf._common.text import brief
from pwcf._common.usual_eps import usual_eps
from pwcf._common.wording import (
    clean_text,
    gain_text,
    largest_loss_text,
    nearest_text,
    radius_text,
    robust_text,
    share_text,
    status_text,
    sweep_text,
)
from pwcf.attacks import Attack
from pwcf.models import Classifier, Passes
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
class Asked:
    """What an evaluation was about, beside its question: with it a run can be saved, shown and searched again."""

    classifier: Classifier | None
    """None in a copy of the run, or one from a pickle: models do not go along"""
    images: Tensor
    """(n, ...) the user's own, no copy"""
    labels: Tensor
    """(n,) int64"""
    bounds: tuple[float, float]
    attacks: list[Attack]
    budgets: list[int]
    """passes per sample, of each attack"""
    seed: int
    stop: str
    tol: float
    eight_bit: bool
    batch: int

    def select(self, rows: Tensor) -> Asked:
        """What was asked about some of the samples (m,)."""
        here = rows.to(self.images.device)
        return replace(self, images=self.images[here], labels=self.labels[here])

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "classifier": None, "attacks": []}


@dataclass(frozen=True, repr=False)
class Run:
    """The answers to one question about n samples; every adversarial point was verified."""

    problem: Problem
    radius: Tensor
    """(n,) float64 distance of ``x_adv``; inf where none was found, 0 where the model is wrong as it is"""
    adversarial: Tensor
    """(n,) bool"""
    x_adv: Tensor
    """(n, ...) equal to the images where none was found; where the status is ``CONTRADICTED`` the nearest point that
    the search saw misclassified"""
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
    """(n,) float64 the loss at ``x_adv``: that of the question, or the margin. Max-loss, where no point was found: the
    largest one that was seen within eps, of a wanted class the least"""
    nearest: Tensor
    """(n,) float64 the least distance of a misclassified point that was seen; in max-loss it may be beyond eps, which
    says how near the search came. inf where none was seen"""
    asked: Asked | None = field(default=None, kw_only=True)
    """images, labels, model and settings; None in a run that was read from disk"""

    def select(self, rows: Tensor) -> Run:
        """The answers about some of the samples (m,), by their places."""
        here = rows.to(self.x_adv.device)
        evidence = {name: values[rows] for name, values in vars(self.evidence).items()}
        problem = self.problem
        if isinstance(problem, MaxLoss) and isinstance(problem.eps, Tensor) and problem.eps.dim() == 1:
            eps = problem.eps[rows.to(problem.eps.device)]
            problem = MaxLoss(problem.metric, eps, problem.loss, targeted=problem.targeted, clip=problem.clip)
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
            asked=None if self.asked is None else self.asked.select(rows),
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
        try:
            within = float(eps)
        except (TypeError, ValueError):
            raise TypeError(f"eps: expected a number, found {brief(eps)}") from None
        return statistics.robust_accuracy_at(self._status_values, self.radius.cpu().numpy(), within)

    def save(self, folder: str | os.PathLike[str], *, model: str | None = None, classes: Sequence[str] = ()) -> Path:
        """Write the run to a folder, as ``pwcf run`` does: ``pwcf.load_run`` and the commands that read runs open it.

        The images lie in the folder, too. The model does not: the run cannot be continued, and ``pwcf verify`` needs
        ``--model``.

        Args:
            folder: made if it is not there; one that has files is refused.
            model: what the model is called; default: the name of its class or function.
            classes: names of the classes.

        Returns:
            The folder.
        """
        path: Path = later.call("save", self, folder, model=model, classes=classes)
        return path

    def report(self, path: str | os.PathLike[str], *, title: str | None = None, gallery: int | None = None) -> Path:
        """Write one HTML file about the run, which needs nothing else; ``pwcf.report.write_page`` takes several runs.

        Args:
            path: of the file.
            title: of the page; default: the model's name.
            gallery: samples shown at most; default: 500, or as many as keep the file below 10 MB.

        Returns:
            The path.
        """
        written: Path = later.call("report", self, path, title=title, gallery=gallery)
        return written

    def __repr__(self) -> str:
        """The numbers that one quotes, in a line; ``summary()`` says more."""
        status = self._status_values
        attacked, found = self._masks().values()
        told = [f"{len(status)} samples", f"points found for {int(found.sum())} of {int(attacked.sum())} attacked"]
        if isinstance(self.problem, MaxLoss):
            told.append(f"robust accuracy {share_text(self.robust_accuracy)}")
        elif attacked.any():
            told.append(
                f"median radius of the attacked {statistics.median_radius(status, self.radius.cpu().numpy()):.4g}"
            )
        return f"<{type(self).__name__}: {self.problem}: {', '.join(told)}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: the headline of the page, and a few examples."""
        text: str = later.call("html", self)
        return text

    def to_pandas(self) -> pandas.DataFrame:
        """A row for every sample (needs pandas).

        Returns:
            Columns ``attacked`` and ``found`` say over which samples statistics are: the mean radius is that of
            ``frame.radius[frame.found]``, the median that of ``frame.radius[frame.attacked]``. ``label``,
            ``clean_label`` and ``adversarial_label`` are the label, and the classes that the model gives the image and
            ``x_adv``.
        """
        import pandas

        columns = {
            **self._labels(),
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
            "loss": self.loss.cpu().numpy(),
            "nearest": self.nearest.cpu().numpy(),
        }
        return pandas.DataFrame(columns)

    def _labels(self) -> dict[str, Any]:
        """Columns of labels and predictions, as far as the run knows them."""
        known = {} if self.asked is None else {"label": self.asked.labels}
        if self.logits.shape[1]:
            known |= {"clean_label": self.clean_logits.argmax(1), "adversarial_label": self.logits.argmax(1)}
        return {name: labels.cpu().numpy() for name, labels in known.items()}

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

    def largest_loss(self) -> dict[str, float]:
        """Max-loss: how far the search drove the loss within eps on the samples that it did not break.

        Returns:
            ``samples``, the ``median`` of their losses and the one ``nearest`` to an answer; empty in min-radius, and
            where all are broken.
        """
        if not isinstance(self.problem, MaxLoss):
            return {}
        columns = self.adversarial.cpu().numpy(), self.loss.cpu().numpy()
        return statistics.largest_loss(self._status_values, *columns, self.problem.targeted)

    def _told_eps(self) -> list[float]:
        """Where the summary of a min-radius run tells its robust accuracy."""
        status, bounds = self._status_values, (0.0, 1.0) if self.asked is None else self.asked.bounds
        radii = self.radius.cpu().numpy()[statistics.attacked(status)]
        return usual_eps(self.problem.metric.name, self.x_adv.shape[1:], bounds, [radii])

    def summary(self) -> str:
        """A few lines for a person; the numbers are those of ``pwcf show``."""
        status, targeted = self._status_values, self.problem.targeted
        lines = [f"{self.problem}: {len(status)} samples, {clean_text(self.clean_accuracy, targeted)}"]
        attacked, found = self._masks().values()
        lines.append(f"  adversarial points found and verified: {int(found.sum())} of {int(attacked.sum())} attacked")
        if isinstance(self.problem, MaxLoss):
            lines.append(f"  {robust_text(targeted)} {share_text(self.robust_accuracy)}")
            if near := self.nearest_seen():
                lines.append(f"  {nearest_text(near)}")
            if seen := self.largest_loss():
                lines.append(f"  {largest_loss_text(seen, self.problem.loss, targeted)}")
        elif attacked.any():
            radii = statistics.radius_figures(status, self.adversarial.cpu().numpy(), self.radius.cpu().numpy())
            lines.append(f"  radius: {radius_text(radii, int(found.sum()), int(attacked.sum()))}")
            if eps := self._told_eps():
                shares = [self.robust_accuracy_at(each) for each in eps]
                lines.append(f"  {robust_text(targeted)}: {sweep_text(shares, eps, self.problem.metric.name)}")
            if found.any():
                lines.append(f"  evidence: {gain_text(statistics.median(self.evidence.gain.cpu().numpy()[found]))}")
        if len(self.contributions) > 1:
            lines += self._attacks()
        lines.append("  status: " + status_text(dict(Counter(status).most_common()), targeted))
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
