"""The stages of a search, from its budget: which targets are tried, from where, for how many steps.

A search has three parts: a first look at many target classes from the image, restarts from elsewhere with the most
promising ones, and a last part that polishes the best points. Each part works at a certain length. A smaller budget
buys fewer parts, not shorter ones; a larger budget buys more restarts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, cycle, islice, repeat
from typing import Literal

from pwcf.attacks.linearised.general_metric import GeneralMetricRule
from pwcf.attacks.linearised.rules import (
    LinfRule,
    NearestPointRule,
    NormRule,
    ReachFirst,
    StepRule,
    StepSchedule,
    l1_rule,
    l2_rule,
)
from pwcf.attacks.linearised.starts import LANDMARKS, Landmark, landmark_passes
from pwcf.metrics import L1, L2, HasHalfspaceStep, Metric

Start = Literal["image", "noise", "landmark", "hop", "best"]
# The forward pass of the first look at the logits.
LOOK = 1
# Targets of the first look, of a restart, and of a search too short for restarts; of many, one is ANY.
FIRST_TARGETS, RESTART_TARGETS, SHORT_TARGETS = 10, 3, 3
# Share of the passes that may go into the choice of targets where there are many classes.
CANDIDATES_SHARE = 0.06
# Steps for each target of the first look: the linf rule needs about seven to reach the boundary at all.
FIRST_STEPS = 20
# Shares of all steps for the first look and the last part, and what is enough for the latter.
FIRST_SHARE, LAST_SHARE, LAST_ENOUGH = 0.2, 0.25, 160
# With fewer steps an image than this, or a row of a restart, there is one look, as long as it can be.
ENOUGH_FOR_RESTARTS, SHORTEST_RESTART = 150, 12

# Such a short search has one untargeted row, or with as many steps for each another one for the second likeliest class
# and one for the third: these share SHORT_SHARE of the steps, the nearest has the rest.
SHORT_ROW, SHORT_SHARE = 18, 0.5
# A search with restarts without end is made of the parts of one with this many passes, from as many steps on.
TYPICAL, ENOUGH_FOR_LONG = 2000, 400
# The best row of each search is polished by a few steps, more in l1, where ends lie farther apart; in the last part,
# targets that are this close to the best.
POLISH_STEPS, L1_POLISH_STEPS, CLOSE = 20, 40, 1.03

L2_SCHEDULE = StepSchedule(0.2, 0.03, 0.9, 0.1)
# A short search has larger steps and less momentum, of which few steps make nothing.
SHORT_SCHEDULE, SHORT_L1_SCHEDULE = StepSchedule(0.4, 0.05, 0.6, 0.03), StepSchedule(0.25, 0.017, 0.85, 0.05)
SHORT_LINF_SCHEDULE, SHORT_LINF_RULE = StepSchedule(0.3, 0.01, 0.5, 0.03), LinfRule(outwards=0.5, inwards=2.5)
# Its nearest row goes on with steps smaller by this factor at first. A plan's last stage may take this share of all
# steps.
SHORT_FURTHER, SHORT_END = 0.6, 0.175
L2_POLISH_SCHEDULE = StepSchedule(0.05, 0.01, 0.95, 0.01)
# Where restarts begin, all further ones at noise; in the first, images of which nothing is known yet look for any
# landmark. On nets with masked gradients landmarks lead to nearer minima (l2 and l1 on MNIST nets: 2 to 8 % nearer), on
# others noise does.
RESTARTS: tuple[tuple[Start, tuple[Landmark, ...]], ...] = (
    ("noise", LANDMARKS),
    ("landmark", ("dark",)),
    ("landmark", ("bright",)),
    ("landmark", ("grey",)),
    ("noise", ()),
    ("landmark", ("inverted",)),
)
# Restarts that go deeper or less deep beyond the boundary end in other local minima: together they find nearer ones
# than any margin alone (l2 on an MNIST net: 6 % nearer than with .03 throughout).
MARGINS = (0.1, 0.03, 0.3)
# Hops find what restarts from elsewhere miss, but know no other class: from this restart on every second one is a hop.
# From the third on, radii at 2000 passes are up to .8 % larger on some nets in l2 and l1; in linf they are .02 to .25 %
# smaller on four of five nets and .1 % larger on one, and of the claims of convergence on six nets 6 of 138 were
# false in place of 22 of 140. Restarts of l1 are longer.
FIRST_HOP, FIRST_HOP_L1, FIRST_HOP_LINF = 7, 5, 3
# Beyond p = 2 the pull changes from entry to entry as the largest ones take turns; momentum overshoots (l8 on an MNIST
# net: 7 % larger radii).
STEEP_SCHEDULE, STEEP_POLISH_SCHEDULE = StepSchedule(0.3, 0.03, 0.3, 0.1), StepSchedule(0.1, 0.01, 0.3, 0.01)
LINF_SCHEDULE, LINF_POLISH_SCHEDULE = StepSchedule(0.3, 0.01, 0.8, 0.03), StepSchedule(0.03, 0.003, 0.8, 0.01)
L1_SCHEDULE = StepSchedule(0.12, 0.017, 0.95, 0.05)
L1_POLISH_SCHEDULE = StepSchedule(0.06, 0.005, 0.95, 0.03)
L1_LAST_SCHEDULE = StepSchedule(0.03, 0.003, 0.95, 0.02)
L1_MOMENTA = (0.9, 0.95)
# Steps straight to the nearest point of the cut: for l1 onto it; for other norms beyond it by this share of the radius,
# since closer to the boundary rounding decides the class.
VERTEX_SCHEDULE, STRAIGHT_SCHEDULE = StepSchedule(1.0, 1.0, 0.0, 0.0), StepSchedule(1.0, 1.0, 0.0, 1e-4)
# Each step leaves a twentieth of the excess (SURPLUS), and the first one only looks at where it starts.
VERTEX_STEPS, STRAIGHT_STEPS = 3, 5
# Steps of a metric without structure on every cut; and its schedule: whole steps would be those of an exact model.
REPEATS = 4
GENERAL_SCHEDULE = StepSchedule(0.7, 0.7, 0.0, 0.05)
# Polish close to the boundary, with pairs enough for the curvature there: rows settle in the minimum they are in, to
# some 1e-4 of its radius. A short memory and a margin do not: they pass from one into the next, which is nearer.
CLOSE_SCHEDULE, LONG_MEMORY = StepSchedule(0.7, 0.7, 0.0, 0.005), 100
# Its first look has this share of the steps; the best row then goes on: what is enough, and at most this share of the
# rest, of which restarts have another.
SHORT_LOOK, LOOK_SHARE, DEEP_ENOUGH, DEEP_SHARE, AGAIN_SHARE = 0.15, 0.25, 150, 0.6, 0.35
# The last part has what is left, and of that polish and the general solver these shares.
GENERAL_POLISH, GENERAL_SOLVER = 0.4, 0.2
L2_WAY, GENERAL_RESTART = 0.4, 30
# A search that goes on until it has converged has restarts of one row.
GENERAL_DEEP_RESTART, GENERAL_POLISH_STEPS = 100, 40
# With more steps than so many restarts need, restarts become longer: which end is nearest shows late.
DEEP_RESTARTS = 6
# A first look that is shorter than this does not reach the boundary: one row has all steps.
SHORTEST_LOOK = 7
# Radii in a metric that hardly sees some directions may fall by as much after a restart.
GENERAL_HOPELESS = (30.0, 15.0)
L2_HOPELESS, LINF_HOPELESS = (1.8, 1.5, 1.3, 1.2, 1.12), (1.2, 1.15, 1.08, 1.05, 1.03)
L1_FAR, L1_HOPELESS = 2.2, (2.2, 1.9, 1.6, 1.35, 1.2)


@dataclass(frozen=True)
class Phase:
    """Some steps of one rule on one schedule."""

    rule: StepRule
    schedule: StepSchedule
    steps: int


@dataclass(frozen=True)
class Stage:
    """The most promising target classes of every image, each from its start through all phases."""

    targets: int
    start: Start
    phases: tuple[Phase, ...]
    """none: the general solver takes over (``polish_with_solver``)"""
    landmarks: tuple[Landmark, ...] = ()
    """where the rows start, if one is of another class; with start "noise" only for images without any point so far"""
    evaluations: int = 0
    """of the general solver, for each target"""
    far: float = math.inf
    """max-loss: images whose radius after the likeliest targets is more than this many eps leave out the others"""
    hopeless: float = math.inf
    """max-loss: images whose radius after this stage is more than this many eps are given up"""
    polish: Phase | None = None
    """for the best row of every image, after all phases"""
    close: float = math.inf
    """with start "best": targets whose radius is more than this many times the best one are left out"""

    @property
    def steps(self) -> int:
        """Per image, all targets together, and what looking for the start costs."""
        each = self.evaluations + sum(phase.steps for phase in self.phases)
        polish = 0 if self.polish is None else self.polish.steps
        return self.targets * each + polish + _looking(self.landmarks)

    @property
    def is_restart(self) -> bool:
        return self.start in ("noise", "landmark", "hop")


def _looking(landmarks: Sequence[Landmark]) -> int:
    """Steps' worth of passes."""
    return math.ceil(landmark_passes(landmarks) / 2)


