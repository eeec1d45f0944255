"""Step rules, by norm: from one linearisation of the condition to the next point.

The condition is c(z) = f_y - f_t <= 0 for a target class t. At x it becomes the *cut*  c + g'(z - x) <= 0, or g'z <= h.
Which point on the cut's good side is taken depends on the metric. Every rule finds its point exactly, from a point with
momentum, with the cut a little over-satisfied. There is no merit function and no step is rejected: points alternate
about the boundary and close in on it as the over-satisfaction and the pull towards the image shrink geometrically.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from pwcf.attacks.linearised.starts import LANDMARKS, landmark
from pwcf.metrics import HasHalfspaceStep, Linf, dual_norm
from pwcf.metrics.halfspace import dot, least_zero, looks_now

# The cut asks for this share of |c| more than the linear model does: the model errs by about that much.
SURPLUS = 0.05
# The margin that is asked for beyond the cut falls to this share of its start at the end of a stage.
MARGIN_END = 0.1
# Longest step outwards of the linf rule, in units of the row's first radius: a first linearisation may be far off.
OUTWARDS = 0.15
# Rows on their way to the boundary aim this share of their distance beyond the cut: with less, those whose condition
# is convex come closer and closer, and never cross.
REACH_MARGIN = 0.3
# Steps that all but a few rows on their way to the boundary need.
PATIENCE = 8
# A row that is this much nearer than its best point, and not misclassified, has lost the boundary: gradients may never
# lead there again (l1 on an MNIST net, 100 passes: half of the samples ended at 150 in place of 2). A phase with fewer
# steps has none for the way back.
FALLEN, ENOUGH_TO_RETURN = 0.1, 15
# How fast the bracketing search widens its interval. Where few entries move the zero is this far out again and again.
WIDENING = 4.0
# From eps times the limit, in double precision too, it is there after this many.
WIDENINGS = 27
# Steps of the bracketing search, where the function is neither convex nor concave; and how far beyond the cut it may
# end, as a power of eps of the first excess.
BRACKETINGS, BEYOND = 40, 0.5


class Iterate(NamedTuple):
    """What a rule knows of its rows, all flat."""

    centre: Tensor
    """(r, n) the images"""
    x: Tensor
    """(r, n) where the condition was linearised"""
    before: Tensor
    """(r, n) the point before"""
    c: Tensor
    """(r,) > 0: not there yet"""
    g: Tensor
    """(r, n) gradient of c"""
    wrong: Tensor
    """(r,) whether x is misclassified"""
    radius: Tensor
    """(r,) distance of x in the metric asked for"""
    slope: Tensor | None
    """(r, n) gradient of the distance, where the rule needs it"""
    degree: Tensor
    """(r,) how the distance grows near the image: 1 like a norm, 2 like its square"""
    best: Tensor
    """(r,) the smallest radius of a misclassified point of this stage, inf if there is none"""
    best_x: Tensor
    """(r, n) that point"""
    lower: Tensor
    """(r, n) the box, or (1, n) where it is the same for all"""
    upper: Tensor
    distance: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] | None
    """of other points (m, n) of some rows (m,): (m,) and its gradient; None where the metric has structure"""

    def select(self, rows: Tensor) -> Iterate:
        """Some rows (m,) of a metric without structure; ``distance`` counts them as it did before."""
        per_row: dict[str, Any] = {
            name: value[rows]
            for name, value in self._asdict().items()
            if isinstance(value, Tensor) and not (name in ("lower", "upper") and len(value) == 1)
        }
        return self._replace(**per_row)

    def onwards(self, schedule: StepSchedule) -> Tensor:
        """Inside the box, on from x as far as momentum carries it."""
        return torch.clamp(torch.lerp(self.before, self.x, 1 + schedule.momentum), self.lower, self.upper)

    def level(self, margin: Tensor) -> Tensor:
        """h of the cut g'z <= h."""
        return self.reach - SURPLUS * self.c.abs() - margin

    @property
    def reach(self) -> Tensor:
        """h of the cut as it is, without surplus or margin."""
        return (self.g * self.x).sum(-1) - self.c


