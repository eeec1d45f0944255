"""The inner problem of adversarial training: the largest cross-entropy within eps, for the current weights.

An attack stops at the first misclassified point and skips samples that are misclassified already. Training needs the
largest loss of every sample, in few steps: Danskin's theorem gives a subgradient of the outer problem only at a maximum
(paper, appendix "Danskin's theorem and min-max optimization").
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from pwcf._common.rows import per_row
from pwcf.losses import cross_entropy
from pwcf.metrics import Metric, ReferenceDistance, distance64, shrink_to_eps
from pwcf.models import Classifier, Passes
from pwcf.training.region import region_of

# The first step is this many eps long, the last ones shorter in proportion to what is left. On networks after one epoch
# 7 such steps reach a higher loss in l2 and linf than 100 of the usual constant length, 2.5 eps over their number.
FIRST_STEP = 2.0

# Loss (b,), points (b, ...) and whether their class is right (b,).
_Seen = tuple[Tensor, Tensor, Tensor]


class WorstPoints(NamedTuple):
    """The result of ``worst_points``; the model was in eval mode throughout."""

    points: Tensor
    """(b, ...) points within eps and the bounds"""
    loss: Tensor
    """(b,) cross-entropy at the points, never below that at the images"""
    clean_loss: Tensor
    """(b,) cross-entropy at the images"""
    clean_right: Tensor
    """(b,) bool: the images are classified correctly"""
    right: Tensor
    """(b,) bool: the points are classified correctly"""


def worst_points(
    classifier: Classifier,
    images: Tensor,
    labels: Tensor,
    metric: Metric,
    eps: Tensor,
    *,
    steps: int = 7,
    generator: torch.Generator | None = None,
) -> WorstPoints:
    """Maximise the cross-entropy at x'  s.t.  d(x, x') <= eps,  x' in the bounds.

    This takes ``steps`` forward and backward passes and two more forward passes. The model is put in eval mode for it;
    its parameters and their gradients are not changed.

    Args:
        classifier: the model, with its bounds.
        images: (b, ...) within the bounds.
        labels: (b,) true classes, int64.
        metric: the distance d.
        eps: (b,) radii.
        steps: gradient steps.
        generator: source of the random starts; None: torch's global generator.

    Returns:
        The points (b, ...) with the largest loss found, their loss (b,) and the loss of the images (b,).
    """
    with classifier.in_use():
        with torch.no_grad():
            logits = classifier(images)
            clean = cross_entropy(logits, labels)
        clean_right = logits.argmax(1) == labels
        best, points, right = clean, images, clean_right
        metric = metric.bind(classifier)
        region = region_of(metric, images, eps, classifier.bounds)
        # Drawn where the generator is: the same on every device.
        noise = torch.randn(images.shape, generator=generator, dtype=images.dtype).to(images.device)
        x = region.start(noise)
        for number in range(steps):
            value, hit, gradient = _value_and_gradient(classifier, x, labels)
            best, points, right = _better((best, points, right), (value, x, hit))
            left = 1 - number / steps
            x = region.step(x, gradient, FIRST_STEP * left, number / max(steps - 1, 1))
        with torch.no_grad():
            logits = classifier(x)
            value, hit = cross_entropy(logits, labels), logits.argmax(1) == labels
            best, points, right = _better((best, points, right), (value, x, hit))
        points = _surely_within(metric, images, points, eps, classifier.bounds)
    return WorstPoints(points, best, clean, clean_right, right)


def _value_and_gradient(classifier: Classifier, x: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the loss (b,), whether the class is right (b,), and the gradient (b, ...)."""
    with torch.enable_grad():
        leaf = x.detach().requires_grad_(True)
        logits = classifier(leaf)
        value = cross_entropy(logits, labels)
        (gradient,) = torch.autograd.grad(value.sum(), leaf)
    return value.detach(), logits.detach().argmax(1) == labels, torch.nan_to_num(gradient)


def _better(best: _Seen, new: _Seen) -> _Seen:
    """Keep, per row, the point with the higher loss."""
    higher = new[0] > best[0]  # false of NaN
    return (
        torch.where(higher, new[0], best[0]),
        torch.where(per_row(higher, new[1]), new[1], best[1]),
        torch.where(higher, new[2], best[2]),
    )


def _surely_within(metric: Metric, images: Tensor, points: Tensor, eps: Tensor, bounds: tuple[float, float]) -> Tensor:
    """Shrink points that rounding has put beyond eps, measured in float64 as verification does."""
    rows = torch.arange(len(images), device=images.device)
    measure = ReferenceDistance(metric, images, rows, Passes.none(len(images)), max(len(images), 1))
    out = (measure.distance64(points) > eps).nonzero().squeeze(1)
    if out.numel() == 0:
        return points
    some, limit = images[out], eps[out]
    box = (torch.full_like(some, bounds[0]), torch.full_like(some, bounds[1]))
    return points.index_copy(0, out, shrink_to_eps(partial(distance64, metric, some), some, points[out], limit, box))
