"""The algorithm: BFGS-SQP with an exact penalty (paper, appendix "Sketch of the BFGS-SQP algorithm").

One call of ``step`` digests one evaluation of every row: it accepts or rejects the trial point,
updates H, finds the next direction (steering), falls back on the bundle where that fails, and tests
for convergence. Rows are in different phases and do not wait for each other.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pwcf.solvers import bundle, line_search
from pwcf.solvers.hessian import make_hessian
from pwcf.solvers.oracle import Evaluation
from pwcf.solvers.phases import BundlePhases
from pwcf.solvers.rowwise import dot, norm, portions, select, weighted
from pwcf.solvers.state import BUNDLE, CERTIFY, RESTORE, RUNNING, SEARCH, START, Rows
from pwcf.solvers.status import STATUSES, Status
from pwcf.solvers.steering import steer, violation

# Bundle steps: serious if they reach this share of the promised decrease.
SERIOUS = 0.1
# They become longer after a gain of at least this share of the promise, by this factor, and are halved after a
# loss of this share.
BOLD, CAUTIOUS = (SERIOUS, 10.0, 1.0), (0.5, 2.0, 0.1)
# The quasi-Newton phase ends when a direction promises less than LITTLE, or a window of iterations brought
# less than CRAWL, of what tol allows. Its iterations are cheap, those of the bundle are not; but a bundle that
# can hold all the cuts of a vertex closes in on one much faster, so that it takes over EARLY. Where that comes to
# nothing (curved kinks) the row goes back to quasi-Newton steps.
LITTLE, CRAWL, EARLY = 1e-3, 0.1, 10.0
# An objective this far below its start (in units of its first gradient) is taken to have no minimum.
UNBOUNDED = 1e10
# A constraint counts as arrived at zero when this share of its value is left.
ARRIVED = 0.1


class BfgsSqp(BundlePhases):
    """init and step of the solver; the loop owns everything else."""

    # ---- init and trial ---------------------------------------------------------------------------

    def init(self, x0: Tensor, index: Tensor) -> Rows:
        """Fresh state for rows that start at x0 (B, n)."""
        s, (b, n), p = self.settings, x0.shape, self.oracle.p

        def full(value: float, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
            return torch.full((b, *shape), value, dtype=dtype, device=x0.device)

        x = self.bounds.of(index).project(x0)
        whole = torch.int64
        return Rows(
            index=index, x=x, reference=x.clone(), values=full(0, 1 + p), first=full(0),
            gradients=torch.zeros(b, 1 + p, n, dtype=x.dtype, device=x.device),
            scale=full(0, 1 + p), mu=full(s.mu0), multipliers=full(0, p), d=torch.zeros_like(x),
            promise=full(0), t=full(0), t_low=full(0), t_high=full(torch.inf), trials=full(0, dtype=whole),
            phase=full(START, dtype=whole), best_x=x.clone(), best_values=full(torch.nan, 1 + p),
            best_violation=full(torch.inf), iterations=full(0, dtype=whole), evaluations=full(0, dtype=whole),
            gap=full(torch.inf), stationarity=full(torch.inf), mark=full(torch.inf),
            marked_at=full(0, dtype=whole), tau=full(1), nulls=full(0, dtype=whole),
            plain=full(False, dtype=torch.bool), stride=full(1),
            early=full(self.complete, dtype=torch.bool),
            path=full(0), status=full(RUNNING, dtype=whole),
            cuts=bundle.Cuts.empty(b, s.cuts, 1 + p, n, x),
            hessian=make_hessian(s.hessian, b, n, s.memory, x),
        )  # fmt: skip

    def trial(self, S: Rows) -> Tensor:
        """The points to evaluate next, (B, n)."""
        return self.bounds.of(S.index).project(S.x + S.t.to(S.x.dtype).unsqueeze(-1) * S.d)

    # ---- one tick ---------------------------------------------------------------------------------

    def step(self, S: Rows, trial: Tensor, ev: Evaluation, alive: Tensor) -> None:
        """Digest the evaluation of ``trial``; rows that are not ``alive`` stay as they are."""
        S.evaluations += alive
        start = S.phase == START
        lost = alive & start & ~ev.finite
        S.status[lost] = STATUSES.index(Status.NONFINITE)
        alive = alive & ~lost
        first = (alive & start).nonzero().squeeze(-1)
        if first.numel():
            S.first[first] = ev.values[first, 0]
        self._set_scales(S, ev, alive & ev.finite)

        seen = (alive & ev.finite).nonzero().squeeze(-1)
        moved, place = trial - S.x, torch.zeros_like(S.phase)
        if seen.numel():
            step = select(trial, seen) - select(S.reference, seen)
            path = S.path[seen]
            if self.settings.test == "published":  # nobody else asks how far away a cut was made
                path = path + norm(select(moved, seen)).double()
            place[seen] = S.cuts.insert(
                seen, step, ev.values[seen], select(ev.gradients, seen), S.evaluations[seen], path
            )
        accept, failed = self._judge(S, trial, moved, ev, alive, start)
        self._record_best(S, trial, ev, seen)
        far = UNBOUNDED * (1 + (S.first * S.scales[:, 0]).abs())
        runaway = alive & ev.finite & (ev.values[:, 0] * S.scales[:, 0] < -far)
        runaway &= self.user_violation(ev.values) <= self.settings.feasibility
        S.status[runaway] = STATUSES.index(Status.UNBOUNDED)

        accepted = accept.nonzero().squeeze(-1)
        if accepted.numel():
            self._move(S, accepted, trial, moved, ev, place)
        S.iterations += accept | (alive & (S.phase >= BUNDLE))
        searching = (accept & (S.phase <= SEARCH)).nonzero().squeeze(-1)
        S.phase[searching] = SEARCH
        stuck = failed
        if searching.numel():
            crawling = self._sqp_direction(S, searching)
            if self.settings.test == "published":
                crawling = self._published(S, searching)
            elif bool(crawling.any()):
                self._claim(S, searching[crawling], self._simple_bound(S, searching[crawling])[0])
            stuck[searching[crawling]] = True
        if self.settings.test == "published":  # as published: a failed line search is the end
            self._end(S, (stuck & (S.status == RUNNING)).nonzero().squeeze(-1))
            return
        self._leave_search(S, (stuck | (accept & (S.phase == CERTIFY))).nonzero().squeeze(-1))
        bundling = S.phase >= BUNDLE
        for phase, act in ((BUNDLE, self._bundle), (RESTORE, self._restore), (CERTIFY, self._certify)):
            rows = (alive & (S.phase == phase) & (S.status == RUNNING)).nonzero().squeeze(-1)
            for portion in portions(rows, self._portion(S)):
                act(S, portion)
        self._search_again(S, (alive & bundling & (S.phase == SEARCH) & (S.status == RUNNING)).nonzero().squeeze(-1))

    def _leave_search(self, S: Rows, rows: Tensor) -> None:
        """Rows that quasi-Newton directions do not serve, or that CERTIFY has moved, go on to bundle steps, if any."""
        if self.settings.bundles:
            self._enter(S, rows, BUNDLE)
        else:
            self._conclude(S, rows)

    def _set_scales(self, S: Rows, ev: Evaluation, alive: Tensor) -> None:
        if self.settings.test == "published":  # its tolerance refers to the functions as they are
            return
        unset = (S.scale == 0) & alive.unsqueeze(-1)
        if bool(unset.any()):
            size = norm(ev.gradients).double()
            S.scale = torch.where(unset & (size > 0), 1 / size.clamp(min=1e-300), S.scale)

    def _judge(
        self, S: Rows, trial: Tensor, moved: Tensor, ev: Evaluation, alive: Tensor, start: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Which trial points are accepted, which directions are given up; moves t for the others."""
        scales = S.scales
        old, new = S.values * scales, ev.values * scales
        v_old, v_new = violation(old[:, 1:], self.equality), violation(new[:, 1:], self.equality)
        change = S.mu * (new[:, 0] - old[:, 0]) + v_new - v_old
        # The linear model at the actual displacement: with bounds it is not t times the one at d.
        linear = dot(S.gradients, moved.unsqueeze(1)).double() * scales
        promised = S.mu * linear[:, 0] + violation(old[:, 1:] + linear[:, 1:], self.equality) - v_old
        bundling = (S.phase == BUNDLE) | (S.phase == CERTIFY)
        restored = ev.finite & (S.phase == RESTORE) & (v_new <= 0.9 * v_old)
        armijo = ev.finite & (change <= line_search.ARMIJO * promised) & (promised < 0)
        serious = ev.finite & (change <= SERIOUS * S.promise) & (S.promise < 0)
        # SQP steps aim at the kink c = 0. A constraint that has all but arrived there pulls no longer: its
        # slope would make the search go on past the kink.
        arrived = new[:, 1:].abs() <= ARRIVED * old[:, 1:].abs()
        active = torch.where(self.equality, new[:, 1:].sign(), (new[:, 1:] > 0).double())
        active = torch.where(arrived, torch.zeros_like(active), active)
        weights = torch.cat([S.mu.unsqueeze(-1), active], -1) * scales
        inside = (
            S.d
            if not self.bounds.present
            else torch.where(trial == S.x + S.t.to(S.x.dtype).unsqueeze(-1) * S.d, S.d, torch.zeros_like(S.d))
        )
        slope = (dot(ev.gradients, inside.unsqueeze(1)).double() * weights).sum(-1)
        wolfe = slope >= line_search.WOLFE * S.promise
        S.trials += alive
        verdict = line_search.judge(armijo, wolfe, S.t, S.t_low, S.t_high, S.trials)
        searching = alive & (S.phase == SEARCH)
        more = searching & ~verdict.accept & ~verdict.failed
        S.t = torch.where(more, verdict.t, S.t)
        S.t_low = torch.where(more, verdict.t_low, S.t_low)
        S.t_high = torch.where(more, verdict.t_high, S.t_high)
        # Bundle steps adapt their length. One that is too long still brings a cut: where all of them can be kept,
        # steps grow at once and shrink late.
        good, bad = alive & bundling & serious, alive & bundling & ~serious
        least, growth, loss = BOLD if self.complete else CAUTIOUS
        longer = good & (change <= least * S.promise)
        S.tau = torch.where(longer, (growth * S.tau).clamp(max=1e6), S.tau)
        shorter = bad & (~ev.finite | (change > loss * S.promise.abs()))
        S.tau = torch.where(shorter, (0.5 * S.tau).clamp(min=1e-12), S.tau)
        S.nulls = torch.where(good, 0, S.nulls + bad.long())
        accept = alive & ev.finite & (start | restored | (searching & verdict.accept) | good)
        return accept, searching & verdict.failed

    def _move(self, S: Rows, rows: Tensor, trial: Tensor, moved: Tensor, ev: Evaluation, place: Tensor) -> None:
        """Accept the trial points of ``rows`` and update H with the new pair."""
        weights = torch.cat([S.mu[rows].unsqueeze(-1), S.multipliers[rows]], -1) * S.scales[rows]
        new_gradients, s = select(ev.gradients, rows), select(moved, rows)
        old = S.phase[rows] != START
        y = weighted(weights, new_gradients - select(S.gradients, rows))
        if self.bounds.present:
            y = torch.where(s != 0, y, torch.zeros_like(y))
        pairs = rows if bool(old.all()) else rows[old]
        if pairs.numel():
            S.hessian.update(pairs, select(s, old), select(y, old))
        _put(S, "x", rows, select(trial, rows))
        _put(S, "gradients", rows, new_gradients)
        S.values[rows] = ev.values[rows]
        S.cuts.move_home(rows, place[rows], S.evaluations[rows])
        length = norm(s).double()
        S.stride[rows] = torch.where(old, length, S.stride[rows])
        S.path[rows] += length

    def _record_best(self, S: Rows, trial: Tensor, ev: Evaluation, rows: Tensor) -> None:
        """Keep the feasible point with the least objective, else the least violating one."""
        if rows.numel() == 0:
            return
        values = ev.values[rows]
        v, best_v, limit = self.user_violation(values), S.best_violation[rows], self.settings.feasibility
        feasible, had = v <= limit, best_v <= limit
        better = torch.where(
            feasible & had,
            values[:, 0] < S.best_values[rows, 0],
            torch.where(feasible | had, feasible, v < best_v),
        )
        rows = rows[better]
        S.best_values[rows], S.best_violation[rows] = values[better], v[better]
        S.best_x[rows] = trial[rows]

    # ---- directions -------------------------------------------------------------------------------

    def _sqp_direction(self, S: Rows, rows: Tensor) -> Tensor:
        """Steering: set d, mu and multipliers of ``rows``; tells which of them make no progress."""
        bounds = self.bounds.of(S.index[rows])
        scales, x, G = S.scales[rows], select(S.x, rows), select(S.gradients, rows)
        c = S.values[rows, 1:] * scales[:, 1:]
        # Two-metric projection: entries at a bound with the Lagrangian's gradient pushing out stay. The
        # multipliers of the last direction tell which; what these get wrong is put right at once below.
        guess = torch.cat([S.mu[rows].unsqueeze(-1), S.multipliers[rows]], -1) * scales
        free = bounds.free(x, weighted(guess, G)) if bounds.present else None
        metric = S.hessian.metric(rows, G if free is None else G * free.unsqueeze(1))
        gram = metric.gram * scales.unsqueeze(-1) * scales.unsqueeze(1)
        found = steer(gram, c, S.mu[rows], self.equality)
        d = -metric.combine(torch.cat([found.mu.unsqueeze(-1), found.multipliers], -1) * scales)
        if free is not None:
            blocked = bounds.free(x, -d)
            assert blocked is not None
            d = d * free * blocked
        _put(S, "d", rows, d)
        S.promise[rows] = found.mu * found.change_f + found.violation_ahead - violation(c, self.equality)
        S.mu[rows], S.multipliers[rows] = found.mu, found.multipliers
        # Among many kinks all steps are short for a long while: begin at twice the last one, not at 1.
        last = torch.where(S.t[rows] > 0, S.t[rows], 1.0)
        S.t[rows], S.t_low[rows], S.t_high[rows] = (2 * last).clamp(max=1.0), 0.0, torch.inf
        S.trials[rows] = 0
        return self._crawls(S, rows)

    def _search_again(self, S: Rows, rows: Tensor) -> None:
        """Quasi-Newton directions for rows that come back from the bundle; it keeps those they do not serve."""
        if rows.numel() == 0:
            return
        S.t[rows] = 1.0
        stuck = rows[self._sqp_direction(S, rows)]
        self._enter(S, stuck, BUNDLE)
        for portion in portions(stuck, self._portion(S)):
            self._bundle(S, portion)

    def _crawls(self, S: Rows, rows: Tensor) -> Tensor:
        """True where the direction promises almost nothing, or a window of iterations brought nothing."""
        scale = self._objective_scale(S, rows) * S.scales[rows, 0]
        unit = S.mu[rows] * scale * self.settings.tol
        hopeless = ~(S.promise[rows] < 0) | ~torch.isfinite(S.d[rows].sum(-1))
        little = -S.promise[rows] <= LITTLE * unit
        crawl = torch.where(S.early[rows], EARLY, CRAWL)
        return hopeless | little | ~self._progress(S, rows, crawl * unit, self.settings.window)


def _put(S: Rows, name: str, rows: Tensor, value: Tensor) -> None:
    if rows.numel() == S.count:
        setattr(S, name, value)
    else:
        getattr(S, name)[rows] = value
