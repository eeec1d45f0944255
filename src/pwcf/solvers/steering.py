"""Steering: the search direction of penalty SQP and the penalty parameter that goes with it.

The direction minimises  mu (f + g'd) + sum_i |c_i + h_i'd|_+ + 1/2 d'H^-1 d  (paper, "penalty_sqp").
Its dual has one variable per constraint, in [0, 1] ([-1, 1] for an equality), and all it needs of n
is the Gram matrix V'HV of the gradients. Lowering mu many times costs no O(n) work.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from pwcf.solvers.constraints import total_violation
from pwcf.solvers.hessian import HessianProducts
from pwcf.solvers.host import Array, fetch, fetch_one, matvec, select, send, where_true
from pwcf.solvers.linalg import bmm, identity, weighted
from pwcf.solvers.qp import solve_box_qp
from pwcf.solvers.state import SolverProblem, SolverRows

# A direction must promise this share of the violation, or of what is possible at all. GRANSO's choice.
SUFFICIENT = 0.1
# Steering lowers mu in small steps: mu never rises again, so overshooting costs progress on f for good.
MU_FACTOR = 0.9
MAX_REDUCTIONS = 12
# Violations below this (in scaled units) are left to the line search: steering on rounding-size
# violations drives mu to nothing.
NEGLIGIBLE = 1e-3


class Steered(NamedTuple):
    """Multipliers (r, p), penalty parameter (r,), the violation that the linear model sees ahead, what it promises."""

    multipliers: Array
    mu: Array
    violation_ahead: Array
    promise: Array


@dataclass(frozen=True)
class Steering:
    """Sets direction, penalty parameter and multipliers of rows that search along SQP directions."""

    problem: SolverProblem

    def set_direction(self, S: SolverRows, rows: Array, HV: Tensor | None = None) -> None:
        """Set d, mu, the multipliers and the first trial step of ``rows``.

        HV (r, 1+p, n) are products of H with their gradients, if these are known.
        """
        d, found = self.linearised_step(S, rows, HV=HV)
        S.put("d", rows, d)
        S.promise[rows], S.mu[rows] = found.promise, found.mu
        p = self.problem.p
        S.multipliers[rows], S.wall_prices[rows] = found.multipliers[:, :p], found.multipliers[:, p:]
        # Among many kinks all steps are short for a long while: begin at twice the last one, not at 1.
        last = S.t[rows]
        S.t[rows] = np.where(last > 0, np.minimum(2 * last, 1.0), 1.0)
        S.t_low[rows], S.t_high[rows], S.trials[rows] = 0.0, np.inf, 0

    def linearised_step(
        self, S: SolverRows, rows: Array, tau: Array | None = None, HV: Tensor | None = None
    ) -> tuple[Tensor, Steered]:
        """The step (r, n) of the linearised problem, with H or, where ``tau`` (r,) is given, tau times the identity.

        The multipliers found are those of the constraints, then of the walls.
        """
        x, bounds, V = select(S.x, rows), self.problem.bounds_of(S, rows), select(S.gradients, rows)
        scales, mu, multipliers = S.scales[rows], S.mu[rows], S.multipliers[rows]
        c = S.values[rows, 1:] * scales[:, 1:]
        equality, p = self.problem.equality, self.problem.p
        lower, upper = np.repeat(-equality.astype(np.float64)[None], len(rows), 0), np.ones(c.shape)
        walls = free = None
        if bounds.present and self.problem.settings.walls:
            walls = bounds.walls(x)
            V = torch.cat([V, identity(x.shape[1], x.dtype, x.device).expand(len(rows), -1, -1)], 1)
        elif bounds.present:
            # Two-metric projection: entries at a bound with the Lagrangian's gradient pushing out stay. The
            # multipliers of the last direction tell which; what these get wrong is put right at once below.
            free = bounds.free(x, weighted(send(penalty_weights(mu, multipliers) * scales, V), V))
            assert free is not None
            V = V * free.unsqueeze(1)
        products = S.hessian.products(rows, V, HV) if tau is None else _identity_products(V, tau)
        if walls is None:
            gram = fetch_one(products.gram) * scales[:, :, None] * scales[:, None]
            last = multipliers
        else:
            gram, rooms = fetch(products.gram, walls.values)
            # Columns of f and c, then of the walls, from those of the entries.
            pick = np.concatenate([np.arange(1 + p), 1 + p + walls.entry])
            factors = np.concatenate([scales, np.repeat(walls.sign[None], len(rows), 0)], 1)
            gram = gram.take(pick, 1).take(pick, 2) * factors[:, :, None] * factors[:, None]
            there = np.isfinite(rooms)
            c = np.concatenate([c, np.where(there, rooms, 0.0)], 1)
            lower = np.concatenate([lower, np.zeros(rooms.shape)], 1)
            upper = np.concatenate([upper, np.where(there, np.inf, 0.0)], 1)
            last = np.concatenate([multipliers, S.wall_prices[rows]], 1)
        found = steer(gram, c, lower, upper, mu, equality, last)
        weights = penalty_weights(found.mu, found.multipliers[:, :p]) * scales
        if walls is not None:
            push = (found.multipliers[:, p:] * walls.sign).reshape(len(rows), -1, x.shape[1])
            weights = np.concatenate([weights, push[:, 0] + push[:, 1] if push.shape[1] == 2 else push[:, 0]], 1)
        d = -products.combine(send(weights, x))
        if walls is not None:
            d = bounds.project(x + d) - x
        elif free is not None:
            blocked = bounds.free(x, -d)
            assert blocked is not None
            d = d * free * blocked
        return d, found


def penalty_weights(mu: Array, multipliers: Array) -> Array:
    """(r, 1+p) weights of f and all c in the gradient of the Lagrangian of the penalty function."""
    return np.concatenate([mu[:, None], multipliers], 1)


def _identity_products(V: Tensor, tau: Array) -> HessianProducts:
    """Products of tau (r,) times the identity with the vectors V (r, k, n)."""
    size = send(tau[:, None], V)
    return HessianProducts(bmm(V, V.mT).double() * size.unsqueeze(-1), lambda weights: weighted(weights * size, V))


def steer(
    gram: Array, c: Array, lower: Array, upper: Array, mu: Array, equality: Array, last: Array | None = None
) -> Steered:
    """The paper's sqp_steering for all rows, in scaled units; ``last`` (r, k) are multipliers to begin with.

    gram (r, 1+k, 1+k) and c (r, k) of k constraints with multipliers between ``lower`` and ``upper`` (r, k). The first
    of them, as many as ``equality`` (p,) has, are weighed by the penalty function; the others hold without.
    """
    result = _direction(gram, c, lower, upper, mu, equality, last)
    if len(equality) == 0:
        return result
    v = total_violation(c[:, : len(equality)], equality)
    rows = where_true((v > NEGLIGIBLE) & (v - result.violation_ahead < SUFFICIENT * v))
    if len(rows) == 0:
        return result
    v, start = v[rows], mu[rows]
    gram, c, lower, upper, last = (array[rows] for array in (gram, c, lower, upper, result.multipliers))
    possible = v - _direction(gram, c, lower, upper, np.zeros(len(rows)), equality, last).violation_ahead
    # The whole ladder of penalty parameters in one batch; the first sufficient one is taken.
    ladder = start[:, None] * MU_FACTOR ** np.arange(MAX_REDUCTIONS + 1)
    k = ladder.shape[1]
    gram, c, lower, upper, last = (array.repeat(k, 0) for array in (gram, c, lower, upper, last))
    tried = _direction(gram, c, lower, upper, ladder.reshape(-1), equality, last)
    enough = v[:, None] - tried.violation_ahead.reshape(-1, k) >= SUFFICIENT * possible[:, None]
    enough[:, -1] = True
    flat = np.arange(len(rows)) * k + enough.argmax(1)
    for old, new in zip(result, tried, strict=True):
        old[rows] = new[flat]
    return result


def _direction(
    gram: Array, c: Array, lower: Array, upper: Array, mu: Array, equality: Array, last: Array | None
) -> Steered:
    p = len(equality)
    coupling = mu[:, None] * gram[:, 1:, 0] - c
    z0 = None if last is None else np.minimum(np.maximum(last, lower), upper)
    multipliers = solve_box_qp(gram[:, 1:, 1:], coupling, lower, upper, z0)
    change = -matvec(gram[:, : 1 + p], penalty_weights(mu, multipliers))
    ahead = total_violation(c[:, :p] + change[:, 1:], equality)
    promise = mu * change[:, 0] + ahead - total_violation(c[:, :p], equality)
    return Steered(multipliers, mu.copy(), ahead, promise)
