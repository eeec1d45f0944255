"""The sides of kinks that point upwards: where gradients of all sides cancel although one side leads down.

No bound over all gradients can tell such a point, which is stationary in Clarke's sense, from a minimum: the kink of
-|x| is one. A *side* is what the cuts that hold at one point beside x say, that is, those that do not lie above the
function there; cuts of the other side of an upward kink do.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from pwcf.solvers.bundle import CuttingPlaneModel, bundle_step
from pwcf.solvers.host import Array, dot, factor, fetch, fetch_one, matvec, positions, select, send, where_true
from pwcf.solvers.linalg import bmm, norm, weighted
from pwcf.solvers.state import GIVEN_UP, PASSED_AT_X, PASSED_BY_CUTS, SolverProblem, SolverRows
from pwcf.solvers.steering import penalty_weights
from pwcf.solvers.stopping import StoppingTest

# Trials of rows in this stage are counted from here.
BEGIN = 10_000
# Points within this of x, relative to its size, are beside it.
BESIDE = 3e-4
# Pairs of points beside x; where all that was seen looks convex fewer, and still fewer in more than LOW variables, of
# whose sides so few points would find a small part. One pair where the gradients at x alone had passed.
PAIRS, FEW_PAIRS, LEAST_PAIRS, LOW = 24, 8, 3, 10
# In double precision every fourth pair is closer to x by this factor.
CLOSER = 0.05
# A change of the slope by this share of it within BESIDE may be curvature; more is a kink.
BENT = 0.02
# The length of a side's step, relative to the size of x.
STEP = 1e-2
# A trial that gains this share of what tol allows refutes the test.
REFUTES = 0.5
# Steps tried for each entry of x, and for so many more.
TRIALS, MORE = 4, 4
# Directions of pairs are chosen from so many; in more than MANY variables any two are nearly orthogonal anyway.
POOL, MANY = 256, 60


@dataclass(frozen=True)
class Sides:
    """The last stage of the phase CONFIRM."""

    problem: SolverProblem
    stopping: StoppingTest

    def begin(self, S: SolverRows, rows: Array) -> None:
        """Let rows enter this stage."""
        S.trials[rows] = BEGIN
        self.advance(S, rows)

    def advance(self, S: SolverRows, rows: Array) -> None:
        """Set the next trial point of rows; those that withstood all of them end.

        Pairs of points opposite each other bring cuts of both sides of every kink. Then the step of the most promising
        side is tried at full length; if that is no better, the next, a short one, brings the cut that the side lacked.
        """
        if len(rows) == 0:
            return
        n, size, mu = S.x.shape[1], 1 + S.size[rows], S.mu[rows]
        unit = self.problem.objective_scale(S, rows) * S.scales[rows, 0] * self.problem.settings.tol * mu
        S.t[rows], S.promise[rows] = 1.0, -10 * REFUTES * unit
        tried, within = S.trials[rows] - BEGIN, BESIDE * size
        looks_convex = FEW_PAIRS if n <= LOW else LEAST_PAIRS
        pairs = np.where(S.concave[rows] & self.problem.settings.all_faces, PAIRS, looks_convex)
        sampled = 2 * np.where(S.verdict[rows] == PASSED_AT_X, 1, pairs)
        beside = where_true(tried < sampled)
        if len(beside):
            lengths = np.where(tried % 2 == 0, 0.5, -0.5) * within
            if S.x.dtype == torch.float64:
                lengths *= np.where(tried // 2 % 4 < 3, 1.0, CLOSER)
            S.put("d", rows[beside], factor(lengths[beside], S.x) * directions(n, S.x)[tried[beside] // 2])
        # An f that has no gradient here either has no kinks.
        flat = S.scale[rows, 0] == 0
        self.stopping.end(S, rows[(tried >= sampled) & flat])
        done = where_true((tried >= sampled) & ~flat)
        if len(done) == 0:
            return
        rows, tried, within, unit = rows[done], (tried - sampled)[done], within[done], unit[done]
        steps, aside, promise = self._most_promising(S, rows, within, STEP * size[done], unit)
        going = (promise < -unit) & (tried < TRIALS * (n + MORE))
        # The short step begins at the point of the side: from x itself it might leave the side.
        lengths, distance = fetch(norm(steps), norm(aside))
        turned = aside + steps * factor(0.3 * distance / np.maximum(lengths, 1e-300), steps)
        turned = turned * factor(0.5 * within / np.maximum(fetch_one(norm(turned)), 1e-300), turned)
        S.put("d", rows, torch.where(send((tried % 2 == 1)[:, None], steps), turned, steps))
        S.verdict[rows[~going & (promise < -unit)]] = GIVEN_UP
        S.verdict[rows[going & (S.verdict[rows] == PASSED_AT_X)]] = PASSED_BY_CUTS
        self.stopping.end(S, rows[~going])

    def _most_promising(
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
            found, gained = self._steps(S, rows[row], model.take(row).only(sides[row, :, point]), radius[row])
            order = np.lexsort((gained, row))
            first = order[np.append(True, np.diff(row[order]) > 0)]
            promise[row[first]] = gained[first]
            there, which = positions(row[first], x.device), positions(first, x.device)
            steps[there] = found[which]
            places = positions(rows[row[first]], x.device), positions(point[first], x.device)
            aside[there] = S.cuts.points[places] + select(S.reference, rows)[there] - x[there]
        return steps, aside, promise

    def _steps(self, S: SolverRows, rows: Array, model: CuttingPlaneModel, radius: Array) -> tuple[Tensor, Array]:
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


def directions(n: int, like: Tensor) -> Tensor:
    """Fixed directions (PAIRS, n) of length 1, far from each other and from each other's opposites."""
    return _spread(n).to(like)


@lru_cache(maxsize=8)
def _spread(n: int) -> Tensor:
    """One by one the direction that is farthest from those before, out of many without any structure."""
    size = POOL if n <= MANY else PAIRS
    pool = torch.cos(torch.arange(1, size * n + 1, dtype=torch.float64).view(size, n) ** 2)
    pool = pool / pool.norm(dim=1, keepdim=True)
    chosen, nearest = [0], torch.zeros(size, dtype=torch.float64)
    for _ in range(PAIRS - 1):
        nearest = torch.maximum(nearest, (pool * pool[chosen[-1]]).sum(1).abs())
        chosen.append(int(nearest.argmin()))
    spread: Tensor = pool[chosen]
    return spread


def _distinct(sides: Array, usable: Array) -> tuple[Array, Array]:
    """Of the sides (r, K, l) of each row one of each kind: rows and points. Only ``usable`` (r, l) ones count."""
    row, point = usable.nonzero()
    if len(row) == 0:
        return row, point
    kinds = np.concatenate([row[:, None], sides[row, :, point]], 1)
    _, first = np.unique(kinds, axis=0, return_index=True)
    first.sort()
    return row[first], point[first]
