"""Stage 1 of PWCF: full SQP steps from many starts, with H = gamma I and the bounds kept exactly.

For a row (image x0, start, aim) the step from x solves, with the network alone linearised,

    min  mu d(x0, z) + 1/(2 gamma) |z - w|^2   s.t.  c + g'(z - x) + some <= 0,  z in the box,

where c <= 0 is the condition of a misclassification, g its gradient, w = x + momentum (x - before). Its dual has one
variable lambda, found by bisection: z(lambda) is known in closed form for

- a slack for every entry (l1): soft-thresholding, the threshold being gamma mu;
- one slack t for all entries (linf): clipping to x0 +- t, where t is a variable of its own, with a limited step;
- every other norm: a part of the way to its nearest point of the linearised condition;
- every other distance: a step down its gradient.

No merit function rejects a step: along the many kinks of a ReLU network its line searches end too early, while full
steps with a shrinking gamma pass them (docs/attacks.md has the numbers). Stage 2 begins where the best row has been.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from pwcf._common.rng import noise_of, seeds_of
from pwcf._common.rows import PerRow
from pwcf.attacks.agreement import NEAR, Searches
from pwcf.attacks.base import ANY, Task, resolve_targets
from pwcf.losses import margin, mask_label
from pwcf.metrics import HasHalfspaceStep, HasSlackForm, dual_norm
from pwcf.problems import is_surely_wrong

# Steps of the first look, which begins at the images, and of every row of a round that begins at noise about them.
FIRST_STEPS, STEPS, LEAST_STEPS = 20, 60, 6
# Rows of an image in a round: its nearest aims.
ROWS = 3
# Noise of rounds in turn: shares of the best perturbation, of its largest entry in linf, else of its length; and where
# nothing is known yet, in units of the box. The first look begins so near the image that only ties are broken.
NOISE_LINF, NOISE_L2, BLIND, TIES = 0.75, (1.8, 1.8, 3.6), (0.25, 0.5, 1.0), 1e-4
# The condition is to be met by this share of c more than asked for.
OVER = 0.05
# Bisections of lambda, after at most so many fourfold increases.
HALVINGS, INCREASES = 14, 12
# linf: t grows by at most this share of its first size in a step: linear models of masked gradients ask for far more.
GROWTH = 0.15
# How much t grows through lambda beside what entries move: only where these no longer can.
RELUCTANCE = 0.1
# Max-loss: the radius to be reached is a little within eps, for distances are sums with rounding errors.
INSIDE = 1 - 2e-6


@dataclass(frozen=True)
class Pace:
    """How d is lowered: by the share ``first`` in the first step, ``last`` in the last; how much momentum there is."""

    first: float
    last: float
    momentum: float
    ahead: float
    """the condition is to be over-met by this share, falling to a tenth, of what so long a move changes"""


PACE, PACE_SPLIT, PACE_LINF = Pace(0.2, 0.02, 0.9, 0.03), Pace(0.12, 0.01, 0.95, 0.05), Pace(0.3, 0.01, 0.8, 0.03)
# Of norms steeper than l2: the nearest point of the linearised condition jumps from step to step.
PACE_STEEP = Pace(0.3, 0.03, 0.3, 0.1)


@dataclass
class Rows(PerRow):
    """Rows in work, r of them."""

    image: Tensor
    """(r,) which image"""
    column: Tensor
    """(r,) which of its aims"""
    aim: Tensor
    """(r,) the class a row is to be taken for, or ANY"""
    x: Tensor
    """(r, n)"""
    before: Tensor
    t: Tensor
    """(r,) linf: the radius of the ball, its first size, and the least radius of a misclassified point"""
    first: Tensor
    least: Tensor


class Descent:
    """Stage 1 for all samples of a task; keeps the nearest misclassified point of every sample and aim.

    In max-loss the rows of a sample leave as soon as one is within eps.
    """

    def __init__(self, task: Task, starts: int, aim: bool, noise: float | None) -> None:
        self.task, self.metric, self.measure = task, task.problem.metric, task.measure()
        self.shape, self.noise = task.images.shape[1:], noise
        self.x0, self.lower, self.upper = (each.flatten(1) for each in (task.images, task.lower, task.upper))
        n = self.x0.shape[1]
        slacks = self.metric.slacks(n) if isinstance(self.metric, HasSlackForm) else 0
        self.split, self.entrywise = slacks == n and n > 1, slacks == 1
        steep = self.metric.exponent is not None and self.metric.exponent > 2
        self.pace = PACE_SPLIT if self.split else PACE_LINF if self.entrywise else PACE_STEEP if steep else PACE
        self.seeds, self.starts, self.aimed = seeds_of(task.images, task.seed), starts, aim
        unknown = torch.full_like(self.x0[:, 0], torch.inf)
        self.radius, self.points = unknown, self.x0.clone()
        """(n,) least radius of a misclassified point, (n, entries) the point"""
        self.reached = torch.full_like(task.labels, ANY)
        """(n,) its class"""
        self.eps = None if task.eps is None else INSIDE * task.eps.to(self.x0)
        self.ends: list[Tensor] = []

    def run(self, evaluations: int, first_steps: int | None = None) -> int:
        """A first look and rounds of restarts; what is left of the evaluations of every sample."""
        if evaluations <= LEAST_STEPS:
            return evaluations
        logits = self.task.model.logits(self.task.images, self.task.samples)
        evaluations -= 1  # half a one, really
        steps = min(first_steps or FIRST_STEPS, evaluations)
        aims = self._aims(logits, max(1, min(self.starts, evaluations // max(LEAST_STEPS, steps // 2))))
        count = aims.shape[1]
        steps = min(steps, evaluations // count)
        self.aims, self.table = aims, torch.full(aims.shape, torch.inf).to(self.x0)
        self._round(torch.arange(count, device=aims.device).expand(len(aims), -1), steps, None)
        evaluations -= count * steps
        number = 0
        while evaluations >= (rows := min(ROWS, count)) * STEPS:
            self._round(self.table.argsort(dim=1, stable=True)[:, :rows], STEPS, number)
            evaluations -= rows * STEPS
            number += 1
        return evaluations

    @property
    def searches(self) -> Searches | None:
        """The ends of all rounds by themselves."""
        if not self.ends:
            return None
        ends = torch.stack(self.ends, 1).double()
        return Searches(ends, torch.full(ends.shape, NEAR, device=ends.device))

    def broken(self) -> Tensor:
        """(n,) max-loss: whether a point within eps is known."""
        return self.radius <= (self.eps if self.eps is not None else -1.0)

    def _aims(self, logits: Tensor, count: int) -> Tensor:
        """(n, k) ANY and the likeliest other classes, one aim for each start."""
        anywhere = torch.full_like(self.task.labels, ANY).unsqueeze(1)
        if self.task.problem.targeted or not self.aimed or logits.shape[1] < 3:
            return anywhere.expand(-1, count)
        likeliest = mask_label(logits, self.task.labels).topk(min(count, logits.shape[1]) - 1, dim=1).indices
        return torch.cat([anywhere, likeliest], 1)

    def _round(self, columns: Tensor, steps: int, number: int | None) -> None:
        """Rows of these aims (n, k), from the images or, in a round with a number, from noise about them."""
        open_images = (~self.broken()).nonzero().squeeze(1)
        if not len(open_images):
            return
        image = open_images.repeat_interleave(columns.shape[1])
        column = columns[open_images].flatten()
        x = self._starts(open_images, image, columns.shape[1], number)
        t = (x - self.x0[image]).abs().amax(1)
        unknown = torch.full_like(t, torch.inf)
        rows = Rows(image, column, self.aims[image, column], x, x, t, unknown, unknown.clone())
        self.end = torch.full_like(self.radius, torch.inf)
        for step in range(steps):
            if not len(rows.image):
                break
            self._step(rows, step / max(steps - 1, 1), last=step == steps - 1)
        known = torch.zeros_like(self.end, dtype=torch.bool).index_fill(0, open_images, True)
        self.ends.append(torch.where(known, self.end, torch.nan))

    def _starts(self, images: Tensor, image: Tensor, each: int, number: int | None) -> Tensor:
        """(r, n) noise about the images; as large as the paper has it if ``noise`` says so, else by what is known."""
        low, high = self.task.model.bounds
        width = high - low
        if number is None:
            size = torch.full_like(self.radius, width * (TIES if self.noise is None else self.noise))
        else:
            move = self.points - self.x0
            if self.entrywise:
                size = NOISE_LINF * move.abs().amax(1)
            else:
                size = NOISE_L2[number % len(NOISE_L2)] * move.norm(dim=1) * (3 / move.shape[1]) ** 0.5
            size = torch.where(torch.isfinite(self.radius), size, BLIND[number % len(BLIND)] * width)
        salt = 0 if number is None else number + 1
        drawn = noise_of([self.seeds[i] + salt for i in images.tolist()], len(image), self.x0)
        return torch.clamp(self.x0[image] + size[image].unsqueeze(1) * drawn, self.lower[image], self.upper[image])

    def _step(self, rows: Rows, s: float, last: bool) -> None:
        """Evaluate all rows, keep what is misclassified, and move on; ``s`` is how much of the way is behind them."""
        image, x0 = rows.image, self.x0[rows.image]
        wrong, c, g, reached = self._linearise(rows)
        slope = None
        if isinstance(self.metric, HasHalfspaceStep):
            radius = self.metric(x0, rows.x)
        else:
            radius, slope = self._slope(rows)
        self._keep(rows, radius, wrong, reached)
        if self.eps is not None:
            left = ~self.broken()[image]
            if not bool(left.all()):
                rows.keep(left)
                x0, image = self.x0[rows.image], rows.image
                wrong, c, g, radius = wrong[left], c[left], g[left], radius[left]
                slope = None if slope is None else slope[left]
        if last or not len(rows.image):
            return
        share = self.pace.first * (self.pace.last / self.pace.first) ** s
        need = c + OVER * c.abs() + self.pace.ahead * 0.1**s * self._reach(rows, g, radius, x0)
        need = need - (g * rows.x).sum(1)
        place = self._places(rows, g, c, wrong, radius, slope, share, x0, -need)
        rows.before, rows.x = rows.x, self._least_lambda(lambda x: need + (g * x).sum(1), place, g)

    def _reach(self, rows: Rows, g: Tensor, radius: Tensor, x0: Tensor) -> Tensor:
        """(r,) by how much a move as long as the present one could change the condition."""
        steep: Tensor
        if self.metric.exponent is None:
            steep, radius = g.norm(dim=1), (rows.x - x0).norm(dim=1)
        else:
            steep = dual_norm(self.metric, g)
        return steep * radius

    def _linearise(self, rows: Rows) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Whether rows are misclassified, c and its gradient, its largest entry made 1, and the class beside it."""
        labels, targeted = self.task.labels[rows.image], self.task.problem.targeted

        def condition(logits: Tensor, some: slice) -> Tensor:
            own = labels[some]
            if targeted:
                return margin(logits, own)
            return -margin(logits, own, resolve_targets(logits, own, rows.aim[some]))

        samples = self.task.samples[rows.image.to(self.task.samples.device)]
        logits, c, g = self.task.model.value_and_gradient(rows.x.view(-1, *self.shape), samples, condition)
        free = self.upper[rows.image] > self.lower[rows.image]
        g = torch.where(free, torch.nan_to_num(g.flatten(1)), 0.0)
        largest = g.abs().amax(1)
        scale = torch.where(largest > 0, largest, torch.ones_like(largest))
        c, g = torch.nan_to_num(c) / scale, g / scale.unsqueeze(1)
        wrong = is_surely_wrong(logits, labels, targeted)
        return wrong, c, g, mask_label(logits, labels).argmax(1)

    def _slope(self, rows: Rows) -> tuple[Tensor, Tensor]:
        distance, slope = self.measure.value_and_gradient(rows.x.view(-1, *self.shape), rows.image)
        return distance, slope.flatten(1)

    def _keep(self, rows: Rows, radius: Tensor, wrong: Tensor, reached: Tensor) -> None:
        """The nearest misclassified points, of every sample and of every aim."""
        distance = torch.where(wrong & (radius > 0), radius, torch.inf)
        self.end = self.end.scatter_reduce(0, rows.image, distance, "amin")
        place = rows.image * self.table.shape[1] + rows.column
        self.table = self.table.view(-1).scatter_reduce(0, place, distance, "amin").view_as(self.table)
        better = (distance < self.radius[rows.image]) & (distance == self.end[rows.image])
        hit = better.nonzero().squeeze(1).flip(0)  # of equal ones the first is written last
        image = rows.image[hit]
        self.radius[image], self.points[image] = distance[hit], rows.x[hit]
        self.reached[image] = self.task.labels[image] if self.task.problem.targeted else reached[hit]

    def _places(
        self, rows: Rows, g: Tensor, c: Tensor, wrong: Tensor, radius: Tensor, slope: Tensor | None, share: float,
        x0: Tensor, level: Tensor,
    ) -> Callable[[Tensor], Tensor]:  # fmt: skip
        """z(lambda), (r,) -> (r, n)."""
        lower, upper = self.lower[rows.image], self.upper[rows.image]
        w = torch.clamp(rows.x + self.pace.momentum * (rows.x - rows.before), lower, upper)
        if self.split:
            threshold = share * (rows.x - x0).abs().amax(1, keepdim=True)
            v = w - x0

            def soft(lam: Tensor) -> Tensor:
                moved = v - lam.unsqueeze(1) * g
                return torch.clamp(x0 + moved - moved.clamp(-threshold, threshold), lower, upper)

            return soft
        if self.entrywise:
            low, top = self._balls(rows, g, c, wrong, radius, share)
            growth = RELUCTANCE * g.abs().mean(1)

            def clip(lam: Tensor) -> Tensor:
                t = torch.minimum(low + lam * growth, top).unsqueeze(1)
                ball = torch.clamp(w - lam.unsqueeze(1) * g, x0 - t, x0 + t)
                return torch.clamp(ball, lower, upper)

            return clip
        if isinstance(self.metric, HasHalfspaceStep):
            # For l2 it differs from the image by a multiple of g: the step is that of the image.
            nearest = x0
            if self.metric.exponent != 2:
                nearest = self.metric.nearest_on_halfspace(x0, g, level, lower, upper)
            down = torch.lerp(w, nearest, share)
        else:
            assert slope is not None
            down = self._down(w, radius, slope, share)

        def straight(lam: Tensor) -> Tensor:
            return torch.clamp(down - lam.unsqueeze(1) * g, lower, upper)

        return straight

    def _down(self, w: Tensor, radius: Tensor, slope: Tensor, share: float) -> Tensor:
        # So far down the gradient that a linear model of d would fall by the share.
        length = share * radius / slope.square().sum(1).clamp(min=torch.finfo(slope.dtype).tiny)
        return w - length.unsqueeze(1) * slope

    def _balls(
        self, rows: Rows, g: Tensor, c: Tensor, wrong: Tensor, radius: Tensor, share: float
    ) -> tuple[Tensor, Tensor]:
        """linf: the least and the largest radius of the next point."""
        linear = c.clamp(min=0) / g.abs().sum(1).clamp(min=torch.finfo(g.dtype).tiny)
        rows.first = torch.where(torch.isinf(rows.first), torch.maximum(linear, radius), rows.first)
        rows.least = torch.where(wrong, torch.minimum(rows.least, radius), rows.least)
        low = torch.where(wrong, (1 - share) * radius, (1 + share) * radius)
        top = torch.where(wrong, low, torch.maximum(low, radius + GROWTH * rows.first))
        top = torch.minimum(top, (1 - share / 2) * rows.least)
        return torch.minimum(low, top), top

    def _least_lambda(
        self, condition: Callable[[Tensor], Tensor], place: Callable[[Tensor], Tensor], g: Tensor
    ) -> Tensor:
        """z of the least lambda >= 0 that satisfies the linearised condition, or of a large one if none does."""
        zero = torch.zeros_like(g[:, 0])
        at_zero = place(zero)
        short = condition(at_zero)
        high = (2 * short.clamp(min=0) / g.square().sum(1).clamp(min=1e-30)).clamp(min=1e-30)
        low = zero
        for _ in range(INCREASES):
            failed = condition(place(high)) > 0
            if not bool(failed.any()):
                break
            low, high = torch.where(failed, high, low), torch.where(failed, 4 * high, high)
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            failed = condition(place(middle)) > 0
            low, high = torch.where(failed, middle, low), torch.where(failed, high, middle)
        return torch.where((short <= 0).unsqueeze(1), at_zero, place(high))
