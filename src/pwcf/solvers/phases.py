"""What a row does where quasi-Newton directions fail: bundle steps, restoration, certification."""

from __future__ import annotations

import torch
from torch import Tensor

from pwcf.solvers import bundle
from pwcf.solvers.rowwise import bmm, norm, select, weighted
from pwcf.solvers.state import BUNDLE, CERTIFY, RESTORE, RUNNING, SEARCH, Rows
from pwcf.solvers.steering import NEGLIGIBLE, SUFFICIENT, violation
from pwcf.solvers.stopping import WEIGHTY, StoppingTest

# In bundle steps mu is lowered faster than in steering: each costs a QP. Below MU_LEAST a problem is given
# up as infeasible.
MU_CUT, MU_LEAST = 0.5, 1e-8
# Null steps in a row after which the quasi-Newton metric is given up: at once where the bundle can hold every face,
# for then the faces say more than H.
NULLS, NULLS_COMPLETE = 8, 1
# Steps in the metric of H between two tests of a row; a test costs as much as a step.
TEST_EVERY = 3
# Where a vertex could not be certified, or on an early try, a bound this many times tol is not worth certifying.
HOPELESS = 30.0
# Restoration converges like Newton's method; if six steps do not do it, more will not.
RESTORATIONS = 6


class BundlePhases(StoppingTest):
    """The phases BUNDLE, RESTORE and CERTIFY."""

    def _enter(self, S: Rows, rows: Tensor, phase: int) -> None:
        """Let rows begin a phase: progress is measured anew."""
        S.phase[rows] = phase
        if phase == BUNDLE:
            S.tau[rows] = torch.where(S.plain[rows], self._first_length(S, rows), 1.0)
        S.nulls[rows] = 0
        S.mark[rows] = torch.inf
        S.marked_at[rows] = S.iterations[rows]
        S.trials[rows] = 0

    def _first_length(self, S: Rows, rows: Tensor) -> Tensor:
        """The factor tau that the plain metric begins with: any length, or about that of the last good step."""
        return (self._reach(S, rows) if self.complete else 4 * S.stride[rows]) / S.mu[rows]

    def _bundle(self, S: Rows, rows: Tensor) -> None:
        """The next bundle step; rows it has nothing for go on to CERTIFY."""
        model = self._model(S, rows)
        unit = self._objective_scale(S, rows) * S.scales[rows, 0] * self.settings.tol
        horizon = S.mu[rows] * unit + S.promise[rows].abs()
        for part, narrow in self._classes(model, horizon / S.mu[rows]):
            self._bundle_class(S, rows[part], narrow, unit[part])

    def _bundle_class(self, S: Rows, rows: Tensor, model: bundle.Model, unit: Tensor) -> None:
        s, p = self.settings, self.oracle.p
        x, values, scales, mu = S.x[rows], S.values[rows], S.scales[rows], S.mu[rows]
        bounds = self.bounds.of(S.index[rows])
        v = violation((values * scales)[:, 1:], self.equality)
        weights = torch.cat([mu.unsqueeze(-1), S.multipliers[rows]], -1) * scales
        mask = bounds.free(x, weighted(weights, S.gradients[rows]))
        V = model.V if mask is None else model.V * mask.unsqueeze(1)
        # Among many flat faces H can become so lopsided that no step along it is of use: then the plain
        # metric takes its place.
        switch = ~S.plain[rows] & (S.nulls[rows] >= (NULLS_COMPLETE if self.complete else NULLS))
        plain = S.plain[rows] = S.plain[rows] | switch
        S.tau[rows] = torch.where(switch, self._first_length(S, rows), S.tau[rows])
        gram = bmm(V, V.mT).double()
        curved = (~plain).nonzero().squeeze(-1)
        metric = S.hessian.metric(rows[curved], select(V, curved)) if curved.numel() else None
        if metric is not None:
            gram[curved] = metric.gram
        found = bundle.bundle_step(model, gram * S.tau[rows][:, None, None], mu, v, p)
        step = weighted(found.weights, V)
        if metric is not None:
            step[curved] = metric.combine(found.weights[curved])
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
        ending |= ~self._progress(S, rows, 0.1 * unit * mu, patience)
        # The step's own multipliers give a bound for nothing.
        self._claim(S, rows, self._step_bound(S, rows, model, found.weights))
        # In the metric of H they are not the best ones the cuts offer.
        test = (S.status[rows] == RUNNING) & ~ending & ~plain
        test &= (-found.promise <= 10 * unit * mu) & (S.trials[rows] % TEST_EVERY == 0)
        if bool(test.any()):
            self._test(S, rows[test], bundle.Model(*(tensor[test] for tensor in model)))
        S.mu[rows] = torch.where(heavy, MU_CUT * mu, mu)
        self._enter(S, rows[heavy], BUNDLE)
        ending &= ~heavy & (S.status[rows] == RUNNING)
        # What H sees as the end may be H's fault: go on in the plain metric before believing it.
        S.plain[rows] |= ending
        self._enter(S, rows[ending & ~plain], BUNDLE)
        self._conclude(S, rows[ending & plain])

    def _conclude(self, S: Rows, rows: Tensor) -> None:
        """Nothing is left to gain: what is violated is put right, the rest certified."""
        violated = self.user_violation(S.values[rows]) > self.settings.feasibility
        self._enter(S, rows[violated], RESTORE)
        self._enter(S, rows[~violated], CERTIFY)

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
        model = self._model(S, rows)
        inequality = torch.cat([torch.zeros_like(self.equality[:1]), ~self.equality]).double()
        spare = 0.5 * s.feasibility / max(p, 1) * inequality
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
        begun = (S.trials[rows] == 0) & (S.status[rows] == RUNNING)
        self._unfolded_test(S, rows[begun])
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
        self._unfolded_test(S, rows[ending & ~begun & (S.status[rows] == RUNNING)])
        ending &= S.status[rows] == RUNNING
        back = ending & S.early[rows]
        S.early[rows[back]] = S.plain[rows[back]] = False
        self._enter(S, rows[back], SEARCH)
        self._end(S, rows[ending & ~back])
