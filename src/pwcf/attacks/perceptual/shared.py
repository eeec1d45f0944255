"""What LPA, Fast-LPA and PPGD share: starts, the loss, the distance in feature space, and a way into its ball."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pwcf._common.rng import seeds_of
from pwcf._common.rows import bisect, per_row
from pwcf.attacks.base import Task
from pwcf.losses import as_loss, clip_level, clipped, dlr_classes, margin, mask_label
from pwcf.metrics import FeatureDistance
from pwcf.problems import MaxLoss, is_defined, is_surely_wrong

# Passes of a step: value and gradient of the loss.
STEP = 2
# Standard deviation of the first perturbation, in widths of the bounds.
NOISE = 0.01
# Where LPA and PPGD clip the margin, in logits: kappa of the reference.
KAPPA = 1.0
# The published numbers: steps aim this much inside the ball (absolute) and are longer by this share; after so many of
# them the way to the image is halved as often. With eps far below the published 0.5 the steps mostly fail.
OVERSHOOT, STEPS, HALVINGS = 0.1, 10, 10
# What is absolute is meant for distances between features. In other units it is this share of eps: 0.1 of 0.5.
OVERSHOOT_SHARE = 0.2


def width_of(task: Task) -> float:
    """Of the bounds: the published numbers are for images in [0, 1]."""
    lower, upper = task.model.bounds
    return upper - lower


def starts_of(task: Task) -> Tensor:
    """(n, ...) the images with a little noise of their own, inside the box."""
    shape = task.images.shape[1:]
    seeds = seeds_of(task.images, task.seed)
    drawn = torch.stack([torch.randn(shape, generator=torch.Generator().manual_seed(seed)) for seed in seeds])
    return torch.clamp(task.images + NOISE * width_of(task) * drawn.to(task.images), task.lower, task.upper)


def unit_of(rows: Tensor) -> Tensor:
    """(b, ...) of length 1 each; 0 where they are. In two steps: squares of small gradients vanish in float32."""
    for order in (torch.inf, 2.0):
        size = per_row(torch.linalg.vector_norm(rows.flatten(1), ord=order, dim=1), rows)
        rows = rows / torch.where(size > 0, size, torch.ones_like(size))
    return rows


@dataclass(frozen=True)
class LossEval:
    """The loss of b points, differentiated."""

    gradient: Tensor
    """(b, ...) of the loss; 0 in entries that must not change and where the model says nothing"""
    wrong: Tensor
    """(b,) whether they are misclassified by more than rounding"""
    defined: Tensor
    """(b,) whether the model decides on a class there"""


@dataclass(frozen=True)
class ClassifierLoss:
    """The loss of a max-loss task, larger where the model is more wrong."""

    task: Task
    loss: str | None
    """None: the problem's"""
    kappa: float
    """where the margin is clipped; inf: nothing is"""

    def evaluate(self, points: Tensor, rows: Tensor) -> LossEval:
        """At the points (b, ...) of some samples (b,): one pass each way."""
        task, labels = self.task, self.task.labels[rows]
        logits, _, gradient = task.model.value_and_gradient(
            points,
            task.samples[rows.to(task.samples.device)],
            lambda logits, some: self._value(logits, labels[some]),
        )
        defined = is_defined(logits)
        free = (task.lower < task.upper)[rows] & per_row(defined, points) & torch.isfinite(gradient)
        wrong = is_surely_wrong(logits, labels, task.problem.targeted)
        return LossEval(torch.where(free, gradient, 0.0), wrong, defined)

    def _value(self, logits: Tensor, labels: Tensor) -> Tensor:
        problem, targets = self.task.problem, None
        assert isinstance(problem, MaxLoss)
        name = self.loss or problem.loss
        if problem.targeted:
            # The labels are what is wanted. It is held against the class that is in its way.
            labels, targets = mask_label(logits, labels).argmax(1), labels
        if name == "dlr" and logits.shape[1] < dlr_classes(targets is not None):
            name = "margin"
        if name == "margin":
            return clipped(margin(logits, labels, targets), self.kappa)
        loss = as_loss(name)(logits, labels, targets)
        if name == "ce" and targets is None and self.kappa < torch.inf:
            # As the paper clips it. Without, it outweighs the distance: LPA breaks half as many.
            return clipped(loss, clip_level(name, logits.shape[1]))
        return loss


@dataclass(frozen=True)
class DistanceEval:
    """The distance of b points from their images, differentiated."""

    distance: Tensor
    """(b,)"""
    slope: Tensor
    """(b, ...) its gradient; 0 where there is none"""
    embedding: Tensor
    """(b, ...) what distances to other points are measured from: the features, or the points themselves"""


