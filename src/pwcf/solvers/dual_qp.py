"""Small dense quadratic programs, all rows at once, on the device.

    minimise  1/2 z'Qz + q'z   subject to   z >= 0,  E z <= cap,  and optionally  e'z = mass

Every column of ``z`` belongs to at most one group (a row of the 0/1 matrix E): a box is a group of
one, the multipliers of a bundle of cuts of one constraint are a group of many. This one form covers
the penalty-SQP dual (paper, "penalty_sqp_dual"), the augmented dual of the stopping test
("QP_termination") and the bundle bound.

Method: feasible-start primal-dual interior point (Mehrotra's predictor-corrector) in float64. It
needs no tuning, copes with singular Q (duplicate constraints, n < number of cuts), and takes 10 to 20
batched Cholesky factorisations. A row that has reached the tolerance is frozen, so that the number of
iterations other rows need does not change its answer.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from pwcf.solvers.rowwise import bmm, dot, matvec

# Relative complementarity at which a row is solved. The bound of the stopping test weighs a tiny residual
# against a tiny target, so that it needs nearly all digits; they cost two or three iterations more.
TOLERANCE = 1e-13
MAX_ITERATIONS = 40
# How far towards the boundary a step goes; the usual interior-point choice.
FRACTION_TO_BOUNDARY = 0.995


def solve_group_qp(
    Q: Tensor,
    q: Tensor,
    groups: Tensor,
    caps: Tensor,
    simplex: Tensor | None = None,
    mass: Tensor | None = None,
    start: Tensor | None = None,
) -> Tensor:
    """Return z (b, k). Q (b, k, k), q (b, k), groups (b, g, k) of 0/1, caps (b, g) > 0.

    ``simplex`` (b, k) of 0/1 and ``mass`` (b,) > 0 add the equality e'z = mass. ``start`` must be
    strictly feasible; without it z is spread evenly over the groups.
    """
    b, k = q.shape
    if b == 0 or k == 0:
        return q.new_zeros(b, k)
    z = _even_start(groups, caps, simplex, mass) if start is None else start.clone()
    equality = simplex if simplex is not None else torch.zeros_like(q)
    # Unit-free: divide Q and q by their largest entry so that the tolerance means the same everywhere.
    size = torch.maximum((Q.diagonal(dim1=1, dim2=2) * z).amax(-1).abs(), q.abs().amax(-1))
    size = torch.where(size > 0, size, torch.ones_like(size)).unsqueeze(-1)
    Q, q = Q / size.unsqueeze(-1), q / size
    w = caps - dot(groups, z.unsqueeze(1))
    zeta, omega, y = torch.ones_like(z), torch.ones_like(w), q.new_zeros(b)
    zeta = zeta / z.clamp(min=1e-8)
    omega = omega / w.clamp(min=1e-8)
    count = k + groups.shape[1]
    active = torch.ones(b, dtype=torch.bool, device=q.device)
    for _ in range(MAX_ITERATIONS):
        group_dual = (groups * omega.unsqueeze(-1)).sum(1)
        residual = matvec(Q, z) + q - zeta + group_dual - equality * y.unsqueeze(-1)
        gap = (dot(z, zeta) + dot(w, omega)) / count
        active = active & ((gap > TOLERANCE) | (residual.abs().amax(-1) > 10 * TOLERANCE))
        if not bool(active.any()):
            break
        M = Q + bmm(groups.mT * (omega / w).unsqueeze(1), groups) if groups.shape[1] else Q.clone()
        diagonal = M.diagonal(dim1=1, dim2=2)
        diagonal += zeta / z + 1e-14 * diagonal
        factor, info = torch.linalg.cholesky_ex(M)
        active = active & (info == 0)
        if bool((info != 0).any()):
            eye = torch.eye(k, dtype=q.dtype, device=q.device)
            factor = torch.where((info == 0)[:, None, None], factor, eye)

        newton = _Newton(z, w, zeta, omega, residual, factor, groups, simplex)
        zero = torch.zeros_like(gap).unsqueeze(-1)
        dz, dw, dzeta, domega, _ = newton.step(zero, torch.zeros_like(z), torch.zeros_like(w))
        primal, dual = _reach(z, dz, w, dw), _reach(zeta, dzeta, omega, domega)
        primal_, dual_ = primal.unsqueeze(-1), dual.unsqueeze(-1)
        ahead = dot(z + primal_ * dz, zeta + dual_ * dzeta) + dot(w + primal_ * dw, omega + dual_ * domega)
        sigma = (ahead / count / gap.clamp(min=1e-300)).clamp(0, 1) ** 3
        dz, dw, dzeta, domega, dy = newton.step((sigma * gap).unsqueeze(-1), dz * dzeta, dw * domega)
        # One common step length keeps the dual residual shrinking for a QP.
        step = FRACTION_TO_BOUNDARY * torch.minimum(_reach(z, dz, w, dw), _reach(zeta, dzeta, omega, domega))
        step = torch.where(active, step, torch.zeros_like(step))
        step = torch.where(torch.isfinite(dz).all(-1) & torch.isfinite(dzeta).all(-1), step, torch.zeros_like(step))
        step_ = step.unsqueeze(-1)
        z = torch.where(step_ > 0, z + step_ * dz, z)
        w = torch.where(step_ > 0, w + step_ * dw, w)
        zeta = torch.where(step_ > 0, zeta + step_ * dzeta, zeta)
        omega = torch.where(step_ > 0, omega + step_ * domega, omega)
        y = torch.where(step > 0, y + step * dy, y)
        active = active & (step > 0)
    return z


class _Newton(NamedTuple):
    """The linearised optimality conditions at a point, factorised."""

    z: Tensor
    w: Tensor
    zeta: Tensor
    omega: Tensor
    residual: Tensor
    factor: Tensor
    groups: Tensor
    simplex: Tensor | None

    def step(self, target: Tensor, cross_z: Tensor, cross_w: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Towards complementarity  z zeta -> target - cross_z,  w omega -> target - cross_w."""
        rz = (target - cross_z) / self.z - self.zeta
        rw = (target - cross_w) / self.w - self.omega
        rhs = -self.residual + rz - (self.groups * rw.unsqueeze(-1)).sum(1)
        if self.simplex is None:
            dz = torch.cholesky_solve(rhs.unsqueeze(-1), self.factor).squeeze(-1)
            dy = torch.zeros_like(dz[:, 0])
        else:
            both = torch.cholesky_solve(torch.stack([rhs, self.simplex], -1), self.factor)
            u, v = both[..., 0], both[..., 1]
            dy = -dot(self.simplex, u) / dot(self.simplex, v).clamp(min=1e-300)
            dz = u + dy.unsqueeze(-1) * v
        dw = -dot(self.groups, dz.unsqueeze(1))
        return dz, dw, rz - self.zeta / self.z * dz, rw - self.omega / self.w * dw, dy


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


def _even_start(groups: Tensor, caps: Tensor, simplex: Tensor | None, mass: Tensor | None) -> Tensor:
    members = groups.sum(-1).clamp(min=1)
    z = (groups * (0.5 * caps / members).unsqueeze(-1)).sum(1)
    if simplex is not None and mass is not None:
        z = z + simplex * (mass / simplex.sum(-1).clamp(min=1)).unsqueeze(-1)
    return torch.where(z > 0, z, torch.ones_like(z))


def _reach(a: Tensor, da: Tensor, c: Tensor, dc: Tensor) -> Tensor:
    """The largest step in [0, 1] that keeps a + s da and c + s dc nonnegative."""
    limit = torch.where(da < 0, -a / da, torch.full_like(a, torch.inf)).amin(-1)
    if c.shape[-1]:
        limit = torch.minimum(limit, torch.where(dc < 0, -c / dc, torch.full_like(c, torch.inf)).amin(-1))
    return limit.clamp(max=1.0)
