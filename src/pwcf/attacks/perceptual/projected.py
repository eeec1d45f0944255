"""PPGD: the steepest step of the loss at a given length in feature space, then a projection, a few times over."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pwcf.attacks.base import Answer, Attack, Task, check_settings
from pwcf.attacks.perceptual.projections import into_ball
from pwcf.attacks.perceptual.rows import KAPPA, STEP, Objective, column, starts_of, width_of
from pwcf.attacks.perceptual.ruler import Ruler
from pwcf.attacks.perceptual.steepest import Jacobian, steepest
from pwcf.attacks.radius_search import search_radius
from pwcf.losses import as_loss
from pwcf.metrics import FeatureDistance
from pwcf.problems import MinRadius, Problem

# All steps together are this many times eps.
LONGER = 2.0


@dataclass(frozen=True)
class Ppgd(Attack):
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

    def __call__(self, task: Task) -> Answer:
        if reason := self.unsupported_reason(task.problem, None):
            raise ValueError(reason)
        if task.images.shape[0] == 0:
            return Answer(task.images)
        if isinstance(task.problem, MinRadius):
            return search_radius(self._within, task)
        return Answer(self._within(task))

    def _within(self, task: Task) -> Tensor:
        steps = min(self.steps, task.budget // STEP)
        ruler, objective = Ruler(task), Objective(task, self.loss, KAPPA)
        x = starts_of(task)
        live = torch.arange(len(x), device=x.device)
        for _ in range(steps):
            parts = torch.split(live, ruler.measure.batch)
            live = torch.cat([self._step(objective, ruler, x, rows, LONGER / steps) for rows in parts])
            if live.numel() == 0:
                break
        return x

    def _step(self, objective: Objective, ruler: Ruler, x: Tensor, rows: Tensor, share: float) -> Tensor:
        """Samples ``rows`` (b,) moved in ``x`` by share * eps and into the ball. Those that are broken stay and leave.

        Returns the places of those that go on.
        """
        task, climb = objective.task, objective.look(x[rows], rows)
        wrong = climb.wrong.nonzero().squeeze(1)
        going = torch.ones_like(climb.wrong)
        going[wrong] = ~(ruler.values(x[rows[wrong]], rows[wrong]) <= ruler.eps[rows[wrong]])
        rows = rows[going]
        if rows.numel() == 0:
            return rows
        here, gradient = x[rows], climb.gradient[going]
        J = Jacobian(ruler, here, rows, (task.lower < task.upper)[rows], width_of(task))
        moved = here + steepest(J, gradient, share * ruler.eps[rows], self.cg_steps)
        moved = torch.clamp(moved, task.lower[rows], task.upper[rows])
        # Where the model says nothing there is no slope to follow: half way back to the image.
        back = 0.5 * (here + task.images[rows])
        x[rows] = into_ball(task, ruler, torch.where(column(climb.defined[going], here), moved, back), rows)
        return rows