PhaseMaker = Callable[[int], tuple[Phase, ...]]
"""Makes phases that have this many steps together."""


@dataclass(frozen=True)
class SearchPlan:
    """The parts that a metric's search is made of."""

    short: PhaseMaker
    """for a search too short for restarts"""
    short_further: PhaseMaker
    """for the nearest of its rows"""
    first: PhaseMaker
    restarts: Sequence[PhaseMaker]
    """taken in turn"""
    restart_steps: int
    last: Callable[[int, int], tuple[Stage, ...]]
    """stages for at most this many targets and this many steps together"""
    far: float
    """see ``Stage``: those images go straight to the first restart"""
    hopeless: Sequence[float]
    """limits after the first restart, the second, ...; the last one holds from there on. Replayed on the searches of 48
    images of ten networks with six eps each, those of l1, l2 and linf lose none, nine and none of 2880 answers"""
    end: Stage | None = None
    """a last stage whatever the budget"""
    last_share: float = LAST_SHARE
    """of all steps, for the last part, and at most this many"""
    last_enough: float = LAST_ENOUGH
    depth_first: bool = False
    """an untargeted row goes first, and deep: other rows find little that is nearer"""
    polish: Phase | None = None
    """for the best row of a search, so that its end can be compared with those of others"""
    first_hop: int | None = None
    """the restart from which on every second one is a hop"""