@dataclass(frozen=True)
class StepSchedule:
    """How the steps of a phase change from the first to the last: their size and the margin beyond the cut."""

    first: float
    """size of the first step: the pull of l2, the change of radius of linf, the threshold of l1"""
    last: float
    momentum: float
    margin: float
    """how far beyond the cut the first step goes, relative to the radius"""

    def at(self, share: float) -> float:
        """Geometric from ``first`` to ``last`` as ``share`` goes from 0 to 1."""
        return self.first * math.exp(share * math.log(self.last / self.first))

    def margin_at(self, share: float) -> float:
        """Geometric from ``margin`` to ``MARGIN_END`` times as much."""
        return self.margin * math.exp(share * math.log(MARGIN_END))


class StepRule(Protocol):
    """One step. ``memory`` is the rule's own: zeros (r,) at the start of a phase, then what it has returned."""

    def __call__(self, at: Iterate, schedule: StepSchedule, share: float, memory: Any) -> tuple[Tensor, Any]: ...


def l2_rule(at: Iterate, schedule: StepSchedule, share: float, memory: Tensor) -> tuple[Tensor, Tensor]:
    """Pull the point towards the image, then project it onto the cut and the box."""
    pull = schedule.at(share)
    point = torch.lerp(at.onwards(schedule), at.centre, pull)
    radius = norm2(at.x - at.centre)
    level = at.level(schedule.margin_at(share) * norm2(at.g) * radius)
    return onto_cut_and_box(point, at.g, level, at.lower, at.upper), memory


@dataclass(frozen=True)
class NormRule:
    """For any norm: pull towards the nearest point of the cut in the norm's sense, then project onto cut and box.

    For l2 this is ``l2_rule``: the image and its projection onto the cut differ by a multiple of g.
    """

    metric: HasHalfspaceStep

    def __call__(self, at: Iterate, schedule: StepSchedule, share: float, memory: Tensor) -> tuple[Tensor, Tensor]:
        pull = schedule.at(share)
        level = at.level(schedule.margin_at(share) * dual_norm(self.metric, at.g) * at.radius)
        nearest = self.metric.nearest_on_halfspace(at.centre, at.g, level, at.lower, at.upper)
        point = torch.lerp(at.onwards(schedule), nearest, pull)
        return onto_cut_and_box(point, at.g, level, at.lower, at.upper), memory


@dataclass(frozen=True)
class LinfRule:
    """Choose a radius, smaller where x is misclassified, and project onto the cut and that ball.

    ``memory`` is the radius of the stage's first step, the scale of steps outwards.
    """

    outwards: float = OUTWARDS
    """longest step outwards"""
    inwards: float = 1.0
    """longest step inwards, in units of the schedule's, taken where the linear model promises as much"""

    def __call__(self, at: Iterate, schedule: StepSchedule, share: float, memory: Tensor) -> tuple[Tensor, Tensor]:
        step = schedule.at(share)
        radius, reach = at.radius, at.reach
        least = Linf().least_radius(at.centre, at.g, reach, at.lower, at.upper)
        memory = torch.where(memory > 0, memory, torch.maximum(least, radius))
        outwards = torch.maximum((1 + step) * radius, torch.minimum(least, radius + self.outwards * memory))
        inwards = torch.clamp(least, (1 - self.inwards * step) * radius, (1 - step) * radius)
        t = torch.where(at.wrong, inwards, outwards)
        t = torch.minimum(t, (1 - step / 2) * at.best).unsqueeze(-1)
        lower, upper = torch.maximum(at.centre - t, at.lower), torch.minimum(at.centre + t, at.upper)
        point = torch.clamp(torch.lerp(at.before, at.x, 1 + schedule.momentum), lower, upper)
        level = at.level(schedule.margin_at(share) * at.g.abs().sum(-1) * t.squeeze(-1))
        return onto_cut_and_box(point, at.g, level, lower, upper), memory


def l1_rule(at: Iterate, schedule: StepSchedule, share: float, memory: Tensor) -> tuple[Tensor, Tensor]:
    """A prox step of the l1 distance on the cut. ``memory`` is the largest entry of a move so far: its scale."""
    move = at.x - at.centre
    memory = torch.maximum(memory, move.abs().amax(-1))
    level = at.level(schedule.margin_at(share) * at.g.abs().amax(-1) * at.radius)
    threshold = memory * schedule.at(share)
    return sparse_on_cut(at.onwards(schedule), at.centre, at.g, level, threshold, at.lower, at.upper), memory


