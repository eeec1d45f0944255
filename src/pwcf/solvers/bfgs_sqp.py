"""BFGS-SQP with an exact penalty (paper, appendix "Sketch of the BFGS-SQP algorithm"), for many rows at once.

The paper's loop, per row:

    H_0 = I, mu = mu_0
    for k = 0, 1, 2, ...
        d_k, mu  = sqp_steering(x_k, H_k, mu)          steering.py
        x_{k+1}  = Armijo_Wolfe(x_k, d_k)              line_search.py
        stop if nothing is left to gain                stopping.py
        H_{k+1}  = BFGS update of H_k                  hessian.py

Beyond the paper, where quasi-Newton directions fail or crawl the bundle takes over (phases.py).

A line search asks for an unknown number of evaluations, and rows must not wait for each other. So the loop is turned
inside out: one call of ``step`` digests one evaluation of every row, whatever phase the row is in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pwcf._common.status import Status
from pwcf.solvers.bundle import Cuts
from pwcf.solvers.confirmation import Confirmation
from pwcf.solvers.hessian import InverseHessian, make_hessian
from pwcf.solvers.host import Array, positions, select, send, where_true
from pwcf.solvers.linalg import weighted
from pwcf.solvers.line_search import LineSearch
from pwcf.solvers.oracle import Evaluation
from pwcf.solvers.phases import BundlePhases
from pwcf.solvers.sides import Sides
from pwcf.solvers.state import (
    BUNDLE,
    CODE,
    CONFIRM,
    GIVEN_UP,
    NOTHING,
    RUNNING,
    SAMPLE,
    SEARCH,
    START,
    SolverProblem,
    SolverRows,
)
from pwcf.solvers.steering import Steering, penalty_weights
from pwcf.solvers.stopping import StoppingTest
from pwcf.solvers.trial import Trial, digest, trial_points

# An objective this far below its start (in units of its first gradient) is taken to have no minimum.
UNBOUNDED = 1e10


@dataclass(frozen=True)
class BfgsSqp:
    """The algorithm as a composition of its parts; the loop owns everything else."""

    problem: SolverProblem
    new_hessian: Callable[[Tensor], InverseHessian]
    """Starts (b, n) -> H_0 of all rows."""
    steering: Steering
    line_search: LineSearch
    stopping: StoppingTest
    phases: BundlePhases
    confirmation: Confirmation

    @classmethod
    def for_problem(cls, problem: SolverProblem) -> BfgsSqp:
        """The algorithm with all its parts for one problem."""
        s, stopping, steering = problem.settings, StoppingTest(problem), Steering(problem)
        return cls(
            problem=problem,
            new_hessian=lambda x: make_hessian(s.hessian, x.shape[0], x.shape[1], s.memory, x),
            steering=steering,
            line_search=LineSearch(problem),
            stopping=stopping,
            phases=BundlePhases(problem, stopping),
            confirmation=Confirmation(problem, steering, stopping, Sides(problem, stopping)),
        )

    def init(self, x0: Tensor, index: Tensor) -> SolverRows:
        """Fresh state for rows that start at x0 (B, n)."""
        s, (b, n), p = self.problem.settings, x0.shape, self.problem.p

        def full(value: float, *shape: int) -> Array:
            return np.full((b, *shape), value, dtype=np.float64)

        def whole(value: int) -> Array:
            return np.full(b, value, dtype=np.int64)

        def flag(value: bool) -> Array:
            return np.full(b, value)

        x = self.problem.bounds.of(index).project(x0)
        return SolverRows(
            index=index, x=x, reference=x.clone(), unit=self.problem.oracle.unit.rows(index, x),
            size=full(0), first_size=full(0), distance=full(0),
            values=full(0, 1 + p), first=full(0, 1 + p), trial_values=full(0, 1 + p),
            gradients=torch.zeros(b, 1 + p, n, dtype=x.dtype, device=x.device),
            scale=full(0, 1 + p), mu=full(s.mu0), multipliers=full(0, p),
            wall_prices=full(0, self.problem.wall_sides * n), d=torch.zeros_like(x),
            promise=full(0), t=full(0), t_low=full(0), t_high=full(np.inf), trials=whole(0),
            phase=whole(START), best_x=x.clone(), best_values=full(np.nan, 1 + p),
            best_violation=full(np.inf), iterations=whole(0), evaluations=whole(0),
            gap=full(np.inf), stationarity=full(np.inf), mark=full(np.inf), marked_at=whole(0), tau=full(1),
            nulls=whole(0), plain=flag(False), radius=full(np.inf), stride=full(1), early=flag(self.problem.complete),
            path=full(0), concave=flag(False), returns=whole(0), came_back_with=full(np.inf),
            verdict=whole(NOTHING), status=whole(RUNNING),
            cuts=Cuts.empty(b, s.cuts, 1 + p, n, x),
            hessian=self.new_hessian(x),
        )  # fmt: skip

    def trial(self, S: SolverRows) -> Tensor:
        """The points to evaluate next, (B, n)."""
        return trial_points(S, self.problem.bounds.of(S.index), snap=self.problem.settings.walls)

    @np.errstate(all="ignore")
    def step(self, S: SolverRows, x: Tensor, ev: Evaluation, alive: Array) -> None:
        """Digest the evaluation of the trial points x (B, n); rows that are not ``alive`` stay as they are."""
        # As published, the tolerance refers to the functions as they are: they have no scales.
        unscaled = not self.problem.settings.published and bool((S.scale == 0).any())
        trial = digest(S, x, ev, self.problem.bounds.present, unscaled)
        alive = self._first_values(S, trial, alive)
        S.trial_values = np.where(alive[:, None], trial.values, S.trial_values)
        seen = where_true(alive & trial.finite)
        # Armijo_Wolfe: x_{k+1}, and with it H_{k+1}
        place = self._store_cuts(S, trial, seen)
        accept, stuck = self.line_search.judge(S, trial, alive)
        self._record_best(S, trial, seen)
        self._end_unbounded(S, trial, seen)
        lost = accept & (S.verdict == GIVEN_UP)
        HV = self._move(S, where_true(accept), trial, place)
        S.iterations += accept | (alive & (S.phase >= BUNDLE))

        # a better point than one that had passed the test: the search goes on from there
        refuted = accept & (S.phase >= CONFIRM)
        if refuted.any():
            S.phase[refuted], S.t[refuted] = SEARCH, 1.0
            S.early[refuted] = S.plain[refuted] = False
            S.hessian.reset(where_true(refuted & lost))

        # sqp_steering: the next direction, and the test of whether there is anything to gain from it
        searching = where_true(accept & (S.phase <= SEARCH))
        if len(searching):
            S.phase[searching] = SEARCH
            HV = None if HV is None or len(searching) < len(HV) or refuted.any() else HV
            stuck[searching[self._next_direction(S, searching, HV)]] = True
        if self.problem.settings.published:  # as published: a failed line search is the end
            self.stopping.end(S, where_true(stuck & (S.status == RUNNING)))
            return

        # beyond the paper: the bundle goes on where that fails
        self.phases.leave_search(S, where_true(stuck | (accept & (S.phase == SAMPLE))))
        bundling = alive & (S.phase >= BUNDLE)
        if bundling.any():
            self.phases.advance(S, alive & (S.phase < CONFIRM))
            self._search_again(S, where_true(bundling & (S.phase == SEARCH) & (S.status == RUNNING)))
        self.confirmation.advance(S, alive)

    @np.errstate(all="ignore")
    def assess(self, S: SolverRows, rows: Array) -> None:
        """Evidence for those of ``rows`` that a limit has stopped."""
        self.stopping.assess(S, rows)

    # ---- the parts of a step ----------------------------------------------------------------------

    def _first_values(self, S: SolverRows, trial: Trial, alive: Array) -> Array:
        """Keep f at the start and the scales of all functions; ends rows whose start is not finite.

        Returns the rows that are still alive.
        """
        S.evaluations += alive
        start = alive & (S.phase == START)
        if start.any():
            lost = start & ~trial.finite
            S.status[lost] = CODE[Status.NONFINITE]
            alive, start = alive & ~lost, start & ~lost
            S.first[start], S.first_size[start] = trial.values[start], trial.size[start]
        if trial.steepness is not None:
            unset = (S.scale == 0) & (alive & trial.finite)[:, None] & (trial.steepness > 0)
            S.scale[unset] = 1 / np.maximum(trial.steepness[unset], 1e-300)
        return alive

    def _store_cuts(self, S: SolverRows, trial: Trial, rows: Array) -> Array:
        """Store the linear models at the trial points of ``rows``; returns their places (B,), 0 for other rows."""
        place = np.zeros_like(S.phase)
        if len(rows):
            path = S.path[rows]
            if self.problem.settings.published:  # nobody else asks how far away a cut was made
                path = path + trial.length[rows]
            place[rows] = S.cuts.insert(rows, trial.cuts(rows), S.evaluations[rows], path, S.phase[rows] == CONFIRM)
        return place

    def _record_best(self, S: SolverRows, trial: Trial, rows: Array) -> None:
        """Keep the feasible point with the least objective, else the least violating one."""
        values, limit = trial.values[rows], self.problem.settings.feasibility
        v, best_v = self.problem.violation(values), S.best_violation[rows]
        feasible, had = v <= limit, best_v <= limit
        better = np.where(
            feasible & had, values[:, 0] < S.best_values[rows, 0], np.where(feasible | had, feasible, v < best_v)
        )
        if better.any():
            rows = rows[better]
            S.best_values[rows], S.best_violation[rows] = values[better], v[better]
            if len(rows) == S.count:
                S.best_x.copy_(trial.x)
            else:
                index = positions(rows, trial.x.device)
                S.best_x[index] = trial.x[index]

    def _end_unbounded(self, S: SolverRows, trial: Trial, rows: Array) -> None:
        """End rows whose objective has fallen below any sensible value at a feasible point."""
        first, f = S.first[rows, 0], trial.values[rows, 0]
        # Scales are positive: no need to look where f has not fallen at all.
        fallen = rows[f < np.minimum(first, 0.0)]
        if len(fallen):
            sf = S.scales[fallen, 0]
            far = UNBOUNDED * (1 + np.abs(S.first[fallen, 0] * sf))
            runaway = trial.values[fallen, 0] * sf < -far
            runaway &= self.problem.violation(trial.values[fallen]) <= self.problem.settings.feasibility
            S.status[fallen[runaway]] = CODE[Status.UNBOUNDED]

    def _move(self, S: SolverRows, rows: Array, trial: Trial, place: Array) -> Tensor | None:
        """Accept the trial points of ``rows`` and update H with the new pair; returns products with the new gradients.

        They are None where they would have to be computed.
        """
        if len(rows) == 0:
            return None
        HV = None
        new_gradients = select(trial.gradients, rows)
        old = S.phase[rows] != START
        if old.any():
            weights = penalty_weights(S.mu[rows], S.multipliers[rows]) * S.scales[rows]
            y, s = weighted(send(weights, S.x), new_gradients - select(S.gradients, rows)), select(trial.moved, rows)
            if self.problem.bounds.present and not self.problem.settings.walls:
                y = torch.where(s != 0, y, 0.0)
            pairs = where_true(old)
            # Where bounds hold entries the products are others.
            V = new_gradients if old.all() and not self.problem.bounds.present else None
            HV = S.hessian.update(rows[pairs], select(s, pairs), select(y, pairs), V)
        S.put("x", rows, select(trial.x, rows))
        S.put("gradients", rows, new_gradients)
        S.values[rows], S.size[rows], S.distance[rows] = trial.values[rows], trial.size[rows], trial.distance[rows]
        S.verdict[rows] = NOTHING
        S.cuts.move_home(rows, place[rows], S.evaluations[rows])
        length = trial.length[rows]
        S.stride[rows] = np.where(old, length, S.stride[rows])
        S.path[rows] += length
        return HV

    def _next_direction(self, S: SolverRows, rows: Array, HV: Tensor | None) -> Array:
        """Steer and test ``rows``; returns which of them (a mask) quasi-Newton directions no longer serve."""
        self.steering.set_direction(S, rows, HV)
        # Rounding has spoilt an H whose direction does not even promise anything.
        broken = rows[~(S.promise[rows] < 0)]
        if len(broken) and not self.problem.settings.published:
            S.hessian.repair(broken)
            self.steering.set_direction(S, broken)
        crawling = self.stopping.crawls(S, rows)
        if self.problem.settings.published:
            return self.stopping.published_test(S, rows)
        if crawling.any():
            self.stopping.simple_test(S, rows[crawling])
            crawling = crawling & (S.verdict[rows] == NOTHING)
        return crawling

    def _search_again(self, S: SolverRows, rows: Array) -> None:
        """Quasi-Newton directions for rows that come back from the bundle; it keeps those they do not serve."""
        if len(rows) == 0:
            return
        S.t[rows] = 1.0
        self.steering.set_direction(S, rows)
        self.phases.take_over(S, rows[self.stopping.crawls(S, rows)])
