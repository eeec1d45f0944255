"""Does a point answer the question? Decided without the solver that found it.

Inside the bounds exactly, misclassified in a fresh pass in the model's own dtype, distance recomputed in float64 and,
for max-loss, within eps. What fails is not counted.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from pwcf.metrics import ReferenceDistance
from pwcf.models import CountedClassifier
from pwcf.problems import Problem, is_wrong


class Checked(NamedTuple):
    """What is true of points (n, ...)."""

    adversarial: Tensor
    """(n,) bool: inside the bounds, misclassified, at an allowed distance."""
    distance: Tensor
    """(n,) float64"""
    logits: Tensor
    """(n, classes) of the fresh pass"""


def recheck(
    model: CountedClassifier,
    problem: Problem,
    images: Tensor,
    labels: Tensor,
    points: Tensor,
    samples: Tensor | None = None,
    eps: Tensor | None = None,
) -> Checked:
    """Check points independently of whoever found them: one forward pass per sample, each in a call of its own.

    Args:
        model: counts the passes.
        problem: what counts as an answer.
        images: (n, ...)
        labels: (n,) the true classes; if ``problem.targeted`` the wanted ones.
        points: (n, ...) of the images' dtype.
        samples: (n,) the numbers that passes are counted under; by default 0 to n - 1.
        eps: (n,) those of these samples, where the question has more of them than are checked here.

    Returns:
        Which points are answers, their distances, and the logits of the fresh pass.
    """
    if points.shape != images.shape or points.dtype != images.dtype:
        raise ValueError(
            f"points: expected shape {tuple(images.shape)} and {images.dtype} like the images, "
            f"found {tuple(points.shape)} and {points.dtype}"
        )
    lower, upper = model.bounds
    inside = ((points >= lower) & (points <= upper)).flatten(1).all(1)
    samples = torch.arange(images.shape[0]) if samples is None else samples
    logits = model.logits(points, samples, alone=True)
    wrong = is_wrong(logits, labels, problem.targeted)
    distance = ReferenceDistance(problem.metric, images, samples, model.metric_passes, model.batch).distance64(points)
    return Checked(inside & wrong & problem.allows(distance, eps), distance, logits)
