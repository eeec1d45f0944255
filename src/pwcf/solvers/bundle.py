"""Cuts: the linear models of f and of every constraint at the points a row has visited.

They serve twice. The *bundle step* minimises the penalty function of the piecewise linear models plus
1/2 d'H^-1 d: it sees all faces of a kink at once where a quasi-Newton direction sees one. The *gap*
bounds from below what any feasible point within reach can attain: for convex problems it is a
bound for every choice of multipliers, so an inexact QP cannot make it false.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from pwcf.solvers.bounds import Bounds
from pwcf.solvers.host import Array, dot, fetch, fetch_one, largest, matvec, part, positions, select, send, where_true
from pwcf.solvers.linalg import bmm, distances, norm, weighted, with_stored
from pwcf.solvers.qp import by_size, solve_group_qp

# In the bound, a cut this many times tol below the function could carry at most a thousandth of the weight.
RELEVANT = 1e3
# Where a problem is not convex, bounds are for this share of the neighbourhood whose concavity was seen.
LOCAL = 0.2
# Numbers of columns that rows are rounded up to.
CLASSES = (16, 32, 64)


class NewCuts(NamedTuple):
    """The cuts at the points of r rows."""

    step: Tensor
    """(r, n) from the reference to the point."""
    gradients: Tensor
    """(r, 1+p, n)"""
    values: Array
    """(r, 1+p)"""
    ahead: Array
    """(r, 1+p) products of the gradients with the step."""
    sketch: Array
    """(r, 1+p) products of the gradients with ``probe``."""


@dataclass
class Cuts:
    """A store of l cuts per row. A cut is the gradients and values of f and all c at one point."""

    gradients: Tensor
    """(B, l, 1+p, n)"""
    offsets: Array
    """(B, l, 1+p) value of the linear model at the row's reference point, float64."""
    stamp: Array
    """(B, l, 1+p) when the cut was made or its column last mattered, -1 if the place is empty."""
    home: Array
    """(B,) the place of the cut made at the current point: never given up."""
    path: Array
    """(B, l) how far the row had travelled when the cut was made: a bound on the distance to it."""
    points: Tensor
    """(B, l, n) where the cut was made, from the row's reference point."""
    sketch: Array
    """(B, l, 1+p) product of the gradient with a fixed vector: with the offset it tells equal cuts."""
    values: Array
    """(B, l, 1+p) of the functions where the cut was made, and the lengths of their gradients there."""
    steepness: Array
    compared: Array
    """(B, l) whether the cut has been compared with all others."""
    excess: Array
    """(B, l, 1+p, l) of every cut at the points of all others: (line - value) / distance^2, 0 if that is less.

    In single precision: it is an estimate, and by far the largest array of the host."""
    bent: Array
    """(B,) whether an excess was ever above 0."""

    @classmethod
    def empty(cls, b: int, size: int, columns: int, n: int, like: Tensor) -> Cuts:
        return cls(
            torch.zeros(b, size, columns, n, dtype=like.dtype, device=like.device),
            np.zeros((b, size, columns)),
            np.full((b, size, columns), -1, dtype=np.int64),
            np.zeros(b, dtype=np.int64),
            np.zeros((b, size)),
            torch.zeros(b, size, n, dtype=like.dtype, device=like.device),
            np.zeros((b, size, columns)),
            np.zeros((b, size, columns)),
            np.zeros((b, size, columns)),
            np.zeros((b, size), dtype=bool),
            np.zeros((b, size, columns, size), dtype=np.float32),
            np.zeros(b, dtype=bool),
        )

    def fields(self) -> dict[str, Tensor | Array]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def insert(self, rows: Array, new: NewCuts, clock: Array, path: Array, twice: Array) -> Array:
        """Store the cuts of some rows; returns their places (r,).

        The faces of a polyhedral function come back at many points: each is kept once, or its copies would
        fill the store. Where ``twice`` (r,), the face at x is kept at another point too: x itself may lie on a kink,
        and belong to no side of it.
        """
        stamp, home = part(self.stamp, rows), self.home[rows]
        latest = largest(stamp)
        first = latest.max(1) < 0
        latest[np.arange(len(rows)), home] = np.iinfo(np.int64).max
        place = np.where(first, 0, latest.argmin(1))
        offsets = new.values - new.ahead
        stamps = np.repeat(clock[:, None], stamp.shape[2], 1)
        rounding = 64 * torch.finfo(new.step.dtype).eps
        alike = np.abs(part(self.sketch, rows) - new.sketch[:, None]) <= (rounding * np.abs(new.sketch))[:, None]
        row, at, column = (alike & (stamp >= 0)).nonzero()
        if len(row):
            error = rounding * (np.abs(new.values) + np.abs(new.ahead))
            same = np.abs(self.offsets[rows[row], at, column] - offsets[row, column]) <= error[row, column]
            same &= at != place[row]
            # The cut at x stays; then it is the new one that is left out.
            kept = same & (at == home[row])
            dropped = kept & ~twice[row]
            stamps[row[dropped], column[dropped]] = -1
            same &= ~kept
            self.stamp[rows[row[same]], at[same], column[same]] = -1
        self.stamp[rows, place] = stamps
        self.offsets[rows, place] = offsets
        self.sketch[rows, place] = new.sketch
        self.values[rows, place], self.compared[rows, place] = new.values, False
        self.path[rows, place] = path
        device = self.gradients.device
        where = positions(rows, device), positions(place, device)
        self.gradients[where] = new.gradients
        self.points[where] = new.step
        return place

    def move_home(self, rows: Array, place: Array, clock: Array) -> None:
        """The points of the cuts in ``place`` (r,) become the current ones."""
        self.home[rows] = place
        self.stamp[rows, place] = clock[:, None]

    def seen_from(
        self, rows: Array, step: Tensor, near: Array, extent: Array, equality: Array
    ) -> tuple[Array, Array, Array]:
        """All cuts as seen from the points at ``step`` (r, n) from the reference.

        Returns their lines there (r, l, 1+p), their distances (r, l), and their concavity (r, l, 1+p): by how much a
        cut may overestimate per squared distance, judged by what was seen. That is the largest
        (line - value) / distance^2 of any stored cut at any stored point; for cuts made within ``near`` (r,) of the
        current point only pairs of such cuts count and what the cut itself overestimates anywhere. 0 where everything
        seen was convex. The linear model of an equality must be right from both sides. Points are known to the
        rounding of x and of the reference, of sizes ``extent`` (r,).
        """
        filled = largest(part(self.stamp, rows)) >= 0
        stale = filled & ~part(self.compared, rows)
        many = where_true(stale.sum(1) > 1)
        if len(many):
            self._compare_all(rows[many], filled[many], extent[many], equality)
        # Between two calls there is one new cut, at most. One pass over the store serves x and the new cut.
        new = stale.argmax(1)
        r, (l, columns, n) = len(rows), self.gradients.shape[1:]
        index, place = positions(rows, step.device), positions(new, step.device)
        slopes = self.gradients[index, place]
        ends = torch.stack([step, self.points[index, place]], 1)
        ahead = with_stored(lambda G, x: bmm(G.view(-1, l * columns, n), x.mT), self.gradients, index, ends)
        behind = with_stored(lambda P, g: bmm(g, P.mT), self.points, index, slopes)
        apart = with_stored(lambda P, x: distances(x, P), self.points, index, ends)
        ahead_, behind_, apart_, steepness = fetch(ahead.view(r, l, columns, 2), behind, apart, norm(slopes))
        lines = ahead_ + part(self.offsets, rows)[..., None]
        self._compare_new(rows, new, filled, lines[..., 1], behind_, apart_[:, 1], steepness, extent, equality)
        return lines[..., 0], apart_[:, 0], self._concavity(rows, filled, apart_[:, 0] <= near[:, None])

    def _compare_new(
        self,
        rows: Array,
        new: Array,
        filled: Array,
        others: Array,
        slopes: Array,
        apart: Array,
        steepness: Array,
        extent: Array,
        equality: Array,
    ) -> None:
        """Compare the cuts in the places ``new`` (r,) with all others, in places that are ``filled`` (r, l).

        Known are the lines of the ``others`` (r, l, 1+p) at the new points, the ``slopes`` (r, 1+p, l) of the new cuts
        towards the other points, how far ``apart`` (r, l) these are, and the ``steepness`` (r, 1+p) of the new cuts.
        """
        self.steepness[rows, new] = steepness
        values, mine = part(self.values, rows), self.values[rows, new]
        eps, distance = self._eps, np.where(apart > 1e-150, apart, np.inf)[:, :, None] ** 2
        rounding = eps * extent[:, None, None]
        theirs = _excess(others, mine[:, None], part(self.steepness, rows) * rounding, distance, equality, eps)
        lines = slopes.transpose(0, 2, 1) + self.offsets[rows, new][:, None]
        ours = _excess(lines, values, steepness[:, None] * rounding, distance, equality, eps)
        self.excess[rows, :, :, new] = theirs
        self.excess[rows, new] = ours.transpose(0, 2, 1)
        self.compared[rows, new] = True
        self.bent[rows] |= (np.maximum(theirs, ours).max(-1) * filled).max(1) > 0

    def _compare_all(self, rows: Array, filled: Array, extent: Array, equality: Array) -> None:
        """Compare all cuts of some rows with each other, in places that are ``filled`` (r, l)."""
        r, (l, columns, n) = len(rows), self.gradients.shape[1:]
        G, P = select(self.gradients, rows), select(self.points, rows)
        slopes = bmm(G.view(r, l * columns, n), P.mT).view(r, l, columns, l)
        slopes_, apart, steepness = fetch(slopes, distances(P, P), norm(G))
        lines = (slopes_ + self.offsets[rows][..., None]).transpose(0, 1, 3, 2)
        rounding = steepness[:, :, None] * (self._eps * extent)[:, None, None, None]
        distance = np.where(apart > 1e-150, apart, np.inf)[..., None] ** 2
        excess = _excess(lines, self.values[rows][:, None], rounding, distance, equality, self._eps)
        self.steepness[rows], self.compared[rows] = steepness, True
        self.excess[rows] = excess.transpose(0, 1, 3, 2)
        both = filled[:, :, None] & filled[:, None]
        self.bent[rows] |= (largest(excess) * both).max((1, 2)) > 0

    def _concavity(self, rows: Array, filled: Array, near: Array) -> Array:
        """(r, l, 1+p) by how much cuts may overestimate per squared distance; those ``filled`` and ``near`` (r, l)."""
        concavity = np.zeros((len(rows), *self.values.shape[1:]))
        bent = where_true(self.bent[rows])
        if len(bent):
            filled, close = filled[bent], (filled & near)[bent]
            excess = self.excess[rows[bent]] * (filled[:, :, None] & filled[:, None])[:, :, None]
            own = excess.max(-1)
            excess *= (close[:, :, None] & close[:, None])[:, :, None]
            common = excess.max((1, 3))[:, None]
            rest = np.where(close[..., None], common, own.max(1, keepdims=True))
            concavity[bent] = np.maximum(own, rest)
        return concavity

    @property
    def _eps(self) -> float:
        return torch.finfo(self.gradients.dtype).eps

    def holding(
        self, rows: Array, step: Tensor, within: Array, slope: Array, bend: Array, equality: Array
    ) -> tuple[Array, Array]:
        """Which cuts hold at the points where others were made, near the points at ``step`` (r, n) from the reference.

        Where a kink points upwards, as that of -|x| does, the cuts of one side lie above the function on the other.

        Args:
            rows: (r,)
            step: (r, n)
            within: (r,) which points are near.
            slope: (r, 1+p) by how much a cut may lie above the function per distance, because it does not matter,
            bend: (r, 1+p) and per squared distance, because it may be due to curvature.
            equality: (p,) columns whose cuts must be right from both sides.

        Returns:
            Whether column i of cut j holds at point k, (r, l, 1+p, l), and which points are near, (r, l).
        """
        r, (l, columns, n) = len(rows), self.gradients.shape[1:]
        gradients = select(self.gradients, rows).view(r, l * columns, n)
        P = select(self.points, rows) - step.unsqueeze(1)
        squares = (P * P).sum(-1)
        apart = (squares.unsqueeze(2) + squares.unsqueeze(1) - 2 * bmm(P, P.mT)).clamp_(min=0).sqrt()
        slopes = bmm(gradients, torch.cat([P, step.unsqueeze(1)], 1).mT).view(r, l, columns, l + 1)
        slopes_, apart_, away = fetch(slopes, apart, squares.sqrt())
        lines = (slopes_[..., l] + part(self.offsets, rows))[..., None] + slopes_[..., :l]
        values = np.einsum("bjij->bij", lines)[:, None]
        excess = lines - values
        excess = np.where(np.append(False, equality)[:, None], np.abs(excess), excess)
        rounding = 64 * torch.finfo(step.dtype).eps * (np.abs(lines) + np.abs(values))
        slope, bend = slope[:, None, :, None], bend[:, None, :, None]
        holds = excess <= (slope + bend * apart_[:, :, None]) * apart_[:, :, None] + rounding
        near = (largest(part(self.stamp, rows)) >= 0) & (away <= within[:, None])
        return holds, near

    def mark_used(self, rows: Array, model: CuttingPlaneModel, used: Array, clock: Array) -> None:
        """Renew the stamp of the columns (r, K) of a model that carried weight."""
        row, column = (used & (model.owner >= 0)).nonzero()
        self.stamp[rows[row], model.source[row, column], model.owner[row, column]] = clock[row]


