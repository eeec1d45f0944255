"""Max-loss: short searches in waves, until one of them is within eps or the radius is too far beyond.

This asks for less than the radius, so the search may stop earlier, in three ways. Frank-Wolfe steps come first and
break most images that can be broken (``farthest_points``). A row is cut off where it is so far beyond eps that the
steps it has left hardly ever bring it there. And an image is given up where its radius is so many times eps that
further waves hardly ever make up for it: sooner where rows from landmarks end farther away than rows from the image and
from noise, since gradients can then be trusted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, cycle, islice
from typing import Literal

import torch
from torch import Tensor

from pwcf.attacks.agreement import FAR, HOP, NEAR, Searches, agreement_of
from pwcf.attacks.base import ANY, Answer, Diagnostics, Task
from pwcf.attacks.lmn import farthest_points
from pwcf.attacks.lmn.attack import CLEARLY, SEVERAL, LmnRows, LmnSearch
from pwcf.attacks.lmn.schedule import (
    ENOUGH_FOR_RESTARTS,
    FIRST_STEPS,
    FIRST_TARGETS,
    Phase,
    Stage,
    columns,
    plan_for,
)
from pwcf.attacks.lmn.starts import LANDMARKS, Landmark, landmark_passes
from pwcf.metrics import HasHalfspaceStep

Place = Literal["image", "ended", "noise", "hop"] | Landmark
Target = Literal["any", "best", "next"]

# Steps of a row; those of the first wave, which begins at the image, have FIRST_STEPS.
STEPS = 30


@dataclass(frozen=True)
class Wave:
    """Rows of an image that are worked on together: where each begins, and its target class.

    "any" is ANY, "best" the class that has come nearest, "next" one of the others in turn.
    """

    starts: tuple[tuple[Place, Target], ...]
    part: int | None
    """which of the plan's restarts it is; None: the first look"""
    only: Literal["trusted", "others", None] = None
    """images that it is for: those whose gradients can be trusted, or those that had no such wave so far"""


