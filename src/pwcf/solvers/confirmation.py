"""The last doubt: before a row says converged, better points are looked for where they would be if it were not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pwcf.solvers import sides
from pwcf.solvers.host import Array, factor, fetch_one, matvec, portions, positions, select, send, where_true
from pwcf.solvers.linalg import bmm, norm, weighted
from pwcf.solvers.sides import REFUTES, Sides
from pwcf.solvers.state import (
    CONFIRM,
    GIVEN_UP,
    NOTHING,
    PASSED_AT_X,
    PASSED_BY_CUTS,
    RETURN,
    RUNNING,
    SolverProblem,
    SolverRows,
)
from pwcf.solvers.steering import Steering
from pwcf.solvers.stopping import StoppingTest

# The lengths of steps tried, relative to the size of x; and how long each trial is, and whether it goes back to the
# constraints from where the one before has led.
RADII = (1e-2, 1e-3, 1e-4)
LENGTHS = (RADII[0],) * 3 + (RADII[1],) * 2 + (RADII[2],)
CORRECTED = (False, True, True, False, True, False)
# Constraints whose gradients depend on those of others to this share do not count on the way back.
DEPENDENT = 1e-10
# In a valley so flat that the gradient says little, a step that would gain this many times what tol allows is tried
# too, if it is no longer than FAR times the size of x.
VALLEY, FAR = 10.0, 1e4
# Cuts made within this of x, relative to its size, are close to it.
NEAR = 3e-4
# Steps tried with them: a few, or, where the problem is not convex, for all faces that a vertex can have and some more.
A_FEW, MORE = 5, 4
# Then a bound this many times tol will do: it is that of a few cuts.
NEARLY = 5.0
# Times that a row goes back to its best point.
RETURNS = 3
# It begins anew, ASIDE of it relative to its size, where the bound is HOPEFUL times tol and the last time has gained
# WORTHWHILE times what tol allows.
ASIDE, HOPEFUL, WORTHWHILE = 1e-4, 10.0, 30.0


@dataclass(frozen=True)
class Confirmation:
    """The phase CONFIRM: steps of the linearised problem, evaluated, from points that have passed the test."""

    problem: SolverProblem
    steering: Steering
    stopping: StoppingTest
    sides: Sides

    def advance(self, S: SolverRows, alive: Array) -> None:
        """Set the next step to try of all rows that have passed; those that withstood all of them have converged."""
        rows = where_true(alive & (S.verdict != NOTHING) & (S.status == RUNNING))
        rows = rows[~self._returns(S, rows)] if len(rows) else rows
        if len(rows) == 0:
            return
        # Gradients at x alone leave nothing to gain nearby that the linearised problem could show.
        first = np.where(S.verdict[rows] == PASSED_AT_X, len(LENGTHS), 0)
        S.trials[rows] = np.where(S.phase[rows] == CONFIRM, S.trials[rows], first)
        S.phase[rows] = CONFIRM
        near, aside = S.trials[rows] > len(LENGTHS), S.trials[rows] >= sides.BEGIN
        for portion in portions(rows[aside], self.problem.portion(S)):
            self.sides.advance(S, portion)
        for portion in portions(rows[near & ~aside], self.problem.portion(S)):
            self._try_near_cuts(S, portion)
        self._try_linearised(S, rows[~near])

    def _try_linearised(self, S: SolverRows, rows: Array) -> None:
        """Set the next step of the linearised problem at x."""
        corrected = self._corrections(S, rows)
        self._try_corrected(S, rows[corrected])
        rows = rows[~corrected]
        if len(rows) == 0:
            return
        tried, mu = S.trials[rows], S.mu[rows]
        sf, size = S.scales[rows, 0] * mu, 1 + S.size[rows]
        unit = self.problem.objective_scale(S, rows) * sf * self.problem.settings.tol
        radius = np.array((*LENGTHS, RADII[0]))[tried] * size
        slope = fetch_one(norm(select(S.gradients, rows)[:, 0])) * sf
        tau = np.minimum(radius / np.maximum(slope, 1e-300), 1e100)
        d, found = self.steering.linearised_step(S, rows, tau)
        length, promise = fetch_one(norm(d)), found.promise
        # A step that constraints have made short is tried longer; the others stay as they are.
        short = where_true(length < 0.5 * radius)
        if len(short):
            longer = np.minimum(radius / np.maximum(length, 1e-300), 1e4)
            tau[short] = np.minimum(tau * longer, 1e100)[short]
            further, found = self.steering.linearised_step(S, rows[short], tau[short])
            d[positions(short, d.device)] = further
            promise[short], length[short] = found.promise, fetch_one(norm(further))
        valley = VALLEY * unit * length / np.maximum(-promise, 1e-300)
        far = (tried == len(LENGTHS)) & (valley > radius) & (valley <= FAR * size) & (promise < 0)
        wanted = np.where(far, valley, np.minimum(length, radius))
        S.put("d", rows, d * factor(wanted / np.maximum(length, 1e-300), d))
        S.t[rows], S.promise[rows] = 1.0, -10 * REFUTES * unit
        # Nothing to try: no evaluation is spent on it.
        idle = rows[((tried == len(LENGTHS)) & ~far) | ~(length > 0)]
        for portion in portions(idle, self.problem.portion(S)):
            self._try_near_cuts(S, portion)

    def _corrections(self, S: SolverRows, rows: Array) -> Array:
        """Which rows (r,) correct the step just tried, because it has left the constraints; others skip that."""
        left = self.problem.violation(S.trial_values[rows]) > self.problem.settings.feasibility
        fallen = S.trial_values[rows, 0] < S.values[rows, 0]
        useful = left & fallen & np.isfinite(S.trial_values[rows]).all(1)
        due = np.append(CORRECTED, False)[S.trials[rows]]
        while (skipped := due & ~useful).any():
            S.trials[rows[skipped]] += 1
            due = np.append(CORRECTED, False)[S.trials[rows]]
        correct: Array = due
        return correct

    def _try_corrected(self, S: SolverRows, rows: Array) -> None:
        """Go back to the constraints from the step just tried, by the shortest way that their gradients there show.

        Otherwise a step along curved constraints leaves them before it has gained anything.
        """
        if len(rows) == 0:
            return
        scales, device = S.scales[rows, 1:], S.x.device
        c = S.trial_values[rows, 1:] * scales
        wrong = np.where(self.problem.equality, c != 0, c > 0)
        newest = S.cuts.stamp[rows].max(2).argmax(1)
        J = S.cuts.gradients[positions(rows, device), positions(newest, device), 1:]
        J = J * send((scales * wrong)[..., None], J)
        inverse = np.linalg.pinv(fetch_one(bmm(J, J.mT)), rcond=DEPENDENT, hermitian=True)
        back = weighted(send(-matvec(inverse, np.where(wrong, c, 0.0)), J), J)
        S.put("d", rows, select(S.d, rows) + back)
        S.t[rows] = 1.0

    def _try_near_cuts(self, S: SolverRows, rows: Array) -> None:
        """The test once more for what was judged by cuts, with those made close to x alone.

        A function that is not convex may lie below a cut in directions that were never tried. As in SAMPLE, a short
        step down the aggregate gradient is better, or brings a cut that is missing. Where all that was seen looks
        convex a few such steps are enough; otherwise this test must be passed too, or nearly so.
        """
        by_cuts = S.verdict[rows] == PASSED_BY_CUTS
        # A row without a way on may find one on the side of a kink; and where two sides are equally steep automatic
        # differentiation may give 0 for the kink itself.
        kinked = ((S.verdict[rows] == GIVEN_UP) & S.concave[rows]) | (S.verdict[rows] == PASSED_AT_X)
        kinked &= self.problem.settings.all_faces
        self.stopping.end(S, rows[~by_cuts & ~kinked])
        self.sides.begin(S, rows[kinked])
        rows = rows[by_cuts]
        if len(rows) == 0:
            return
        x, bounds, first = select(S.x, rows), self.problem.bounds_of(S, rows), len(LENGTHS) + 1
        within, gap = NEAR * (1 + S.size[rows]), S.gap[rows]
        model = self.problem.cutting_plane_model(S, rows, within)
        passed, q = self.stopping.passes(S, rows, model)
        nearby = S.gap[rows]
        nearly = nearby <= NEARLY * self.problem.settings.tol
        free = bounds.free(x, q)
        q = q if free is None else q * free
        length, radius = fetch_one(norm(q)), 0.3 * within
        S.trials[rows] = trials = np.maximum(S.trials[rows], first)
        S.put("d", rows, factor(-radius / np.maximum(length, 1e-300), q) * q)
        S.t[rows], S.promise[rows] = 1.0, -radius * length * S.mu[rows]
        enough = np.where(S.concave[rows], x.shape[1] + MORE, A_FEW)
        tired = ~passed & ((trials - first >= enough) | ~(length > 0))
        refused = tired & ~nearly & S.concave[rows]
        S.verdict[rows[refused]] = GIVEN_UP
        S.gap[rows] = np.where(refused, nearby, gap)
        self.sides.begin(S, rows[passed | tired])

    def _returns(self, S: SolverRows, rows: Array) -> Array:
        """Send rows that give up back to where they were best; returns which of them (r,).

        A few times if that was elsewhere. Where the problem is not convex, as often as it has led to something: then
        they begin beside that point, with a new H.
        """
        s, values, best = self.problem.settings, S.values[rows], S.best_values[rows, 0]
        unit = s.tol * self.problem.objective_scale(S, rows)
        gained, violated = values[:, 0] - best, self.problem.violation(values) > s.feasibility
        feasible, stuck = S.best_violation[rows] <= s.feasibility, S.verdict[rows] == GIVEN_UP
        better: Array = stuck & (S.returns[rows] < RETURNS) & ((gained > unit) | violated)
        # A trial point that was too little for a step may be enough to refute the test.
        better |= ~stuck & (gained > REFUTES * unit) & ~violated
        afresh = stuck & ~better & S.concave[rows] & (S.gap[rows] > HOPEFUL * s.tol)
        afresh &= S.came_back_with[rows] - best > WORTHWHILE * unit
        better, afresh = (better | afresh) & feasible, afresh & feasible
        if not better.any():
            return better
        S.came_back_with[rows[afresh]], S.mu[rows[afresh]] = best[afresh], s.mu0
        back = rows[better]
        S.phase[back], S.t[back], S.returns[back] = RETURN, 1.0, S.returns[back] + 1
        aside = np.where(afresh, ASIDE * (1 + S.size[rows]), 0.0)[better]
        d = select(S.best_x, back) - select(S.x, back)
        d = d + factor(aside, d) * sides.directions(d.shape[1], d)[S.returns[back] % sides.PAIRS]
        S.put("d", back, d)
        return better
