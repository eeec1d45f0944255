"""The largest loss within eps, for questions that go on after the class has changed: projected steps up the loss.

    x+ = P(x + 3/4 (z - x) + 1/4 (x - before)),  z = P(x + step * direction)

P is the Euclidean projection onto ball and box where the metric has it, else the way back to the image. The step
shrinks geometrically. Rows of a sample begin at a known point, at the image and at random points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from pwcf._common.rng import noise_of, seeds_of
from pwcf.attacks.base import ANY, Task
from pwcf.attacks.objective import MaxLossObjective
from pwcf.metrics import HasProjection, ReferenceDistance, shrink_to_eps
from pwcf.problems import MaxLoss

# Rows of a sample, at most, and steps below which another row is no use.
STARTS, LEAST_STEPS = 5, 20
# Steps in units of the ball, from the first to the last. In l1 the whole ball is a few entries wide.
FIRST, FIRST_L1, LAST = 1.0, 0.3, 0.01
# The share of the new direction in a step.
NEW = 0.75
# Random starts reach this far from the image, in units of the ball in linf, else of the box.
FAR = 0.3


def climb(task: Task, known: Tensor, evaluations: int, loss: str | None = None) -> tuple[Tensor, Tensor]:
    """Search for the largest loss within eps.

    Args:
        task: a max-loss question.
        known: (n, ...) where a search is to begin; the images where nothing is known.
        evaluations: forward + backward passes for each sample, in pairs.
        loss: what is maximised; None: what the question says.

    Returns:
        (n, ...) the points with the largest loss of the question, and (n,) these losses.
    """
    problem = task.problem
    assert isinstance(problem, MaxLoss)
    objective = MaxLossObjective(task, loss or problem.loss)
    rows = max(1, min(STARTS, evaluations // LEAST_STEPS))
    steps = evaluations // rows
    sample = torch.arange(len(task.images), device=task.images.device).repeat_interleave(rows)
    ball = _Ball.of(task, sample)
    x = ball.project(ball.starts(task, known.flatten(1), rows))
    before, best, value = x, x, torch.full_like(x[:, 0], -torch.inf)
    anywhere = torch.full_like(sample, ANY)
    first = FIRST_L1 if problem.metric.exponent == 1 else FIRST
    for number in range(steps):
        loss_here, g = objective.look(sample, anywhere, x, ball.upper > ball.lower)
        better = loss_here > value
        value = torch.where(better, loss_here, value)
        best = torch.where(better.unsqueeze(1), x, best)
        share = number / max(steps - 1, 1)
        if 2 * number == steps:  # the second half refines the best point of the first
            x = before = best
            continue
        size = first * (LAST / first) ** share * ball.size
        z = ball.project(x + size.unsqueeze(1) * ball.direction(g))
        x, before = ball.project(x + NEW * (z - x) + (1 - NEW) * (x - before)), x
    return objective.answers, objective.value


@dataclass(frozen=True)
class _Ball:
    """Ball and box of rows (r,)."""

    task: Task
    measure: ReferenceDistance
    sample: Tensor
    centre: Tensor
    lower: Tensor
    upper: Tensor
    eps: Tensor
    """(r,)"""
    size: Tensor
    """(r,) length of a step across the ball"""

    @classmethod
    def of(cls, task: Task, sample: Tensor) -> _Ball:
        assert task.eps is not None
        centre, lower, upper = (each.flatten(1)[sample] for each in (task.images, task.lower, task.upper))
        eps = task.eps.to(task.images.device)[sample]
        n, p = task.images[0].numel(), task.problem.metric.exponent
        # The l2 length of a dense move within the ball; of l1 and of other metrics that of a move of one entry.
        size = eps if p is None or p <= 2 or p == math.inf else eps * n ** (0.5 - 1 / p)
        return cls(task, task.measure(), sample, centre, lower, upper, eps, size.to(task.images.dtype))

    def starts(self, task: Task, known: Tensor, rows: int) -> Tensor:
        """(r, n): of every sample the known point, the image, and random points."""
        low, high = task.model.bounds
        noise = noise_of(seeds_of(task.images, task.seed), len(self.sample), self.centre)
        width = self.eps.to(noise) if task.problem.metric.exponent == math.inf else torch.full_like(noise[:, 0], FAR)
        x = self.centre + (width * (high - low)).unsqueeze(1) * noise
        turn = torch.arange(len(self.sample), device=x.device) % rows
        x = torch.where((turn == 1).unsqueeze(1), self.centre, x)
        return torch.where((turn == 0).unsqueeze(1), known[self.sample], x)

    def direction(self, g: Tensor) -> Tensor:
        """Up the gradient: by its signs in linf, else of length 1."""
        if self.task.problem.metric.exponent == math.inf:
            return g.sign()
        largest = g.abs().amax(1, keepdim=True).clamp(min=torch.finfo(g.dtype).tiny)
        g = g / largest
        up: Tensor = g / g.norm(dim=1, keepdim=True).clamp(min=1)
        return up

    def project(self, x: Tensor) -> Tensor:
        metric = self.task.problem.metric
        x = torch.clamp(x, self.lower, self.upper)
        if isinstance(metric, HasProjection):
            return metric.project(x, self.centre, self.eps.to(x), self.lower, self.upper)
        shape, box = self.task.images.shape[1:], (self.lower, self.upper)
        images, low, high = (each.view(-1, *shape) for each in (self.centre, *box))
        return shrink_to_eps(
            lambda points: self.measure.distance64(points, self.sample),
            images,
            x.view(-1, *shape),
            self.eps,
            (low, high),
        ).flatten(1)
