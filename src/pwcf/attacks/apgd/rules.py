"""How rows step, and when they change how: halving with momentum (l2, linf) and adaptive sparsity (l1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from pwcf.attacks.apgd.ball import Ball
from pwcf.attacks.apgd.rows import PerRow, State

# Croce and Hein 2020: share of the gradient step beside the momentum, share of steps in a window that must have gone
# up, the first checkpoint, and by how much windows shrink and down to what (shares of all steps).
ALPHA, RHO = 0.75, 0.75
FIRST_WINDOW, SHRINK, LEAST_WINDOW = 0.22, 0.03, 0.06
# Croce and Hein 2021: share of the entries the first step moves; later steps move as many as the best point does over
# the divisor. A step is eps long, and over the divisor where the sparsity stays (above 0.95 of what it was), down to a
# tenth of eps.
FIRST_DENSITY, DIVISOR, STAYS, LEAST_STEP = 0.2, 1.5, 0.95, 0.1
SPARSE_WINDOW = 0.04


class Rule(Protocol):
    """One for all rows of a phase."""

    def keep(self, rows: Tensor) -> None: ...

    def step(self, state: State, ball: Ball) -> Tensor:
        """(r, n) the next points."""
        ...

    def learn(self, state: State, ball: Ball, risen: Tensor, number: int) -> None:
        """Step ``number`` (from 1) is made and its loss known; ``risen`` (r,): it went up."""
        ...


@dataclass
class Halving(PerRow):
    """Steps of 2 eps along the sign (linf) or the direction (l2) of the gradient, halved where they do not help."""

    size: Tensor
    """(r,) length of a step"""
    rises: Tensor
    """(r,) steps since the last checkpoint that went up"""
    halved: Tensor
    """(r,) whether the last checkpoint halved the step"""
    best_then: Tensor
    """(r,) the largest loss at the last checkpoint"""
    checkpoints: list[int]
    """w_0 = 0, w_1, ..."""
    made: int = 0

    @classmethod
    def begin(cls, state: State, ball: Ball, steps: int) -> Halving:
        none = torch.zeros_like(state.value, dtype=torch.bool)
        return cls(2 * ball.radius, none.long(), none, state.best_value, checkpoints(steps))

    def step(self, state: State, ball: Ball) -> Tensor:
        direction = ball.steepest(state.gradient)
        z = ball.project(state.x + self.size.unsqueeze(1) * direction)
        if self.made == 0:
            return z
        return ball.project(state.x + ALPHA * (z - state.x) + (1 - ALPHA) * (state.x - state.before))

    def learn(self, state: State, ball: Ball, risen: Tensor, number: int) -> None:
        self.made = number
        self.rises = self.rises + risen
        self.size = _shorter_where_undefined(self.size, state)
        if number not in self.checkpoints:
            return
        window = number - self.checkpoints[self.checkpoints.index(number) - 1]
        oscillates = self.rises < RHO * window
        stuck = ~self.halved & (state.best_value <= self.best_then)
        self.halved, self.best_then = oscillates | stuck, state.best_value
        self.rises = torch.zeros_like(self.rises)
        self.size = torch.where(self.halved, 0.5 * self.size, self.size)
        state.return_to_best(self.halved)


@dataclass
class Sparse(PerRow):
    """Steps of length eps that move the k entries with the largest slopes by as much each."""

    size: Tensor
    """(r,) l1 length of a step"""
    k: Tensor
    """(r,) how many entries a step moves"""
    moved: Tensor
    """(r,) entries in which the best point differed from the image at the last checkpoint"""
    window: int

    @classmethod
    def begin(cls, state: State, ball: Ball, steps: int, first: bool) -> Sparse:
        """``first``: the start is random noise and its sparsity says nothing."""
        free = (ball.upper > ball.lower).sum(1)
        moved = free if first else (state.x != ball.centre).sum(1)
        k = FIRST_DENSITY * free if first else moved / DIVISOR
        return cls(ball.radius, _at_least_one(k), moved, max(1, int(SPARSE_WINDOW * steps)))

    def step(self, state: State, ball: Ball) -> Tensor:
        slope = state.gradient.abs()
        least = slope.sort(dim=1, descending=True).values.gather(1, self.k.clamp(max=slope.shape[1]).unsqueeze(1) - 1)
        direction = torch.where(slope >= least, state.gradient.sign(), 0.0)
        entries = direction.abs().sum(1, keepdim=True).clamp(min=1)
        return ball.project(state.x + self.size.unsqueeze(1) * direction / entries)

    def learn(self, state: State, ball: Ball, risen: Tensor, number: int) -> None:
        self.size = _shorter_where_undefined(self.size, state)
        if number % self.window != 0:
            return
        moved = (state.best != ball.centre).sum(1)
        sparser = moved < STAYS * self.moved
        smaller = torch.maximum(self.size / DIVISOR, LEAST_STEP * ball.radius)
        self.size = torch.where(sparser, ball.radius, smaller)
        self.k, self.moved = _at_least_one(moved / DIVISOR), moved
        state.return_to_best(sparser)


def checkpoints(steps: int) -> list[int]:
    """w_j = ceil(p_j N) with p_1 = 0.22, p_{j+1} = p_j + max(p_j - p_{j-1} - 0.03, 0.06)."""
    at, window, found = 0.0, FIRST_WINDOW, [0]
    while at + window <= 1:
        at += window
        found.append(math.ceil(at * steps - 1e-9))  # 0.41 is a little more in floating point
        window = max(window - SHRINK, LEAST_WINDOW)
    return found


def _shorter_where_undefined(size: Tensor, state: State) -> Tensor:
    """(r,) half the step where it has led to undefined logits: such points say nothing about the next one."""
    return torch.where(state.value == -torch.inf, 0.5 * size, size)


def _at_least_one(k: Tensor) -> Tensor:
    return k.long().clamp(min=1)
