"""Where points may be: within eps of their images and inside the box. Images are flattened."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pwcf.attacks.apgd.rows import PerRow
from pwcf.attacks.base import Task
from pwcf.metrics import HasProjection, HasSteepest, Norm


@dataclass
class Ball(PerRow):
    """The ball of a norm that offers its projection, and the box, of r rows."""

    centre: Tensor
    """(r, n)"""
    radius: Tensor
    """(r,) in the dtype of the centre"""
    eps: Tensor
    """(r,) the same in float64"""
    lower: Tensor
    """(r, n). For linf ball and box are one box, and this is it."""
    upper: Tensor
    metric: Norm
    sequential: bool
    """l2: onto the ball, then onto the box, in place of the nearest point of both"""
    width: float
    """of the bounds: the scale of noise"""

    @classmethod
    def of(cls, task: Task, rows: Tensor, factor: float, sequential: bool) -> Ball:
        """The ball of eps times a factor around some of the task's images (r,)."""
        metric = task.problem.metric
        assert isinstance(metric, Norm)
        assert task.eps is not None
        centre, lower, upper = (t[rows].flatten(1) for t in (task.images, task.lower, task.upper))
        eps = factor * task.eps.to(centre.device)[rows]
        if metric.exponent == math.inf:
            least, most = _inside(centre, eps)
            lower, upper = torch.maximum(lower, least), torch.minimum(upper, most)
        least_value, largest_value = task.model.bounds
        return cls(centre, eps.to(centre.dtype), eps, lower, upper, metric, sequential, largest_value - least_value)

    def project(self, points: Tensor) -> Tensor:
        """(r, n) the nearest points of ball and box, exactly unless ``sequential``."""
        if self.metric.exponent == math.inf:
            return torch.clamp(points, self.lower, self.upper)
        euclidean = self.metric.exponent == 2
        projected = self._onto_l2(points) if euclidean else self._exactly(points, slice(None))
        # Entries are rounded: where that has led out of the ball, all go one unit in the last place back.
        distance = self.metric.norm(projected.double() - self.centre.double())
        out = (distance > self.eps).unsqueeze(1)
        return torch.where(out, torch.nextafter(projected, self.centre), projected)

    def _exactly(self, points: Tensor, rows: Tensor | slice) -> Tensor:
        assert isinstance(self.metric, HasProjection)
        return self.metric.project(points, self.centre[rows], self.radius[rows], self.lower[rows], self.upper[rows])

    def steepest(self, gradient: Tensor) -> Tensor:
        """(r, n) the direction of length 1 in which a linear loss grows most."""
        assert isinstance(self.metric, HasSteepest)
        return self.metric.steepest(gradient)

    def _onto_l2(self, points: Tensor) -> Tensor:
        move = points - self.centre
        length = torch.linalg.vector_norm(move, dim=1)
        scale = torch.where(length > self.radius, self.radius / length, 1.0).unsqueeze(1)
        drawn = self.centre + scale * move
        boxed = torch.clamp(drawn, self.lower, self.upper)
        if self.sequential:
            return boxed
        # Where the box cuts nothing off, or the ball nothing, one after the other is exact. Others need a sort.
        cut = ((boxed != drawn).any(1) & (scale < 1).squeeze(1)).nonzero().squeeze(1)
        if cut.numel() == 0:
            return boxed
        return boxed.index_copy(0, cut, self._exactly(points[cut], cut))

    def start(self, seeds: Sequence[int]) -> Tensor:
        """(r, n) random points, each from a seed of its own: uniform in the ball for linf, on the sphere for l2, normal
        noise projected onto the ball for l1."""
        noise = torch.stack(
            [_noise(seed, self.centre.shape[1], self.metric.exponent == math.inf) for seed in seeds]
        ).to(self.centre)
        if self.metric.exponent == 1:
            return self.project(self.centre + self.width * noise)
        length = self.metric.norm(noise).unsqueeze(1)
        return self.project(self.centre + self.radius.unsqueeze(1) * noise / length.clamp(min=torch.finfo().tiny))


def _noise(seed: int, n: int, uniform: bool) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 2 * torch.rand(n, generator=generator) - 1 if uniform else torch.randn(n, generator=generator)


def _inside(centre: Tensor, eps: Tensor) -> tuple[Tensor, Tensor]:
    """centre -+ eps rounded towards the centre: half a unit in the last place may be more than eps allows."""
    exact = centre.double(), eps.double().unsqueeze(1)
    least, most = exact[0] - exact[1], exact[0] + exact[1]
    down, up = least.to(centre.dtype), most.to(centre.dtype)
    down = torch.where(down.double() < least, torch.nextafter(down, centre), down)
    up = torch.where(up.double() > most, torch.nextafter(up, centre), up)
    return down, up
