"""Which targets are tried from where for how many steps, from the budget."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from pwcf.attacks.linearised.rules import Pace, Rule, l1_rule, l1_vertex_rule, l2_rule, linf_rule

Start = Literal["image", "noise", "best"]
# Forward passes kept for the last bisection towards the image, and for the first look at the logits.
BISECTIONS, LOOK = 8, 1

L2, L2_POLISH = Pace(0.2, 0.03, 0.9, 0.03), Pace(0.05, 0.01, 0.95, 0.01)
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
    fixed: bool = False
    """Whether its steps are as many whatever the budget."""

    @property
    def steps(self) -> int:
        """Per image, all targets together."""
        return self.targets * sum(leg.steps for leg in self.legs)


def _linf(targets: int, start: Start, steps: int, pace: Pace = LINF) -> Stage:
    return Stage(targets, start, (Leg(linf_rule, pace, steps),))


def _l2(targets: int, start: Start, steps: int, pace: Pace = L2) -> Stage:
    return Stage(targets, start, (Leg(l2_rule, pace, steps),))


def _l1(targets: int, start: Start, smooth: int, sparse: int, pace: Pace = L1) -> Stage:
    """l2 steps find the region, l1 steps the sparse point in it."""
    legs = (Leg(l2_rule, L2, smooth),) if smooth else ()
    return Stage(targets, start, (*legs, Leg(l1_rule, pace, sparse)))


# Where the model is linear around the answer the nearest point is a vertex, and three steps find it exactly.
_VERTEX = Stage(2, "best", (Leg(l1_vertex_rule, L1, 3),), fixed=True)

# Measured schedules of about 95 and 980 steps an image; others are one of these, scaled.
SHORT = {"linf": (_linf(3, "image", 31),), "l2": (_l2(3, "image", 31),), "l1": (_l1(3, "image", 12, 17), _VERTEX)}
LONG = {
    "linf": (
        _linf(9, "image", 20), _linf(4, "noise", 50), _linf(3, "noise", 100), _linf(1, "noise", 100),
        _linf(2, "best", 100, LINF_POLISH),
    ),
    "l2": (_l2(9, "image", 20), *3 * (_l2(3, "noise", 60),), _l2(2, "best", 120, L2_POLISH)),
    "l1": (
        _l1(6, "image", 10, 10), _l1(4, "noise", 20, 40), _l1(3, "noise", 30, 40), _l1(2, "noise", 30, 40),
        _l1(2, "best", 0, 80, L1_POLISH), _l1(1, "best", 0, 100, L1_LAST), _VERTEX,
    ),
}  # fmt: skip
# From this many steps an image on the long schedule is better, scaled down.
ENOUGH_FOR_LONG = 240


def stages(metric: str, budget: int, classes: int) -> tuple[Stage, ...]:
    """Stages for "l1", "l2" or "linf" that together use at most ``budget`` passes an image."""
    steps = (budget - BISECTIONS - LOOK) // 2
    plan = (LONG if steps >= ENOUGH_FOR_LONG else SHORT)[metric]
    plan = tuple(replace(stage, targets=min(stage.targets, classes - 1)) for stage in plan)
    scaled = sum(stage.steps for stage in plan if not stage.fixed)
    scale = (steps - sum(stage.steps for stage in plan if stage.fixed)) / scaled
    return tuple(stage if stage.fixed else _scaled(stage, scale) for stage in plan)


def _scaled(stage: Stage, scale: float) -> Stage:
    return replace(stage, legs=tuple(replace(leg, steps=max(1, int(leg.steps * scale))) for leg in stage.legs))
