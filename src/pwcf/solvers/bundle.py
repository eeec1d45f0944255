"""Cuts: the linear models of f and of every constraint at the points a row has visited.

They serve twice. The *bundle step* minimises the penalty function of the piecewise linear models plus
1/2 d'H^-1 d: it sees all faces of a kink at once where a quasi-Newton direction sees one. The *gap*
bounds from below what any feasible point within reach can attain: for convex problems it is a
bound for every choice of multipliers, so an inexact QP cannot make it false.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import NamedTuple

import torch
from torch import Tensor

from pwcf.solvers.bounds import Bounds
from pwcf.solvers.linalg import bmm, dot, matvec, norm, select, weighted, with_stored
from pwcf.solvers.qp import by_size, solve_group_qp

# In the bound, a cut this many times tol below the function could carry at most a thousandth of the weight.
RELEVANT = 1e3
# Numbers of columns that rows are rounded up to.
CLASSES = (16, 32, 64)


@dataclass
class Cuts:
    """A store of l cuts per row. A cut is the gradients and values of f and all c at one point."""

    gradients: Tensor
    """(B, l, 1+p, n)"""
    offsets: Tensor
    """(B, l, 1+p) value of the linear model at the row's reference point, float64."""
    stamp: Tensor
    """(B, l, 1+p) when the cut was made or its column last mattered, -1 if the place is empty."""
    home: Tensor
    """(B,) the place of the cut made at the current point: never given up."""
    path: Tensor
    """(B, l) how far the row had travelled when the cut was made: a bound on the distance to it."""
    sketch: Tensor
    """(B, l, 1+p) product of the gradient with a fixed vector: with the offset it tells equal cuts."""

    @classmethod
    def empty(cls, b: int, size: int, columns: int, n: int, like: Tensor) -> Cuts:
        return cls(
            torch.zeros(b, size, columns, n, dtype=like.dtype, device=like.device),
            torch.zeros(b, size, columns, dtype=torch.float64, device=like.device),
            torch.full((b, size, columns), -1, dtype=torch.int64, device=like.device),
            torch.zeros(b, dtype=torch.int64, device=like.device),
            torch.zeros(b, size, dtype=torch.float64, device=like.device),
            torch.zeros(b, size, columns, dtype=torch.float64, device=like.device),
        )

    def tensors(self) -> dict[str, Tensor]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def insert(
        self, rows: Tensor, step: Tensor, values: Tensor, gradients: Tensor, clock: Tensor, path: Tensor
    ) -> Tensor:
        """Store the cut of a point at ``step`` (r, n) from the reference; returns its place (r,).

        The faces of a polyhedral function come back at many points: each is kept once, or its copies would
        fill the store.
        """
        latest = self.stamp[rows].amax(-1)
        first = latest.amax(1) < 0
        stamp = latest.scatter(1, self.home[rows].unsqueeze(1), torch.iinfo(torch.int64).max)
        place = torch.where(first, torch.zeros_like(clock), stamp.argmin(1))
        ahead, sketch = bmm(gradients, torch.stack([step, _probe(step)], -1)).double().unbind(-1)
        offsets = values - ahead
        places = torch.arange(stamp.shape[1], device=rows.device)
        old, home = self.stamp[rows], (places == self.home[rows].unsqueeze(1)).unsqueeze(-1)
        rounding = 64 * torch.finfo(step.dtype).eps
        same = (self.sketch[rows] - sketch.unsqueeze(1)).abs() <= (rounding * sketch.abs()).unsqueeze(1)
        error = rounding * (values.abs() + ahead.abs())
        same &= (self.offsets[rows] - offsets.unsqueeze(1)).abs() <= error.unsqueeze(1)
        same &= (old >= 0) & (places != place.unsqueeze(1)).unsqueeze(-1)
        self.stamp[rows] = torch.where(same & ~home, -1, old)
        # The cut at x stays; then it is the new one that is left out.
        self.stamp[rows, place] = torch.where((same & home).any(1), -1, clock.unsqueeze(-1))
        self.gradients[rows, place] = gradients
        self.offsets[rows, place] = offsets
        self.sketch[rows, place] = sketch
        self.path[rows, place] = path
        return place

    def move_home(self, rows: Tensor, place: Tensor, clock: Tensor) -> None:
        """The points of the cuts in ``place`` (r,) become the current ones."""
        self.home[rows] = place
        self.stamp[rows, place] = clock.unsqueeze(-1)

    def along(self, rows: Tensor, step: Tensor) -> Tensor:
        """(r, l, 1+p) products of all gradients with ``step`` (r, n), float64."""
        product = with_stored(matvec, self.gradients.flatten(1, 2), rows, step)
        return product.view(-1, *self.gradients.shape[1:3]).double()

    def mark_used(self, rows: Tensor, model: CuttingPlaneModel, used: Tensor, clock: Tensor) -> None:
        """Renew the stamp of the columns (r, K) of a model that carried weight."""
        stamp = self.stamp[rows]
        column = model.source * stamp.shape[-1] + model.owner.clamp(min=0)
        now = torch.where(used & (model.owner >= 0), clock.unsqueeze(-1), -1)
        self.stamp[rows] = stamp.flatten(1).scatter_reduce(1, column, now, "amax").reshape(stamp.shape)


