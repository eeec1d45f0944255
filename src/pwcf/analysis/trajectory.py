"""Searches: every point an attack asks the model about, once more for recorded runs, and when and why they end.

Attacks see the model through one object that counts their passes. The one here also takes notes, so no attack has to
be told to keep a history: ours, ports and other people's libraries are watched alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pwcf.analysis.masks import attacked_in, needs_recording
from pwcf.attacks import AttackLike, Task, as_attack
from pwcf.attacks.registry import BUDGET
from pwcf.evaluation import Run, default_batch
from pwcf.losses import as_loss
from pwcf.metrics import distance64
from pwcf.models import Classifier, CountedClassifier, check_inputs
from pwcf.problems import MaxLoss, Problem, is_defined, is_wrong
from pwcf.runs import RecordedRun, RunError, RunLike, recorded
from pwcf.runs.originals import original_images
from pwcf.runs.resolve import open_model, resolve
from pwcf.runs.trust import check_trusted

# Distances at eps are rounded; so much more is still within.
SLACK = 1e-6


@dataclass(frozen=True)
class Trace:
    """One sample's k points in the order they were asked about."""

    passes: Tensor
    """(k,) int64 forward + backward passes the sample had taken up to the point"""
    distance: Tensor
    """(k,) float64"""
    loss: Tensor
    """(k,) float64 of the question, unclipped; for min-radius the margin, positive where misclassified"""
    outside: Tensor
    """(k,) float64 how far the point is outside the box, in its worst entry"""
    wrong: Tensor
    """(k,) bool: misclassified"""
    eps: float | None
    """of max-loss"""

    @property
    def feasible(self) -> Tensor:
        """(k,) bool: an answer could be given with it: in the box, and misclassified or, for max-loss, within eps."""
        inside = self.outside <= SLACK
        return inside & (self.wrong if self.eps is None else self.distance <= self.eps * (1 + SLACK))

    @property
    def violation(self) -> Tensor:
        """(k,) by how much it breaks the worst of its constraints; for min-radius in logits, else in distance."""
        short = (-self.loss).clamp(min=0) if self.eps is None else (self.distance - self.eps).clamp(min=0)
        return torch.maximum(short, self.outside)

    @property
    def objective(self) -> Tensor:
        """(k,) what the question is about: the distance, or the loss"""
        return self.distance if self.eps is None else self.loss

    @property
    def best(self) -> Tensor:
        """(k,) of the feasible points so far; inf (max-loss: -inf) while there is none"""
        worst = torch.inf if self.eps is None else -torch.inf
        values = torch.where(self.feasible, self.objective, worst)
        return values.cummin(0).values if self.eps is None else values.cummax(0).values

    @property
    def best_at(self) -> int | None:
        """After how many passes the best point was found; None where none was."""
        if not bool(self.feasible.any()):
            return None
        best = self.best
        return int(self.passes[int((best == best[-1]).nonzero()[0])])


def trace(
    model: Callable[[Tensor], Tensor] | Classifier,
    images: Tensor,
    labels: Tensor,
    problem: Problem,
    attack: AttackLike = "lmn",
    *,
    budget: int = BUDGET,
    seed: int = 0,
) -> list[Trace]:
    """Let an attack search and note every point it asks the model about.

    The trace of a sample that the model misclassifies as it is is empty.

    Args:
        model, images, labels, problem, attack, seed: as for ``evaluate``; images are (n, ...), labels (n,).
        budget: forward + backward passes per sample; here all of it is the attack's.

    Returns:
        A trace for each of the n samples, in their order.
    """
    if isinstance(budget, bool) or not isinstance(budget, int) or budget < 1:
        raise ValueError(f"budget: expected an integer > 0, found {budget!r}")
    classifier = model if isinstance(model, Classifier) else Classifier(model)
    check_inputs(classifier, images, labels)
    problem, images = problem.bind(classifier), images.detach()
    labels = labels.to(images.device, torch.int64)
    watched = _Watched(classifier, images, labels, problem)
    with classifier.in_use(), torch.no_grad():
        clean = torch.cat([classifier(x) for x in torch.split(images, watched.batch)])
    # As evaluate tells who is to be attacked: where logits tie the first class is the model's, NaN is no answer.
    wrong = (clean.argmax(1) == labels) == problem.targeted
    rows = (~wrong & is_defined(clean)).nonzero().squeeze(1)
    if len(rows):
        lower, upper = (torch.full_like(images[rows], side) for side in classifier.bounds)
        eps = problem.radii(len(images))[rows.cpu()].to(images.device) if isinstance(problem, MaxLoss) else None
        task = Task(
            watched, problem, images[rows].clone(), labels[rows].clone(), rows, lower, upper, eps, budget, seed
        )  # fmt: skip
        with classifier.in_use():
            as_attack(attack)(task)
    return watched.traces()