class FeatureMetric:
    """The distance of a max-loss task, proportional to small moves, with eps in the same units.

    Where the metric is a square (LPIPS) both are its root. ``rows`` (b,) are the places of b points' samples in the
    task. Passes of the metric's network are counted.
    """

    def __init__(self, task: Task) -> None:
        assert task.eps is not None
        self.measure = task.measure()
        metric = self.measure.metric
        self.network = metric if isinstance(metric, FeatureDistance) else None
        self.squared = self.network is not None and self.network.squared
        eps = task.eps.to(task.images)
        self.eps = eps.sqrt() if self.squared else eps

    def values(self, points: Tensor, rows: Tensor) -> Tensor:
        """(b,) distances."""
        if rows.numel() == 0:
            return self.eps[rows]
        values = self.measure.values(points, rows)
        return values.sqrt() if self.squared else values

    def evaluate(self, points: Tensor, rows: Tensor) -> DistanceEval:
        """At the points (b, ...) of some samples (b,)."""
        if self.network is None:
            return DistanceEval(*self.measure.value_and_gradient(points, rows), points)
        parts = [self._evaluate(self.network, *part) for part in self._parts(points, rows)]
        return DistanceEval(*(torch.cat(part) for part in zip(*parts, strict=True)))

    @torch.no_grad()
    def distance_between(self, embedding: Tensor, points: Tensor, rows: Tensor) -> Tensor:
        """(b,) how far the points are from those with this embedding (b, ...)."""
        embeddings, parts = torch.split(embedding, self.measure.batch), self._parts(points, rows)
        if self.network is None:
            self.count(rows, forward=2 if self.measure.metric.network else 0)
            return torch.cat([self.measure.metric(one, some) for one, (some, _) in zip(embeddings, parts, strict=True)])
        self.count(rows, forward=1)
        network = self.network
        pairs = zip(embeddings, parts, strict=True)
        return torch.cat([self.norm(network.features(some) - one) for one, (some, _) in pairs])

    def norm(self, difference: Tensor) -> Tensor:
        """(b,) of differences of features (b, m): not of their square, which has no slope at small moves."""
        assert self.network is not None
        norm: Tensor = torch.linalg.vector_norm(difference, ord=self.network.p, dim=1)
        return norm

    def count(self, rows: Tensor, forward: int = 0, backward: int = 0) -> None:
        """Passes of the metric's network."""
        self.measure.passes.add(self.measure.samples[rows.to(self.measure.samples.device)], forward, backward)

    def _evaluate(self, network: FeatureDistance, points: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        self.count(rows, forward=1, backward=1)
        with torch.enable_grad():
            leaf = points.detach().requires_grad_(True)
            phi = network.features(leaf)
            distance = self.norm(phi - self.measure.prepared[rows])
            (slope,) = torch.autograd.grad(distance.sum(), leaf)
        return distance.detach(), torch.nan_to_num(slope, posinf=0.0, neginf=0.0), phi.detach()

    def _parts(self, points: Tensor, rows: Tensor) -> list[tuple[Tensor, Tensor]]:
        batch = self.measure.batch
        return list(zip(torch.split(points, batch), torch.split(rows, batch), strict=True))


def into_ball(task: Task, metric: FeatureMetric, points: Tensor, rows: Tensor) -> Tensor:
    """Move the points (b, ...) of some samples (b,) within eps by Newton's steps, else by halvings of the way.

    Points within eps stay. Steps go down the distance's slope to where its linear model is within eps. A sample that is
    still outside in the end goes back to where it began and from there straight towards its image. The reference
    implementation differs: it then moves the whole batch, from where the steps have led, since its copy of the start is
    no copy; and its gradients add up.
    """
    found = points.clone()
    eps = metric.eps[rows]
    inside = torch.full_like(eps, OVERSHOOT) if metric.network is not None else OVERSHOOT_SHARE * eps
    outside = torch.arange(len(points), device=points.device)
    for _ in range(STEPS):
        distance_eval = metric.evaluate(found[outside], rows[outside])
        still = ~(distance_eval.distance <= eps[outside])
        outside, slope = outside[still], distance_eval.slope[still]
        if outside.numel() == 0:
            return found
        here = rows[outside]
        slope = torch.where((task.lower < task.upper)[here], slope, 0.0)
        size = slope.flatten(1).square().sum(1)
        length = (distance_eval.distance[still] - eps[outside] + inside[outside]) * (1 + OVERSHOOT) / size
        length = torch.where(torch.isfinite(length), length, 0.0)
        moved = found[outside] - per_row(length, slope) * slope
        found[outside] = torch.clamp(moved, task.lower[here], task.upper[here])
    return found.index_copy(0, outside, towards_images(task, metric, points[outside], rows[outside]))


def towards_images(task: Task, metric: FeatureMetric, points: Tensor, rows: Tensor) -> Tensor:
    """The last of the points (b, ...) on the way from the image that some halvings show to be within eps."""
    images, eps = task.images[rows], metric.eps[rows]

    def is_near(share: Tensor) -> Tensor:
        return metric.values(images + per_row(share, images) * (points - images), rows) <= eps

    low, _ = bisect(is_near, torch.zeros_like(eps), torch.ones_like(eps), HALVINGS)
    return torch.clamp(images + per_row(low, images) * (points - images), task.lower[rows], task.upper[rows])
