"""The parts of a step: the rows' state, the ball they stay in, and the rules by which step sizes change.

Halving with momentum is for all norms but l1, which has adaptive sparsity. Images are flattened.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from pwcf._common.rows import PerRow
from pwcf.attacks.base import Task
from pwcf.metrics import HasDualNorm, HasProjection, HasSteepest, Metric

# Croce and Hein 2020: share of the gradient step beside the momentum, share of steps in a window that must have gone
# up, the first checkpoint, and by how much windows shrink and down to what (shares of all steps).
ALPHA, RHO = 0.75, 0.75
FIRST_WINDOW, SHRINK, LEAST_WINDOW = 0.22, 0.03, 0.06
# Croce and Hein 2021: share of the entries the first step moves; later steps move as many as the best point does over
# the divisor. A step is eps long, and over the divisor where the sparsity stays (above 0.95 of what it was), down to a
# tenth of eps.
FIRST_DENSITY, DIVISOR, STAYS, LEAST_STEP = 0.2, 1.5, 0.95, 0.1
SPARSE_WINDOW = 0.04


@dataclass
class AscentState(PerRow):
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
    def at(cls, start: Tensor, sample: Tensor, aim: Tensor) -> AscentState:
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


@dataclass
class ApgdBall(PerRow):
    """The ball of a metric that offers its projection, and the box, of r rows."""

    centre: Tensor
    """(r, n)"""
    radius: Tensor
    """(r,) in the dtype of the centre"""
    eps: Tensor
    """(r,) the same in float64"""
    lower: Tensor
    """(r, n). For linf ball and box are one box, and this is it."""
    upper: Tensor
    metric: Metric
    shape: torch.Size
    """of an image"""
    sequential: bool
    """l2: onto the ball, then onto the box, in place of the nearest point of both"""
    width: float
    """of the bounds: the scale of noise"""

    @classmethod
    def of(cls, task: Task, rows: Tensor, factor: float, sequential: bool) -> ApgdBall:
        """The ball of eps times a factor around some of the task's images (r,)."""
        metric = task.problem.metric
        assert task.eps is not None
        centre, lower, upper = (t[rows].flatten(1) for t in (task.images, task.lower, task.upper))
        eps = factor * task.eps.to(centre.device)[rows]
        if metric.exponent == math.inf:
            least, most = _inside(centre, eps)
            lower, upper = torch.maximum(lower, least), torch.minimum(upper, most)
        least_value, largest_value = task.model.bounds
        width, shape = largest_value - least_value, task.images.shape[1:]
        return cls(centre, eps.to(centre.dtype), eps, lower, upper, metric, shape, sequential, width)

    def project(self, points: Tensor) -> Tensor:
        """(r, n) the nearest points of ball and box, exactly unless ``sequential``."""
        if self.metric.exponent == math.inf:
            return torch.clamp(points, self.lower, self.upper)
        euclidean = self.metric.exponent == 2
        projected = self._onto_l2(points) if euclidean else self._exactly(points, slice(None))
        # Entries are rounded: where that has led out of the ball, all go one unit in the last place back.
        both = (each.view(-1, *self.shape) for each in (self.centre, projected))
        distance = self.metric.distance64(*both)
        out = (distance > self.eps).unsqueeze(1)
        return torch.where(out, torch.nextafter(projected, self.centre), projected)

    def _exactly(self, points: Tensor, rows: Tensor | slice) -> Tensor:
        assert isinstance(self.metric, HasProjection)
        return self.metric.project(points, self.centre[rows], self.radius[rows], self.lower[rows], self.upper[rows])

    def direction(self, gradient: Tensor) -> Tensor:
        """(r, n) of length 1: the sign of the gradient for linf, along the gradient for other metrics.

        Projections are Euclidean. Steps along a norm's own steepest direction would not end where the loss is largest
        unless the two agree, as they do for linf and l2: with a weighted l2 norm radii were 8 % too large.
        """
        if self.metric.exponent in (2, math.inf):
            assert isinstance(self.metric, HasSteepest)
            return self.metric.steepest(gradient)
        largest = gradient.abs().amax(1, keepdim=True)
        scaled = gradient / torch.where(largest > 0, largest, torch.ones_like(largest))
        length = self._length(scaled).unsqueeze(1)
        return scaled / torch.where(length > 0, length, torch.ones_like(length))

    def reach(self, gradient: Tensor) -> Tensor:
        """(r,) how far the ball goes, in the units in which ``direction`` has length 1."""
        if isinstance(self.metric, HasDualNorm):
            return self.radius
        far = self.centre + self.width * math.sqrt(self.centre.shape[1]) * self.direction(gradient)
        return self._length(self.project(far) - self.centre)

    def _length(self, move: Tensor) -> Tensor:
        """(r,) of moves: in the metric if it is a norm, else Euclidean."""
        if isinstance(self.metric, HasDualNorm):
            return self.metric.norm(move)
        length: Tensor = torch.linalg.vector_norm(move, dim=1)
        return length

    def _onto_l2(self, points: Tensor) -> Tensor:
        move = points - self.centre
        length = torch.linalg.vector_norm(move, dim=1)
        scale = torch.where(length > self.radius, self.radius / length, 1.0).unsqueeze(1)
        drawn = self.centre + scale * move
        boxed = torch.clamp(drawn, self.lower, self.upper)
        if self.sequential:
            return boxed
        # Where the box cuts nothing off, or the ball nothing, one after the other is exact. Others need a sort.
        cut = ((boxed != drawn).any(1) & (scale < 1).squeeze(1)).nonzero().squeeze(1)
        if cut.numel() == 0:
            return boxed
        return boxed.index_copy(0, cut, self._exactly(points[cut], cut))

    def start(self, seeds: Sequence[int]) -> Tensor:
        """(r, n) random points, each from a seed of its own.

        Uniform in the ball for linf, on the sphere for other norms. For l1 and for metrics that are not norms, normal
        noise projected onto the ball.
        """
        noise = torch.stack(
            [_noise(seed, self.centre.shape[1], self.metric.exponent == math.inf) for seed in seeds]
        ).to(self.centre)
        if self.metric.exponent == 1 or not isinstance(self.metric, HasDualNorm):
            return self.project(self.centre + self.width * noise)
        length = self.metric.norm(noise).unsqueeze(1)
        return self.project(self.centre + self.radius.unsqueeze(1) * noise / length.clamp(min=torch.finfo().tiny))


