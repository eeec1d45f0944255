"""A search that solves the linearised problem exactly, again and again, from many starts.

    min d(x, z)  s.t.  f_y(z) - f_t(z) <= 0,  z in the box        for every image x and some target classes t

Rows are (image, target class). Stages spend the budget on the most promising rows: a table keeps the smallest radius
found for each of them. A stage takes the best targets of every image, starts them at the image, at noise around it,
towards a landmark or at the table's point, and runs its phases. Restarts matter more than long runs, since the boundary
has many local minima. In max-loss all rows of an image leave as soon as one is within eps, or when the radius is too
far beyond it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor

from pwcf._common import rows as batch_rows
from pwcf._common.rng import noise_of, seeds_of
from pwcf.attacks.agreement import FAR, NEAR, Searches
from pwcf.attacks.base import ANY, Answer, Diagnostics, Task, resolve_targets
from pwcf.attacks.linearised import farthest_points
from pwcf.attacks.linearised.general_metric import (
    Curvature,
    GeneralMetricRule,
    HessianStore,
    degrees,
    polish_with_solver,
)
from pwcf.attacks.linearised.rules import Iterate
from pwcf.attacks.linearised.schedule import SHORT_TARGETS, Phase, Stage, candidates, is_short, plan_for, stages
from pwcf.attacks.linearised.starts import LANDMARKS, Landmark, TargetTable, boundary_points, landmark
from pwcf.losses import margin, mask_label
from pwcf.metrics import HasHalfspaceStep, dual_norm
from pwcf.problems import is_surely_wrong
from pwcf.solvers import LimitedBFGS

# Noise around the image: uniform, as long as this share of the best distance in the same norm (l2 for all but linf),
# shares taken in turn.
NOISE_LINF, NOISE_L2 = 0.75, (1.8, 3.6)
# Noise around the best point, measured alike (hops); in l1, where minima lie farther apart, more.
HOP_SIZE, HOP_SIZE_L1 = 2.0, 3.0
# Noise in a metric without structure: as far from the image in the metric itself, in shares of the best radius in turn,
# and so much around the best point. Noise as long in l2 as the best point may be fifty times as far in a perceptual
# distance, and restarts from there end at many times the radius (AlexNet PD on a CIFAR net: 3 to 20 times).
NOISE_GENERAL, HOP_SIZE_GENERAL = (0.5, 1.0), 0.5
# Noise where nothing is known yet, in units of the box, in turn: far enough to leave a region without slope.
NOISE_BLIND = (0.25, 0.5, 1.0)
# Noise on landmarks, in units of the box, so that the same one leads to different searches.
NOISE_LANDMARK = 0.25
# Noise by which the growth of a distance is looked at, in units of the box.
NOISE_LOOK = 0.02
# After this stage noise and two landmarks have been tried: the radius is trusted where a row of the first look found
# nothing, and landmarks are left to images that they led nearer than noise did.
TRUSTED = 3
# Where the second half of several restarts ends this much nearer, more would help; of few any is more exact.
SEVERAL, CLEARLY = 4, 0.98
# Where the waves of a first look end.
WAVES = (1, 4)
# Distances in float32 are sums with rounding errors; a point this much within eps is within it.
INSIDE = 1 - 2e-6


@dataclass
class SearchRows:
    """The rows in work, r of them."""

    image: Tensor
    """(r,) which image"""
    column: Tensor
    """(r,) which of its targets"""
    centre: Tensor
    """(r, n) the images"""
    x: Tensor
    """(r, n)"""
    before: Tensor
    memory: Any
    """the rule's own, with a place for every row"""
    best: Tensor
    """(r,) least distance of a misclassified point of this stage"""
    best_x: Tensor
    reached: Tensor
    """(r,) the class of best_x"""

    def take(self, rows: Tensor) -> SearchRows:
        return SearchRows(**{name: value[rows] for name, value in vars(self).items()})


