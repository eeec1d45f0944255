"""When a row may stop: the bundle bound, the published test, and what counts as progress."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from pwcf.solvers import bundle
from pwcf.solvers.bounds import Bounds
from pwcf.solvers.dual_qp import by_size
from pwcf.solvers.oracle import Oracle
from pwcf.solvers.rowwise import dot, norm, portions, select, weighted
from pwcf.solvers.state import CERTIFY, RUNNING, Rows
from pwcf.solvers.status import STATUSES, Status
from pwcf.solvers.steering import violation

# In the bound, a cut this many times tol below the function could carry at most a thousandth of the weight.
RELEVANT = 1e3
# Numbers of columns that rows are rounded up to.
CLASSES = (16, 32, 64)
# Multipliers above this share count as carrying weight.
WEIGHTY = 1e-7
# Multipliers of the bound reach this far beyond those of the penalty function, 1/mu. Without a limit the two
# sides of an equality could grow together for ever.
MULTIPLIER_ROOM = 10.0
# Iterations between two published tests of a row: each costs more than an iteration.
PUBLISHED_EVERY = 5
# Gradients this close count as neighbouring in the published test; GRANSO's choice.
NEIGHBOURHOOD = 1e-4


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
    certifiable: bool
    """Whether the store can hold all the cuts that the proof of a vertex needs."""
    bundles: bool
    """Whether bundle steps follow SEARCH. Without, they are the last resort of a restoration that fails."""


class StoppingTest:
    """Evidence of all rows. The bound holds for any multipliers, whoever found them."""

    def __init__(self, oracle: Oracle, bounds: Bounds, settings: Settings) -> None:
        self.oracle, self.bounds, self.settings = oracle, bounds, settings
        self.equality = oracle.sense
        # A bundle can hold every face it needs where these are few and none is hidden by a fold.
        self.complete = settings.certifiable and not oracle.folded

    def user_violation(self, values: Tensor) -> Tensor:
        return violation(values[:, 1:], self.equality)

    def _objective_scale(self, S: Rows, rows: Tensor) -> Tensor:
        """What "relative" means: |F|, or where F is near zero a small share of what was gained."""
        F = torch.where(S.best_violation[rows] <= self.settings.feasibility, S.best_values[rows, 0], S.values[rows, 0])
        gained = (S.first[rows] - F).abs()
        return torch.maximum(F.abs(), (1e-3 * gained).clamp(max=1.0))

    def _merit(self, S: Rows, rows: Tensor) -> Tensor:
        """The penalty function in units of scaled f."""
        values = S.values[rows] * S.scales[rows]
        return values[:, 0] + violation(values[:, 1:], self.equality) / S.mu[rows]

    def _progress(self, S: Rows, rows: Tensor, enough: Tensor, window: int | Tensor) -> Tensor:
        """False where the last ``window`` iterations lowered the merit by less than ``enough`` / mu."""
        merit = self._merit(S, rows)
        due = S.iterations[rows] - S.marked_at[rows] >= window
        lowered = S.mark[rows] - merit > enough / S.mu[rows]
        renew = lowered | (S.mark[rows] == torch.inf)
        S.mark[rows] = torch.where(renew, merit, S.mark[rows])
        S.marked_at[rows] = torch.where(renew, S.iterations[rows], S.marked_at[rows])
        return ~(due & ~lowered)

    def _classes(self, model: bundle.Model, horizon: Tensor) -> Iterator[tuple[Tensor, bundle.Model]]:
        """Rows by how many columns can matter to them, with just these columns.

        A cut RELEVANT times the ``horizon`` below the function carries next to no weight. The number of
        columns that can is a matter of the row alone, and the QP's cost grows with its cube.
        """
        relevant = (model.score >= -RELEVANT * horizon.unsqueeze(-1)).sum(1).clamp(min=1)
        for part, size in by_size(relevant, CLASSES, model.heights.shape[1]):
            yield part, bundle.Model(*(select(tensor, part)[:, :size] for tensor in model))

    def _model(self, S: Rows, rows: Tensor) -> bundle.Model:
        """The linear models of ``rows`` at their current points."""
        step = S.x[rows] - S.reference[rows]
        return bundle.model(
            S.cuts,
            rows,
            step,
            S.values[rows],
            S.scales[rows],
            self.equality,
            S.evaluations[rows],
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
        S.cuts.mark_used(rows, model, (z > WEIGHTY) & certifying.unsqueeze(-1), S.evaluations[rows])
        simple, simple_q = self._simple_bound(S, rows)
        q = torch.where((simple < left).unsqueeze(-1), simple_q, q)
        self._claim(S, rows, torch.minimum(left, simple))
        free = bounds.free(x, q)
        return q if free is None else q * free

    def _unfolded_test(self, S: Rows, rows: Tensor) -> None:
        """The same test with the columns behind the folds in place of the folds' few cuts.

        A fold shows one gradient at a time, and none where it is satisfied; the user's own constraints show
        all of theirs at x. The objective is not evaluated for this.
        """
        p = self.oracle.p
        for part in portions(rows, self._portion(S)):
            x = S.x[part]
            found = self.oracle.components(x, S.index[part])
            if found is None:
                return
            values, gradients, equality = found
            mirrored = equality.nonzero().squeeze(-1)
            values = torch.cat([values, -values[:, mirrored]], 1)
            gradients = torch.cat([gradients, -gradients[:, mirrored]], 1)
            size = norm(gradients).double()
            scale = torch.where(size > 0, 1 / size.clamp(min=1e-300), torch.ones_like(size))
            model, extra = self._model(S, part), torch.full_like(values, p + 1, dtype=torch.int64)
            wide = bundle.Model(
                heights=torch.cat([model.heights, values * scale], 1),
                V=torch.cat([model.V, gradients * scale.to(x.dtype).unsqueeze(-1)], 1),
                owner=torch.cat([model.owner, extra], 1),
                source=torch.cat([model.source, torch.zeros_like(extra)], 1),
                sign=torch.cat([model.sign, torch.ones_like(scale)], 1),
                score=torch.cat([model.score, torch.full_like(scale, -torch.inf)], 1),
            )
            target = (0.5 * self.settings.tol * self._objective_scale(S, part) * S.scales[part, 0]).clamp(min=1e-300)
            room = MULTIPLIER_ROOM * values.shape[1] / S.mu[part]
            bounds = self.bounds.of(S.index[part])
            left, _, _ = bundle.gap(wide, p + 1, x, bounds, self._reach(S, part), target, room)
            before = S.gap[part]
            self._claim(S, part, left)
            S.gap[part] = torch.minimum(S.gap[part], before)

    def _reach(self, S: Rows, rows: Tensor) -> Tensor:
        """How far a better point may lie: as far as the row has come, and a tenth of the size of x at least."""
        x = select(S.x, rows)
        return torch.maximum(norm(x - select(S.reference, rows)), 0.1 * (1 + norm(x))).double()

    def _simple_bound(self, S: Rows, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The bound with the multipliers of the last direction and the gradients at x alone.

        Valid like any other; where the problem is smooth it is as good as the best, and costs no QP.
        """
        mu = S.mu[rows].unsqueeze(-1)
        own = torch.cat([torch.ones_like(mu), S.multipliers[rows] / mu], -1) * S.scales[rows]
        q = weighted(own, select(S.gradients, rows))
        slope = bundle.slope_bound(q, select(S.x, rows), self.bounds.of(S.index[rows]), self._reach(S, rows))
        return slope - dot(own[:, 1:], S.values[rows, 1:]), q

    def _step_bound(self, S: Rows, rows: Tensor, model: bundle.Model, weights: Tensor) -> Tensor:
        """The bound with the weights (r, K) of a bundle step: those of f sum to mu, here they must sum to one."""
        mu = torch.where(model.owner == 0, weights, torch.zeros_like(weights)).sum(1, keepdim=True)
        z = weights / mu.clamp(min=1e-300)
        bounds = self.bounds.of(S.index[rows])
        slope = bundle.slope_bound(weighted(z, model.V), S.x[rows], bounds, self._reach(S, rows))
        return slope - dot(z, model.heights)

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
        near = S.cuts.stamp[rows, :, 0] >= 0
        near &= S.path[rows].unsqueeze(-1) - S.cuts.path[rows] <= NEIGHBOURHOOD
        due = S.iterations[rows] % PUBLISHED_EVERY == 0
        company = ((near.sum(1) > 1) & (due | (length <= s.tol))).nonzero().squeeze(-1)
        for part in portions(company, self._portion(S)):
            chosen = rows[part]
            wide = bundle.neighbours(self._model(S, chosen), S.cuts, chosen, S.path[chosen], NEIGHBOURHOOD, c[part])
            for some, model in self._classes(wide, torch.ones_like(mu[part])):
                metric = S.hessian.metric(chosen[some], model.V)
                weights = bundle.bundle_step(model, metric.gram, mu[part][some], v[part][some], p).weights
                length[part[some]] = norm(metric.combine(weights)).double()
        S.stationarity[rows] = length
        done = (length <= s.tol) & (self.user_violation(S.values[rows]) <= s.feasibility)
        S.gap[rows] = length
        S.status[rows] = torch.where(done, STATUSES.index(Status.CONVERGED), S.status[rows])
        return ~done & (~(S.promise[rows] < 0) | ~torch.isfinite(S.d[rows].sum(-1)))

    def assess(self, S: Rows, rows: Tensor) -> None:
        """Evidence for those of ``rows`` that hit a limit, as of their last point; their status stays."""
        limits = [STATUSES.index(Status.MAX_ITERATIONS), STATUSES.index(Status.BUDGET)]
        status = S.status[rows]
        limited = (status == limits[0]) | (status == limits[1])
        rows = rows[limited & torch.isfinite(S.best_values[rows, 0])]
        for portion in portions(rows, self._portion(S)):
            status = S.status[portion]
            if self.settings.certifiable:
                self._test(S, portion, self._model(S, portion))
            else:  # too few cuts for a QP to be worth its while
                self._claim(S, portion, self._simple_bound(S, portion)[0])
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
