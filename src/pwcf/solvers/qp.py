"""The dual quadratic programs of the solver, all rows at once, on the device.

    minimise  1/2 z'Qz + q'z   subject to   z >= 0,  E z <= cap,  and optionally  e'z = mass

Every column of ``z`` belongs to at most one group (a row of the 0/1 matrix E): a box is a group of
one, the multipliers of a bundle of cuts of one constraint are a group of many. This one form covers
the penalty-SQP dual (paper, "penalty_sqp_dual"), the augmented dual of the stopping test
("QP_termination") and the bundle bound.

The method is Mehrotra's predictor-corrector, a primal-dual interior point method, from a feasible start in float64.
It needs no tuning, copes with singular Q (duplicate constraints, n < number of cuts) and takes 10 to 20 batched
Cholesky factorisations. A row is put aside as soon as it is solved, so that the number of iterations other rows
need does not change its answer.

Few columns of a bundle carry weight, mostly those that did so last time. So the interior point method gets
the likely ones first and others only where their price says that they are missing.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from pwcf.solvers.linalg import add_product_, cholesky, cholesky_solve, dot, matvec

# Numbers of columns that rows are rounded up to, so that rows of like size share a batch.
SIZES = (24, 48, 96)
# A column is missing if taking it in could change the value of the program by more than this share.
MISSING = 1e-4
# Relative complementarity at which a row is solved. The bound of the stopping test weighs a tiny residual
# against a tiny target, so that it needs nearly all digits; they cost two or three iterations more.
TOLERANCE = 1e-13
MAX_ITERATIONS = 40
# Prices at the start, in units of the largest entry of Q and q. 13 % fewer iterations than prices of 1 / z.
FIRST_PRICE = 0.05
# How far towards the boundary a step goes; the usual interior-point choice.
FRACTION_TO_BOUNDARY = 0.995


class QpSolutions(NamedTuple):
    """The solution z (b, k), the price y (b,) of the equality and the prices omega (b, g) of the caps."""

    z: Tensor
    y: Tensor
    omega: Tensor


class QuadraticPrograms(NamedTuple):
    """One program per row; every column belongs to at most one row of the 0/1 matrices E and e."""

    Q: Tensor
    """(b, k, k)"""
    q: Tensor
    """(b, k)"""
    E: Tensor
    """(b, g, k) 0/1: the groups"""
    caps: Tensor
    """(b, g) > 0"""
    e: Tensor | None = None
    """(b, k) 0/1: the simplex"""
    mass: Tensor | None = None
    """(b,) > 0"""

    def take(self, rows: Tensor) -> QuadraticPrograms:
        """The programs of some rows."""
        e, mass = (None if tensor is None else tensor[rows] for tensor in (self.e, self.mass))
        return QuadraticPrograms(self.Q[rows], self.q[rows], self.E[rows], self.caps[rows], e, mass)

    def restrict(self, columns: Tensor) -> QuadraticPrograms:
        """With just some columns (b, j) of each row."""
        k, wide = self.q.shape[1], columns.unsqueeze(1)
        Q = self.Q.gather(2, wide.expand(-1, k, -1)).gather(1, columns.unsqueeze(-1).expand(-1, -1, columns.shape[1]))
        E = self.E.gather(2, wide.expand(-1, self.E.shape[1], -1))
        e = None if self.e is None else self.e.gather(1, columns)
        return self._replace(Q=Q, q=self.q.gather(1, columns), E=E, e=e)


def solve_group_qp(
    Q: Tensor,
    q: Tensor,
    groups: Tensor,
    caps: Tensor,
    simplex: Tensor | None = None,
    mass: Tensor | None = None,
    likely: Tensor | None = None,
) -> Tensor:
    """Return z (b, k). Q (b, k, k), q (b, k), groups (b, g, k) of 0/1, caps (b, g) > 0.

    ``simplex`` (b, k) of 0/1 and ``mass`` (b,) > 0 add the equality e'z = mass. ``likely`` (b,) tells how many
    of the leading columns are likely to suffice; the answer is then exact to MISSING.
    """
    b, k = q.shape
    if b == 0 or k == 0:
        return q.new_zeros(b, k)
    program = QuadraticPrograms(Q, q, groups, caps, simplex, mass)
    if likely is None or k <= SIZES[0]:
        return _interior_point(program).z
    z = torch.zeros_like(q)
    order = torch.arange(k, device=q.device).expand(b, k).clone()
    count = likely.clamp(min=1, max=k)
    rows = torch.arange(b, device=q.device)
    while rows.numel():
        missing = torch.zeros_like(rows)
        for part, size in by_size(count[rows], SIZES, k):
            some = rows[part]
            z[some], order[some], missing[part] = _restricted(program.take(some), order[some], size)
            count[some] = size
        # Doubling: a row whose likely columns were far from enough gets there in a few rounds.
        count[rows] += torch.minimum(missing, count[rows].clamp(min=4))
        rows = rows[missing > 0]
    return z


def by_size(count: Tensor, sizes: tuple[int, ...], most: int) -> list[tuple[Tensor, int]]:
    """Rows that need about as many columns: (rows, number of columns) pairs. A matter of each row alone."""
    limits = [size for size in sizes if size < most] + [most]
    which = torch.bucketize(count, torch.tensor(limits, device=count.device))
    parts = [((which == i).nonzero().squeeze(-1), size) for i, size in enumerate(limits)]
    return [(part, size) for part, size in parts if part.numel()]


def _restricted(program: QuadraticPrograms, order: Tensor, size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Solve with the first ``size`` columns in ``order`` (b, k) and price the others.

    Returns z (b, k), an order in which the others follow by what they could gain, and how many are missing.
    """
    pick = order[:, :size]
    found = _interior_point(program.restrict(pick))
    z = torch.zeros_like(program.q).scatter(1, pick, found.z)
    if size == z.shape[1]:
        return z, order, torch.zeros_like(order[:, 0])
    slope = matvec(program.Q, z)
    price = slope + program.q + _to_columns(program.E, found.omega)
    weight = _to_columns(program.E, program.caps)
    if program.e is not None and program.mass is not None:
        price = price - program.e * found.y.unsqueeze(-1)
        weight = weight + program.e * program.mass.unsqueeze(-1)
    value = 0.5 * dot(z, slope).abs() + dot(z, program.q.abs())
    gain = (-price * weight).scatter(1, pick, -torch.inf)
    others = gain.argsort(dim=1, descending=True, stable=True)[:, : z.shape[1] - size]
    return z, torch.cat([pick, others], 1), (gain > MISSING * value.unsqueeze(-1)).sum(1)


