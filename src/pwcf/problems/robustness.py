"""The two questions about a classifier and an input (paper, eqs. max-loss and min-radius).

A problem says what is asked and what counts as an answer. It does not say how the answer is found.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pwcf._common.wording import question_text
from pwcf.losses import as_loss, margin
from pwcf.metrics import Distance, Metric, as_metric
from pwcf.models import Classifier

# Distances are sums of many terms; a point this much beyond eps (relative) is at eps.
EPS_SLACK = 1e-6
# Logits are sums whose order depends on the batch: they differ by a few dozen units in the last place.
ROUNDING = 32


@dataclass(frozen=True, init=False)
class MinRadius:
    """The distance to the nearest misclassified point.

    min d(x, x')  s.t.  max_{i != y} f_i(x') > f_y(x'),  x' in bounds.

    Args:
        metric: "l1", "l2", "linf", "l1.5", ..., a metric, or a function d(reference, candidate) -> (b,).
        targeted: labels are the wanted classes; the nearest point that the model gives that label is sought.
    """

    metric: Metric
    targeted: bool

    def __init__(self, metric: str | Metric | Distance, *, targeted: bool = False) -> None:
        object.__setattr__(self, "metric", as_metric(metric))
        object.__setattr__(self, "targeted", bool(targeted))

    def __str__(self) -> str:
        return f"min-radius, {question_text(self.metric.name, targeted=self.targeted)}"

    def bind(self, classifier: Classifier) -> MinRadius:
        """The question about this classifier, which some metrics measure with."""
        return MinRadius(self.metric.bind(classifier), targeted=self.targeted)

    def allows(self, distance: Tensor, eps: Tensor | None = None) -> Tensor:
        """(b,) whether an answer may lie at this distance: anywhere."""
        return torch.isfinite(distance)


@dataclass(frozen=True, init=False, eq=False)
class MaxLoss:
    """The worst loss within eps:  max l(y, f(x'))  s.t.  d(x, x') <= eps,  x' in bounds.

    Args:
        metric: as for ``MinRadius``.
        eps: a number, or one per sample, >= 0.
        loss: "margin", "ce" (cross-entropy) or "dlr".
        targeted: labels are the wanted classes.
    """

    metric: Metric
    eps: float | Tensor
    loss: str
    targeted: bool

    def __init__(
        self,
        metric: str | Metric | Distance,
        eps: float | Tensor,
        loss: str = "margin",
        *,
        targeted: bool = False,
    ) -> None:
        if isinstance(eps, bool) or not isinstance(eps, (int, float, Tensor)):
            raise TypeError(f"eps: expected a number or a tensor (n,), found {type(eps).__name__}")
        values = torch.as_tensor(eps, dtype=torch.float64)
        if values.dim() > 1 or not bool(((values >= 0) & torch.isfinite(values)).all()):
            raise ValueError(f"eps: expected finite values >= 0, a number or a tensor (n,), found {eps!r}")
        as_loss(loss)
        object.__setattr__(self, "metric", as_metric(metric))
        object.__setattr__(self, "eps", eps if isinstance(eps, Tensor) else float(eps))
        object.__setattr__(self, "loss", loss)
        object.__setattr__(self, "targeted", bool(targeted))

    def __str__(self) -> str:
        eps = self.eps if isinstance(self.eps, float) else None
        return f"max-loss, {question_text(self.metric.name, eps, self.loss, self.targeted, per_sample=eps is None)}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MaxLoss):
            return NotImplemented
        same = torch.equal(torch.as_tensor(self.eps), torch.as_tensor(other.eps))
        return same and (self.metric, self.loss, self.targeted) == (other.metric, other.loss, other.targeted)

    __hash__ = None  # type: ignore[assignment]

    def radii(self, n: int) -> Tensor:
        """(n,) float64: eps of every sample."""
        eps = torch.as_tensor(self.eps, dtype=torch.float64)
        if eps.dim() == 1 and eps.shape[0] != n:
            raise ValueError(f"eps: expected a number or {n} values, one per sample, found {eps.shape[0]}")
        return eps.expand(n).cpu()

    def bind(self, classifier: Classifier) -> MaxLoss:
        """The question about this classifier, which some metrics measure with."""
        return MaxLoss(self.metric.bind(classifier), self.eps, self.loss, targeted=self.targeted)

    def allows(self, distance: Tensor, eps: Tensor | None = None) -> Tensor:
        """(b,) whether an answer may lie at this distance (float64): of all samples, or of some with these ``eps``."""
        eps = self.radii(distance.shape[0]) if eps is None else eps
        return distance <= eps.to(distance.device) * (1 + EPS_SLACK)


Problem = MinRadius | MaxLoss


def is_defined(logits: Tensor) -> Tensor:
    """(b,) whether the logits decide on a class. A class that is ruled out (-inf) is no harm."""
    return ~(torch.isnan(logits) | (logits == torch.inf)).any(1)


def is_wrong(logits: Tensor, labels: Tensor, targeted: bool) -> Tensor:
    """(b,) whether the logits are what an attack wants, strictly: a tie is still the right class, and NaN is none."""
    loss = margin(logits, labels)
    return (loss < 0 if targeted else loss > 0) & is_defined(logits)


def is_surely_wrong(logits: Tensor, labels: Tensor, targeted: bool, terms: Tensor | None = None) -> Tensor:
    """(b,) the same by more than rounding: still so when the model computes the sample in another batch.

    ``terms`` (b,): how large the terms are whose sum a logit is, where that is known. They may be much larger.
    """
    return is_wrong(logits, labels, targeted) & ~is_tied(logits, labels, terms)


def is_tied(logits: Tensor, labels: Tensor, terms: Tensor | None = None) -> Tensor:
    """(b,) whether rounding decides if the label is the class."""
    eps = torch.finfo(logits.dtype).eps
    slack = ROUNDING * eps * torch.where(torch.isfinite(logits), logits, 0).abs().amax(1)
    if terms is not None:
        slack = slack + eps * terms
    return margin(logits, labels).abs() <= slack