@dataclass(frozen=True)
class NearestPointRule:
    """Straight to the nearest point of the cut in the metric's sense: exact where the condition is linear."""

    metric: HasHalfspaceStep

    def __call__(self, at: Iterate, schedule: StepSchedule, share: float, memory: Tensor) -> tuple[Tensor, Tensor]:
        margin = torch.zeros_like(at.c)
        if schedule.margin > 0:
            margin = schedule.margin_at(share) * dual_norm(self.metric, at.g) * at.radius
        level = at.level(margin)
        return self.metric.nearest_on_halfspace(at.centre, at.g, level, at.lower, at.upper), memory


@dataclass(frozen=True)
class ReachFirst:
    """Another rule for rows with a misclassified point; the others go straight to one. For searches with few steps.

    Straight is the shortest way from x onto the cut, without pull or momentum. Where gradients mislead, and there is no
    point after some steps, the row tries the landmarks.
    """

    rule: StepRule
    steps: int
    """of the phase"""
    metric: HasHalfspaceStep | None
    """in whose sense the way is short; None: the rule itself reaches the boundary fast enough"""
    patience: int = PATIENCE
    """steps without a misclassified point after which a row looks for one at the landmarks, one a step"""

    def __call__(self, at: Iterate, schedule: StepSchedule, share: float, memory: Tensor) -> tuple[Tensor, Tensor]:
        following, memory = self.rule(at, schedule, share, memory)
        following = self._on_its_way(at, following)
        turn = round(share * (self.steps - 1)) - self.patience
        if 0 <= turn < len(LANDMARKS):
            straight = landmark(LANDMARKS[turn], at.centre, at.lower, at.upper)
        elif self.metric is not None:
            level = at.level(REACH_MARGIN * dual_norm(self.metric, at.g) * at.radius)
            straight = self.metric.nearest_on_halfspace(at.x, at.g, level, at.lower, at.upper)
        else:
            return following, memory
        return torch.where(torch.isfinite(at.best).unsqueeze(-1), following, straight), memory

    def _on_its_way(self, at: Iterate, following: Tensor) -> Tensor:
        """Rows that have fallen back far behind their best point go half the way out to it."""
        if self.steps < ENOUGH_TO_RETURN:
            return following
        fallen = ~at.wrong & torch.isfinite(at.best) & (at.radius < FALLEN * at.best)
        return torch.where(fallen.unsqueeze(-1), torch.lerp(at.x, at.best_x, 0.5), following)


# ---- the linearised problems, solved exactly ----------------------------------------------------------------------
#
# Each solution is found by one number per row, the multiplier lam of the cut or a scale t: a monotone function of it is
# followed to its zero. These functions run at every step for every row. They are made of few passes over (r, n), and do
# without torch.where and comparisons on them, which cost ten times an arithmetic pass on a CPU.


