"""LPA and Fast-LPA: descend -loss + lambda max(d - eps, 0), in steps whose length is measured in d."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pwcf._common.rows import per_row
from pwcf.attacks.base import Task, check_settings, needs_slope
from pwcf.attacks.perceptual.shared import (
    KAPPA,
    STEP,
    ClassifierLoss,
    FeatureMetric,
    into_ball,
    starts_of,
    unit_of,
    width_of,
)
from pwcf.attacks.radius_search import MaxLossAttack
from pwcf.losses import as_loss
from pwcf.problems import Problem

# How far the distance is asked for its steepness, in widths of the bounds.
H = 0.1
# Steps are eps long at first and this share of it in the end.
DECAY = 0.1
# LPA: lambda at first, and by how much it grows after a search that ends outside.
LAMBDA, GROWTH = 0.01, 10.0
# Fast-LPA: lambda in the end; it grows by as much as steps shrink.
LAMBDA_FAST = 10.0
# Against division by a steepness of 0, as published; Fast-LPA's is the larger.
TINY, TINY_FAST = 1e-8, 1e-4


@dataclass(frozen=True)
class Lpa(MaxLossAttack):
    """The Lagrangian perceptual attack: searches with a lambda that grows where they end outside, then a projection."""

    loss: str | None = None
    """"margin" (clipped at 1), "ce" or "dlr"; None: that of a max-loss problem, the margin for min-radius"""
    steps: int = 20
    """of a search, at most: as far as the budget goes"""
    searches: int = 5
    name: str = "lpa"

    def __post_init__(self) -> None:
        _check(self.loss)
        check_settings(self, "steps", "searches")

    @property
    def about(self) -> str:
        loss = self.loss or "the problem's loss"
        return f"pwcf's own LPA, {loss}, {self.searches} searches of {self.steps} steps"

    def unsupported_reason(self, problem: Problem, classes: int | None) -> str | None:
        return needs_slope(problem)

    def within_eps(self, task: Task) -> Tensor:
        searches = min(self.searches, task.budget // STEP)
        if searches == 0:
            return task.images
        steps = min(self.steps, task.budget // (STEP * searches))
        descent = _Descent(task, ClassifierLoss(task, self.loss, KAPPA), TINY)
        lam = torch.full_like(descent.metric.eps, LAMBDA)
        live = torch.arange(len(lam), device=lam.device)
        for _ in range(searches):
            outside = live
            for i in range(steps):
                if live.numel() == 0:
                    return descent.x
                distance, broken = descent.step(live, lam, DECAY ** (i / steps), keep=True)
                outside = live[~(distance < descent.metric.eps[live])]
                live = live[~broken]
            lam[outside] *= GROWTH
        return descent.x.index_copy(0, live, into_ball(task, descent.metric, descent.x[live], live))


@dataclass(frozen=True)
class FastLpa(MaxLossAttack):
    """LPA in one search, lambda growing on the way: no projection, so that points may lie beyond eps."""

    loss: str | None = None
    """"margin", "ce" or "dlr", none of them clipped; None as for LPA"""
    steps: int = 20
    name: str = "fast-lpa"

    def __post_init__(self) -> None:
        _check(self.loss)
        check_settings(self, "steps")

    @property
    def about(self) -> str:
        loss = self.loss or "the problem's loss"
        return f"pwcf's own Fast-LPA, {loss}, {self.steps} steps"

    def unsupported_reason(self, problem: Problem, classes: int | None) -> str | None:
        return needs_slope(problem)

    def within_eps(self, task: Task) -> Tensor:
        """Unlike ``raw`` it stays at the first misclassified point within eps."""
        return self._points(task, keep=True)

    def raw(self, task: Task) -> Tensor:
        """(n, ...) the last points of a max-loss task, as published: nobody looks whether they are within eps."""
        return self._points(task, keep=False)

    def _points(self, task: Task, keep: bool) -> Tensor:
        steps = min(self.steps, task.budget // STEP)
        descent = _Descent(task, ClassifierLoss(task, self.loss, torch.inf), TINY_FAST)
        live = torch.arange(len(task.images), device=task.images.device)
        for i in range(steps):
            if live.numel() == 0:
                break
            share = DECAY ** (i / steps)
            lam = torch.full_like(descent.metric.eps, LAMBDA_FAST * DECAY / share)
            _, broken = descent.step(live, lam, share, keep)
            live = live[~broken]
        return descent.x


class _Descent:
    """The points of all samples of a task, moved some rows at a time."""

    def __init__(self, task: Task, loss: ClassifierLoss, tiny: float) -> None:
        self.task, self.loss, self.metric, self.tiny = task, loss, FeatureMetric(task), tiny
        self.x, self.h = starts_of(task), H * width_of(task)

    def step(self, rows: Tensor, lam: Tensor, share: float, keep: bool) -> tuple[Tensor, Tensor]:
        """One step of the samples ``rows`` (b,), of share * eps; (b,) distances before it, and which are done.

        Done, if ``keep``, is what was misclassified within eps: it stays where it is.
        """
        task, metric, x = self.task, self.metric, self.x[rows]
        loss_eval, distance_eval, eps = self.loss.evaluate(x, rows), metric.evaluate(x, rows), metric.eps[rows]
        done = loss_eval.wrong & (distance_eval.distance <= eps) & keep
        left = ~done
        if not bool(left.any()):
            return distance_eval.distance, done
        here, x, eps = rows[left], x[left], eps[left]
        pull = per_row(lam[here] * (distance_eval.distance[left] > eps), x)
        free = (task.lower < task.upper)[here]
        slope = torch.where(free, pull * distance_eval.slope[left], 0.0) - loss_eval.gradient[left]
        unit = unit_of(slope)
        steepness = metric.distance_between(distance_eval.embedding[left], x - self.h * unit, here) / self.h
        length = torch.nan_to_num(share * eps / (steepness + self.tiny), posinf=0.0)
        moved = torch.clamp(x - per_row(length, x) * unit, task.lower[here], task.upper[here])
        # Where the model says nothing there is no slope to follow: half way back to the image.
        back = 0.5 * (x + task.images[here])
        self.x[here] = torch.where(per_row(loss_eval.defined[left], x), moved, back)
        return distance_eval.distance, done


def _check(loss: str | None) -> None:
    if loss is not None:
        as_loss(loss)
