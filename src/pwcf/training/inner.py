"""The inner problem of adversarial training: the largest cross-entropy within eps, for the weights of the moment.

An attack stops at the first misclassified point and leaves alone what is misclassified already. Here the loss is
climbed to the end for every sample, in few steps: Danskin's theorem gives a subgradient of the outer problem only at a
maximum (paper, appendix "Danskin's theorem and min-max optimization").
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
    """The worst points that were found, and what is known of them."""

    points: Tensor
    """(b, ...) within eps and the bounds"""
    loss: Tensor
    """(b,) cross-entropy at the points: never below that of the images"""
    clean_loss: Tensor
    """(b,) at the images"""
    clean_right: Tensor
    """(b,) bool: the images themselves are classified correctly"""
    right: Tensor
    """(b,) bool: the points are; in eval mode, as all here"""


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
    """max over x' of the cross-entropy  s.t.  d(x, x') <= eps, x' in the bounds.

    It takes ``steps`` passes forward and backward, and two more forward. The model is in eval mode meanwhile; neither
    its parameters nor their gradients are touched.

    Args:
        classifier: the model, with its bounds.
        images: (b, ...) within the bounds.
        labels: (b,) true classes.
        metric: d.
        eps: (b,) radii.
        steps: gradient steps.
        generator: of the random starts; None: torch's own.

    Returns:
        The worst points found (b, ...), with their loss and that of the images.
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
    """(b,) the loss, (b,) whether the class is right, (b, ...) the slope."""
    with torch.enable_grad():
        leaf = x.detach().requires_grad_(True)
        logits = classifier(leaf)
        value = cross_entropy(logits, labels)
        (gradient,) = torch.autograd.grad(value.sum(), leaf)
    return value.detach(), logits.detach().argmax(1) == labels, torch.nan_to_num(gradient)


def _better(best: _Seen, new: _Seen) -> _Seen:
    """Of each row the one with the higher loss."""
    higher = new[0] > best[0]  # false of NaN
    return (
        torch.where(higher, new[0], best[0]),
        torch.where(per_row(higher, new[1]), new[1], best[1]),
        torch.where(higher, new[2], best[2]),
    )


def _surely_within(metric: Metric, images: Tensor, points: Tensor, eps: Tensor, bounds: tuple[float, float]) -> Tensor:
    """Judged as answers are, in float64: what rounding has put beyond eps is drawn in."""
    rows = torch.arange(len(images), device=images.device)
    measure = ReferenceDistance(metric, images, rows, Passes.none(len(images)), max(len(images), 1))
    out = (measure.distance64(points) > eps).nonzero().squeeze(1)
    if out.numel() == 0:
        return points
    some, limit = images[out], eps[out]
    box = (torch.full_like(some, bounds[0]), torch.full_like(some, bounds[1]))
    return points.index_copy(0, out, shrink_to_eps(partial(distance64, metric, some), some, points[out], limit, box))
