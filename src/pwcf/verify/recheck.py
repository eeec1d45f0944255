"""Verification of points, independent of the attack that found them.

A point counts if it is exactly inside the bounds, misclassified in a fresh pass in the model's own dtype and, for
max-loss, within eps by a distance recomputed in float64.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from pwcf.metrics import ReferenceDistance
from pwcf.models import CountedClassifier
from pwcf.problems import Problem, is_wrong


class Checked(NamedTuple):
    """The result of a recheck of n points."""

    adversarial: Tensor
    """(n,) bool: inside the bounds, misclassified, and within eps for max-loss"""
    distance: Tensor
    """(n,) float64"""
    logits: Tensor
    """(n, classes) from the fresh pass"""


def recheck(
    model: CountedClassifier,
    problem: Problem,
    images: Tensor,
    labels: Tensor,
    points: Tensor,
    samples: Tensor | None = None,
    eps: Tensor | None = None,
    looks: int = 1,
) -> Checked:
    """Verify points with one forward pass per sample and look, each in a call of its own.

    Args:
        model: the classifier; it counts the passes.
        problem: defines what counts as an answer.
        images: (n, ...) inputs.
        labels: (n,) true classes; target classes if ``problem.targeted``.
        points: (n, ...) in the dtype of the images.
        samples: (n,) indices under which passes are counted; default 0 to n - 1.
        eps: (n,) the radii of these samples, if they are only some of the problem's samples.
        looks: of a random model: a point has to be misclassified in each.

    Returns:
        Which points are answers, their distances, and the logits of the fresh pass, the last one of several.
    """
    if points.shape != images.shape or points.dtype != images.dtype:
        raise ValueError(
            f"points: expected shape {tuple(images.shape)} and {images.dtype} like the images, "
            f"found {tuple(points.shape)} and {points.dtype}"
        )
    lower, upper = model.bounds
    inside = ((points >= lower) & (points <= upper)).flatten(1).all(1)
    samples = torch.arange(images.shape[0]) if samples is None else samples
    wrong = inside
    for _ in range(looks):
        logits = model.logits(points, samples, alone=True)
        wrong = wrong & is_wrong(logits, labels, problem.targeted)
    distance = ReferenceDistance(problem.metric, images, samples, model.metric_passes, model.batch).distance64(points)
    return Checked(wrong & problem.allows(distance, eps), distance, logits)
