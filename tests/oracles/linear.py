"""The exact radius of a linear classifier f(x) = Wx + b in a box, for every l_p, p >= 1.

For a class t the problem is  min |d|_p  s.t.  g'd >= gap,  lower <= x + d <= upper,  with g = W_t - W_y and
gap = f_y(x) - f_t(x). An optimal d moves each entry in the direction of g_i or not at all, so with a = |g| and the
room r >= 0 left in that direction it is  min |d|_p  s.t.  a'd >= gap,  0 <= d <= r.

- l1: fill entries in the order of a, the last one partly (a fractional knapsack).
- 1 < p < inf: stationarity gives d_i = min(s a_i^(1/(p-1)), r_i) for one s >= 0; linf is the limit, d_i = min(s, r_i).
  a'd(s) is piecewise linear and increasing, so s is found exactly among its breakpoints, without iterating.

Everything in float64. ``by_linprog`` and ``by_slsqp`` solve the same problems as SciPy sees them: slow, for tests.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog, minimize

Array = NDArray[np.float64]


def dual(p: float) -> float:
    """q with 1/p + 1/q = 1."""
    return 1.0 if math.isinf(p) else math.inf if p == 1 else p / (p - 1)


def unboxed_radii(x: Array, label: int, W: Array, b: Array, p: float) -> Array:
    """(classes,) distance of x (n,) to every class's half-space by the dual norm, no box; inf for the label itself."""
    logits = W @ x + b
    size = np.linalg.norm(W - W[label], ord=dual(p), axis=1)
    size[label] = 1.0
    radii = (logits[label] - logits) / size
    radii[label] = math.inf
    return np.asarray(np.maximum(radii, 0.0))


def boxed_radii(x: Array, label: int, W: Array, b: Array, p: float, box: tuple[float, float] = (0.0, 1.0)) -> Array:
    """(classes,) the same within the box; inf where no point of the box has that class (a tie counts)."""
    logits = W @ x + b
    others = np.arange(len(b)) != label
    G, gap = W[others] - W[label], np.maximum(logits[label] - logits[others], 0.0)
    radii = np.full(len(b), math.inf)
    radii[others] = np.linalg.norm(least_moves(np.abs(G), room(x, G, box), gap, p), ord=p, axis=1)
    return radii


def exact_radii(
    images: Array, labels: NDArray[np.int64], W: Array, b: Array, p: float, slack: Array | float = 0.0
) -> Array:
    """(rows,) the least radius over all other classes, in the box [0, 1].

    ``slack`` (rows,) is taken off the label's logit: the radius of a model that errs by so much in the attack's favour.
    """
    radii = []
    for x, label, less in zip(images, labels, np.broadcast_to(slack, len(labels)), strict=True):
        offset = b.copy()
        offset[label] -= less
        radii.append(boxed_radii(x, int(label), W, offset, p).min())
    return np.array(radii)


def room(x: Array, G: Array, box: tuple[float, float]) -> Array:
    """(k, n) how far each entry may move in the direction of G (k, n)."""
    return np.where(G > 0, box[1] - x, x - box[0])


def least_moves(a: Array, r: Array, gap: Array, p: float) -> Array:
    """(k, n) the sizes d of the optimal moves for a, r (k, n) >= 0 and gap (k,); inf where there is none."""
    k = np.arange(a.shape[0])
    if p == 1:
        order = np.argsort(-a, axis=1)
        a_, r_ = np.take_along_axis(a, order, 1), np.take_along_axis(r, order, 1)
        gain = a_ * r_
        before = np.cumsum(gain, axis=1) - gain
        needed = np.maximum(gap[:, None] - before, 0.0)
        filled = np.where(needed >= gain, r_, np.divide(needed, a_, out=np.zeros_like(a_), where=a_ > 0))
        d = np.empty_like(a)
        np.put_along_axis(d, order, filled, 1)
    else:
        c = np.ones_like(a) if math.isinf(p) else (a / a.max(axis=1, keepdims=True)) ** (1 / (p - 1))
        c = np.where(a > 0, c, 0.0)
        breaks = np.divide(r, c, out=np.full_like(r, math.inf), where=c > 0)
        order = np.argsort(breaks, axis=1)
        s, slope, full = (np.take_along_axis(v, order, 1) for v in (breaks, a * c, a * r))
        # Between breakpoints j - 1 and j entries before j are full and the others grow: a'd(s) = done_j + s * left_j.
        done = np.cumsum(full, axis=1) - full
        left = np.cumsum(slope[:, ::-1], axis=1)[:, ::-1]
        reached = done + np.where(np.isfinite(s), s, 0.0) * left >= gap[:, None]
        j = np.where(reached.any(1), reached.argmax(1), 0)
        at = np.maximum(gap - done[k, j], 0.0) / np.where(left[k, j] > 0, left[k, j], 1.0)
        d = np.minimum(at[:, None] * c, r)
    # Rounding of the sums may leave a full box a hair short of its own capacity.
    d[(a * r).sum(1) < gap * (1 - 1e-12)] = math.inf
    return d


# ---- SciPy's view of one class --------------------------------------------------------------------


def by_linprog(x: Array, g: Array, gap: float, p: float, box: tuple[float, float] = (0.0, 1.0)) -> float:
    """l1 or linf as a linear program in (d, t): t bounds |d|, one t per entry for l1 and one in all for linf."""
    n = len(x)
    m = n if p == 1 else 1
    T = np.eye(n) if p == 1 else np.ones((n, 1))
    A = np.block([[np.eye(n), -T], [-np.eye(n), -T], [-g[None, :], np.zeros((1, m))]])
    limits = [*zip(box[0] - x, box[1] - x, strict=True), *([(0, None)] * m)]
    cost = np.concatenate([np.zeros(n), np.ones(m)])
    found = linprog(cost, A_ub=A, b_ub=np.concatenate([np.zeros(2 * n), [-gap]]), bounds=limits, method="highs")
    return float(found.fun) if found.status == 0 else math.inf


def by_slsqp(x: Array, g: Array, gap: float, p: float, box: tuple[float, float] = (0.0, 1.0)) -> float:
    """1 < p < inf by SLSQP, from the point of the cut on the way to the box's best corner."""

    def norm(d: Array) -> float:
        return float(np.linalg.norm(d, ord=p))

    def slope(d: Array) -> Array:
        share = np.abs(d) / norm(d)
        return np.asarray(np.sign(d) * share ** (p - 1))

    limits = np.stack([box[0] - x, box[1] - x], 1)
    corner = np.where(g > 0, limits[:, 1], limits[:, 0])
    if g @ corner < gap:
        return math.inf
    unit = norm(gap / (g @ corner) * corner)  # of the start: SLSQP's tolerance is absolute
    cut = {"type": "ineq", "fun": lambda d: g @ d - gap / unit, "jac": lambda d: g}
    settings = {"maxiter": 2000, "ftol": 1e-14}
    start = gap / (g @ corner) * corner / unit
    found = minimize(norm, start, jac=slope, bounds=limits / unit, constraints=[cut], method="SLSQP", options=settings)
    return unit * norm(found.x)