class LinearisedSearch:
    """A min-radius search; max-loss is the same search after a few steps of its own, ended at eps."""

    def __init__(self, task: Task) -> None:
        self.task, self.metric = task, task.problem.metric
        self.shape, self.measure = task.images.shape[1:], task.measure()
        self.centre, self.lower, self.upper = (t.flatten(1) for t in (task.images, task.lower, task.upper))
        self.masked = bool((self.lower != self.lower[:1]).any() or (self.upper != self.upper[:1]).any())
        self.seeds = seeds_of(task.images, task.seed)
        self.degree = self._degrees()
        largest = torch.finfo(self.centre.dtype).max
        self.eps = None if task.eps is None else INSIDE * task.eps.clamp(max=largest).to(self.centre)

    @property
    def classes(self) -> int:
        """Of which one is wanted."""
        return 2 if self.task.problem.targeted else self.logits.shape[1]

    @property
    def budget(self) -> int:
        """Without a look at what is known."""
        return self.task.budget - (self.task.known is not None)

    @cached_property
    def logits(self) -> Tensor:
        """(n, classes) at the images."""
        return self.task.model.logits(self.task.images, self.task.samples)

    @cached_property
    def hessians(self) -> HessianStore:
        """For metrics without structure alone."""
        return HessianStore(self.centre)

    def run(self, plan: Sequence[Stage] | None = None) -> Answer:
        """The nearest misclassified points seen; the images themselves where there is none.

        Stages are made from the budget, unless there is a plan.
        """
        own = farthest_points.passes(self.metric) if self.eps is not None else 0
        plan = plan or stages(self.metric, self.budget - own, self.classes)
        self.begin(max(stage.targets for stage in plan))
        if self.eps is not None:
            farthest_points.try_farthest_points(self)
        return self._run_stages(plan)

    def _run_stages(self, plan: Sequence[Stage]) -> Answer:
        still_helping, ends = None, []
        restarts = [number for number, stage in enumerate(plan) if stage.is_restart]
        for number, stage in enumerate(plan):
            if len(restarts) >= SEVERAL and number == restarts[len(restarts) // 2]:
                half_way = self.table.best()[0]
            end = torch.full_like(self.centre[:, 0], torch.nan)
            for columns in self._waves(stage):
                was_open = self._open()
                found = self.stage(stage, number, columns)
                end = torch.where(was_open, torch.fmin(end, found), end)
            if stage.start != "best":
                ends.append(end)
            if number == TRUSTED:
                self.doubtful[:] = False
            self.hopeless |= self._is_beyond(stage.hopeless)
            if len(restarts) >= SEVERAL and number == restarts[-1]:
                still_helping = self._still_helping(half_way)
        radius, points = self.table.best()
        began = [FAR if stage.start == "landmark" else NEAR for stage in plan if stage.start != "best"]
        searches = Searches(torch.stack(ends, 1), torch.tensor(began, device=radius.device).expand(len(radius), -1))
        seen = torch.isfinite(radius)
        diagnostics = Diagnostics(still_helping=still_helping, searches=searches, seen=seen, nearest=radius)
        return Answer(points.view(-1, *self.shape), diagnostics)

    def passes(self) -> Tensor:
        """(n,) what the images have cost so far."""
        return self.task.model.passes.total[self.task.samples.cpu()]

    def _still_helping(self, half_way: Tensor) -> Tensor | None:
        """(n,) whether the later restarts found something clearly nearer; None for metrics without structure.

        Restarts of these are rough, and any may be nearer by chance: only their last part is exact.
        """
        if not isinstance(self.metric, HasHalfspaceStep):
            return None
        return self.table.best()[0] < CLEARLY * half_way

    def begin(self, count: int) -> None:
        """Choose so many target classes of every image, and take over the points that are known already."""
        targets = self._choose_targets(count)
        self.table = TargetTable(targets, self.centre)
        nobody = torch.zeros_like(targets[:, 0], dtype=torch.bool)
        self.hopeless, self.doubtful = nobody, nobody.clone()
        self.working, self.began_far = ~nobody, nobody.clone()
        unknown = torch.full_like(self.centre[:, 0], torch.inf)
        self.by_noise, self.by_landmarks = unknown, unknown.clone()  # least radii that stages of either kind found
        if self.task.known is not None:
            self._store_known(self.task.known)

    def _store_known(self, known: Tensor) -> None:
        """Points that others have found, each in the column of the class it has, else in the first."""
        logits = self.task.model.logits(known, self.task.samples)
        wrong = is_surely_wrong(logits, self.task.labels, self.task.problem.targeted)
        reached = mask_label(logits, self.task.labels).argmax(1)
        everyone = torch.arange(len(known), device=known.device)
        radius = self.measure.values(known, everyone)
        match = self.table.targets == reached.unsqueeze(1)
        radius = torch.where(wrong & (radius > 0), radius, torch.inf)
        self.table.store(everyone, match.long().argmax(1), radius, known.flatten(1), reached)

    def _choose_targets(self, count: int) -> Tensor:
        """(n, count) those with the largest logits, of many classes half by logit, half by linear model; and ANY.

        With many classes the largest logits alone miss near ones (linear models with 100 classes: up to 25 % larger
        radii). Linear models alone miss them on networks with misleading gradients. There, untargeted rows (ANY) find
        minima that targeted rows miss.
        """
        logits, classes = self.logits, self.logits.shape[1]
        if plan_for(self.metric).depth_first and not self.task.problem.targeted and classes > 2:
            likeliest = mask_label(logits, self.task.labels).topk(count - 1, dim=1).indices
            return torch.cat([torch.full_like(self.task.labels, ANY).unsqueeze(1), likeliest], 1)
        if count < classes - 1 and not self.task.problem.targeted and is_short(self.metric, self.task.budget, classes):
            # At the image ANY is the likeliest class.
            likeliest = mask_label(logits, self.task.labels).topk(count, dim=1).indices
            return torch.cat([torch.full_like(self.task.labels, ANY).unsqueeze(1), likeliest[:, 1:]], 1)
        several = count > SHORT_TARGETS and not self.task.problem.targeted
        count -= several  # one place is that of ANY
        others = mask_label(logits, self.task.labels)
        looked_at = candidates(self.metric, self.task.budget, classes)
        if self.task.problem.targeted:
            targets = self.task.labels.unsqueeze(1)
        elif looked_at == 0:
            targets = others.topk(count, dim=1).indices
        else:
            ranked = others.topk(looked_at, dim=1).indices
            by_logit = (count + 1) // 2
            distance = self._linear_distances(ranked)
            distance[:, :by_logit] = -torch.inf  # chosen already
            targets = ranked.gather(1, distance.argsort(dim=1, stable=True)[:, :count])
        if several:
            first, others = targets[:, :SHORT_TARGETS], targets[:, SHORT_TARGETS:]
            targets = torch.cat([first, torch.full_like(first[:, :1], ANY), others], 1)
        return targets

    def _linear_distances(self, classes: Tensor) -> Tensor:
        """(n, k) the distance to each class (n, k) under the linear model at the image, without the box."""
        everyone = torch.arange(len(classes), device=classes.device)
        columns = []
        for target in classes.unbind(1):
            _, _, c, g = self.linearise(everyone, self.centre, target)
            size = dual_norm(self.metric, g)
            columns.append(torch.nan_to_num(c / size.clamp(min=torch.finfo(c.dtype).tiny), nan=torch.inf))
        return torch.stack(columns, 1)

    def _waves(self, stage: Stage) -> Sequence[Tensor | None]:
        """The columns of a first look, in waves; None for other stages, where the table tells which.

        In max-loss most images that can be broken are broken by their first row, and their other rows need not begin.
        The last wave is for images near eps. Min-radius has waves too where rows learn of each other.
        """
        if stage.start != "image":
            return [None]
        columns = torch.arange(stage.targets, device=self.centre.device)
        if self.eps is None and isinstance(self.metric, HasHalfspaceStep):
            return [columns]
        return columns.tensor_split([end for end in WAVES if end < stage.targets])

    def stage(self, stage: Stage, number: int, columns: Tensor | None = None, kinds: Tensor | None = None) -> Tensor:
        """One stage of all images that need work; (n,) the least radii that it found by itself, inf where none.

        Restarts begin where the stage says or, if they are given, at these ``kinds`` (n,) of places: 0 for
        noise, else a landmark's place in LANDMARKS, counted from 1. ``began_far`` then tells which did so far away.
        """
        ends = torch.full_like(self.centre[:, 0], torch.inf)
        is_open = self._open()
        if columns is not None and columns[0] >= WAVES[-1]:
            is_open = is_open & ~self._is_beyond(stage.far)
        open_images = is_open.nonzero().squeeze(1)
        if not len(open_images):
            return ends
        if columns is not None:
            chosen = columns.expand(len(open_images), -1)
        elif stage.is_restart:
            chosen = self.table.in_turn(open_images, stage.targets, number)
        else:
            chosen = self.table.nearest(open_images, stage.targets)
        image, column = open_images.repeat_interleave(chosen.shape[1]), chosen.flatten()
        if stage.close < math.inf:
            close = self.table.radius[image, column] <= stage.close * self.table.radius[image].amin(1)
            image, column = image[close], column[close]
        x = self._start(stage, number, open_images, image, column, kinds)
        reached = self.table.targets[image, column]
        if not stage.phases:
            best, best_x = polish_with_solver(self.task, image, reached, x, 2 * stage.evaluations)
            self.table.store(image, column, best, best_x, reached)
            return ends
        best = torch.full_like(x[:, 0], torch.inf)
        rows = SearchRows(image, column, self.centre[image], x, x, torch.zeros_like(best), best, x.clone(), reached)
        for phase in stage.phases:
            rows = self._phase(rows, phase)
            if not len(rows.image):
                return ends
        self._store(rows)
        if stage.polish is not None:
            rows = self._phase(rows.take(_best_of_each(rows)), stage.polish)
            self._store(rows)
        if isinstance(rows.memory, Curvature):
            self.hessians.save(rows.image, rows.best, rows.memory)
        if stage.start == "image":
            self.doubtful[rows.image[torch.isinf(rows.best)]] = True
        if stage.is_restart:
            found_by = self.by_landmarks if stage.start == "landmark" else self.by_noise
            found_by.scatter_reduce_(0, rows.image, rows.best, "amin")
        return ends.scatter_reduce(0, rows.image, rows.best, "amin")

    def _phase(self, rows: SearchRows, phase: Phase) -> SearchRows:
        """Rows go on from their best points; those that are left at the end."""
        x = torch.where(torch.isfinite(rows.best).unsqueeze(-1), rows.best_x, rows.x)
        rows = replace(rows, x=x, before=x, memory=self._memory(phase, rows))
        for step in range(phase.steps):
            rows = self._step(rows, phase, step / max(phase.steps - 1, 1))
            if not len(rows.image):
                break
        return rows

    def _memory(self, phase: Phase, rows: SearchRows) -> LimitedBFGS | Tensor:
        """What the rule of a phase begins with."""
        if isinstance(phase.rule, GeneralMetricRule):
            return self.hessians.load(rows.image, phase.rule.pairs)
        return torch.zeros_like(rows.best)

    def _store(self, rows: SearchRows) -> None:
        self.table.store(rows.image, rows.column, rows.best, rows.best_x, rows.reached)

    def _step(self, rows: SearchRows, phase: Phase, share: float) -> SearchRows:
        x = rows.x
        wrong, other, c, g = self.linearise(rows.image, x, self.table.targets[rows.image, rows.column])
        radius, slope = self._distance(rows, x)
        better = wrong & (radius < rows.best)
        # Rows own these: they are written in place.
        batch_rows.overwrite(better, (rows.best, radius), (rows.best_x, x), (rows.reached, other))
        staying = self._staying(rows)
        if staying is not None:
            rows, slope = rows.take(staying), None if slope is None else slope[staying]
            x, wrong, c, g, radius = (each[staying] for each in (x, wrong, c, g, radius))
            if not len(staying):
                return rows
        lower, upper = self._box(rows.image)
        distance = None if slope is None else partial(self._again, rows.image)
        at = Iterate(
            rows.centre, x, rows.before, c, g, wrong, radius, slope, self.degree[rows.image], rows.best, rows.best_x,
            lower, upper, distance,
        )  # fmt: skip
        following, memory = phase.rule(at, phase.schedule, share, rows.memory)
        # Where the model gives NaN or inf there is no linear model; half way back is nearer to where it was defined.
        lost = ~torch.isfinite(c + following.sum(1))
        if not batch_rows.waits_are_free(lost) or bool(lost.any()):
            batch_rows.overwrite(lost, (following, 0.5 * (x + at.centre)))
        return replace(rows, x=following, before=x, memory=memory)

    def _box(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """The rows' boxes; without a mask all are the same, and one is read faster than many."""
        return (self.lower[image], self.upper[image]) if self.masked else (self.lower[:1], self.upper[:1])

    def _staying(self, rows: SearchRows) -> Tensor | None:
        """Store the rows that are within eps. Returns the rows (m,) of other images, which go on; None: all rows do."""
        done = None if self.eps is None else rows.best <= self.eps[rows.image]
        if done is None or not bool(done.any()):
            return None
        self._store(rows.take(done.nonzero().squeeze(1)))
        return self._open()[rows.image].nonzero().squeeze(1)

    def _in_eps(self, radius: Tensor, image: Tensor) -> Tensor:
        """(r,) radii in units of eps. Of a squared metric it is the root, which falls as the radius of a norm does."""
        assert self.eps is not None
        tiny = torch.finfo(radius.dtype).tiny
        return (radius / self.eps[image].clamp(min=tiny)).pow(1 / self.degree[image])

    def _open(self) -> Tensor:
        """(n,) whether an image still needs work."""
        if self.eps is None:
            return self.working
        return (self.table.radius.amin(1) > self.eps) & ~self.hopeless

    def _is_beyond(self, limit: float) -> Tensor:
        """(n,) whether the radius is known to be more than this many eps; False where gradients lead nowhere."""
        if self.eps is None:
            return torch.zeros_like(self.doubtful)
        radius = self.table.radius.amin(1)
        everyone = torch.arange(len(radius), device=radius.device)
        return torch.isfinite(radius) & (self._in_eps(radius, everyone) > limit) & ~self.doubtful

    def _start(
        self, stage: Stage, number: int, images: Tensor, image: Tensor, column: Tensor, kinds: Tensor | None
    ) -> Tensor:
        """(r, n) where the rows of these images begin; with noise, as many of each."""
        centre = self.centre[image]
        if stage.start == "image":
            return centre
        radius, point = self.table.best()
        if stage.start == "best":
            known = torch.isfinite(self.table.radius[image, column]).unsqueeze(-1)
            return torch.where(known, self.table.points[image, column], point[image])
        hops = stage.start == "hop"
        if not isinstance(self.metric, HasHalfspaceStep):
            size = (HOP_SIZE_GENERAL if hops else NOISE_GENERAL[number % len(NOISE_GENERAL)]) * radius
        elif self.metric.exponent == math.inf:
            size = (HOP_SIZE if hops else NOISE_LINF) * radius
        else:
            hop = HOP_SIZE_L1 if self.metric.exponent == 1 else HOP_SIZE
            share = hop if hops else NOISE_L2[number % len(NOISE_L2)]
            size = share * (point - self.centre).norm(dim=1) * (3 / centre.shape[1]) ** 0.5
        lower, upper = self.task.model.bounds
        blind = NOISE_BLIND[number % len(NOISE_BLIND)] * (upper - lower)
        noise = noise_of([self.seeds[i] + number for i in images.tolist()], len(column), centre)
        length = size[image]
        if not isinstance(self.metric, HasHalfspaceStep):
            length = self._length_of(length, noise, image)
        length = torch.where(torch.isfinite(radius[image]), length, torch.full_like(length, blind))
        origin = point[image] if hops else centre
        start = torch.clamp(origin + length.unsqueeze(-1) * noise, self.lower[image], self.upper[image])
        self.began_far = torch.zeros_like(self.began_far)
        if kinds is not None:
            start = self._at_landmarks(kinds, number, images, image, start)
            stage = replace(stage, landmarks=LANDMARKS)  # for images without any point
        seeking = images[self._seeks_landmarks(stage, number, radius)[images]]
        if stage.landmarks and len(seeking):
            found, point[seeking] = self._towards(stage.landmarks, seeking)
            self.began_far[seeking[found]] = True
            start = torch.where(torch.isin(image, seeking[found]).unsqueeze(-1), point[image], start)
        return start

    def _length_of(self, distance: Tensor, noise: Tensor, image: Tensor) -> Tensor:
        """(r,) how long noise (r, n) on the images must be to be about so far (r,) from them; at most the box."""
        lower, upper = self.task.model.bounds
        look = NOISE_LOOK * (upper - lower)
        there = torch.clamp(self.centre[image] + look * noise, self.lower[image], self.upper[image])
        seen = self.measure.values(there.view(-1, *self.shape), image)
        longer = (distance / seen).pow(1 / self.degree[image])
        return torch.nan_to_num(look * longer, nan=upper - lower).clamp(max=upper - lower)

    def _at_landmarks(self, kinds: Tensor, number: int, images: Tensor, image: Tensor, start: Tensor) -> Tensor:
        """The starts (r, n), those of images whose kind is a landmark towards it, as far as the boundary."""
        point = self.centre.clone()
        for kind, name in enumerate(LANDMARKS, start=1):
            seeking = images[kinds[images] == kind]
            if len(seeking):
                found, point[seeking] = self._towards((name,), seeking, number)
                self.began_far[seeking[found]] = True
        return torch.where(self.began_far[image].unsqueeze(-1), point[image], start)

    def _seeks_landmarks(self, stage: Stage, number: int, radius: Tensor) -> Tensor:
        """(n,) images without any point so far; in landmark stages all images, later those that gained by landmarks."""
        if stage.start != "landmark":
            return torch.isinf(radius)
        return self.by_landmarks <= self.by_noise if number > TRUSTED else torch.ones_like(self.doubtful)

    def _towards(self, names: Sequence[Landmark], images: Tensor, again: int | None = None) -> tuple[Tensor, Tensor]:
        """(m,) whether a landmark of these images is misclassified, (m, n) misclassified points on the way to it.

        With noise where the same landmark may be tried ``again``, in a restart of this number.
        """
        labels, samples = self.task.labels[images], self.task.samples[images]
        centre, lower, upper = self.centre[images], self.lower[images], self.upper[images]

        def is_wrong(x: Tensor, rows: Tensor) -> Tensor:
            logits = self.task.model.logits(x.view(-1, *self.shape), samples[rows])
            return is_surely_wrong(logits, labels[rows], self.task.problem.targeted)

        marks = [landmark(name, centre, lower, upper) for name in names]
        if again is not None:
            size = NOISE_LANDMARK * (self.task.model.bounds[1] - self.task.model.bounds[0])
            noise = noise_of([self.seeds[i] + again for i in images.tolist()], len(images), centre)
            marks = [torch.clamp(mark + size * noise, lower, upper) for mark in marks]
        return boundary_points(is_wrong, centre, marks)

    def _distance(self, rows: SearchRows, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """Distance of x (r, n) from its image, with its gradient where the rule has nothing better."""
        if isinstance(self.metric, HasHalfspaceStep):
            return self.metric(rows.centre, x), None
        if torch.equal(x, rows.centre):  # no distance, and no slope
            return torch.zeros_like(rows.best), torch.zeros_like(x)
        return self._value_and_gradient(rows.image, x)

    def _again(self, image: Tensor, x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        return self._value_and_gradient(image[rows], x)

    def _value_and_gradient(self, image: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        distance, slope = self.measure.value_and_gradient(x.view(-1, *self.shape), image)
        return distance, slope.flatten(1)

    def _degrees(self) -> Tensor:
        """(n,) by what power the distance grows near each image; measured where the metric does not say."""
        if self.metric.degree is not None:
            return torch.full_like(self.centre[:, 0], self.metric.degree)
        everyone = torch.arange(len(self.centre), device=self.centre.device)
        size = NOISE_LOOK * (self.task.model.bounds[1] - self.task.model.bounds[0])
        noise = noise_of(self.seeds, len(self.centre), self.centre)
        there = torch.clamp(self.centre + size * noise, self.lower, self.upper)
        points = there, torch.lerp(self.centre, there, 0.5)
        return degrees(*(self.measure.values(each.view(-1, *self.shape), everyone) for each in points))

    def linearise(self, image: Tensor, x: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """At x (r, n): whether it is misclassified, the likeliest class beside the label, c and its gradient.

        c is that towards the targets (r,), scaled so that the largest entry of the gradient is 1.
        """
        labels, targeted = self.task.labels[image], self.task.problem.targeted

        def condition(logits: Tensor, some: slice) -> Tensor:
            own = labels[some]
            return (
                margin(logits, own) if targeted else -margin(logits, own, resolve_targets(logits, own, targets[some]))
            )

        points = x.view(-1, *self.shape)
        logits, c, g = self.task.model.value_and_gradient(points, self.task.samples[image], condition)
        g = g.flatten(1)
        largest = g.abs().amax(1)
        # Powers and squares of gradients as they are may overflow; a cut is the same at any scale.
        scale = torch.where(largest > 0, largest, torch.ones_like(largest))
        c, g = c / scale, g / scale.unsqueeze(1)
        # A logit is a sum of about g_i x_i: of this size is what is rounded.
        terms = scale * g.norm(dim=1) * x.norm(dim=1)
        return is_surely_wrong(logits, labels, targeted, terms), mask_label(logits, labels).argmax(1), c, g


def _best_of_each(rows: SearchRows) -> Tensor:
    """(m,) of every image the row that has come nearest, the first of equal ones."""
    by_radius = rows.best.argsort(stable=True)
    order = by_radius[rows.image[by_radius].argsort(stable=True)]
    image = rows.image[order]
    first = torch.ones_like(image, dtype=torch.bool)
    first[1:] = image[1:] != image[:-1]
    return order[first]