def _excess(lines: Array, values: Array, rounding: Array, squares: Array, equality: Array, eps: float) -> Array:
    """By how much lines (..., 1+p) lie above values, beyond rounding; those of equalities on either side.

    Per squared distance, and at most what single precision can hold.
    """
    excess: Array = lines - values
    if equality.any():
        excess = np.where(np.append(False, equality), np.abs(excess), excess)
    excess -= 64 * eps * (np.abs(values) + np.abs(lines)) + 8 * rounding
    excess /= squares
    np.clip(excess, 0.0, 1e30, out=excess)
    return excess


class CuttingPlaneModel(NamedTuple):
    """The K most relevant cut columns of each row, scaled: heights at x, gradients, what they belong to."""

    heights: Array
    """(r, K) linear model at x minus f(x) for f columns (<= 0), linear model of c for constraints."""
    V: Tensor
    """(r, K, n)"""
    owner: Array
    """(r, K) 0: f, i: constraint i, p + 1: a bound, -1: empty."""
    source: Array
    """(r, K) place in the store the column came from."""
    sign: Array
    """(r, K) -1 for the mirrored columns of an equality."""
    score: Array
    """(r, K) relevance, in descending order: inf for columns that must stay, else the height."""
    blur: Array
    """(r, K) how much the gradient at x may differ from V, judged by the concavity seen; 0 if none was."""
    reach: Array
    """(r,) how far from x the model is to be believed."""
    concave: Array
    """(r,) whether something was seen that is not convex."""

    @property
    def blurred_heights(self) -> Array:
        """(r, K) heights of lines that lie below the function, but for terms of second order, all the way to reach."""
        below: Array = self.heights - self.blur * self.reach[:, None]
        return below

    @property
    def likely(self) -> Array:
        """(r,) how many leading columns are likely to carry all weight: those that did last, and a few."""
        leading: Array = (self.score == np.inf).sum(1) + 4
        return leading

    def by_relevance(self, horizon: Array) -> Iterator[tuple[Array, CuttingPlaneModel]]:
        """Rows by how many columns can matter to them, with just these columns.

        A cut RELEVANT times the ``horizon`` below the function carries next to no weight. The number of
        columns that can is a matter of the row alone, and the QP's cost grows with its cube.
        """
        relevant = np.maximum((self.score >= -RELEVANT * horizon[:, None]).sum(1), 1)
        for some, size in by_size(relevant, CLASSES, self.heights.shape[1]):
            yield some, self.take(some, size)

    def take(self, rows: Array, size: int | None = None) -> CuttingPlaneModel:
        """The models of some rows, with their first ``size`` columns."""
        heights, owner, source, sign, score, blur = (
            table[rows, :size] for table in (self.heights, self.owner, self.source, self.sign, self.score, self.blur)
        )
        V, reach, concave = select(self.V, rows)[:, :size], self.reach[rows], self.concave[rows]
        return CuttingPlaneModel(heights, V, owner, source, sign, score, blur, reach, concave)

    def only(self, columns: Array) -> CuttingPlaneModel:
        """The model with just some columns, (r, K) bool; the others are empty."""
        return self._replace(owner=np.where(columns, self.owner, -1), V=self.V * send(columns[..., None], self.V))

    def wider(self, heights: Array, V: Tensor, owner: Array) -> CuttingPlaneModel:
        """The model with further columns (r, k), of no relevance of their own."""
        zero = np.zeros(heights.shape)
        return CuttingPlaneModel(
            heights=np.concatenate([self.heights, heights], 1),
            V=torch.cat([self.V, V], 1),
            owner=np.concatenate([self.owner, owner], 1),
            source=np.concatenate([self.source, zero.astype(np.int64)], 1),
            sign=np.concatenate([self.sign, zero + 1], 1),
            score=np.concatenate([self.score, zero - np.inf], 1),
            blur=np.concatenate([self.blur, zero], 1),
            reach=self.reach,
            concave=self.concave,
        )

    def with_walls(self, x: Tensor, bounds: Bounds, p: int) -> CuttingPlaneModel:
        """The model with n more columns: of every entry of x (r, n) the nearer bound, a constraint without a cap."""
        room, sign = bounds.nearest(x)
        movable = ~bounds.fixed(x)
        there = torch.isfinite(room) & movable
        model = self._replace(V=self.V * movable.unsqueeze(1))
        sides = torch.diag_embed(sign * there)
        rooms, known = fetch(room, there)
        return model.wider(np.where(known > 0, -rooms, 0.0), sides, np.where(known > 0, p + 1, -1))


