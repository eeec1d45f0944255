"""Evidence: a bound on how much smaller a radius can get, computed from the point alone.

It works for the answer of any attack, in the metric's own units. At a misclassified x at distance r the condition "is
misclassified" is replaced by linear models c_j + g_j'(z - x_j) <= 0, taken at x and at a few points close to it. If
they were exact, the radius could shrink within distance delta of x by

    E(delta) = max r - d(z, x0)   s.t.  all models hold,  d(z, x) <= delta,  z in the box
            <= min over k >= 0, v in the eps-subdifferential of d at x of
               k'b + eps + delta |(v + sum_j k_j g_j) where z can move|_q

with b_j >= 0 the slack of model j at x, and q dual to p. Every choice of k and v gives a valid bound, so an inexact
minimisation makes the bound larger, never wrong. For a classifier with two classes and linear logits the models are
exact, and E(2 r) / r bounds the relative excess of the radius: the optimum lies within 2 r of x.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from pwcf._common.rows import per_row
from pwcf.losses import margin, mask_label
from pwcf.metrics import FeatureDistance, HasDualNorm, Metric, ReferenceDistance, dual_norm
from pwcf.models import CountedClassifier
from pwcf.problems import MinRadius, Problem
from pwcf.verify.through_features import bound_through_features

# Neighbouring models are taken within this share of the move: in the same region, or in the next one.
SAMPLED_WITHIN = 5e-4
# Golden-section steps for one multiplier: its interval shrinks by .618 each, to a ten-thousandth.
GOLDEN = 20
# An entry of an l1 move below this share of the largest counts as zero, at the price of its size.
ZERO = 1e-4


@dataclass(frozen=True)
class AnswerEvidence:
    """Evidence for n answers; NaN, and 0 searches, where there is none."""

    gain: Tensor
    """(n,) by what share of the radius a much longer search is likely to lower it, at most; on the nets it was
    fitted on this was so in nine of ten cases. NaN where nobody can say: fewer than two independent searches"""
    agreement: Tensor
    """(n,) int64: how many independent searches ended at the radius, up to 2 %"""
    searches: Tensor
    """(n,) int64: of how many"""
    stationarity: Tensor
    """(n,) by what share the radius could fall if linear models of the classifier held as far as the image is away"""
    violation: Tensor
    """(n,) how far the returned point is from being misclassified, in logits"""


@dataclass(frozen=True)
class LinearModelEvidence:
    """What linear models at n points say: upper bounds on the possible gain, as shares of the radius in [0, 1]."""

    stationarity: Tensor
    """(n,) if they hold as far as the image is away"""
    excess: Tensor
    """(n,) if they hold everywhere; for distances between features: as far as the image"""


def evidence_passes(models: int) -> int:
    """Return how many passes per sample ``gather_evidence`` takes.

    Args:
        models: linear models per point.

    Returns:
        Forward + backward passes per sample.
    """
    return 2 * models


def gather_evidence(
    model: CountedClassifier,
    problem: Problem,
    images: Tensor,
    labels: Tensor,
    points: Tensor,
    distance: Tensor,
    box: tuple[Tensor, Tensor],
    samples: Tensor,
    models: int = 1,
) -> LinearModelEvidence:
    """Bound how much the radii of verified points could shrink under linear models of the classifier.

    Args:
        model: the classifier; it counts the passes.
        problem: the problem that was solved.
        images: (n, ...) inputs.
        labels: (n,) true classes; target classes if ``problem.targeted``.
        points: (n, ...) verified answers.
        distance: (n,) float64, their distances.
        box: least and largest value of every entry, (n, ...) each.
        samples: (n,) indices under which passes are counted.
        models: linear models per point; each takes a forward and a backward pass.

    Returns:
        The evidence of all n points. For max-loss it is 0: a misclassified point within eps is optimal.
    """
    n = images.shape[0]
    nothing = torch.zeros(n, dtype=torch.float64)
    if n == 0 or not isinstance(problem, MinRadius):
        # A misclassified point within eps is the maximum of a clipped loss: nothing is left to gain.
        return LinearModelEvidence(nothing, nothing)
    if not problem.metric.differentiable:  # linear models tell nothing of a count
        return LinearModelEvidence(nothing + 1, nothing + 1)
    cuts = _cuts(model, problem, images, labels, points, samples, models)
    measure = ReferenceDistance(problem.metric, images, samples, model.metric_passes, model.batch)
    state = _State.of(measure, points, distance, box)
    wide, mix = _least(cuts, state)
    # The ball that holds the optimum is within twice the radius of x, and E(2 r) <= 2 E(r). That is said in the
    # metric's own norm; a distance without one is bounded over the whole box.
    excess = 2 * wide if isinstance(problem.metric, HasDualNorm) else mix.room + state.over_the_box(mix.g)
    if isinstance(problem.metric, FeatureDistance) and problem.metric.p == 2:
        bound = bound_through_features(measure, points, cuts.g[:, 0], cuts.room[:, 0], state.down, state.up)
        if bound is not None:
            excess = wide = torch.fmin(wide, bound.within(1.0))
    radius = distance.to(wide.device)
    known = torch.isfinite(wide) & (radius > 0)
    wide, excess = (torch.where(known, e, torch.inf) for e in (wide, excess))
    # Nothing is nearer than 0.
    wide, excess = (torch.where(radius == 0, torch.zeros_like(e), e) for e in (wide, excess))
    return LinearModelEvidence(wide.clamp(max=1).cpu(), excess.clamp(max=1).cpu())


@dataclass(frozen=True)
class _Cuts:
    room: Tensor
    """(n, j) b"""
    g: Tensor
    """(n, j, entries)"""


def _cuts(
    model: CountedClassifier,
    problem: Problem,
    images: Tensor,
    labels: Tensor,
    points: Tensor,
    samples: Tensor,
    models: int,
) -> _Cuts:
    """Linear models of the condition: at x towards the class it has, and at neighbours along fixed directions."""
    size = SAMPLED_WITHIN * (points - images).flatten(1).abs().amax(1)
    generator = torch.Generator().manual_seed(0)
    rooms, slopes = [], []
    target = torch.full_like(labels, -1)  # until the first model has told which class x has

    def condition(logits: Tensor, rows: slice) -> Tensor:
        own = labels[rows]
        if problem.targeted:
            return margin(logits, own)
        return -margin(logits, own, torch.where(target[rows] < 0, _others(logits, own), target[rows]))

    for j in range(models):
        x = points
        if j:
            noise = 2 * torch.rand(points.shape[1:], generator=generator).to(points) - 1
            x = points + per_row(size, points) * noise
        logits, c, g = model.value_and_gradient(x, samples, condition)
        if j == 0:
            target = _others(logits, labels)
        slope = g.flatten(1).double()
        rooms.append(-(c.double() + (slope * (points - x).flatten(1).double()).sum(1)))
        slopes.append(slope)
    return _Cuts(torch.stack(rooms, 1).clamp(min=0), torch.stack(slopes, 1))


def _others(logits: Tensor, labels: Tensor) -> Tensor:
    """(n,) the class that x has beside its label."""
    return mask_label(logits, labels).argmax(1)


@dataclass(frozen=True)
class _State:
    """The data of the points that the bound uses, flat and in float64."""

    metric: Metric
    move: Tensor
    """(n, entries) x - x0"""
    radius: Tensor
    """(n,)"""
    slope: Tensor
    """(n, entries) a gradient of the distance"""
    fall: Tensor
    """(n, entries) how far the entry can fall within the box"""
    rise: Tensor
    down: Tensor
    """(n, entries) whether it can"""
    up: Tensor

    @classmethod
    def of(cls, measure: ReferenceDistance, points: Tensor, distance: Tensor, box: tuple[Tensor, Tensor]) -> _State:
        metric, images = measure.metric, measure.images
        exact = measure.in_float64() if metric.in_float64 else measure
        everyone = torch.arange(len(images), device=images.device)
        _, slope = exact.value_and_gradient(points.to(exact.images.dtype), everyone)
        lower, upper = box
        return cls(
            metric,
            (points.double() - images.double()).flatten(1),
            distance.to(points.device),
            slope.flatten(1).double(),
            (points - lower).flatten(1).double(),
            (upper - points).flatten(1).double(),
            (points > lower).flatten(1),
            (points < upper).flatten(1),
        )

    def over_the_box(self, u: Tensor) -> Tensor:
        """(n,) the largest value of -(slope + u)'(z - x) in the box, relative to the radius."""
        w = self.slope + u
        return (w * torch.where(w > 0, self.fall, self.rise)).abs().sum(1) / self.radius

    def bound(self, u: Tensor, reach: float) -> Tensor:
        """(n,) eps + delta |(v + u) where z can move|_q, relative to the radius, with a good v for this u."""
        p = self.metric.exponent
        radius = self.radius.unsqueeze(1)
        delta = reach * radius
        v, cost = self.slope, torch.zeros_like(self.radius)
        if p == 1:
            size = self.move.abs()
            small = size <= ZERO * size.amax(1, keepdim=True)
            v = torch.where(small, torch.clamp(-u, -1, 1), self.move.sign())
            cost = (size - v * self.move).sum(1)
        elif p == torch.inf:
            # Weight goes to entries that lie near the ball's surface on the side u pulls them to, 1 in all. Those that
            # a bound keeps from following need none.
            gap = radius - self.move.abs()
            follows = torch.where(u > 0, self.down, self.up)
            v = torch.where((u * self.move < 0) & (gap < delta) & follows, -u, torch.zeros_like(u))
            total = v.abs().sum(1, keepdim=True)
            v = v / total.clamp(min=1)
            rest = (1 - total.clamp(max=1)).squeeze(1)
            cost = (v.abs() * gap).sum(1) + rest * min(reach, 1.0) * self.radius
        w = v + u
        w = torch.where(torch.where(w > 0, self.down, self.up), w, torch.zeros_like(w))
        residual = dual_norm(self.metric, w)
        if not isinstance(self.metric, HasDualNorm):
            # A distance without structure: how far x is from the image is said in the l2 sense.
            delta = reach * self.move.norm(dim=1, keepdim=True)
        bound: Tensor = (cost + delta.squeeze(1) * residual) / self.radius
        return bound


