"""Distances that offer only a gradient: a step rule that learns their curvature, and the last digits by the solver.

With q = d^(2/k) / 2, k the degree by which the distance grows near the image (1 for a norm, 2 for its square), q is
nearly quadratic whatever the metric's scales: a perceptual distance hardly sees most directions, and steps along its
gradient creep through the few that it does see. H is the inverse Hessian of q as far as it is known, limited-memory
BFGS. The linearised problem

    min  grad q'(z - x) + (z - x)' H^-1 (z - x) / 2   s.t.  the cut,  z in the box

has the solution  z = clip(x - H grad q - lam H g)  with the least lam that meets the cut.

The cut costs passes of the classifier; the metric does not. So the rule takes several such steps on one cut, and each
adds a pair to H. What counts for the radius is how often the metric was evaluated, nearly regardless of the number of
cuts (AlexNet PD on a CIFAR network: 200 evaluations end at .0075 with 200, 100, 50 or 25 cuts).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pwcf.attacks.base import Task, resolve_targets
from pwcf.attacks.linearised.rules import Iterate, StepSchedule, along_onto_cut_and_box, norm2
from pwcf.losses import margin
from pwcf.problems import is_surely_wrong
from pwcf.solvers import LimitedBFGS, ineq, minimize

# Pairs in memory. More learn faster (40: a tenth nearer after as many steps), but take as long as the metric's network.
PAIRS = 20
# A step towards a smaller distance is at most ``trust`` times as long as the way from the image. Trust is at most 1; it
# halves with every second consecutive step that ends short of the boundary, and grows after one that does not. Metrics
# that see what the classifier sees (its own features) bend the condition along their way.
TRUST_LESS, TRUST_MORE = 0.5, 1.5
# Metrics that grow faster than this power are squares of something.
SQUARE_FROM = 1.5

# The last digits. Forward passes beside the solver's evaluations: one for the images, and minimize() checks its
# functions with up to two.
SOLVER_CHECKS = 3
# The condition asks for this share of its value at the image more than it must: the solver ends on the boundary of what
# it is asked, and there rounding would decide the class.
SOLVER_SURPLUS = 2e-4
# What minimize() says of a function that gives two values at one point.
DIFFERENT = "gave different values"
# Rows are limited by their budget of evaluations alone.
ENDLESS = 10_000


@dataclass
class Curvature:
    """What r rows know of q. A row that leaves only loses its place number; the pairs in H stay where they are."""

    H: LimitedBFGS
    place: Tensor
    """(r,) where in H"""
    x: Tensor
    """(r, n) where q was last differentiated"""
    slope: Tensor
    """(r, n) its gradient there"""
    trust: Tensor
    """(r,)"""
    short: Tensor
    """(r,) bool: the last point was not misclassified"""

    @classmethod
    def begin(cls, H: LimitedBFGS, x: Tensor, slope: Tensor) -> Curvature:
        first = torch.ones_like(x[:, 0])
        return cls(H, torch.arange(len(x), device=x.device), x, slope, first, torch.zeros_like(first, dtype=torch.bool))

    def __getitem__(self, rows: Tensor) -> Curvature:
        H, others = self.H, (self.place, self.x, self.slope, self.trust, self.short)
        return Curvature(H, *(value[rows] for value in others))

    def copied(self) -> Curvature:
        """With x and slope of its own."""
        return replace(self, x=self.x.clone(), slope=self.slope.clone())

    def learn(self, x: Tensor, slope: Tensor) -> Curvature:
        self.H.update(self.place, x - self.x, slope - self.slope)
        return replace(self, x=x, slope=slope)

    def judge(self, wrong: Tensor) -> Curvature:
        """After a step that has ended misclassified (r,), or not."""
        trust = torch.where(wrong, TRUST_MORE * self.trust, torch.where(self.short, TRUST_LESS, 1.0) * self.trust)
        return replace(self, trust=trust.clamp(max=1), short=~wrong)

    def times(self, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """H u and H v of (r, n) each."""
        metric = self.H.products(self.place, torch.stack([u, v], 1))
        one, none = torch.ones_like(u[:, :1]), torch.zeros_like(u[:, :1])
        return metric.combine(torch.cat([one, none], 1)), metric.combine(torch.cat([none, one], 1))


class HessianStore:
    """The inverse Hessians of q about n images, kept from stage to stage.

    They are much the same for all rows of an image, so the rows of a stage begin with what the best row of an earlier
    stage has learnt.
    """

    def __init__(self, images: Tensor) -> None:
        self.H = LimitedBFGS.empty(len(images), images.shape[1], PAIRS, images)

    def load(self, image: Tensor, pairs: int) -> LimitedBFGS:
        """A copy for rows of these images (r,); a memory of another size begins empty."""
        if pairs == self.H.memory:
            return self.H[image]
        return LimitedBFGS.empty(len(image), self.H.pairs.shape[2], pairs, self.H.pairs)

    def save(self, image: Tensor, radius: Tensor, memory: Curvature) -> None:
        """Keep what the nearest of each image's rows (r,) has learnt."""
        if memory.H.memory != self.H.memory:
            return
        order = radius.argsort(stable=True)
        order = order[image[order].argsort(stable=True)]
        first = torch.ones_like(order, dtype=torch.bool)
        first[1:] = image[order][1:] != image[order][:-1]
        best = order[first]
        self.H.put(image[best], memory.H[memory.place[best]])