class _Watched(CountedClassifier):
    """Counts, and notes what it is asked."""

    def __init__(self, classifier: Classifier, images: Tensor, labels: Tensor, problem: Problem) -> None:
        super().__init__(classifier, len(images), default_batch(images))
        self._images, self._labels, self._problem = images, labels, problem
        self._loss = as_loss(problem.loss if isinstance(problem, MaxLoss) else "margin")
        self._notes: list[tuple[Tensor, ...]] = []

    def logits(self, x: Tensor, samples: Tensor, alone: bool = False) -> Tensor:
        logits = super().logits(x, samples, alone)
        self._note(x, logits, samples)
        return logits

    def value_and_gradient(
        self, x: Tensor, samples: Tensor, function: Callable[[Tensor, slice], Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        logits, value, gradient = super().value_and_gradient(x, samples, function)
        self._note(x, logits, samples)
        return logits, value, gradient

    def differentiable(self, x: Tensor, samples: Tensor) -> Tensor:
        logits = super().differentiable(x, samples)
        self._note(x, logits, samples)
        return logits

    @torch.no_grad()
    def _note(self, x: Tensor, logits: Tensor, samples: Tensor) -> None:
        if not len(samples):
            return
        x, logits = x.detach(), logits.detach()
        here = samples.to(x.device)
        labels, targeted = self._labels[here], self._problem.targeted
        loss = -self._loss(logits, labels, None) if targeted else self._loss(logits, labels, None)
        lower, upper = self.bounds
        entries = x.flatten(1)
        outside = torch.maximum(lower - entries, entries - upper).amax(1).clamp(min=0)
        distance = distance64(self._problem.metric, self._images[here], x)
        wrong = is_wrong(logits, labels, targeted)
        columns = (samples, self.passes.total[samples.cpu()], distance, loss, outside, wrong)
        self._notes.append(tuple(column.cpu() for column in columns))

    def traces(self) -> list[Trace]:
        n = len(self._images)
        kinds = (torch.int64, torch.int64, torch.float64, torch.float64, torch.float64, torch.bool)
        owner, passes, distance, loss, outside, wrong = (
            torch.cat([torch.zeros(0, dtype=kind), *(note[i].to(kind) for note in self._notes)])
            for i, kind in enumerate(kinds)
        )
        eps = self._problem.radii(n).tolist() if isinstance(self._problem, MaxLoss) else [None] * n
        found = []
        for sample in range(n):
            mine = owner == sample
            found.append(Trace(passes[mine], distance[mine], loss[mine], outside[mine], wrong[mine], eps[sample]))
        return found


def retrace(run: RunLike, samples: Sequence[int], *, trust: bool = False) -> dict[str, list[Trace]]:
    """By attack, a trace for each of the samples, by their places in the run.

    Each attack searches by itself with an equal share of the budget, all of it for the search: it is not told what
    others found, and nothing is kept for checks, evidence or the grid of 8-bit images. Radii may differ from the run's.

    Args:
        run: in memory, which has its model; loaded, or the path of its folder, which name it.
        samples: places in the run.
        trust: whether a model may be opened that only a folder names.
    """
    run = recorded(run)
    asked, rows = run.asked, torch.as_tensor(list(samples), dtype=torch.int64)
    if asked is not None and asked.classifier is not None:
        some = asked.select(rows)
        return {
            attack.name: trace(
                asked.classifier,
                some.images,
                some.labels,
                run.problem,
                attack,
                budget=budget // asked.classifier.samples,
                seed=asked.seed,
            )
            for attack, budget in zip(asked.attacks, asked.budgets, strict=True)
        }
    run = needs_recording(run, "retrace")
    if run.header.saved:
        raise RunError(
            f"{run.folder or 'run'}: was saved from Python (Run.save): its model is not there to search again"
        )
    settings = run.header.settings
    if not trust:
        check_trusted(settings, settings.out, (), "give trust=True (--trust)")
    model = open_model(settings)
    chosen = run.select(rows)
    device = settings.devices[0]
    images = original_images(chosen, settings.data).to(device)
    labels = torch.from_numpy(chosen.rows["label"].to_numpy().copy()).to(device)
    plan = resolve(settings, model.classifier, images)
    return {
        attack.name: trace(model.classifier, images, labels, plan.problem, attack, budget=budget, seed=settings.seed)
        for attack, budget in zip(plan.attacks, plan.budgets, strict=True)
    }


@dataclass(frozen=True)
class Termination:
    """When and how searches ended, over the m samples that were attacked."""

    passes: Tensor
    """(m,) int64 forward + backward, of all attacks, checks and evidence together"""
    seconds: Tensor
    """(m,) float64. Samples that were worked on together share their time: run with --chunk 1 for each one's own."""
    status: dict[str, int]
    """how many ended in which way"""
    budget: int | None
    """how many passes a sample could have had; None for runs that were not recorded"""


def termination_of(run: Run) -> Termination:
    """When and how the searches of a run ended.

    Args:
        run: of either question.

    Returns:
        Passes (m,) and seconds (m,) of the m attacked samples, how many ended in which way, and the budget.
    """
    attacked = attacked_in(run)
    places = attacked.nonzero().squeeze(1).tolist()
    status = Counter(run.status[i].value for i in places)
    n = max(len(run.status), 1)
    if isinstance(run, RecordedRun):
        seconds = torch.from_numpy(run.rows["seconds"].to_numpy().copy()).double()
    else:
        seconds = torch.full((len(run.status),), run.seconds / n, dtype=torch.float64)
    budget = run.header.budget if isinstance(run, RecordedRun) else None
    return Termination(run.passes.total[attacked], seconds[attacked], dict(status.most_common()), budget)