class _Mix(NamedTuple):
    """A sum of models with multipliers: k'b relative to the radius, and sum_j k_j g_j."""

    room: Tensor
    """(n,)"""
    g: Tensor
    """(n, entries)"""

    def towards(self, other: _Mix, share: Tensor) -> _Mix:
        return _Mix(torch.lerp(self.room, other.room, share), torch.lerp(self.g, other.g, share.unsqueeze(1)))

    def bound(self, state: _State, reach: float) -> Tensor:
        return self.room + state.bound(self.g, reach)


def _least(cuts: _Cuts, state: _State) -> tuple[Tensor, _Mix]:
    """(n,) the least bound up to the distance of the image, and the mix of models that gives it.

    First the multiplier of the model at x; then every neighbour takes over the share that helps.
    """
    nothing = _Mix(torch.zeros_like(state.radius), torch.zeros_like(state.move))
    longest = dual_norm(state.metric, state.slope)
    # A multiplier that makes the model's gradient three times as long as the distance's is too large for any bound.
    # Entries that a bound keeps from following do not count: in l1 they are the steepest ones.
    first = cuts.g[:, 0]
    free = torch.where(torch.where(first > 0, state.down, state.up), first, 0.0)
    size = dual_norm(state.metric, torch.where(free.any(1, keepdim=True), free, first)).clamp(min=1e-30)
    k = 3 * longest / size
    mix, best = nothing, nothing.bound(state, 1.0)
    for j in range(cuts.room.shape[1]):
        other = _Mix(k * cuts.room[:, j] / state.radius, k.unsqueeze(1) * cuts.g[:, j])
        share, least = _golden(lambda s, mix=mix, other=other: mix.towards(other, s).bound(state, 1.0), size)  # type: ignore[misc]
        share = torch.where(least < best, share, torch.zeros_like(share))
        best = torch.minimum(least, best)
        mix = mix.towards(other, share)
        if j == 0:
            k = k * share  # its neighbours are as steep
    return best, mix


def _golden(value: Callable[[Tensor], Tensor], like: Tensor) -> tuple[Tensor, Tensor]:
    """Minimise a convex function of one variable in [0, 1] per row; return the minimisers and the values there."""
    low, high = torch.zeros_like(like), torch.ones_like(like)
    ratio = (5**0.5 - 1) / 2
    a, b = high - ratio * (high - low), low + ratio * (high - low)
    at_a, at_b = value(a), value(b)
    for _ in range(GOLDEN):
        left = at_a < at_b
        low, high = torch.where(left, low, a), torch.where(left, b, high)
        new = torch.where(left, high - ratio * (high - low), low + ratio * (high - low))
        at_new = value(new)
        a, b, at_a, at_b = (
            torch.where(left, new, b),
            torch.where(left, a, new),
            torch.where(left, at_new, at_b),
            torch.where(left, at_a, at_new),
        )
    return torch.where(at_a < at_b, a, b), torch.minimum(at_a, at_b)
