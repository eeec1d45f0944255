"""The l_p distances, p >= 1, and what their structure offers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from pwcf.metrics.metric import Metric
from pwcf.metrics.projection import project_l1, project_l2, project_linf

_PROJECTIONS = {1.0: project_l1, 2.0: project_l2, math.inf: project_linf}


@dataclass(frozen=True)
class Lp(Metric):
    """|candidate - reference|_p per row."""

    in_float64 = True
    degree = 1.0
    p: float

    @property
    def name(self) -> str:
        return "linf" if math.isinf(self.p) else f"l{self.p:g}"

    @property
    def dual(self) -> float:
        """q with 1/p + 1/q = 1: a linear function changes by at most |gradient|_q per unit of distance."""
        if self.p == 1:
            return math.inf
        return 1.0 if math.isinf(self.p) else self.p / (self.p - 1)

    @property
    def projects(self) -> bool:
        """Whether ``project`` is there."""
        return self.p in _PROJECTIONS

    def __call__(self, reference: Tensor, candidate: Tensor) -> Tensor:
        move = (candidate - reference).flatten(1)
        if math.isinf(self.p):
            return move.abs().amax(1)  # many times faster than vector_norm
        if self.p in _PROJECTIONS:
            norm: Tensor = torch.linalg.vector_norm(move, ord=self.p, dim=1)
            return norm
        # The largest entry is factored out: |move|^p overflows or vanishes in float32 already at p = 40.
        size = move.abs()
        largest = size.detach().amax(1, keepdim=True)
        scale = torch.where(largest > 0, largest, torch.ones_like(largest))
        total = (size / scale).pow(self.p).sum(1)
        # The root has no finite slope at 0; there the distance is 0 and its gradient is taken to be 0.
        safe = torch.where(total > 0, total, torch.ones_like(total))
        return scale.squeeze(1) * torch.where(total > 0, safe.pow(1 / self.p), total)

    def project(self, point: Tensor, reference: Tensor, radius: Tensor, bounds: tuple[float, float]) -> Tensor:
        """The nearest point in the l2 sense within ``radius`` (b,) of the reference and within ``bounds``, exactly."""
        if not self.projects:
            raise ValueError(f"metric {self.name}: no exact projection; there is one for l1, l2 and linf")
        shape = point.shape
        lower, upper = (torch.as_tensor(side, dtype=point.dtype, device=point.device) for side in bounds)
        found = _PROJECTIONS[self.p](point.flatten(1), reference.flatten(1), radius.to(point.dtype), lower, upper)
        return found.view(shape)


def lp(p: float) -> Lp:
    """The l_p distance for a number p >= 1, ``float("inf")`` included."""
    if isinstance(p, bool) or not isinstance(p, (int, float)) or not p >= 1:
        raise ValueError(f"p: expected a number >= 1 or inf, found {p!r}")
    return Lp(float(p))