def onto_cut_and_box(point: Tensor, g: Tensor, h: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """The nearest z to ``point`` (r, n), in the l2 sense, with g'z <= h (r,) and lower <= z <= upper.

    The point must be inside the box. Where no z satisfies the cut, the one that comes closest to it.
    """

    def at(lam: Tensor) -> Tensor:
        return torch.clamp(torch.addcmul(point, lam.unsqueeze(-1), g, value=-1), lower, upper)

    first = dot(g, point) - h
    # Of this size is what rounding leaves of the excess.
    noise = torch.finfo(h.dtype).eps * norm2(g) * norm2(point)
    lam = least_zero(lambda lam: dot(g, at(lam)) - h, first, norm2(g).square(), noise)
    return at(lam)


def along_onto_cut_and_box(
    point: Tensor, direction: Tensor, g: Tensor, h: Tensor, lower: Tensor, upper: Tensor
) -> Tensor:
    """clip(point - lam direction) with the least lam >= 0 that meets g'z <= h.

    For direction = g this is the nearest point; for H g it is the nearest one in the norm of H^-1, up to the entries at
    bounds. With many of those the excess need not fall all the way: what is left of it goes along g.
    """

    def at(lam: Tensor) -> Tensor:
        return torch.clamp(torch.addcmul(point, lam.unsqueeze(-1), direction, value=-1), lower, upper)

    first = dot(g, at(torch.zeros_like(h))) - h
    noise = torch.finfo(h.dtype).eps * norm2(g) * norm2(point)
    lam = least_zero(lambda lam: dot(g, at(lam)) - h, first, dot(g, direction), noise)
    return onto_cut_and_box(at(lam), g, h, lower, upper)


def sparse_on_cut(
    point: Tensor, centre: Tensor, g: Tensor, h: Tensor, threshold: Tensor, lower: Tensor, upper: Tensor
) -> Tensor:
    """min threshold |z - centre|_1 + 1/2 |z - point|_2^2  s.t.  g'z <= h, z in the box: the prox step of l1 on the cut.

    z = clip(centre + soft(point - centre - lam g, threshold)) with the least lam >= 0 that satisfies the cut.
    """
    start, level, need = point - centre, threshold.unsqueeze(-1), h - dot(g, centre)
    low, high = lower - centre, upper - centre

    def move(lam: Tensor) -> Tensor:
        v = torch.addcmul(start, lam.unsqueeze(-1), g, value=-1)
        return torch.clamp(v - torch.clamp(v, -level, level), low, high)

    # At this lam the entry with the largest slope has crossed the whole box: a linear model that asks for more is
    # not to be believed. Without the limit rows jump to far corners; on an MNIST net radii became a sixth larger.
    limit = (upper - lower).amax(-1) / g.abs().amax(-1).clamp(min=torch.finfo(h.dtype).tiny)
    lam = _bracketed(lambda lam: dot(g, move(lam)) - need, norm2(g).square(), limit)
    return torch.clamp(centre + move(lam), lower, upper)


def _bracketed(excess_at: Callable[[Tensor], Tensor], steepest: Tensor, limit: Tensor) -> Tensor:
    """(r,) the least s in [0, limit] with excess_at(s) <= 0 up to BEYOND, else the limit.

    For decreasing functions that nowhere fall faster than ``steepest``: before excess / steepest there is no zero. From
    there the interval is widened until it holds one; then regula falsi with the Illinois rule, by which an end that
    stays twice counts half, so that both ends move.
    """
    first = excess_at(torch.zeros_like(limit))
    near = torch.finfo(limit.dtype).eps ** BEYOND * first
    low, at_low = torch.zeros_like(limit), first
    tiny, eps = torch.finfo(limit.dtype).tiny, torch.finfo(limit.dtype).eps
    high = torch.minimum(WIDENING * first.clamp(min=0) / steepest.clamp(min=tiny), limit)
    high = torch.maximum(high, eps * limit)  # steepest may have overflown
    at_high = excess_at(high)
    for number in range(WIDENINGS):
        short = (at_high > 0) & (high < limit)
        if looks_now(limit, number) and not bool(short.any()):
            break
        low, at_low = torch.where(short, high, low), torch.where(short, at_high, at_low)
        high = torch.where(short, torch.minimum(WIDENING * high, limit), high)
        at_high = excess_at(high)
    side, weight_low, weight_high = torch.zeros_like(limit), at_low, at_high
    for number in range(BRACKETINGS):
        # Settled: nothing to do, nothing that can be done, or the upper end is just beyond the zero.
        going = (first > 0) & (at_high < -near)
        if looks_now(limit, number) and not bool(going.any()):
            break
        s = (low * weight_high - high * weight_low) / (weight_high - weight_low)
        s = torch.where((s > low) & (s < high), s, 0.5 * (low + high))
        excess = excess_at(s)
        right = excess <= 0
        weight_high = torch.where(right, excess, torch.where(side < 0, 0.5 * weight_high, weight_high))
        weight_low = torch.where(right, torch.where(side > 0, 0.5 * weight_low, weight_low), excess)
        move_high, move_low = going & right, going & ~right
        high, at_high = torch.where(move_high, s, high), torch.where(move_high, excess, at_high)
        low = torch.where(move_low, s, low)
        side = torch.where(right, 1.0, -1.0)
    return torch.where(first > 0, high, torch.zeros_like(high))


def norm2(v: Tensor) -> Tensor:
    """(r,) Euclidean lengths of rows (r, n)."""
    length: Tensor = torch.linalg.vector_norm(v, dim=-1)
    return length