@dataclass(frozen=True)
class GeneralMetricRule:
    """``repeats`` steps of the metric on every cut, with ``pairs`` BFGS pairs in memory."""

    repeats: int
    pairs: int = PAIRS

    def __call__(
        self, at: Iterate, schedule: StepSchedule, share: float, memory: LimitedBFGS | Curvature
    ) -> tuple[Tensor, Curvature]:
        assert at.slope is not None
        slope = _slope_of_q(at.radius, at.slope, at.degree)
        if isinstance(memory, Curvature):
            known = memory.judge(at.wrong).learn(at.x, slope)
        else:
            known = Curvature.begin(memory, at.x, slope)
        # First to the boundary, then inwards.
        reached = torch.isfinite(at.best)
        x = _step(at, known, schedule, share, reached)
        rows = reached.nonzero().squeeze(1)
        if self.repeats > 1 and len(rows):
            x, known = x.clone(), known.copied()
            x[rows], further = self._again(at, rows, x[rows], known[rows], schedule, share)
            known.x[rows], known.slope[rows] = further.x, further.slope
        return x, known

    def _again(
        self, at: Iterate, rows: Tensor, x: Tensor, known: Curvature, schedule: StepSchedule, share: float
    ) -> tuple[Tensor, Curvature]:
        """The other steps on this cut, of some rows (m,) that are at x (m, n)."""
        assert at.distance is not None
        everyone = torch.ones_like(rows, dtype=torch.bool)
        part = at.select(rows)
        for _ in range(self.repeats - 1):
            radius, slope = at.distance(x, rows)
            known = known.learn(x, _slope_of_q(radius, slope, part.degree))
            x = _step(part, known, schedule, share, everyone)
        return x, known


def _step(at: Iterate, known: Curvature, schedule: StepSchedule, share: float, inwards: Tensor) -> Tensor:
    """(r, n) from where q was last differentiated: towards smaller q where ``inwards`` (r,), and onto the cut."""
    x, g = known.x, at.g
    way, onto = known.times(known.slope, g)
    away = norm2(x - at.centre)
    limit = known.trust * away / norm2(way).clamp(min=torch.finfo(x.dtype).tiny)
    way = way * (inwards * schedule.at(share) * limit.clamp(max=1)).unsqueeze(1)
    level = at.level(schedule.margin_at(share) * norm2(g) * away)
    return along_onto_cut_and_box(x - way, onto, g, level, at.lower, at.upper)


def degrees(distance: Tensor, half_way: Tensor) -> Tensor:
    """(n,) 1 or 2, from the distances of points and of points half way to them."""
    ratio = distance / half_way.clamp(min=torch.finfo(distance.dtype).tiny)
    return torch.where(ratio > 2**SQUARE_FROM, 2.0, 1.0).to(distance.dtype)


def _slope_of_q(radius: Tensor, slope: Tensor, degree: Tensor) -> Tensor:
    """grad q up to a factor: d grad d of a norm, grad d of a square."""
    return torch.where(degree < SQUARE_FROM, radius, torch.ones_like(radius)).unsqueeze(1) * slope


# ---- the last digits ----------------------------------------------------------------------------------------------


def polish_with_solver(task: Task, image: Tensor, target: Tensor, starts: Tensor, passes: int) -> tuple[Tensor, Tensor]:
    """Find the last digits by  min d(z, x0)  s.t.  f_y(z) - f_t(z) <= 0,  z in the box,  from good points.

    The general solver learns the curvature of the distance and of the boundary, which steps along gradients do not.
    The best misclassified point that it evaluates counts, whatever it ends with.

    Args:
        task: the question.
        image: (r,) which image each row belongs to.
        target: (r,) its target class, or ANY.
        starts: (r, n) flat points.
        passes: for each row.

    Returns:
        (r,) least distances, inf where no misclassified point was seen, and (r, n) their points.
    """
    shape, measure = task.images.shape[1:], task.measure()
    labels, samples = task.labels[image], task.samples[image]

    def condition(logits: Tensor, rows: Tensor) -> Tensor:
        own = labels[rows]
        return (
            margin(logits, own)
            if task.problem.targeted
            else -margin(logits, own, resolve_targets(logits, own, target[rows]))
        )

    everyone = torch.arange(len(image), device=starts.device)
    surplus = SOLVER_SURPLUS * condition(task.model.logits(task.images[image], samples), everyone).abs()
    best = torch.full_like(starts[:, 0], torch.inf)
    best_x = starts.clone()

    def radius_and_condition(z: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        x = z.view(-1, *shape)
        logits = task.model.differentiable(x, samples[rows])
        distance = measure(x, image[rows])
        with torch.no_grad():
            better = is_surely_wrong(logits, labels[rows], task.problem.targeted) & (distance < best[rows])
            hit = rows[better]
            best[hit], best_x[hit] = distance[better], z[better]
        return distance, condition(logits, rows) + surplus[rows]

    try:
        minimize(
            radius_and_condition,
            starts,
            [ineq()],
            bounds=(task.lower[image].flatten(1), task.upper[image].flatten(1)),
            max_iterations=ENDLESS,
            budget=max(1, (passes - SOLVER_CHECKS) // 2),
            slots=task.model.batch,
        )
    except ValueError as error:
        if DIFFERENT not in str(error):
            raise  # a random model has no minimum; what was found before stays
    return best, best_x
