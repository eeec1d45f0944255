"""Random search: windows are tried on all rows at once and stay where the loss has grown."""

from __future__ import annotations

import math
from bisect import bisect_left
from itertools import groupby

import torch
from torch import Tensor

from pwcf._common.rng import RowRng, seeds_of
from pwcf.attacks.base import Task
from pwcf.attacks.square.l2_l1 import L1Proposal, L2Proposal
from pwcf.attacks.square.linf import LinfProposal
from pwcf.attacks.square.windows import Proposal, SquareBall
from pwcf.losses import margin
from pwcf.problems import is_defined, is_surely_wrong

PROPOSALS: dict[float, type[LinfProposal | L2Proposal | L1Proposal]] = {
    1.0: L1Proposal,
    2.0: L2Proposal,
    math.inf: LinfProposal,
}
# Queries whose random numbers are drawn together: many enough that drawing costs nothing beside the model, few enough
# that little is drawn in vain for rows that leave.
TOGETHER = 50
# Queries out of 10000 after which the share of entries in a window is halved (the authors' values, for all norms).
HALVINGS = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)
OUT_OF = 10_000


class SquareSearch:
    """Max-loss for a task whose rows all have room to change, eps > 0 and an l_p metric of ``PROPOSALS``."""

    def __init__(self, task: Task, p: float) -> None:
        assert task.eps is not None
        self.task, self.answers = task, task.images.clone()
        self.rows = torch.arange(len(task.images), device=task.images.device)  # those still right
        self.loss = torch.full((len(self.rows),), -torch.inf, dtype=torch.float64, device=self.rows.device)
        ball = SquareBall.of(p, task.images, task.lower, task.upper, task.eps)
        self.proposal: Proposal = PROPOSALS[p](ball, RowRng(seeds_of(task.images, task.seed), task.images.device))

    def run(self, queries: int, share: float) -> Tensor:
        """(n, ...) misclassified points, the images where none was seen.

        The start is the first query; ``share`` of the entries are in the first windows.
        """
        self._judge(start=True)
        for fraction, steps in window_stages(queries - 1, share):
            sides = self.proposal.grid.sides(fraction, self.proposal.least)
            for done in range(0, steps, TOGETHER):
                some = min(TOGETHER, steps - done)
                if len(self.rows):
                    self.proposal.draw(sides, some)
                for query in range(some):
                    if not len(self.rows):
                        return self.answers
                    self.proposal.propose(query)
                    self._judge()
        # What is left is misclassified by no more than rounding, if at all; the caller's look decides.
        self._leave(self.loss > 0)
        return self.answers

    def _judge(self, start: bool = False) -> None:
        """Ask the model about what is tried; keep what is better, let rows go that are broken."""
        task, points = self.task, self.proposal.points
        x = points.view(-1, *task.images.shape[1:])
        labels = task.labels[self.rows]
        logits = task.model.logits(x, task.samples[self.rows])
        loss = margin(logits, labels).double()
        loss = -loss if task.problem.targeted else loss
        loss = torch.where(is_defined(logits) & ~torch.isnan(loss), loss, -torch.inf)
        broken = is_surely_wrong(logits, labels, task.problem.targeted)
        if not start:
            # A broken row keeps what broke it, also where a tie before had the same loss.
            self.proposal.settle((loss > self.loss) | broken)
        self.loss = torch.maximum(self.loss, loss)
        if bool(broken.any()):
            self._leave(broken)

    def _leave(self, which: Tensor) -> None:
        leaving = self.rows[which]
        self.answers[leaving] = self.proposal.points[which].view(-1, *self.answers.shape[1:])
        stay = (~which).nonzero().squeeze(1)
        self.rows, self.loss = self.rows[stay], self.loss[stay]
        self.proposal.keep(stay)


def window_stages(steps: int, p: float) -> list[tuple[float, int]]:
    """(share of entries, number of steps) in turn; the halvings are rescaled to this many steps, as in AutoAttack."""
    levels = [bisect_left(HALVINGS, step * OUT_OF // steps) for step in range(steps)]
    return [(p / 2**level, len(list(some))) for level, some in groupby(levels)]
