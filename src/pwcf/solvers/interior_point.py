"""A primal-dual interior point method for many small quadratic programs at once, on the device.

    minimise  1/2 z'Qz + q'z   subject to   z >= 0,  E z <= cap,  and optionally  e'z = mass

Mehrotra's predictor-corrector from a feasible start, in float64: no tuning, copes with singular Q
(duplicate constraints, n < number of cuts), 10 to 20 batched Cholesky factorisations. A row is put aside as
soon as it is solved, so that the number of iterations other rows need does not change its answer.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from pwcf.solvers.rowwise import add_product_, cholesky, cholesky_solve, dot, matvec

# Relative complementarity at which a row is solved. The bound of the stopping test weighs a tiny residual
# against a tiny target, so that it needs nearly all digits; they cost two or three iterations more.
TOLERANCE = 1e-13
MAX_ITERATIONS = 40
# Prices at the start, in units of the largest entry of Q and q. 13 % fewer iterations than prices of 1 / z.
FIRST_PRICE = 0.05
# How far towards the boundary a step goes; the usual interior-point choice.
FRACTION_TO_BOUNDARY = 0.995


class Multipliers(NamedTuple):
    """The solution z (b, k), the price y (b,) of the equality and the prices omega (b, g) of the caps."""

    z: Tensor
    y: Tensor
    omega: Tensor


class Program(NamedTuple):
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

    def take(self, rows: Tensor) -> Program:
        """The programs of some rows."""
        e, mass = (None if tensor is None else tensor[rows] for tensor in (self.e, self.mass))
        return Program(self.Q[rows], self.q[rows], self.E[rows], self.caps[rows], e, mass)

    def restrict(self, columns: Tensor) -> Program:
        """With just some columns (b, j) of each row."""
        k, wide = self.q.shape[1], columns.unsqueeze(1)
        Q = self.Q.gather(2, wide.expand(-1, k, -1)).gather(1, columns.unsqueeze(-1).expand(-1, -1, columns.shape[1]))
        E = self.E.gather(2, wide.expand(-1, self.E.shape[1], -1))
        e = None if self.e is None else self.e.gather(1, columns)
        return self._replace(Q=Q, q=self.q.gather(1, columns), E=E, e=e)


def solve(program: Program) -> Multipliers:
    """All rows."""
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
    residual = matvec(program.Q, z) + program.q - U[1, :, :k] + to_columns(E, U[1, :, k:])
    answer = Multipliers(torch.empty_like(q), torch.empty_like(y), torch.empty_like(caps))
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


def _direction(program: Program, U: Tensor, residual: Tensor, gap: Tensor) -> tuple[Tensor, Tensor, Tensor]:
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
        return r[:, :k] - residual - to_columns(E, r[:, k:])

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


def to_columns(E: Tensor, prices: Tensor) -> Tensor:
    """E'prices: the price of its group for every column."""
    return (E * prices.unsqueeze(-1)).sum(1)


def _even_start(E: Tensor, caps: Tensor, e: Tensor | None, mass: Tensor | None) -> Tensor:
    members = E.sum(-1).clamp(min=1)
    z = to_columns(E, 0.5 * caps / members)
    if e is not None and mass is not None:
        z = z + e * (mass / e.sum(-1).clamp(min=1)).unsqueeze(-1)
    return torch.where(z > 0, z, torch.ones_like(z))


def _reach(U: Tensor, dU: Tensor) -> Tensor:
    """(2, b): the largest steps in [0, 1] that keep U nonnegative, from the fastest relative decrease."""
    return 1 / (dU / U).amin(-1).neg().clamp(min=1)
