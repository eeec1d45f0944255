"""The stopping test: a bound on what is left to gain, or the paper's test; and what counts as progress."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pwcf._common.status import Status
from pwcf.solvers import bundle
from pwcf.solvers.bundle import CuttingPlaneModel
from pwcf.solvers.constraints import total_violation
from pwcf.solvers.host import Array, dot, fetch, fetch_one, portions, select, send, where_true
from pwcf.solvers.linalg import norm, weighted
from pwcf.solvers.state import (
    CODE,
    GIVEN_UP,
    NOTHING,
    PASSED_AT_X,
    PASSED_BY_CUTS,
    RESUMABLE,
    SAMPLE,
    SolverProblem,
    SolverRows,
)

# Multipliers above this share count as carrying weight.
WEIGHTY = 1e-7
# Multipliers of the bound reach this far beyond those of the penalty function, 1/mu. Without a limit the two
# sides of an equality could grow together for ever.
MULTIPLIER_ROOM = 10.0
# A bound must be this share of tol: where a problem is not convex it is none.
SAFE = 0.5
# Iterations between two published tests of a row: each costs more than an iteration.
PUBLISHED_EVERY = 5
# Gradients this close count as neighbouring in the published test; GRANSO's choice.
NEIGHBOURHOOD = 1e-4
# The quasi-Newton phase ends when a direction promises less than LITTLE, or a window of iterations brought
# less than CRAWL, of what tol allows. Its iterations are cheap, those of the bundle are not; but a bundle that
# can hold all the cuts of a vertex closes in on one much faster, so that it takes over EARLY. Where that comes to
# nothing (curved kinks) the row goes back to quasi-Newton steps.
LITTLE, CRAWL, EARLY = 1e-3, 0.1, 10.0


@dataclass(frozen=True)
class StoppingTest:
    """Bounds what is left to gain, says CONVERGED, and ends rows without a way on.

    The bound holds for any multipliers, whoever found them.
    """

    problem: SolverProblem

    def _merit(self, S: SolverRows, rows: Array) -> Array:
        """The penalty function in units of scaled f."""
        values = S.values[rows] * S.scales[rows]
        return values[:, 0] + self.problem.violation(values) / S.mu[rows]

    def makes_progress(self, S: SolverRows, rows: Array, enough: Array, window: int | Array) -> Array:
        """False where the last ``window`` iterations lowered the merit by less than ``enough`` / mu."""
        merit, mark, iterations = self._merit(S, rows), S.mark[rows], S.iterations[rows]
        due = iterations - S.marked_at[rows] >= window
        lowered = mark - merit > enough / S.mu[rows]
        renew = lowered | (mark == np.inf)
        S.mark[rows] = np.where(renew, merit, mark)
        S.marked_at[rows[renew]] = iterations[renew]
        return ~(due & ~lowered)

    def crawls(self, S: SolverRows, rows: Array) -> Array:
        """True where the direction promises almost nothing, or a window of iterations brought nothing."""
        scale = self.problem.objective_scale(S, rows) * S.scales[rows, 0]
        unit, promise = S.mu[rows] * scale * self.problem.settings.tol, S.promise[rows]
        hopeless = ~(promise < 0) | ~np.isfinite(fetch_one(select(S.d, rows).sum(-1)))
        little = -promise <= LITTLE * unit
        crawl = np.where(S.early[rows], EARLY, CRAWL)
        crawling: Array = hopeless | little
        crawling |= ~self.makes_progress(S, rows, crawl * unit, self.problem.settings.window)
        return crawling

    def bundle_test(self, S: SolverRows, rows: Array, model: CuttingPlaneModel) -> Tensor:
        """The convergence test with the best multipliers the cuts offer.

        Returns the aggregate gradient of the bound, without entries held by a bound.
        """
        x, bounds = select(S.x, rows), self.problem.bounds_of(S, rows)
        left, q, z = self._gap(S, rows, model)
        sampling = S.phase[rows] == SAMPLE
        S.cuts.mark_used(rows, model, (z > WEIGHTY) & sampling[:, None], S.evaluations[rows])
        simple, simple_q = self.simple_bound(S, rows)
        better = simple < left
        if better.any():
            q = torch.where(send(better[:, None], x), simple_q, q)
        self.claim(S, rows, left)
        by_cuts = S.gap[rows]
        self.claim(S, rows, simple, PASSED_AT_X)
        S.gap[rows] = np.minimum(S.gap[rows], by_cuts)
        free = bounds.free(x, q)
        return q if free is None else q * free

    def _gap(self, S: SolverRows, rows: Array, model: CuttingPlaneModel) -> tuple[Array, Tensor, Array]:
        """The bound with the cuts of a model."""
        s, room = self.problem.settings, MULTIPLIER_ROOM / S.mu[rows]
        bounds, target = self.problem.bounds_of(S, rows), self._target(S, rows)
        return bundle.gap(model, self.problem.p, select(S.x, rows), bounds, target, room, s.walls)

    def unfolded_test(self, S: SolverRows, rows: Array) -> None:
        """The same test with the columns behind the folds in place of the folds' few cuts.

        A fold shows one gradient at a time, and none where it is satisfied; the user's own constraints show
        all of theirs at x. The objective is not evaluated for this.
        """
        p = self.problem.p
        for part in portions(rows, self.problem.portion(S)):
            x = select(S.x, part)
            found = self.problem.oracle.components(x, select(S.index, part))
            if found is None:
                return
            columns, gradients, equality = found
            mirrored = equality.nonzero().squeeze(-1)
            gradients = torch.cat([gradients, -gradients[:, mirrored]], 1)
            columns = torch.cat([columns, -columns[:, mirrored]], 1)
            values, size = fetch(columns, norm(gradients))
            scale = np.where(size > 0, 1 / np.maximum(size, 1e-300), 1.0)
            model = self.problem.cutting_plane_model(S, part)
            wide = model.wider(
                values * scale, gradients * send(scale[..., None], x), np.full(values.shape, p + 1, dtype=np.int64)
            )
            room = MULTIPLIER_ROOM * values.shape[1] / S.mu[part]
            bounds = self.problem.bounds_of(S, part)
            left, _, _ = bundle.gap(wide, p + 1, x, bounds, self._target(S, part), room, self.problem.settings.walls)
            before = S.gap[part]
            self.claim(S, part, left)
            S.gap[part] = np.minimum(S.gap[part], before)

    def _target(self, S: SolverRows, rows: Array) -> Array:
        """Half of what tol allows, in the scale of f: the bound that the multipliers are made for."""
        tol = self.problem.settings.tol
        allowed: Array = tol * self.problem.objective_scale(S, rows) * S.scales[rows, 0]
        return np.maximum(0.5 * allowed, 1e-300)

    def simple_bound(self, S: SolverRows, rows: Array) -> tuple[Array, Tensor]:
        """The bound with the multipliers of the last direction and the gradients at x alone.

        Valid like any other; where the problem is smooth it is as good as the best, and costs no QP.
        """
        own = S.scales[rows]
        own[:, 1:] *= S.multipliers[rows] / S.mu[rows, None]
        gradients = select(S.gradients, rows)
        q = weighted(send(own, gradients), gradients)
        slope = bundle.slope_bound(q, select(S.x, rows), self.problem.bounds_of(S, rows), self.problem.reach(S, rows))
        return slope - dot(own[:, 1:], S.values[rows, 1:]), q

    def step_bound(self, S: SolverRows, rows: Array, model: CuttingPlaneModel, weights: Array) -> Array:
        """The bound with the weights (r, K) of a bundle step: those of f sum to mu, here they must sum to one."""
        mu = np.where(model.owner == 0, weights, 0.0).sum(1, keepdims=True)
        z = weights / np.maximum(mu, 1e-300)
        bounds, q = self.problem.bounds_of(S, rows), weighted(send(z, model.V), model.V)
        left: Array = bundle.slope_bound(q, select(S.x, rows), bounds, model.reach) - dot(z, model.blurred_heights)
        return left

    def passes(self, S: SolverRows, rows: Array, model: CuttingPlaneModel) -> tuple[Array, Tensor]:
        """Whether rows pass with the cuts of a model alone, (r,), and the aggregate gradient (r, n) of the bound."""
        verdict = S.verdict[rows]
        left, q, _ = self._gap(S, rows, model)
        S.verdict[rows] = NOTHING
        self.claim(S, rows, left)
        passed = S.verdict[rows] != NOTHING
        S.verdict[rows] = verdict
        return passed, q

    def simple_test(self, S: SolverRows, rows: Array) -> None:
        """The convergence test with the multipliers of the last direction and the gradients at x alone."""
        self.claim(S, rows, self.simple_bound(S, rows)[0], PASSED_AT_X)

    def claim(self, S: SolverRows, rows: Array, left: Array, how: int = PASSED_BY_CUTS) -> None:
        """Let rows pass whose best point is feasible and where ``left`` (scaled) leaves at most tol to gain."""
        s, sf = self.problem.settings, S.scales[rows, 0]
        scale = self.problem.objective_scale(S, rows)
        ahead = S.best_values[rows, 0] - S.values[rows, 0]
        total, left = np.maximum(ahead, 0.0), left / sf
        # Where f has had no gradient anywhere there is nothing to gain: any feasible point will do.
        total = np.where(S.scale[rows, 0] == 0, total, total + np.maximum(left, 0.0))
        feasible = S.best_violation[rows] <= s.feasibility
        # A known feasible point below the bound contradicts it: the problem is not convex on this scale.
        feasible &= ahead >= -np.maximum(left, s.tol * scale)
        relative = np.where(total == 0, 0.0, total / np.maximum(scale, 1e-300))
        relative = np.where(feasible, relative, np.inf)
        S.gap[rows] = relative
        S.verdict[rows[relative <= SAFE * s.tol]] = how

    def published_test(self, S: SolverRows, rows: Array) -> Array:
        """The paper's test: the step of the augmented dual over neighbouring gradients is short. For comparison.

        Returns which rows have no usable direction; rows that pass say CONVERGED.
        """
        s, p = self.problem.settings, self.problem.p
        mu, c = S.mu[rows], (S.values[rows] * S.scales[rows])[:, 1:]
        v = total_violation(c, self.problem.equality)
        # Alone in its neighbourhood, a gradient gives the direction just found.
        length = fetch_one(norm(select(S.d, rows)))
        useless = ~(S.promise[rows] < 0) | ~np.isfinite(length)
        near = S.cuts.stamp[rows, :, 0] >= 0
        near &= S.path[rows, None] - S.cuts.path[rows] <= NEIGHBOURHOOD
        due = S.iterations[rows] % PUBLISHED_EVERY == 0
        company = where_true((near.sum(1) > 1) & (due | (length <= s.tol)))
        for part in portions(company, self.problem.portion(S)):
            chosen = rows[part]
            wide = bundle.neighbours(
                self.problem.cutting_plane_model(S, chosen), S.cuts, chosen, S.path[chosen], NEIGHBOURHOOD, c[part]
            )
            for some, model in wide.by_relevance(np.ones(len(part))):
                products = S.hessian.products(chosen[some], model.V)
                gram = fetch_one(products.gram)
                weights = bundle.bundle_step(model, gram, mu[part][some], v[part][some], p).weights
                length[part[some]] = fetch_one(norm(products.combine(send(weights, model.V))))
        S.stationarity[rows] = length
        done = (length <= s.tol) & (self.problem.violation(S.values[rows]) <= s.feasibility)
        S.gap[rows] = length
        S.status[rows[done]] = CODE[Status.CONVERGED]
        return ~done & useless

    def assess(self, S: SolverRows, rows: Array) -> None:
        """Find evidence for those of ``rows`` that hit a limit, at their last point; their status stays."""
        limited = np.isin(S.status[rows], [CODE[status] for status in RESUMABLE])
        rows = rows[limited & np.isfinite(S.best_values[rows, 0])]
        for portion in portions(rows, self.problem.portion(S)):
            verdict = S.verdict[portion]
            if self.problem.settings.all_faces:
                self.bundle_test(S, portion, self.problem.cutting_plane_model(S, portion))
            else:  # too few cuts for a QP to be worth its while
                self.simple_test(S, portion)
            S.verdict[portion] = verdict

    def give_up(self, S: SolverRows, rows: Array) -> None:
        """Let rows end that have no way on, unless CONFIRM finds one.

        The bound that SAMPLE has just found need no longer be SAFE.
        """
        sampled = (S.phase[rows] == SAMPLE) & (S.gap[rows] <= self.problem.settings.tol)
        verdict = np.where(sampled, PASSED_BY_CUTS, GIVEN_UP)
        S.verdict[rows] = np.where(S.verdict[rows] == NOTHING, verdict, S.verdict[rows])

    def end(self, S: SolverRows, rows: Array) -> None:
        """End rows: as converged where they have passed the test, otherwise as stalled or infeasible."""
        feasible = S.best_violation[rows] <= self.problem.settings.feasibility
        code = np.where(feasible, CODE[Status.STALLED], CODE[Status.INFEASIBLE])
        passed = (S.verdict[rows] == PASSED_AT_X) | (S.verdict[rows] == PASSED_BY_CUTS)
        S.status[rows] = np.where(passed, CODE[Status.CONVERGED], code)
