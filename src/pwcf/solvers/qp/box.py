"""Programs over a box: one or two columns in closed form, more by projected Newton steps.

A few projected Newton steps give all digits; the interior point method gets the rows that they do not solve.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pwcf.solvers.host import dot, matvec
from pwcf.solvers.qp.interior_point import solve_by_interior_point
from pwcf.solvers.qp.program import Array, Indices, Mask, QuadraticPrograms, cholesky, cholesky_solve

# Relative error of the optimality conditions at which a row is solved, the ridges that let singular matrices be
# factorised (after rounding in float64 or float32), and the steps after which the interior point method's dozen or so
# are cheaper.
TOLERANCE = 1e-12
RIDGE, FLOAT32_RIDGE = 1e-13, 1e-7
MAX_NEWTON_STEPS = 10


def box_qp_1(curvature: Array, q: Array, lower: Array, upper: Array) -> Array:
    """The minimiser of 1/2 curvature z^2 + q z between the bounds, elementwise; nearest to 0 if all are."""
    flat = curvature <= 0
    free = -q / np.where(flat, 1.0, curvature)
    at_end = np.where(q > 0, lower, np.where(q < 0, upper, np.maximum(lower, 0.0)))
    return _clip(np.where(flat, at_end, free), lower, upper)


def box_qp_2(Q: Array, q: Array, lower: Array, upper: Array) -> Array:
    """Two columns: the free solution if it is in the box, else the best of the exact ones on the four edges."""
    curvature, coupling = Q.diagonal(axis1=1, axis2=2), Q[:, :1, 1]
    product = curvature[:, :1] * curvature[:, 1:]
    determinant = product - coupling * coupling
    regular = determinant > 1e-12 * product
    other = curvature[:, ::-1]
    free = (coupling * q[:, ::-1] - other * q) / np.where(regular, determinant, 1.0)
    inside = (regular & (free >= lower) & (free <= upper)).all(-1, keepdims=True)
    if inside.all():
        return free
    # [:, side, i]: entry i at its lower or upper bound, or near 0 if there is none; the other one at its best.
    low, high = lower[:, None], upper[:, None]
    fixed = np.stack([lower, upper], 1)
    fixed = _clip(np.where(np.isinf(fixed), 0.0, fixed), low, high)
    slope = q[:, None, ::-1] + coupling[:, None] * fixed
    best = box_qp_1(other[:, None], slope, low[..., ::-1], high[..., ::-1])
    cost = fixed * (0.5 * curvature[:, None] * fixed + q[:, None])
    cost = (cost + best * (0.5 * other[:, None] * best + slope)).reshape(-1, 4)
    every, edge = np.arange(len(q)), cost.argmin(1)
    held, moved, first = fixed.reshape(-1, 4)[every, edge], best.reshape(-1, 4)[every, edge], edge % 2 == 0
    z = np.stack([np.where(first, held, moved), np.where(first, moved, held)], 1)
    return np.where(inside, free, z)


class _BoxPrograms(NamedTuple):
    """Programs over a box in units in which Q has a unit diagonal, and where their solution stands."""

    Q: Array
    q: Array
    lower: Array
    upper: Array
    z: Array
    gradient: Array
    free: Mask
    """(b, k) unless at a bound that the gradient pushes against"""
    solved: Mask
    """(b,)"""
    ridge: Array
    """(b,) what is added to the diagonal of Q"""

    def at(self, z: Array) -> _BoxPrograms:
        """The same programs at another point."""
        gradient = matvec(self.Q, z) + self.q
        # In these units |Q_ij| <= 1, so that this is what rounding leaves of a gradient of zero, times a thousand.
        tolerance = TOLERANCE * (np.abs(z).sum(-1, keepdims=True) + np.abs(self.q))
        free = np.where(gradient > 0, z > self.lower, z < self.upper)
        solved = ~(free & (np.abs(gradient) > tolerance)).any(-1)
        return self._replace(z=z, gradient=gradient, free=free, solved=solved)

    def take(self, rows: Indices) -> _BoxPrograms:
        """Some rows."""
        return _BoxPrograms._make(array[rows] for array in self)


def projected_newton(Q: Array, q: Array, lower: Array, upper: Array, z0: Array | None) -> Array:
    """Solve all rows by Newton steps on the free entries, projected onto the box (Bertsekas 1982).

    An entry is free unless it is at a bound and its gradient pushes out. The whole projected step is taken if it
    lowers the value, as a primal-dual active set method does, and else the best of its breakpoints. So the value
    falls with every step; two to five suffice except for many columns of low rank. Rows that need more than
    MAX_NEWTON_STEPS go to the interior point method.
    """
    # A column of zeros has nothing but its bounds: in huge units one step takes it there.
    unit = 1 / np.sqrt(Q.diagonal(axis1=1, axis2=2) + 1e-60)
    low, high = lower / unit, upper / unit
    z = _clip(np.zeros_like(q) if z0 is None else z0 / unit, low, high)
    scaled, ridge = Q * (unit[:, :, None] * unit[:, None, :]), np.full(len(q), RIDGE)
    program = _BoxPrograms(scaled, q * unit, low, high, z, z, z > 0, ridge > 0, ridge).at(z)
    rows, answer = np.arange(len(q)), np.empty_like(q)
    for step in range(MAX_NEWTON_STEPS + 1):
        left = np.flatnonzero(~program.solved)
        if left.size < rows.size:
            answer[rows], rows = program.z, rows[left]
            if left.size == 0:
                break
            program = program.take(left)
        if step == MAX_NEWTON_STEPS:
            answer[rows] = program.z
            break
        program = _newton_step(program)
    answer = _clip(answer * unit, lower, upper)
    if rows.size:
        answer[rows] = _interior_point(Q[rows], q[rows], lower[rows], upper[rows], answer[rows])
    return answer


def _newton_step(program: _BoxPrograms) -> _BoxPrograms:
    Q, _, lower, upper, z, gradient, free, _, ridge = program
    M = np.where(free[:, :, None] & free[:, None, :], Q, 0.0)
    diagonal = np.einsum("bii->bi", M)  # a view
    diagonal += np.where(free, ridge[:, None], 1.0)
    factor, info = cholesky(M)
    d = cholesky_solve(np.where(free, -gradient, 0.0)[..., None], factor)[..., 0]
    regular = info == 0
    # Rounding of Q in float32 may have made it indefinite. A ridge around z slows the steps down and leaves their end
    # as it is.
    ridge = np.where(regular, ridge, np.maximum(10 * ridge, FLOAT32_RIDGE))
    d = np.where(regular[:, None], d, 0.0)
    ahead = program.at(_clip(z + d, lower, upper))._replace(ridge=ridge)
    # A quadratic changes by the mean of its slopes at both ends.
    fine = (dot(ahead.z - z, ahead.gradient + gradient) < 0) | ahead.solved
    if fine.all():
        return ahead
    return program.at(np.where(fine[:, None], ahead.z, _best_breakpoint(program, d)))._replace(ridge=ridge)


def _best_breakpoint(program: _BoxPrograms, d: Array) -> Array:
    """The best point at which the projection of z + t d meets a bound or, before it meets one, has its minimum."""
    Q, _, lower, upper, z, gradient, *_ = program
    room = np.where(d > 0, upper, lower) - z
    d = np.where(room == 0, 0.0, d)  # free entries that the others push out
    exact = -dot(gradient, d) / np.maximum(dot(d, matvec(Q, d)), 1e-300)
    t = np.concatenate([room / d, exact[:, None]], 1)
    t = np.minimum(np.where(t > 0, t, 0.0), 1e20)  # 0 for NaN
    points = _clip(z[:, None] + t[..., None] * d[:, None], lower[:, None], upper[:, None])
    steps = points - z[:, None]
    change = dot(steps, 0.5 * np.matmul(steps, Q) + gradient[:, None])
    every, best = np.arange(len(z)), change.argmin(1)
    return np.where((change[every, best] < 0)[:, None], points[every, best], z)


def _interior_point(Q: Array, q: Array, lower: Array, upper: Array, z: Array) -> Array:
    """The interior point method's answer where it is better than ``z``."""
    result = z.copy()
    split = (np.isinf(lower) & np.isinf(upper)).any(1)
    # Entries without any bound are the difference of two columns, apart, so that the number of columns of a row
    # is a matter of that row alone.
    for part, both in ((np.flatnonzero(~split), False), (np.flatnonzero(split), True)):
        if part.size:
            result[part] = _by_distances(Q[part], q[part], lower[part], upper[part], both)

    def value(z: Array) -> Array:
        return dot(z, 0.5 * matvec(Q, z) + q)

    return np.where((value(result) < value(z))[:, None], result, z)


