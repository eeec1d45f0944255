"""The loss of a max-loss task, and its answers: the points that are seen to be misclassified within eps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from pwcf.attacks.base import ANY, Task
from pwcf.losses import LOSSES, dlr_classes, margin, mask_label
from pwcf.metrics import distance64, shrink_to_eps
from pwcf.problems import MaxLoss, is_defined, is_surely_wrong, is_wrong

# A feasible point is beyond eps by rounding only: by no more than this, relative, and is drawn in. One of a larger
# ball (APGD in l1) that happens to be within eps is an answer as well.
ROUNDING = 1e-5


@dataclass
class MaxLossObjective:
    """The loss of a max-loss task, whose samples are answered as soon as they are misclassified within eps.

    Where the question is the largest loss they are never done, and the answers are the points where it is largest.

    Points are flat, (r, n), and several rows may belong to one sample.
    """

    task: Task
    loss: str
    """a name of ``pwcf.losses``"""

    def __post_init__(self) -> None:
        self.answers = self.task.images.clone()
        """(n, ...) the answers, the images where there is none"""
        self.broken = torch.zeros(self.answers.shape[0], dtype=torch.bool, device=self.answers.device)
        """(n,) the samples with an answer that rounding cannot undo"""
        self.largest = isinstance(self.task.problem, MaxLoss) and not self.task.problem.clip
        self.value = torch.full_like(self.broken, -torch.inf, dtype=self.answers.dtype)
        """(n,) the largest loss within eps, if the question is that"""

    def look(self, sample: Tensor, aim: Tensor, x: Tensor, free: Tensor) -> tuple[Tensor, Tensor]:
        """Evaluate the loss and its gradient, two passes a row, and keep the answers among the points.

        Args:
            sample: (r,) whose points these are: places in the task.
            aim: (r,) the class a row is to be taken for, or ANY.
            x: (r, n) points.
            free: (r, n) bool, the entries that may change.

        Returns:
            Losses (r,), -inf where the logits are undefined, and gradients (r, n), 0 in entries that are not free.
        """
        task = self.task
        points, labels = x.view(-1, *task.images.shape[1:]), task.labels[sample]
        logits, value, gradient = task.model.value_and_gradient(
            points, self._numbers(sample), lambda logits, rows: self._value(logits, labels[rows], aim[rows])
        )
        self._keep(sample, points, labels, logits)
        value = torch.where(is_defined(logits) & ~torch.isnan(value), value, -torch.inf)
        slopes = gradient.flatten(1)
        return value, torch.where(free & torch.isfinite(slopes), slopes, 0.0)

    def check(self, sample: Tensor, x: Tensor) -> None:
        """Keep the answers among points x (r, n) of the samples (r,): one pass a row in place of two."""
        points = x.view(-1, *self.task.images.shape[1:])
        logits = self.task.model.logits(points, self._numbers(sample))
        self._keep(sample, points, self.task.labels[sample], logits)

    def _numbers(self, sample: Tensor) -> Tensor:
        """(r,) the samples' numbers in the whole evaluation, under which passes are counted."""
        return self.task.samples[sample.to(self.task.samples.device)]

    def _value(self, logits: Tensor, labels: Tensor, aim: Tensor) -> Tensor:
        function = LOSSES[self.loss]
        targets = None if bool((aim == ANY).all()) else aim
        if self.task.problem.targeted:
            # The labels are what is wanted. It is held against the class that is in its way.
            labels, targets = mask_label(logits, labels).argmax(1), labels
        if self.loss == "dlr" and logits.shape[1] < dlr_classes(targets is not None):
            function = margin  # what is left of it
        return function(logits, labels, targets)

    def _keep(self, sample: Tensor, x: Tensor, labels: Tensor, logits: Tensor) -> None:
        if self.largest:
            self._keep_largest(sample, x, labels, logits)
        else:
            self._keep_answers(sample, x, labels, logits)

    def _keep_largest(self, sample: Tensor, x: Tensor, labels: Tensor, logits: Tensor) -> None:
        """Of every sample the point within eps with the largest loss of the question, misclassified or not."""
        task, problem = self.task, self.task.problem
        assert task.eps is not None
        assert isinstance(problem, MaxLoss)
        value = LOSSES[problem.loss](logits, labels, None)
        value = -value if problem.targeted else value
        value = torch.where(is_defined(logits) & ~torch.isnan(value), value, -torch.inf)
        hit = (value > self.value[sample]).nonzero().squeeze(1)
        hit = hit[value[hit].argsort(stable=True)]  # of several points of a sample the largest is written last
        whose, points = sample[hit], x[hit]
        eps = task.eps.to(x.device)[whose]
        near = distance64(problem.metric, task.images[whose], points) <= eps * (1 + ROUNDING)
        for place, row in zip(hit[near].tolist(), whose[near].tolist(), strict=True):
            self.value[row], self.answers[row] = value[place], x[place]

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
