"""The outer loop: rows are (image, target class); stages spend the budget on the most promising ones.

A table keeps the smallest radius found for each image and target. A stage takes the best targets of every image, starts
them at the image, at noise around it or at the table's point, and runs its legs. Noise restarts matter more than long
runs: the boundary has many local minima.
"""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

from pwcf.attacks.linearised.rules import Iterate
from pwcf.attacks.linearised.schedule import Stage, stages
from pwcf.losses import margin
from pwcf.metrics import Lp
from pwcf.models import Counted
from pwcf.problems import MinRadius, is_wrong

# Noise around the image: uniform, as long as this share of the best distance in the same norm (l2 for l1 too).
NOISE_LINF, NOISE_L2 = 0.75, 1.8


class Search:
    """Min-radius in l1, l2 or linf for a batch of images."""

    def __init__(
        self, model: Counted, problem: MinRadius, images: Tensor, labels: Tensor, samples: Tensor, seed: int, batch: int
    ) -> None:
        """``samples`` (n,): under which numbers passes are counted; ``batch``: rows that share a call of the model."""
        assert isinstance(problem.metric, Lp)
        self.model, self.problem, self.metric = model, problem, problem.metric
        self.shape, self.batch = images.shape[1:], batch
        self.centre, self.labels, self.samples = images.flatten(1), labels, samples
        self.seeds = [_seed_of(image, seed) for image in self.centre]

    def run(self, budget: int) -> Tensor:
        """The nearest misclassified points seen (n, ...); the images themselves where there is none."""
        logits = self.model.logits(self.centre.view(-1, *self.shape), self.samples)
        plan = stages(self.metric.name, budget, 2 if self.problem.targeted else logits.shape[1])
        self._choose_targets(logits, max(stage.targets for stage in plan))
        for number, stage in enumerate(plan):
            self._stage(stage, number)
        best, column = self.radius.min(1)
        found = self.points[torch.arange(len(column)), column]
        return torch.where(torch.isfinite(best).unsqueeze(-1), found, self.centre).view(-1, *self.shape)

    def _choose_targets(self, logits: Tensor, count: int) -> None:
        """The classes with the largest logits beside the label's; if targeted the wanted one alone."""
        if self.problem.targeted:
            self.targets = self.labels.unsqueeze(1)
        else:
            others = logits.scatter(1, self.labels.unsqueeze(1), -torch.inf)
            self.targets = others.topk(count, dim=1).indices
        n, k = self.targets.shape
        self.radius = torch.full((n, k), torch.inf, dtype=self.centre.dtype, device=self.centre.device)
        self.points = self.centre.unsqueeze(1).repeat(1, k, 1)

    def _stage(self, stage: Stage, number: int) -> None:
        n = self.centre.shape[0]
        column = self.radius.argsort(dim=1, stable=True)[:, : stage.targets].flatten()
        image = torch.arange(n, device=column.device).repeat_interleave(column.numel() // n)
        x = self._start(stage, number, image, column)
        best, best_x = torch.full_like(x[:, 0], torch.inf), x
        lower, upper = (torch.full_like(x[:1], side) for side in self.model.bounds)
        for leg in stage.legs:
            x = torch.where(torch.isfinite(best).unsqueeze(-1), best_x, x)
            before, memory = x, torch.zeros_like(best)
            for step in range(leg.steps):
                wrong, c, g = self._linearise(x, image, self.targets[image, column])
                radius = self.metric(self.centre[image], x)
                better = wrong & (radius < best)
                best = torch.where(better, radius, best)
                best_x = torch.where(better.unsqueeze(-1), x, best_x)
                at = Iterate(self.centre[image], x, before, c, g, wrong, best, lower, upper)
                share = step / max(leg.steps - 1, 1)
                before, (x, memory) = x, leg.rule(at, leg.pace, share, memory)
        better = best < self.radius[image, column]
        image, column = image[better], column[better]
        self.radius[image, column], self.points[image, column] = best[better], best_x[better]

    def _start(self, stage: Stage, number: int, image: Tensor, column: Tensor) -> Tensor:
        centre = self.centre[image]
        if stage.start == "image":
            return centre
        nearest = self.radius.argmin(1)
        radius, point = (t[torch.arange(len(nearest)), nearest] for t in (self.radius, self.points))
        known = torch.isfinite(self.radius[image, column]).unsqueeze(-1)
        if stage.start == "best":
            return torch.where(known, self.points[image, column], point[image])
        if self.metric.name == "linf":
            size = NOISE_LINF * radius
        else:
            size = NOISE_L2 * (point - self.centre).norm(dim=1) * (3 / centre.shape[1]) ** 0.5
        size = torch.where(torch.isfinite(radius), size, torch.zeros_like(size))
        per_image = column.numel() // self.centre.shape[0]
        noise = torch.cat([_noise(seed + number, per_image, centre) for seed in self.seeds])
        return (centre + size[image].unsqueeze(-1) * noise).clamp(*self.model.bounds)

    def _linearise(self, x: Tensor, image: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Whether x (r, n) is misclassified, c and its gradient."""
        labels, targeted = self.labels[image], self.problem.targeted
        wrong, c, g = torch.empty_like(labels, dtype=torch.bool), torch.empty_like(x[:, 0]), torch.empty_like(x)
        for start in range(0, x.shape[0], self.batch):
            some = slice(start, start + self.batch)
            own, wanted = labels[some], target[some]

            def condition(logits: Tensor, own: Tensor = own, wanted: Tensor = wanted) -> Tensor:
                return margin(logits, own) if targeted else -margin(logits, own, wanted)

            points = x[some].view(-1, *self.shape)
            logits, c[some], gradient = self.model.value_and_gradient(points, self.samples[image[some]], condition)
            g[some], wrong[some] = gradient.flatten(1), is_wrong(logits, own, targeted)
        return wrong, c, g


def _seed_of(image: Tensor, seed: int) -> int:
    """From the image itself: a sample gets the same noise whatever else is in the batch."""
    data = image.detach().cpu().contiguous().numpy().tobytes()
    return int.from_bytes(hashlib.blake2b(data + seed.to_bytes(8, "little", signed=True), digest_size=6).digest())


def _noise(seed: int, rows: int, like: Tensor) -> Tensor:
    """(rows, n) uniform in [-1, 1]."""
    generator = torch.Generator().manual_seed(seed)
    return (2 * torch.rand(rows, like.shape[1], generator=generator) - 1).to(like)
