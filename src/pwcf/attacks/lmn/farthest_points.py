"""Max-loss begins with a few Frank-Wolfe steps, towards the farthest points of the ball.

Most images that can be broken within eps are broken by them, for a third of the passes that steps along the boundary
take: these look for the nearest point, which is more than is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from pwcf.attacks.base import ANY
from pwcf.attacks.feasible_set import FeasibleSet
from pwcf.metrics import HasDualNorm, HasHalfspaceStep, Metric

if TYPE_CHECKING:
    from pwcf.attacks.lmn.attack import LmnSearch

# Steps have the usual lengths 1, 2/3, 1/2. Further ones break few more.
STEPS = 3


def passes(metric: Metric) -> int:
    """What this takes for an image that is not broken."""
    return 2 * (STEPS + 1) if _has_oracle(metric) else 0


class FirstSteps(NamedTuple):
    """What the steps of n images have led to."""

    radius: Tensor
    """(n,) of misclassified points within eps, inf where none was found"""
    points: Tensor
    """(n, entries) these points; elsewhere where the steps ended"""
    logits: Tensor
    """(n, classes) at the images"""


def first_steps(search: LmnSearch) -> FirstSteps:
    """Look for misclassified points within eps, for a search at its beginning."""
    assert search.eps is not None
    image = torch.arange(len(search.centre), device=search.centre.device)
    radius, points = torch.full_like(search.centre[:, 0], torch.inf), search.centre.clone()
    if not _has_oracle(search.metric):
        return FirstSteps(radius, points, search.task.model.logits(search.task.images, search.task.samples))
    x, at_image = search.centre, None
    ball = FeasibleSet(search.centre, search.eps.double(), search.lower, search.upper, search.metric, search.shape)
    for step in range(STEPS + 1):
        logits, wrong, _, _, g = search.linearise_with_logits(image, x, torch.full_like(image, ANY))
        at_image = logits if at_image is None else at_image
        distance = search.metric(ball.centre, x)
        found = wrong & (distance <= ball.eps)
        radius[image[found]], points[image] = distance[found], x
        left = (~found).nonzero().squeeze(1)
        if step == STEPS or not len(left):
            break
        image, ball, x, g = image[left], ball.select(left), x[left], g[left]
        slope = torch.where(ball.upper > ball.lower, torch.nan_to_num(g, 0.0, 0.0, 0.0), 0.0)
        x = ball.inside(torch.lerp(x, ball.vertex(-slope), 2 / (step + 2)))
    assert at_image is not None
    return FirstSteps(radius, points, at_image)


def _has_oracle(metric: Metric) -> bool:
    return isinstance(metric, HasHalfspaceStep) and isinstance(metric, HasDualNorm)
