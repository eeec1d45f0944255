"""Lagrange multipliers at the answers of ``minimize``, found when they are asked for.

They belong to  grad f + sum_i k_i grad c_i + (multipliers of the bounds) = 0,  k_i >= 0 for an inequality c_i <= 0,
in the user's units. Where the functions are smooth at the answer their gradients there decide: k makes the sum as
short as possible. Where several faces of a function meet one gradient is not enough. Then the multipliers are those of
the cuts, if the state was kept, else those of the solver's last step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from pwcf._common.status import Status
from pwcf.solvers import bundle
from pwcf.solvers.bfgs_sqp import BfgsSqp
from pwcf.solvers.bounds import Bounds
from pwcf.solvers.host import Array, fetch, portions, positions, select, send, where_true
from pwcf.solvers.linalg import bmm, matvec, norm, weighted
from pwcf.solvers.qp import solve_group_qp
from pwcf.solvers.state import CODE, SolverRows
from pwcf.solvers.stopping import MULTIPLIER_ROOM
from pwcf.solvers.variables import Variables

# A constraint whose linear model vanishes only farther away than this share of 1 + |x| is inactive.
NEARLY_ACTIVE = 1e-3
# Among nearly active constraints the closer ones are preferred. The residual may grow by this share of their distances,
# relative to 1 + |x|: enough to choose, too little to be seen in the multipliers of a constraint at 1e-6.
DISTANCE_WEIGHT = 1e-2
# The gradients at the answer explain it if this share of the objective's gradient is left at most.
EXPLAINED = 1e-2
# Rounds in which entries at a bound are held or let go; two or three are usual.
MAX_ROUNDS = 10


class Found(NamedTuple):
    """Multipliers of the constraints, k (r, p), and the gradient of the Lagrangian without the bounds, q (r, n)."""

    k: Tensor
    q: Tensor


@dataclass(frozen=True)
class Lagrangian:
    """All that multipliers need: the problem and the final state of its rows."""

    solver: BfgsSqp
    variables: Variables
    rows: SolverRows
    at_once: int
    """Rows evaluated at once."""

    def multipliers(self) -> tuple[list[Tensor], Any]:
        """The multipliers of every constraint and those of the bounds, in the shapes of the user's values."""
        everyone = np.arange(self.rows.count)
        with np.errstate(all="ignore"):
            parts = [self._of(rows) for rows in portions(everyone, self.at_once)]
        k, at_bounds = (torch.cat(part) for part in zip(*parts, strict=True))
        oracle, variables = self.solver.problem.oracle, self.variables
        result = []
        for i, (constraint, columns) in enumerate(
            zip(oracle.constraints, k.split_with_sizes(oracle.columns, 1), strict=True)
        ):
            if variables.single:
                shape = torch.Size() if constraint.fold is not None else variables.value_shapes[i]
                result.append(columns.reshape(shape))
            else:
                result.append(columns.squeeze(1))
        if self.rows.unit.shape[1]:
            at_bounds = at_bounds / self.rows.unit
        return result, variables.unflatten(at_bounds.to(self.rows.x.dtype))

    def _of(self, rows: Array) -> tuple[Tensor, Tensor]:
        """Multipliers (r, p) and those of the bounds (r, n) of some rows."""
        S, problem = self.rows, self.solver.problem
        x, bounds = select(S.best_x, rows), problem.bounds_of(S, rows)
        values, gradients = problem.oracle.evaluate(x, select(S.index, rows))
        gradients = gradients.double()
        finite = torch.isfinite(values.sum(1) + gradients.sum((1, 2))).unsqueeze(-1)
        gradients = torch.where(finite.unsqueeze(-1), gradients, 0.0)
        k, q = least_multipliers(values, gradients, problem.oracle.equality, x, bounds)
        at_bounds = _held_part(q, x, bounds)
        left, slope = fetch(norm(q + at_bounds), norm(gradients[:, 0]))
        explained = left <= EXPLAINED * slope
        explained |= problem.reach(S, rows) * left <= problem.settings.tol * problem.objective_scale(S, rows)
        faces = where_true(~explained & (S.status[rows] == CODE[Status.CONVERGED]))
        if len(faces):
            some, here = rows[faces], positions(faces, x.device)
            if S.cuts.gradients.numel():
                found = self._from_cuts(some)
                k[here] = found.k
                at_bounds[here] = _held_part(found.q, select(S.x, some), problem.bounds_of(S, some))
            else:
                scales = S.scales[some]
                last = S.multipliers[some] / S.mu[some, None] * scales[:, 1:] / scales[:, :1]
                k[here] = send(last, k)
                # Which of the faces carry weight is no longer known, so neither is what the bounds carry.
                at_bounds[here] = torch.where(at_bounds[here] == 0, at_bounds[here], torch.nan)
        return torch.where(finite, k, torch.nan), torch.where(finite, at_bounds, torch.nan)

    def _from_cuts(self, rows: Array) -> Found:
        """The multipliers of the bundle bound, with every stored face of the functions."""
        S, problem, scales = self.rows, self.solver.problem, self.rows.scales[rows]
        p, bounds, sf = problem.p, problem.bounds_of(S, rows), scales[:, :1]
        target = np.maximum(0.5 * problem.settings.tol * problem.objective_scale(S, rows) * sf[:, 0], 1e-300)
        model, room = problem.cutting_plane_model(S, rows), MULTIPLIER_ROOM / S.mu[rows]
        _, _, z = bundle.gap(model, p, select(S.x, rows), bounds, target, room, problem.settings.walls)
        own = model.owner[:, None] == np.arange(1, p + 1)[:, None]
        net = np.where(own, (z * model.sign)[:, None], 0.0).sum(-1) * scales[:, 1:] / sf
        wide = model.V.double()
        return Found(send(net, wide), weighted(send(z / sf, wide), wide))


