"""PPGD: the steepest step of the loss at a given length in feature space, then a projection, a few times over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from pwcf._common.rows import per_row
from pwcf.attacks.base import Task, check_settings
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
from pwcf.metrics import FeatureDistance
from pwcf.problems import Problem

# All steps together are this many times eps.
LONGER = 2.0
# Finite differences of features: along a direction times this.
H = 1e-3


@dataclass(frozen=True)
class Ppgd(MaxLossAttack):
    """Perceptual projected gradient descent.

    With J the Jacobian of the features the loss grows most, for a given |J v|, along v = (J^T J)^-1 gradient.
    """

    loss: str | None = None
    """"margin" (clipped at 1), "ce" or "dlr"; None: that of a max-loss problem, the margin for min-radius"""
    steps: int = 5
    """at most: as far as the budget goes"""
    cg_steps: int = 5
    """iterations for the direction of a step"""
    name: str = "ppgd"

    def __post_init__(self) -> None:
        if self.loss is not None:
            as_loss(self.loss)
        check_settings(self, "steps", "cg_steps")

    @property
    def about(self) -> str:
        loss = self.loss or "the problem's loss"
        return f"pwcf's own PPGD, {loss}, {self.steps} steps with {self.cg_steps} conjugate gradients each"

    def unsupported_reason(self, problem: Problem, classes: int | None) -> str | None:
        metric = problem.metric
        if isinstance(metric, FeatureDistance) and metric.p == 2:
            return None
        return f"{self.name} needs a Euclidean distance between features, which {metric.name} is not."

    def within_eps(self, task: Task) -> Tensor:
        steps = min(self.steps, task.budget // STEP)
        metric, loss = FeatureMetric(task), ClassifierLoss(task, self.loss, KAPPA)
        x = starts_of(task)
        live = torch.arange(len(x), device=x.device)
        for _ in range(steps):
            parts = torch.split(live, metric.measure.batch)
            live = torch.cat([self._step(loss, metric, x, rows, LONGER / steps) for rows in parts])
            if live.numel() == 0:
                break
        return x

    def _step(self, loss: ClassifierLoss, metric: FeatureMetric, x: Tensor, rows: Tensor, share: float) -> Tensor:
        """Samples ``rows`` (b,) moved in ``x`` by share * eps and into the ball. Those that are broken stay and leave.

        Returns the places of those that go on.
        """
        task, loss_eval = loss.task, loss.evaluate(x[rows], rows)
        wrong = loss_eval.wrong.nonzero().squeeze(1)
        going = torch.ones_like(loss_eval.wrong)
        going[wrong] = ~(metric.values(x[rows[wrong]], rows[wrong]) <= metric.eps[rows[wrong]])
        rows = rows[going]
        if rows.numel() == 0:
            return rows
        here, gradient = x[rows], loss_eval.gradient[going]
        J = Jacobian(metric, here, rows, (task.lower < task.upper)[rows], width_of(task))
        moved = here + steepest(J, gradient, share * metric.eps[rows], self.cg_steps)
        moved = torch.clamp(moved, task.lower[rows], task.upper[rows])
        # Where the model says nothing there is no slope to follow: half way back to the image.
        back = 0.5 * (here + task.images[rows])
        x[rows] = into_ball(task, metric, torch.where(per_row(loss_eval.defined[going], here), moved, back), rows)
        return rows


class Jacobian:
    """J of the features at b points (b, ...), by its products. Directions are in widths of the bounds."""

    def __init__(self, metric: FeatureMetric, points: Tensor, rows: Tensor, free: Tensor, width: float) -> None:
        assert metric.network is not None
        self.metric, self.features = metric, metric.network.features
        self.rows, self.free, self.width = rows, free, width
        with torch.enable_grad():
            self.points = points.detach().requires_grad_(True)
            self.phi = self.features(self.points)
        metric.count(rows, forward=1)

    @torch.no_grad()
    def times(self, v: Tensor) -> Tensor:
        """(b, m) J v, to first order."""
        self.metric.count(self.rows, forward=1)
        return (self.features(self.points.detach() + H * self.width * v) - self.phi.detach()) / H

    def squared_times(self, v: Tensor) -> Tensor:
        """(b, ...) J^T J v."""
        Jv = self.times(v)
        self.metric.count(self.rows, backward=1)
        (product,) = torch.autograd.grad(self.phi, self.points, Jv, retain_graph=True)
        return torch.where(self.free, self.width * product, 0.0)


def steepest(J: Jacobian, gradient: Tensor, length: Tensor, steps: int) -> Tensor:
    """(b, ...) the step v, a multiple of (J^T J)^-1 gradient, with |J v| = length (b,); 0 where there is none."""
    # Of length 1: only the finite differences know how large it is, and losses differ in that by many powers of ten.
    v = conjugate_gradients(J.squared_times, unit_of(gradient), steps)
    factor = length / J.metric.norm(J.times(v))
    factor = torch.where(torch.isfinite(factor), factor, 0.0)
    return per_row(factor, v) * J.width * v


def conjugate_gradients(product: Callable[[Tensor], Tensor], g: Tensor, steps: int) -> Tensor:
    """(b, ...) v with A v about g after some iterations from 0. A of every row is positive semidefinite.

    A row stops where nothing is left of its residual, or its products say that A is not positive. (The reference stops
    the whole batch once all squared residuals are below 0.1, which depends on the company and seldom happens.)
    """
    v, r, p = torch.zeros_like(g), g, g
    size = _dot(r, r)
    going = size > 0
    for _ in range(steps):
        if not bool(going.any()):
            break
        Ap = product(p)
        alpha = size / _dot(p, Ap)
        going = going & (alpha > 0) & torch.isfinite(alpha)
        alpha = per_row(torch.where(going, alpha, 0.0), g)
        v = v + alpha * p
        r = r - alpha * torch.nan_to_num(Ap)
        last, size = size, _dot(r, r)
        going = going & (size > 0) & torch.isfinite(size)
        p = r + per_row(torch.where(going, size / last, 0.0), g) * p
    return v


def _dot(a: Tensor, b: Tensor) -> Tensor:
    """(b,)"""
    return (a * b).flatten(1).sum(1)
