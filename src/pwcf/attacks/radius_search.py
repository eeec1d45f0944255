"""Min-radius by a method that only knows max-loss: a bracket of radii for every sample, narrowed round by round."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from pwcf._common.rows import per_row
from pwcf.attacks.base import Answer, Attack, Diagnostics, Task
from pwcf.losses import margin
from pwcf.metrics import dual_norm
from pwcf.problems import MaxLoss, MinRadius, is_surely_wrong

# Passes that make a round worth while, and into how many rounds a budget is divided at most and at least. Samples whose
# rounds end early, at a misclassified point, have more of them; never more than MOST, a bound on the time.
ROUND, MOST_ROUNDS, LEAST_ROUNDS, MOST = 200, 12, 4, 50
# The look at the linear model; after each round the look at its points, and at nearer ones on the way to the images,
# unless a round has so few passes that these would be missed.
LOOK, CHECK, NEARER, NEARER_FROM = 2, 1, 3, 60
# The first ball: this many times the distance under the linear model at the image.
FIRST = 2.0
# A ball in which nothing was found is followed by one so many times as large.
GROWTH = 2.0
# A bracket is not narrowed further than this (relative). That nothing was found in a ball is no proof, so what is left
# of the budget goes to balls smaller than the best radius by as much, from other starts.
NARROW = 0.01


class MaxLossAttack(Attack):
    """A method that finds points within eps. It answers min-radius by a search over radii."""

    @abstractmethod
    def within_eps(self, task: Task) -> Tensor:
        """Search a max-loss task of n >= 1 samples.

        Args:
            task: the samples and their eps. Its ``known`` points, if any, are where a search may begin.

        Returns:
            (n, ...) misclassified points within eps; the images where there is none.
        """

    def __call__(self, task: Task) -> Answer:
        if reason := self.unsupported_reason(task.problem, None):
            raise ValueError(reason)
        if task.images.shape[0] == 0:
            return Answer(task.images)
        if isinstance(task.problem, MinRadius):
            return search_radius(self.within_eps, task)
        return Answer(self.within_eps(replace(task, known=None)))


def search_radius(within: Callable[[Task], Tensor], task: Task) -> Answer:
    """The nearest points that ``within`` finds; the images where there is none.

    ``within`` answers max-loss tasks: it is called once a round, each sample with an eps and a share of the budget.
    In every other round the nearest points so far are the task's ``known``.
    """
    samples, passes = task.samples.cpu(), task.model.passes
    limit = passes.total[samples] + task.budget
    rounds = max(LEAST_ROUNDS, min(MOST_ROUNDS, (task.budget - LOOK) // ROUND))
    a_round = (task.budget - LOOK) // rounds
    nearer = NEARER if a_round >= NEARER_FROM else 0
    bracket = _Bracket(task)
    for number in range(MOST):
        rows = (limit - passes.total[samples] >= a_round).nonzero().squeeze(1).to(task.images.device)
        if rows.numel() == 0:
            break
        eps = bracket.next_eps()[rows]
        question = replace(
            task.select(rows),
            problem=MaxLoss(task.problem.metric, 0.0, targeted=task.problem.targeted),
            eps=eps,
            budget=a_round - CHECK - nearer,
            seed=task.seed + (number if task.seed < 0 else -number),  # towards 0: it has 64 bits
            known=bracket.best[rows] if number % 2 else None,
        )
        points = within(question)
        wrong = _is_wrong(question, points)
        bracket.learn(rows, eps, points if nearer == 0 else _drawn_in(question, points, wrong, nearer), wrong)
    unbracketed = torch.isinf(bracket.high)
    return Answer(bracket.best, Diagnostics(unbracketed=unbracketed, seen=~unbracketed))


class _Bracket:
    """Of every sample: the largest radius of a failure, the smallest of a success, the point there."""

    def __init__(self, task: Task) -> None:
        self.measure, self.best = task.measure(), task.images.clone()
        farthest = torch.where(task.upper - task.images > task.images - task.lower, task.upper, task.lower)
        self.largest = self.measure.distance64(farthest)
        self.low, self.high = torch.zeros_like(self.largest), torch.full_like(self.largest, torch.inf)
        self.first = torch.minimum(FIRST * _linear_distance(task), self.largest)
        if task.known is not None:
            known = self.measure.distance64(task.known)
            self.high = torch.where(known > 0, known, self.high)
            self.best = torch.where(per_row(known > 0, task.images), task.known, self.best)

    def next_eps(self) -> Tensor:
        """(n,) the middle; below the best radius where the bracket is narrow; further out where nothing is found."""
        out = torch.where(self.low == 0, self.first, torch.minimum(GROWTH * self.low, self.largest))
        middle = torch.minimum(0.5 * (self.low + self.high), (1 - NARROW) * self.high)
        return torch.where(torch.isinf(self.high), out, middle)

    def learn(self, rows: Tensor, eps: Tensor, points: Tensor, wrong: Tensor) -> None:
        """What was found for some samples (r,) within eps (r,)."""
        distance = self.measure.distance64(points, rows)
        success = wrong & (distance > 0)
        closer = success & (distance < self.high[rows])
        self.best[rows[closer]] = points[closer]
        self.high[rows[closer]] = distance[closer]
        failed = rows[~success]
        self.low[failed] = torch.minimum(torch.maximum(self.low[failed], eps[~success]), self.high[failed])


def _is_wrong(task: Task, points: Tensor) -> Tensor:
    """(n,) whether the points are misclassified: one pass."""
    return is_surely_wrong(task.model.logits(points, task.samples), task.labels, task.problem.targeted)


def _drawn_in(task: Task, points: Tensor, wrong: Tensor, times: int) -> Tensor:
    """Misclassified points ``wrong`` (n,) moved towards their images as far as some halvings of the way tell."""
    rows = wrong.nonzero().squeeze(1)
    if rows.numel() == 0:
        return points
    part, far = task.select(rows), points[rows]
    near = part.images
    for _ in range(times):
        middle = 0.5 * (near + far)
        hit = per_row(_is_wrong(part, middle), middle)
        near, far = torch.where(hit, near, middle), torch.where(hit, middle, far)
    return points.index_copy(0, rows, far)


def _linear_distance(task: Task) -> Tensor:
    """(n,) float64: margin over the dual norm of its gradient at the image; 1 where there is no slope."""
    metric = task.problem.metric
    _, loss, gradient = task.model.value_and_gradient(
        task.images, task.samples, lambda logits, rows: margin(logits, task.labels[rows])
    )
    size = dual_norm(metric, gradient.flatten(1).double())
    distance = loss.abs().double() / size
    return torch.where(torch.isfinite(distance) & (distance > 0), distance, torch.ones_like(distance))
