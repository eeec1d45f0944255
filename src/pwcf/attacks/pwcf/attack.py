"""PWCF, the paper's method: penalty SQP with constraint folding on the formulations of ``formulation.py``.

R starts run for k iterations each, then the best one goes on to iteration K (paper, "Two-stage optimization").
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from pwcf._common.rng import noise_of, seeds_of
from pwcf.attacks.base import Answer, Attack, Task, needs_slope
from pwcf.attacks.pwcf.formulation import Formulation, Techniques
from pwcf.losses import as_loss
from pwcf.metrics import shrink_to_eps
from pwcf.problems import MaxLoss, Problem, is_surely_wrong
from pwcf.solvers import Restarts, minimize

# Passes per sample beside the solver's evaluations, each of which is one forward and one backward: minimize() checks
# its functions with up to two forward passes, and at the end two candidates are looked at.
CHECKS = 2
EVALUATION = 2
CANDIDATES = 2
# A minimum of the radius lies on the boundary, where rounding decides what the class is. Up to 5 % further out
# an answer is still worth having.
FURTHER = (1.0, 1.001, 1.01, 1.05)
# The paper's BFGS keeps a full matrix. Up to 200 variables ours does too; beyond, this many pairs: with 6 the l1 radius
# is twice as large. Where they take much memory the solver's few must do.
PAIRS, FEW_PAIRS, PAIRS_UP_TO = 100, 6, 20_000
# The states of all starts wait for the end of stage 1. Samples share a call of minimize() as far as these fit (bytes).
STATES = 2e9
# Vectors in the state of a row beside its pairs: cuts with all their gradients, points, directions.
VECTORS = 100
# Starts are fewer where the budget does not give each of them about this many evaluations in stage 1.
LEAST_EVALUATIONS = 10


@dataclass(frozen=True)
class Pwcf(Attack):
    """PWCF, the paper's method, on ``pwcf.minimize``; every technique of the paper can be switched off."""

    fold: bool = True
    """one constraint for each group of entrywise ones; otherwise two per entry, which only tiny inputs bear"""
    reformulate: bool = True
    """slack forms of linf and l1, the linf ball entry by entry"""
    rescale: bool = True
    """sqrt(n) t in place of the linf radius t, as objective and as variable"""
    clip: bool = True
    """losses end at 0.01 (margin, DLR) or ln K (cross-entropy)"""
    loss: str | None = None
    """max-loss: what is maximised, "margin", "ce" or "dlr"; None: what the question says"""
    starts: int = 10
    """R. The paper's value in all experiments."""
    first_iterations: int | None = None
    """k. None: 50 for min-radius, 20 for max-loss, as in the paper's section on the method (later: 50 and 40)."""
    iterations: int | None = None
    """K. None: 4000 for min-radius, 400 for max-loss, as in the paper. The budget mostly ends a row sooner."""
    noise: float = 0.05
    """starts are uniform in the image +- this share of the bounds' width; the paper only says random"""
    tol: float = 1e-4
    """The paper's is 1e-2, for another test."""
    feasibility: float | None = None
    """None: the solver's. The paper's is 1e-2, so loose that a point need not be misclassified."""
    test: str = "bundle"
    """the solver's stopping test; "published" is the paper's, and leaves functions unscaled as published"""
    remember: bool = True
    """whether the best point the solver has evaluated may be the answer, or only the one it ends with"""
    name: str = "pwcf"

    def __post_init__(self) -> None:
        if self.loss is not None:
            as_loss(self.loss)

    @property
    def about(self) -> str:
        loss = self.loss or "the problem's loss"
        return f"PWCF, the paper's method, on pwcf.minimize, {loss}, {self.starts} starts"

    def unsupported_reason(self, problem: Problem, classes: int | None) -> str | None:
        return needs_slope(problem)

    def __call__(self, task: Task) -> Answer:
        evaluations = (task.budget - CHECKS - repairs(task)) // EVALUATION
        if evaluations < 1 or task.images.shape[0] == 0:
            return Answer(task.images)
        R = max(1, min(self.starts, evaluations // (2 * LEAST_EVALUATIONS)))
        points = [self._solve(part, R, evaluations) for part in parts(task, samples_at_once(task, R))]
        return Answer(torch.cat(points))

    def _solve(self, task: Task, R: int, evaluations: int) -> Tensor:
        form = Formulation(task, Techniques(self.fold, self.reformulate, self.rescale, self.clip), self.loss)
        starts = torch.stack([form.variables(points) for points in self._starts(task, form, R)])
        max_loss = isinstance(task.problem, MaxLoss)
        k = self.first_iterations or (20 if max_loss else 50)
        solution = minimize(
            form.objective,
            starts[0],
            form.constraints(),
            bounds=form.bounds,
            tol=self.tol,
            feasibility=self.feasibility,
            max_iterations=self.iterations or (400 if max_loss else 4000),
            budget=evaluations,
            slots=task.model.batch,
            memory=pairs(starts.shape[2]),
            test=self.test,
            restarts=Restarts(starts[1:], k) if R > 1 else None,
        )
        everyone = torch.arange(form.x.shape[0], device=form.x.device)
        found = [torch.clamp(form.points(solution.x, everyone), form.lower, form.upper)]
        if self.remember:
            found.append(form.seen.points)
        return best_of(form, found).view_as(task.images)

    def _starts(self, task: Task, form: Formulation, R: int) -> Tensor:
        """(R, n samples, entries) random points about the images, inside the box and, for max-loss, within eps."""
        lower, upper = task.model.bounds
        size = self.noise * (upper - lower)
        b, n = form.x.shape
        drawn = noise_of(seeds_of(task.images, task.seed), R * b, form.x).view(b, R, n).transpose(0, 1)
        starts = torch.clamp(form.x + size * drawn, form.lower, form.upper)
        if isinstance(task.problem, MaxLoss):
            starts = torch.stack([into_ball(form, points) for points in starts])
        return starts


def pairs(variables: int) -> int:
    """How many BFGS pairs a row of so many variables keeps."""
    return PAIRS if variables <= PAIRS_UP_TO else FEW_PAIRS


def samples_at_once(task: Task, R: int) -> int:
    """How many samples' states fit, with as many slacks as entries."""
    m = 2 * task.images[0].numel()
    row = m * task.images.element_size() * (2 * pairs(m) + VECTORS)
    return max(1, int(STATES / (R * row)))


def parts(task: Task, samples: int) -> Iterator[Task]:
    """The task, some samples at a time."""
    for start in range(0, task.images.shape[0], samples):
        yield task.select(torch.arange(start, min(start + samples, task.images.shape[0])))


def repairs(task: Task) -> int:
    """Forward passes kept for the last look at the candidates."""
    return CANDIDATES * (1 if isinstance(task.problem, MaxLoss) else len(FURTHER))


def best_of(form: Formulation, candidates: list[Tensor]) -> Tensor:
    """The nearest of the candidates (b, n) that are misclassified; if none is, the first."""
    max_loss = isinstance(form.task.problem, MaxLoss)
    candidates = [into_ball(form, candidate) for candidate in candidates] if max_loss else candidates
    best, least = candidates[0], torch.full_like(form.x[:, 0], torch.inf)
    everyone = torch.arange(best.shape[0], device=best.device)
    for candidate in candidates:
        found, wrong = out_to_misclassified(form, candidate, (1.0,) if max_loss else FURTHER)
        with torch.no_grad():
            cost = torch.where(wrong, form.distance(found, everyone), torch.inf)
        best = torch.where((cost < least).unsqueeze(1), found, best)
        least = torch.minimum(cost, least)
    return best


def out_to_misclassified(form: Formulation, points: Tensor, factors: tuple[float, ...]) -> tuple[Tensor, Tensor]:
    """The first of some points on the ray from the image through x' that is misclassified, else x'; and whether."""
    task, found = form.task, points
    done = (points == form.x).all(1)  # an image is no candidate
    wrong = torch.zeros_like(done)
    for factor in factors:
        left = (~done).nonzero().squeeze(1)
        if left.numel() == 0:
            break
        x = form.x[left]
        trial = points[left] if factor == 1 else x + factor * (points[left] - x)
        trial = torch.clamp(trial, form.lower[left], form.upper[left])
        logits = task.model.logits(trial.view(-1, *form.shape), task.samples[left.to(task.samples.device)])
        hit = is_surely_wrong(logits, task.labels[left], task.problem.targeted)
        found = found.index_copy(0, left[hit], trial[hit])
        done, wrong = done.index_fill(0, left[hit], True), wrong.index_fill(0, left[hit], True)
    return found, wrong


def into_ball(form: Formulation, points: Tensor) -> Tensor:
    """The last point on the way from the image to x' that is within eps: x' itself if it is."""
    assert form.task.eps is not None
    images, x = form.task.images, points.view_as(form.task.images)
    drawn = shrink_to_eps(
        form.measure.distance64, images, x, form.task.eps.to(x.device), (form.task.lower, form.task.upper)
    )
    return drawn.flatten(1)
