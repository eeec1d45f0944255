"""The two robustness problems of a classifier and an input (paper, eqs. max-loss and min-radius).

A problem states the objective and what counts as an answer. Attacks decide how to solve it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pwcf._common.text import brief
from pwcf._common.wording import question_text
from pwcf.losses import as_loss, margin
from pwcf.metrics import Distance, Metric, as_metric
from pwcf.models import Classifier

# Distances are sums of many terms with rounding errors: a point counts as within eps up to this relative excess.
EPS_SLACK = 1e-6
# Logits are sums whose order depends on the batch: they differ by a few dozen units in the last place.
ROUNDING = 32


@dataclass(frozen=True, init=False)
class MinRadius:
    """The distance to the nearest misclassified point.

    min d(x, x')  s.t.  max_{i != y} f_i(x') > f_y(x'),  x' in bounds.

    Args:
        metric: "l1", "l2", "linf", "l1.5", ..., a metric, or a function d(reference, candidate) of two batches
            (b, ...) -> (b,).
        targeted: labels are target classes; an answer is the nearest point that the model classifies as its target.
    """

    metric: Metric
    targeted: bool

    def __init__(self, metric: str | Metric | Distance, *, targeted: bool = False) -> None:
        object.__setattr__(self, "metric", as_metric(metric))
        object.__setattr__(self, "targeted", bool(targeted))

    def __str__(self) -> str:
        return f"min-radius, {question_text(self.metric.name, targeted=self.targeted)}"

    def bind(self, classifier: Classifier) -> MinRadius:
        """Return the problem with its metric bound to a classifier; some metrics measure with its features.

        Args:
            classifier: the evaluated model.

        Returns:
            The problem with the bound metric.
        """
        return MinRadius(self.metric.bind(classifier), targeted=self.targeted)

    def allows(self, distance: Tensor, eps: Tensor | None = None) -> Tensor:
        """Return whether answers at these distances count: any finite distance does.

        Args:
            distance: (b,) float64 distances.
            eps: not used.

        Returns:
            (b,) bool.
        """
        return torch.isfinite(distance)


@dataclass(frozen=True, init=False, eq=False)
class MaxLoss:
    """The largest loss within eps.

    max l(y, f(x'))  s.t.  d(x, x') <= eps,  x' in bounds.

    Args:
        metric: as for ``MinRadius``.
        eps: the largest distance, >= 0: a number, or a tensor (n,) with one value per sample.
        loss: "margin", "ce" (cross-entropy), "dlr" or "pm" (probability margin).
        targeted: labels are target classes; an answer is a point that the model classifies as its target.
        clip: a misclassified point answers the question, however large its loss (paper, "Loss clipping"). False: the
            search goes on to the largest loss within eps it can find.
    """

    metric: Metric
    eps: float | Tensor
    loss: str
    targeted: bool
    clip: bool

    def __init__(
        self,
        metric: str | Metric | Distance,
        eps: float | Tensor,
        loss: str = "margin",
        *,
        targeted: bool = False,
        clip: bool = True,
    ) -> None:
        if isinstance(eps, bool) or not isinstance(eps, (int, float, Tensor)):
            raise TypeError(f"eps: expected a number or a tensor (n,), found {brief(eps)}")
        values = torch.as_tensor(eps, dtype=torch.float64)
        if values.dim() > 1 or not bool(((values >= 0) & torch.isfinite(values)).all()):
            raise ValueError(f"eps: expected finite values >= 0, a number or a tensor (n,), found {eps!r}")
        as_loss(loss)
        object.__setattr__(self, "metric", as_metric(metric))
        object.__setattr__(self, "eps", eps if isinstance(eps, Tensor) else float(eps))
        object.__setattr__(self, "loss", loss)
        object.__setattr__(self, "targeted", bool(targeted))
        object.__setattr__(self, "clip", bool(clip))

    def __str__(self) -> str:
        eps = self.eps if isinstance(self.eps, float) else None
        loss = self.loss if self.clip else f"largest {self.loss}"
        return f"max-loss, {question_text(self.metric.name, eps, loss, self.targeted, per_sample=eps is None)}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MaxLoss):
            return NotImplemented
        same = torch.equal(torch.as_tensor(self.eps), torch.as_tensor(other.eps))
        mine, theirs = ((p.metric, p.loss, p.targeted, p.clip) for p in (self, other))
        return same and mine == theirs

    __hash__ = None  # type: ignore[assignment]

    def radii(self, n: int) -> Tensor:
        """Return eps for every sample.

        Args:
            n: the number of samples.

        Returns:
            (n,) float64, on the CPU.
        """
        eps = torch.as_tensor(self.eps, dtype=torch.float64)
        if eps.dim() == 1 and eps.shape[0] != n:
            raise ValueError(f"eps: expected a number or {n} values, one per sample, found {eps.shape[0]}")
        return eps.expand(n).cpu()

    def bind(self, classifier: Classifier) -> MaxLoss:
        """Return the problem with its metric bound to a classifier; some metrics measure with its features.

        Args:
            classifier: the evaluated model.

        Returns:
            The problem with the bound metric.
        """
        return MaxLoss(self.metric.bind(classifier), self.eps, self.loss, targeted=self.targeted, clip=self.clip)

    def allows(self, distance: Tensor, eps: Tensor | None = None) -> Tensor:
        """Return whether answers at these distances count: those within eps, up to rounding.

        Args:
            distance: (b,) float64 distances.
            eps: (b,) the radii of these samples; None: the distances are those of all samples of the problem.

        Returns:
            (b,) bool.
        """
        eps = self.radii(distance.shape[0]) if eps is None else eps
        return distance <= eps.to(distance.device) * (1 + EPS_SLACK)


Problem = MinRadius | MaxLoss


def is_defined(logits: Tensor) -> Tensor:
    """Return whether the logits determine a class: no NaN, no +inf. A logit of -inf rules a class out and is allowed.

    Args:
        logits: (b, classes) of any floating dtype.

    Returns:
        (b,) bool.
    """
    return ~(torch.isnan(logits) | (logits == torch.inf)).any(1)


def is_wrong(logits: Tensor, labels: Tensor, targeted: bool) -> Tensor:
    """Return whether samples are misclassified or, if targeted, classified as their target. Ties and NaN do not count.

    Args:
        logits: (b, classes) of any floating dtype.
        labels: (b,) true classes; target classes if ``targeted``.
        targeted: whether the labels are targets.

    Returns:
        (b,) bool.
    """
    loss = margin(logits, labels)
    return (loss < 0 if targeted else loss > 0) & is_defined(logits)


def is_surely_wrong(logits: Tensor, labels: Tensor, targeted: bool, terms: Tensor | None = None) -> Tensor:
    """Like ``is_wrong``, by more than rounding errors: true also when the model computes the sample in another batch.

    Args:
        logits: (b, classes) of any floating dtype.
        labels: (b,) true classes; target classes if ``targeted``.
        targeted: whether the labels are targets.
        terms: (b,) size of the terms that are summed to a logit, if known; they may be much larger than the logit.

    Returns:
        (b,) bool.
    """
    return is_wrong(logits, labels, targeted) & ~is_tied(logits, labels, terms)


def is_tied(logits: Tensor, labels: Tensor, terms: Tensor | None = None) -> Tensor:
    """Return whether the margin is so small that rounding errors decide the class.

    Args:
        logits: (b, classes) of any floating dtype.
        labels: (b,) classes.
        terms: (b,) size of the terms that are summed to a logit, if known.

    Returns:
        (b,) bool.
    """
    eps = torch.finfo(logits.dtype).eps
    slack = ROUNDING * eps * torch.where(torch.isfinite(logits), logits, 0).abs().amax(1)
    if terms is not None:
        slack = slack + eps * terms
    return margin(logits, labels).abs() <= slack
