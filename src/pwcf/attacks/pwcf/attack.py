"""PWCF, the paper's method, on the formulations of ``formulation.py`` (paper, "Two-stage optimization").

Stage 1 looks for the best start: by the linearised search, which takes full steps towards several classes, or, as
published, by k iterations of the solver from R random starts. From there stage 2 runs the solver to its own end:
stationarity and violation within tolerance, no further progress, or iteration K.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pwcf._common.rng import noise_of, seeds_of
from pwcf.attacks.ascent import climb
from pwcf.attacks.base import Answer, Attack, Diagnostics, SolverEnd, Task, needs_slope
from pwcf.attacks.linearised.search import LinearisedSearch
from pwcf.attacks.pwcf.formulation import Formulation, NativeFormulation, Techniques
from pwcf.losses import as_loss
from pwcf.metrics import HasProjection, shrink_to_eps
from pwcf.problems import MaxLoss, Problem, is_surely_wrong
from pwcf.solvers import Restarts, Solution, minimize

# Passes per sample beside the solver's evaluations, each of which is one forward and one backward: minimize() checks
# its functions with up to two forward passes, and at the end two candidates are looked at.
CHECKS = 2
EVALUATION = 2
CANDIDATES = 2
# A minimum of the radius lies on the boundary, where rounding decides what the class is. Up to 5 % further out
# an answer is still worth having.
FURTHER = (1.0, 1.001, 1.01, 1.05)
# The share of the budget that the linearised search may have: the solver seldom uses more than the rest.
LINEARISED = 0.78
# The same where the largest loss is asked for, and of what is left the share of projected steps up the loss.
LARGEST, CLIMB = 0.2, 0.7
# The paper's BFGS keeps a full matrix. Up to 200 variables ours does too; beyond, this many pairs: with 6 the l1 radius
# of the published form is twice as large. Where they take much memory the solver's few must do. With native bounds few
# pairs do as well as a full matrix.
PAIRS, FEW_PAIRS, PAIRS_UP_TO, NATIVE_PAIRS = 100, 6, 20_000, 10
# The states of all starts wait for the end of stage 1. Samples share a call of minimize() as far as these fit (bytes).
STATES = 2e9
# Vectors in the state of a row beside its pairs: cuts with all their gradients, points, directions.
VECTORS = 100
# Published starts are fewer where the budget does not give each of them about this many evaluations in stage 1.
LEAST_EVALUATIONS = 10
# Max-loss: starts of stage 2 beside the best point of stage 1, and the iterations before the best one goes on.
FURTHER_STARTS, FURTHER_ITERATIONS = 3, 10


@dataclass(frozen=True)
class Pwcf(Attack):
    """PWCF, the paper's method, on ``pwcf.minimize``; every technique can be switched off."""

    native: bool = True
    """box, ball and slacks are the solver's own bounds, and nothing is folded; False: the paper's formulations"""
    linearise: bool = True
    """stage 1 by the linearised search; False: by the solver from random starts, as published"""
    fold: bool | float = True
    """not native: one constraint for each group of entrywise ones, by the l2 or any l_p norm; False: two per entry,
    which only tiny inputs bear"""
    reformulate: bool = True
    """not native: slack forms of linf and l1, the linf ball entry by entry"""
    rescale: bool = True
    """sqrt(n) t in place of the linf radius t; native: t / radius, and the cross-entropy by its logit"""
    clip: bool = True
    """losses end at 0.01 (margin, DLR) or ln K (cross-entropy), unless the question asks for the largest loss"""
    loss: str | None = None
    """max-loss: what is maximised, "margin", "ce" or "dlr"; None: what the question says"""
    starts: int = 10
    """random starts: R. The paper's value in all experiments."""
    first_iterations: int | None = None
    """random starts: k. None: 50 for min-radius, 20 for max-loss, as in the paper's section on the method (later: 50
    and 40)."""
    iterations: int | None = None
    """K. None: 4000 for min-radius, 400 for max-loss, as in the paper. The budget mostly ends a row sooner."""
    noise: float = 0.05
    """random starts are uniform in the image +- this share of the bounds' width; the paper only says random"""
    tol: float = 1e-3
    """relative excess of the objective; the paper's is 1e-2, for another test"""
    feasibility: float | None = None
    """None: the solver's. The paper's is 1e-2, so loose that a point need not be misclassified."""
    test: str = "bundle"
    """the solver's stopping test; "published" is the paper's, and leaves functions unscaled as published"""
    remember: bool = True
    """whether the best point that was evaluated may be the answer, or only the one the solver ends with"""
    name: str = "pwcf"

    def __post_init__(self) -> None:
        if self.loss is not None:
            as_loss(self.loss)

    @classmethod
    def as_published(cls, loss: str | None = None, name: str = "pwcf-published") -> Pwcf:
        """PWCF with the paper's formulations and stages: folded, reformulated, rescaled and clipped; R = 10.

        Args:
            loss: max-loss: "margin", "ce" or "dlr"; None: what the question says.
            name: what tables call it.

        Returns:
            The attack.
        """
        return cls(native=False, linearise=False, loss=loss, tol=1e-4, name=name)

    @property
    def about(self) -> str:
        loss = self.loss or "the problem's loss"
        forms = "native bounds" if self.native else "folded constraints" if self.fold else "unfolded constraints"
        stage = "the linearised search first" if self.linearise else f"{self.starts} random starts"
        return f"PWCF, the paper's method, on pwcf.minimize, {forms}, {stage}, {loss}"

    def unsupported_reason(self, problem: Problem, classes: int | None) -> str | None:
        return needs_slope(problem)

    def __call__(self, task: Task) -> Answer:
        evaluations = (task.budget - CHECKS - repairs(task)) // EVALUATION
        if evaluations < 1 or task.images.shape[0] == 0:
            return Answer(task.images)
        if self.linearise:
            return self._linearised_first(task, evaluations)
        k = self._first_iterations(task)
        R = max(1, min(self.starts, evaluations // (2 * min(k, max(LEAST_EVALUATIONS, evaluations // 8)))))
        some = samples_at_once(task, R, self.native)
        answers = [self._restarted(part, R, k, evaluations) for part in parts(task, some)]
        return Answer(
            torch.cat([answer.points for answer in answers]),
            Diagnostics(solver=SolverEnd.joined([a.diagnostics.solver for a in answers if a.diagnostics.solver])),
        )

    def _first_iterations(self, task: Task) -> int:
        return self.first_iterations or (20 if isinstance(task.problem, MaxLoss) else 50)

    # ---- stage 1 by the linearised search ---------------------------------------------------------

    def _linearised_first(self, task: Task, evaluations: int) -> Answer:
        """The linearised search, and from its nearest point the solver; in max-loss where that is no answer yet."""
        problem = task.problem
        largest = isinstance(problem, MaxLoss) and not problem.clip
        search = LinearisedSearch(replace(task, budget=int((LARGEST if largest else LINEARISED) * task.budget)))
        answer = search.run()
        left = evaluations - math.ceil(search.task.budget / EVALUATION)
        points, nearest = answer.points, answer.diagnostics.nearest
        assert nearest is not None
        if largest:
            steps = int(CLIMB * left)
            points, left = climb(task, points, steps, self.loss)[0], left - steps
        points = points.flatten(1).clone()
        max_loss = isinstance(problem, MaxLoss)
        # What the search saw misclassified are its own points, which the solver's are not.
        diagnostics = replace(answer.diagnostics, seen=None)
        todo = torch.ones_like(nearest, dtype=torch.bool)
        if search.eps is not None and not largest:
            todo = nearest > search.eps
        rows = todo.nonzero().squeeze(1)
        if left < 1 or len(rows) == 0:
            return Answer(points.view_as(task.images), diagnostics)
        part, start, x = task.select(rows), points[rows], search.centre[rows]
        size = (start - x).abs().amax(1)
        form = self._formulation(part, torch.where(size > 0, size, self._noise(task)))
        blank = (start == x).all(1, keepdim=True)
        start = torch.where(blank, self._starts(part, form, 1)[0], start)
        further = None
        if max_loss:
            start = drawn_in(form, start)
            count = FURTHER_STARTS if not largest and left >= 4 * FURTHER_STARTS * FURTHER_ITERATIONS else 0
            further = Restarts(form.starts(self._starts(part, form, count)), FURTHER_ITERATIONS) if count else None
        else:
            form.aim_at(start)
            form.seen.points, form.seen.best = start.clone(), nearest[rows].clone()
        solution = self._minimize(form, form.variables(start), left, further)
        points[rows] = self._best(form, solution)
        diagnostics = diagnostics if max_loss else replace(diagnostics, solver=ending(solution))
        return Answer(points.view_as(task.images), diagnostics)

    # ---- stage 1 by the solver --------------------------------------------------------------------

    def _restarted(self, task: Task, R: int, k: int, evaluations: int) -> Answer:
        """R random starts, of which the best one goes on."""
        size = torch.full_like(task.images.flatten(1)[:, 0], self._noise(task))
        form = self._formulation(task, size)
        starts = form.starts(self._starts(task, form, R))
        solution = self._minimize(form, starts[0], evaluations, Restarts(starts[1:], k) if R > 1 else None)
        points = self._best(form, solution).view_as(task.images)
        return Answer(points, Diagnostics(solver=ending(solution)))

    def _noise(self, task: Task) -> float:
        lower, upper = task.model.bounds
        return self.noise * (upper - lower)

    def _starts(self, task: Task, form: Formulation, R: int) -> Tensor:
        """(R, n samples, entries) random points about the images, inside the box and, for max-loss, within eps."""
        b, n = form.x.shape
        drawn = noise_of(seeds_of(task.images, task.seed), R * b, form.x).view(b, R, n).transpose(0, 1)
        starts = torch.clamp(form.x + self._noise(task) * drawn, form.lower, form.upper)
        if isinstance(task.problem, MaxLoss):
            starts = torch.stack([into_ball(form, points) for points in starts])
        return starts

    # ---- the solver -------------------------------------------------------------------------------

    def _formulation(self, task: Task, size: Tensor) -> Formulation:
        how = Techniques(self.fold, self.reformulate, self.rescale, self.clip)
        return NativeFormulation(task, how, self.loss, size) if self.native else Formulation(task, how, self.loss)

    def _minimize(self, form: Formulation, start: Tensor, evaluations: int, restarts: Restarts | None) -> Solution:
        return minimize(
            form.objective,
            start,
            form.constraints(),
            bounds=form.bounds,
            tol=self.tol,
            feasibility=self.feasibility,
            max_iterations=self.iterations or (400 if isinstance(form.task.problem, MaxLoss) else 4000),
            budget=evaluations,
            slots=form.task.model.batch,
            memory=NATIVE_PAIRS if self.native else pairs(start.shape[1]),
            test=self.test,
            restarts=restarts,
        )

    def _best(self, form: Formulation, solution: Solution) -> Tensor:
        everyone = torch.arange(form.x.shape[0], device=form.x.device)
        found = [torch.clamp(form.points(solution.x, everyone), form.lower, form.upper)]
        if self.remember:
            found.append(form.seen.points)
        return best_of(form, found)


def ending(solution: Solution) -> SolverEnd:
    """How the solver ended, for the evaluation."""
    return SolverEnd(list(solution.status), solution.evidence.stationarity, solution.evidence.violation)


def pairs(variables: int) -> int:
    """How many BFGS pairs a row of so many variables keeps in the published form."""
    return PAIRS if variables <= PAIRS_UP_TO else FEW_PAIRS


def samples_at_once(task: Task, R: int, native: bool = False) -> int:
    """How many samples' states fit, with as many slacks as entries."""
    m = 2 * task.images[0].numel()
    row = m * task.images.element_size() * (2 * (NATIVE_PAIRS if native else pairs(m)) + VECTORS)
    return max(1, int(STATES / (R * row)))


def parts(task: Task, samples: int) -> Iterator[Task]:
    """The task, some samples at a time."""
    for start in range(0, task.images.shape[0], samples):
        yield task.select(torch.arange(start, min(start + samples, task.images.shape[0])))


def repairs(task: Task) -> int:
    """Forward passes kept for the last look at the candidates."""
    return CANDIDATES * (1 if isinstance(task.problem, MaxLoss) else len(FURTHER))


def best_of(form: Formulation, candidates: list[Tensor]) -> Tensor:
    """The nearest of the candidates (b, n) that are misclassified; if none is, the first.

    Of a question for the largest loss: the one with the largest loss within eps.
    """
    problem = form.task.problem
    max_loss = isinstance(problem, MaxLoss)
    candidates = [into_ball(form, candidate) for candidate in candidates] if max_loss else candidates
    best, least = candidates[0], torch.full_like(form.x[:, 0], torch.inf)
    everyone = torch.arange(best.shape[0], device=best.device)
    for candidate in candidates:
        if isinstance(problem, MaxLoss) and not problem.clip:
            found, cost = candidate, -form.loss_at(candidate)
        else:
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


def drawn_in(form: Formulation, points: Tensor) -> Tensor:
    """Points within eps: the nearest ones to x' if the metric knows them, else those on the way to the image."""
    metric = form.metric
    if isinstance(metric, HasProjection):
        everyone = torch.arange(len(points), device=points.device)
        points = metric.project(points, form.x, form.eps(everyone), form.lower, form.upper)
    return into_ball(form, points)


def into_ball(form: Formulation, points: Tensor) -> Tensor:
    """The last point on the way from the image to x' that is within eps: x' itself if it is."""
    assert form.task.eps is not None
    images, x = form.task.images, points.view_as(form.task.images)
    drawn = shrink_to_eps(
        form.measure.distance64, images, x, form.task.eps.to(x.device), (form.task.lower, form.task.upper)
    )
    return drawn.flatten(1)
