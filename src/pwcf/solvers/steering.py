"""Steering: the search direction of penalty SQP and the penalty parameter that goes with it.

The direction minimises  mu (f + g'd) + sum_i |c_i + h_i'd|_+ + 1/2 d'H^-1 d  (paper, "penalty_sqp").
Its dual has one variable per constraint, in [0, 1] ([-1, 1] for an equality), and all it needs of n
is the Gram matrix V'HV of the gradients. Lowering mu many times costs no O(n) work.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from pwcf.solvers.constraints import total_violation
from pwcf.solvers.linalg import matvec, select, weighted
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
    """Multipliers (r, p), penalty parameter (r,), and the linear model's change of f and of violation."""

    multipliers: Tensor
    mu: Tensor
    change_f: Tensor
    violation_ahead: Tensor


@dataclass(frozen=True)
class Steering:
    """Sets direction, penalty parameter and multipliers of rows that search along SQP directions."""

    problem: SolverProblem

    def set_direction(self, S: SolverRows, rows: Tensor) -> None:
        """Set d, mu, the multipliers and the first trial step of ``rows``."""
        equality, bounds = self.problem.equality, self.problem.bounds.of(S.index[rows])
        scales, x, G = S.scales[rows], select(S.x, rows), select(S.gradients, rows)
        c = S.values[rows, 1:] * scales[:, 1:]
        # Two-metric projection: entries at a bound with the Lagrangian's gradient pushing out stay. The
        # multipliers of the last direction tell which; what these get wrong is put right at once below.
        guess = torch.cat([S.mu[rows].unsqueeze(-1), S.multipliers[rows]], -1) * scales
        free = bounds.free(x, weighted(guess, G)) if bounds.present else None
        products = S.hessian.products(rows, G if free is None else G * free.unsqueeze(1))
        gram = products.gram * scales.unsqueeze(-1) * scales.unsqueeze(1)
        found = steer(gram, c, S.mu[rows], equality)
        d = -products.combine(torch.cat([found.mu.unsqueeze(-1), found.multipliers], -1) * scales)
        if free is not None:
            blocked = bounds.free(x, -d)
            assert blocked is not None
            d = d * free * blocked
        S.put("d", rows, d)
        S.promise[rows] = found.mu * found.change_f + found.violation_ahead - total_violation(c, equality)
        S.mu[rows], S.multipliers[rows] = found.mu, found.multipliers
        # Among many kinks all steps are short for a long while: begin at twice the last one, not at 1.
        last = torch.where(S.t[rows] > 0, S.t[rows], 1.0)
        S.t[rows], S.t_low[rows], S.t_high[rows] = (2 * last).clamp(max=1.0), 0.0, torch.inf
        S.trials[rows] = 0


def steer(gram: Tensor, c: Tensor, mu: Tensor, equality: Tensor) -> Steered:
    """The paper's sqp_steering for all rows. gram (r, 1+p, 1+p), c (r, p), all in scaled units."""
    result = _direction(gram, c, mu, equality)
    if c.shape[-1] == 0:
        return result
    v = total_violation(c, equality)
    short = (v > NEGLIGIBLE) & (v - result.violation_ahead < SUFFICIENT * v)
    rows = short.nonzero().squeeze(-1)
    if rows.numel() == 0:
        return result
    v, c, gram, start = v[rows], c[rows], gram[rows], mu[rows]
    possible = v - _direction(gram, c, torch.zeros_like(start), equality).violation_ahead
    # The whole ladder of penalty parameters in one batch; the first sufficient one is taken.
    powers = torch.arange(MAX_REDUCTIONS + 1, device=c.device, dtype=c.dtype)
    ladder = start.unsqueeze(-1) * MU_FACTOR**powers
    k = ladder.shape[1]
    tried = _direction(gram.repeat_interleave(k, 0), c.repeat_interleave(k, 0), ladder.reshape(-1), equality)
    enough = v.unsqueeze(-1) - tried.violation_ahead.reshape(-1, k) >= SUFFICIENT * possible.unsqueeze(-1)
    enough[:, -1] = True
    first = enough.to(torch.int64).argmax(1)
    flat = torch.arange(rows.numel(), device=c.device) * k + first
    return Steered(*(old.index_copy(0, rows, new[flat]) for old, new in zip(result, tried, strict=True)))


def _direction(gram: Tensor, c: Tensor, mu: Tensor, equality: Tensor) -> Steered:
    coupling = mu.unsqueeze(-1) * gram[:, 1:, 0] - c
    lower = torch.where(equality, -1.0, 0.0).to(c).expand_as(c)
    multipliers = solve_box_qp(gram[:, 1:, 1:], coupling, lower, torch.ones_like(c))
    change = -matvec(gram, torch.cat([mu.unsqueeze(-1), multipliers], -1))
    return Steered(multipliers, mu, change[:, 0], total_violation(c + change[:, 1:], equality))