# On nets with masked gradients a row from a landmark is worth more than all from the image (mean l2 radius on
# mnist_kw_linf01: 1.5 times the last one after the first wave, 1.18 after the second), on others a row for every class
# is (cifar10_cnn_a_mix4: 1.09, 1.08, after the third wave 1.01).
# In l1, whose steps from the image are others at first, it begins there; for other norms where the first steps ended
# (passes fall by a tenth).
FIRST_WAVE, FIRST_WAVE_L1 = Wave((("ended", "any"),), None), Wave((("image", "any"),), None)
SECOND_WAVE = Wave((("noise", "best"), ("grey", "best")), 0)
FURTHER_WAVES = (
    Wave((("hop", "best"), ("inverted", "best"), ("noise", "any")), 1),
    Wave((("hop", "best"), ("noise", "next"), ("bright", "best")), 0),
    Wave((("hop", "best"), ("noise", "best"), ("noise", "next")), 2),
    Wave((("hop", "best"), ("dark", "best"), ("noise", "next")), 0),
    Wave((("hop", "best"), ("noise", "best"), ("noise", "next")), 1),
    Wave((("hop", "best"), ("grey", "any"), ("noise", "next")), 0),
    Wave((("hop", "best"), ("noise", "best"), ("noise", "any")), 2),
)
# After each wave images go on only within so many eps, the last number holds from there on; the second row is for those
# whose rows from landmarks have ended farther away. Nobody is given up after the first wave.
# These limits and the cuts below were fitted by replaying searches of 15 waves without them, for 32 images each of
# cifar10_cnn_a_adv, cifar10_cnn_a_mix4, cifar10_deep_kw, cifar10_wide_kw, mnist_fc_256x2, mnist_kw_linf01 and
# mnist_kw_linf03_stage0 with seven eps each. Of about 600 points within eps they lose 15 (l2), 3 (linf) and 22 (l1).
# Images without any take about 420, 510 and 350 passes in place of 2600.
Limits = tuple[tuple[float, ...], tuple[float, ...]]
LIMITS_LINF: Limits = (
    (math.inf, 10.0, 2.0, 2.0, 1.5, 1.3, 1.2, 1.12, 1.08, 1.06),
    (math.inf, 10.0, 1.5, 1.5, 1.2, 1.1, 1.06, 1.04, 1.03),
)
LIMITS: Limits = (
    (math.inf, 10.0, 6.0, 4.0, 2.5, 2.0, 1.6, 1.4, 1.25, 1.15),
    (math.inf, 10.0, 1.6, 1.6, 1.3, 1.15, 1.1, 1.06, 1.04),
)
LIMITS_L1: Limits = (
    (math.inf, 10.0, 5.0, 3.0, 2.0, 1.6, 1.4, 1.25, 1.2, 1.15, 1.1),
    (math.inf, 10.0, 5.0, 1.8, 1.3, 1.15, 1.08, 1.05, 1.03),
)
# Rows go on after this share of their steps only within so many eps: those from the image, and those of restarts. In
# linf, where a step changes the radius by a share that falls from .3 to .01, rows farther out cannot come back. Rows of
# l1 come near late.
Cuts = tuple[tuple[tuple[float, float], ...], tuple[tuple[float, float], ...]]
CUTS_LINF: Cuts = ((0.4, 1.7), (0.55, 1.35), (0.75, 1.12)), ((0.34, 2.5), (0.5, 1.7), (0.67, 1.35), (0.84, 1.12))
CUTS: Cuts = ((0.4, 3.0), (0.55, 1.7), (0.75, 1.25)), ((0.34, 6.0), (0.5, 2.5), (0.67, 1.6), (0.84, 1.25))
CUTS_L1: Cuts = (
    ((0.5, 5.0), (0.6, 2.5), (0.7, 1.6), (0.84, 1.25)),
    ((0.34, 30.0), (0.5, 4.0), (0.6, 2.2), (0.7, 1.6), (0.84, 1.2)),
)
# Where gradients can be trusted an image is also given up if this many times the gain that the agreement of its
# searches leaves open would not bring it within eps.
GAINS = 2.0
# Points within so many eps are polished, unless they are as near as one that was.
POLISH_WITHIN, SAME = 1.05, 0.999
# At the end points within so many eps are polished as those of min-radius are.
JUST_BEYOND = 1.02
# Landmarks lead farther away where their radii are this many times those of the others.
FARTHER = 1.05
# From this wave on, counted from 0, landmarks that lead farther away are left out.
CHOOSY = 2
# Where the first wave found nothing, no image is given up before this one.
TRIED = 3
# Kinds of places that rows begin at.
KINDS = (NEAR, FAR, HOP)


def within_eps(task: Task) -> Answer:
    """Search for misclassified points within eps, in a norm with structure.

    Args:
        task: max-loss, with a budget that is enough for restarts.

    Returns:
        The nearest misclassified points seen, the images where there is none.
    """
    limit = task.model.passes.total[task.samples.cpu()] + task.budget
    first = farthest_points.first_steps(LmnSearch(task))
    left = (~torch.isfinite(first.radius)).nonzero().squeeze(1)
    radius, points = first.radius, first.points.clone()
    points[left] = task.images.flatten(1)[left]
    if not len(left):
        return Answer(points.view_as(task.images), Diagnostics(nearest=radius))
    search = WavesWithinEps(task.select(left), first.logits[left], first.points[left])
    search.run_waves(limit[left.cpu()])
    radius[left], points[left] = search.table.best()

    def of_all(values: Tensor, nothing: float) -> Tensor:
        everyone = torch.full((len(radius), *values.shape[1:]), nothing, dtype=values.dtype, device=values.device)
        everyone[left] = values
        return everyone

    ends, began = search.searches()
    diagnostics = Diagnostics(
        still_helping=of_all(search.still_helping, False),
        searches=Searches(of_all(ends, math.nan), of_all(began, NEAR)),
        nearest=radius,
    )
    return Answer(points.view_as(task.images), diagnostics)


