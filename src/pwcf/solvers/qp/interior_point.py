"""Mehrotra's predictor-corrector, a primal-dual interior point method, from a feasible start.

It needs no tuning, copes with singular Q (duplicate constraints, n < number of cuts) and takes 10 to 20 batched
Cholesky factorisations. A row is put aside as soon as it is solved, so that the number of iterations other rows
need does not change its answer.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pwcf.solvers.host import dot, matvec
from pwcf.solvers.qp.program import (
    Array,
    Indices,
    Mask,
    QpSolutions,
    QuadraticPrograms,
    cholesky,
    cholesky_solve,
    to_columns,
)

# Relative complementarity at which a row is solved. The bound of the stopping test weighs a tiny residual
# against a tiny target, so that it needs nearly all digits; they cost two or three iterations more.
TOLERANCE = 1e-13
MAX_ITERATIONS = 40
# Prices at the start, in units of the largest entry of Q and q. 13 % fewer iterations than prices of 1 / z.
FIRST_PRICE = 0.05
# How far towards the boundary a step goes; the usual interior-point choice.
FRACTION_TO_BOUNDARY = 0.995


class _InteriorPoints(NamedTuple):
    """Where the method stands."""

    Q: Array
    E: Array
    e: Array
    """(b, k), (b, 0) without an equality"""
    residual: Array
    """(b, k) of stationarity at the start. Steps have one length for all, so that it just shrinks."""
    limit: Array
    """(b,) the share of it that may be left"""
    u: Array
    """(b, k + g) z and the slack of the caps"""
    v: Array
    """(b, k + g) their prices"""
    y: Array
    """(b,) the price of the equality"""
    share: Array
    """(b,) what is left of the residual"""
    going: Mask
    """(b,)"""

    def take(self, rows: Indices) -> _InteriorPoints:
        """Some rows."""
        return _InteriorPoints._make(array[rows] for array in self)


def solve_by_interior_point(program: QuadraticPrograms) -> QpSolutions:
    """Solve all rows to TOLERANCE."""
    Q, q, E, caps, e, mass = program
    b, k = q.shape
    z = _even_start(E, caps, e, mass)
    # Unit-free: divide Q and q by their largest entry so that the tolerance means the same everywhere.
    size = np.maximum(np.abs((Q.diagonal(axis1=1, axis2=2) * z).max(-1)), np.abs(q).max(-1))
    size = np.where(size > 0, size, 1.0)
    Q, q = Q / size[:, None, None], q / size[:, None]
    u = np.concatenate([z, caps - dot(E, z[:, None])], 1)
    v = np.full_like(u, FIRST_PRICE)
    residual = matvec(Q, z) + q - v[:, :k] + to_columns(E, v[:, k:])
    limit, one = 10 * TOLERANCE / np.abs(residual).max(1), np.ones(b)
    at = _InteriorPoints(Q, E, q[:, :0] if e is None else e, residual, limit, u, v, 0 * one, one, one > 0)
    rows, u, v, y = np.arange(b), u.copy(), v.copy(), np.zeros(b)
    for _ in range(MAX_ITERATIONS):
        gap = (at.u * at.v).mean(1)
        going = at.going & ((gap > TOLERANCE) | (at.share > at.limit))
        if not going.all():
            u[rows], v[rows], y[rows] = at.u, at.v, at.y
            kept = np.flatnonzero(going)
            at, rows, gap = at.take(kept), rows[kept], gap[kept]
        if rows.size == 0:
            break
        at = _step(at, gap)
    u[rows], v[rows], y[rows] = at.u, at.v, at.y
    return QpSolutions(u[:, :k], y * size, v[:, k:] * size[:, None])


def _step(at: _InteriorPoints, gap: Array) -> _InteriorPoints:
    """One step of Mehrotra's method. Rows whose matrix cannot be factorised end where they are."""
    E, u, v, has_equality = at.E, at.u, at.v, at.e.shape[1] > 0
    k = at.Q.shape[1]
    ratio, opposite = v / u, -at.share[:, None] * at.residual
    M = at.Q + np.matmul(E.swapaxes(1, 2), E * ratio[:, k:, None])
    diagonal = np.einsum("bii->bi", M)  # a view
    diagonal += ratio[:, :k] + 1e-14 * diagonal
    factor, info = cholesky(M)
    along = unit = at.residual
    if has_equality:
        along = cholesky_solve(at.e[..., None], factor)[..., 0]
        unit = at.e / np.maximum(dot(at.e, along), 1e-300)[:, None]

    def step(r: Array) -> tuple[Array, Array, Array]:
        """The step with u dv + v du = r u."""
        side = opposite + r[:, :k] - to_columns(E, r[:, k:])
        dz = cholesky_solve(side[..., None], factor)[..., 0]
        dy = np.zeros_like(at.y)
        if has_equality:
            dy = dot(unit, dz)
            dz = dz - along * dy[:, None]
        du = np.concatenate([dz, -dot(E, dz[:, None])], 1)
        return du, r - ratio * du, dy

    du, dv, _ = step(-v)
    ahead = ((u + _reach(u, du) * du) * (v + _reach(v, dv) * dv)).mean(1)
    sigma = np.clip(ahead / gap, 0, 1) ** 3
    du, dv, dy = step(((sigma * gap)[:, None] - du * dv) / u - v)
    # One common step length: then the residual, which is linear, shrinks by just 1 - length.
    length = FRACTION_TO_BOUNDARY * np.minimum(_reach(u, du), _reach(v, dv))[:, 0]
    going = (info == 0) & (length > 0)  # False for NaN
    length, wide = np.where(going, length, 0.0), going[:, None]
    return at._replace(
        u=np.where(wide, u + length[:, None] * du, u),
        v=np.where(wide, v + length[:, None] * dv, v),
        y=np.where(going, at.y - length * dy, at.y),
        share=at.share * (1 - length),
        going=going,
    )


def _even_start(E: Array, caps: Array, e: Array | None, mass: Array | None) -> Array:
    z = to_columns(E, 0.5 * caps / np.maximum(E.sum(-1), 1))
    if e is not None and mass is not None:
        z = z + e * (mass / np.maximum(e.sum(-1), 1))[:, None]
    return np.where(z > 0, z, 1.0)


def _reach(u: Array, du: Array) -> Array:
    """(b, 1): the largest step in [0, 1] that keeps u nonnegative, from the fastest relative decrease."""
    longest: Array = 1 / np.maximum(-(du / u).min(1, keepdims=True), 1)
    return longest
