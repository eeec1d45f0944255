"""Where points may be: within eps of their images and inside the box. Images are flattened."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pwcf.attacks.apgd.rows import PerRow
from pwcf.attacks.attack import Task
from pwcf.metrics import Lp
from pwcf.metrics.projection import project_l1, project_l2


@dataclass
class Ball(PerRow):
    """The l_p ball, p = 1, 2 or inf, and the box, of r rows."""

    centre: Tensor
    """(r, n)"""
    radius: Tensor
    """(r,) in the dtype of the centre"""
    eps: Tensor
    """(r,) the same in float64"""
    lower: Tensor
    """(r, n). For linf ball and box are one box, and this is it."""
    upper: Tensor
    p: float
    sequential: bool
    """l2: onto the ball, then onto the box, in place of the nearest point of both"""
    width: float
    """of the bounds: the scale of noise"""

    @classmethod
    def of(cls, task: Task, rows: Tensor, factor: float, sequential: bool) -> Ball:
        """The ball of eps times a factor around some of the task's images (r,)."""
        assert isinstance(task.problem.metric, Lp)
        assert task.eps is not None
        p = task.problem.metric.p
        centre, lower, upper = (t[rows].flatten(1) for t in (task.images, task.lower, task.upper))
        eps = factor * task.eps.to(centre.device)[rows]
        if math.isinf(p):
            least, most = _inside(centre, eps)
            lower, upper = torch.maximum(lower, least), torch.minimum(upper, most)
        least_value, largest_value = task.model.bounds
        return cls(centre, eps.to(centre.dtype), eps, lower, upper, p, sequential, largest_value - least_value)

    def project(self, points: Tensor) -> Tensor:
        """(r, n) the nearest points of ball and box, exactly unless ``sequential``."""
        if math.isinf(self.p):
            return torch.clamp(points, self.lower, self.upper)
        projected = self._onto_l1(points) if self.p == 1 else self._onto_l2(points)
        # Entries are rounded: where that has led out of the ball, all go one unit in the last place back.
        distance = torch.linalg.vector_norm(projected.double() - self.centre.double(), ord=self.p, dim=1)
        out = (distance > self.eps).unsqueeze(1)
        return torch.where(out, torch.nextafter(projected, self.centre), projected)

    def _onto_l1(self, points: Tensor) -> Tensor:
        return project_l1(points, self.centre, self.radius, self.lower, self.upper)

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
        box = self.lower[cut], self.upper[cut]
        return boxed.index_copy(0, cut, project_l2(points[cut], self.centre[cut], self.radius[cut], *box))

    def start(self, seeds: Sequence[int]) -> Tensor:
        """(r, n) random points, each from a seed of its own: uniform in the ball for linf, on the sphere for l2, normal
        noise projected onto the ball for l1."""
        noise = torch.stack([_noise(seed, self.centre.shape[1], math.isinf(self.p)) for seed in seeds]).to(self.centre)
        if self.p == 1:
            return self.project(self.centre + self.width * noise)
        order = self.p
        length = torch.linalg.vector_norm(noise, ord=order, dim=1, keepdim=True)
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
