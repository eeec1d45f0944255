"""Functions in the manner of adversarial-library: a model, inputs and labels in, a tensor of points out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from pwcf.compat.search import search
from pwcf.metrics import L0, Metric, lp
from pwcf.models import Classifier
from pwcf.problems import MaxLoss, MinRadius

__all__ = ["lmn_max", "lmn_min"]

_RENAMED = {"pwcf_min": "lmn_min", "pwcf_max": "lmn_max"}
Model = Callable[[Tensor], Tensor] | Classifier


def lmn_min(
    model: Model,
    inputs: Tensor,
    labels: Tensor,
    norm: float,
    targeted: bool = False,
    budget: int = 2000,
    seed: int = 0,
) -> Tensor:
    """The nearest adversarial points (n, ...) that lmn finds, as ``fmn`` or ``alma`` would give them.

    Args:
        model: from inputs in [0, 1] to logits.
        labels: (n,) the true classes; if ``targeted`` the wanted ones.
        norm: a number p >= 1, ``float("inf")`` included; or 0, which adv-lib's own sigma-zero minimises, or its fmn if
            ``targeted``.
        budget: forward + backward passes per sample.

    Returns:
        Verified points; the inputs themselves where none was found. Where the model answers otherwise in the
        verification than in the search (a limit on queries, randomness), the nearest point that the search saw
        misclassified, and a warning.
    """
    return search(model, inputs, labels, MinRadius(_metric(norm), targeted=targeted), budget=budget, seed=seed).x_adv


def lmn_max(
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

    Other arguments and what is returned are as for ``lmn_min``.
    """
    problem = MaxLoss(_metric(norm), eps, targeted=targeted)
    return search(model, inputs, labels, problem, budget=budget, seed=seed).x_adv


def _metric(norm: float) -> Metric:
    return L0() if norm == 0 else lp(norm)


def __getattr__(name: str) -> Any:
    if name in _RENAMED:
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}: it is called {_RENAMED[name]}, after the attack lmn that "
            "it runs; the paper's PWCF is attacks='pwcf' of pwcf.evaluate"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
