"""Functions in the manner of adversarial-library: a model, inputs and labels in, a tensor of points out."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from pwcf.evaluation import evaluate
from pwcf.metrics import lp
from pwcf.models import Classifier
from pwcf.problems import MaxLoss, MinRadius

__all__ = ["pwcf_max", "pwcf_min"]

Model = Callable[[Tensor], Tensor] | Classifier


def pwcf_min(
    model: Model,
    inputs: Tensor,
    labels: Tensor,
    norm: float,
    targeted: bool = False,
    budget: int = 2000,
    seed: int = 0,
) -> Tensor:
    """The nearest adversarial points (n, ...), as ``fmn`` or ``alma`` would give them.

    Args:
        model: from inputs in [0, 1] to logits.
        labels: (n,) the true classes; if ``targeted`` the wanted ones.
        norm: a number p >= 1, ``float("inf")`` included.
        budget: forward + backward passes per sample.

    Returns:
        Verified points; the inputs themselves where none was found.
    """
    return evaluate(model, inputs, labels, MinRadius(lp(norm), targeted=targeted), budget=budget, seed=seed).x_adv


def pwcf_max(
    model: Model,
    inputs: Tensor,
    labels: Tensor,
    eps: float | Tensor,
    norm: float,
    targeted: bool = False,
    budget: int = 2000,
    seed: int = 0,
) -> Tensor:
    """Adversarial points (n, ...) within eps, a number or one per sample (n,), as ``apgd`` would give them.

    Other arguments and what is returned are as for ``pwcf_min``.
    """
    return evaluate(model, inputs, labels, MaxLoss(lp(norm), eps, targeted=targeted), budget=budget, seed=seed).x_adv