class CuttingPlaneModel(NamedTuple):
    """The K most relevant cut columns of each row, scaled: heights at x, gradients, what they belong to."""

    heights: Tensor
    """(r, K) linear model at x minus f(x) for f columns (<= 0), linear model of c for constraints."""
    V: Tensor
    """(r, K, n)"""
    owner: Tensor
    """(r, K) 0: f, i: constraint i, -1: empty."""
    source: Tensor
    """(r, K) place in the store the column came from."""
    sign: Tensor
    """(r, K) -1 for the mirrored columns of an equality."""
    score: Tensor
    """(r, K) relevance, in descending order: inf for columns that must stay, else the height."""

    @property
    def likely(self) -> Tensor:
        """(r,) how many leading columns are likely to carry all weight: those that did last, and a few."""
        return (self.score == torch.inf).sum(1) + 4

    def by_relevance(self, horizon: Tensor) -> Iterator[tuple[Tensor, CuttingPlaneModel]]:
        """Rows by how many columns can matter to them, with just these columns.

        A cut RELEVANT times the ``horizon`` below the function carries next to no weight. The number of
        columns that can is a matter of the row alone, and the QP's cost grows with its cube.
        """
        relevant = (self.score >= -RELEVANT * horizon.unsqueeze(-1)).sum(1).clamp(min=1)
        for part, size in by_size(relevant, CLASSES, self.heights.shape[1]):
            yield part, CuttingPlaneModel(*(select(tensor, part)[:, :size] for tensor in self))


