"""Which classes targeted runs aim at, and in which order: the likeliest (APGD-T), or the linearly nearest (MALT).

MALT (Melamed et al. 2024, "MALT Powers Up Adversarial Attacks") takes the network to be nearly linear at the scale of
adversarial perturbations. Class i is then at the distance  (f_y(x) - f_i(x)) / |grad f_y(x) - grad f_i(x)|  and the
nearest classes are the targets. The paper has the l2 norm of the gradient; here it is the dual norm of the metric, by
which the distance of a linear model is exact without the box.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from pwcf.attacks.base import ANY, Task
from pwcf.losses import margin, mask_label
from pwcf.metrics import dual_norm

Ranking = Literal["logit", "malt"]
RANKINGS: tuple[Ranking, ...] = ("logit", "malt")
# The pass for the logits of the image.
LOOK = 1
# Of so many likeliest classes MALT looks at the gradients, a backward pass each (the paper's number) ...
CANDIDATES = 100
# ... but it spends no more than one part in so many of the budget on them: the runs need the rest.
SHARE = 10


class RankedTargets(NamedTuple):
    """The targets of n samples, in the order in which runs aim at them."""

    classes: Tensor
    """(n, k) int64, or ANY"""
    passes: int
    """what the ranking has cost a sample"""


def likeliest(task: Task, targets: int) -> RankedTargets:
    """Rank the other classes by their logits at the images: one pass.

    Args:
        task: n samples.
        targets: how many classes, at most.

    Returns:
        Classes (n, k) with k <= targets; ANY alone if the budget has no pass for it.
    """
    if task.budget <= LOOK:
        return _none(task)
    logits = task.model.logits(task.images, task.samples)
    return RankedTargets(_by_logit(logits, task.labels)[:, :targets], LOOK)


def nearest(task: Task, targets: int) -> RankedTargets:
    """Rank the likeliest other classes by their distance under a linear model at the images, as MALT does.

    Args:
        task: n samples.
        targets: how many classes, at most.

    Returns:
        Classes (n, k) with k <= targets; ANY alone if the budget has no pass for it. The ranking costs one pass, and
        one for every class whose gradient is looked at: up to 100, or a tenth of the budget.
    """
    if task.budget <= LOOK:
        return _none(task)
    most = max(1, min(CANDIDATES, task.budget // SHARE - LOOK))
    places = torch.split(torch.arange(task.images.shape[0], device=task.images.device), task.model.batch)
    parts = [_nearest(task.select(rows), most) for rows in places]
    classes = torch.cat([part.classes for part in parts])[:, :targets]
    return RankedTargets(classes, parts[0].passes)


def _nearest(task: Task, most: int) -> RankedTargets:
    """The ``most`` likeliest classes, ranked, for as many samples as share a call."""
    labels, metric = task.labels, task.problem.metric
    with torch.enable_grad():
        leaf = task.images.detach().requires_grad_(True)
        logits = task.model.differentiable(leaf, task.samples)
        candidates = _by_logit(logits.detach(), labels)[:, :most]
        count = candidates.shape[1]
        if count == 1 or not logits.requires_grad:
            return RankedTargets(candidates, LOOK)
        gaps = [-margin(logits, labels, candidates[:, j]) for j in range(count)]
    free = (task.upper > task.lower).flatten(1)
    scores = []
    for j, gap in enumerate(gaps):
        (gradient,) = torch.autograd.grad(gap.sum(), leaf, retain_graph=j + 1 < count, materialize_grads=True)
        # Entries that a mask holds cannot bring a class nearer.
        slope = torch.where(free, gradient.flatten(1), 0.0)
        scores.append(gap.detach().double() / dual_norm(metric, slope.double()))
    score = torch.stack(scores, 1)
    # A class without a slope cannot be reached in a linear model. Such classes come last, the likeliest first.
    order = torch.where(torch.isfinite(score), score, torch.inf).argsort(dim=1, stable=True)
    return RankedTargets(candidates.gather(1, order), LOOK + count)


def _by_logit(logits: Tensor, labels: Tensor) -> Tensor:
    """(n, classes - 1) the other classes, the likeliest first."""
    return mask_label(logits, labels).argsort(dim=1, descending=True)[:, :-1]


def _none(task: Task) -> RankedTargets:
    return RankedTargets(torch.full_like(task.labels, ANY).unsqueeze(1), 0)
