"""Which targets are tried from where for how many steps, from the budget."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from pwcf.attacks.linearised.rules import (
    LpRule,
    Pace,
    Rule,
    l1_rule,
    l1_vertex_rule,
    l2_rule,
    linf_rule,
    slope_rule,
)
from pwcf.metrics import Lp, Metric

Start = Literal["image", "noise", "best"]
# The forward pass of the first look at the logits.
LOOK = 1

L2, L2_POLISH = Pace(0.2, 0.03, 0.9, 0.03), Pace(0.05, 0.01, 0.95, 0.01)
# Beyond p = 2 the pull changes from entry to entry as the largest ones take turns; momentum overshoots (l8 on an MNIST
# net: 7 % larger radii).
LP_STEEP, LP_STEEP_POLISH = Pace(0.3, 0.03, 0.3, 0.03), Pace(0.1, 0.01, 0.3, 0.01)
LINF, LINF_POLISH = Pace(0.3, 0.01, 0.8, 0.03), Pace(0.03, 0.003, 0.8, 0.01)
L1, L1_POLISH, L1_LAST = Pace(0.12, 0.017, 0.95, 0.05), Pace(0.06, 0.005, 0.95, 0.03), Pace(0.03, 0.003, 0.95, 0.02)


@dataclass(frozen=True)
class Leg:
    """Some steps of one rule."""

    rule: Rule
    pace: Pace
    steps: int


@dataclass(frozen=True)
class Stage:
    """The ``targets`` most promising classes of every image, each from its start through all legs."""

    targets: int
    start: Start
    legs: tuple[Leg, ...]
    """none: the general solver takes over (``quasi_newton.descend``)"""
    evaluations: int = 0
    """of the general solver, for each target"""
    fixed: bool = False
    """Whether its steps are as many whatever the budget."""

    @property
    def steps(self) -> int:
        """Per image, all targets together."""
        return self.targets * (self.evaluations + sum(leg.steps for leg in self.legs))


@dataclass(frozen=True)
class Plan:
    """Measured schedules of about 95 and 980 steps an image; others are one of these, scaled."""

    short: tuple[Stage, ...]
    long: tuple[Stage, ...]


def _smooth(rule: Rule, pace: Pace = L2, polish: Pace = L2_POLISH, quasi_newton: bool = True) -> Plan:
    """For l2, and for every metric whose rule pulls as that of l2 does."""

    def stage(targets: int, start: Start, steps: int, pace: Pace = pace) -> Stage:
        return Stage(targets, start, (Leg(rule, pace, steps),))

    first, noisy = stage(9, "image", 20), stage(3, "noise", 60)
    if not quasi_newton:
        return Plan((stage(3, "image", 31),), (first, *3 * (noisy,), stage(2, "best", 120, polish)))
    last = stage(3, "best", 60, polish), Stage(2, "best", (), evaluations=120)
    return Plan((stage(3, "image", 31),), (first, *2 * (noisy,), *last))


def _linf() -> Plan:
    def stage(targets: int, start: Start, steps: int, pace: Pace = LINF) -> Stage:
        return Stage(targets, start, (Leg(linf_rule, pace, steps),))

    noisy = stage(4, "noise", 50), stage(3, "noise", 100), stage(1, "noise", 100)
    return Plan((stage(3, "image", 31),), (stage(9, "image", 20), *noisy, stage(2, "best", 100, LINF_POLISH)))


def _l1() -> Plan:
    """l2 steps find the region, l1 steps the sparse point in it."""

    def stage(targets: int, start: Start, smooth: int, sparse: int) -> Stage:
        return Stage(targets, start, (Leg(l2_rule, L2, smooth), Leg(l1_rule, L1, sparse)))

    noisy = stage(4, "noise", 20, 40), stage(3, "noise", 30, 40), stage(2, "noise", 30, 40)
    polish = Stage(2, "best", (Leg(l1_rule, L1_POLISH, 80),)), Stage(1, "best", (Leg(l1_rule, L1_LAST, 100),))
    # Where the model is linear around the answer the nearest point is a vertex, and three steps find it exactly.
    vertex = Stage(2, "best", (Leg(l1_vertex_rule, L1, 3),), fixed=True)
    return Plan((stage(3, "image", 12, 17), vertex), (stage(6, "image", 10, 10), *noisy, *polish, vertex))


def plan_for(metric: Metric) -> Plan:
    """By what the metric offers."""
    if not isinstance(metric, Lp):
        return _smooth(slope_rule)
    if metric.p in (1.0, math.inf):
        return _l1() if metric.p == 1 else _linf()
    if metric.p == 2:
        return _smooth(l2_rule, quasi_newton=False)
    return _smooth(LpRule(metric.p), *((LP_STEEP, LP_STEEP_POLISH) if metric.p > 2 else (L2, L2_POLISH)))


# From this many steps an image on the long schedule is better, scaled down.
ENOUGH_FOR_LONG = 240


def stages(metric: Metric, budget: int, classes: int) -> tuple[Stage, ...]:
    """Stages that together use at most ``budget`` passes an image."""
    steps, plans = (budget - LOOK) // 2, plan_for(metric)
    chosen = plans.long if steps >= ENOUGH_FOR_LONG else plans.short
    plan = tuple(replace(stage, targets=min(stage.targets, classes - 1)) for stage in chosen)
    scaled = sum(stage.steps for stage in plan if not stage.fixed)
    scale = (steps - sum(stage.steps for stage in plan if stage.fixed)) / scaled
    return tuple(stage if stage.fixed else _scaled(stage, scale) for stage in plan)


def _scaled(stage: Stage, scale: float) -> Stage:
    legs = tuple(replace(leg, steps=max(1, int(leg.steps * scale))) for leg in stage.legs)
    return replace(stage, legs=legs, evaluations=int(stage.evaluations * scale))
