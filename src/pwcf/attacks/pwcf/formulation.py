"""PWCF's formulations:  min f(z)  s.t.  c(z) <= 0  (paper, table "Summary of PWCF formulations").

z = (x', t): the flat point and, in the slack forms, slacks t (linf: sqrt(n) t). With y the label,
c_y(x') = f_y - max_{i != y} f_i the condition of a misclassification (targeted: max_{i != y} f_i - f_y) and [l, u] the
box:

    min-radius  (eq. min_distort)   min d(x, x')    s.t.  c_y(x') <= 0,                       x' in [l, u]
      linf      (eq. min reform)    min sqrt(n) t   s.t.  c_y(x') <= 0,  -t <= x' - x <= t,   x' in [l, u]
      l1        (eq. l1 min form)   min 1't         s.t.  c_y(x') <= 0,  -t <= x' - x <= t,   x' in [l, u]
    max-loss    (eq. robust_loss)   max l(y, x')    s.t.  d(x, x') <= eps,                    x' in [l, u]
      linf      (eq. Linf to box)   max l(y, x')    s.t.  -eps <= x' - x <= eps,              x' in [l, u]

Every line of entrywise constraints is a group, and each group is folded into one:  || max(c, 0) ||_2 <= 0.
Only one function of each form calls the network, so that an evaluation is one pass forward and one backward.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from pwcf.attacks.base import Task
from pwcf.losses import as_loss, clip_level, clipped, margin
from pwcf.metrics import HasSlackForm
from pwcf.problems import MaxLoss, is_tied, is_wrong
from pwcf.solvers import Constraint, ineq

# A point counts as seen if it is in the box up to this share of its way from the image: clipping will hardly change its
# class.
OUTSIDE = 1e-3


@dataclass(frozen=True)
class Techniques:
    """What the paper adds to the plain forms. Each technique can be switched off."""

    fold: bool = True
    """Constraint folding (eq. folded_constraint). Without, a group has two constraints per entry: for tiny n only."""
    reformulate: bool = True
    """The forms for linf and l1 above. Without, d stands as it is: its subgradients are sparse (linf) or signs (l1)."""
    rescale: bool = True
    """sqrt(n) t in place of the linf radius t, which is tiny beside folded constraints. The solver's variable is then
    tau = sqrt(n) t: as an objective alone sqrt(n) t would be t again, for the solver scales by first gradients. With t
    itself the fold's slope is up to sqrt(n) times as steep in t as in x', and rows stall at three times the radius."""
    clip: bool = True
    """Losses end where a sample is misclassified for sure: margin at 0.01, cross-entropy at ln K."""


class Formulation:
    """Objective and constraints of all n samples of a task; functions take z (a, m) and the samples' rows (a,)."""

    def __init__(self, task: Task, how: Techniques, loss: str | None = None) -> None:
        self.task, self.how = task, how
        self.loss = task.problem.loss if loss is None and isinstance(task.problem, MaxLoss) else loss or "margin"
        self.shape, self.n = task.images.shape[1:], task.images[0].numel()
        self.x, self.lower, self.upper = (t.flatten(1) for t in (task.images, task.lower, task.upper))
        # Entries whose bounds agree are no variables: a fold would have to hold them against the network's slope.
        self.fixed = self.lower == self.upper
        self.metric, self.measure = task.problem.metric, task.measure()
        # One slack for all entries is the metric's radius itself: ball and slacks are then bounds on every entry.
        self.entrywise = isinstance(self.metric, HasSlackForm) and self.metric.slacks(self.n) == 1
        self.slacks = self._slacks()
        self.scale = math.sqrt(self.n) if how.rescale and self.entrywise else 1.0
        self.seen = BestSeen(self)

    def _slacks(self) -> int:
        """As many as the metric's slack form has: 1 for linf, n for l1. Max-loss has eps in their place."""
        if isinstance(self.task.problem, MaxLoss) or not self.how.reformulate:
            return 0
        return self.metric.slacks(self.n) if isinstance(self.metric, HasSlackForm) else 0

    # ---- variables --------------------------------------------------------------------------------

    def variables(self, points: Tensor) -> Tensor:
        """z (b, n + slacks) of flat points (b, n), one per sample, with the least slacks that satisfy their group."""
        if self.slacks == 0:
            return points
        size = self.scale * (points - self.x).abs()
        return torch.cat([points, size.amax(1, keepdim=True) if self.slacks == 1 else size], 1)

    def points(self, z: Tensor, rows: Tensor) -> Tensor:
        """x' (a, n) of z; fixed entries have their only value whatever z says."""
        return torch.where(self.fixed[rows], self.lower[rows], z[:, : self.n])

    @property
    def bounds(self) -> tuple[Tensor, None] | None:
        """t >= 0, natively. The groups imply it, but on the way t falls far below 0, where -t <= v <= t has no
        solution and its fold a minimum of its own: solvers claim to have converged there."""
        if self.slacks == 0:
            return None
        least = torch.zeros(self.n + self.slacks, dtype=self.x.dtype, device=self.x.device)
        least[: self.n] = -torch.inf
        return least, None

    # ---- functions --------------------------------------------------------------------------------

    def objective(self, z: Tensor, rows: Tensor) -> Tensor:
        """(a,) what is minimised: the radius, or minus the loss."""
        if isinstance(self.task.problem, MaxLoss):
            return -self._loss(self._logits(z, rows), rows)
        if self.slacks:
            return z[:, self.n :].sum(1)
        return self.scale * self.distance(self.points(z, rows), rows)

    def constraints(self) -> list[Constraint]:
        fold = self.how.fold
        box = ineq(self._box, fold=fold, name="box")
        if isinstance(self.task.problem, MaxLoss):
            if self.how.reformulate and self.entrywise:
                return [ineq(self._entrywise_ball, fold=fold, name="ball"), box]
            return [ineq(self._ball, name="ball"), box]
        condition = ineq(self._condition, name="misclassified")
        return [condition, ineq(self._slack, fold=fold, name="slack"), box] if self.slacks else [condition, box]

    def distance(self, points: Tensor, rows: Tensor) -> Tensor:
        """d(x, x') (a,) of flat points (a, n)."""
        return self.measure(points.view(-1, *self.shape), rows)

    def eps(self, rows: Tensor) -> Tensor:
        """(a,) in the images' dtype."""
        assert self.task.eps is not None
        return self.task.eps.to(self.x)[rows]

    def _condition(self, z: Tensor, rows: Tensor) -> Tensor:
        """c_y <= 0: misclassified; targeted: of the wanted class."""
        loss = margin(self._logits(z, rows), self.task.labels[rows])
        return loss if self.task.problem.targeted else -loss

    def _slack(self, z: Tensor, rows: Tensor) -> Tensor:
        """x' - x - t and x - x' - t, both sides."""
        move, t = self.points(z, rows) - self.x[rows], z[:, self.n :] / self.scale
        return torch.cat([move - t, -move - t], 1)

    def _box(self, z: Tensor, rows: Tensor) -> Tensor:
        point = self.points(z, rows)
        return torch.cat([self.lower[rows] - point, point - self.upper[rows]], 1)

    def _ball(self, z: Tensor, rows: Tensor) -> Tensor:
        return self.distance(self.points(z, rows), rows) - self.eps(rows)

    def _entrywise_ball(self, z: Tensor, rows: Tensor) -> Tensor:
        """Both sides; the paper's table prints one of them, its equation both."""
        move, eps = self.points(z, rows) - self.x[rows], self.eps(rows).unsqueeze(1)
        return torch.cat([move - eps, -move - eps], 1)

    def _logits(self, z: Tensor, rows: Tensor) -> Tensor:
        points, samples = self.points(z, rows), self.task.samples[rows.to(self.task.samples.device)]
        logits = self.task.model.differentiable(points.view(-1, *self.shape), samples)
        if z.requires_grad:  # the solver's checks of its functions are no points of its own
            self.seen.note(points, rows, logits)
        return logits

    def _loss(self, logits: Tensor, rows: Tensor) -> Tensor:
        """What max-loss maximises; targeted: minus the loss of the wanted class."""
        loss = as_loss(self.loss)(logits, self.task.labels[rows], None)
        level = clip_level(self.loss, logits.shape[1])
        if self.task.problem.targeted:
            # The wanted class has won for sure when its probability exceeds 1/2.
            loss, level = -loss, -math.log(2) if self.loss == "ce" else level
        return clipped(loss, level) if self.how.clip else loss


