"""Whether a trial point is accepted: the weak-Wolfe line search by bracketing, and what bundle steps must reach.

One trial point per row and tick. The merit is the exact penalty function  mu f + sum of violations  in scaled units.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from pwcf.solvers.constraints import total_violation
from pwcf.solvers.linalg import dot
from pwcf.solvers.oracle import Evaluation
from pwcf.solvers.state import BUNDLE, CERTIFY, RESTORE, SEARCH, START, SolverProblem, SolverRows

# Armijo: a share of the promised decrease; Wolfe: the slope must have risen to half. GRANSO's constants.
ARMIJO = 1e-4
WOLFE = 0.5
# Halvings before a direction is given up: 2^-25 of a unit step moves nothing in practice.
MAX_HALVINGS = 25
# Doublings: enough to run 1e12 along a line, where an unbounded objective is recognised.
MAX_DOUBLINGS = 40
# Bundle steps: serious if they reach this share of the promised decrease.
SERIOUS = 0.1
# They become longer after a gain of at least this share of the promise, by this factor, and are halved after a
# loss of this share.
BOLD, CAUTIOUS = (SERIOUS, 10.0, 1.0), (0.5, 2.0, 0.1)
# A constraint counts as arrived at zero when this share of its value is left.
ARRIVED = 0.1


class LineSearchVerdict(NamedTuple):
    """Outcome of one trial: accept it, give the direction up, or try ``t`` in [t_low, t_high]."""

    accept: Tensor
    failed: Tensor
    t: Tensor
    t_low: Tensor
    t_high: Tensor


def bracket(
    armijo: Tensor, wolfe: Tensor, t: Tensor, t_low: Tensor, t_high: Tensor, trials: Tensor
) -> LineSearchVerdict:
    """Bracketing for weak Wolfe points: shrink from above on Armijo failure, from below on Wolfe failure."""
    accept = armijo & wolfe
    t_high = torch.where(armijo, t_high, t)
    t_low = torch.where(armijo & ~wolfe, t, t_low)
    bracketed = torch.isfinite(t_high)
    new_t = torch.where(bracketed, 0.5 * (t_low + t_high), 2 * t_low)
    limit = torch.where(bracketed, MAX_HALVINGS, MAX_DOUBLINGS)
    failed = ~accept & (trials >= limit)
    # A point that satisfies Armijo is progress even if no Wolfe point was found beside it.
    accept = accept | (failed & armijo)
    return LineSearchVerdict(accept, failed & ~armijo, new_t, t_low, t_high)


@dataclass(frozen=True)
class LineSearch:
    """Judges the trial points of all rows, whatever phase they are in."""

    problem: SolverProblem

    def judge(
        self, S: SolverRows, trial: Tensor, moved: Tensor, ev: Evaluation, alive: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Which trial points are accepted and which directions are given up, (B,) bool each.

        Adapts t of the rows that search on, and tau of bundle steps. ``moved`` is trial - x.
        """
        scales, equality = S.scales, self.problem.equality
        old, new = S.values * scales, ev.values * scales
        v_old, v_new = total_violation(old[:, 1:], equality), total_violation(new[:, 1:], equality)
        change = S.mu * (new[:, 0] - old[:, 0]) + v_new - v_old
        # The linear model at the actual displacement: with bounds it is not t times the one at d.
        linear = dot(S.gradients, moved.unsqueeze(1)).double() * scales
        promised = S.mu * linear[:, 0] + total_violation(old[:, 1:] + linear[:, 1:], equality) - v_old
        armijo = ev.finite & (change <= ARMIJO * promised) & (promised < 0)
        wolfe = self._slope(S, trial, ev, old, new) >= WOLFE * S.promise
        S.trials += alive
        verdict = bracket(armijo, wolfe, S.t, S.t_low, S.t_high, S.trials)
        searching = alive & (S.phase == SEARCH)
        more = searching & ~verdict.accept & ~verdict.failed
        S.t = torch.where(more, verdict.t, S.t)
        S.t_low = torch.where(more, verdict.t_low, S.t_low)
        S.t_high = torch.where(more, verdict.t_high, S.t_high)
        serious = self._judge_bundle_steps(S, ev, change, alive)
        restored = ev.finite & (S.phase == RESTORE) & (v_new <= 0.9 * v_old)
        accept = alive & ev.finite & ((S.phase == START) | restored | (searching & verdict.accept) | serious)
        return accept, searching & verdict.failed

    def _slope(self, S: SolverRows, trial: Tensor, ev: Evaluation, old: Tensor, new: Tensor) -> Tensor:
        """Slope (B,) of the penalty function along d at the trial point, from scaled values old and new (B, 1+p)."""
        # SQP steps aim at the kink c = 0. A constraint that has all but arrived there pulls no longer: its
        # slope would make the search go on past the kink.
        arrived = new[:, 1:].abs() <= ARRIVED * old[:, 1:].abs()
        active = torch.where(self.problem.equality, new[:, 1:].sign(), (new[:, 1:] > 0).double())
        active = torch.where(arrived, torch.zeros_like(active), active)
        weights = torch.cat([S.mu.unsqueeze(-1), active], -1) * S.scales
        inside = (
            S.d
            if not self.problem.bounds.present
            else torch.where(trial == S.x + S.t.to(S.x.dtype).unsqueeze(-1) * S.d, S.d, torch.zeros_like(S.d))
        )
        return (dot(ev.gradients, inside.unsqueeze(1)).double() * weights).sum(-1)

    def _judge_bundle_steps(self, S: SolverRows, ev: Evaluation, change: Tensor, alive: Tensor) -> Tensor:
        """Which bundle steps are serious, given the change (B,) of the penalty function; adapts their length tau."""
        bundling = alive & ((S.phase == BUNDLE) | (S.phase == CERTIFY))
        serious = ev.finite & (change <= SERIOUS * S.promise) & (S.promise < 0)
        good, bad = bundling & serious, bundling & ~serious
        # A step that is too long still brings a cut: where all cuts can be kept, steps grow at once and shrink late.
        least, growth, loss = BOLD if self.problem.complete else CAUTIOUS
        longer = good & (change <= least * S.promise)
        S.tau = torch.where(longer, (growth * S.tau).clamp(max=1e6), S.tau)
        shorter = bad & (~ev.finite | (change > loss * S.promise.abs()))
        S.tau = torch.where(shorter, (0.5 * S.tau).clamp(min=1e-12), S.tau)
        S.nulls = torch.where(good, 0, S.nulls + bad.long())
        return good
