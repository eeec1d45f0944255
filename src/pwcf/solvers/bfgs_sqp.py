"""The algorithm: BFGS-SQP with an exact penalty (paper, appendix "Sketch of the BFGS-SQP algorithm").

One call of ``step`` digests one evaluation of every row: it accepts or rejects the trial point,
updates H, finds the next direction (steering), falls back on the bundle where that fails, and tests
for convergence. Rows are in different phases and do not wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from pwcf.solvers import bundle, line_search
from pwcf.solvers.bounds import Bounds
from pwcf.solvers.hessian import make_hessian
from pwcf.solvers.oracle import Evaluation, Oracle
from pwcf.solvers.rowwise import bmm, dot, norm, weighted
from pwcf.solvers.state import BUNDLE, CERTIFY, RESTORE, RUNNING, SEARCH, START, Rows
from pwcf.solvers.status import Status
from pwcf.solvers.steering import NEGLIGIBLE, SUFFICIENT, steer, violation

STATUSES = list(Status)
# Bundle steps: serious if they reach this share of the promised decrease.
SERIOUS = 0.1
# The quasi-Newton phase ends when a direction promises less than LITTLE, or a window of iterations brought
# less than CRAWL, of what tol allows. Its iterations are cheap, those of the bundle are not.
LITTLE, CRAWL = 1e-3, 0.1
# In the bound, a cut this many times tol below the function could carry at most a thousandth of the weight.
RELEVANT = 1e3
# In bundle steps mu is lowered faster than in steering: each costs a QP. Below MU_LEAST a problem is given
# up as infeasible.
MU_CUT, MU_LEAST = 0.5, 1e-8
# An objective this far below its start (in units of its first gradient) is taken to have no minimum.
UNBOUNDED = 1e10
# Restoration converges like Newton's method; if six steps do not do it, more will not.
RESTORATIONS = 6
# Multipliers above this share count as carrying weight.
WEIGHTY = 1e-7
# Iterations between two published tests of a row: each costs more than an iteration.
PUBLISHED_EVERY = 5
# Gradients this close count as neighbouring in the published test; GRANSO's choice.
NEIGHBOURHOOD = 1e-4
# A constraint counts as arrived at zero when this share of its value is left.
ARRIVED = 0.1
# Null steps in a row after which the quasi-Newton metric is given up.
NULLS = 8
# Multipliers of the bound reach this far beyond those of the penalty function, 1/mu. Without a limit the two
# sides of an equality could grow together for ever.
MULTIPLIER_ROOM = 10.0
# Bundle steps between two tests of a row; a test costs as much as a step.
TEST_EVERY = 3


@dataclass(frozen=True)
class Settings:
    """Resolved settings of a run."""

    tol: float
    feasibility: float
    hessian: str
    memory: int
    cuts: int
    columns: int
    mu0: float
    test: str
    window: int


class BfgsSqp:
    """init and step of the solver; the loop owns everything else."""

    def __init__(self, oracle: Oracle, bounds: Bounds, settings: Settings) -> None:
        self.oracle, self.bounds, self.settings = oracle, bounds, settings
        self.equality = oracle.sense

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
            marked_at=full(0, dtype=whole), tau=full(1), nulls=full(0, dtype=whole), plain=full(False, dtype=torch.bool), stride=full(1), path=full(0), status=full(RUNNING, dtype=whole),
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
        place = torch.zeros_like(S.phase)
        if seen.numel():
            step = _rows(trial, seen) - _rows(S.reference, seen)
            path = S.path[seen] + norm(_rows(trial, seen) - _rows(S.x, seen)).double()
            place[seen] = S.cuts.insert(
                seen, step, ev.values[seen], _rows(ev.gradients, seen), S.evaluations[seen], path
            )
        accept, failed = self._judge(S, trial, ev, alive, start)
        self._record_best(S, trial, ev, seen)
        far = UNBOUNDED * (1 + (S.first * S.scales[:, 0]).abs())
        runaway = alive & ev.finite & (ev.values[:, 0] * S.scales[:, 0] < -far)
        runaway &= self.user_violation(ev.values) <= self.settings.feasibility
        S.status[runaway] = STATUSES.index(Status.UNBOUNDED)

        accepted = accept.nonzero().squeeze(-1)
        if accepted.numel():
            self._move(S, accepted, trial, ev, place)
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
        self._enter(S, (stuck | (accept & (S.phase == CERTIFY))).nonzero().squeeze(-1), BUNDLE)
        for phase, act in ((BUNDLE, self._bundle), (RESTORE, self._restore), (CERTIFY, self._certify)):
            rows = (alive & (S.phase == phase) & (S.status == RUNNING)).nonzero().squeeze(-1)
            for portion in rows.split(self._portion(S)):
                act(S, portion)

    def _enter(self, S: Rows, rows: Tensor, phase: int) -> None:
        """Let rows begin a phase: progress is measured anew."""
        S.phase[rows] = phase
        if phase == BUNDLE:
            S.tau[rows] = torch.where(S.plain[rows], 4 * S.stride[rows] / S.mu[rows], 1.0)
        S.nulls[rows] = 0
        S.mark[rows] = torch.inf
        S.marked_at[rows] = S.iterations[rows]
        S.trials[rows] = 0

    def _set_scales(self, S: Rows, ev: Evaluation, alive: Tensor) -> None:
        if self.settings.test == "published":  # its tolerance refers to the functions as they are
            return
        unset = (S.scale == 0) & alive.unsqueeze(-1)
        if bool(unset.any()):
            size = norm(ev.gradients).double()
            S.scale = torch.where(unset & (size > 0), 1 / size.clamp(min=1e-300), S.scale)

    def _judge(
        self, S: Rows, trial: Tensor, ev: Evaluation, alive: Tensor, start: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Which trial points are accepted, which directions are given up; moves t for the others."""
        scales = S.scales
        old, new = S.values * scales, ev.values * scales
        v_old, v_new = violation(old[:, 1:], self.equality), violation(new[:, 1:], self.equality)
        change = S.mu * (new[:, 0] - old[:, 0]) + v_new - v_old
        # The linear model at the actual displacement: with bounds it is not t times the one at d.
        moved = trial - S.x
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
        inside = S.d if not self.bounds.present else torch.where(trial == S.x + S.t.to(S.x.dtype).unsqueeze(-1) * S.d, S.d, torch.zeros_like(S.d))
        slope = (dot(ev.gradients, inside.unsqueeze(1)).double() * weights).sum(-1)
        wolfe = slope >= line_search.WOLFE * S.promise
        S.trials += alive
        verdict = line_search.judge(armijo, wolfe, S.t, S.t_low, S.t_high, S.trials)
        searching = alive & (S.phase == SEARCH)
        more = searching & ~verdict.accept & ~verdict.failed
        S.t = torch.where(more, verdict.t, S.t)
        S.t_low = torch.where(more, verdict.t_low, S.t_low)
        S.t_high = torch.where(more, verdict.t_high, S.t_high)
        # Bundle steps adapt their length: longer after a good step, shorter after a bad one.
        good, bad = alive & bundling & serious, alive & bundling & ~serious
        very_good = good & (change <= 0.5 * S.promise)
        S.tau = torch.where(very_good, (2 * S.tau).clamp(max=1e6), S.tau)
        worse = bad & (~ev.finite | (change > 0.1 * S.promise.abs()))
        S.tau = torch.where(worse, (0.5 * S.tau).clamp(min=1e-12), S.tau)
        S.nulls = torch.where(good, 0, S.nulls + bad.long())
        accept = alive & ev.finite & (start | restored | (searching & verdict.accept) | good)
        return accept, searching & verdict.failed

    def _move(self, S: Rows, rows: Tensor, trial: Tensor, ev: Evaluation, place: Tensor) -> None:
        """Accept the trial points of ``rows`` and update H with the new pair."""
        weights = torch.cat([S.mu[rows].unsqueeze(-1), S.multipliers[rows]], -1) * S.scales[rows]
        x, new_x = _rows(S.x, rows), _rows(trial, rows)
        new_gradients = _rows(ev.gradients, rows)
        old = S.phase[rows] != START
        s = new_x - x
        y = weighted(weights, new_gradients - _rows(S.gradients, rows))
        if self.bounds.present:
            y = torch.where(s != 0, y, torch.zeros_like(y))
        pairs = rows if bool(old.all()) else rows[old]
        if pairs.numel():
            S.hessian.update(pairs, _rows(s, old), _rows(y, old))
        _put(S, "x", rows, new_x)
        _put(S, "gradients", rows, new_gradients)
        S.values[rows] = ev.values[rows]
        S.cuts.home[rows] = place[rows]
        length = norm(s).double()
        S.stride[rows] = torch.where(old, length, S.stride[rows])
        S.path[rows] += length

    def user_violation(self, values: Tensor) -> Tensor:
        return violation(values[:, 1:], self.equality)

    def _record_best(self, S: Rows, trial: Tensor, ev: Evaluation, rows: Tensor) -> None:
        """Keep the feasible point with the least objective, else the least violating one."""
        if rows.numel() == 0:
            return
        values = ev.values[rows]
        v, best_v, limit = self.user_violation(values), S.best_violation[rows], self.settings.feasibility
        feasible, had = v <= limit, best_v <= limit
        better = torch.where(
            feasible & had, values[:, 0] < S.best_values[rows, 0], torch.where(feasible | had, feasible, v < best_v)
        )
        rows = rows[better]
        S.best_values[rows], S.best_violation[rows] = values[better], v[better]
        S.best_x[rows] = trial[rows]

    # ---- directions -------------------------------------------------------------------------------

    def _sqp_direction(self, S: Rows, rows: Tensor) -> Tensor:
        """Steering: set d, mu and multipliers of ``rows``; tells which of them make no progress."""
        bounds = self.bounds.of(S.index[rows])
        scales, x, G = S.scales[rows], _rows(S.x, rows), _rows(S.gradients, rows)
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
        S.t[rows], S.t_low[rows], S.t_high[rows] = 1.0, 0.0, torch.inf
        S.trials[rows] = 0
        return self._crawls(S, rows)

    def _objective_scale(self, S: Rows, rows: Tensor) -> Tensor:
        """What "relative" means: |F|, or where F is near zero a small share of what was gained."""
        F = torch.where(S.best_violation[rows] <= self.settings.feasibility, S.best_values[rows, 0], S.values[rows, 0])
        gained = (S.first[rows] - F).abs()
        return torch.maximum(F.abs(), (1e-3 * gained).clamp(max=1.0))

    def _crawls(self, S: Rows, rows: Tensor) -> Tensor:
        """True where the direction promises almost nothing, or a window of iterations brought nothing."""
        scale = self._objective_scale(S, rows) * S.scales[rows, 0]
        unit = S.mu[rows] * scale * self.settings.tol
        hopeless = ~(S.promise[rows] < 0) | ~torch.isfinite(S.d[rows].sum(-1))
        little = -S.promise[rows] <= LITTLE * unit
        return hopeless | little | ~self._progress(S, rows, CRAWL * unit, self.settings.window)

    def _merit(self, S: Rows, rows: Tensor) -> Tensor:
        """The penalty function in units of scaled f."""
        values = S.values[rows] * S.scales[rows]
        return values[:, 0] + violation(values[:, 1:], self.equality) / S.mu[rows]

    def _progress(self, S: Rows, rows: Tensor, enough: Tensor, window: int) -> Tensor:
        """False where the last ``window`` iterations lowered the merit by less than ``enough`` / mu."""
        merit = self._merit(S, rows)
        due = S.iterations[rows] - S.marked_at[rows] >= window
        lowered = S.mark[rows] - merit > enough / S.mu[rows]
        renew = lowered | (S.mark[rows] == torch.inf)
        S.mark[rows] = torch.where(renew, merit, S.mark[rows])
        S.marked_at[rows] = torch.where(renew, S.iterations[rows], S.marked_at[rows])
        return ~(due & ~lowered)

    # ---- bundle steps and the convergence test ----------------------------------------------------

    def _bundle(self, S: Rows, rows: Tensor) -> None:
        """The next bundle step; rows it has nothing for go on to CERTIFY."""
        model = self._model(S, rows)
        unit = self._objective_scale(S, rows) * S.scales[rows, 0] * self.settings.tol
        horizon = S.mu[rows] * unit + S.promise[rows].abs()
        for part, narrow in self._classes(model, horizon / S.mu[rows]):
            self._bundle_class(S, rows[part], narrow, unit[part])

    def _classes(self, model: bundle.Model, horizon: Tensor) -> Iterator[tuple[Tensor, bundle.Model]]:
        """Rows by how many columns can matter to them, with just these columns.

        A cut RELEVANT times the ``horizon`` below the function carries next to no weight. The number of
        columns that can is a matter of the row alone, and the QP's cost grows with its cube.
        """
        relevant = (model.score >= -RELEVANT * horizon.unsqueeze(-1)).sum(1).clamp(min=1)
        most = model.heights.shape[1]
        sizes = sorted({min(size, most) for size in (16, 32, 48, 64, 96, most)})
        for low, high in zip([0, *sizes], sizes, strict=False):
            part = ((relevant > low) & (relevant <= high)).nonzero().squeeze(-1)
            if part.numel():
                yield part, bundle.Model(*(tensor[part, :high] for tensor in model))

    def _bundle_class(self, S: Rows, rows: Tensor, model: bundle.Model, unit: Tensor) -> None:
        s, p = self.settings, self.oracle.p
        x, values, scales, mu = S.x[rows], S.values[rows], S.scales[rows], S.mu[rows]
        bounds = self.bounds.of(S.index[rows])
        v = violation((values * scales)[:, 1:], self.equality)
        weights = torch.cat([mu.unsqueeze(-1), S.multipliers[rows]], -1) * scales
        mask = bounds.free(x, weighted(weights, S.gradients[rows]))
        V = model.V if mask is None else model.V * mask.unsqueeze(1)
        # Among many flat faces H can become so lopsided that no step along it is of use: then the plain
        # metric takes its place, with steps about as long as the last good one.
        switch = ~S.plain[rows] & (S.nulls[rows] >= NULLS)
        plain = S.plain[rows] = S.plain[rows] | switch
        S.tau[rows] = torch.where(switch, 4 * S.stride[rows] / mu, S.tau[rows])
        metric = S.hessian.metric(rows, V)
        gram = torch.where(plain[:, None, None], bmm(V, V.mT).double(), metric.gram) * S.tau[rows][:, None, None]
        found = bundle.bundle_step(model, gram, mu, v, p)
        step = torch.where(plain.unsqueeze(-1), weighted(found.weights, V), metric.combine(found.weights))
        step = -step * S.tau[rows].to(x.dtype).unsqueeze(-1)
        if mask is not None:
            step = step * mask
        S.d[rows], S.t[rows], S.promise[rows] = step, 1.0, found.promise
        S.multipliers[rows] = found.multipliers
        # Steering with all faces of a kink in view: where the step leaves the violation, f weighs too much.
        heavy = (v > NEGLIGIBLE) & (v - found.violation_ahead < SUFFICIENT * v) & (mu > MU_LEAST)
        S.stationarity[rows] = norm(step).double()
        # Cuts that carry weight are kept.
        S.cuts.mark_used(rows, model.source, found.weights > WEIGHTY * mu.unsqueeze(-1), S.evaluations[rows])

        ending = ~(found.promise < -1e-14 * (1 + v)) | ~torch.isfinite(step.sum(-1))
        ending |= ~self._progress(S, rows, 0.1 * unit * mu, s.window + s.cuts // 2)
        test = ~ending & (-found.promise <= 10 * unit * mu) & (S.trials[rows] % TEST_EVERY == 0)
        if bool(test.any()):
            self._test(S, rows[test], _pick(model, test))
        S.mu[rows] = torch.where(heavy, MU_CUT * mu, mu)
        self._enter(S, rows[heavy], BUNDLE)
        ending &= ~heavy & (S.status[rows] == RUNNING)
        # What H sees as the end may be H's fault: go on in the plain metric before believing it.
        S.plain[rows] |= ending
        self._enter(S, rows[ending & ~plain], BUNDLE)
        ending &= plain
        violated = self.user_violation(values) > s.feasibility
        self._enter(S, rows[ending & violated], RESTORE)
        self._enter(S, rows[ending & ~violated], CERTIFY)

    def _restore(self, S: Rows, rows: Tensor) -> None:
        """The shortest step that satisfies all cuts of the constraints, with half the tolerance to spare.

        Bundle steps end within a little of the feasible set; the answer must lie inside.
        """
        s, p = self.settings, self.oracle.p
        violated = self.user_violation(S.values[rows]) > s.feasibility
        self._enter(S, rows[~violated], CERTIFY)
        # Steps that do not lead there: f weighs too much, or there is nothing feasible to be found.
        tired = violated & (S.trials[rows] >= RESTORATIONS)
        hope = S.mu[rows] > MU_LEAST
        S.mu[rows[tired & hope]] *= 0.1
        self._enter(S, rows[tired & hope], BUNDLE)
        self._end(S, rows[tired & ~hope])
        rows = rows[violated & ~tired]
        if rows.numel() == 0:
            return
        model, x = self._model(S, rows), S.x[rows]
        spare = 0.5 * s.feasibility / max(p, 1) * torch.cat([torch.zeros_like(S.scales[:1, :1]), torch.where(self.equality, 0.0, 1.0).double().unsqueeze(0)], 1)
        heights = model.heights + (spare * S.scales[rows]).gather(1, model.owner.clamp(min=0))
        gram = bmm(model.V, model.V.mT).double()
        tiny = torch.full_like(S.mu[rows], 1e-12)
        v = violation((S.values[rows] * S.scales[rows])[:, 1:], self.equality)
        found = bundle.bundle_step(model._replace(heights=heights), gram, tiny, v, p)
        S.d[rows], S.t[rows] = -weighted(found.weights, model.V), 1.0

    def _certify(self, S: Rows, rows: Tensor) -> None:
        """Look for the cuts that the bound still lacks, a short way down the aggregate gradient.

        Where the bound says something is left to gain, its aggregate gradient q is not small; the point
        x - r q/|q| either is better or gives a cut with a smaller slope along q (Wolfe's method for the
        shortest vector of a convex hull, over the gradients within r of x).
        """
        s, x = self.settings, S.x[rows]
        unit = self._objective_scale(S, rows) * S.scales[rows, 0] * s.tol
        model = self._model(S, rows)
        q = torch.zeros_like(x)
        for part, narrow in self._classes(model, unit):
            q[part] = self._test(S, rows[part], narrow)
        length = norm(q).double()
        S.d[rows] = -(0.25 * unit / length.clamp(min=1e-300)).to(x.dtype).unsqueeze(-1) * q
        S.t[rows] = 1.0
        S.promise[rows] = -0.1 * unit * S.mu[rows]
        # Give up where the bound has not halved for a while.
        halved = S.gap[rows] < 0.5 * S.mark[rows]
        S.mark[rows] = torch.where(halved, S.gap[rows], S.mark[rows])
        S.marked_at[rows] = torch.where(halved, S.iterations[rows], S.marked_at[rows])
        patience = 20 + min(x.shape[1] // 2, 50)
        ending = (S.iterations[rows] - S.marked_at[rows] > patience) | ~(length > 0)
        self._end(S, rows[ending])

    def _model(self, S: Rows, rows: Tensor) -> bundle.Model:
        """The linear models of ``rows`` at their current points."""
        step = S.x[rows] - S.reference[rows]
        return bundle.model(
            S.cuts, rows, step, S.values[rows], S.scales[rows], self.equality, S.evaluations[rows],
            self.settings.columns,
        )

    def _test(self, S: Rows, rows: Tensor, model: bundle.Model) -> Tensor:
        """The convergence test with the best multipliers the cuts offer.

        Returns the aggregate gradient of the bound, without entries held by a bound.
        """
        s, x = self.settings, S.x[rows]
        target = (0.5 * s.tol * self._objective_scale(S, rows) * S.scales[rows, 0]).clamp(min=1e-300)
        bounds = self.bounds.of(S.index[rows])
        room = MULTIPLIER_ROOM / S.mu[rows]
        left, q, z = bundle.gap(model, self.oracle.p, x, bounds, self._reach(S, rows), target, room)
        certifying = S.phase[rows] == CERTIFY
        S.cuts.mark_used(rows, model.source, (z > WEIGHTY) & certifying.unsqueeze(-1), S.evaluations[rows])
        simple, simple_q = self._simple_bound(S, rows)
        q = torch.where((simple < left).unsqueeze(-1), simple_q, q)
        self._claim(S, rows, torch.minimum(left, simple))
        free = bounds.free(x, q)
        return q if free is None else q * free

    def _reach(self, S: Rows, rows: Tensor) -> Tensor:
        """How far a better point may lie: as far as the row has come, and a tenth of the size of x at least."""
        x = _rows(S.x, rows)
        return torch.maximum(norm(x - _rows(S.reference, rows)), 0.1 * (1 + norm(x))).double()

    def _simple_bound(self, S: Rows, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The bound with the multipliers of the last direction and the gradients at x alone.

        Valid like any other; where the problem is smooth it is as good as the best, and costs no QP.
        """
        mu = S.mu[rows].unsqueeze(-1)
        own = torch.cat([torch.ones_like(mu), S.multipliers[rows] / mu], -1) * S.scales[rows]
        q = weighted(own, _rows(S.gradients, rows))
        slope = bundle.slope_bound(q, _rows(S.x, rows), self.bounds.of(S.index[rows]), self._reach(S, rows))
        return slope - dot(own[:, 1:], S.values[rows, 1:]), q

    def _claim(self, S: Rows, rows: Tensor, left: Tensor) -> None:
        """Say CONVERGED where the best point is feasible and ``left`` (scaled) leaves at most tol to gain."""
        s, sf = self.settings, S.scales[rows, 0]
        scale = self._objective_scale(S, rows)
        ahead = S.best_values[rows, 0] - S.values[rows, 0]
        total = ahead.clamp(min=0) + (left / sf).clamp(min=0)
        feasible = S.best_violation[rows] <= s.feasibility
        # A known feasible point below the bound contradicts it: the problem is not convex on this scale.
        feasible &= ahead >= -torch.maximum(left / sf, s.tol * scale)
        relative = torch.where(total == 0, torch.zeros_like(total), total / scale.clamp(min=1e-300))
        relative = torch.where(feasible, relative, torch.inf)
        S.gap[rows] = relative
        S.status[rows] = torch.where(relative <= s.tol, STATUSES.index(Status.CONVERGED), S.status[rows])

    def _published(self, S: Rows, rows: Tensor) -> Tensor:
        """The paper's test: the step of the augmented dual over neighbouring gradients is short. For comparison.

        Returns which rows have no usable direction; rows that pass say CONVERGED.
        """
        s, p = self.settings, self.oracle.p
        scales, mu = S.scales[rows], S.mu[rows]
        c = (S.values[rows] * scales)[:, 1:]
        v = violation(c, self.equality)
        # Alone in its neighbourhood, a gradient gives the direction just found.
        length = norm(S.d[rows]).double()
        near = S.cuts.stamp[rows] >= 0
        near &= S.path[rows].unsqueeze(-1) - S.cuts.path[rows] <= NEIGHBOURHOOD
        due = S.iterations[rows] % PUBLISHED_EVERY == 0
        company = ((near.sum(1) > 1) & (due | (length <= s.tol))).nonzero().squeeze(-1)
        for part in company.split(self._portion(S)) if company.numel() else ():
            chosen = rows[part]
            wide = bundle.neighbours(
                self._model(S, chosen), S.cuts, chosen, S.path[chosen], NEIGHBOURHOOD, c[part]
            )
            for some, model in self._classes(wide, torch.ones_like(mu[part])):
                metric = S.hessian.metric(chosen[some], model.V)
                weights = bundle.bundle_step(model, metric.gram, mu[part][some], v[part][some], p).weights
                length[part[some]] = norm(metric.combine(weights)).double()
        S.stationarity[rows] = length
        done = (length <= s.tol) & (self.user_violation(S.values[rows]) <= s.feasibility)
        S.gap[rows] = length
        S.status[rows] = torch.where(done, STATUSES.index(Status.CONVERGED), S.status[rows])
        return ~done & (~(S.promise[rows] < 0) | ~torch.isfinite(S.d[rows].sum(-1)))

    def assess(self, S: Rows) -> None:
        """Evidence for rows that hit a limit, as of their last point; their status stays."""
        limits = [STATUSES.index(Status.MAX_ITERATIONS), STATUSES.index(Status.BUDGET)]
        limited = (S.status == limits[0]) | (S.status == limits[1])
        rows = (limited & torch.isfinite(S.best_values[:, 0])).nonzero().squeeze(-1)
        if rows.numel() == 0:
            return
        for portion in rows.split(self._portion(S)):
            status = S.status[portion]
            self._test(S, portion, self._model(S, portion))
            S.status[portion] = status

    def _portion(self, S: Rows) -> int:
        """Rows at a time: a portion's gathered cuts must not take more than about 200 MB."""
        size = S.x.shape[1] * max(self.settings.columns, self.settings.cuts * (1 + self.oracle.p))
        return max(1, 25_000_000 // max(1, size))

    def _end(self, S: Rows, rows: Tensor) -> None:
        """Rows without a way on: stalled or infeasible, unless the test has just said converged."""
        feasible = S.best_violation[rows] <= self.settings.feasibility
        code = torch.where(feasible, STATUSES.index(Status.STALLED), STATUSES.index(Status.INFEASIBLE))
        S.status[rows] = torch.where(S.status[rows] == RUNNING, code, S.status[rows])


def _rows(tensor: Tensor, rows: Tensor) -> Tensor:
    """tensor[rows] without a copy when it is all of them."""
    if rows.dtype == torch.bool:
        return tensor if bool(rows.all()) else tensor[rows]
    return tensor if rows.numel() == tensor.shape[0] else tensor[rows]


def _put(S: Rows, name: str, rows: Tensor, value: Tensor) -> None:
    if rows.numel() == S.count:
        setattr(S, name, value)
    else:
        getattr(S, name)[rows] = value


def _pick(model: bundle.Model, mask: Tensor) -> bundle.Model:
    return bundle.Model(*(tensor[mask] for tensor in model))

