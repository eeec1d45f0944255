"""The search behind the entrances that name no attack."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from pwcf.evaluation import Run, evaluate
from pwcf.models import Classifier
from pwcf.problems import Problem

# lmn follows slopes, and l0 has none. Of adv-lib's attacks that minimise it only fmn takes targets.
L0, L0_TARGETED = "sigma-zero", "fmn"


def search(
    model: Callable[[Any], Any] | Classifier, images: Tensor, labels: Tensor, problem: Problem, **options: Any
) -> Run:
    """``evaluate`` with lmn; in l0 with adv-lib's sigma-zero, or fmn if targeted.

    Args:
        options: of ``evaluate``; ``attacks`` among them come first.
    """
    sparse = L0_TARGETED if problem.targeted else L0
    attacks = "lmn" if problem.metric.differentiable else sparse
    return evaluate(model, images, labels, problem, **{"attacks": attacks, **options})
