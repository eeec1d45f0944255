"""The search of FAB: runs one after the other, for all samples that are not done."""

from __future__ import annotations

import torch
from torch import Tensor

from pwcf._common.rng import seeds_of
from pwcf.attacks.base import Answer, Diagnostics, Task
from pwcf.attacks.fab.geometry import Box, Plane, Weights, biased_step
from pwcf.attacks.fab.planes import Planes
from pwcf.attacks.fab.schedule import FINAL, Plan
from pwcf.attacks.fab.starts import random_starts
from pwcf.attacks.targets import ANY
from pwcf.losses import margin, mask_label
from pwcf.metrics import Norm, distance64
from pwcf.problems import is_surely_wrong

# A restart that brings the radius down by so much has helped.
HELPED = 0.01
# The final search aims at this share of the excess it starts from. At 0, where the paper aims, rounding decides.
AIM = 0.01


class Search:
    """A task's samples, the nearest answer to each so far, and who is not done."""

    def __init__(self, task: Task, metric: Norm, plan: Plan, weights: Weights, at_image: Tensor) -> None:
        self.task, self.metric, self.plan, self.weights = task, metric, plan, weights
        self.at_image, self.planes = at_image, Planes(task, metric)
        self.image = task.images.flatten(1)
        self.box = Box(task.lower.flatten(1), task.upper.flatten(1))
        self.seeds = seeds_of(task.images, task.seed)
        self.best = self.image.clone()
        self.radius = torch.full_like(self.image[:, 0], torch.inf, dtype=torch.float64)
        self.excess = torch.full_like(self.radius, torch.nan)  # of the best point, see _record
        self.handed = torch.zeros_like(self.radius, dtype=torch.bool)  # the best point is from another attack
        up = self.box.upper - self.image > self.image - self.box.lower
        farthest = torch.where(up, self.box.upper, self.box.lower)
        self.reach = distance64(metric, self.image, farthest)
        if task.eps is not None:
            self.reach = torch.minimum(self.reach, task.eps.to(self.reach))
        if task.known is not None:
            known = task.known.flatten(1)
            distance = distance64(metric, self.image, known)
            self.handed = distance > 0
            self.radius = torch.where(self.handed, distance, self.radius)
            self.best = torch.where(self.handed.unsqueeze(1), known, self.best)

    def run(self, fixed: bool) -> Answer:
        """The nearest points; images where there is none.

        ``fixed``: every run has its target, the likeliest classes at the image in turn.
        """
        task, plan = self.task, self.plan
        ranked = mask_label(self.at_image, task.labels).topk(plan.targets, dim=1).indices
        still_helping = None
        ranked = ranked if fixed else torch.full_like(ranked, ANY)
        for restart in range(plan.restarts):
            before = self.radius.clone()
            for target in range(plan.targets):
                rows = self._going()
                number = restart * plan.targets + target
                x, aims = self._start(rows, restart, number), ranked[:, target]
                if number + 1 == plan.restarts * plan.targets:
                    x, aims = self._from_known(rows, x), torch.where(self.handed, ANY, aims)
                self._go(rows, x, aims, number)
            if restart > 0:
                still_helping = self.radius < (1 - HELPED) * before
        self._search_segments(self._excess(self.at_image, task.labels))
        return Answer(self.best.view_as(task.images), Diagnostics(still_helping=still_helping))

    def _going(self) -> Tensor:
        """The rows that are not done: in max-loss a point within eps ends the search."""
        if self.task.eps is None:
            return torch.arange(len(self.radius), device=self.radius.device)
        return (self.radius > self.task.eps.to(self.radius)).nonzero().squeeze(1)

    def _start(self, rows: Tensor, restart: int, number: int) -> Tensor:
        """The images, and in restarts random points (paper: within half of the best radius, or of eps)."""
        return self.image[rows] if restart == 0 else self._random(rows, number, scattered=False)

    def _random(self, rows: Tensor, number: int, scattered: bool) -> Tensor:
        seeds = [self.seeds[row] + number for row in rows.tolist()]
        half = 0.5 * torch.minimum(self.radius, self.reach)[rows]
        return random_starts(self.metric, seeds, self.image[rows], half, self._box(rows), scattered)

    def _from_known(self, rows: Tensor, x: Tensor) -> Tensor:
        """Where nothing nearer than another attack's point was found, the last run goes on from there."""
        return torch.where(self.handed[rows].unsqueeze(1), self.best[rows], x)

    def _box(self, rows: Tensor) -> Box:
        return Box(self.box.lower[rows], self.box.upper[rows])

    def _go(self, rows: Tensor, x: Tensor, targets: Tensor, number: int) -> None:
        """One run of rows (r,) from x (r, n) towards targets (n,)."""
        nearest = torch.full_like(self.radius, torch.inf)  # of this run
        for step in range(self.plan.steps):
            if rows.numel() == 0:
                return
            logits, plane = self._look(rows, x, targets)
            wrong, distance = self._record(rows, x, logits)
            nearer = wrong & (distance < nearest[rows])
            nearest[rows[nearer]] = distance[nearer]
            x = self._onwards(rows, x, plane, wrong, nearer)
            lost = (~plane.usable).nonzero().squeeze(1)
            if lost.numel():
                # Undefined, or flat: there is no direction, so the run goes on anywhere about the image.
                runs = self.plan.restarts * self.plan.targets
                x[lost] = self._random(rows[lost], number + (step + 1) * runs, scattered=True)
            if self.task.eps is not None:
                left = self.radius[rows] > self.task.eps.to(self.radius)[rows]
                rows, x = rows[left], x[left]
        if rows.numel():
            self._record(rows, x, self.task.model.logits(self._shaped(x), self.task.samples[rows]))

    def _onwards(self, rows: Tensor, x: Tensor, plane: Plane, wrong: Tensor, nearer: Tensor) -> Tensor:
        """(r, n) the next points to look at.

        Published is a look at every point for its class and, after the step back from a misclassified one, another for
        the plane there: three passes a step. Here every look is for both, two passes: while answers get nearer the
        plane at the answer serves for the next step; once they do not, the point further back is looked at first.
        Without that l1 radii of an MNIST net are a tenth larger.
        """
        image = self.image[rows]
        x = torch.where(wrong.unsqueeze(1), image + self.weights.beta * (x - image), x)
        moved = biased_step(self.metric, x, image, plane, self._box(rows), self.weights)
        goes = plane.usable & (nearer | ~wrong)
        return torch.where(goes.unsqueeze(1), moved, x)

    def _look(self, rows: Tensor, x: Tensor, targets: Tensor) -> tuple[Tensor, Plane]:
        if self.plan.classes == 1:
            return self.planes.of_class(rows, self._shaped(x), targets[rows])
        return self.planes.of_nearest(rows, self._shaped(x), self.plan.classes)

    def _shaped(self, x: Tensor) -> Tensor:
        return x.view(-1, *self.task.images.shape[1:])

    def _record(self, rows: Tensor, x: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Keep what is nearer than before; (r,) which points are answers, and how far they all are."""
        labels = self.task.labels[rows]
        wrong = is_surely_wrong(logits, labels, self.task.problem.targeted)
        distance = distance64(self.metric, self.image[rows], x)
        nearer = wrong & (distance < self.radius[rows])
        new = rows[nearer]
        self.best[new], self.radius[new] = x[nearer], distance[nearer]
        self.excess[new], self.handed[new] = self._excess(logits, labels)[nearer], False
        return wrong, distance

    def _excess(self, logits: Tensor, labels: Tensor) -> Tensor:
        """(r,) by how much the logits are what is wanted; negative where they are not."""
        loss = margin(logits, labels).double()
        return -loss if self.task.problem.targeted else loss

    def _search_segments(self, at_image: Tensor) -> None:
        """Paper, "Final search": regula falsi between the image (n,) and the best point, three times."""
        rows = self._going()
        rows = rows[torch.isfinite(self.radius[rows])]
        low, high = torch.zeros_like(self.radius[rows]), torch.ones_like(self.radius[rows])
        at_low, at_high, end = at_image[rows], self.excess[rows], self.best[rows]
        for _ in range(FINAL):
            if rows.numel() == 0:
                return
            share = (AIM * at_high - at_low) / (at_high - at_low)
            share = torch.where((share > 0) & (share < 1), share, 0.5)
            s = low + share * (high - low)
            image = self.image[rows]
            x = self._box(rows).clip(image + s.unsqueeze(1).to(image) * (end - image))
            logits = self.task.model.logits(self._shaped(x), self.task.samples[rows])
            wrong, _ = self._record(rows, x, logits)
            excess = self._excess(logits, self.task.labels[rows])
            low, high = torch.where(wrong, low, s), torch.where(wrong, s, high)
            at_low, at_high = torch.where(wrong, at_low, excess), torch.where(wrong, excess, at_high)
