"""The direction in which a loss grows most for its length in feature space, all rows at once."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from pwcf.attacks.perceptual.rows import column, unit_of
from pwcf.attacks.perceptual.ruler import Ruler

# Finite differences of features: along a direction times this.
H = 1e-3


class Jacobian:
    """J of the features at b points (b, ...), by its products. Directions are in widths of the bounds."""

    def __init__(self, ruler: Ruler, points: Tensor, rows: Tensor, free: Tensor, width: float) -> None:
        assert ruler.network is not None
        self.ruler, self.features, self.rows, self.free, self.width = ruler, ruler.network.features, rows, free, width
        with torch.enable_grad():
            self.points = points.detach().requires_grad_(True)
            self.phi = self.features(self.points)
        ruler.count(rows, forward=1)

    @torch.no_grad()
    def times(self, v: Tensor) -> Tensor:
        """(b, m) J v, to first order."""
        self.ruler.count(self.rows, forward=1)
        return (self.features(self.points.detach() + H * self.width * v) - self.phi.detach()) / H

    def squared_times(self, v: Tensor) -> Tensor:
        """(b, ...) J^T J v."""
        Jv = self.times(v)
        self.ruler.count(self.rows, backward=1)
        (product,) = torch.autograd.grad(self.phi, self.points, Jv, retain_graph=True)
        return torch.where(self.free, self.width * product, 0.0)


def steepest(J: Jacobian, gradient: Tensor, length: Tensor, steps: int) -> Tensor:
    """(b, ...) the step v, a multiple of (J^T J)^-1 gradient, with |J v| = length (b,); 0 where there is none."""
    # Of length 1: only the finite differences know how large it is, and losses differ in that by many powers of ten.
    v = conjugate_gradients(J.squared_times, unit_of(gradient), steps)
    factor = length / J.ruler.norm(J.times(v))
    factor = torch.where(torch.isfinite(factor), factor, 0.0)
    return column(factor, v) * J.width * v


def conjugate_gradients(product: Callable[[Tensor], Tensor], g: Tensor, steps: int) -> Tensor:
    """(b, ...) v with A v about g after some iterations from 0. A of every row is positive semidefinite.

    A row stops where nothing is left of its residual, or its products say that A is not positive. (The reference stops
    the whole batch once all squared residuals are below 0.1, which depends on the company and seldom happens.)
    """
    v, r, p = torch.zeros_like(g), g, g
    size = _dot(r, r)
    going = size > 0
    for _ in range(steps):
        if not bool(going.any()):
            break
        Ap = product(p)
        alpha = size / _dot(p, Ap)
        going = going & (alpha > 0) & torch.isfinite(alpha)
        alpha = column(torch.where(going, alpha, 0.0), g)
        v = v + alpha * p
        r = r - alpha * torch.nan_to_num(Ap)
        last, size = size, _dot(r, r)
        going = going & (size > 0) & torch.isfinite(size)
        p = r + column(torch.where(going, size / last, 0.0), g) * p
    return v


def _dot(a: Tensor, b: Tensor) -> Tensor:
    """(b,)"""
    return (a * b).flatten(1).sum(1)
