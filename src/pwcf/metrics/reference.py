"""Distances from fixed images: prepared once, with network passes counted; and shrinking of points to eps."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import torch
from torch import Tensor

from pwcf._common.rows import bisect, per_row
from pwcf.metrics.metric import Metric
from pwcf.models import Passes

# Differences such as 1 - similarity may round to a little below 0.
ROUNDING = 1e-5
# Halvings of the way to a point beyond eps: as exact as float32.
TOWARDS = 24


class ReferenceDistance:
    """Distances of points from fixed images. ``rows`` (b,) holds, for b points, the indices of their images.

    Args:
        metric: the distance.
        images: (n, ...) references.
        samples: (n,) indices under which passes are counted.
        passes: counts them, if the metric has a network.
        batch: rows per call.
    """

    def __init__(self, metric: Metric, images: Tensor, samples: Tensor, passes: Passes, batch: int) -> None:
        self.metric, self.images, self.samples, self.passes, self.batch = metric, images, samples, passes, batch

    @cached_property
    def prepared(self) -> Tensor:
        """(n, ...) what the metric needs from the images; computed at the first use."""
        self.count(None, forward=1)
        with torch.no_grad():
            return torch.cat([self.metric.prepare(some) for some in torch.split(self.images, self.batch)])

    def __call__(self, points: Tensor, rows: Tensor) -> Tensor:
        """Measure points (b, ...) in one call, with their graph -> (b,). A backward pass is counted when it happens."""
        distance = self.metric.from_prepared(self.prepared[rows], points)
        if points.requires_grad and torch.is_grad_enabled() and not distance.requires_grad:
            raise ValueError(
                f"metric {self.metric.name}: expected a distance with a gradient in the candidate, found none; does it "
                "count, or use numpy, detach() or no_grad()?"
            )
        self.count(rows, forward=1)
        if self.metric.network and distance.requires_grad:
            distance.register_hook(lambda _: self.count(rows, backward=1))  # type: ignore[no-untyped-call]
        return distance

    def value_and_gradient(self, points: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return distances (b,) and their gradients (b, ...); 0 where there is none or it is NaN."""
        if len(points) == 0:
            return points.flatten(1).sum(1), torch.zeros_like(points)
        parts = []
        for some in range(0, len(points), self.batch):
            here = slice(some, some + self.batch)
            with torch.enable_grad():
                leaf = points[here].detach().requires_grad_(True)
                distance = self(leaf, rows[here])
                (slope,) = torch.autograd.grad(distance.sum(), leaf, materialize_grads=True)
            parts.append((distance.detach(), torch.nan_to_num(slope)))
        values, slopes = zip(*parts, strict=True)
        return torch.cat(values), torch.cat(slopes)

    @torch.no_grad()
    def values(self, points: Tensor, rows: Tensor) -> Tensor:
        """Return distances (b,) without gradients."""
        parts = zip(torch.split(points, self.batch), torch.split(rows, self.batch), strict=True)
        return torch.cat([self(some, where) for some, where in parts])

    @torch.no_grad()
    def distance64(self, points: Tensor, rows: Tensor | None = None) -> Tensor:
        """Return the float64 distances (b,) that verification uses; without ``rows``, one point per image."""
        images = self.images if rows is None else self.images[rows]
        self.count(rows, forward=2)  # nothing that was prepared: this is the independent look
        parts = zip(torch.split(images, self.batch), torch.split(points, self.batch), strict=True)
        distances = torch.cat([self.metric.distance64(*pair) for pair in parts])
        refuse_negative(self.metric, distances)
        return distances

    def in_float64(self) -> ReferenceDistance:
        """Return the same distances in double precision, for metrics that support it."""
        return ReferenceDistance(self.metric, self.images.double(), self.samples, self.passes, self.batch)

    def count(self, rows: Tensor | None, forward: int = 0, backward: int = 0) -> None:
        """Count passes of the metric's network for these rows, or for all; for callers that run it directly."""
        if self.metric.network:
            samples = self.samples if rows is None else self.samples[rows.to(self.samples.device)]
            self.passes.add(samples, forward, backward)


def distance64(metric: Metric, images: Tensor, points: Tensor) -> Tensor:
    """Measure distances in float64, without gradients.

    Args:
        metric: the distance.
        images: (n, ...) references.
        points: (n, ...) candidates.

    Returns:
        (n,) float64 distances, as verification uses them.
    """
    with torch.no_grad():
        return metric.distance64(images, points)


def shrink_to_eps(
    distance: Callable[[Tensor], Tensor], images: Tensor, points: Tensor, eps: Tensor, box: tuple[Tensor, Tensor]
) -> Tensor:
    """Move points beyond eps straight towards their images until they are within eps.

    Args:
        distance: points (n, ...), one per image -> (n,) float64 distances.
        images: (n, ...) inside the box.
        points: (n, ...) inside the box.
        eps: (n,) float64 largest distances.
        box: least and largest value of every entry, (n, ...) each.

    Returns:
        (n, ...) points within eps and the box. Points that were within eps are unchanged.
    """
    outside = distance(points) > eps
    if not bool(outside.any()):
        return points

    def on_the_way(share: Tensor) -> Tensor:
        return images + per_row(share, images).to(images.dtype) * (points - images)

    share, _ = bisect(
        lambda share: ~(distance(on_the_way(share)) > eps), torch.zeros_like(eps), torch.ones_like(eps), TOWARDS
    )
    return torch.where(per_row(outside, images), torch.clamp(on_the_way(share), *box), points)


def refuse_negative(metric: Metric, distances: Tensor) -> None:
    """Raise where a distance is negative: a similarity, perhaps, whose "nearest" point would be the farthest."""
    if bool((distances < -ROUNDING).any()):
        raise ValueError(
            f"metric {metric.name}: expected distances >= 0, found {float(distances.min()):.4g}; is it a similarity? "
            "take 1 - similarity"
        )
