"""Max-loss begins with a few Frank-Wolfe steps, towards the farthest points of the ball.

Most images that can be broken within eps are broken by them, for a third of the passes that steps along the boundary
take: these look for the nearest point, which is more than is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from pwcf.attacks.base import ANY
from pwcf.attacks.feasible_set import FeasibleSet
from pwcf.metrics import HasDualNorm, HasHalfspaceStep, Metric

if TYPE_CHECKING:
    from pwcf.attacks.linearised.search import LinearisedSearch

# Steps have the usual lengths 1, 2/3, 1/2. Further ones break few more.
STEPS = 3


def passes(metric: Metric) -> int:
    """What this takes for an image that is not broken."""
    return 2 * (STEPS + 1) if _has_oracle(metric) else 0


def try_farthest_points(search: LinearisedSearch) -> None:
    """Store misclassified points within eps, of images that a few steps break."""
    assert search.eps is not None
    if not _has_oracle(search.metric):
        return
    image = torch.arange(len(search.centre), device=search.centre.device)
    ball = FeasibleSet(search.centre, search.eps.double(), search.lower, search.upper, search.metric, search.shape)
    x = search.centre
    for step in range(STEPS + 1):
        wrong, reached, _, g = search.linearise(image, x, torch.full_like(image, ANY))
        radius = search.metric(ball.centre, x)
        found = wrong & (radius <= ball.eps)
        search.table.store(image[found], torch.zeros_like(image[found]), radius[found], x[found], reached[found])
        left = (~found).nonzero().squeeze(1)
        if step == STEPS or not len(left):
            return
        image, ball, x, g = image[left], ball.select(left), x[left], g[left]
        slope = torch.where(ball.upper > ball.lower, torch.nan_to_num(g, 0.0, 0.0, 0.0), 0.0)
        x = ball.inside(torch.lerp(x, ball.vertex(-slope), 2 / (step + 2)))


def _has_oracle(metric: Metric) -> bool:
    return isinstance(metric, HasHalfspaceStep) and isinstance(metric, HasDualNorm)
