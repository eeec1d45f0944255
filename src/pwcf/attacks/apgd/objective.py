"""What is maximised, and the answers on the way."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from pwcf.attacks.apgd.rows import State
from pwcf.attacks.base import Task
from pwcf.attacks.targets import ANY
from pwcf.losses import LOSSES, margin, mask_label
from pwcf.metrics import distance64, shrink_to_eps
from pwcf.problems import is_defined, is_surely_wrong, is_wrong

# A projected point is beyond eps by rounding only: by no more than this, relative, and is drawn in. One of a larger
# ball (l1) that happens to be within eps is an answer as well.
ROUNDING = 1e-5
# DLR divides by differences of the three largest logits, or the four largest where there is a target. With fewer
# classes it is constant or nearly so; the margin is what is left of it.
DLR_NEEDS, DLR_NEEDS_TARGETED = 3, 4


@dataclass
class Objective:
    """The loss of a max-loss task, whose samples are answered as soon as they are misclassified within eps."""

    task: Task
    loss: str

    def __post_init__(self) -> None:
        self.answers = self.task.images.clone()
        self.broken = torch.zeros(self.answers.shape[0], dtype=torch.bool, device=self.answers.device)

    def look(self, state: State, free: Tensor, slope: bool) -> tuple[Tensor, Tensor]:
        """Loss (r,) and its gradient (r, n) at the rows' points; 0 in entries that are not ``free`` (r, n).

        Without ``slope`` only answers are looked for, at one pass in place of two.
        """
        task = self.task
        x = state.x.view(-1, *task.images.shape[1:])
        labels, samples = task.labels[state.sample], task.samples[state.sample.to(task.samples.device)]
        if not slope:
            self._keep_answers(state.sample, x, labels, task.model.logits(x, samples))
            return state.value, state.gradient
        logits, value, gradient = task.model.value_and_gradient(
            x, samples, lambda logits, rows: self._value(logits, labels[rows], state.aim[rows])
        )
        self._keep_answers(state.sample, x, labels, logits)
        value = torch.where(is_defined(logits) & ~torch.isnan(value), value, -torch.inf)
        slopes = gradient.flatten(1)
        return value, torch.where(free & torch.isfinite(slopes), slopes, 0.0)

    def _value(self, logits: Tensor, labels: Tensor, aim: Tensor) -> Tensor:
        function = LOSSES[self.loss]
        targets = None if bool((aim == ANY).all()) else aim
        if self.task.problem.targeted:
            # The labels are what is wanted. It is held against the class that is in its way.
            labels, targets = mask_label(logits, labels).argmax(1), labels
        needed = DLR_NEEDS if targets is None else DLR_NEEDS_TARGETED
        if self.loss == "dlr" and logits.shape[1] < needed:
            function = margin
        return function(logits, labels, targets)

    def _keep_answers(self, sample: Tensor, x: Tensor, labels: Tensor, logits: Tensor) -> None:
        """Misclassified points within eps. Where rounding may undo it the search goes on."""
        task, targeted = self.task, self.task.problem.targeted
        assert task.eps is not None
        hit = is_wrong(logits, labels, targeted).nonzero().squeeze(1)
        if hit.numel() == 0:
            return
        whose, points = sample[hit], x[hit]
        eps = task.eps.to(x.device)[whose]
        near = distance64(task.problem.metric, task.images[whose], points) <= eps * (1 + ROUNDING)
        hit, whose, points, eps = hit[near], whose[near], points[near], eps[near]
        box = task.lower[whose], task.upper[whose]
        images = task.images[whose]
        self.answers[whose] = shrink_to_eps(partial(distance64, task.problem.metric, images), images, points, eps, box)
        self.broken[whose] = is_surely_wrong(logits[hit], labels[hit], targeted)
