"""The feasible region of the inner problem, d(x, x') <= eps within the bounds, and ascent steps that stay in it."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from pwcf._common.rows import bisect, per_row
from pwcf.metrics import HasProjection, HasSteepest, Metric, Norm, ReferenceDistance, lp
from pwcf.metrics.reference import ROUNDING
from pwcf.models import Passes

# Steps end this much inside eps, relative: what rounding adds afterwards stays within.
INSIDE = 1e-5
# Halvings of the way back to the image: a few per mille of a step are left unused.
HALVINGS = 8
# Noise that a search begins with where nothing is known of the metric, as a share of the bounds: enough to leave the
# kink that most distances have at the image.
FAINT = 1e-3
# A point at this share of eps is at the edge: the way back to the image, halved a few times, ends a little inside.
EDGE = 0.95
# The shortest first step that is looked for, as a share of the box's diagonal.
NEAREST = 1e-4

# How fast older points stop counting for the curvature of a distance, and how much of the means is blended in. They
# matter little: for zoo:fashion-l2 and SSIM .1 ten steps reach a mean loss of 1.69, with blends of .1 and 1 of 1.62.
FADE, BLEND_SLOPES, BLEND_MOVES = 0.5, 1e-3, 0.1

# l1: the steepest move changes a single entry, and many such steps are needed. These many move at once by the same
# amount, a share of all entries that falls from the first step to the last. On a network after one epoch of l1 training
# (eps 12, 784 entries) seven steps reach a mean loss of .963, fixed shares of .6 to 10 % at most .955, random .950.
SPARSE_FIRST, SPARSE_LAST = 0.2, 0.015


class Region(Protocol):
    """A ball in some metric, inside the bounds, around each of b images."""

    def start(self, noise: Tensor) -> Tensor:
        """Return a point of the region (b, ...), made from normal noise (b, ...)."""
        ...

    def step(self, x: Tensor, gradient: Tensor, length: float, done: float) -> Tensor:
        """Move x along the gradient by ``length`` times eps and return into the region.

        Args:
            x: (b, ...) points of the region.
            gradient: (b, ...) of the loss.
            length: length of the step in units of eps.
            done: share of the steps already taken, 0 to 1.

        Returns:
            (b, ...) points of the region.
        """
        ...


def region_of(metric: Metric, images: Tensor, eps: Tensor, bounds: tuple[float, float]) -> Region:
    """Return the region within eps (b,) of the images (b, ...)."""
    inner = (eps * (1 - INSIDE)).to(images)
    if isinstance(metric, Norm) and isinstance(metric, HasSteepest):
        return NormBall(metric, images, inner, bounds)
    return AnyBall(metric, images, inner, bounds)


class NormBall:
    """The ball of a norm. Steps are steepest ascent; points return by exact projection, or along the ray."""

    def __init__(self, metric: Norm, images: Tensor, eps: Tensor, bounds: tuple[float, float]) -> None:
        self.metric, self.images, self.eps, self.bounds = metric, images, eps, bounds

    def start(self, noise: Tensor) -> Tensor:
        return self.step(self.images, noise, 1.0, 0.0)

    def step(self, x: Tensor, gradient: Tensor, length: float, done: float) -> Tensor:
        # Entries at a bound that the gradient pushes against would waste the few entries that an l1 step moves.
        lower, upper = self.bounds
        stuck = ((gradient > 0) & (x >= upper)) | ((gradient < 0) & (x <= lower))
        move = steepest(self.metric, torch.where(stuck, 0.0, gradient).flatten(1), done)
        there = x + per_row(length * self.eps, x) * move.view_as(x)
        if isinstance(self.metric, HasProjection):
            box = (torch.as_tensor(side, dtype=x.dtype, device=x.device) for side in self.bounds)
            return self.metric.project(there.flatten(1), self.images.flatten(1), self.eps, *box).view_as(x)
        boxed = there.clamp(lower, upper)
        # A norm grows in proportion on the way from the image, which is inside the box: the ray is measured once.
        shrink = (self.eps / self.metric(self.images, boxed).clamp(min=torch.finfo(x.dtype).tiny)).clamp(max=1)
        # Clamped once more: images + (boxed - images) may round to beyond the box.
        return (self.images + per_row(shrink, x) * (boxed - self.images)).clamp(lower, upper)


class AnyBall:
    """The ball of any distance. Steps follow the scaled gradient, or the edge once there; points return along the ray.

    A distance may weigh entries very differently. SSIM is steep where an image is flat, and steps of equal length
    everywhere would use up eps there. A step is therefore the gradient divided, entry by entry, by the distance's
    curvature; this is the steepest step if the distance is a weighted l2 norm. At the edge the part of the gradient
    along the distance's gradient is removed; nothing remains at a maximum on the edge (KKT). The length of the first
    step is found by a search: it goes as far as the region does.
    """

    def __init__(self, metric: Metric, images: Tensor, eps: Tensor, bounds: tuple[float, float]) -> None:
        self.metric, self.images, self.eps, self.bounds = metric, images, eps, bounds
        rows = torch.arange(len(images), device=images.device)
        self.measure = ReferenceDistance(metric, images, rows, Passes.none(len(images)), max(len(images), 1))
        self.rows, self.prepared = rows, self.measure.prepared
        self.reach: Tensor | None = None
        self.slopes = self.moves = torch.zeros_like(images)
        self._check()

    def start(self, noise: Tensor) -> Tensor:
        lower, upper = self.bounds
        return self._back((self.images + FAINT * (upper - lower) * noise).clamp(lower, upper))

    def step(self, x: Tensor, gradient: Tensor, length: float, done: float) -> Tensor:
        lower, upper = self.bounds
        distance, normal = self.measure.value_and_gradient(x, self.rows)
        at_edge = distance >= EDGE * self.eps
        n, g, weight = _unit(normal), gradient.flatten(1), self._curvature(x, normal).flatten(1)
        outwards = (n * g / weight).sum(1) / (n.square() / weight).sum(1).clamp(min=torch.finfo(x.dtype).tiny)
        part = torch.where(at_edge, outwards.clamp(min=0), 0.0).unsqueeze(1)
        move = _unit((g - part * n) / weight).view_as(x)
        if self.reach is None:
            self.reach = self._reach(move)
            length = 1.0
        return self._back((x + per_row(length * self.reach, x) * move).clamp(lower, upper))

    def _curvature(self, x: Tensor, normal: Tensor) -> Tensor:
        """(b, ...) > 0, known up to a factor per row: by how much the slope grows with the way, of the last points.

        A slope of 0 says little of entries that have hardly moved: means over the row are blended in.
        """
        self.slopes = FADE * self.slopes + _unit(normal).square().view_as(x)
        self.moves = FADE * self.moves + _unit(x - self.images).square().view_as(x)
        tiny = torch.finfo(x.dtype).tiny
        slopes, moves = (
            each.flatten(1) + (share * each.flatten(1).mean(1, keepdim=True)).clamp(min=tiny)
            for each, share in ((self.slopes, BLEND_SLOPES), (self.moves, BLEND_MOVES))
        )
        return (slopes / moves).sqrt().view_as(x)

    def _check(self) -> None:
        """Raise unless d(x, x) is within eps: otherwise no point of the ray is feasible."""
        own = self.measure.distance64(self.images)
        if bool((own > self.eps + ROUNDING).any()):
            raise ValueError(
                f"metric {self.metric.name}: expected d(x, x) = 0, found {float(own.max()):.4g}, beyond eps; is it a "
                "similarity? take 1 - similarity"
            )

    @torch.no_grad()
    def _reach(self, move: Tensor) -> Tensor:
        """Return how far (b,) a point may go from its image along directions of length 1 (b, ...).

        Bisection on a logarithmic scale, since distances differ by orders of magnitude; the least result is a
        ten-thousandth of the box's diagonal. Every trial is clamped: a ray to a clamped end has another direction.
        """
        lower, upper = self.bounds
        high = torch.full_like(self.eps, (upper - lower) * move[0].numel() ** 0.5)
        low = high * NEAREST
        for _ in range(HALVINGS):
            middle = (low * high).sqrt()
            there = (self.images + per_row(middle, move) * move).clamp(lower, upper)
            near = self.metric.from_prepared(self.prepared, there) <= self.eps
            low, high = torch.where(near, middle, low), torch.where(near, high, middle)
        return low

    @torch.no_grad()
    def _back(self, points: Tensor) -> Tensor:
        """Return, for points beyond eps, the farthest point within eps found on the ray from the image."""
        way = points - self.images
        # "not <=" and not ">": a distance that is NaN is nowhere within.
        outside = ~(self.metric.from_prepared(self.prepared, points) <= self.eps)

        def is_near(share: Tensor) -> Tensor:
            return self.metric.from_prepared(self.prepared, self.images + per_row(share, way) * way) <= self.eps

        halvings = HALVINGS if bool(outside.any()) else 0
        low, _ = bisect(is_near, torch.zeros_like(self.eps), torch.ones_like(self.eps), halvings)
        return torch.where(per_row(outside, points), self.images + per_row(low, way) * way, points)


def _unit(direction: Tensor) -> Tensor:
    """Return directions (b, n) of l2 length 1; 0 stays 0."""
    return lp(2).steepest(direction.flatten(1))


def steepest(metric: Metric, gradient: Tensor, done: float) -> Tensor:
    """Return ascent directions (b, n) of length 1 in the metric. For l1 ``done`` (0 to 1) sets how sparse they are."""
    if metric.exponent == 1:
        return _sparse(gradient, SPARSE_FIRST * (SPARSE_LAST / SPARSE_FIRST) ** done)
    assert isinstance(metric, HasSteepest)
    return metric.steepest(gradient)


def _sparse(gradient: Tensor, share: float) -> Tensor:
    size = gradient.abs()
    count = max(1, round(share * size.shape[1]))
    least = size.topk(count, dim=1).values[:, -1:]
    move = torch.where(size >= least, gradient.sign(), 0.0)
    return move / move.abs().sum(1, keepdim=True).clamp(min=1)