def _reaching(
    rule: StepRule, schedule: StepSchedule, metric: HasHalfspaceStep | None = None
) -> tuple[PhaseMaker, PhaseMaker]:
    """A short search: a misclassified point first, then the rule; and how its nearest row goes on.

    That begins at the boundary, with smaller steps; where no row has reached it, at the landmarks.
    """
    smaller = replace(schedule, first=SHORT_FURTHER * schedule.first)
    return (
        lambda steps: (Phase(ReachFirst(rule, steps, metric), schedule, steps),),
        lambda steps: (Phase(ReachFirst(rule, steps, metric, patience=0), smaller, steps),),
    )


def _smooth(
    rule: StepRule,
    metric: HasHalfspaceStep,
    schedule: StepSchedule = L2_SCHEDULE,
    polish: StepSchedule = L2_POLISH_SCHEDULE,
    far: float = 1.5,
    hopeless: Sequence[float] = (3.0, 2.5, 1.8, 1.6, 1.5),
) -> SearchPlan:
    """For l2, and for every norm whose rule pulls as l2's does; the general solver finds the last digits."""

    def phases(schedule: StepSchedule) -> PhaseMaker:
        return lambda steps: (Phase(rule, schedule, steps),)

    def last(targets: int, steps: int) -> tuple[Stage, ...]:
        targets = min(2, targets)
        half = steps // (2 * targets)
        return Stage(targets, "best", phases(polish)(half)), Stage(targets, "best", (), evaluations=half)

    restarts = [phases(replace(schedule, margin=margin)) for margin in MARGINS]
    short = replace(SHORT_SCHEDULE, momentum=min(SHORT_SCHEDULE.momentum, schedule.momentum))
    return SearchPlan(
        *_reaching(rule, short, metric), phases(schedule), restarts, 30, last, far, hopeless,
        polish=Phase(rule, polish, POLISH_STEPS),
        first_hop=FIRST_HOP,
    )  # fmt: skip


