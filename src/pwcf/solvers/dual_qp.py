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
    if likely is None or k <= SIZES[0]:
        return interior_point.solve(Q, q, groups, caps, simplex, mass).z
    z = torch.zeros_like(q)
    order = torch.arange(k, device=q.device).expand(b, k).clone()
    count = likely.clamp(min=1, max=k)
    rows = torch.arange(b, device=q.device)
    while rows.numel():
        missing = torch.zeros_like(rows)
        for part, size in by_size(count[rows], k):
            some = rows[part]
            missing[part] = _restricted(z, order, size, some, Q, q, groups, caps, simplex, mass)
            count[some] = size
        # Doubling: a row whose likely columns were far from enough gets there in a few rounds.
        count[rows] += torch.minimum(missing, count[rows].clamp(min=4))
        rows = rows[missing > 0]
    return z


def by_size(count: Tensor, most: int) -> list[tuple[Tensor, int]]:
    """Rows that need about as many columns: (rows, number of columns) pairs. A matter of each row alone."""
    sizes = [size for size in SIZES if size < most] + [most]
    limits = torch.tensor(sizes, device=count.device)
    which = torch.bucketize(count, limits)
    parts = [((which == i).nonzero().squeeze(-1), size) for i, size in enumerate(sizes)]
    return [(part, size) for part, size in parts if part.numel()]


def _restricted(
    z: Tensor,
    order: Tensor,
    size: int,
    rows: Tensor,
    Q: Tensor,
    q: Tensor,
    groups: Tensor,
    caps: Tensor,
    simplex: Tensor | None,
    mass: Tensor | None,
) -> Tensor:
    """Solve ``rows`` with their first ``size`` columns in ``order``; how many others are missing, these next."""
    pick = order[rows, :size]
    k = q.shape[1]
    Q, q, groups, caps = Q[rows], q[rows], groups[rows], caps[rows]
    wide = pick.unsqueeze(1)
    tall = Q.gather(2, wide.expand(-1, k, -1))
    found = interior_point.solve(
        tall.gather(1, pick.unsqueeze(-1).expand(-1, -1, size)),
        q.gather(1, pick),
        groups.gather(2, wide.expand(-1, groups.shape[1], -1)),
        caps,
        None if simplex is None else simplex[rows].gather(1, pick),
        None if mass is None else mass[rows],
    )
    z[rows] = torch.zeros_like(q).scatter(1, pick, found.z)
    if size == k:
        return torch.zeros_like(rows)
    slope = matvec(tall, found.z)
    price = slope + q + (groups * found.omega.unsqueeze(-1)).sum(1)
    weight = (groups * caps.unsqueeze(-1)).sum(1)
    if simplex is not None and mass is not None:
        price = price - simplex[rows] * found.y.unsqueeze(-1)
        weight = weight + simplex[rows] * mass[rows].unsqueeze(-1)
    value = 0.5 * dot(z[rows], slope).abs() + dot(z[rows], q.abs())
    gain = (-price * weight).scatter(1, pick, -torch.inf)
    order[rows, size:] = gain.argsort(dim=1, descending=True, stable=True)[:, : k - size]
    return (gain > MISSING * value.unsqueeze(-1)).sum(1)


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
