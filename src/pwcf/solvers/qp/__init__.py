"""The dual quadratic programs of the solver, all rows at once, in float64 on the host.

    minimise  1/2 z'Qz + q'z   subject to   z >= 0,  E z <= cap,  and optionally  e'z = mass

Every column of ``z`` belongs to at most one group (a row of the 0/1 matrix E): the multipliers of a bundle of cuts of
one constraint are a group of many. This covers the penalty-SQP dual (paper, "penalty_sqp_dual"), whose columns have a
box each, the augmented dual of the stopping test ("QP_termination") and the bundle bound.

The programs are small, a few to a hundred columns, so that an operation costs as much as its launch: NumPy's are
several times cheaper than those of a device.

Programs over a box are solved by projected Newton steps, the others by an active set method. Rows that these do
not solve, for rounding or for too many steps, go to an interior point method.
"""

from __future__ import annotations

import numpy as np

from pwcf.solvers.host import dot, matvec
from pwcf.solvers.qp.active_set import solve_by_pivots
from pwcf.solvers.qp.box import box_qp_1, box_qp_2, projected_newton
from pwcf.solvers.qp.interior_point import solve_by_interior_point
from pwcf.solvers.qp.program import Array, Indices, QpSolutions, QuadraticPrograms, to_columns

__all__ = ["by_size", "solve_box_qp", "solve_group_qp"]

# Programs of more columns than this are solved with the likely ones first.
PRICED, MANY = 64, 100
# Numbers of columns that rows of these are rounded up to, so that rows of like size share a batch.
SIZES = (24, 48, 96)
# A column is missing if taking it in could change the value of the program by more than this share.
MISSING = 1e-4


def solve_group_qp(
    Q: Array,
    q: Array,
    groups: Array,
    caps: Array,
    simplex: Array | None = None,
    mass: Array | None = None,
    likely: Indices | None = None,
) -> Array:
    """Return z (b, k). Q (b, k, k), q (b, k), groups (b, g, k) of 0/1, caps (b, g) > 0.

    ``simplex`` (b, k) of 0/1 and ``mass`` (b,) > 0 add the equality e'z = mass. ``likely`` (b,) tells how many
    of the leading columns are likely to suffice; where there are more than MANY the answer is then exact to MISSING.
    """
    b, k = q.shape
    if b == 0 or k == 0:
        return np.zeros((b, k))
    program = QuadraticPrograms(Q, q, groups, caps, simplex, mass)
    with np.errstate(all="ignore"):
        if likely is None or k <= MANY:
            return _solve(program).z
        z, rows = np.zeros((b, k)), np.arange(b)
        order, count = np.tile(np.arange(k), (b, 1)), np.clip(likely, 1, k)
        while rows.size:
            missing = np.zeros_like(rows)
            for part, size in by_size(count[rows], SIZES, k):
                some = rows[part]
                z[some], order[some], missing[part] = _restricted(program.take(some), order[some], size)
                count[some] = size
            # Doubling: a row whose likely columns were far from enough gets there in a few rounds.
            count[rows] += np.minimum(missing, np.maximum(count[rows], 4))
            rows = rows[missing > 0]
        return z


def _solve(program: QuadraticPrograms) -> QpSolutions:
    """By the active set method, and what it does not solve by the interior point method."""
    found, solved = solve_by_pivots(program)
    if not solved.all():
        rows = np.flatnonzero(~solved)
        for array, values in zip(found, solve_by_interior_point(program.take(rows)), strict=True):
            array[rows] = values
    return found


def by_size(count: Indices, sizes: tuple[int, ...], most: int) -> list[tuple[Indices, int]]:
    """Rows that need about as many columns: (rows, number of columns) pairs. A matter of each row alone."""
    limits = [size for size in sizes if size < most] + [most]
    which = np.searchsorted(limits, count)
    parts = [(np.flatnonzero(which == i), size) for i, size in enumerate(limits)]
    return [(part, size) for part, size in parts if part.size]


def _restricted(program: QuadraticPrograms, order: Indices, size: int) -> tuple[Array, Indices, Indices]:
    """Solve with the first ``size`` columns in ``order`` (b, k) and price the others.

    Returns z (b, k), an order in which the others follow by what they could gain, and how many are missing.
    """
    b, k = order.shape
    pick = order[:, :size]
    found = _solve(program.restrict(pick))
    z = np.zeros((b, k))
    np.put_along_axis(z, pick, found.z, 1)
    if size == k:
        return z, order, np.zeros(b, np.int64)
    slope = matvec(program.Q, z)
    price = slope + program.q + to_columns(program.E, found.omega)
    weight = to_columns(program.E, program.caps)
    if program.e is not None and program.mass is not None:
        price = price - program.e * found.y[:, None]
        weight = weight + program.e * program.mass[:, None]
    # A column without a cap may carry any weight: what it could gain is not known, but that it could.
    weight = np.where(weight > 0, weight, np.maximum(weight.max(1, keepdims=True), 1))
    value = 0.5 * np.abs(dot(z, slope)) + dot(z, np.abs(program.q))
    gain = -price * weight
    np.put_along_axis(gain, pick, -np.inf, 1)
    others = np.argsort(-gain, axis=1, kind="stable")[:, : k - size]
    return z, np.concatenate([pick, others], 1), (gain > MISSING * value[:, None]).sum(1)


def solve_box_qp(Q: Array, q: Array, lower: Array, upper: Array, z0: Array | None = None) -> Array:
    """Minimise 1/2 z'Qz + q'z over lower <= z <= upper, (b, k), from ``z0`` if it is given.

    Q is positive semidefinite; bounds may be infinite where the minimum is finite. One or two columns are solved
    exactly, more by projected Newton steps.
    """
    b, k = q.shape
    if b == 0 or k == 0:
        return np.zeros((b, k))
    with np.errstate(all="ignore"):
        if k == 1:
            return box_qp_1(Q[..., 0], q, lower, upper)
        if k == 2:
            return box_qp_2(Q, q, lower, upper)
        if k > PRICED:
            return _priced(Q, q, lower, upper)
        return projected_newton(Q, q, lower, upper, z0)


def _priced(Q: Array, q: Array, lower: Array, upper: Array) -> Array:
    """A box QP of many columns, few of which are not 0: solved with the likely ones, then with those that are missing.

    Zero must be within the bounds.
    """
    b, k = q.shape
    z, rows, size = np.zeros((b, k)), np.arange(b), PRICED
    while True:
        # What a column would gain by leaving 0; those that have left it stay.
        slope = q[rows] + matvec(Q[rows], z[rows])
        gain = np.where(slope < 0, -slope * (upper[rows] > 0), slope * (lower[rows] < 0))
        missing = (gain > MISSING * np.abs(q[rows]).max(1, keepdims=True)) & (z[rows] == 0)
        unsolved = missing.any(1)
        rows, gain = rows[unsolved], gain[unsolved]
        if rows.size == 0:
            return z
        size = min(size, k)
        pick = np.argsort(-np.where(z[rows] != 0, np.inf, gain), axis=1, kind="stable")[:, :size]
        part = np.take_along_axis(np.take_along_axis(Q[rows], pick[:, None, :], 2), pick[:, :, None], 1)
        cost, low, high = (np.take_along_axis(array[rows], pick, 1) for array in (q, lower, upper))
        found = np.zeros((rows.size, k))
        np.put_along_axis(found, pick, projected_newton(part, cost, low, high, None), 1)
        z[rows] = found
        if size == k:
            return z
        size *= 2
