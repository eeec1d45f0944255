"""One run for many rows: from a start to the point of the largest loss; rows leave as they are answered."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pwcf.attacks.apgd.rules import ApgdBall, AscentRule, AscentState, HalvingRule, SparsityRule
from pwcf.attacks.objective import MaxLossObjective


@dataclass(frozen=True)
class ApgdPhase:
    """So many steps in a ball so many times as large."""

    factor: float
    steps: int


def ascend(
    objective: MaxLossObjective,
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


def _climb(
    objective: MaxLossObjective, state: AscentState, ball: ApgdBall, steps: int, drawn: bool, last: bool
) -> None:
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


def _look(
    objective: MaxLossObjective, state: AscentState, ball: ApgdBall, rule: AscentRule | None, slope: bool
) -> Tensor:
    """Evaluate, and let the answered rows go; flags of those that stay among those that were there."""
    if slope:
        state.learn(*objective.look(state.sample, state.aim, state.x, ball.upper > ball.lower))
    else:
        objective.check(state.sample, state.x)
    kept = ~objective.broken[state.sample]
    if not bool(kept.all()):
        for part in (state, ball, rule):
            if part is not None:
                part.keep(kept)
    return kept