class BestSeen:
    """The best points that the solver has evaluated: per sample the nearest one that is misclassified, ties included.

    For max-loss it is the most misclassified one within eps.

    A misclassified point in the box is an answer, whether the solver calls it feasible or not. A fold is satisfied
    exactly or not at all, so the solver's own feasible points are few and may be far from its best ones.
    """

    def __init__(self, form: Formulation) -> None:
        self.form, self.points = form, form.x.clone()
        self.best = torch.full_like(form.x[:, 0], torch.inf)

    @torch.no_grad()
    def note(self, points: Tensor, rows: Tensor, logits: Tensor) -> None:
        """Look at evaluated points (a, n); several may belong to one sample."""
        form, task = self.form, self.form.task
        inside = torch.clamp(points, form.lower[rows], form.upper[rows])
        labels, targeted = task.labels[rows], task.problem.targeted
        out, way = (points - inside).norm(dim=1), (points - form.x[rows]).norm(dim=1)
        wrong = is_wrong(logits, labels, targeted) | is_tied(logits, labels)
        some = (wrong & (out <= OUTSIDE * way)).nonzero().squeeze(1)
        rows, inside = rows[some], inside[some]
        if rows.numel() == 0:
            return
        cost = form.distance(inside, rows)
        if isinstance(task.problem, MaxLoss):
            gap = margin(logits[some], labels[some])
            cost = torch.where(cost <= form.eps(rows), gap if targeted else -gap, torch.inf)
        better = (cost < self.best[rows]).nonzero().squeeze(1)
        better = better[cost[better].argsort(stable=True)]
        better = better[rows[better].argsort(stable=True)]  # by sample, the best of each first
        first = torch.ones_like(better, dtype=torch.bool)
        first[1:] = rows[better][1:] != rows[better][:-1]
        chosen = better[first]
        self.best[rows[chosen]], self.points[rows[chosen]] = cost[chosen], inside[chosen]
