"""``evaluate``: schedule, portfolio, budget; every answer verified before it counts."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pwcf.attacks import Attack, Task, as_attack
from pwcf.evaluation.run import Run
from pwcf.losses import margin
from pwcf.metrics import within
from pwcf.models import ENOUGH, Classifier, Counted, check_inputs, warnings_about
from pwcf.problems import MaxLoss, MinRadius, Problem, is_defined, is_surely_wrong, is_wrong
from pwcf.solvers import Advance, Status, progress_bar
from pwcf.verify import (
    HALVINGS,
    OUTWARDS_PASSES,
    AnswerEvidence,
    evidence_passes,
    gather_evidence,
    grid_passes,
    onto_grid,
    outwards,
    recheck,
    to_boundary,
)

# AttackBench's. In max-loss few samples use it up: most are broken, or given up, early.
BUDGET = 2000
# Below this there is nothing left for an attack after the checks.
LEAST_BUDGET = 50
# Passes that the look at the model and its inputs may take from a sample. Only the first ones are looked at, but what
# is left for the attack must not depend on a sample's place.
CHECKS = 6
# Linear models the evidence is taken from; one where passes are dear.
MODELS, MODELS_SMALL, SMALL_BUDGET = 4, 1, 500
# Samples that are worked on together: few enough for progress to be seen, many enough to fill a batch of rows; more in
# max-loss, where most leave early.
GROUP, GROUP_MAX_LOSS, GROUP_ENTRIES = 64, 256, 1_000_000
# An attack needs this many passes to do anything.
LEAST_SHARE = 25


def evaluate(
    model: Callable[[Tensor], Tensor] | Classifier,
    images: Tensor,
    labels: Tensor,
    problem: Problem,
    *,
    attacks: Sequence[str | Attack] = ("pwcf",),
    budget: int = BUDGET,
    seed: int = 0,
    bounds: tuple[float, float] | None = None,
    mask: Tensor | None = None,
    eight_bit: bool = False,
    batch: int = 256,
    tol: float = 1e-2,
    progress: bool = False,
) -> Run:
    """Answer a question about every sample, with all attacks, and verify the best answer of each.

    Args:
        model: a ``Classifier``, or any callable from inputs to logits.
        images: (n, ...) within the bounds.
        labels: (n,) true classes; with a targeted problem the wanted ones.
        problem: ``MinRadius(metric)`` or ``MaxLoss(metric, eps)``.
        attacks: names or attacks; the best point over all of them counts. They share the budget.
        budget: forward + backward passes per sample for everything together, checks and evidence included. Default
            2000, AttackBench's, of which max-loss uses little.
        seed: with it a sample has the same answer whatever else is evaluated beside it.
        bounds: of the inputs, for a model that is not a ``Classifier`` yet; default (0, 1).
        mask: (n, ...), or one for all, bool: only these entries may change.
        eight_bit: answers are on the grid of 8-bit images and verified there.
        batch: rows per call of the model; halved when memory runs out.
        tol: share of the radius that may be left to gain for a sample to say "converged".
        progress: show a progress bar (needs tqdm).
    """
    started = time.perf_counter()
    classifier = _classifier(model, bounds)
    chosen = [as_attack(attack) for attack in ([attacks] if isinstance(attacks, str) else attacks)]
    if not chosen:
        raise ValueError("attacks: expected at least one, found none")
    if not isinstance(problem, (MinRadius, MaxLoss)):
        raise TypeError(f"problem: expected MinRadius(...) or MaxLoss(...), found {type(problem).__name__}")
    _check_count("budget", budget, LEAST_BUDGET)
    _check_count("batch", batch, 1)
    if isinstance(seed, bool) or not isinstance(seed, int) or not -(2**63) <= seed < 2**63:
        raise ValueError(f"seed: expected an integer of 64 bits, found {seed!r}")
    if not isinstance(tol, (int, float)) or not tol > 0:
        raise ValueError(f"tol: expected a number > 0, found {tol!r}")
    if isinstance(labels, Tensor) and isinstance(images, Tensor) and not labels.is_floating_point():
        labels = labels.to(images.device) if labels.dtype == torch.bool else labels.to(images.device, torch.int64)
    check_inputs(classifier, images, labels)
    images = images.detach()
    box = _box(classifier, images, mask)
    counted = Counted(classifier, images.shape[0], batch)
    evaluation = _Evaluation(counted, problem, images, labels, box, chosen, budget, seed, eight_bit, tol)
    looked_at = min(ENOUGH, batch)
    remarks = warnings_about(classifier, images, labels, looked_at)
    for remark in remarks:
        warnings.warn(remark, stacklevel=2)
    _count_checks(counted, images.shape[0], looked_at)
    with classifier.in_use(), progress_bar(progress, str(problem), images.shape[0], "sample") as advance:
        evaluation.run(advance)
    return evaluation.result(time.perf_counter() - started, remarks)


def _count_checks(counted: Counted, n: int, looked_at: int) -> None:
    """What check_inputs and warnings_about have spent: all of it on the first samples."""
    if n:
        counted.passes.add(torch.arange(min(n, looked_at)), forward=2, backward=1)
        counted.passes.add(torch.arange(1), forward=2)


def _classifier(model: Callable[[Tensor], Tensor] | Classifier, bounds: tuple[float, float] | None) -> Classifier:
    if not isinstance(model, Classifier):
        return Classifier(model) if bounds is None else Classifier(model, bounds)
    if bounds is not None:
        raise ValueError(f"bounds: the Classifier has its own, {model.bounds}; found {bounds!r} beside them")
    return model


def _check_count(name: str, value: int, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name}: expected an integer >= {least}, found {value!r}")


def _points_of(attack: Attack, task: Task) -> Tensor:
    """The attack's points, if they are points."""
    shape = task.images.shape
    points = attack(task)
    if not isinstance(points, Tensor) or points.shape != shape:
        found = tuple(points.shape) if isinstance(points, Tensor) else type(points).__name__
        raise ValueError(f"attack {attack.name}: expected points of shape {tuple(shape)}, found {found}")
    return points