def applies(task: Task) -> bool:
    """Whether a task is one for waves: max-loss in a norm with structure, with passes enough for restarts."""
    metric = task.problem.metric
    enough = task.budget >= farthest_points.passes(metric) + 2 * ENOUGH_FOR_RESTARTS
    return task.eps is not None and enough and isinstance(metric, HasHalfspaceStep)


@dataclass
class WaveRows(LmnRows):
    start: Tensor
    """(r,) which of the wave's starts"""


class WavesWithinEps(LmnSearch):
    """The search in waves, of images that the first steps have not broken."""

    def __init__(self, task: Task, logits: Tensor, ended: Tensor) -> None:
        """``logits`` (n, classes) are those at the images, ``ended`` (n, entries) is where their first steps ended."""
        super().__init__(task)
        self.ended = ended
        self.plan = plan_for(self.metric)
        classes = 2 if task.problem.targeted else logits.shape[1]
        self._begin(self._choose_targets(logits, min(columns(self.plan, classes), FIRST_TARGETS)))
        self.ends: list[Tensor] = []
        """of each wave (n, 3) the least radii of its rows, by what is in KINDS; NaN where there were no such rows"""
        self.polished = torch.full_like(self.centre[:, 0], torch.inf)
        """(n,) the least radius that was polished"""
        self.looked = torch.zeros_like(self.working)
        """(n,) whether each class has had a row from the image"""
        self.still_helping = torch.zeros_like(self.working)
        p = self.metric.exponent
        self.cuts = CUTS_L1 if p == 1 else CUTS_LINF if p == math.inf else CUTS
        self.limits = LIMITS_L1 if p == 1 else LIMITS_LINF if p == math.inf else LIMITS

    def run_waves(self, limit: Tensor) -> None:
        """Waves until every image is broken, given up or has used up its ``limit`` (n,) of passes."""
        radii = []
        steps = min(self.plan.last_enough, self.plan.last_share * self.task.budget / 2)
        last = self.plan.last(self.table.targets.shape[1], round(steps))
        limit = limit - 2 * sum(stage.steps for stage in last)
        for number, wave in enumerate(self._in_turn()):
            least = min(self._most_passes(place) for place, _ in wave.starts)
            left = (limit - self.passes()).to(self.centre.device)
            self.working &= left >= least
            if not bool(self._open().any()):
                break
            self.wave(wave, number, left)
            if number >= CHOOSY:
                self._polish(limit)
            radii.append(self.table.best()[0])
            if number == 0:
                self.doubtful = torch.isinf(radii[0])
            elif number == TRIED:
                self.doubtful[:] = False
            self._give_up(number)
        if len(radii) >= SEVERAL:
            self.still_helping = ~self.hopeless & super()._open() & (radii[-1] < CLEARLY * radii[len(radii) // 2])
        self._settle(last)

    def _settle(self, stages: Sequence[Stage]) -> None:
        """Bring the best points that are just beyond eps to the bottom of the minimum they are in."""
        self.hopeless = self._is_beyond(JUST_BEYOND) | torch.isinf(self.table.best()[0])
        self.working = torch.ones_like(self.working)
        for stage in stages:
            self.stage(stage, 0)

    def _polish(self, limit: Tensor) -> None:
        """Improve the best points that are just beyond eps, if they are new."""
        polish = self.plan.polish
        if polish is None:
            return
        radius = self.table.best()[0]
        working, affordable = self.working, (limit - self.passes()).to(self.working.device) >= 2 * polish.steps
        self.working = working & affordable & ~self._is_beyond(POLISH_WITHIN) & (radius < SAME * self.polished)
        if bool(self._open().any()):
            self.polished = torch.where(self._open(), radius, self.polished)
            self.stage(Stage(1, "best", (polish,)), 0)
        self.working = working

    def _give_up(self, number: int) -> None:
        trusted, radius = self.looked & self._landmarks_lead_farther(), self.table.best()[0]
        anyone, sooner = (self._is_beyond(limits[min(number, len(limits) - 1)]) for limits in self.limits)
        gain = GAINS * agreement_of(self.searches(), radius, self.metric).gain.to(radius)
        everyone = torch.arange(len(radius), device=radius.device)
        agreed = self._is_beyond(1.0) & (self._in_eps((1 - gain) * radius, everyone) > 1)
        self.hopeless |= torch.where(trusted, sooner | agreed, anyone)

    def _landmarks_lead_farther(self) -> Tensor:
        return torch.isfinite(self.by_landmarks) & (self.by_landmarks > FARTHER * self.by_noise)

    def _open(self) -> Tensor:
        return super()._open() & self.working

    def _most_passes(self, place: Place) -> int:
        """Of a row. Images without any point look for all landmarks."""
        if place in ("image", "ended"):
            return 2 * STEPS
        return 2 * STEPS + landmark_passes(LANDMARKS) + (landmark_passes((place,)) if place in LANDMARKS else 0)

    def _in_turn(self) -> Iterator[Wave]:
        """Among the first ones, where gradients can be trusted, or else later, each class has a row from the image."""
        p, others = self.metric.exponent, self._others(self.table.targets)
        looks = [Wave((("image", "next"),) * others, None, only) for only in ("trusted", "others")] if others else []
        further = cycle(FURTHER_WAVES)
        first = [FIRST_WAVE_L1 if p == 1 else FIRST_WAVE, SECOND_WAVE]
        # Rows of l1 cannot be cut off early, and such a wave takes many passes.
        first += [next(further)] if p == 1 else []
        between = 2 if p == 1 else 3
        return chain(first, looks[:1], islice(further, between), looks[1:], further)

    def wave(self, wave: Wave, number: int, left: Tensor) -> None:
        """Work on the rows of a wave, as many of each open image as its ``left`` (n,) passes allow."""
        n, device = len(self.centre), self.centre.device
        ends = torch.full((n, len(wave.starts)), torch.nan, dtype=self.centre.dtype, device=device)
        began = torch.full((n, len(wave.starts)), NEAR, device=device)
        parts: list[tuple[Tensor, ...]] = []
        is_open = self._open()
        if wave.only == "trusted":
            is_open &= self._landmarks_lead_farther()
        elif wave.only == "others":
            is_open &= ~self.looked
        if wave.only is not None:
            self.looked |= is_open
        for turn, (place, target) in enumerate(wave.starts):
            wanted = is_open & (left >= self._most_passes(place))
            left = torch.where(wanted, left - self._most_passes(place), left)
            if place in LANDMARKS and number >= CHOOSY:
                wanted &= ~self._landmarks_lead_farther()
            images = wanted.nonzero().squeeze(1)
            if not len(images):
                continue
            column = self._column(target, images, number + turn)
            x = self._begin_at(place, images, column, number * FIRST_TARGETS + turn)
            parts.append((images, column, x, torch.full_like(images, turn)))
            ends[images, turn] = torch.inf
            began[:, turn] = torch.where(self.began_far, FAR, HOP if place == "hop" else NEAR)
        if not parts:
            return
        image, column, x, start = (torch.cat(part) for part in zip(*parts, strict=True))
        best = torch.full_like(x[:, 0], torch.inf)
        reached = self.table.targets[image, column]
        rows = WaveRows(
            image, column, self.centre[image], x, x, torch.zeros_like(best), best, x.clone(), reached, start
        )
        self._run_phases(rows, self._phases(wave.part), self.cuts[wave.part is not None], ends)
        near, far, hop = (_least(torch.where(began == kind, ends, torch.nan)) for kind in KINDS)
        self.ends.append(torch.stack([near, far, hop], 1))
        self.by_noise, self.by_landmarks = torch.fmin(self.by_noise, near), torch.fmin(self.by_landmarks, far)

    def searches(self) -> Searches:
        """Rows of a wave that began at the same kind of place are one search."""
        ends = torch.cat(self.ends, 1)
        began = torch.tensor(KINDS, device=ends.device).repeat(len(self.ends))
        return Searches(ends, began.expand(len(ends), -1))

    def _phases(self, part: int | None) -> tuple[Phase, ...]:
        if part is None:
            return self.plan.first(FIRST_STEPS)
        return self.plan.restarts[part % len(self.plan.restarts)](STEPS)

    def _run_phases(
        self, rows: LmnRows, phases: Sequence[Phase], limits: Sequence[tuple[float, float]], ends: Tensor
    ) -> None:
        """All steps of a wave's rows, less those of rows that are cut off by ``limits``; ``ends`` is written."""
        steps, done = sum(phase.steps for phase in phases), 0
        cuts = {math.ceil(share * steps): limit for share, limit in limits}
        for phase in phases:
            x = torch.where(torch.isfinite(rows.best).unsqueeze(-1), rows.best_x, rows.x)
            rows = replace(rows, x=x, before=x, memory=self._memory(phase, rows))
            for step in range(phase.steps):
                rows = self._step(rows, phase, step / max(phase.steps - 1, 1))
                done += 1
                _note(ends, rows)
                if done in cuts:
                    rows = self._cut_off(rows, cuts[done])
                if not len(rows.image):
                    return
        self._store(rows)

    def _cut_off(self, rows: LmnRows, limit: float) -> LmnRows:
        """The rows that are within so many eps; the others are stored."""
        # One that has not crossed the boundary yet may do so within eps.
        nearest = torch.minimum(rows.best, self._distance(rows, rows.x)[0])
        far = self._in_eps(nearest, rows.image) > limit
        self._store(rows.take(far.nonzero().squeeze(1)))
        return rows.take((~far).nonzero().squeeze(1))

    def _store(self, rows: LmnRows) -> None:
        """Of rows with the same image and column the nearest one."""
        place = rows.image * self.table.targets.shape[1] + rows.column
        order = rows.best.argsort(stable=True)
        order = order[place[order].argsort(stable=True)]
        first = torch.ones_like(order, dtype=torch.bool)
        first[1:] = place[order][1:] != place[order][:-1]
        super()._store(rows.take(order[first]))

    def _begin_at(self, place: Place, images: Tensor, column: Tensor, number: int) -> Tensor:
        """(m, n) where a row of each of these images begins; ``number`` tells its noise from that of others."""
        self.began_far = torch.zeros_like(self.began_far)
        if place == "ended":
            return self.ended[images]
        if place == "image":
            return self.centre[images]
        kind = 1 + LANDMARKS.index(place) if place in LANDMARKS else 0
        kinds = torch.full_like(self.table.targets[:, 0], kind)
        stage = Stage(1, "hop" if place == "hop" else "noise", ())
        return self._start(stage, number, images, images, column, kinds)

    def _column(self, target: Target, images: Tensor, number: int) -> Tensor:
        """(m,) the columns of their targets in this wave."""
        anyone = self.table.targets[images] == ANY
        if target == "any" and bool(anyone.any()):
            return anyone.long().argmax(1)
        order = self.table.radius[images].masked_fill(anyone, torch.nan).argsort(dim=1, stable=True)
        others = self._others(self.table.targets)
        return order[:, 1 + number % others if target == "next" and others else 0]

    def _others(self, targets: Tensor) -> int:
        """How many targets an image has beside the nearest class and ANY."""
        return targets.shape[1] - 1 - int((targets[:1] == ANY).sum())


def _least(ends: Tensor) -> Tensor:
    """(n,) the least of each row's ends, NaN where all are."""
    least = torch.nan_to_num(ends, nan=torch.inf).amin(1)
    return torch.where(torch.isnan(ends).all(1), torch.nan, least)


def _note(ends: Tensor, rows: LmnRows) -> None:
    """Keep how far rows have come."""
    assert isinstance(rows, WaveRows)
    ends[rows.image, rows.start] = rows.best
