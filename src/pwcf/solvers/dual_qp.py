"""The dual quadratic programs of the solver, all rows at once, on the device.

    minimise  1/2 z'Qz + q'z   subject to   z >= 0,  E z <= cap,  and optionally  e'z = mass

Every column of ``z`` belongs to at most one group (a row of the 0/1 matrix E): a box is a group of
one, the multipliers of a bundle of cuts of one constraint are a group of many. This one form covers
the penalty-SQP dual (paper, "penalty_sqp_dual"), the augmented dual of the stopping test
("QP_termination") and the bundle bound.

Few columns of a bundle carry weight, mostly those that did so last time. So the interior point method is
given the likely ones first and gets others only where their price says that they are missing.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pwcf.solvers import interior_point
from pwcf.solvers.interior_point import Program, to_columns
from pwcf.solvers.rowwise import dot, matvec

# Numbers of columns that rows are rounded up to, so that rows of like size share a batch.
SIZES = (24, 48, 96)
# A column is missing if taking it in could change the value of the program by more than this share.
MISSING = 1e-4


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
    program = Program(Q, q, groups, caps, simplex, mass)
    if likely is None or k <= SIZES[0]:
        return interior_point.solve(program).z
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


def _restricted(program: Program, order: Tensor, size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Solve with the first ``size`` columns in ``order`` (b, k) and price the others.

    Returns z (b, k), an order in which the others follow by what they could gain, and how many are missing.
    """
    pick = order[:, :size]
    found = interior_point.solve(program.restrict(pick))
    z = torch.zeros_like(program.q).scatter(1, pick, found.z)
    if size == z.shape[1]:
        return z, order, torch.zeros_like(order[:, 0])
    slope = matvec(program.Q, z)
    price = slope + program.q + to_columns(program.E, found.omega)
    weight = to_columns(program.E, program.caps)
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
