"""Tensors with an entry per row, which rows leave."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from torch import Tensor


@dataclass
class PerRow:
    """Every tensor among the fields has the rows in its first dimension."""

    def keep(self, rows: Tensor) -> None:
        """Only these rows (places or flags) stay."""
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Tensor):
                setattr(self, field.name, value[rows])


@dataclass
class State(PerRow):
    """Where r rows are in their ascent."""

    sample: Tensor
    """(r,) whose rows these are: places in the task"""
    aim: Tensor
    """(r,) the class a row is to be taken for, or ANY"""
    x: Tensor
    """(r, n)"""
    before: Tensor
    """(r, n) the point before"""
    gradient: Tensor
    """(r, n) at x"""
    value: Tensor
    """(r,) the loss at x; -inf where the logits are undefined"""
    best: Tensor
    """(r, n) the point of the largest loss"""
    best_gradient: Tensor
    best_value: Tensor

    @classmethod
    def at(cls, start: Tensor, sample: Tensor, aim: Tensor) -> State:
        """Nothing is known of the start yet."""
        nothing, zero = start.new_full((start.shape[0],), -math.inf), start.new_zeros(start.shape)
        return cls(sample, aim, start, start, zero, nothing, start, zero, nothing)

    def learn(self, value: Tensor, gradient: Tensor) -> None:
        """What the model says at x."""
        self.value, self.gradient = value, gradient
        better = value > self.best_value
        column = better.unsqueeze(1)
        self.best_value = value.where(better, self.best_value)
        self.best = self.x.where(column, self.best)
        self.best_gradient = gradient.where(column, self.best_gradient)

    def move(self, x: Tensor) -> None:
        self.before, self.x = self.x, x

    def return_to_best(self, rows: Tensor) -> None:
        """Flags (r,): these rows go on from their best points."""
        column = rows.unsqueeze(1)
        self.x = self.best.where(column, self.x)
        self.gradient = self.best_gradient.where(column, self.gradient)
        self.value = self.best_value.where(rows, self.value)
