"""The last doubt: before a row says converged, better points are looked for where they would be if it were not."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from pwcf.solvers.bundle import CuttingPlaneModel, bundle_step
from pwcf.solvers.host import (
    Array,
    dot,
    factor,
    fetch,
    fetch_one,
    matvec,
    portions,
    positions,
    select,
    send,
    where_true,
)
from pwcf.solvers.linalg import bmm, norm, weighted
from pwcf.solvers.state import (
    CONFIRM,
    GIVEN_UP,
    NOTHING,
    PASSED_AT_X,
    PASSED_BY_CUTS,
    RETURN,
    RUNNING,
    SolverProblem,
    SolverRows,
)
from pwcf.solvers.steering import Steering, penalty_weights
from pwcf.solvers.stopping import StoppingTest

# The steps tried, relative to the size of x.
RADII = (1e-2, 1e-3, 1e-4)
# A step that gains this share of what tol allows refutes the test.
REFUTES = 0.5
# In a valley so flat that the gradient says little, a step that would gain this many times what tol allows is tried
# too, if it is no longer than FAR times the size of x.
VALLEY, FAR = 10.0, 1e4
# Cuts made within this of x, relative to its size, are close to it.
NEAR = 3e-4
# Steps tried with them: a few, or, where the problem is not convex, for all faces that a vertex can have and some more.
A_FEW, MORE = 5, 4
# Then a bound this many times tol will do: it is that of a few cuts.
NEARLY = 5.0
# Trials are counted from here where the sides of kinks are tried, for each entry of x and some more so often.
SIDES, SIDE_TRIALS = 10_000, 4
# Every fourth pair is closer to x by this factor.
CLOSER = {torch.float32: 1.0, torch.float64: 0.05}
# A change of the slope by this share of it within NEAR may be curvature; more is a kink.
BENT = 0.02
# Pairs of points beside x; where all that was seen looks convex fewer, and still fewer in more than LOW variables, of
# whose sides so few points would find a small part.
PAIRS, FEW_PAIRS, LEAST_PAIRS, LOW = 24, 8, 3, 10
# Their directions are chosen from so many.
POOL = 256
# Times that a row goes back to its best point.
RETURNS = 3
# It begins anew, ASIDE of it relative to its size, where the bound is HOPEFUL times tol and the last time has gained
# WORTHWHILE times what tol allows.
ASIDE, HOPEFUL, WORTHWHILE = 1e-4, 10.0, 30.0


@dataclass(frozen=True)
class Confirmation:
    """The phase CONFIRM: steps of the linearised problem, evaluated, from points that have passed the test."""

    problem: SolverProblem
    steering: Steering
    stopping: StoppingTest

    def advance(self, S: SolverRows, alive: Array) -> None:
        """Set the next step to try of all rows that have passed; those that withstood all of them have converged."""
        rows = where_true(alive & (S.verdict != NOTHING) & (S.status == RUNNING))
        rows = rows[~self._returns(S, rows)] if len(rows) else rows
        if len(rows) == 0:
            return
        # Gradients at x alone leave nothing to gain nearby that the linearised problem could show.
        first = np.where(S.verdict[rows] == PASSED_AT_X, len(RADII), 0)
        S.trials[rows] = np.where(S.phase[rows] == CONFIRM, S.trials[rows], first)
        S.phase[rows] = CONFIRM
        near, sides = S.trials[rows] > len(RADII), S.trials[rows] >= SIDES
        for portion in portions(rows[sides], self.problem.portion(S)):
            self._try_sides(S, portion)
        for portion in portions(rows[near & ~sides], self.problem.portion(S)):
            self._try_near_cuts(S, portion)
        self._try_linearised(S, rows[~near])

    def _try_linearised(self, S: SolverRows, rows: Array) -> None:
        """Set the next step of the linearised problem at x."""
        if len(rows) == 0:
            return
        tried, size, mu = S.trials[rows], 1 + S.size[rows], S.mu[rows]
        sf = S.scales[rows, 0] * mu
        unit = self.problem.objective_scale(S, rows) * sf * self.problem.settings.tol
        radius = np.array((*RADII, RADII[0]))[tried] * size
        slope = fetch_one(norm(select(S.gradients, rows)[:, 0])) * sf
        tau = radius / np.maximum(slope, 1e-300)
        d, found = self.steering.linearised_step(S, rows, np.minimum(tau, 1e100))
        length, promise = fetch_one(norm(d)), found.promise
        # A step that constraints have made short is tried longer; the others stay as they are.
        short = where_true(length < 0.5 * radius)
        if len(short):
            longer = np.minimum(radius / np.maximum(length, 1e-300), 1e4)
            further, found = self.steering.linearised_step(S, rows[short], np.minimum(tau * longer, 1e100)[short])
            d[positions(short, d.device)] = further
            promise[short], length[short] = found.promise, fetch_one(norm(further))
        valley = VALLEY * unit * length / np.maximum(-promise, 1e-300)
        far = (tried == len(RADII)) & (valley > radius) & (valley <= FAR * size) & (promise < 0)
        wanted = np.where(far, valley, np.minimum(length, radius))
        S.put("d", rows, d * factor(wanted / np.maximum(length, 1e-300), d))
        S.t[rows], S.promise[rows] = 1.0, -10 * REFUTES * unit
        # Nothing to try: no evaluation is spent on it.
        idle = rows[((tried == len(RADII)) & ~far) | ~(length > 0)]
        for portion in portions(idle, self.problem.portion(S)):
            self._try_near_cuts(S, portion)

    def _try_near_cuts(self, S: SolverRows, rows: Array) -> None:
        """The test once more for what was judged by cuts, with those made close to x alone.

        A function that is not convex may lie below a cut in directions that were never tried. As in SAMPLE, a short
        step down the aggregate gradient is better, or brings a cut that is missing. Where all that was seen looks
        convex a few such steps are enough; otherwise this test must be passed too, or nearly so.
        """
        by_cuts = S.verdict[rows] == PASSED_BY_CUTS
        # A row without a way on may find one on the side of a kink; and where two sides are equally steep automatic
        # differentiation may give 0 for the kink itself.
        kinked = (S.verdict[rows] == GIVEN_UP) & S.concave[rows]
        kinked |= (S.verdict[rows] == PASSED_AT_X) & self.problem.settings.all_faces
        self.stopping.end(S, rows[~by_cuts & ~kinked])
        self._begin_sides(S, rows[kinked])
        rows = rows[by_cuts]
        if len(rows) == 0:
            return
        x, bounds, first = select(S.x, rows), self.problem.bounds_of(S, rows), len(RADII) + 1
        within, gap = NEAR * (1 + S.size[rows]), S.gap[rows]
        model = self.problem.cutting_plane_model(S, rows, within)
        passed, q = self.stopping.passes(S, rows, model)
        nearby = S.gap[rows]
        nearly = nearby <= NEARLY * self.problem.settings.tol
        free = bounds.free(x, q)
        q = q if free is None else q * free
        length, radius = fetch_one(norm(q)), 0.3 * within
        S.trials[rows] = trials = np.maximum(S.trials[rows], first)
        S.put("d", rows, factor(-radius / np.maximum(length, 1e-300), q) * q)
        S.t[rows], S.promise[rows] = 1.0, -radius * length * S.mu[rows]
        enough = np.where(S.concave[rows], x.shape[1] + MORE, A_FEW)
        tired = ~passed & ((trials - first >= enough) | ~(length > 0))
        refused = tired & ~nearly & S.concave[rows]
        S.verdict[rows[refused]] = GIVEN_UP
        S.gap[rows] = np.where(refused, nearby, gap)
        self._begin_sides(S, rows[passed | tired])

    def _begin_sides(self, S: SolverRows, rows: Array) -> None:
        S.trials[rows] = SIDES
        self._try_sides(S, rows)

    def _try_sides(self, S: SolverRows, rows: Array) -> None:
        """Try the sides of kinks that point upwards, where gradients of all sides cancel but one side leads down.

        Pairs of points opposite each other bring cuts of both sides of every kink. A side is what the cuts that hold at
        one point near x say. Its step is tried at full length; if that is no better, the next, a short one, brings
        the cut that the side lacked.
        """
        if len(rows) == 0:
            return
        n, size, mu = S.x.shape[1], 1 + S.size[rows], S.mu[rows]
        unit = self.problem.objective_scale(S, rows) * S.scales[rows, 0] * self.problem.settings.tol * mu
        S.t[rows], S.promise[rows] = 1.0, -10 * REFUTES * unit
        tried, within = S.trials[rows] - SIDES, NEAR * size
        pairs = np.where(S.concave[rows], PAIRS, FEW_PAIRS if n <= LOW else LEAST_PAIRS)
        sampled = 2 * np.where(S.verdict[rows] == PASSED_AT_X, 1, pairs)
        beside = where_true(tried < sampled)
        if len(beside):
            lengths = np.where(tried % 2 == 0, 0.5, -0.5) * within
            lengths *= np.where(tried // 2 % 4 < 3, 1.0, CLOSER[S.x.dtype])
            S.put("d", rows[beside], factor(lengths[beside], S.x) * _samples(n, S.x)[tried[beside] // 2])
        # An f that has no gradient here either has no kinks.
        flat = S.scale[rows, 0] == 0
        self.stopping.end(S, rows[(tried >= sampled) & flat])
        done = where_true((tried >= sampled) & ~flat)
        if len(done) == 0:
            return
        rows, tried, within, unit = rows[done], (tried - sampled)[done], within[done], unit[done]
        steps, aside, promise = self._best_sides(S, rows, within, RADII[0] * size[done], unit)
        going = (promise < -unit) & (tried < SIDE_TRIALS * (n + MORE))
        # The short step begins at the point of the side: from x itself it might leave the side.
        lengths, distance = fetch(norm(steps), norm(aside))
        turned = aside + steps * factor(0.3 * distance / np.maximum(lengths, 1e-300), steps)
        turned = turned * factor(0.5 * within / np.maximum(fetch_one(norm(turned)), 1e-300), turned)
        S.put("d", rows, torch.where(send((tried % 2 == 1)[:, None], steps), turned, steps))
        S.verdict[rows[~going & (promise < -unit)]] = GIVEN_UP
        S.verdict[rows[going & (S.verdict[rows] == PASSED_AT_X)]] = PASSED_BY_CUTS
        self.stopping.end(S, rows[~going])

    def _best_sides(
        self, S: SolverRows, rows: Array, within: Array, radius: Array, unit: Array
    ) -> tuple[Tensor, Tensor, Array]:
        """The side that promises most: its step (r, n), ``radius`` (r,) long, its point as seen from x, its promise."""
        p, x, scales = self.problem.p, select(S.x, rows), S.scales[rows]
        model = self.problem.cutting_plane_model(S, rows, within)
        # A slope that gains less than tol allows on the way does not matter.
        slope = (unit / radius)[:, None] / (scales * penalty_weights(S.mu[rows], np.ones((len(rows), p))))
        bend = BENT / within[:, None] * fetch_one(norm(select(S.gradients, rows)))
        step = x - select(S.reference, rows)
        holds, near = S.cuts.holding(rows, step, within, slope, bend, self.problem.equality)
        filled, every = (model.owner >= 0)[..., None], np.arange(len(rows))[:, None]
        # (r, K, l): which columns of the model belong to the side of which point
        sides = holds[every, model.source, np.maximum(model.owner, 0)] & filled
        # A constraint without any is taken as it is at x.
        mine = (model.owner[:, None] == np.arange(1, p + 1)[:, None]).astype(np.float64)
        absent = np.matmul(mine, sides.astype(np.float64)) == 0
        at_home = (model.source == S.cuts.home[rows][:, None]) & (model.owner > 0)
        sides |= at_home[..., None] & (np.matmul(mine.swapaxes(1, 2), absent.astype(np.float64)) > 0)
        usable = near & (sides < filled).any(1) & (sides & (model.owner == 0)[..., None]).any(1)
        steps, aside, promise = torch.zeros_like(x), torch.zeros_like(x), np.zeros(len(rows))
        row, point = _distinct(sides, usable)
        if len(row):
            found, gained = self._side_steps(S, rows[row], model.take(row).only(sides[row, :, point]), radius[row])
            order = np.lexsort((gained, row))
            first = order[np.append(True, np.diff(row[order]) > 0)]
            promise[row[first]] = gained[first]
            there, which = positions(row[first], x.device), positions(first, x.device)
            steps[there] = found[which]
            places = positions(rows[row[first]], x.device), positions(point[first], x.device)
            aside[there] = S.cuts.points[places] + select(S.reference, rows)[there] - x[there]
        return steps, aside, promise

    def _side_steps(self, S: SolverRows, rows: Array, model: CuttingPlaneModel, radius: Array) -> tuple[Tensor, Array]:
        """Steps (r, n) of models, about ``radius`` (r,) long, and the change (r,) of the penalty function promised."""
        p, mu, x, bounds = self.problem.p, S.mu[rows], select(S.x, rows), self.problem.bounds_of(S, rows)
        v = self.problem.violation(S.values[rows] * S.scales[rows])
        if bounds.present and self.problem.settings.walls:
            model = model.with_walls(x, bounds, p)
        gram = fetch_one(bmm(model.V, model.V.mT))
        slope = np.sqrt(np.where(model.owner == 0, np.einsum("bii->bi", gram), 0.0).max(1))
        tau = radius / np.maximum(slope * mu, 1e-300)
        for last in (False, False, True):
            found = bundle_step(model, gram * tau[:, None, None], mu, v, p)
            length = tau * np.sqrt(np.maximum(dot(found.weights, matvec(gram, found.weights)), 0.0))
            if not last:
                tau = tau * np.clip(radius / np.maximum(length, 1e-300), 0.1, 1e3)
        shorter = np.minimum(radius / np.maximum(length, 1e-300), 1.0)
        step = weighted(send(found.weights, model.V), model.V) * factor(-tau * shorter, x)
        return bounds.project(x + step) - x, found.promise * shorter

    def _returns(self, S: SolverRows, rows: Array) -> Array:
        """Send rows that give up back to where they were best; returns which of them (r,).

        A few times if that was elsewhere. Where the problem is not convex, as often as it has led to something: then
        they begin beside that point, with a new H.
        """
        s, values, best = self.problem.settings, S.values[rows], S.best_values[rows, 0]
        unit = s.tol * self.problem.objective_scale(S, rows)
        gained, violated = values[:, 0] - best, self.problem.violation(values) > s.feasibility
        feasible, stuck = S.best_violation[rows] <= s.feasibility, S.verdict[rows] == GIVEN_UP
        better: Array = stuck & (S.returns[rows] < RETURNS) & ((gained > unit) | violated)
        # A trial point that was too little for a step may be enough to refute the test.
        better |= ~stuck & (gained > REFUTES * unit) & ~violated
        afresh = stuck & ~better & S.concave[rows] & (S.gap[rows] > HOPEFUL * s.tol)
        afresh &= S.came_back_with[rows] - best > WORTHWHILE * unit
        better, afresh = (better | afresh) & feasible, afresh & feasible
        if not better.any():
            return better
        S.came_back_with[rows[afresh]], S.mu[rows[afresh]] = best[afresh], s.mu0
        back = rows[better]
        S.phase[back], S.t[back], S.returns[back] = RETURN, 1.0, S.returns[back] + 1
        aside = np.where(afresh, ASIDE * (1 + S.size[rows]), 0.0)[better]
        d = select(S.best_x, back) - select(S.x, back)
        d = d + factor(aside, d) * _samples(d.shape[1], d)[S.returns[back] % PAIRS]
        S.put("d", back, d)
        return better


def _samples(n: int, like: Tensor) -> Tensor:
    """Fixed directions (PAIRS, n) of length 1, far from each other and from each other's opposites."""
    return _spread_directions(n).to(like)


@lru_cache(maxsize=8)
def _spread_directions(n: int) -> Tensor:
    """One by one the direction that is farthest from those before, out of many without any structure."""
    numbers = torch.arange(1, POOL * n + 1, dtype=torch.float64).view(POOL, n)
    pool = torch.cos(numbers**2)
    pool = pool / pool.norm(dim=1, keepdim=True)
    chosen, nearest = [0], torch.zeros(POOL, dtype=torch.float64)
    for _ in range(PAIRS - 1):
        nearest = torch.maximum(nearest, (pool * pool[chosen[-1]]).sum(1).abs())
        chosen.append(int(nearest.argmin()))
    directions: Tensor = pool[chosen]
    return directions


def _distinct(sides: Array, usable: Array) -> tuple[Array, Array]:
    """Of the sides (r, K, l) of each row one of each kind: rows and points. Only ``usable`` (r, l) ones count."""
    row, point = usable.nonzero()
    if len(row) == 0:
        return row, point
    kinds = np.concatenate([row[:, None], sides[row, :, point]], 1)
    _, first = np.unique(kinds, axis=0, return_index=True)
    first.sort()
    return row[first], point[first]