def solve_box_qp(Q: Tensor, q: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """Minimise 1/2 z'Qz + q'z over lower <= z <= upper, (b, k). One or two columns are solved exactly."""
    k = q.shape[-1]
    if k == 0:
        return torch.zeros_like(q)
    if k == 1:
        return _box_qp_1(Q[..., 0], q, lower, upper)
    if k == 2:
        return _box_qp_2(Q, q, lower, upper)
    identity = torch.eye(k, dtype=q.dtype, device=q.device).expand(q.shape[0], k, k)
    shifted = solve_group_qp(Q, q + matvec(Q, lower), identity, upper - lower)
    return (lower + shifted).clamp(lower, upper)


def _box_qp_1(curvature: Tensor, q: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """The minimiser of 1/2 curvature z^2 + q z between the bounds, elementwise; nearest to 0 if all are."""
    flat = curvature <= 0
    free = -q / torch.where(flat, torch.ones_like(curvature), curvature)
    at_end = torch.where(q > 0, lower, torch.where(q < 0, upper, lower.clamp(min=0)))
    return torch.where(flat, at_end, free).clamp(lower, upper)


def _box_qp_2(Q: Tensor, q: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """Two columns: the best of the free solution and, on each of the four edges, the exact one."""
    a, b, c = Q[:, 0, 0], Q[:, 0, 1], Q[:, 1, 1]
    determinant = a * c - b * b
    regular = determinant > 1e-12 * a * c
    safe = torch.where(regular, determinant, torch.ones_like(determinant))
    free = torch.stack([(b * q[:, 1] - c * q[:, 0]) / safe, (b * q[:, 0] - a * q[:, 1]) / safe], -1)
    inside = regular & (free >= lower).all(-1) & (free <= upper).all(-1)
    candidates = [free]
    for fixed, other in ((0, 1), (1, 0)):
        for side in (lower, upper):
            value = side[:, fixed]
            best = _box_qp_1(Q[:, other, other], q[:, other] + b * value, lower[:, other], upper[:, other])
            candidates.append(torch.stack([value, best] if fixed == 0 else [best, value], -1))
    z = torch.stack(candidates, 1)
    cost = (
        0.5 * (a * z[..., 0].T ** 2 + c * z[..., 1].T ** 2).T
        + b[:, None] * z[..., 0] * z[..., 1]
        + dot(z, q.unsqueeze(1))
    )
    cost[:, 0] = torch.where(inside, cost[:, 0], torch.inf)
    pick = cost.argmin(1)
    return z[torch.arange(len(q), device=q.device), pick]


# ---- the interior point method --------------------------------------------------------------------


def _interior_point(program: QuadraticPrograms) -> QpSolutions:
    """Solve all rows to TOLERANCE."""
    Q, q, E, caps, e, mass = program
    b, k = q.shape
    z = _even_start(E, caps, e, mass)
    # Unit-free: divide Q and q by their largest entry so that the tolerance means the same everywhere.
    size = torch.maximum((Q.diagonal(dim1=1, dim2=2) * z).amax(-1).abs(), q.abs().amax(-1))
    size = torch.where(size > 0, size, torch.ones_like(size)).unsqueeze(-1)
    program = program._replace(Q=Q / size.unsqueeze(-1), q=q / size)
    u = torch.cat([z, caps - dot(E, z.unsqueeze(1))], 1)  # z and the slack of the caps
    U = torch.stack([u, torch.full_like(u, FIRST_PRICE)])  # (2, b, k + g): these and their prices
    y = q.new_zeros(b)
    residual = matvec(program.Q, z) + program.q - U[1, :, :k] + _to_columns(E, U[1, :, k:])
    answer = QpSolutions(torch.empty_like(q), torch.empty_like(y), torch.empty_like(caps))
    rows = torch.arange(b, device=q.device)
    alive = torch.ones_like(rows, dtype=torch.bool)

    def put_aside(some: Tensor) -> None:
        where = rows[some]
        answer.z[where], answer.y[where], answer.omega[where] = U[0, some, :k], y[some], U[1, some, k:]

    for _ in range(MAX_ITERATIONS):
        gap = (U[0] * U[1]).mean(-1)
        going = alive & ((gap > TOLERANCE) | (residual.abs().amax(-1) > 10 * TOLERANCE))
        if not torch.equal(going, alive):
            put_aside(alive & ~going)
            alive = going
            left = int(alive.sum())
            if left == 0:
                break
            if 2 * left <= alive.numel():
                kept = alive.nonzero().squeeze(-1)
                program, U = program.take(kept), U[:, kept]
                rows, y, residual, gap, alive = (t[kept] for t in (rows, y, residual, gap, alive))
        dU, dy, regular = _direction(program, U, residual, gap)
        # One common step length: then the residual, which is linear, shrinks by just 1 - step.
        step = FRACTION_TO_BOUNDARY * _reach(U, dU).amin(0)
        usable = regular & (step > 0)  # False for NaN
        if not bool(usable.all()):
            put_aside(alive & ~usable)
            alive = alive & usable
            if not bool(alive.any()):
                break
        step_ = step.unsqueeze(-1)
        U, y, residual = U + step_ * dU, y + step * dy, (1 - step_) * residual
    put_aside(alive)
    return answer._replace(y=answer.y * size.squeeze(-1), omega=answer.omega * size)


def _direction(program: QuadraticPrograms, U: Tensor, residual: Tensor, gap: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mehrotra's direction dU, dy, and in which rows the factorisation succeeded."""
    Q, E, e = program.Q, program.E, program.e
    (u, v), k = U, residual.shape[1]
    ratio = v / u
    M = Q.clone()
    if E.shape[1]:
        add_product_(M, E.mT, E * ratio[:, k:].unsqueeze(-1))
    diagonal = M.diagonal(dim1=1, dim2=2)
    diagonal += ratio[:, :k] + 1e-14 * diagonal
    factor, info = cholesky(M)
    regular = info == 0
    if not bool(regular.all()):
        eye = torch.eye(factor.shape[-1], dtype=u.dtype, device=u.device)
        factor = torch.where(regular[:, None, None], factor, eye)

    def side(r: Tensor) -> Tensor:
        """Right-hand side of the step with u dv + v du = r u that ends the residual."""
        return r[:, :k] - residual - _to_columns(E, r[:, k:])

    def step(dz: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
        """That step, from the solution for its right-hand side alone."""
        dy = torch.zeros_like(gap)
        if e is not None:
            dy = -dot(unit, dz)
            dz = dz + dy.unsqueeze(-1) * along
        du = torch.cat([dz, -dot(E, dz.unsqueeze(1))], 1)
        return torch.stack([du, r - ratio * du]), dy

    solved = cholesky_solve(torch.stack([side(-v)] if e is None else [side(-v), e], -1), factor)
    along = unit = solved[..., -1]
    if e is not None:
        unit = e / dot(e, along).clamp(min=1e-300).unsqueeze(-1)
    dU, _ = step(solved[..., 0], -v)
    ahead = (U + _reach(U, dU).unsqueeze(-1) * dU).prod(0).mean(-1)
    sigma = (ahead / gap.clamp(min=1e-300)).clamp(0, 1) ** 3
    r = ((sigma * gap).unsqueeze(-1) - dU[0] * dU[1]) / u - v
    dU, dy = step(cholesky_solve(side(r).unsqueeze(-1), factor).squeeze(-1), r)
    return dU, dy, regular


def _to_columns(E: Tensor, prices: Tensor) -> Tensor:
    """E'prices: the price of its group for every column."""
    return (E * prices.unsqueeze(-1)).sum(1)


def _even_start(E: Tensor, caps: Tensor, e: Tensor | None, mass: Tensor | None) -> Tensor:
    members = E.sum(-1).clamp(min=1)
    z = _to_columns(E, 0.5 * caps / members)
    if e is not None and mass is not None:
        z = z + e * (mass / e.sum(-1).clamp(min=1)).unsqueeze(-1)
    return torch.where(z > 0, z, torch.ones_like(z))


def _reach(U: Tensor, dU: Tensor) -> Tensor:
    """(2, b): the largest steps in [0, 1] that keep U nonnegative, from the fastest relative decrease."""
    return 1 / (dU / U).amin(-1).neg().clamp(min=1)
