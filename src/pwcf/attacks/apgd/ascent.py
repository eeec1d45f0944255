"""One run for many rows: from a start to the point of the largest loss; rows leave as they are answered."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from pwcf.attacks.apgd.rules import ApgdBall, AscentRule, AscentState, HalvingRule, SparsityRule
from pwcf.attacks.base import ANY, Task
from pwcf.losses import LOSSES, dlr_classes, margin, mask_label
from pwcf.metrics import distance64, shrink_to_eps
from pwcf.problems import is_defined, is_surely_wrong, is_wrong

# A projected point is beyond eps by rounding only: by no more than this, relative, and is drawn in. One of a larger
# ball (l1) that happens to be within eps is an answer as well.
ROUNDING = 1e-5


@dataclass(frozen=True)
class ApgdPhase:
    """So many steps in a ball so many times as large."""

    factor: float
    steps: int


def ascend(
    objective: ApgdObjective,
    sample: Tensor,
    aim: Tensor,
    start: Tensor | list[int],
    parts: list[ApgdPhase],
    sequential: bool,
) -> None:
    """All phases of a run.

    ``sample``, ``aim`` (r,); ``start`` (r, n), or a seed for every row to draw its start from.
    """
    drawn = isinstance(start, list)
    for number, phase in enumerate(parts):
        if sample.numel() == 0:
            return
        ball = ApgdBall.of(objective.task, sample, phase.factor, sequential)
        x = ball.start(start) if isinstance(start, list) else ball.project(start)
        state = AscentState.at(x, sample, aim)
        last = number == len(parts) - 1
        _climb(objective, state, ball, phase.steps, number == 0 and drawn, last)
        sample, aim, start = state.sample, state.aim, state.best


def _climb(objective: ApgdObjective, state: AscentState, ball: ApgdBall, steps: int, drawn: bool, last: bool) -> None:
    """One phase. The state ends with the rows that are not answered."""
    _look(objective, state, ball, None, slope=True)
    sparse = ball.metric.exponent == 1
    rule: AscentRule = (
        SparsityRule.begin(state, ball, steps, drawn) if sparse else HalvingRule.begin(state, ball, steps)
    )
    for number in range(1, steps + 1):
        if state.sample.numel() == 0:
            return
        step = rule.step(state, ball)
        # Where logits are undefined there is no slope: halfway back to the best point, or to the image.
        known = torch.isfinite(state.best_value).unsqueeze(1)
        refuge = torch.where(known, state.best, ball.centre)
        state.move(torch.where((state.value == -torch.inf).unsqueeze(1), 0.5 * (state.x + refuge), step))
        was = state.value
        kept = _look(objective, state, ball, rule, slope=not last or number < steps)
        rule.learn(state, ball, state.value > was[kept], number)


def _look(objective: ApgdObjective, state: AscentState, ball: ApgdBall, rule: AscentRule | None, slope: bool) -> Tensor:
    """Evaluate, and let the answered rows go; flags of those that stay among those that were there."""
    state.learn(*objective.look(state, ball.upper > ball.lower, slope))
    kept = ~objective.broken[state.sample]
    if not bool(kept.all()):
        for part in (state, ball, rule):
            if part is not None:
                part.keep(kept)
    return kept


@dataclass
class ApgdObjective:
    """The loss of a max-loss task, whose samples are answered as soon as they are misclassified within eps."""

    task: Task
    loss: str

    def __post_init__(self) -> None:
        self.answers = self.task.images.clone()
        self.broken = torch.zeros(self.answers.shape[0], dtype=torch.bool, device=self.answers.device)

    def look(self, state: AscentState, free: Tensor, slope: bool) -> tuple[Tensor, Tensor]:
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
        if self.loss == "dlr" and logits.shape[1] < dlr_classes(targets is not None):
            function = margin  # what is left of it
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
