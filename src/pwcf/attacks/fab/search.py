"""The search of FAB: how the budget is divided into runs, and the runs, for all samples that are not done."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pwcf._common.rng import seeds_of
from pwcf.attacks.base import ANY, Answer, Diagnostics, Task
from pwcf.attacks.fab.geometry import BoundaryPlanes, FabWeights, FlatBox, Plane, biased_step, random_starts
from pwcf.losses import margin, mask_label
from pwcf.metrics import distance64
from pwcf.problems import is_surely_wrong

# The paper's length of a run. To have more targets runs may be half as long: with 500 passes four targets of 62 steps
# are better on a CIFAR-10 net, and no worse on an MNIST net, than two of 124 or nine of 27.
STEPS, SHORT = 100, 50
# A run of fewer steps reaches nothing: rather than that, fewer classes are looked at in a step.
LEAST_STEPS = 10
# Passes beside the runs: the look at the image, and the paper's three looks along the segment at the end.
LOOK, FINAL = 1, 3
# Passes of a run beside its steps: whether its last point is an answer.
CHECK = 1
# A restart that brings the radius down by so much has helped.
HELPED = 0.01
# The final search aims at this share of the excess it starts from. At 0, where the paper aims, rounding decides.
AIM = 0.01


@dataclass(frozen=True)
class FabSchedule:
    """restarts x targets runs of ``steps`` steps, each with the planes of ``classes`` classes."""

    restarts: int
    targets: int
    steps: int
    classes: int

    @property
    def passes(self) -> int:
        """What a sample costs at most."""
        return LOOK + FINAL + self.restarts * self.targets * (CHECK + self.steps * (1 + self.classes))

    @classmethod
    def within(
        cls, budget: int, targets: int, classes: int, steps: int | None, restarts: int | None
    ) -> FabSchedule | None:
        """What the budget allows of ``targets`` targets in turn, ``classes`` planes a step; None: not even one step.

        Steps and restarts that are None are as many as there is budget for: the published number of steps, or some more
        or less so that restarts come out even. Where it is small, restarts go first, then targets, then steps.
        """
        left = budget - LOOK - FINAL
        classes = max(1, min(classes, (left - CHECK) // LEAST_STEPS - 1))
        cost = 1 + classes
        if left < CHECK + cost:
            return None
        shortest = CHECK + cost * (SHORT if steps is None else steps)
        targets = max(1, min(targets, left // shortest))
        every = targets * (CHECK + cost * (STEPS if steps is None else steps))
        repeats = max(1, (left + every // 2) // every if steps is None else left // every)
        repeats = repeats if restarts is None else min(restarts, repeats)
        most = (left // (repeats * targets) - CHECK) // cost
        return cls(repeats, targets, most if steps is None else min(steps, most), classes)


class FabSearch:
    """A task's samples, the nearest answer to each so far, and who is not done."""

    def __init__(self, task: Task, schedule: FabSchedule, weights: FabWeights, at_image: Tensor) -> None:
        self.task, self.metric, self.schedule, self.weights = task, task.problem.metric, schedule, weights
        self.at_image, self.planes = at_image, BoundaryPlanes(task)
        self.image, self.shape = task.images.flatten(1), task.images.shape[1:]
        self.box = FlatBox(task.lower.flatten(1), task.upper.flatten(1))
        self.seeds = seeds_of(task.images, task.seed)
        self.best = self.image.clone()
        self.radius = torch.full_like(self.image[:, 0], torch.inf, dtype=torch.float64)
        self.excess = torch.full_like(self.radius, torch.nan)  # of the best point, see _record
        self.handed = torch.zeros_like(self.radius, dtype=torch.bool)  # the best point is from another attack
        up = self.box.upper - self.image > self.image - self.box.lower
        farthest = torch.where(up, self.box.upper, self.box.lower)
        self.reach = self._distance(self.image, farthest)
        if task.eps is not None:
            self.reach = torch.minimum(self.reach, task.eps.to(self.reach))
        if task.known is not None:
            known = task.known.flatten(1)
            distance = self._distance(self.image, known)
            self.handed = distance > 0
            self.radius = torch.where(self.handed, distance, self.radius)
            self.best = torch.where(self.handed.unsqueeze(1), known, self.best)

    def run(self, fixed: bool) -> Answer:
        """The nearest points; images where there is none.

        ``fixed``: every run has its target, the likeliest classes at the image in turn.
        """
        task, schedule = self.task, self.schedule
        ranked = mask_label(self.at_image, task.labels).topk(schedule.targets, dim=1).indices
        still_helping = None
        ranked = ranked if fixed else torch.full_like(ranked, ANY)
        for restart in range(schedule.restarts):
            before = self.radius.clone()
            for target in range(schedule.targets):
                rows = self._going()
                number = restart * schedule.targets + target
                x, aims = self._start(rows, restart, number), ranked[:, target]
                if number + 1 == schedule.restarts * schedule.targets:
                    x, aims = self._from_known(rows, x), torch.where(self.handed, ANY, aims)
                self._go(rows, x, aims, number)
            if restart > 0:
                still_helping = self.radius < (1 - HELPED) * before
        self._search_segments(self._excess(self.at_image, task.labels))
        diagnostics = Diagnostics(still_helping=still_helping, seen=torch.isfinite(self.radius) & ~self.handed)
        return Answer(self.best.view_as(task.images), diagnostics)

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
        return random_starts(self.metric, self.shape, seeds, self.image[rows], half, self._box(rows), scattered)

    def _from_known(self, rows: Tensor, x: Tensor) -> Tensor:
        """Where nothing nearer than another attack's point was found, the last run goes on from there."""
        return torch.where(self.handed[rows].unsqueeze(1), self.best[rows], x)

    def _distance(self, image: Tensor, x: Tensor) -> Tensor:
        """(r,) float64, of flat points (r, n)."""
        return distance64(self.metric, image.view(-1, *self.shape), x.view(-1, *self.shape))

    def _box(self, rows: Tensor) -> FlatBox:
        return FlatBox(self.box.lower[rows], self.box.upper[rows])

    def _go(self, rows: Tensor, x: Tensor, targets: Tensor, number: int) -> None:
        """One run of rows (r,) from x (r, n) towards targets (n,)."""
        nearest = torch.full_like(self.radius, torch.inf)  # of this run
        for step in range(self.schedule.steps):
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
                runs = self.schedule.restarts * self.schedule.targets
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
        moved = biased_step(self.metric, self.shape, x, image, plane, self._box(rows), self.weights)
        goes = plane.usable & (nearer | ~wrong)
        return torch.where(goes.unsqueeze(1), moved, x)

    def _look(self, rows: Tensor, x: Tensor, targets: Tensor) -> tuple[Tensor, Plane]:
        if self.schedule.classes == 1:
            return self.planes.of_class(rows, self._shaped(x), targets[rows])
        return self.planes.of_nearest(rows, self._shaped(x), self.schedule.classes)

    def _shaped(self, x: Tensor) -> Tensor:
        return x.view(-1, *self.task.images.shape[1:])

    def _record(self, rows: Tensor, x: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Keep what is nearer than before; (r,) which points are answers, and how far they all are."""
        labels = self.task.labels[rows]
        wrong = is_surely_wrong(logits, labels, self.task.problem.targeted)
        distance = self._distance(self.image[rows], x)
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
