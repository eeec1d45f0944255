"""The stopping test: a bound on what is left to gain, or the paper's test; and what counts as progress."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pwcf._common.status import Status
from pwcf.solvers import bundle
from pwcf.solvers.bundle import CuttingPlaneModel
from pwcf.solvers.constraints import total_violation
from pwcf.solvers.linalg import dot, norm, portions, select, weighted
from pwcf.solvers.state import CERTIFY, CODE, RUNNING, SolverProblem, SolverRows

# Multipliers above this share count as carrying weight.
WEIGHTY = 1e-7
# Multipliers of the bound reach this far beyond those of the penalty function, 1/mu. Without a limit the two
# sides of an equality could grow together for ever.
MULTIPLIER_ROOM = 10.0
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

    def _merit(self, S: SolverRows, rows: Tensor) -> Tensor:
        """The penalty function in units of scaled f."""
        values = S.values[rows] * S.scales[rows]
        return values[:, 0] + total_violation(values[:, 1:], self.problem.equality) / S.mu[rows]

    def makes_progress(self, S: SolverRows, rows: Tensor, enough: Tensor, window: int | Tensor) -> Tensor:
        """False where the last ``window`` iterations lowered the merit by less than ``enough`` / mu."""
        merit = self._merit(S, rows)
        due = S.iterations[rows] - S.marked_at[rows] >= window
        lowered = S.mark[rows] - merit > enough / S.mu[rows]
        renew = lowered | (S.mark[rows] == torch.inf)
        S.mark[rows] = torch.where(renew, merit, S.mark[rows])
        S.marked_at[rows] = torch.where(renew, S.iterations[rows], S.marked_at[rows])
        return ~(due & ~lowered)

    def crawls(self, S: SolverRows, rows: Tensor) -> Tensor:
        """True where the direction promises almost nothing, or a window of iterations brought nothing."""
        scale = self.problem.objective_scale(S, rows) * S.scales[rows, 0]
        unit = S.mu[rows] * scale * self.problem.settings.tol
        hopeless = ~(S.promise[rows] < 0) | ~torch.isfinite(S.d[rows].sum(-1))
        little = -S.promise[rows] <= LITTLE * unit
        crawl = torch.where(S.early[rows], EARLY, CRAWL)
        return hopeless | little | ~self.makes_progress(S, rows, crawl * unit, self.problem.settings.window)

    def bundle_test(self, S: SolverRows, rows: Tensor, model: CuttingPlaneModel) -> Tensor:
        """The convergence test with the best multipliers the cuts offer.

        Returns the aggregate gradient of the bound, without entries held by a bound.
        """
        x, target = S.x[rows], self._target(S, rows)
        bounds = self.problem.bounds.of(S.index[rows])
        room = MULTIPLIER_ROOM / S.mu[rows]
        left, q, z = bundle.gap(model, self.problem.p, x, bounds, self.problem.reach(S, rows), target, room)
        certifying = S.phase[rows] == CERTIFY
        S.cuts.mark_used(rows, model, (z > WEIGHTY) & certifying.unsqueeze(-1), S.evaluations[rows])
        simple, simple_q = self.simple_bound(S, rows)
        q = torch.where((simple < left).unsqueeze(-1), simple_q, q)
        self.claim(S, rows, torch.minimum(left, simple))
        free = bounds.free(x, q)
        return q if free is None else q * free

    def unfolded_test(self, S: SolverRows, rows: Tensor) -> None:
        """The same test with the columns behind the folds in place of the folds' few cuts.

        A fold shows one gradient at a time, and none where it is satisfied; the user's own constraints show
        all of theirs at x. The objective is not evaluated for this.
        """
        p = self.problem.p
        for part in portions(rows, self.problem.portion(S)):
            x = S.x[part]
            found = self.problem.oracle.components(x, S.index[part])
            if found is None:
                return
            values, gradients, equality = found
            mirrored = equality.nonzero().squeeze(-1)
            values = torch.cat([values, -values[:, mirrored]], 1)
            gradients = torch.cat([gradients, -gradients[:, mirrored]], 1)
            size = norm(gradients).double()
            scale = torch.where(size > 0, 1 / size.clamp(min=1e-300), torch.ones_like(size))
            model, extra = self.problem.cutting_plane_model(S, part), torch.full_like(values, p + 1, dtype=torch.int64)
            wide = CuttingPlaneModel(
                heights=torch.cat([model.heights, values * scale], 1),
                V=torch.cat([model.V, gradients * scale.to(x.dtype).unsqueeze(-1)], 1),
                owner=torch.cat([model.owner, extra], 1),
                source=torch.cat([model.source, torch.zeros_like(extra)], 1),
                sign=torch.cat([model.sign, torch.ones_like(scale)], 1),
                score=torch.cat([model.score, torch.full_like(scale, -torch.inf)], 1),
            )
            room = MULTIPLIER_ROOM * values.shape[1] / S.mu[part]
            bounds = self.problem.bounds.of(S.index[part])
            left, _, _ = bundle.gap(wide, p + 1, x, bounds, self.problem.reach(S, part), self._target(S, part), room)
            before = S.gap[part]
            self.claim(S, part, left)
            S.gap[part] = torch.minimum(S.gap[part], before)

    def _target(self, S: SolverRows, rows: Tensor) -> Tensor:
        """Half of what tol allows, in the scale of f: the bound that the multipliers are made for."""
        tol = self.problem.settings.tol
        return (0.5 * tol * self.problem.objective_scale(S, rows) * S.scales[rows, 0]).clamp(min=1e-300)

    def simple_bound(self, S: SolverRows, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The bound with the multipliers of the last direction and the gradients at x alone.

        Valid like any other; where the problem is smooth it is as good as the best, and costs no QP.
        """
        mu = S.mu[rows].unsqueeze(-1)
        own = torch.cat([torch.ones_like(mu), S.multipliers[rows] / mu], -1) * S.scales[rows]
        q = weighted(own, select(S.gradients, rows))
        slope = bundle.slope_bound(
            q, select(S.x, rows), self.problem.bounds.of(S.index[rows]), self.problem.reach(S, rows)
        )
        return slope - dot(own[:, 1:], S.values[rows, 1:]), q

    def step_bound(self, S: SolverRows, rows: Tensor, model: CuttingPlaneModel, weights: Tensor) -> Tensor:
        """The bound with the weights (r, K) of a bundle step: those of f sum to mu, here they must sum to one."""
        mu = torch.where(model.owner == 0, weights, torch.zeros_like(weights)).sum(1, keepdim=True)
        z = weights / mu.clamp(min=1e-300)
        bounds = self.problem.bounds.of(S.index[rows])
        slope = bundle.slope_bound(weighted(z, model.V), S.x[rows], bounds, self.problem.reach(S, rows))
        return slope - dot(z, model.heights)

    def claim(self, S: SolverRows, rows: Tensor, left: Tensor) -> None:
        """Say CONVERGED where the best point is feasible and ``left`` (scaled) leaves at most tol to gain."""
        s, sf = self.problem.settings, S.scales[rows, 0]
        scale = self.problem.objective_scale(S, rows)
        ahead = S.best_values[rows, 0] - S.values[rows, 0]
        total = ahead.clamp(min=0) + (left / sf).clamp(min=0)
        feasible = S.best_violation[rows] <= s.feasibility
        # A known feasible point below the bound contradicts it: the problem is not convex on this scale.
        feasible &= ahead >= -torch.maximum(left / sf, s.tol * scale)
        relative = torch.where(total == 0, torch.zeros_like(total), total / scale.clamp(min=1e-300))
        relative = torch.where(feasible, relative, torch.inf)
        S.gap[rows] = relative
        S.status[rows] = torch.where(relative <= s.tol, CODE[Status.CONVERGED], S.status[rows])

    def published_test(self, S: SolverRows, rows: Tensor) -> Tensor:
        """The paper's test: the step of the augmented dual over neighbouring gradients is short. For comparison.

        Returns which rows have no usable direction; rows that pass say CONVERGED.
        """
        s, p = self.problem.settings, self.problem.p
        scales, mu = S.scales[rows], S.mu[rows]
        c = (S.values[rows] * scales)[:, 1:]
        v = total_violation(c, self.problem.equality)
        # Alone in its neighbourhood, a gradient gives the direction just found.
        length = norm(S.d[rows]).double()
        near = S.cuts.stamp[rows, :, 0] >= 0
        near &= S.path[rows].unsqueeze(-1) - S.cuts.path[rows] <= NEIGHBOURHOOD
        due = S.iterations[rows] % PUBLISHED_EVERY == 0
        company = ((near.sum(1) > 1) & (due | (length <= s.tol))).nonzero().squeeze(-1)
        for part in portions(company, self.problem.portion(S)):
            chosen = rows[part]
            wide = bundle.neighbours(
                self.problem.cutting_plane_model(S, chosen), S.cuts, chosen, S.path[chosen], NEIGHBOURHOOD, c[part]
            )
            for some, model in wide.by_relevance(torch.ones_like(mu[part])):
                products = S.hessian.products(chosen[some], model.V)
                weights = bundle.bundle_step(model, products.gram, mu[part][some], v[part][some], p).weights
                length[part[some]] = norm(products.combine(weights)).double()
        S.stationarity[rows] = length
        done = (length <= s.tol) & (self.problem.violation(S.values[rows]) <= s.feasibility)
        S.gap[rows] = length
        S.status[rows] = torch.where(done, CODE[Status.CONVERGED], S.status[rows])
        return ~done & (~(S.promise[rows] < 0) | ~torch.isfinite(S.d[rows].sum(-1)))

    def assess(self, S: SolverRows, rows: Tensor) -> None:
        """Find evidence for those of ``rows`` that hit a limit, at their last point; their status stays."""
        limits = [CODE[Status.MAX_ITERATIONS], CODE[Status.BUDGET]]
        status = S.status[rows]
        limited = (status == limits[0]) | (status == limits[1])
        rows = rows[limited & torch.isfinite(S.best_values[rows, 0])]
        for portion in portions(rows, self.problem.portion(S)):
            status = S.status[portion]
            if self.problem.settings.certifiable:
                self.bundle_test(S, portion, self.problem.cutting_plane_model(S, portion))
            else:  # too few cuts for a QP to be worth its while
                self.claim(S, portion, self.simple_bound(S, portion)[0])
            S.status[portion] = status

    def end(self, S: SolverRows, rows: Tensor) -> None:
        """End rows that have no way on: as stalled or infeasible, unless the test has just said converged."""
        feasible = S.best_violation[rows] <= self.problem.settings.feasibility
        code = torch.where(feasible, CODE[Status.STALLED], CODE[Status.INFEASIBLE])
        S.status[rows] = torch.where(S.status[rows] == RUNNING, code, S.status[rows])
