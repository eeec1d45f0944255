"""Where to go next: from one linearisation of the condition to the next point.

The condition is c(z) = f_y - f_t <= 0 for a target class t. At x it becomes c + g'(z - x) <= 0. Every rule solves this
linearised problem exactly, a little over-satisfied, from a point with momentum. There is no merit function and no
rejection: points alternate about the boundary and close in on it as the over-satisfaction and the pull towards the
image shrink on a geometric schedule.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from pwcf.attacks.lmn.subproblem import onto_cut_and_box, sparse_on_cut
from pwcf.metrics import L1, HasHalfspaceStep, Linf, dual_norm

# The cut asks for this share of |c| more than the linear model does: the model errs by about that much.
SURPLUS = 0.05
# The margin that is asked for beyond the cut falls to this share of its start at the end of a stage.
MARGIN_END = 0.1
# Longest step outwards of the linf rule, in units of the row's first radius: a first linearisation may be far off.
OUTWARDS = 0.15


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

    def onwards(self, pace: Pace) -> Tensor:
        """Inside the box, on from x as far as momentum carries it."""
        return torch.clamp(torch.lerp(self.before, self.x, 1 + pace.momentum), self.lower, self.upper)

    def level(self, margin: Tensor) -> Tensor:
        """h of the cut g'z <= h."""
        return self.reach - SURPLUS * self.c.abs() - margin

    @property
    def reach(self) -> Tensor:
        """h of the cut as it is, without surplus or margin."""
        return (self.g * self.x).sum(-1) - self.c


@dataclass(frozen=True)
class Pace:
    """How a stage proceeds from its first to its last step."""

    first: float
    last: float
    momentum: float
    margin: float

    def at(self, share: float) -> float:
        """Geometric from ``first`` to ``last`` as ``share`` goes from 0 to 1."""
        return self.first * math.exp(share * math.log(self.last / self.first))

    def margin_at(self, share: float) -> float:
        return self.margin * math.exp(share * math.log(MARGIN_END))


class Rule(Protocol):
    """One step. ``memory`` is the rule's own: zeros (r,) at the start of a stage, then what it has returned."""

    def __call__(self, at: Iterate, pace: Pace, share: float, memory: Any) -> tuple[Tensor, Any]: ...


def l2_rule(at: Iterate, pace: Pace, share: float, memory: Tensor) -> tuple[Tensor, Tensor]:
    """Pull the point towards the image, then project it onto the cut and the box."""
    pull = pace.at(share)
    point = torch.lerp(at.onwards(pace), at.centre, pull)
    radius = norm(at.x - at.centre, 2)
    level = at.level(pace.margin_at(share) * norm(at.g, 2) * radius)
    return onto_cut_and_box(point, at.g, level, at.lower, at.upper), memory


@dataclass(frozen=True)
class NormRule:
    """Pull towards the nearest point of the cut in the metric's sense, then project onto cut and box.

    For l2 this is ``l2_rule``: the image and its projection onto the cut differ by a multiple of g.
    """

    metric: HasHalfspaceStep

    def __call__(self, at: Iterate, pace: Pace, share: float, memory: Tensor) -> tuple[Tensor, Tensor]:
        pull = pace.at(share)
        level = at.level(pace.margin_at(share) * dual_norm(self.metric, at.g) * at.radius)
        nearest = self.metric.nearest_on_halfspace(at.centre, at.g, level, at.lower, at.upper)
        point = torch.lerp(at.onwards(pace), nearest, pull)
        return onto_cut_and_box(point, at.g, level, at.lower, at.upper), memory


def linf_rule(at: Iterate, pace: Pace, share: float, memory: Tensor) -> tuple[Tensor, Tensor]:
    """Choose a radius, smaller where x is misclassified, and project onto the cut and that ball.

    ``memory`` is the radius of the stage's first step, the scale of steps outwards.
    """
    step = pace.at(share)
    radius, reach = at.radius, at.reach
    least = Linf().least_radius(at.centre, at.g, reach, at.lower, at.upper)
    memory = torch.where(memory > 0, memory, torch.maximum(least, radius))
    outwards = torch.maximum((1 + step) * radius, torch.minimum(least, radius + OUTWARDS * memory))
    t = torch.where(at.wrong, (1 - step) * radius, outwards)
    t = torch.minimum(t, (1 - step / 2) * at.best).unsqueeze(-1)
    lower, upper = torch.maximum(at.centre - t, at.lower), torch.minimum(at.centre + t, at.upper)
    point = torch.clamp(torch.lerp(at.before, at.x, 1 + pace.momentum), lower, upper)
    level = at.level(pace.margin_at(share) * at.g.abs().sum(-1) * t.squeeze(-1))
    return onto_cut_and_box(point, at.g, level, lower, upper), memory


def l1_rule(at: Iterate, pace: Pace, share: float, memory: Tensor) -> tuple[Tensor, Tensor]:
    """A prox step of the l1 distance on the cut. ``memory`` is the largest entry of a move so far: its scale."""
    move = at.x - at.centre
    memory = torch.maximum(memory, move.abs().amax(-1))
    level = at.level(pace.margin_at(share) * at.g.abs().amax(-1) * at.radius)
    return sparse_on_cut(at.onwards(pace), at.centre, at.g, level, memory * pace.at(share), at.lower, at.upper), memory


def l1_vertex_rule(at: Iterate, pace: Pace, share: float, memory: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest point of the cut in the l1 sense: exact where the condition is linear, a vertex."""
    return L1().nearest_on_halfspace(at.centre, at.g, at.level(torch.zeros_like(at.c)), at.lower, at.upper), memory


def norm(v: Tensor, p: float) -> Tensor:
    length: Tensor = torch.linalg.vector_norm(v, ord=p, dim=-1)
    return length