class Vicinity(NamedTuple):
    """Where r rows are, and how far around it something is known."""

    step: Tensor
    """(r, n) from the reference to x."""
    values: Array
    """(r, 1+p) at x."""
    reach: Array
    """(r,) how far models are to be believed where the problem looks convex."""
    near: Array
    """(r,) the neighbourhood whose concavity counts."""
    extent: Array
    """(r,) size of x and of the reference, which rounding goes with."""


def cutting_plane_model(
    cuts: Cuts,
    rows: Array,
    at: Vicinity,
    scales: Array,
    equality: Array,
    clock: Array,
    limit: int,
    within: Array | None = None,
) -> CuttingPlaneModel:
    """Linear models at x. About ``limit`` columns are kept, the most active first.

    They are to be believed within the reach of x, where the problem looks convex; where it does not, within a part of
    its neighbourhood. Only cuts made ``within`` (r,) of x are used, if it is given.
    """
    B, size, columns, n = cuts.gradients.shape
    r, values = len(rows), at.values
    lines, distance, concavity = cuts.seen_from(rows, at.step, at.near, at.extent, equality)
    distance = distance[..., None]
    # A convex function lies above its cuts. Where one lies above the function the problem is not convex
    # there: reflect it, so that it counts as an error and never as knowledge. A cut made elsewhere on a concave piece
    # may also pass through f(x) by chance: its error is what the concavity seen allows.
    errors = np.abs(values[:, None] - lines) + concavity * distance**2
    blur = 2 * concavity * distance * scales[:, None]
    seen = concavity.reshape(r, -1).max(1) > 0
    reach = np.where(seen, np.minimum(at.reach, LOCAL * at.near), at.reach)
    heights = values[:, None] - errors
    heights[..., 0] -= values[:, :1]
    heights *= scales[:, None]
    mirrored = equality.nonzero()[0] + 1
    column = np.concatenate([np.arange(columns), mirrored])
    sign = np.where(np.arange(len(column)) < columns, 1.0, -1.0)
    stamp = part(cuts.stamp, rows)
    if len(mirrored):
        reflected = (values[:, None] + errors) * scales[:, None]
        heights = np.concatenate([heights, -np.take(reflected, mirrored, -1)], -1)
        stamp, blur = np.take(stamp, column, -1), np.take(blur, column, -1)
    # The cut at x, the newest cut and those that just carried weight come first, then the closest ones.
    if within is not None:
        stamp = np.where(distance <= within[:, None, None], stamp, -1)
    newest = stamp >= clock[:, None, None]
    newest[np.arange(r), cuts.home[rows]] = True
    prime = newest | (stamp >= clock[:, None, None] - 1)
    if columns - 1 > limit:  # so many constraints that not even those at x all fit: the closest ones
        newest[..., 1:] = prime[..., 1:] = False
    filled = stamp >= 0
    score = np.where(filled, np.where(prime, np.inf, heights), -np.inf)
    # Every function has a quota of its own: where one is flat its cuts all lie close to it and would crowd
    # out the others'. Then the most relevant columns come first.
    kinds = len(column)
    shares = (limit, 0) if kinds == 1 else ((limit + 1) // 2, max(1, limit // 2 // (kinds - 1)))
    rank = np.lexsort((-heights, -(filled * (1 + prime + newest))), axis=1)
    place = rank[:, : shares[0], 0]
    picks = np.concatenate(
        [place * kinds, (rank[:, : shares[1], 1:] * kinds + np.arange(1, kinds)).transpose(0, 2, 1).reshape(r, -1)], 1
    )
    tops = np.take_along_axis(score.reshape(r, -1), picks, 1)
    order = (-tops).argsort(1, kind="stable")
    if kinds - 1 > limit:
        order = order[:, : 2 * limit]
    top, pick = np.take_along_axis(tops, order, 1), np.take_along_axis(picks, order, 1)
    source, kind = np.divmod(pick, kinds)
    which, signs = column[kind], sign[kind]
    owner = np.where(top > -np.inf, which, -1)
    weight = np.where(owner >= 0, signs * np.take_along_axis(scales, which, 1), 0.0)
    flat = ((rows[:, None] * size + source) * columns + which).reshape(-1)
    V = cuts.gradients.view(B * size * columns, n).index_select(0, positions(flat, at.step.device)).view(r, -1, n)
    V *= send(weight[..., None], V)
    heights, blur = (np.take_along_axis(table.reshape(r, -1), pick, 1) for table in (heights, blur))
    return CuttingPlaneModel(heights, V, owner, source, signs, top, blur, reach, seen)


def neighbours(
    m: CuttingPlaneModel, cuts: Cuts, rows: Array, path: Array, radius: float, c: Array
) -> CuttingPlaneModel:
    """The model of the published test: gradients within ``radius``, all taken as if they were at x.

    Heights are 0 for f and c_i(x) (scaled, (r, p)) for the constraints: linearisation errors do not count.
    """
    near = path[:, None] - np.take_along_axis(cuts.path[rows], m.source, 1) <= radius
    at_home = m.source == cuts.home[rows][:, None]
    owner = np.where((m.owner >= 0) & (near | at_home), m.owner, -1)
    values = np.concatenate([np.zeros((len(rows), 1)), c], -1)
    heights = np.take_along_axis(values, np.maximum(owner, 0), 1) * np.where(owner > 0, m.sign, 1.0)
    # Neighbours first; only they count.
    score = np.where(owner >= 0, np.inf, -np.inf)
    order = (-score).argsort(1, kind="stable")
    heights, owner, source, sign, score, blur = (
        np.take_along_axis(table, order, 1) for table in (heights, owner, m.source, m.sign, score, m.blur)
    )
    V = m.V.gather(1, positions(order, m.V.device).unsqueeze(-1).expand_as(m.V))
    V = V * send((owner >= 0)[..., None], V)
    return CuttingPlaneModel(heights, V, owner, source, sign, score, blur, m.reach, m.concave)


class BundleStep(NamedTuple):
    """Solution of the bundle subproblem."""

    weights: Array
    """(r, K) multipliers of the columns."""
    promise: Array
    """(r,) change of the penalty function in the model, <= 0."""
    multipliers: Array
    """(r, p) net multiplier of each constraint."""
    violation_ahead: Array
    """(r,) violation that the model expects after the step."""


def bundle_step(m: CuttingPlaneModel, gram: Array, mu: Array, violation: Array, p: int) -> BundleStep:
    """min_d mu max_j(f model) + sum_i max(0, max_j c_i model) + 1/2 d'H^-1 d  through its dual.

    ``gram`` is V H V'. The f columns share the mass mu, each constraint's columns at most 1.
    """
    owner, heights = m.owner, m.heights
    groups = _groups(owner, p)
    cost = np.where(owner >= 0, -heights, 1.0)
    objective = (owner == 0).astype(np.float64)
    z = solve_group_qp(gram, cost, groups, np.ones(groups.shape[:2]), objective, mu, m.likely)
    z = np.where(owner >= 0, z, 0.0)
    ahead = heights - matvec(gram, z)
    model_f = np.where(owner == 0, ahead, -np.inf).max(1)
    model_c = np.maximum(np.where(groups > 0, ahead[:, None], -np.inf).max(-1), 0.0).sum(-1)
    multipliers = matvec(groups * m.sign[:, None], z)
    return BundleStep(z, mu * model_f + model_c - violation, multipliers, model_c)


def gap(
    m: CuttingPlaneModel, p: int, x: Tensor, bounds: Bounds, target: Array, largest: Array, walls: bool
) -> tuple[Array, Tensor, Array]:
    """A bound on f(x) - min f over feasible points within the model's reach of x, in the scale of the columns.

    For any s in the simplex and k >= 0:  f(y) >= f(x) + s'height_f + k'height_c + (V'z)'(y - x)  at every
    feasible y of a convex problem. The multipliers are found by a QP whose weight on |V'z|^2 suits a
    bound of about ``target``, with each constraint's at most ``largest``; then the bound is computed for
    them exactly, bounds of the box included (with ``walls`` as columns of the QP). Also returns V'z and z.
    """
    columns = m.heights.shape[1]
    if walls and bounds.present:
        m = m.with_walls(x, bounds, p)
    heights, V, owner, reach = m.blurred_heights, m.V, m.owner, m.reach
    objective = (owner == 0).astype(np.float64)
    groups = _groups(owner, p)
    caps = np.repeat(largest[:, None], p, 1)
    cost = np.where(owner >= 0, -heights, target[:, None])
    # Without walls, which entries a bound holds depends on the aggregate gradient: a second round with a better guess.
    guessed = bounds.present and not walls
    best, best_q, best_z = np.full(len(owner), np.inf), torch.zeros_like(x), np.zeros(owner.shape)
    aggregate = weighted(send(objective / np.maximum(objective.sum(1, keepdims=True), 1), V), V) if guessed else x
    for _ in range(2 if guessed else 1):
        free = bounds.free(x, aggregate) if guessed else None
        masked = V if free is None else V * free.unsqueeze(1)
        gram = fetch_one(bmm(masked, masked.mT)) * (reach**2 / target)[:, None, None]
        z = solve_group_qp(gram, cost, groups, caps, objective, np.ones(len(owner)))
        z = np.where(owner >= 0, z, 0.0)
        # The bound holds only if the multipliers of f sum to one exactly.
        share = (objective * z).sum(1, keepdims=True)
        z = np.where(owner == 0, z / share, z)
        aggregate = weighted(send(z, V), V)
        bound = slope_bound(aggregate, x, bounds, reach) - dot(z, heights)
        better = bound < best
        best_q = aggregate if better.all() else torch.where(send(better[:, None], x), aggregate, best_q)
        best_z = np.where(better[:, None], z, best_z)
        best = np.where(better, bound, best)
    return best, best_q, best_z[:, :columns]


def slope_bound(q: Tensor, x: Tensor, bounds: Bounds, reach: Array) -> Array:
    """max of -q'(y - x) over the points y of the box within ``reach`` of x, or a little more."""
    bound: Array
    if not bounds.present:
        bound = reach * fetch_one(norm(q))
        return bound
    # Entries that a bound stops soon go as far as it; the others as far as the ball.
    room, size = bounds.room(x, -q), q.abs()
    stopped = room * x.shape[1] <= send(reach[:, None], x)
    decrease = size * room
    near = torch.where(stopped, decrease, 0.0).sum(-1)
    far = norm(torch.where(stopped, 0.0, q))
    stopped_part, ball_part, box_part = fetch(near, far, decrease.sum(-1))
    bound = np.minimum(stopped_part + reach * ball_part, box_part)
    return bound


@lru_cache(maxsize=8)
def probe(n: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """A fixed vector (n,) with no structure and no zeros."""
    numbers = torch.arange(n, dtype=torch.float64, device=device)
    return torch.cos(numbers**2).to(dtype)


def _groups(owner: Array, p: int) -> Array:
    """(r, p, K) 0/1: which columns belong to which constraint."""
    groups: Array = (owner[:, None] == np.arange(1, p + 1)[:, None]).astype(np.float64)
    return groups
