"""The bound of ``evidence`` for distances of features, with the best of all their subgradients instead of one.

d(z) = |phi(z) - phi(x0)|_2. With phi linear at x, phi(x + t) = phi(x) + J t, e = phi(x) - phi(x0), and one linear model
g't <= b of the condition, for every u with |u| <= 1 and k >= 0

    d(x + t) >= u'(e + J t) >= u'e - k b + (J'u + k g)'t,

so within |t|_2 <= R the radius r = |e| can shrink by at most  r - u'e + k b + R |(J'u + k g) where t can go|.  A blind
metric has slopes of very different size in different directions; the gradient alone, u = e / r, leaves far too large a
rest. The best u is that of the solution of the linear problem: u along e + J t with t by conjugate gradients on J'J.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from pwcf.metrics import FeatureDistance, ReferenceDistance

# Steps of conjugate gradients, and what is added to J'J in units of its first Rayleigh quotient. With these the rest is
# a tenth to a fortieth of what the gradient alone leaves (PD of AlexNet at 32 x 32). Without damping the rest is many
# times as large; 1000 steps leave none, and say of the same points that .02 to .4 % of the radius could go.
STEPS, DAMPING = 40, 1e-3


class Bound(NamedTuple):
    """Of n answers, relative to their radii."""

    fixed: Tensor
    """(n,) what could go without moving"""
    per_way: Tensor
    """(n,) and for each length |x - x0|_2 of the way that t may go"""

    def within(self, reach: float) -> Tensor:
        return self.fixed + reach * self.per_way


def bound_through_features(
    measure: ReferenceDistance, points: Tensor, g: Tensor, b: Tensor, down: Tensor, up: Tensor
) -> Bound | None:
    """``g`` (n, entries) and ``b`` (n,) the model of the condition; ``down``, ``up`` (n, entries) where x can go.

    None where the network cannot be differentiated twice, as fused attention cannot.
    """
    try:
        return _bound(measure, points, g, b, down, up)
    except torch.OutOfMemoryError:
        raise
    except RuntimeError:
        return None


def _bound(measure: ReferenceDistance, points: Tensor, g: Tensor, b: Tensor, down: Tensor, up: Tensor) -> Bound:
    metric = measure.metric
    assert isinstance(metric, FeatureDistance)
    parts = []
    for start in range(0, len(points), measure.batch):
        some = slice(start, start + measure.batch)
        rows = torch.arange(len(points), device=points.device)[some]
        problem = _Linear(measure, points[some], rows)
        own_g, own_b = (t[some].to(points.dtype) for t in (g, b))
        parts.append(problem.bound(own_g, own_b, down[some], up[some]))
    fixed, per_way = (torch.cat(each).double() for each in zip(*parts, strict=True))
    if metric.squared:  # (1 - s)^2 >= 1 - 2 s
        fixed, per_way = 2 * fixed, 2 * per_way
    return Bound(fixed, per_way)


class _Linear:
    """phi at some points, with products of its Jacobian.

    J'u is a backward pass. It is linear in u, so that its own backward pass gives J t: nothing is computed twice.
    """

    def __init__(self, measure: ReferenceDistance, points: Tensor, rows: Tensor) -> None:
        self.measure, self.rows = measure, rows
        self.way = (points - measure.images[rows]).flatten(1).norm(dim=1)
        with torch.enable_grad():
            self._x = points.detach().flatten(1).requires_grad_(True)
            assert isinstance(measure.metric, FeatureDistance)
            self._phi = measure.metric.features(self._x.view(points.shape))
            self._u = torch.zeros_like(self._phi, requires_grad=True)
            (self._product,) = torch.autograd.grad(self._phi, self._x, self._u, create_graph=True)
        measure.count(rows, forward=1, backward=1)
        self.e = self._phi.detach() - measure.prepared[rows]

    def times(self, t: Tensor) -> Tensor:
        """J t"""
        self.measure.count(self.rows, backward=1)
        (product,) = torch.autograd.grad(self._product, self._u, t, retain_graph=True)
        return product

    def transposed(self, u: Tensor) -> Tensor:
        """J' u"""
        self.measure.count(self.rows, backward=1)
        (product,) = torch.autograd.grad(self._phi, self._x, u, retain_graph=True)
        return product

    def bound(self, g: Tensor, b: Tensor, down: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
        """fixed and per_way (n,)."""
        r = self.e.norm(dim=1)
        tiny = torch.finfo(r.dtype).tiny
        slope = self.transposed(self.e / r.clamp(min=tiny).unsqueeze(1))
        k = _balancing(slope, g)
        # Entries that a bound keeps from following the sum of both slopes stay where they are.
        w = slope + k * g
        free = torch.where(w > 0, down, up)
        ahead = self.e + self.times(self._solve(r.unsqueeze(1) * slope, free * g, free))
        u = ahead / ahead.norm(dim=1, keepdim=True).clamp(min=tiny)
        slope = self.transposed(u)
        k = _balancing(free * slope, free * g)
        w = slope + k * g
        rest = torch.where(torch.where(w > 0, down, up), w, torch.zeros_like(w)).norm(dim=1)
        fixed = (r - _dot(u, self.e)).clamp(min=0) + k.squeeze(1) * b
        r = r.clamp(min=tiny)
        return fixed / r, self.way * rest / r

    def _solve(self, slope: Tensor, g: Tensor, free: Tensor) -> Tensor:
        """min |e + J t|^2 over free entries with g't = 0, by conjugate gradients: it begins near the solution."""
        tiny = torch.finfo(slope.dtype).tiny

        def along(v: Tensor) -> Tensor:
            v = free * v
            return v - (_dot(v, g) / _dot(g, g).clamp(min=tiny)).unsqueeze(1) * g

        t, rest = torch.zeros_like(slope), -along(slope)
        p, square, damping = rest, _dot(rest, rest), torch.zeros_like(slope[:, :1])
        enough = torch.finfo(slope.dtype).eps * square
        for step in range(STEPS):
            if not bool((square > enough).any()):
                break
            q = along(self.transposed(self.times(p)))
            if step == 0:
                damping = DAMPING * (_dot(p, q) / square.clamp(min=tiny)).unsqueeze(1)
            q = q + damping * p
            # What is left of a row that has arrived is rounding: it stays there.
            length = torch.where(square > enough, square / _dot(p, q).clamp(min=tiny), 0.0).unsqueeze(1)
            t, rest = t + length * p, rest - length * q
            before, square = square, _dot(rest, rest)
            p = rest + (square / before.clamp(min=tiny)).unsqueeze(1) * p
        return t


def _balancing(slope: Tensor, g: Tensor) -> Tensor:
    """(n, 1) the k >= 0 that leaves least of slope + k g."""
    tiny = torch.finfo(slope.dtype).tiny
    return (-_dot(slope, g) / _dot(g, g).clamp(min=tiny)).clamp(min=0).unsqueeze(1)


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(1)