def _by_distances(Q: Array, q: Array, lower: Array, upper: Array, split: bool) -> Array:
    """Solve for the distances of z from a bound: columns w >= 0 with z = base + sign w."""
    flipped, endless = np.isinf(lower) & np.isfinite(upper), np.isinf(lower) & np.isinf(upper)
    base = np.where(flipped, upper, np.where(np.isinf(lower), 0.0, lower))
    sign = np.where(flipped, -1.0, 1.0)
    room = upper - lower
    q = q + matvec(Q, base)
    use = room > 0
    if split:
        Q, q, sign = np.tile(Q, (1, 2, 2)), np.tile(q, (1, 2)), np.concatenate([sign, -sign], 1)
        room, use = np.tile(room, (1, 2)), np.concatenate([use, endless], 1)
    # Columns that are not used, because their bounds coincide or none is missing, cost something and gain nothing.
    weight = sign * use
    q = np.where(use, q * sign, np.maximum(np.abs(q).max(1, keepdims=True), 1e-300))
    capped = use & np.isfinite(room)
    caps, groups = np.where(capped, room, 1.0), np.eye(q.shape[1]) * capped[:, None]
    w = (
        solve_by_interior_point(QuadraticPrograms(Q * (weight[:, :, None] * weight[:, None, :]), q, groups, caps)).z
        * weight
    )
    k = base.shape[1]
    return _clip(base + w[:, :k] + (w[:, k:] if split else 0.0), lower, upper)


def _clip(z: Array, lower: Array, upper: Array) -> Array:
    clipped: Array = np.minimum(np.maximum(z, lower), upper)
    return clipped