def _noise(seed: int, n: int, uniform: bool) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 2 * torch.rand(n, generator=generator) - 1 if uniform else torch.randn(n, generator=generator)


def _inside(centre: Tensor, eps: Tensor) -> tuple[Tensor, Tensor]:
    """centre -+ eps rounded towards the centre: half a unit in the last place may be more than eps allows."""
    exact = centre.double(), eps.double().unsqueeze(1)
    least, most = exact[0] - exact[1], exact[0] + exact[1]
    down, up = least.to(centre.dtype), most.to(centre.dtype)
    down = torch.where(down.double() < least, torch.nextafter(down, centre), down)
    up = torch.where(up.double() > most, torch.nextafter(up, centre), up)
    return down, up


class AscentRule(Protocol):
    """One for all rows of a phase."""

    def keep(self, rows: Tensor) -> None: ...

    def step(self, state: AscentState, ball: ApgdBall) -> Tensor:
        """(r, n) the next points."""
        ...

    def learn(self, state: AscentState, ball: ApgdBall, risen: Tensor, number: int) -> None:
        """Step ``number`` (from 1) is made and its loss known; ``risen`` (r,): it went up."""
        ...


@dataclass
class HalvingRule(PerRow):
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
    def begin(cls, state: AscentState, ball: ApgdBall, steps: int) -> HalvingRule:
        none = torch.zeros_like(state.value, dtype=torch.bool)
        return cls(2 * ball.reach(state.gradient), none.long(), none, state.best_value, checkpoints(steps))

    def step(self, state: AscentState, ball: ApgdBall) -> Tensor:
        direction = ball.direction(state.gradient)
        z = ball.project(state.x + self.size.unsqueeze(1) * direction)
        if self.made == 0:
            return z
        return ball.project(state.x + ALPHA * (z - state.x) + (1 - ALPHA) * (state.x - state.before))

    def learn(self, state: AscentState, ball: ApgdBall, risen: Tensor, number: int) -> None:
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
class SparsityRule(PerRow):
    """Steps of length eps that move the k entries with the largest slopes by as much each."""

    size: Tensor
    """(r,) l1 length of a step"""
    k: Tensor
    """(r,) how many entries a step moves"""
    moved: Tensor
    """(r,) entries in which the best point differed from the image at the last checkpoint"""
    window: int

    @classmethod
    def begin(cls, state: AscentState, ball: ApgdBall, steps: int, first: bool) -> SparsityRule:
        """``first``: the start is random noise and its sparsity says nothing."""
        free = (ball.upper > ball.lower).sum(1)
        moved = free if first else (state.x != ball.centre).sum(1)
        k = FIRST_DENSITY * free if first else moved / DIVISOR
        return cls(ball.radius, _at_least_one(k), moved, max(1, int(SPARSE_WINDOW * steps)))

    def step(self, state: AscentState, ball: ApgdBall) -> Tensor:
        slope = state.gradient.abs()
        least = slope.sort(dim=1, descending=True).values.gather(1, self.k.clamp(max=slope.shape[1]).unsqueeze(1) - 1)
        direction = torch.where(slope >= least, state.gradient.sign(), 0.0)
        entries = direction.abs().sum(1, keepdim=True).clamp(min=1)
        return ball.project(state.x + self.size.unsqueeze(1) * direction / entries)

    def learn(self, state: AscentState, ball: ApgdBall, risen: Tensor, number: int) -> None:
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


def _shorter_where_undefined(size: Tensor, state: AscentState) -> Tensor:
    """(r,) half the step where it has led to undefined logits: such points say nothing about the next one."""
    return torch.where(state.value == -torch.inf, 0.5 * size, size)


def _at_least_one(k: Tensor) -> Tensor:
    return k.long().clamp(min=1)