def _box(classifier: Classifier, images: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """(n, ...) least and largest value of every entry."""
    lower, upper = (torch.full_like(images, side) for side in classifier.bounds)
    if mask is None:
        return lower, upper
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        found = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise TypeError(f"mask: expected a bool tensor, True where an entry may change, found {found}")
    try:
        free = mask.to(images.device).expand_as(images)
    except RuntimeError:
        raise ValueError(
            f"mask: expected a shape that fits the images {tuple(images.shape)}, found {tuple(mask.shape)}"
        ) from None
    return torch.where(free, lower, images), torch.where(free, upper, images)


@dataclass
class _Evaluation:
    """The work of one call of ``evaluate``, sample group by sample group."""

    model: Counted
    problem: Problem
    images: Tensor
    labels: Tensor
    box: tuple[Tensor, Tensor]
    attacks: list[Attack]
    budget: int
    seed: int
    eight_bit: bool
    tol: float

    def __post_init__(self) -> None:
        n = self.images.shape[0]
        self.radius = torch.full((n,), torch.inf, dtype=torch.float64)
        self.adversarial = torch.zeros(n, dtype=torch.bool)
        self.x_adv = self.images.detach().clone()
        self.status = [Status.NOT_FOUND] * n
        self.attack = [""] * n
        self.stationarity, self.violation, self.shrink, self.excess = (
            torch.full((n,), torch.nan, dtype=torch.float64) for _ in range(4)
        )
        self.models = MODELS if self.budget >= SMALL_BUDGET else MODELS_SMALL
        self.eps = self.problem.radii(n) if isinstance(self.problem, MaxLoss) else None
        if self.eps is not None and self.eight_bit:
            # Values k / 255 are rounded to the dtype: two of them are a level apart up to this.
            self.eps = self.eps + 2 * torch.finfo(self.images.dtype).eps * max(map(abs, self.model.bounds))
        # Before and after the bisection points are looked at and, if need be, moved out; then they are rechecked.
        # Max-loss does without, but unless passes are dear its search is to be that of min-radius.
        checks = HALVINGS + 2 * OUTWARDS_PASSES if self.eps is None or self.budget >= SMALL_BUDGET else 0
        checks += grid_passes(self.eps is not None) if self.eight_bit else 0
        left = self.budget - CHECKS - evidence_passes(self.models) - len(self.attacks) * (checks + 1)
        self.share = left // len(self.attacks)
        if self.share < LEAST_SHARE:
            least = self.budget + (LEAST_SHARE - self.share) * len(self.attacks)
            raise ValueError(f"budget: expected at least {least} for these attacks and options, found {self.budget}")

    def run(self, advance: Advance | None) -> None:
        """All samples; a progress bar hears of every group."""
        n, entries = self.images.shape[0], max(self.images[0].numel(), 1) if len(self.images) else 1
        group = max(1, min(GROUP if self.eps is None else GROUP_MAX_LOSS, GROUP_ENTRIES // entries))
        for start in range(0, n, group):
            samples = torch.arange(start, min(start + group, n))
            todo = self._clean(samples)
            if len(todo):
                self._attack(todo)
            if advance is not None:
                passes = self.model.passes.total[samples].double().mean().item()
                advance(len(samples), found=int(self.adversarial.sum()), passes=f"{passes:.0f}")

    def _clean(self, samples: Tensor) -> Tensor:
        """Settle what is wrong as it is; the samples that are left."""
        here = samples.to(self.images.device)
        images, labels = self.images[here], self.labels[here]
        logits = self.model.logits(images, samples)
        finite = is_defined(logits).cpu()
        # As anyone would count accuracy: where logits tie, the first class is the model's.
        wrong = ((logits.argmax(1) == labels) == self.problem.targeted).cpu() & finite
        margins = self._shortfall(logits, labels)
        for i, sample in enumerate(samples.tolist()):
            self.violation[sample] = margins[i]
            if not finite[i]:
                self.status[sample] = Status.NONFINITE
            elif wrong[i]:
                self.status[sample], self.radius[sample] = Status.ALREADY_MISCLASSIFIED, 0.0
                self.adversarial[sample], self.attack[sample] = True, "clean"
                for evidence in (self.stationarity, self.shrink, self.violation, self.excess):
                    evidence[sample] = 0.0
        return samples[finite & ~wrong]

    def _attack(self, samples: Tensor) -> None:
        here = samples.to(self.images.device)
        images, labels = self.images[here], self.labels[here]
        box = self.box[0][here], self.box[1][here]
        best = torch.full((len(samples),), torch.inf, dtype=torch.float64)
        points = images.clone()
        found = torch.zeros(len(samples), dtype=torch.bool)
        for attack in self.attacks:
            eps = None if self.eps is None else self.eps[samples].to(images.device)
            # Copies: an attack may write into what it is given.
            x, y, numbers, lower, upper = (t.clone() for t in (images, labels, here, *box))
            limit = None if eps is None else eps.clone()
            task = Task(self.model, self.problem, x, y, numbers, lower, upper, limit, self.share, self.seed)
            answer = self._repaired(_points_of(attack, task), images, labels, samples, box)
            checked = recheck(self.model, self.problem, images, labels, answer, samples, eps)
            distance = torch.where(checked.adversarial, checked.distance, torch.inf).cpu()
            better = distance < best
            best = torch.where(better, distance, best)
            points[better.to(points.device)] = answer[better.to(points.device)]
            found |= better
            for sample in samples[better].tolist():
                self.attack[sample] = attack.name
        self.radius[samples], self.adversarial[samples] = best, found
        self.x_adv[here] = points
        self._conclude(samples[found], points[found.to(points.device)], best[found])

    def _repaired(
        self, points: Tensor, images: Tensor, labels: Tensor, samples: Tensor, box: tuple[Tensor, Tensor]
    ) -> Tensor:
        """An attack's points made as good as a few forward passes can: inside the box, at the boundary, on the grid."""
        points = torch.clamp(points.detach().to(images.dtype), *box)
        eps = None if self.eps is None else self.eps[samples].to(images.device)

        def wrong(x: Tensor) -> Tensor:
            return is_surely_wrong(self.model.logits(x, samples), labels, self.problem.targeted)

        def wrong_alone(x: Tensor) -> Tensor:
            return is_wrong(self.model.logits(x, samples, alone=True), labels, self.problem.targeted)

        if eps is not None:
            points = within(self.problem.metric, images, points, eps, box)
        else:
            points, hit = outwards(wrong, images, points, box)
            points = to_boundary(wrong, images, points, hit)
            points, _ = outwards(wrong_alone, images, points, box)
        if self.eight_bit:
            points = onto_grid(wrong_alone, self.problem.metric, images, points, eps, self.model.bounds)
        return points

    def _conclude(self, samples: Tensor, points: Tensor, radius: Tensor) -> None:
        """Evidence and status of what was found."""
        here = samples.to(self.images.device)
        images, labels = self.images[here], self.labels[here]
        box = self.box[0][here], self.box[1][here]
        evidence = gather_evidence(self.model, self.problem, images, labels, points, radius, box, samples, self.models)
        self.stationarity[samples], self.shrink[samples] = evidence.stationarity, evidence.shrink
        self.violation[samples], self.excess[samples] = evidence.violation, evidence.excess
        for i, sample in enumerate(samples.tolist()):
            if isinstance(self.problem, MaxLoss):
                self.status[sample] = Status.FOUND
            else:
                sure = float(evidence.excess[i]) <= self.tol
                self.status[sample] = Status.CONVERGED if sure else Status.BUDGET

    def _shortfall(self, logits: Tensor, labels: Tensor) -> Tensor:
        """(n,) by how much the logits are short of what is wanted."""
        loss = margin(logits, labels)
        return (loss if self.problem.targeted else -loss).clamp(min=0).double().cpu()

    def result(self, seconds: float, remarks: list[str]) -> Run:
        evidence = AnswerEvidence(self.stationarity, self.violation, self.shrink, self.excess)
        return Run(
            self.problem, self.radius, self.adversarial, self.x_adv, self.status, evidence, self.model.passes,
            self.attack, seconds, remarks,
        )  # fmt: skip
