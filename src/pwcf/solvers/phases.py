"""Where quasi-Newton directions fail: bundle steps, restoration of feasibility, and certification."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pwcf.solvers import bundle
from pwcf.solvers.bundle import CuttingPlaneModel
from pwcf.solvers.constraints import total_violation
from pwcf.solvers.linalg import bmm, norm, portions, select, weighted
from pwcf.solvers.state import BUNDLE, CERTIFY, RESTORE, RUNNING, SEARCH, SolverProblem, SolverRows
from pwcf.solvers.steering import NEGLIGIBLE, SUFFICIENT
from pwcf.solvers.stopping import WEIGHTY, StoppingTest

# In bundle steps mu is lowered faster than in steering: each costs a QP. Below MU_LEAST a problem is given
# up as infeasible.
MU_CUT, MU_LEAST = 0.5, 1e-8
# Null steps in a row after which H is given up in favour of the identity: at once where the bundle can hold every face,
# for then the faces say more than H.
NULLS, NULLS_COMPLETE = 8, 1
# Steps with H between two tests of a row; a test costs as much as a step.
TEST_EVERY = 3
# Where a vertex could not be certified, or on an early try, a bound this many times tol is not worth certifying.
HOPELESS = 30.0
# Restoration converges like Newton's method; if six steps do not do it, more will not.
RESTORATIONS = 6


@dataclass(frozen=True)
class BundlePhases:
    """The phases BUNDLE, RESTORE and CERTIFY."""

    problem: SolverProblem
    stopping: StoppingTest

    def leave_search(self, S: SolverRows, rows: Tensor) -> None:
        """Let rows go on from quasi-Newton directions, or from a move in CERTIFY, to bundle steps if there are any."""
        if self.problem.settings.bundles:
            self._enter(S, rows, BUNDLE)
        else:
            self._conclude(S, rows)

    def advance(self, S: SolverRows, alive: Tensor) -> None:
        """Find the next step of all rows in these phases; a row may pass through several of them."""
        for phase, act in ((BUNDLE, self._bundle), (RESTORE, self._restore), (CERTIFY, self._certify)):
            rows = (alive & (S.phase == phase) & (S.status == RUNNING)).nonzero().squeeze(-1)
            for portion in portions(rows, self.problem.portion(S)):
                act(S, portion)

    def take_over(self, S: SolverRows, rows: Tensor) -> None:
        """Begin bundle steps for rows whose search along quasi-Newton directions came to nothing at once."""
        self._enter(S, rows, BUNDLE)
        for portion in portions(rows, self.problem.portion(S)):
            self._bundle(S, portion)

    def _enter(self, S: SolverRows, rows: Tensor, phase: int) -> None:
        """Let rows begin a phase: progress is measured anew."""
        S.phase[rows] = phase
        if phase == BUNDLE:
            S.tau[rows] = torch.where(S.plain[rows], self._first_length(S, rows), 1.0)
        S.nulls[rows] = 0
        S.mark[rows] = torch.inf
        S.marked_at[rows] = S.iterations[rows]
        S.trials[rows] = 0

    def _first_length(self, S: SolverRows, rows: Tensor) -> Tensor:
        """The factor tau that steps with the identity begin with: any length, or about that of the last good step."""
        return (self.problem.reach(S, rows) if self.problem.complete else 4 * S.stride[rows]) / S.mu[rows]

    def _bundle(self, S: SolverRows, rows: Tensor) -> None:
        """Find the next bundle step; rows without a promising one go on to CERTIFY."""
        model = self.problem.cutting_plane_model(S, rows)
        unit = self.problem.objective_scale(S, rows) * S.scales[rows, 0] * self.problem.settings.tol
        horizon = S.mu[rows] * unit + S.promise[rows].abs()
        for part, narrow in model.by_relevance(horizon / S.mu[rows]):
            self._bundle_class(S, rows[part], narrow, unit[part])

    def _bundle_class(self, S: SolverRows, rows: Tensor, model: CuttingPlaneModel, unit: Tensor) -> None:
        s, p = self.problem.settings, self.problem.p
        x, values, scales, mu = S.x[rows], S.values[rows], S.scales[rows], S.mu[rows]
        bounds = self.problem.bounds.of(S.index[rows])
        v = total_violation((values * scales)[:, 1:], self.problem.equality)
        weights = torch.cat([mu.unsqueeze(-1), S.multipliers[rows]], -1) * scales
        mask = bounds.free(x, weighted(weights, S.gradients[rows]))
        V = model.V if mask is None else model.V * mask.unsqueeze(1)
        # Among many flat faces H can become so lopsided that no step along it is of use: then the identity
        # takes its place.
        switch = ~S.plain[rows] & (S.nulls[rows] >= (NULLS_COMPLETE if self.problem.complete else NULLS))
        plain = S.plain[rows] = S.plain[rows] | switch
        S.tau[rows] = torch.where(switch, self._first_length(S, rows), S.tau[rows])
        gram = bmm(V, V.mT).double()
        curved = (~plain).nonzero().squeeze(-1)
        products = S.hessian.products(rows[curved], select(V, curved)) if curved.numel() else None
        if products is not None:
            gram[curved] = products.gram
        found = bundle.bundle_step(model, gram * S.tau[rows][:, None, None], mu, v, p)
        step = weighted(found.weights, V)
        if products is not None:
            step[curved] = products.combine(found.weights[curved])
        step = -step * S.tau[rows].to(x.dtype).unsqueeze(-1)
        if mask is not None:
            step = step * mask
        S.d[rows], S.t[rows], S.promise[rows] = step, 1.0, found.promise
        S.multipliers[rows] = found.multipliers
        # Steering with all faces of a kink in view: where the step leaves the violation, f weighs too much.
        heavy = (v > NEGLIGIBLE) & (v - found.violation_ahead < SUFFICIENT * v) & (mu > MU_LEAST)
        S.stationarity[rows] = norm(step).double()
        # Cuts that carry weight are kept.
        S.cuts.mark_used(rows, model, found.weights > WEIGHTY * mu.unsqueeze(-1), S.evaluations[rows])

        ending = ~(found.promise < -1e-14 * (1 + v)) | ~torch.isfinite(step.sum(-1))
        patience = torch.where(plain & ~S.early[rows], s.window + s.cuts // 2, s.window + s.cuts // 8)
        ending |= ~self.stopping.makes_progress(S, rows, 0.1 * unit * mu, patience)
        # The step's own multipliers give a bound for nothing.
        self.stopping.claim(S, rows, self.stopping.step_bound(S, rows, model, found.weights))
        # In steps with H they are not the best ones the cuts offer.
        test = (S.status[rows] == RUNNING) & ~ending & ~plain
        test &= (-found.promise <= 10 * unit * mu) & (S.trials[rows] % TEST_EVERY == 0)
        if bool(test.any()):
            self.stopping.bundle_test(S, rows[test], CuttingPlaneModel(*(tensor[test] for tensor in model)))
        S.mu[rows] = torch.where(heavy, MU_CUT * mu, mu)
        self._enter(S, rows[heavy], BUNDLE)
        ending &= ~heavy & (S.status[rows] == RUNNING)
        # What H sees as the end may be H's fault: go on with the identity before believing it.
        S.plain[rows] |= ending
        self._enter(S, rows[ending & ~plain], BUNDLE)
        self._conclude(S, rows[ending & plain])

    def _conclude(self, S: SolverRows, rows: Tensor) -> None:
        """End bundle steps where nothing is left to gain: infeasible rows go on to RESTORE, the others to CERTIFY."""
        violated = self.problem.violation(S.values[rows]) > self.problem.settings.feasibility
        self._enter(S, rows[violated], RESTORE)
        self._enter(S, rows[~violated], CERTIFY)

    def _restore(self, S: SolverRows, rows: Tensor) -> None:
        """The shortest step that satisfies all cuts of the constraints, with half the tolerance to spare.

        Bundle steps end within a little of the feasible set; the answer must lie inside.
        """
        s, p = self.problem.settings, self.problem.p
        violated = self.problem.violation(S.values[rows]) > s.feasibility
        self._enter(S, rows[~violated], CERTIFY)
        # Steps that do not lead there: f weighs too much, or there is nothing feasible to be found.
        tired = violated & (S.trials[rows] >= RESTORATIONS)
        hope = S.mu[rows] > MU_LEAST
        S.mu[rows[tired & hope]] *= 0.1
        self._enter(S, rows[tired & hope], BUNDLE)
        self.stopping.end(S, rows[tired & ~hope])
        rows = rows[violated & ~tired]
        if rows.numel() == 0:
            return
        model = self.problem.cutting_plane_model(S, rows)
        inequality = torch.cat([torch.zeros_like(self.problem.equality[:1]), ~self.problem.equality]).double()
        spare = 0.5 * s.feasibility / max(p, 1) * inequality
        heights = model.heights + (spare * S.scales[rows]).gather(1, model.owner.clamp(min=0))
        gram = bmm(model.V, model.V.mT).double()
        tiny = torch.full_like(S.mu[rows], 1e-12)
        v = total_violation((S.values[rows] * S.scales[rows])[:, 1:], self.problem.equality)
        found = bundle.bundle_step(model._replace(heights=heights), gram, tiny, v, p)
        S.d[rows], S.t[rows] = -weighted(found.weights, model.V), 1.0

    def _certify(self, S: SolverRows, rows: Tensor) -> None:
        """Look for the cuts that the bound still lacks, a short way down the aggregate gradient.

        Where the bound says something is left to gain, its aggregate gradient q is not small; the point
        x - r q/|q| either is better or gives a cut with a smaller slope along q (Wolfe's method for the
        shortest vector of a convex hull, over the gradients within r of x).
        """
        s, x = self.problem.settings, S.x[rows]
        unit = self.problem.objective_scale(S, rows) * S.scales[rows, 0] * s.tol
        model = self.problem.cutting_plane_model(S, rows)
        q = torch.zeros_like(x)
        for part, narrow in model.by_relevance(unit):
            q[part] = self.stopping.bundle_test(S, rows[part], narrow)
        begun = (S.trials[rows] == 0) & (S.status[rows] == RUNNING)
        self.stopping.unfolded_test(S, rows[begun])
        length = norm(q).double()
        S.d[rows] = -(0.25 * unit / length.clamp(min=1e-300)).to(x.dtype).unsqueeze(-1) * q
        S.t[rows] = 1.0
        S.promise[rows] = -0.1 * unit * S.mu[rows]
        # Give up where the bound has not halved for a while.
        halved = S.gap[rows] < 0.5 * S.mark[rows]
        S.mark[rows] = torch.where(halved, S.gap[rows], S.mark[rows])
        S.marked_at[rows] = torch.where(halved, S.iterations[rows], S.marked_at[rows])
        patience = 10 + s.cuts // 4
        ending = (S.iterations[rows] - S.marked_at[rows] > patience) | ~(length > 0)
        hopeless = S.gap[rows] > HOPELESS * s.tol
        ending |= hopeless & S.early[rows] if s.certifiable else hopeless
        self.stopping.unfolded_test(S, rows[ending & ~begun & (S.status[rows] == RUNNING)])
        ending &= S.status[rows] == RUNNING
        back = ending & S.early[rows]
        S.early[rows[back]] = S.plain[rows[back]] = False
        self._enter(S, rows[back], SEARCH)
        self.stopping.end(S, rows[ending & ~back])