def cutting_plane_model(
    cuts: Cuts,
    rows: Tensor,
    step: Tensor,
    values: Tensor,
    scales: Tensor,
    equality: Tensor,
    clock: Tensor,
    limit: int,
) -> CuttingPlaneModel:
    """Linear models at x = reference + step. About ``limit`` columns are kept, the most active first."""
    B, size, columns, n = cuts.gradients.shape
    r = rows.numel()
    lines = cuts.offsets[rows] + cuts.along(rows, step)
    # A convex function lies above its cuts. Where one lies above the function the problem is not convex
    # there: reflect it, so that it counts as an error and never as knowledge.
    heights = values.unsqueeze(1) - (values.unsqueeze(1) - lines).abs()
    heights[..., 0] -= values[:, :1]
    heights = heights * scales.unsqueeze(1)
    mirrored = equality.nonzero().squeeze(-1) + 1
    column = torch.cat([torch.arange(columns, device=rows.device), mirrored])
    sign = torch.ones(column.numel(), dtype=torch.float64, device=rows.device)
    sign[columns:] = -1
    if mirrored.numel():
        reflected = values.unsqueeze(1) + (values.unsqueeze(1) - lines).abs()
        heights = torch.cat([heights, -(reflected * scales.unsqueeze(1))[..., mirrored]], -1)
    # The cut at x, the newest cut and those that just carried weight come first, then the closest ones.
    stamp = cuts.stamp[rows][..., column]
    prime = stamp >= clock[:, None, None] - 1
    prime[torch.arange(r, device=rows.device), cuts.home[rows]] = True
    score = torch.where(prime, torch.inf, heights)
    score = torch.where(stamp >= 0, score, -torch.inf)
    # Every function has a quota of its own: where one is flat its cuts all lie close to it and would crowd
    # out the others'. Then the most relevant columns come first.
    kinds = column.numel()
    shares = [limit] if kinds == 1 else [(limit + 1) // 2] + (kinds - 1) * [max(1, limit // 2 // (kinds - 1))]
    tops, picks = [], []
    for kind, share in enumerate(shares):
        top, place = score[..., kind].topk(min(share, size), dim=1)
        tops.append(top)
        picks.append(place * kinds + kind)
    top, order = torch.cat(tops, 1).sort(dim=1, descending=True, stable=True)
    pick = torch.cat(picks, 1).gather(1, order)
    if kinds - 1 > limit:
        top, pick = top[:, : 2 * limit], pick[:, : 2 * limit]
    source = pick // kinds
    which = column[pick % kinds]
    owner = torch.where(top > -torch.inf, which, torch.full_like(which, -1))
    signs = sign[pick % kinds]
    weight = torch.where(owner >= 0, signs * scales.gather(1, which), torch.zeros_like(signs))
    flat = ((rows.unsqueeze(-1) * size + source) * columns + which).flatten()
    V = cuts.gradients.view(B * size * columns, n).index_select(0, flat).view(r, -1, n)
    V *= weight.to(V.dtype).unsqueeze(-1)
    return CuttingPlaneModel(heights.flatten(1).gather(1, pick), V, owner, source, signs, top)


def neighbours(
    m: CuttingPlaneModel, cuts: Cuts, rows: Tensor, path: Tensor, radius: float, c: Tensor
) -> CuttingPlaneModel:
    """The model of the published test: gradients within ``radius``, all taken as if they were at x.

    Heights are 0 for f and c_i(x) (scaled, (r, p)) for the constraints: linearisation errors do not count.
    """
    near = path.unsqueeze(-1) - cuts.path[rows].gather(1, m.source) <= radius
    at_home = m.source == cuts.home[rows].unsqueeze(-1)
    owner = torch.where((m.owner >= 0) & (near | at_home), m.owner, torch.full_like(m.owner, -1))
    values = torch.cat([torch.zeros_like(path).unsqueeze(-1), c], -1)
    heights = values.gather(1, owner.clamp(min=0)) * torch.where(owner > 0, m.sign, torch.ones_like(m.sign))
    # Neighbours first; only they count.
    score = torch.where(owner >= 0, torch.inf, -torch.inf).double()
    order = score.argsort(dim=1, descending=True, stable=True)
    V = m.V.gather(1, order.unsqueeze(-1).expand_as(m.V)) * (owner.gather(1, order) >= 0).unsqueeze(-1)
    fields = (heights, V, owner, m.source, m.sign, score)
    return CuttingPlaneModel(*(t if t is V else t.gather(1, order) for t in fields))


class BundleStep(NamedTuple):
    """Solution of the bundle subproblem."""

    weights: Tensor
    """(r, K) multipliers of the columns."""
    promise: Tensor
    """(r,) change of the penalty function in the model, <= 0."""
    multipliers: Tensor
    """(r, p) net multiplier of each constraint."""
    violation_ahead: Tensor
    """(r,) violation that the model expects after the step."""


def bundle_step(m: CuttingPlaneModel, gram: Tensor, mu: Tensor, violation: Tensor, p: int) -> BundleStep:
    """min_d mu max_j(f model) + sum_i max(0, max_j c_i model) + 1/2 d'H^-1 d  through its dual.

    ``gram`` is V H V'. The f columns share the mass mu, each constraint's columns at most 1.
    """
    owner, heights = m.owner, m.heights
    objective = (owner == 0).double()
    groups = _groups(owner, p)
    cost = torch.where(owner >= 0, -heights, torch.ones_like(heights))
    caps = torch.ones(groups.shape[:2], dtype=gram.dtype, device=gram.device)
    z = solve_group_qp(gram, cost, groups, caps, objective, mu, m.likely)
    z = torch.where(owner >= 0, z, torch.zeros_like(z))
    ahead = heights - matvec(gram, z)
    low = torch.full_like(ahead, -torch.inf)
    model_f = torch.where(owner == 0, ahead, low).amax(1)
    model_c = torch.where(groups > 0, ahead.unsqueeze(1), low.unsqueeze(1)).amax(-1).clamp(min=0).sum(-1)
    multipliers = matvec(groups * m.sign.unsqueeze(1), z)
    return BundleStep(z, mu * model_f + model_c - violation, multipliers, model_c)


def gap(
    m: CuttingPlaneModel, p: int, x: Tensor, bounds: Bounds, reach: Tensor, target: Tensor, largest: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """A bound on f(x) - min f over feasible points within ``reach`` of x, in the scale of the columns.

    For any s in the simplex and k >= 0:  f(y) >= f(x) + s'height_f + k'height_c + (V'z)'(y - x)  at every
    feasible y of a convex problem. The multipliers are found by a QP whose weight on |V'z|^2 suits a
    bound of about ``target``, with each constraint's at most ``largest``; then the bound is computed for
    them exactly, bounds of the box included. Also returns V'z and z.
    """
    heights, V, owner = m.heights, m.V, m.owner
    best, best_q, best_z = torch.full_like(reach, torch.inf), torch.zeros_like(x), torch.zeros_like(heights)
    objective = (owner == 0).double()
    groups = _groups(owner, p)
    caps = largest.unsqueeze(-1).expand(groups.shape[:2])
    cost = torch.where(owner >= 0, -heights, torch.ones_like(heights) * target.unsqueeze(-1))
    aggregate = weighted(objective / objective.sum(1, keepdim=True).clamp(min=1), V)
    # Which entries a bound holds depends on the aggregate gradient: a second round with the better guess.
    for _ in range(2 if bounds.present else 1):
        free = bounds.free(x, aggregate)
        masked = V if free is None else V * free.unsqueeze(1)
        gram = bmm(masked, masked.mT).double() * (reach**2 / target)[:, None, None]
        z = solve_group_qp(gram, cost, groups, caps, objective, torch.ones_like(reach))
        z = torch.where(owner >= 0, z, torch.zeros_like(z))
        # The bound holds only if the multipliers of f sum to one exactly.
        share = torch.where(owner == 0, z, torch.zeros_like(z)).sum(1, keepdim=True)
        z = torch.where(owner == 0, z / share, z)
        aggregate = weighted(z, V)
        bound = slope_bound(aggregate, x, bounds, reach) - dot(z, heights)
        better = (bound < best).unsqueeze(-1)
        best_q, best_z = torch.where(better, aggregate, best_q), torch.where(better, z, best_z)
        best = torch.minimum(best, bound)
    return best, best_q, best_z


def slope_bound(q: Tensor, x: Tensor, bounds: Bounds, reach: Tensor) -> Tensor:
    """max of -q'(y - x) over the points y of the box within ``reach`` of x, or a little more."""
    held = bounds.free(x, q)
    slope = reach * norm(q if held is None else q * held).double()
    return torch.minimum(slope, bounds.largest_decrease(x, q).double()) if bounds.present else slope


def _groups(owner: Tensor, p: int) -> Tensor:
    """(r, p, K) 0/1: which columns belong to which constraint."""
    numbers = torch.arange(1, p + 1, device=owner.device)
    return (owner.unsqueeze(1) == numbers[:, None]).double()


def _probe(like: Tensor) -> Tensor:
    """A fixed vector with no structure, for every row of ``like`` (r, n)."""
    numbers = torch.arange(like.shape[1], dtype=torch.float64, device=like.device)
    return torch.cos(numbers**2).to(like.dtype).expand_as(like)
