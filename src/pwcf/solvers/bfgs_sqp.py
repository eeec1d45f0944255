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

import torch
from torch import Tensor

from pwcf._common.status import Status
from pwcf.solvers.bundle import Cuts
from pwcf.solvers.hessian import InverseHessian, make_hessian
from pwcf.solvers.linalg import norm, select, weighted
from pwcf.solvers.line_search import LineSearch
from pwcf.solvers.oracle import Evaluation
from pwcf.solvers.phases import BundlePhases
from pwcf.solvers.state import BUNDLE, CERTIFY, CODE, RUNNING, SEARCH, START, SolverProblem, SolverRows
from pwcf.solvers.steering import Steering
from pwcf.solvers.stopping import StoppingTest

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

    @classmethod
    def for_problem(cls, problem: SolverProblem) -> BfgsSqp:
        """The algorithm with all its parts for one problem."""
        s, stopping = problem.settings, StoppingTest(problem)
        return cls(
            problem=problem,
            new_hessian=lambda x: make_hessian(s.hessian, x.shape[0], x.shape[1], s.memory, x),
            steering=Steering(problem),
            line_search=LineSearch(problem),
            stopping=stopping,
            phases=BundlePhases(problem, stopping),
        )

    def init(self, x0: Tensor, index: Tensor) -> SolverRows:
        """Fresh state for rows that start at x0 (B, n)."""
        s, (b, n), p = self.problem.settings, x0.shape, self.problem.p

        def full(value: float, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
            return torch.full((b, *shape), value, dtype=dtype, device=x0.device)

        x = self.problem.bounds.of(index).project(x0)
        whole = torch.int64
        return SolverRows(
            index=index, x=x, reference=x.clone(), values=full(0, 1 + p), first=full(0),
            gradients=torch.zeros(b, 1 + p, n, dtype=x.dtype, device=x.device),
            scale=full(0, 1 + p), mu=full(s.mu0), multipliers=full(0, p), d=torch.zeros_like(x),
            promise=full(0), t=full(0), t_low=full(0), t_high=full(torch.inf), trials=full(0, dtype=whole),
            phase=full(START, dtype=whole), best_x=x.clone(), best_values=full(torch.nan, 1 + p),
            best_violation=full(torch.inf), iterations=full(0, dtype=whole), evaluations=full(0, dtype=whole),
            gap=full(torch.inf), stationarity=full(torch.inf), mark=full(torch.inf),
            marked_at=full(0, dtype=whole), tau=full(1), nulls=full(0, dtype=whole),
            plain=full(False, dtype=torch.bool), stride=full(1),
            early=full(self.problem.complete, dtype=torch.bool),
            path=full(0), status=full(RUNNING, dtype=whole),
            cuts=Cuts.empty(b, s.cuts, 1 + p, n, x),
            hessian=self.new_hessian(x),
        )  # fmt: skip

    def trial(self, S: SolverRows) -> Tensor:
        """The points to evaluate next, (B, n)."""
        return self.problem.bounds.of(S.index).project(S.x + S.t.to(S.x.dtype).unsqueeze(-1) * S.d)

    def step(self, S: SolverRows, trial: Tensor, ev: Evaluation, alive: Tensor) -> None:
        """Digest the evaluation of ``trial``; rows that are not ``alive`` stay as they are."""
        alive = self._first_values(S, ev, alive)
        seen = (alive & ev.finite).nonzero().squeeze(-1)
        # Armijo_Wolfe: x_{k+1}, and with it H_{k+1}
        moved = trial - S.x
        place = self._store_cuts(S, trial, moved, ev, seen)
        accept, stuck = self.line_search.judge(S, trial, moved, ev, alive)
        self._record_best(S, trial, ev, seen)
        self._end_unbounded(S, ev, alive)
        self._move(S, accept.nonzero().squeeze(-1), trial, moved, ev, place)
        S.iterations += accept | (alive & (S.phase >= BUNDLE))

        # sqp_steering: the next direction, and the test of whether there is anything to gain from it
        searching = (accept & (S.phase <= SEARCH)).nonzero().squeeze(-1)
        S.phase[searching] = SEARCH
        if searching.numel():
            stuck[searching[self._next_direction(S, searching)]] = True
        if self.problem.settings.published:  # as published: a failed line search is the end
            self.stopping.end(S, (stuck & (S.status == RUNNING)).nonzero().squeeze(-1))
            return

        # beyond the paper: the bundle goes on where that fails
        self.phases.leave_search(S, (stuck | (accept & (S.phase == CERTIFY))).nonzero().squeeze(-1))
        bundling = S.phase >= BUNDLE
        self.phases.advance(S, alive)
        back = alive & bundling & (S.phase == SEARCH) & (S.status == RUNNING)
        self._search_again(S, back.nonzero().squeeze(-1))

    def assess(self, S: SolverRows, rows: Tensor) -> None:
        """Evidence for those of ``rows`` that a limit has stopped."""
        self.stopping.assess(S, rows)

    # ---- the parts of a step ----------------------------------------------------------------------

    def _first_values(self, S: SolverRows, ev: Evaluation, alive: Tensor) -> Tensor:
        """Keep f at the start and the scales of all functions; ends rows whose start is not finite.

        Returns the rows that are still alive.
        """
        S.evaluations += alive
        start = S.phase == START
        lost = alive & start & ~ev.finite
        S.status[lost] = CODE[Status.NONFINITE]
        alive = alive & ~lost
        first = (alive & start).nonzero().squeeze(-1)
        if first.numel():
            S.first[first] = ev.values[first, 0]
        if not self.problem.settings.published:  # its tolerance refers to the functions as they are
            unset = (S.scale == 0) & (alive & ev.finite).unsqueeze(-1)
            if bool(unset.any()):
                size = norm(ev.gradients).double()
                S.scale = torch.where(unset & (size > 0), 1 / size.clamp(min=1e-300), S.scale)
        return alive

    def _store_cuts(self, S: SolverRows, trial: Tensor, moved: Tensor, ev: Evaluation, rows: Tensor) -> Tensor:
        """Store the linear models at the trial points of ``rows``; returns their places (B,), 0 for other rows."""
        place = torch.zeros_like(S.phase)
        if rows.numel():
            step = select(trial, rows) - select(S.reference, rows)
            path = S.path[rows]
            if self.problem.settings.published:  # nobody else asks how far away a cut was made
                path = path + norm(select(moved, rows)).double()
            place[rows] = S.cuts.insert(
                rows, step, ev.values[rows], select(ev.gradients, rows), S.evaluations[rows], path
            )
        return place

    def _record_best(self, S: SolverRows, trial: Tensor, ev: Evaluation, rows: Tensor) -> None:
        """Keep the feasible point with the least objective, else the least violating one."""
        if rows.numel() == 0:
            return
        values = ev.values[rows]
        v, best_v, limit = self.problem.violation(values), S.best_violation[rows], self.problem.settings.feasibility
        feasible, had = v <= limit, best_v <= limit
        better = torch.where(
            feasible & had,
            values[:, 0] < S.best_values[rows, 0],
            torch.where(feasible | had, feasible, v < best_v),
        )
        rows = rows[better]
        S.best_values[rows], S.best_violation[rows] = values[better], v[better]
        S.best_x[rows] = trial[rows]

    def _end_unbounded(self, S: SolverRows, ev: Evaluation, alive: Tensor) -> None:
        """End rows whose objective has fallen below any sensible value at a feasible point."""
        far = UNBOUNDED * (1 + (S.first * S.scales[:, 0]).abs())
        runaway = alive & ev.finite & (ev.values[:, 0] * S.scales[:, 0] < -far)
        runaway &= self.problem.violation(ev.values) <= self.problem.settings.feasibility
        S.status[runaway] = CODE[Status.UNBOUNDED]

    def _move(self, S: SolverRows, rows: Tensor, trial: Tensor, moved: Tensor, ev: Evaluation, place: Tensor) -> None:
        """Accept the trial points of ``rows`` and update H with the new pair."""
        if rows.numel() == 0:
            return
        weights = torch.cat([S.mu[rows].unsqueeze(-1), S.multipliers[rows]], -1) * S.scales[rows]
        new_gradients, s = select(ev.gradients, rows), select(moved, rows)
        old = S.phase[rows] != START
        y = weighted(weights, new_gradients - select(S.gradients, rows))
        if self.problem.bounds.present:
            y = torch.where(s != 0, y, torch.zeros_like(y))
        pairs = rows if bool(old.all()) else rows[old]
        if pairs.numel():
            S.hessian.update(pairs, select(s, old), select(y, old))
        S.put("x", rows, select(trial, rows))
        S.put("gradients", rows, new_gradients)
        S.values[rows] = ev.values[rows]
        S.cuts.move_home(rows, place[rows], S.evaluations[rows])
        length = norm(s).double()
        S.stride[rows] = torch.where(old, length, S.stride[rows])
        S.path[rows] += length

    def _next_direction(self, S: SolverRows, rows: Tensor) -> Tensor:
        """Steer and test ``rows``; returns which of them (a mask) quasi-Newton directions no longer serve."""
        self.steering.set_direction(S, rows)
        crawling = self.stopping.crawls(S, rows)
        if self.problem.settings.published:
            return self.stopping.published_test(S, rows)
        if bool(crawling.any()):
            self.stopping.claim(S, rows[crawling], self.stopping.simple_bound(S, rows[crawling])[0])
        return crawling

    def _search_again(self, S: SolverRows, rows: Tensor) -> None:
        """Quasi-Newton directions for rows that come back from the bundle; it keeps those they do not serve."""
        if rows.numel() == 0:
            return
        S.t[rows] = 1.0
        self.steering.set_direction(S, rows)
        self.phases.take_over(S, rows[self.stopping.crawls(S, rows)])
