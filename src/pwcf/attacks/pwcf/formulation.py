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

``NativeFormulation`` has the same problems without any of these groups. Its box is the solver's own bounds, and

    min-radius  linf          min t        x' = x + t u,      -1 <= u <= 1, 0 <= t
                l1            min 1'(a+b)  x' = x + a - b,    a, b >= 0
    max-loss    linf          max l(y, x')                    max(l, x - eps) <= x' <= min(u, x + eps)
                l1            max l(y, x') s.t. 1'(a+b) <= eps, x' = x + a - b,  a, b >= 0

so that at most one constraint is left, which is smooth where the network is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pwcf.attacks.base import Task, resolve_targets
from pwcf.losses import as_loss, clip_level, clipped, margin, mask_label
from pwcf.metrics import HasSlackForm
from pwcf.problems import MaxLoss, is_tied, is_wrong
from pwcf.solvers import Constraint, ineq

# A point counts as seen if it is in the box up to this share of its way from the image: clipping will hardly change its
# class.
OUTSIDE = 1e-3


@dataclass(frozen=True)
class Techniques:
    """What the paper adds to the plain forms. Each technique can be switched off."""

    fold: bool | float = True
    """Constraint folding (eq. folded_constraint) by the l2 norm, or by the l_p norm of a number p >= 1. Without, a
    group has two constraints per entry: for tiny n only."""
    reformulate: bool = True
    """The forms for linf and l1 above. Without, d stands as it is: its subgradients are sparse (linf) or signs (l1)."""
    rescale: bool = True
    """sqrt(n) t in place of the linf radius t, which is tiny beside folded constraints. The solver's variable is then
    tau = sqrt(n) t: as an objective alone sqrt(n) t would be t again, for the solver scales by first gradients. With t
    itself the fold's slope is up to sqrt(n) times as steep in t as in x', and rows stall at three times the radius."""
    clip: bool = True
    """Losses end where a sample is misclassified for sure: margin at 0.01, cross-entropy at ln K. Not where the
    question asks for the largest loss."""


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
        self.aim: Tensor | None = None
        """(n,) min-radius: the class a sample is to be taken for, or ANY; None: any other class"""
        self.clips = how.clip and (not isinstance(task.problem, MaxLoss) or task.problem.clip)
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
    def bounds(self) -> tuple[Tensor, Tensor | None] | None:
        """t >= 0, natively. The groups imply it, but on the way t falls far below 0, where -t <= v <= t has no
        solution and its fold a minimum of its own: solvers claim to have converged there."""
        if self.slacks == 0:
            return None
        least = torch.zeros(self.n + self.slacks, dtype=self.x.dtype, device=self.x.device)
        least[: self.n] = -torch.inf
        return least, None

    def starts(self, points: Tensor) -> Tensor:
        """z (R, b, m) of several flat points of every sample (R, b, n)."""
        return torch.stack([self.variables(some) for some in points])

    @torch.no_grad()
    def aim_at(self, points: Tensor) -> None:
        """Min-radius: the classes that flat points (n, entries) have, or would have next: one forward pass."""
        logits = self.task.model.logits(points.view(-1, *self.shape), self.task.samples)
        self.aim = mask_label(logits, self.task.labels).argmax(1)

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

    @torch.no_grad()
    def loss_at(self, points: Tensor) -> Tensor:
        """(n,) the loss of the question at flat points, one per sample: one forward pass."""
        logits = self.task.model.logits(points.view(-1, *self.shape), self.task.samples)
        return as_loss(self.loss)(logits, self.task.labels, None)

    def _condition(self, z: Tensor, rows: Tensor) -> Tensor:
        """c_y <= 0: misclassified; targeted: of the wanted class."""
        logits, labels = self._logits(z, rows), self.task.labels[rows]
        if self.task.problem.targeted:
            return margin(logits, labels)
        aim = None if self.aim is None else resolve_targets(logits, labels, self.aim[rows])
        return -margin(logits, labels, aim)

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
        return clipped(loss, level) if self.clips else loss


class NativeFormulation(Formulation):
    """The same problems with the box, the slacks and the linf ball as native bounds: nothing is folded.

    Args:
        task: the question.
        how: of its techniques ``rescale`` and ``clip`` count. ``rescale`` makes t of size 1, and maximises the
            cross-entropy through its logit, log(e^CE - 1) = log sum_{i != y} e^f_i - f_y, whose slope does not grow.
        loss: as in ``Formulation``.
        size: (n,) linf: about the radius.
    """

    def __init__(self, task: Task, how: Techniques, loss: str | None = None, size: Tensor | None = None) -> None:
        super().__init__(task, replace(how, reformulate=True), loss)
        ones = torch.ones_like(self.x[:, :1])
        self.size = ones if size is None or not how.rescale else size.to(self.x).unsqueeze(1)
        self.split = isinstance(self.metric, HasSlackForm) and not self.entrywise
        self.ball = self.entrywise and isinstance(task.problem, MaxLoss)

    def variables(self, points: Tensor) -> Tensor:
        """z of flat points (b, n): (a, b) where there is a slack for each entry, (u, t) where there is one for all."""
        move = points - self.x
        if self.split:
            return torch.cat([move.clamp(min=0), (-move).clamp(min=0)], 1)
        if self.slacks == 0:
            return points
        t = move.abs().amax(1, keepdim=True)
        return torch.cat([move / torch.where(t > 0, t, 1.0), t / self.size], 1)

    def points(self, z: Tensor, rows: Tensor) -> Tensor:
        """x' (a, n) of z."""
        if self.split:
            return self.x[rows] + z[:, : self.n] - z[:, self.n :]
        if self.slacks == 0:
            return z
        t = z[:, self.n :] * self.size[rows]
        return torch.clamp(self.x[rows] + t * z[:, : self.n], self.lower[rows], self.upper[rows])

    @property
    def bounds(self) -> tuple[Tensor, Tensor | None] | None:
        """The box in terms of z."""
        if self.split:
            upper = torch.cat([self.upper - self.x, self.x - self.lower], 1)
            return torch.zeros_like(upper), upper
        if self.ball:
            eps = self.eps(torch.arange(len(self.x), device=self.x.device)).unsqueeze(1)
            return torch.maximum(self.lower, self.x - eps), torch.minimum(self.upper, self.x + eps)
        if self.slacks == 0:
            return self.lower, self.upper
        least = torch.full_like(torch.cat([self.x, self.size], 1), -1.0)
        least[:, -1] = 0.0
        # Beyond this t every point is in the box's corner already.
        most = (self.upper - self.lower).amax(1, keepdim=True) / self.size
        return least, torch.cat([torch.ones_like(self.x), most], 1)

    def constraints(self) -> list[Constraint]:
        if not isinstance(self.task.problem, MaxLoss):
            return [ineq(self._condition, name="misclassified")]
        return [] if self.ball else [ineq(self._ball, name="ball")]

    def _ball(self, z: Tensor, rows: Tensor) -> Tensor:
        return z.sum(1) - self.eps(rows) if self.split else super()._ball(z, rows)

    def objective(self, z: Tensor, rows: Tensor) -> Tensor:
        if isinstance(self.task.problem, MaxLoss):
            return -self._loss(self._logits(z, rows), rows)
        if self.split:
            return z.sum(1)
        return z[:, self.n] if self.slacks else self.distance(z, rows)

    def _loss(self, logits: Tensor, rows: Tensor) -> Tensor:
        if self.loss != "ce" or not self.how.rescale or self.task.problem.targeted:
            return super()._loss(logits, rows)
        labels = self.task.labels[rows]
        own = logits.gather(1, labels.unsqueeze(1)).squeeze(1)
        logit = mask_label(logits, labels).logsumexp(1) - own
        return clipped(logit, math.log(max(logits.shape[1] - 1, 1))) if self.clips else logit


class BestSeen:
    """The best points that the solver has evaluated: per sample the nearest one that is misclassified, ties included.

    For max-loss it is the most misclassified one within eps, or the one with the largest loss if that is asked for.

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
        problem = task.problem
        largest = isinstance(problem, MaxLoss) and not problem.clip
        wrong = is_wrong(logits, labels, targeted) | is_tied(logits, labels)
        wrong = torch.ones_like(wrong) if largest else wrong
        some = (wrong & (out <= OUTSIDE * way)).nonzero().squeeze(1)
        rows, inside = rows[some], inside[some]
        if rows.numel() == 0:
            return
        cost = form.distance(inside, rows)
        if isinstance(problem, MaxLoss):
            gap = as_loss(form.loss if largest else "margin")(logits[some], labels[some], None)
            cost = torch.where(cost <= form.eps(rows), gap if targeted else -gap, torch.inf)
        better = (cost < self.best[rows]).nonzero().squeeze(1)
        better = better[cost[better].argsort(stable=True)]
        better = better[rows[better].argsort(stable=True)]  # by sample, the best of each first
        first = torch.ones_like(better, dtype=torch.bool)
        first[1:] = rows[better][1:] != rows[better][:-1]
        chosen = better[first]
        self.best[rows[chosen]], self.points[rows[chosen]] = cost[chosen], inside[chosen]
