"""Where quasi-Newton directions fail: bundle steps, restoration of feasibility, and sampling."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from pwcf.solvers import bundle
from pwcf.solvers.bundle import CuttingPlaneModel
from pwcf.solvers.constraints import total_violation
from pwcf.solvers.host import Array, factor, fetch_one, portions, positions, select, send, where_true
from pwcf.solvers.linalg import bmm, norm, weighted
from pwcf.solvers.state import BUNDLE, NOTHING, RESTORE, RUNNING, SAMPLE, SEARCH, SolverProblem, SolverRows
from pwcf.solvers.steering import NEGLIGIBLE, SUFFICIENT, penalty_weights
from pwcf.solvers.stopping import WEIGHTY, StoppingTest

# In bundle steps mu is lowered faster than in steering: each costs a QP. Below MU_LEAST a problem is given
# up as infeasible.
MU_CUT, MU_LEAST = 0.5, 1e-8
# At a minimum of the penalty function it is cut once, by more.
MU_CUT_AT_END = 0.3
# Violations this many times the tolerance are not those of rounding and of curvature.
FAR_OUT = 10.0
# Null steps in a row after which H is given up in favour of the identity: at once where the bundle can hold every face,
# for then the faces say more than H.
NULLS, NULLS_COMPLETE = 8, 1
# Steps with H between two tests of a row; a test costs as much as a step.
TEST_EVERY = 3
# Where not all faces of a vertex can be held, or on an early try, a bound this many times tol is not worth sampling.
HOPELESS = 30.0
# Steps with the identity up to this factor tau are as accurate as need be.
COARSE = 1.0
# A bundle step that differs from the one just tried by less than this share is made shorter by this factor.
AGAIN, SHORTER = 0.2, 0.25
# Restoration converges like Newton's method; if six steps do not do it, more will not.
RESTORATIONS = 6


@dataclass(frozen=True)
class BundlePhases:
    """The phases BUNDLE, RESTORE and SAMPLE."""

    problem: SolverProblem
    stopping: StoppingTest

    def leave_search(self, S: SolverRows, rows: Array) -> None:
        """Let rows go on from quasi-Newton directions, or from a move in SAMPLE, to bundle steps if there are any."""
        if self.problem.settings.bundles:
            self._enter(S, rows, BUNDLE)
        else:
            self._conclude(S, rows)

    def advance(self, S: SolverRows, alive: Array) -> None:
        """Find the next step of all rows in these phases; a row may pass through several of them."""
        for phase, act in ((BUNDLE, self._bundle), (RESTORE, self._restore), (SAMPLE, self._sample)):
            rows = where_true(alive & (S.phase == phase) & (S.status == RUNNING))
            for portion in portions(rows, self.problem.portion(S)):
                act(S, portion)

    def take_over(self, S: SolverRows, rows: Array) -> None:
        """Begin bundle steps for rows whose search along quasi-Newton directions came to nothing at once."""
        self._enter(S, rows, BUNDLE)
        for portion in portions(rows, self.problem.portion(S)):
            self._bundle(S, portion)

    def _enter(self, S: SolverRows, rows: Array, phase: int) -> None:
        """Let rows begin a phase: progress is measured anew."""
        if len(rows) == 0:
            return
        S.phase[rows] = phase
        if phase == BUNDLE:
            S.tau[rows] = np.where(S.plain[rows], self._first_length(S, rows), 1.0)
            S.radius[rows] = np.inf
        S.nulls[rows] = S.trials[rows] = 0
        S.mark[rows] = np.inf
        S.marked_at[rows] = S.iterations[rows]

    def _first_length(self, S: SolverRows, rows: Array) -> Array:
        """The factor tau that steps with the identity begin with: any length, or about that of the last good step."""
        return (self.problem.reach(S, rows) if self.problem.complete else 4 * S.stride[rows]) / S.mu[rows]

    def _bundle(self, S: SolverRows, rows: Array) -> None:
        """Find the next bundle step; rows without a promising one go on to SAMPLE."""
        model = self.problem.cutting_plane_model(S, rows)
        unit = self.problem.objective_scale(S, rows) * S.scales[rows, 0] * self.problem.settings.tol
        horizon = unit + np.abs(S.promise[rows]) / S.mu[rows]
        for part, narrow in model.by_relevance(horizon):
            self._bundle_class(S, rows[part], narrow, unit[part])

    def _bundle_class(self, S: SolverRows, rows: Array, model: CuttingPlaneModel, unit: Array) -> None:
        s, p = self.problem.settings, self.problem.p
        x, bounds = select(S.x, rows), self.problem.bounds_of(S, rows)
        values, scales, mu, nulls, plain = S.values[rows], S.scales[rows], S.mu[rows], S.nulls[rows], S.plain[rows]
        v = total_violation((values * scales)[:, 1:], self.problem.equality)
        cuts, mask = model, None
        if bounds.present and s.walls:
            model = model.with_walls(x, bounds, p)
        elif bounds.present:
            gradients = select(S.gradients, rows)
            guess = penalty_weights(mu, S.multipliers[rows]) * scales
            mask = bounds.free(x, weighted(send(guess, x), gradients))
        V = model.V if mask is None else model.V * mask.unsqueeze(1)
        # Among many flat faces H can become so lopsided that no step along it is of use: then the identity
        # takes its place.
        switch = ~plain & (nulls >= (NULLS_COMPLETE if self.problem.complete else NULLS))
        plain = S.plain[rows] = plain | switch
        tau = S.tau[rows] = np.where(switch, self._first_length(S, rows), S.tau[rows])
        curved = where_true(~plain)
        products = S.hessian.products(rows[curved], select(V, curved)) if len(curved) else None
        if products is None:
            gram = fetch_one(bmm(V, V.mT))
        elif len(curved) == len(rows):
            gram = fetch_one(products.gram)
        else:
            gram = fetch_one(bmm(V, V.mT))
            gram[curved] = fetch_one(products.gram)
        found = bundle.bundle_step(model, gram * tau[:, None, None], mu, v, p)
        weights = send(found.weights, V)
        step = weighted(weights, V) if len(curved) < len(rows) else None
        if products is not None:
            bent = products.combine(select(weights, curved))
            if step is None:
                step = bent
            else:
                step[positions(curved, step.device)] = bent
        assert step is not None
        step = step * factor(-tau, x)
        if mask is not None:
            step = step * mask
        # Where the problem is not convex a null step may teach nothing: the model, which distrusts what was seen far
        # away, wants the same step again. A shorter one brings a cut that it trusts.
        lengths = fetch_one(norm(step))
        radius = S.radius[rows]
        shorter = np.minimum(radius / np.maximum(lengths, 1e-300), 1.0)
        same = plain & (nulls > 0)
        if same.any():
            last = fetch_one(norm(step * factor(shorter, x) - select(S.d, rows)))
            again = same & (last <= AGAIN * np.minimum(lengths, radius))
            S.radius[rows] = np.where(again, SHORTER * np.minimum(lengths, radius), radius)
            shorter = np.where(again, SHORTER * shorter, shorter)
        if (shorter < 1).any():
            step = step * factor(shorter, x)
        S.put("d", rows, step)
        S.t[rows], S.promise[rows] = 1.0, found.promise * shorter
        S.multipliers[rows] = found.multipliers
        # Steering with all faces of a kink in view: where the step leaves the violation, f weighs too much.
        heavy = (v > NEGLIGIBLE) & (v - found.violation_ahead < SUFFICIENT * v) & (mu > MU_LEAST)
        heavy &= self._priced_out(S, rows)
        S.stationarity[rows] = lengths * shorter
        # Cuts that carry weight are kept.
        used = found.weights[:, : cuts.heights.shape[1]] > WEIGHTY * mu[:, None]
        S.cuts.mark_used(rows, cuts, used, S.evaluations[rows])

        ending = ~(found.promise < -1e-14 * (1 + v)) | ~np.isfinite(lengths)
        # Very long steps take more digits than the quadratic program has: shorter ones before this is believed.
        coarse = ending & plain & (tau > COARSE)
        S.tau[rows] = np.where(coarse, 0.01 * tau, tau)
        ending &= ~coarse
        patience = np.where(plain & ~S.early[rows], s.window + s.cuts // 2, s.window + s.cuts // 8)
        # Where f goes to zero what tol allows is a share of what was gained; steps go on as long as f falls notably.
        size = self.problem.objective_scale(S, rows)
        falling = np.minimum(np.maximum(np.abs(values[:, 0]), 1e-5 * size), size) / np.maximum(size, 1e-300)
        ending |= ~self.stopping.makes_progress(S, rows, 0.1 * unit * falling * mu, patience)
        # The step's own multipliers give a bound for nothing.
        self.stopping.claim(S, rows, self.stopping.step_bound(S, rows, model, found.weights))
        # In steps with H they are not the best ones the cuts offer.
        test = (S.verdict[rows] == NOTHING) & ~ending & ~plain
        test &= (-found.promise <= 10 * unit * mu) & (S.trials[rows] % TEST_EVERY == 0)
        if test.any():
            self.stopping.bundle_test(S, rows[test], cuts.take(where_true(test)))
        S.mu[rows] = np.where(heavy, MU_CUT * mu, mu)
        self._enter(S, rows[heavy], BUNDLE)
        ending &= ~heavy & (S.verdict[rows] == NOTHING)
        if ending.any():
            # What H sees as the end may be H's fault: go on with the identity before believing it.
            S.plain[rows] |= ending
            self._enter(S, rows[ending & ~plain], BUNDLE)
            self._conclude(S, rows[ending & plain])

    def _conclude(self, S: SolverRows, rows: Array) -> None:
        """End bundle steps where nothing is left to gain: infeasible rows go on to RESTORE, the others to SAMPLE.

        A minimum of the penalty function that is far from feasible, with a multiplier at its limit, says that f weighs
        too much.
        """
        if len(rows) == 0:
            return
        violation, limit = self.problem.violation(S.values[rows]), self.problem.settings.feasibility
        heavy = (violation > FAR_OUT * limit) & self._priced_out(S, rows) & (S.mu[rows] > MU_LEAST)
        violated = (violation > limit) & ~heavy
        S.mu[rows[heavy]] *= MU_CUT_AT_END
        self._enter(S, rows[heavy], BUNDLE)
        self._enter(S, rows[violated], RESTORE)
        self._enter(S, rows[~violated & ~heavy], SAMPLE)

    def _priced_out(self, S: SolverRows, rows: Array) -> Array:
        """Whether a multiplier is at its limit: only then does it matter how much f weighs."""
        return np.asarray((np.abs(S.multipliers[rows]) > 0.9).any(-1))

    def _restore(self, S: SolverRows, rows: Array) -> None:
        """The shortest step that satisfies all cuts of the constraints, with half the tolerance to spare.

        Bundle steps end within a little of the feasible set; the answer must lie inside.
        """
        s, p = self.problem.settings, self.problem.p
        violated = self.problem.violation(S.values[rows]) > s.feasibility
        self._enter(S, rows[~violated], SAMPLE)
        # Steps that do not lead there: f weighs too much, or there is nothing feasible to be found.
        tired = violated & (S.trials[rows] >= RESTORATIONS)
        hope = S.mu[rows] > MU_LEAST
        S.mu[rows[tired & hope]] *= 0.1
        self._enter(S, rows[tired & hope], BUNDLE)
        self.stopping.give_up(S, rows[tired & ~hope])
        rows = rows[violated & ~tired]
        if len(rows) == 0:
            return
        model = self.problem.cutting_plane_model(S, rows)
        scales = S.scales[rows]
        spare = 0.5 * s.feasibility / max(p, 1) * np.append(0.0, ~self.problem.equality) * scales
        heights = model.heights + np.take_along_axis(spare, np.maximum(model.owner, 0), 1)
        gram = fetch_one(bmm(model.V, model.V.mT))
        v = self.problem.violation(S.values[rows] * scales)
        found = bundle.bundle_step(model._replace(heights=heights), gram, np.full(len(rows), 1e-12), v, p)
        S.put("d", rows, weighted(send(-found.weights, model.V), model.V))
        S.t[rows] = 1.0

    def _sample(self, S: SolverRows, rows: Array) -> None:
        """Look for the cuts that the bound still lacks, a short way down the aggregate gradient.

        Where the bound says something is left to gain, its aggregate gradient q is not small; the point
        x - r q/|q| either is better or gives a cut with a smaller slope along q (Wolfe's method for the
        shortest vector of a convex hull, over the gradients within r of x).
        """
        s = self.problem.settings
        unit = self.problem.objective_scale(S, rows) * S.scales[rows, 0] * s.tol
        model = self.problem.cutting_plane_model(S, rows)
        parts = [(part, self.stopping.bundle_test(S, rows[part], narrow)) for part, narrow in model.by_relevance(unit)]
        q = parts[0][1]
        if len(parts) > 1:
            order = np.concatenate([part for part, _ in parts]).argsort()
            q = torch.cat([some for _, some in parts])[positions(order, q.device)]
        begun = (S.trials[rows] == 0) & (S.verdict[rows] == NOTHING)
        self.stopping.unfolded_test(S, rows[begun])
        length = fetch_one(norm(q))
        S.put("d", rows, factor(-0.25 * unit / np.maximum(length, 1e-300), q) * q)
        S.t[rows] = 1.0
        S.promise[rows] = -0.1 * unit * S.mu[rows]
        # Give up where the bound has not halved for a while.
        gap, iterations, early = S.gap[rows], S.iterations[rows], S.early[rows]
        halved = gap < 0.5 * S.mark[rows]
        S.mark[rows[halved]], S.marked_at[rows[halved]] = gap[halved], iterations[halved]
        patience = 10 + s.cuts // 4
        ending = (iterations - S.marked_at[rows] > patience) | ~(length > 0)
        hopeless = gap > HOPELESS * s.tol
        ending |= hopeless & early if s.all_faces else hopeless
        self.stopping.unfolded_test(S, rows[ending & ~begun & (S.verdict[rows] == NOTHING)])
        ending &= S.verdict[rows] == NOTHING
        back = ending & early
        S.early[rows[back]] = S.plain[rows[back]] = False
        self._enter(S, rows[back], SEARCH)
        self.stopping.give_up(S, rows[ending & ~back])
