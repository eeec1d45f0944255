"""Distances as these attacks want them: proportional to small moves, with what a second look from there needs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pwcf.attacks.base import Task
from pwcf.metrics import FeatureDistance


@dataclass(frozen=True)
class Look:
    """Of b points."""

    distance: Tensor
    """(b,) from their images"""
    slope: Tensor
    """(b, ...) its gradient; 0 where there is none"""
    mark: Tensor
    """(b, ...) what tells them apart from others: their features, or the points themselves"""


class Ruler:
    """The distance of a max-loss task; the root of it where the metric is a square (LPIPS), and then of eps, too.

    ``rows`` (b,) are the places in the task that b points belong to. Passes of the metric's network are counted.
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

    def look(self, points: Tensor, rows: Tensor) -> Look:
        if self.network is None:
            return Look(*self.measure.value_and_gradient(points, rows), points)
        looks = [self._look(self.network, *part) for part in self._parts(points, rows)]
        return Look(*(torch.cat(part) for part in zip(*looks, strict=True)))

    @torch.no_grad()
    def apart(self, mark: Tensor, points: Tensor, rows: Tensor) -> Tensor:
        """(b,) how far the points are from those that ``mark`` (b, ...) is of."""
        marks, parts = torch.split(mark, self.measure.batch), self._parts(points, rows)
        if self.network is None:
            self.count(rows, forward=2 if self.measure.metric.network else 0)
            return torch.cat([self.measure.metric(one, some) for one, (some, _) in zip(marks, parts, strict=True)])
        self.count(rows, forward=1)
        network = self.network
        pairs = zip(marks, parts, strict=True)
        return torch.cat([self.norm(network.features(some) - one) for one, (some, _) in pairs])

    def norm(self, difference: Tensor) -> Tensor:
        """(b,) of differences of features (b, m): not of their square, which has no slope at small moves."""
        assert self.network is not None
        norm: Tensor = torch.linalg.vector_norm(difference, ord=self.network.p, dim=1)
        return norm

    def count(self, rows: Tensor, forward: int = 0, backward: int = 0) -> None:
        """Passes of the metric's network."""
        self.measure.passes.add(self.measure.samples[rows.to(self.measure.samples.device)], forward, backward)

    def _look(self, network: FeatureDistance, points: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
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