def _linf() -> SearchPlan:
    def phases(steps: int) -> tuple[Phase, ...]:
        return (Phase(LinfRule(), LINF_SCHEDULE, steps),)

    def last(targets: int, steps: int) -> tuple[Stage, ...]:
        targets = min(2, targets)
        return (Stage(targets, "best", (Phase(LinfRule(), LINF_POLISH_SCHEDULE, steps // targets),)),)

    return SearchPlan(
        *_reaching(SHORT_LINF_RULE, SHORT_LINF_SCHEDULE), phases, [phases], 33, last, 1.2, LINF_HOPELESS,
        polish=Phase(LinfRule(), LINF_POLISH_SCHEDULE, POLISH_STEPS), first_hop=FIRST_HOP_LINF,
    )  # fmt: skip


def _straight_to_the_nearest_point(metric: HasHalfspaceStep, schedule: StepSchedule, steps: int) -> Stage:
    """A last stage that finds the answer exactly where the model is linear around it."""
    return Stage(2, "best", (Phase(NearestPointRule(metric), schedule, steps),))


def _l1() -> SearchPlan:
    """l2 steps find the region, l1 steps the sparse point in it."""

    def phases(smooth: StepSchedule, sparse: StepSchedule) -> PhaseMaker:
        def part(steps: int) -> tuple[Phase, ...]:
            first = max(1, round(0.4 * steps))
            return Phase(l2_rule, smooth, first), Phase(l1_rule, sparse, max(1, steps - first))

        return part

    def last(targets: int, steps: int) -> tuple[Stage, ...]:
        targets, share = min(2, targets), round(0.6 * steps)
        polish = Stage(targets, "best", (Phase(l1_rule, L1_POLISH_SCHEDULE, share // targets),))
        return polish, Stage(1, "best", (Phase(l1_rule, L1_LAST_SCHEDULE, steps - share),))

    # Where the model is linear around the answer the nearest point is a vertex.
    vertex = _straight_to_the_nearest_point(L1(), VERTEX_SCHEDULE, VERTEX_STEPS)
    restarts = [phases(L2_SCHEDULE, replace(L1_SCHEDULE, momentum=momentum)) for momentum in L1_MOMENTA]
    return SearchPlan(
        *_reaching(l1_rule, SHORT_L1_SCHEDULE, L1()),
        phases(L2_SCHEDULE, L1_SCHEDULE),
        restarts,
        30,
        last,
        L1_FAR,
        L1_HOPELESS,
        vertex,
        polish=Phase(l1_rule, L1_POLISH_SCHEDULE, L1_POLISH_STEPS),
        first_hop=FIRST_HOP_L1,
    )


def _general() -> SearchPlan:
    """For metrics that offer nothing but their gradient."""

    def phases(schedule: StepSchedule) -> PhaseMaker:
        return lambda steps: (Phase(GeneralMetricRule(REPEATS), schedule, max(1, steps)),)

    def last(targets: int, steps: int) -> tuple[Stage, ...]:
        targets, polish, solver = min(2, targets), round(GENERAL_POLISH * steps), round(GENERAL_SOLVER * steps)
        each = (steps - polish - solver) // targets
        return (
            Stage(targets, "best", phases(GENERAL_SCHEDULE)(each)),
            Stage(1, "best", (Phase(GeneralMetricRule(REPEATS, LONG_MEMORY), CLOSE_SCHEDULE, max(1, polish)),)),
            Stage(1, "best", (), evaluations=solver),
        )

    def by_way_of_l2(steps: int) -> tuple[Phase, ...]:
        first = max(1, round(L2_WAY * steps))
        return Phase(l2_rule, L2_SCHEDULE, first), *phases(GENERAL_SCHEDULE)(steps - first)

    restarts = [by_way_of_l2, *(phases(replace(GENERAL_SCHEDULE, margin=margin)) for margin in MARGINS)]
    part = phases(GENERAL_SCHEDULE)
    polish = Phase(GeneralMetricRule(REPEATS), CLOSE_SCHEDULE, GENERAL_POLISH_STEPS)
    return SearchPlan(
        by_way_of_l2, part, part, restarts, GENERAL_RESTART, last, math.inf, GENERAL_HOPELESS, depth_first=True,
        polish=polish,
    )  # fmt: skip


def plan_for(metric: Metric) -> SearchPlan:
    """The plan for a metric, by what it offers."""
    if not isinstance(metric, HasHalfspaceStep):
        return _general()
    p = metric.exponent
    if p == 1:
        return _l1()
    if p == math.inf:
        return _linf()
    if p == 2:
        return _smooth(l2_rule, L2(), hopeless=L2_HOPELESS)
    if p is not None and p > 2:
        return _smooth(NormRule(metric), metric, STEEP_SCHEDULE, STEEP_POLISH_SCHEDULE)
    # Between l1 and l2, and in norms of which nothing is known, first radii may be as far off as those of l1.
    plan = _smooth(NormRule(metric), metric, far=L1_FAR, hopeless=L1_HOPELESS)
    if p is not None:
        return plan
    # The pull of a norm that weighs entries differently creeps towards the answer (weights from .3 to 3: .4 % off).
    return replace(plan, end=_straight_to_the_nearest_point(metric, STRAIGHT_SCHEDULE, STRAIGHT_STEPS))


def columns(plan: SearchPlan, classes: int) -> int:
    """How many rows an image may have: one for every other class and, where these are not few, one for ANY."""
    few = 1 if plan.depth_first else SHORT_TARGETS
    return classes if classes - 1 > few else classes - 1


def is_short(metric: Metric, budget: int, classes: int) -> bool:
    """Whether the search has no restarts."""
    return not any(stage.is_restart for stage in stages(metric, budget, classes))


def candidates(metric: Metric, budget: int, classes: int) -> int:
    """How many classes are looked at for targets; none where all of them are tried anyway, or passes are dear."""
    if plan_for(metric).depth_first:
        return 0
    count = min(classes - 1, round(CANDIDATES_SHARE * budget / 2))
    return count if count >= FIRST_TARGETS else 0


def stages(metric: Metric, budget: int, classes: int) -> tuple[Stage, ...]:
    """Stages that together use at most ``budget`` passes an image."""
    budget -= 2 * candidates(metric, budget, classes)
    plan = plan_for(metric)
    others = columns(plan, classes)
    steps = (budget - LOOK) // 2
    if plan.depth_first:
        return _deep(plan, max(1, steps), others)
    short = _short(plan, max(1, steps), others)
    end = () if plan.end is None else (replace(plan.end, targets=min(plan.end.targets, others)),)
    steps -= sum(stage.steps for stage in end)
    if steps < ENOUGH_FOR_RESTARTS:
        return short
    wanted = max(SHORT_TARGETS, round(FIRST_SHARE * steps / FIRST_STEPS))
    first = Stage(min(FIRST_TARGETS, others, wanted), "image", plan.first(FIRST_STEPS), far=plan.far)
    last = plan.last(others, round(min(plan.last_enough, plan.last_share * steps)))
    rest, targets = steps - first.steps - sum(stage.steps for stage in last), min(RESTART_TARGETS, others)
    count = max(1, rest // (targets * plan.restart_steps))
    starts = list(islice(chain(RESTARTS, repeat(("noise", ()))), count))
    length = (rest - sum(_looking(marks) for _, marks in starts)) // (targets * count)
    if length < SHORTEST_RESTART:
        return short
    restarts = [
        Stage(targets, start, part(length), marks)
        for (start, marks), part in zip(starts, cycle(plan.restarts), strict=False)
    ]
    return first, *_giving_up(restarts, plan.hopeless), *last, *end


def _short(plan: SearchPlan, steps: int, others: int) -> tuple[Stage, ...]:
    """As many rows as can reach the boundary, then the nearest of them."""
    end = () if plan.end is None else (replace(plan.end, targets=1),)
    if sum(stage.steps for stage in end) > SHORT_END * steps:
        end = ()
    steps -= sum(stage.steps for stage in end)
    targets = max(1, min(SHORT_TARGETS, others, steps // SHORT_ROW))
    if targets == 1:
        return Stage(1, "image", plan.short(steps)), *end
    look = Stage(targets, "image", plan.short(round(SHORT_SHARE * steps / targets)))
    return look, Stage(1, "best", plan.short_further(steps - look.steps)), *end


@dataclass(frozen=True)
class EndlessPlan:
    """The parts of a search that goes on until it has converged."""

    first: tuple[Stage, ...]
    targets: int
    """of a restart"""
    phases: Sequence[PhaseMaker]
    steps: int
    """of each row of a restart"""
    last: tuple[Stage, ...]
    polish: Phase | None = None
    straight: Stage | None = None
    """to the nearest point of the linear model at the image, which is the answer where the model is linear"""
    first_hop: int | None = None

    def restart(self, number: int) -> Stage:
        """Restart ``number``, counted from 1: a hop, or one whose start is said elsewhere."""
        phases = self.phases[(number - 1) % len(self.phases)](self.steps)
        hops = self.first_hop is not None and number >= self.first_hop and (number - self.first_hop) % 2 == 0
        if hops:
            return Stage(1, "hop", phases, polish=self.polish)
        return Stage(self.targets, "noise", phases, polish=self.polish)

    @property
    def restart_passes(self) -> int:
        """The most that a restart takes, for an image."""
        return 2 * self.restart(1).steps + landmark_passes(LANDMARKS)

    @property
    def last_passes(self) -> int:
        return 2 * sum(stage.steps for stage in self.last)


def endless(metric: Metric, budget: int, classes: int) -> EndlessPlan | None:
    """The parts of a search with at most ``budget`` passes an image; None if they are too few for restarts."""
    plan = plan_for(metric)
    others = columns(plan, classes)
    steps = (min(budget, TYPICAL) - LOOK) // 2 - candidates(metric, min(budget, TYPICAL), classes)
    if steps < ENOUGH_FOR_LONG:
        return None
    first: tuple[Stage, ...] = (
        Stage(min(FIRST_TARGETS, others), "image", plan.first(FIRST_STEPS), far=plan.far, polish=plan.polish),
    )
    if plan.depth_first:
        first = *first, Stage(1, "best", plan.first(DEEP_ENOUGH))
    last = plan.last(others, round(min(plan.last_enough, plan.last_share * steps)))
    end = () if plan.end is None else (replace(plan.end, targets=min(plan.end.targets, others)),)
    last = tuple(replace(stage, close=CLOSE) for stage in (*last, *end))
    # A metric without structure takes long to reach a minimum: one row, and deep.
    targets = 1 if plan.depth_first else min(RESTART_TARGETS, others)
    straight = None
    if isinstance(metric, HasHalfspaceStep):
        schedule = VERTEX_SCHEDULE if metric.exponent == 1 else STRAIGHT_SCHEDULE
        straight = replace(_straight_to_the_nearest_point(metric, schedule, STRAIGHT_STEPS), targets=1)
    each = GENERAL_DEEP_RESTART if plan.depth_first else plan.restart_steps
    return EndlessPlan(first, targets, plan.restarts, each, last, plan.polish, straight, plan.first_hop)


def _deep(plan: SearchPlan, steps: int, others: int) -> tuple[Stage, ...]:
    """A first look, its best row as deep as it takes, restarts for what that may have missed, and polish."""
    if steps < ENOUGH_FOR_RESTARTS:
        each = round(SHORT_LOOK * steps)
        if each < SHORTEST_LOOK:
            return (Stage(1, "image", plan.short(steps)),)
        looks = (
            Stage(1, "image", plan.short(each)),
            Stage(min(SHORT_TARGETS - 1, others), "image", plan.first(each)),
        )
        rest = steps - sum(look.steps for look in looks)
        return *looks, Stage(1, "best", plan.short_further(rest))
    first_targets = min(FIRST_TARGETS, others, max(SHORT_TARGETS, round(LOOK_SHARE * steps / FIRST_STEPS)))
    first = Stage(first_targets, "image", plan.first(FIRST_STEPS), far=plan.far)
    rest = steps - first.steps
    further = plan.first(min(DEEP_ENOUGH, round(DEEP_SHARE * rest)))
    deep = Stage(1, "best", further)
    left, targets, again = float(min(rest - deep.steps, AGAIN_SHARE * rest)), min(RESTART_TARGETS, others), []
    length = max(plan.restart_steps, min(DEEP_ENOUGH, round(left / (targets * DEEP_RESTARTS))))
    for (start, marks), part in zip(chain(RESTARTS, repeat(("noise", ()))), cycle(plan.restarts), strict=False):
        stage = Stage(targets, start, part(length), marks)
        left -= stage.steps
        if left < 0:
            break
        again.append(stage)
    last = plan.last(others, rest - deep.steps - sum(stage.steps for stage in again))
    return first, deep, *_giving_up(again, plan.hopeless), *last


def _giving_up(restarts: Sequence[Stage], limits: Sequence[float]) -> list[Stage]:
    """Set the limits of restarts. They were measured with three rows each; with fewer it takes more restarts."""
    judged, rows = [], 0
    for stage in restarts:
        rows += stage.targets
        tried = rows // RESTART_TARGETS
        limit = limits[min(tried, len(limits)) - 1] if tried else math.inf
        judged.append(replace(stage, hopeless=limit))
    return judged
