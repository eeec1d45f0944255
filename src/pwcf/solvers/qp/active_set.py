"""A primal active set method for the dual programs, by pivots on the tableau of their optimality conditions.

Few columns of a bundle carry weight, so that few pivots lead to the solution: about as many as columns end with weight.
A pivot is a handful of elementwise operations on (b, N, N) tableaus, in which rows know nothing of each other.

The unknowns x are the columns z, the prices of the caps and the price of the equality. H is the matrix of their
optimality conditions, [[Q, E', e], [E, 0, 0], [e', 0, 0]]. An index is *inside* the working set if its condition is an
equation: columns with weight, caps that are reached, the equality. The tableau is H swept by the indices inside: its
part inside is -H_WW^-1, the part outside the Schur complement, the part between them H_WW^-1 H_WN.

A drive mends one index p that is on the wrong side: a column outside with a negative gradient, or a cap inside with a
negative price. The others inside stay stationary meanwhile. It ends where p's condition holds, and p changes sides. If
before that a column inside loses all its weight or a cap is reached, that one changes sides and the drive goes on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pwcf.solvers.host import matvec
from pwcf.solvers.qp.program import Array, Indices, Mask, QpSolutions, QuadraticPrograms

# Residuals count as 0 up to this share of the sums of absolute values that they come from: a few roundings.
ROUNDING = 1e-15
# Up to this share, what is left of them in the end is accepted.
ACCEPTED = 1e-13
# How often a row is computed anew from its working set, where that shows that it is not solved, and goes on.
MAX_RENEWALS = 4
# Curvature below this share of a column's own is rounding: the column depends on those inside.
DEPENDENT = 1e-14
# A pivot this small beside the one across is zero: the last column of a group whose sum is fixed.
NO_PIVOT = 1e-10
# Pivots for each unknown after which a row is left to the interior point method.
MAX_PIVOTS = 3
# Entries of the tableaus that are worked on at once: as many as a cache close to the processor holds.
CACHED = 2**17


@dataclass
class _Tableaus:
    """Where the rows stand. N = k + g + 1 or, without an equality, k + g."""

    T: Array
    """(b, N, N)"""
    side: Array
    """(b, N) -1 inside, 1 outside"""
    v: Array
    """(b, N) the unknowns inside, the residuals of the conditions outside; the others of these are 0"""
    driven: Indices
    """(b,) the index that is driven, -1 if none"""
    driven_by: Array
    """(b,) how far"""
    own: Array
    """(b, N) the diagonal of H"""
    zero: Array
    """(b, N) residuals down to minus this count as 0"""
    renewals: Indices
    """(b,) how often it was computed anew"""
    failed: Mask
    """(b,) rows that have no way on"""
    row: Indices
    """(b,)"""

    def keep(self, kept: Mask) -> None:
        for name, array in vars(self).items():
            setattr(self, name, array[kept])


def solve_by_pivots(program: QuadraticPrograms) -> tuple[QpSolutions, Mask]:
    """Solve all rows, and tell which (b,) are solved."""
    b, N = program.q.shape[0], program.q.shape[1] + program.E.shape[1] + (program.e is not None)
    portion = max(1, CACHED // N**2)
    if b <= portion:
        return _solve_portion(program)
    parts = [_solve_portion(program.take(np.arange(i, min(i + portion, b)))) for i in range(0, b, portion)]
    found = QpSolutions(*(np.concatenate(arrays) for arrays in zip(*(part[0] for part in parts), strict=True)))
    return found, np.concatenate([part[1] for part in parts])


def _solve_portion(program: QuadraticPrograms) -> tuple[QpSolutions, Mask]:
    Q, q, E, caps, e, mass = program
    (b, k), m = q.shape, q.shape[1] + E.shape[1]
    N = m + (e is not None)
    H, h = np.zeros((b, N, N)), np.empty((b, N))
    # Products in float32 are symmetric but for rounding; pivots need it exactly.
    H[:, :k, :k] = 0.5 * (Q + Q.swapaxes(1, 2))
    H[:, k:m, :k], H[:, :k, k:m] = E, E.swapaxes(1, 2)
    h[:, :k], h[:, k:m] = q, -caps
    # Columns belong outside with a gradient above 0, caps inside with a price above 0; the equality stays inside.
    wanted = np.ones(N)
    wanted[k:m] = -1
    at = _start(H, h, e, mass)
    x, solved = np.zeros((b, N)), np.zeros(b, bool)
    for _ in range(int(MAX_PIVOTS * N)):
        _choose(at, wanted)
        done = at.failed | (at.driven < 0)
        if done.any():
            settled = np.flatnonzero(done & ~at.failed)
            if settled.size:
                rows = at.row[settled]
                x[rows], solved[rows] = _renew(at, settled, H[rows], h[rows], wanted)
                done[settled] = at.driven[settled] < 0
            at.keep(~done)
            if at.row.size == 0:
                break
        _drive(at, m, wanted)
    x[:, :m] = np.maximum(x[:, :m], 0.0)
    y = -x[:, -1] if e is not None else np.zeros(b)
    return QpSolutions(x[:, :k], y, x[:, k:m]), solved


def _start(H: Array, h: Array, e: Array | None, mass: Array | None) -> _Tableaus:
    """All weight of the simplex on one column, none elsewhere."""
    b, N = h.shape
    every = np.arange(b)
    own = H.diagonal(axis1=1, axis2=2).copy()
    side, failed = np.ones((b, N)), np.zeros(b, bool)
    if e is None or mass is None:
        v, T = h.copy(), H.copy()
    else:
        k = e.shape[1]
        H[:, -1, :k] = H[:, :k, -1] = e
        h[:, -1] = -mass
        cost = 0.5 * own[:, :k] * mass[:, None] + h[:, :k]
        first = np.where(e > 0, cost, np.inf).argmin(1)
        failed = e[every, first] == 0
        # Swept by the two: [[curvature, 1], [1, 0]] has the inverse [[0, 1], [1, -curvature]].
        column, one, curvature = H[every, first], H[:, -1], own[every, first]
        price = column - curvature[:, None] * one
        T = H - _outer(column, one) - _outer(one, price)
        T[every, first], T[every, :, first] = one, one
        T[:, -1], T[:, :, -1] = price, price
        T[every, first, first], T[:, -1, -1] = 0.0, curvature
        T[every, first, -1] = T[every, -1, first] = -1.0
        side[every, first] = side[:, -1] = -1
        v = h + column * mass[:, None]
        y = -v[every, first]
        v += one * y[:, None]
        v[every, first], v[:, -1] = mass, y
    zero = ROUNDING * (np.abs(h) + np.abs(v))
    none = np.zeros(b, np.int64)
    return _Tableaus(T, side, v, none - 1, np.zeros(b), own, zero, none, failed, every)


def _choose(at: _Tableaus, wanted: Array) -> None:
    """Choose what to drive where nothing is driven: what is most on the wrong side."""
    idle = at.driven < 0
    if idle.any():
        value = np.where(at.side * wanted > 0, at.v + at.zero, 0.0)
        worst = value.argmin(1)
        wrong = value[np.arange(worst.size), worst] < 0
        at.driven = np.where(idle, np.where(wrong, worst, -1), at.driven)
        at.driven_by[idle] = 0.0


def _renew(at: _Tableaus, rows: Indices, H: Array, h: Array, wanted: Array) -> tuple[Array, Mask]:
    """Compute rows that look solved anew, without the rounding errors of the pivots, and drive those that are not.

    Returns their unknowns (r, N) and whether they are solved (r,).
    """
    T, side = at.T[rows], at.side[rows]
    inside = side < 0
    x = np.where(inside, at.v[rows], 0.0)
    for _ in range(2):  # iterative refinement
        x += np.where(inside, matvec(T, np.where(inside, matvec(H, x) + h, 0.0)), 0.0)
    residual = matvec(H, x) + h
    size = matvec(np.abs(H), np.abs(x)) + np.abs(h)
    at.v[rows], at.zero[rows] = np.where(inside, x, residual), ROUNDING * size
    value = np.where(side * wanted > 0, np.where(inside, x, residual) + ROUNDING * size, 0.0)
    worst = value.argmin(1)
    wrong = (value[np.arange(worst.size), worst] < 0) & (at.renewals[rows] < MAX_RENEWALS)
    at.driven[rows] = np.where(wrong, worst, -1)
    at.renewals[rows] += 1
    # Inside residuals must vanish, outside those of columns must not be negative and those of caps not positive.
    excess = np.where(inside, np.abs(residual), -residual * wanted)
    return x, (excess - ACCEPTED * size).max(1) <= 0


def _drive(at: _Tableaus, m: int, wanted: Array) -> None:
    """Drive as far as possible, and let the index that ends this change sides."""
    every, p, v, side = np.arange(at.driven.size), at.driven, at.v, at.side
    way, own = side[every, p], at.own[every, p]
    pace = at.T[every, :, p] * way[:, None]
    curvature = pace[every, p] * way
    # What may be used up: the weight of columns inside, the room of caps outside.
    ratio = np.where((side * wanted < 0) & (pace > 0), np.maximum(-side * v, 0.0) / pace, np.inf)
    stop = ratio[:, :m].argmin(1)
    nearest = ratio[every, stop]
    length = np.where(curvature > DEPENDENT * own, -v[every, p] / curvature, np.inf)
    blocked = nearest < length
    if blocked.any():
        length = np.minimum(nearest, length)
    at.failed = ~(length < np.inf)
    v += length[:, None] * (side * pace)
    at.driven_by += length
    turned = np.where(blocked, stop, p)
    # The last column of a group whose sum is fixed leaves just when p takes its place.
    across = pace[every, turned]
    pivot = np.abs(at.T[every, turned, turned]) * np.maximum(curvature, own)
    pair = np.flatnonzero(blocked & (pivot <= NO_PIVOT * across * across))
    left = v[pair, p[pair]]
    v[every, turned] = np.where(blocked, 0.0, way * at.driven_by)
    at.driven = np.where(blocked, p, -1)
    if pair.size == 0:
        _turn(at.T, side, turned)
        return
    single = np.flatnonzero(~np.isin(every, pair))
    T, some = at.T[single], side[single]
    _turn(T, some, turned[single])
    at.T[single], side[single] = T, some
    T, some, second = at.T[pair], side[pair], p[pair]
    _turn_pair(T, some, turned[pair], second)
    at.T[pair], side[pair] = T, some
    v[pair, second] = (way * at.driven_by)[pair]
    # What was left of p's residual is settled by the prices.
    v[pair] -= some * T[np.arange(pair.size), :, second] * left[:, None]
    at.driven[pair] = -1


def _turn(T: Array, side: Array, p: Indices) -> None:
    """Sweep the tableaus by p (b,), or sweep p out again, in place."""
    every = np.arange(p.size)
    column = T[every, :, p]
    pivot, way = column[every, p], side[every, p]
    ratio = column / pivot[:, None]
    T -= _outer(ratio, column)
    ratio *= way[:, None]
    ratio[every, p] = -1 / pivot
    T[every, p] = T[every, :, p] = ratio
    side[every, p] = -way


def _turn_pair(T: Array, side: Array, i: Indices, p: Indices) -> None:
    """The same by i and p at once: their block is regular though both of its pivots may be 0."""
    every = np.arange(p.size)
    first, second = T[every, :, i], T[every, :, p]
    a, c, d = first[every, i], first[every, p], second[every, p]
    determinant = a * d - c * c
    a, c, d = d / determinant, -c / determinant, a / determinant
    left = a[:, None] * first + c[:, None] * second
    right = c[:, None] * first + d[:, None] * second
    T -= _outer(left, first) + _outer(right, second)
    way, other = side[every, i], side[every, p]
    T[every, i] = T[every, :, i] = left * way[:, None]
    T[every, p] = T[every, :, p] = right * other[:, None]
    T[every, i, i], T[every, p, p] = -a, -d
    T[every, i, p] = T[every, p, i] = -c * way * other
    side[every, i], side[every, p] = -way, -other


def _outer(left: Array, right: Array) -> Array:
    """(b, N, N) products of all entries of the one with all of the other."""
    product: Array = np.einsum("bi,bj->bij", left, right)  # half the time of a broadcast product
    return product
