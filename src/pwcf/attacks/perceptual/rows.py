"""What the rows of these attacks share: where they start, what they climb, when they are done."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pwcf._common.rng import seeds_of
from pwcf.attacks.base import Task
from pwcf.losses import as_loss, clip_level, clipped, margin, mask_label
from pwcf.problems import MaxLoss, is_defined, is_surely_wrong

# Passes of a step: value and gradient of the loss.
STEP = 2
# Standard deviation of the first perturbation, in widths of the bounds.
NOISE = 0.01
# Where LPA and PPGD clip the margin, in logits: kappa of the reference.
KAPPA = 1.0
# DLR divides by differences of the three largest logits (four with a target). With fewer classes it has no slope.
DLR_NEEDS, DLR_NEEDS_TARGETED = 3, 4


def width_of(task: Task) -> float:
    """Of the bounds: the published numbers are for images in [0, 1]."""
    lower, upper = task.model.bounds
    return upper - lower


def starts_of(task: Task) -> Tensor:
    """(n, ...) the images with a little noise of their own, inside the box."""
    shape = task.images.shape[1:]
    seeds = seeds_of(task.images, task.seed)
    drawn = torch.stack([torch.randn(shape, generator=torch.Generator().manual_seed(seed)) for seed in seeds])
    return torch.clamp(task.images + NOISE * width_of(task) * drawn.to(task.images), task.lower, task.upper)


def column(values: Tensor, like: Tensor) -> Tensor:
    """(b,) in the shape that broadcasts over (b, ...)."""
    return values.view(-1, *(1 for _ in like.shape[1:]))


def unit_of(rows: Tensor) -> Tensor:
    """(b, ...) of length 1 each; 0 where they are. In two steps: squares of small gradients vanish in float32."""
    for order in (torch.inf, 2.0):
        size = column(torch.linalg.vector_norm(rows.flatten(1), ord=order, dim=1), rows)
        rows = rows / torch.where(size > 0, size, torch.ones_like(size))
    return rows


@dataclass(frozen=True)
class Climb:
    """Of b points."""

    gradient: Tensor
    """(b, ...) of the loss; 0 in entries that must not change and where the model says nothing"""
    wrong: Tensor
    """(b,) whether they are misclassified by more than rounding"""
    defined: Tensor
    """(b,) whether the model decides on a class there"""


@dataclass(frozen=True)
class Objective:
    """The loss of a max-loss task, larger where the model is more wrong."""

    task: Task
    loss: str | None
    """None: the problem's"""
    kappa: float
    """where the margin is clipped; inf: nothing is"""

    def look(self, points: Tensor, rows: Tensor) -> Climb:
        """At the points (b, ...) of some samples (b,): one pass each way."""
        task, labels = self.task, self.task.labels[rows]
        logits, _, gradient = task.model.value_and_gradient(
            points,
            task.samples[rows.to(task.samples.device)],
            lambda logits, some: self._value(logits, labels[some]),
        )
        defined = is_defined(logits)
        free = (task.lower < task.upper)[rows] & column(defined, points) & torch.isfinite(gradient)
        wrong = is_surely_wrong(logits, labels, task.problem.targeted)
        return Climb(torch.where(free, gradient, 0.0), wrong, defined)

    def _value(self, logits: Tensor, labels: Tensor) -> Tensor:
        problem, targets = self.task.problem, None
        assert isinstance(problem, MaxLoss)
        name = self.loss or problem.loss
        if problem.targeted:
            # The labels are what is wanted. It is held against the class that is in its way.
            labels, targets = mask_label(logits, labels).argmax(1), labels
        if name == "dlr" and logits.shape[1] < (DLR_NEEDS if targets is None else DLR_NEEDS_TARGETED):
            name = "margin"
        if name == "margin":
            return clipped(margin(logits, labels, targets), self.kappa)
        loss = as_loss(name)(logits, labels, targets)
        if name == "ce" and targets is None and self.kappa < torch.inf:
            # As the paper clips it. Without, it outweighs the distance: LPA breaks half as many.
            return clipped(loss, clip_level(name, logits.shape[1]))
        return loss
