"""Where the points of the inner problem may be, d(x, x') <= eps and inside the bounds, and steps that stay there."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from pwcf.metrics import Lp, Metric
from pwcf.training.steepest import steepest

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


class Region(Protocol):
    def start(self, noise: Tensor) -> Tensor:
        """(b, ...) a point of the region, from normal noise."""
        ...

    def step(self, x: Tensor, gradient: Tensor, length: float, done: float) -> Tensor:
        """(b, ...) from x along the gradient, by ``length`` times eps, and back into the region.

        ``done``: the share of the steps that are made.
        """
        ...


def region_of(metric: Metric, images: Tensor, eps: Tensor, bounds: tuple[float, float]) -> Region:
    """The region around every image (b, ...); eps (b,)."""
    inner = (eps * (1 - INSIDE)).to(images)
    return NormBall(metric, images, inner, bounds) if isinstance(metric, Lp) else AnyBall(metric, images, inner, bounds)


class NormBall:
    """l_p: steepest steps; back by the exact projection where there is one, else along the ray to the image."""

    def __init__(self, metric: Lp, images: Tensor, eps: Tensor, bounds: tuple[float, float]) -> None:
        self.metric, self.images, self.eps, self.bounds = metric, images, eps, bounds

    def start(self, noise: Tensor) -> Tensor:
        return self.step(self.images, noise, 1.0, 0.0)

    def step(self, x: Tensor, gradient: Tensor, length: float, done: float) -> Tensor:
        # Entries at a bound that the gradient pushes against would waste the few entries that an l1 step moves.
        lower, upper = self.bounds
        stuck = ((gradient > 0) & (x >= upper)) | ((gradient < 0) & (x <= lower))
        move = steepest(self.metric.p, torch.where(stuck, 0.0, gradient).flatten(1), done)
        there = x + (length * self.eps).view(-1, *(1 for _ in x.shape[1:])) * move.view_as(x)
        if self.metric.projects:
            return self.metric.project(there, self.images, self.eps, self.bounds)
        boxed = there.clamp(lower, upper)
        # A norm grows in proportion on the way from the image, which is inside the box: the ray is measured once.
        shrink = (self.eps / self.metric(self.images, boxed).clamp(min=torch.finfo(x.dtype).tiny)).clamp(max=1)
        return self.images + shrink.view(-1, *(1 for _ in x.shape[1:])) * (boxed - self.images)


class AnyBall:
    """Any distance: gradient steps, at the edge of the region along the edge, and back along the ray to the image.

    Where the gradients of loss and distance point the same way, a step along the edge ends: that is what a maximum on
    the edge looks like (KKT). How long a step may be is not known: the first gradient is followed as far as the region
    goes.
    """

    def __init__(self, metric: Metric, images: Tensor, eps: Tensor, bounds: tuple[float, float]) -> None:
        self.metric, self.images, self.eps, self.bounds = metric, images, eps, bounds
        with torch.no_grad():
            self.prepared = metric.prepare(images)
        self.reach: Tensor | None = None

    def start(self, noise: Tensor) -> Tensor:
        lower, upper = self.bounds
        return self._back((self.images + FAINT * (upper - lower) * noise).clamp(lower, upper))

    def step(self, x: Tensor, gradient: Tensor, length: float, done: float) -> Tensor:
        move = steepest(2, self._along_the_edge(x, gradient).flatten(1), done).view_as(x)
        shape = (-1, *(1 for _ in x.shape[1:]))
        lower, upper = self.bounds
        if self.reach is None:
            self.reach = self._reach(move)
            length = 1.0
        return self._back((x + (length * self.reach).view(shape) * move).clamp(lower, upper))

    @torch.no_grad()
    def _reach(self, move: Tensor) -> Tensor:
        """(b,) how far from the image one may go along a direction of length 1, from a ten-thousandth of the box on.

        Found by halving on a logarithmic scale: distances differ by orders of magnitude. Clamped on the way, not at its
        end: the ray to a corner of the box would be another direction.
        """
        lower, upper = self.bounds
        shape = (-1, *(1 for _ in move.shape[1:]))
        high = torch.full_like(self.eps, (upper - lower) * move[0].numel() ** 0.5)
        low = high * NEAREST
        for _ in range(HALVINGS):
            middle = (low * high).sqrt()
            there = (self.images + middle.view(shape) * move).clamp(lower, upper)
            near = self.metric.from_prepared(self.prepared, there) <= self.eps
            low, high = torch.where(near, middle, low), torch.where(near, high, middle)
        return low

    def _along_the_edge(self, x: Tensor, gradient: Tensor) -> Tensor:
        """The gradient without its part out of the region, for rows at the edge."""
        with torch.enable_grad():
            leaf = x.detach().requires_grad_(True)
            distance = self.metric.from_prepared(self.prepared, leaf)
            (normal,) = torch.autograd.grad(distance.sum(), leaf)
        n, g = torch.nan_to_num(normal).flatten(1), gradient.flatten(1)
        outwards = (n * g).sum(1) / n.square().sum(1).clamp(min=torch.finfo(x.dtype).tiny)
        at_edge = distance.detach() >= EDGE * self.eps
        part = torch.where(at_edge, outwards.clamp(min=0), 0.0).unsqueeze(1)
        return (g - part * n).view_as(x)

    @torch.no_grad()
    def _back(self, points: Tensor) -> Tensor:
        """The farthest point seen within eps on the way from each image."""
        shape = (-1, *(1 for _ in points.shape[1:]))
        way = points - self.images
        # "not <=" and not ">": a distance that is NaN is nowhere within.
        outside = ~(self.metric.from_prepared(self.prepared, points) <= self.eps)
        low, high = torch.zeros_like(self.eps), torch.ones_like(self.eps)
        for _ in range(HALVINGS if bool(outside.any()) else 0):
            middle = 0.5 * (low + high)
            near = self.metric.from_prepared(self.prepared, self.images + middle.view(shape) * way) <= self.eps
            low, high = torch.where(near, middle, low), torch.where(near, high, middle)
        return torch.where(outside.view(shape), self.images + low.view(shape) * way, points)