def least_multipliers(values: Tensor, gradients: Tensor, equality: Tensor, x: Tensor, bounds: Bounds) -> Found:
    """Multipliers k that make |grad f + sum k_i grad c_i| least, entries held by a bound left out.

    Args:
        values: (r, 1+p) of f and all constraint columns.
        gradients: (r, 1+p, n) float64.
        equality: (p,) which columns are equalities; the others' multipliers are >= 0, and 0 where inactive.
        x: (r, n)
        bounds: of these rows.
    """
    size = norm(gradients)
    unit = torch.where(size > 0, 1 / size.clamp(min=1e-300), torch.ones_like(size))
    distance = -values[:, 1:] * unit[:, 1:] / (1 + norm(x).double().unsqueeze(-1))
    counts = (size[:, 1:] > 0) & (equality | (distance <= NEARLY_ACTIVE))
    V = gradients * (unit * pad(counts.double(), (1, 0), value=1.0)).unsqueeze(-1)
    price = torch.where(counts, DISTANCE_WEIGHT * distance.clamp(min=0), 1.0)
    lower, upper = _at_bounds(x, bounds)
    free = ~(lower | upper)
    best, least = torch.zeros_like(price), torch.full_like(size[:, 0], torch.inf)
    for _ in range(MAX_ROUNDS):
        masked = V * free.unsqueeze(1)
        k = _least_squares(bmm(masked, masked.mT), price, equality)
        q = weighted(pad(k, (1, 0), value=1.0), V)
        # An entry counts unless its bound holds it: pushes inwards do not count as held.
        counted = ~_held(q, lower, upper)
        left = norm(q * counted)
        best = torch.where((left < least).unsqueeze(-1), k, best)
        least = torch.minimum(left, least)
        if torch.equal(counted, free):
            break
        free = counted
    k = torch.where(counts, best, 0.0) * unit[:, 1:] / unit[:, :1]
    return Found(k, weighted(pad(k, (1, 0), value=1.0), gradients))


def _least_squares(gram: Tensor, price: Tensor, equality: Tensor) -> Tensor:
    """The k (r, p) that minimises 1/2 |v_0 + sum k_i v_i|^2 + price'k, k_i >= 0 unless an equality's."""
    e, i = equality.nonzero().squeeze(-1) + 1, (~equality).nonzero().squeeze(-1) + 1
    k = torch.zeros_like(price)
    Q, q = gram[:, i[:, None], i], gram[:, i, 0] + price[:, i - 1]
    inverse, across = torch.linalg.pinv(gram[:, e[:, None], e], rtol=1e-12, hermitian=True), gram[:, e[:, None], i]
    if i.numel():
        # The best multipliers of the equalities are linear in the others'.
        through = bmm(inverse, across)
        Q, q = Q - bmm(across.mT, through), q - matvec(through.mT.contiguous(), gram[:, e, 0])
        Q_, q_ = fetch(Q, q)
        r, columns = q_.shape
        k[:, i - 1] = send(solve_group_qp(Q_, q_, np.zeros((r, 0, columns)), np.zeros((r, 0))), k)
    if e.numel():
        k[:, e - 1] = -matvec(inverse, gram[:, e, 0] + matvec(across, k[:, i - 1]))
    return k


def _at_bounds(x: Tensor, bounds: Bounds) -> tuple[Tensor, Tensor]:
    """Which entries are at their lower and at their upper bounds; x is projected, so that they are exactly there."""
    never = torch.zeros_like(x, dtype=torch.bool)
    return (
        never if bounds.lower is None else x <= bounds.lower,
        never if bounds.upper is None else x >= bounds.upper,
    )


def _held(q: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """Entries at a bound with the descent direction -q pushing out."""
    return (lower & (q >= 0)) | (upper & (q <= 0))


def _held_part(q: Tensor, x: Tensor, bounds: Bounds) -> Tensor:
    """The multipliers of the bounds: -q where a bound holds the entry, positive at an upper bound."""
    return torch.where(_held(q, *_at_bounds(x, bounds)), -q, torch.zeros_like(q))
