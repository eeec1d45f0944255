"""Whether a trial point is accepted: the weak-Wolfe line search by bracketing, and what bundle steps must reach.

One trial point per row and tick. The merit is the exact penalty function  mu f + sum of violations  in scaled units.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pwcf.solvers.constraints import total_violation
from pwcf.solvers.host import Array
from pwcf.solvers.state import BUNDLE, CONFIRM, RESTORE, RETURN, SAMPLE, SEARCH, START, SolverProblem, SolverRows
from pwcf.solvers.trial import Trial

# Armijo: a share of the promised decrease; Wolfe: the slope must have risen to half. GRANSO's constants.
ARMIJO = 1e-4
WOLFE = 0.5
# Halvings before a direction is given up: 2^-25 of a unit step moves nothing in practice.
MAX_HALVINGS = 25
# Doublings: enough to run 1e12 along a line, where an unbounded objective is recognised.
MAX_DOUBLINGS = 40
# A bracket this narrow, relative to the step, needs no Wolfe point.
NARROW = 0.1
# A step may leave the feasible set by this many times the size of the start and its violation (in scaled units).
OUTSIDE = 2.0
# Where f runs away from the constraints mu is lowered by this factor.
HELD_BACK = 0.3
# Bundle steps: serious if they reach this share of the promised decrease.
SERIOUS = 0.1
# They become longer after a gain of at least this share of the promise, by this factor, and are halved after a
# loss of this share.
BOLD, CAUTIOUS = (SERIOUS, 10.0, 1.0), (0.5, 2.0, 0.1)
# A limit on their length is raised by this factor after each of them.
WIDER = 4.0
# A constraint counts as arrived at zero when this share of its value is left.
ARRIVED = 0.1


class LineSearchVerdict(NamedTuple):
    """Outcome of one trial: accept it, give the direction up, or try ``t`` in [t_low, t_high]."""

    accept: Array
    failed: Array
    t: Array
    t_low: Array
    t_high: Array


def bracket(armijo: Array, wolfe: Array, t: Array, t_low: Array, t_high: Array, trials: Array) -> LineSearchVerdict:
    """Bracketing for weak Wolfe points: shrink from above on Armijo failure, from below on Wolfe failure."""
    # Where the bracket has become narrow the slope will not tell much more.
    accept = armijo & (wolfe | (t_high - t <= NARROW * t))
    t_high = np.where(armijo, t_high, t)
    t_low = np.where(armijo & ~wolfe, t, t_low)
    bracketed = t_high < np.inf
    new_t = np.where(bracketed, 0.5 * (t_low + t_high), 2 * t_low)
    limit = np.where(bracketed, MAX_HALVINGS, MAX_DOUBLINGS)
    failed = ~accept & (trials >= limit)
    # A point that satisfies Armijo is progress even if no Wolfe point was found beside it.
    accept = accept | (failed & armijo)
    return LineSearchVerdict(accept, failed & ~armijo, new_t, t_low, t_high)


@dataclass(frozen=True)
class LineSearch:
    """Judges the trial points of all rows, whatever phase they are in."""

    problem: SolverProblem

    def judge(self, S: SolverRows, trial: Trial, alive: Array) -> tuple[Array, Array]:
        """Which trial points are accepted and which directions are given up, (B,) bool each.

        Adapts t of the rows that search on, and tau of bundle steps.
        """
        scales, equality = S.scales, self.problem.equality
        # The linear model at the actual displacement: with bounds it is not t times the one at d.
        points = np.empty((4, *scales.shape))
        points[0], points[1], points[2], points[3] = S.values, trial.values, S.values + trial.linear, S.first
        points *= scales
        f, v = points[..., 0], total_violation(points[..., 1:], equality)
        change, promised = S.mu * (f[1:3] - f[0]) + (v[1:3] - v[0])
        armijo = trial.finite & (change <= ARMIJO * promised) & (promised < 0)
        # However much f falls: so far out of the feasible set the penalty function may have no minimum.
        usual = v[3] + 1 + S.first_size
        inside = v[1] <= np.maximum(v[0], OUTSIDE * usual)
        armijo &= inside
        wolfe = self._slope(S, trial.slopes * scales, points) >= WOLFE * S.promise
        S.trials += alive
        verdict = bracket(armijo, wolfe, S.t, S.t_low, S.t_high, S.trials)
        searching = alive & (S.phase == SEARCH)
        more = searching & ~verdict.accept & ~verdict.failed
        S.t = np.where(more, verdict.t, S.t)
        S.t_low = np.where(more, verdict.t_low, S.t_low)
        S.t_high = np.where(more, verdict.t_high, S.t_high)
        accept = (S.phase == START) | (S.phase == RETURN) | (searching & verdict.accept)
        if (S.phase >= BUNDLE).any():
            restored = (S.phase == RESTORE) & (v[1] <= 0.9 * v[0])
            accept |= restored | self._judge_bundle_steps(S, trial, np.where(inside, change, np.inf), alive)
        accept &= alive & trial.finite
        # A step was accepted that went farther out than the row ever was: the linear models promise less violation, but
        # f falls faster. With this mu the penalty function may have no minimum.
        out = accept & searching & (v[1] > v[0]) & (v[1] > np.maximum(v[3], 0.1 * (usual - v[3])))
        S.mu = np.where(out, HELD_BACK * S.mu, S.mu)
        return accept, searching & verdict.failed

    def _slope(self, S: SolverRows, slopes: Array, points: Array) -> Array:
        """Slope (B,) of the penalty function along d at the trial point, from scaled values before and there."""
        slope: Array = S.mu * slopes[:, 0]
        if self.problem.p == 0:
            return slope
        old, new = points[0, :, 1:], points[1, :, 1:]
        # SQP steps aim at the kink c = 0. A constraint that has all but arrived there pulls no longer: its
        # slope would make the search go on past the kink.
        arrived = np.abs(new) <= ARRIVED * np.abs(old)
        active = np.where(self.problem.equality, np.sign(new), new > 0)
        slope += (slopes[:, 1:] * np.where(arrived, 0.0, active)).sum(-1)
        return slope

    def _judge_bundle_steps(self, S: SolverRows, trial: Trial, change: Array, alive: Array) -> Array:
        """Which bundle steps are serious, given the change (B,) of the penalty function; adapts their length tau."""
        bundling = alive & ((S.phase == BUNDLE) | (S.phase == SAMPLE) | (S.phase == CONFIRM))
        serious = trial.finite & (change <= SERIOUS * S.promise) & (S.promise < 0)
        good: Array = bundling & serious
        bad = bundling & ~serious
        # A step that is too long still brings a cut: where all cuts can be kept, steps grow at once and shrink late.
        least, growth, loss = BOLD if self.problem.complete else CAUTIOUS
        longer = good & (change <= least * S.promise)
        shorter = bad & (~trial.finite | (change > loss * np.abs(S.promise)))
        S.tau[longer] = np.minimum(growth * S.tau[longer], 1e6)
        S.tau[shorter] = np.maximum(0.5 * S.tau[shorter], 1e-12)
        S.radius[good] *= WIDER
        S.nulls = np.where(good, 0, S.nulls + bad)
        return good
