"""The best point a solver has come across: feasible to it or not, a misclassified point in the box is an answer.

A fold is satisfied exactly or not at all, so the solver's own feasible points are few and may be far from its best
ones. Which points were evaluated is known for nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pwcf.losses import margin
from pwcf.problems import MaxLoss, is_tied, is_wrong

if TYPE_CHECKING:
    from pwcf.attacks.pwcf.formulation import Formulation

# A point counts if it is in the box up to this share of its way from the image: clipping will hardly change its class.
OUTSIDE = 1e-3


class Seen:
    """Per sample the nearest misclassified point, ties included; for max-loss the most misclassified one within eps."""

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
