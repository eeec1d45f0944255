"""The work of one evaluation: every attack on what is still open, every point verified, the best ones kept."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from pwcf._common import statistics
from pwcf._common.progress import Advance, UnderWay
from pwcf._common.rows import per_row
from pwcf._common.status import Status
from pwcf.attacks import Answer, Attack, Diagnostics, Stop, Task
from pwcf.attacks.agreement import Agreement, Searches, agreement_of
from pwcf.evaluation.diagnosis import diagnose
from pwcf.evaluation.progress import Callback, EvaluationProgress
from pwcf.evaluation.run import Asked, Contribution, Run
from pwcf.losses import as_loss, margin
from pwcf.metrics import ReferenceDistance, shrink_to_eps
from pwcf.models import CountedClassifier
from pwcf.problems import MaxLoss, Problem, is_defined, is_surely_wrong, is_wrong
from pwcf.verify import (
    HALVINGS,
    OUTWARDS_PASSES,
    AnswerEvidence,
    Checked,
    evidence_passes,
    gather_evidence,
    grid_passes,
    onto_grid,
    outwards,
    recheck,
    to_boundary,
)

# Passes that the look at the model and its inputs may take from a sample. Only the first ones are looked at, but what
# is left for the attack must not depend on a sample's place.
CHECKS = 6
# Linear models the evidence is taken from; one where passes are dear.
MODELS, MODELS_SMALL, SMALL_BUDGET = 4, 1, 500
# Samples that are worked on together: few enough for progress to be seen, many enough to fill a batch of rows; more in
# max-loss, where most leave early.
GROUP, GROUP_MAX_LOSS, GROUP_ENTRIES = 64, 256, 1_000_000
# Of so much of the budget is said that it was used up: what is left may be too little for another search.
USED_UP = 0.8
# Of a random model (``Classifier(model, samples=...)``) points have to be misclassified in so many looks, each a mean
# over all its calls; those of min-radius, which lie where chance decides, move out by these factors until they are.
LOOKS = 5
AWAY_FROM_CHANCE = (1.01, 1.03, 1.1, 1.3, 2.0)
# An attack needs this many passes to do anything.
LEAST_SHARE = 25


class Contradicted(NamedTuple):
    """A point that the search saw misclassified, and that the model answered otherwise about when it was verified."""

    point: Tensor
    """(...)"""
    distance: float
    logits: Tensor
    """(classes,) what the model said when the point was verified"""


class AttackRecord:
    """What one attack has done by itself so far, of n samples."""

    def __init__(self, attack: Attack, n: int) -> None:
        self.attack = attack
        self.radius = torch.full((n,), torch.nan, dtype=torch.float64)
        self.passes = torch.zeros(n, dtype=torch.int64)
        self.seconds = 0.0
        self.still_helping, self.unbracketed = torch.zeros(n, dtype=torch.bool), torch.zeros(n, dtype=torch.bool)
        self.searches = Searches(torch.full((n, 0), torch.nan, dtype=torch.float64), torch.zeros(n, 0).long())
        self.linear = torch.zeros(n, dtype=torch.bool)
        self.nearest = torch.full((n,), torch.inf, dtype=torch.float64)
        self.ended: list[Status | None] = [None] * n
        self.stationarity, self.violation = (torch.full((n,), torch.nan, dtype=torch.float64) for _ in range(2))

    def add(self, samples: Tensor, distance: Tensor, passes: Tensor, seconds: float, diagnostics: Diagnostics) -> None:
        """Some samples (m,): distances and passes (m,), and what the attack has told of them."""
        self.radius[samples] = distance
        self.passes[samples] += passes
        self.seconds += seconds
        if diagnostics.still_helping is not None:
            self.still_helping[samples] = diagnostics.still_helping.cpu()
        if diagnostics.unbracketed is not None:
            self.unbracketed[samples] = diagnostics.unbracketed.cpu()
        if diagnostics.linear is not None:
            self.linear[samples] = diagnostics.linear.cpu()
        if diagnostics.nearest is not None:
            self.nearest[samples] = diagnostics.nearest.double().cpu()
        if diagnostics.searches is not None:
            self._keep(samples, diagnostics.searches)
        if diagnostics.solver is not None:
            self.stationarity[samples] = diagnostics.solver.stationarity.double().cpu()
            self.violation[samples] = diagnostics.solver.violation.double().cpu()
            for sample, status in zip(samples.tolist(), diagnostics.solver.status, strict=True):
                self.ended[sample] = status

    def _keep(self, samples: Tensor, searches: Searches) -> None:
        """Some samples (m,) have k searches; others may have fewer."""
        count = searches.ends.shape[1]
        more = max(0, count - self.searches.ends.shape[1])
        ends = torch.nn.functional.pad(self.searches.ends, (0, more), value=torch.nan)
        began = torch.nn.functional.pad(self.searches.began, (0, more))
        ends[samples, :count], began[samples, :count] = searches.ends.double().cpu(), searches.began.cpu()
        self.searches = Searches(ends, began)

    def contribution(self, each: int = 1) -> Contribution:
        """``each``: passes of a call."""
        attack = self.attack
        return Contribution(attack.name, attack.about, attack.black_box, self.radius, self.passes * each, self.seconds)

    def diagnostics(self) -> Diagnostics:
        return Diagnostics(self.still_helping, self.unbracketed)


@dataclass
class Evaluator:
    """One question about all samples, put to all attacks, sample group by sample group."""

    model: CountedClassifier
    problem: Problem
    images: Tensor
    labels: Tensor
    box: tuple[Tensor, Tensor]
    attacks: list[Attack]
    budgets: Sequence[int]
    """of each attack, checks included: calls of the classifier, which are ``samples`` passes each"""
    seed: int
    eight_bit: bool
    tol: float
    stop: Stop
    failures: list[str] = field(default_factory=list)
    """sentences about attacks that raised while others went on"""

    def __post_init__(self) -> None:
        n = self.images.shape[0]
        self.radius = torch.full((n,), torch.inf, dtype=torch.float64)
        self.adversarial = torch.zeros(n, dtype=torch.bool)
        self.x_adv = self.images.detach().clone()
        self.status = [Status.NOT_FOUND] * n
        self.attack = [""] * n
        self.nearest = torch.full((n,), torch.inf, dtype=torch.float64)
        self.seen_loss = torch.full((n,), torch.nan, dtype=torch.float64)
        self.gain, self.stationarity, self.violation = (
            torch.full((n,), torch.nan, dtype=torch.float64) for _ in range(3)
        )
        self.agreement, self.searches = (torch.zeros(n, dtype=torch.int64) for _ in range(2))
        self.contradicted: dict[int, Contradicted] = {}
        """by sample: the nearest one of each, of samples of which no point was verified, too"""
        self.largest = isinstance(self.problem, MaxLoss) and not self.problem.clip
        """whether the question is the largest loss within eps"""
        # As many columns as there are classes, from the first look at the model.
        self.clean_logits, self.logits = torch.zeros(n, 0), torch.zeros(n, 0)
        self.finished = torch.zeros(n, dtype=torch.bool)
        self.records = {attack.name: AttackRecord(attack, n) for attack in self.attacks}
        self.budget = sum(self.budgets)
        self.models = MODELS if self.budget >= SMALL_BUDGET * len(self.attacks) else MODELS_SMALL
        self.eps = self.problem.radii(n) if isinstance(self.problem, MaxLoss) else None
        if self.eps is not None and self.eight_bit:
            # Values k / 255 are rounded to the dtype: two of them are a level apart up to this.
            self.eps = self.eps + 2 * torch.finfo(self.images.dtype).eps * max(map(abs, self.model.bounds))
        self.shares = dict(zip(self.records, self._shares(), strict=True))

    def _shares(self) -> list[int]:
        """Passes for each attack."""
        # Before and after the bisection points are looked at and, if need be, moved out; then they are rechecked.
        # Max-loss does without, but unless passes are dear its search is to be that of min-radius.
        count = len(self.attacks)
        checks = HALVINGS + 2 * OUTWARDS_PASSES if self.eps is None or self.budget >= SMALL_BUDGET * count else 0
        checks += grid_passes(self.eps is not None) if self.eight_bit else 0
        checks += self.looks - 1
        if self._is_random and self.eps is None:
            checks += LOOKS * len(AWAY_FROM_CHANCE)
        common = CHECKS + evidence_passes(self.models)
        # The first of several has what it has alone, so that others can only add to what it finds.
        shares = [budget - common - checks - 1 for budget in self.budgets]
        if min(shares) < LEAST_SHARE:
            least = self.budget + (LEAST_SHARE - min(shares)) * count
            each = self.model.classifier.samples
            raise ValueError(
                f"budget: expected at least {least * each} for these attacks and options, found {self.budget * each}"
            )
        return shares

    @property
    def _is_random(self) -> bool:
        return self.model.classifier.samples > 1

    @property
    def looks(self) -> int:
        return LOOKS if self._is_random else 1

    def run(self, advance: Advance | None, callback: Callback | None = None) -> None:
        """All samples; a progress bar and a callback hear of every group."""
        began = time.perf_counter()
        n, entries = self.images.shape[0], max(self.images[0].numel(), 1) if len(self.images) else 1
        group = max(1, min(GROUP if self.eps is None else GROUP_MAX_LOSS, GROUP_ENTRIES // entries))
        for start in range(0, n, group):
            samples = torch.arange(start, min(start + group, n))
            todo = self._clean(samples)
            self.finished[samples] = True
            self.finished[todo] = False
            if len(todo):
                self._attack(todo)
            self.finished[todo] = True
            if advance is not None:
                passes = self.model.passes.total[samples].double().mean().item() * self.model.classifier.samples
                advance(len(samples), found=int(self.adversarial.sum()), passes=f"{passes:.0f}")
            if callback is not None:
                callback(self._progress(start + len(samples), time.perf_counter() - began))

    def _progress(self, done: int, seconds: float) -> EvaluationProgress:
        """The statistics of the first samples, which are done."""
        status = [each.value for each in self.status[:done]]
        adversarial, radius = self.adversarial[:done].numpy(), self.radius[:done].numpy()
        passes = self.model.passes.times(self.model.classifier.samples).total[:done].numpy()
        return EvaluationProgress(
            len(self.status),
            done,
            statistics.clean_accuracy(status),
            int(statistics.attacked(status).sum()),
            int(statistics.found(status, adversarial).sum()),
            int(statistics.converged(status).sum()),
            statistics.mean_radius(status, adversarial, radius) if self.eps is None else math.nan,
            math.nan if self.eps is None else statistics.robust_accuracy(status, adversarial),
            statistics.mean_passes(status, passes),
            seconds,
        )

    def under_way(self) -> UnderWay:
        """How far the work is; asked from other threads while it goes on."""
        converged = self.model.converged
        # Of several attacks the others go on.
        finished = self.finished | converged if len(self.attacks) == 1 else self.finished
        return UnderWay(self.model.passes.total.tolist(), finished.tolist(), int(converged.sum()), self.budget)

    def _clean(self, samples: Tensor) -> Tensor:
        """Settle what is wrong as it is; the samples that are left."""
        here = samples.to(self.images.device)
        images, labels = self.images[here], self.labels[here]
        logits = self.model.logits(images, samples)
        if self.logits.shape[1] == 0:
            shape = (len(self.images), logits.shape[1])
            self.clean_logits, self.logits = (torch.full(shape, torch.nan, dtype=logits.dtype) for _ in range(2))
        self.clean_logits[samples] = self.logits[samples] = logits.detach().cpu()
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
                for evidence in (self.gain, self.stationarity, self.violation):
                    evidence[sample] = 0.0
        return samples[finite & ~wrong]

    def _attack(self, samples: Tensor) -> None:
        """All attacks in turn; in max-loss each gets what those before it have not broken."""
        answered, failed = False, None
        for attack in self.attacks:
            open_samples = samples if self.eps is None or self.largest else samples[~self.adversarial[samples]]
            if len(open_samples):
                error = self._ask(attack, open_samples)
                answered, failed = answered or error is None, error or failed
        if failed is not None and not answered:
            raise failed  # silence of all attacks is no robustness
        self._assess(samples[self.adversarial[samples]])
        self._assess_failures(samples[~self.adversarial[samples]])

    def _ask(self, attack: Attack, samples: Tensor) -> Exception | None:
        """One attack's answers; those that are nearer than what is known take its place. Its error, if it fails."""
        began, before = time.perf_counter(), self.model.passes.total[samples]
        task = self._task(attack, samples)
        images, labels, box = self._of(samples)
        eps = None if self.eps is None else self.eps[samples].to(images.device)
        try:
            answer = _answer_of(attack, task)
        except Exception as error:
            sentence = f"The attack {attack.name} failed, the others went on. {type(error).__name__}: {error}"
            self.failures += [sentence] if sentence not in self.failures else []
            nothing = torch.full((len(samples),), torch.inf, dtype=torch.float64)
            spent = self.model.passes.total[samples] - before
            self.records[attack.name].add(samples, nothing, spent, time.perf_counter() - began, Diagnostics())
            return error
        points, seen = self._repaired(answer, images, labels, samples, box)
        points, checked = self._verified(points, images, labels, samples, box, eps)
        if eps is not None:
            self._keep_loss(samples, labels, checked, eps)
        distance = torch.where(checked.adversarial, checked.distance, torch.inf).cpu()
        # What it was told and hands back unchanged is not its own.
        own = torch.where(_is_new(answer.points, task).cpu(), distance, torch.inf)
        spent = self.model.passes.total[samples] - before
        self.records[attack.name].add(samples, own, spent, time.perf_counter() - began, answer.diagnostics)
        better = self._larger(samples, labels, checked) if self.largest else distance < self.radius[samples]
        nearer = samples[better]
        self.radius[nearer], self.adversarial[nearer] = distance[better], True
        self.x_adv[nearer.to(self.x_adv.device)] = points[better.to(points.device)]
        self.logits[nearer] = checked.logits.cpu()[better]
        for sample in nearer.tolist():
            self.attack[sample] = attack.name
        self._keep_contradicted(samples, points, checked, seen & self.problem.allows(checked.distance, eps))
        return None

    def _keep_contradicted(self, samples: Tensor, points: Tensor, checked: Checked, seen: Tensor) -> None:
        """What was seen misclassified, within eps, and does not count: the nearest point of each sample."""
        for i in (seen & ~checked.adversarial).nonzero().squeeze(1).tolist():
            sample, distance = int(samples[i]), float(checked.distance[i])
            known = self.contradicted.get(sample)
            if known is None or distance < known.distance:
                self.contradicted[sample] = Contradicted(points[i], distance, checked.logits[i])

    def _larger(self, samples: Tensor, labels: Tensor, checked: Checked) -> Tensor:
        """(m,) which misclassified points have a larger loss than those before; of a wanted class a smaller one."""
        value, known = (self._loss(logits, labels) for logits in (checked.logits, self.logits[samples]))
        return checked.adversarial.cpu() & (~self.adversarial[samples] | (self._worse(value, known) != known))

    def _of(self, samples: Tensor) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor]]:
        here = samples.to(self.images.device)
        return self.images[here], self.labels[here], (self.box[0][here], self.box[1][here])

    def _task(self, attack: Attack, samples: Tensor) -> Task:
        """Copies of everything: an attack may write into what it is given."""
        images, labels, (lower, upper) = self._of(samples)
        here = samples.to(images.device, copy=True)
        eps = None if self.eps is None else self.eps[samples].to(images.device)
        known = self.x_adv[here] if attack is not self.attacks[0] and self.eps is None else None
        return Task(
            self.model, self.problem, images, labels, here, lower, upper, eps, self.shares[attack.name], self.seed,
            self.stop, self.tol, known,
        )  # fmt: skip

    def _repaired(
        self, answer: Answer, images: Tensor, labels: Tensor, samples: Tensor, box: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """An attack's points made as good as a few forward passes can: inside the box, at the boundary, on the grid.

        Returns:
            Points (n, ...), and (n,) whether the model was seen to misclassify just these.
        """
        given = answer.points.detach().to(images.dtype)
        points = torch.clamp(given, *box)
        seen = answer.diagnostics.seen
        seen = torch.zeros(len(points), dtype=torch.bool) if seen is None else seen
        seen = seen.to(points.device)
        eps = None if self.eps is None else self.eps[samples].to(images.device)
        measure = ReferenceDistance(self.problem.metric, images, samples, self.model.metric_passes, self.model.batch)

        def wrong(x: Tensor) -> Tensor:
            return is_surely_wrong(self.model.logits(x, samples), labels, self.problem.targeted)

        def wrong_alone(x: Tensor) -> Tensor:
            return is_wrong(self.model.logits(x, samples, alone=True), labels, self.problem.targeted)

        if eps is not None:
            points = shrink_to_eps(measure.distance64, images, points, eps, box)
        else:
            points, hit = outwards(wrong, images, points, box)
            points = to_boundary(wrong, images, points, hit)
            # Where this moves a point, it has seen the new one misclassified.
            points, hit_alone = outwards(wrong_alone, images, points, box)
            given, seen = torch.where(per_row(hit | hit_alone, points), points, given), seen | hit | hit_alone
        if self.eight_bit:
            points = onto_grid(wrong_alone, measure, points, eps, self.model.bounds)
        return points, seen & (points == given).flatten(1).all(1)

    def _verified(
        self, points: Tensor, images: Tensor, labels: Tensor, samples: Tensor, box: tuple[Tensor, Tensor],
        eps: Tensor | None,
    ) -> tuple[Tensor, Checked]:  # fmt: skip
        """Recheck the points; of a random model those that fail move out, if they may, and are rechecked."""
        checked = recheck(self.model, self.problem, images, labels, points, samples, eps, self.looks)
        may_move = self._is_random and eps is None and not self.eight_bit
        for factor in AWAY_FROM_CHANCE if may_move else ():
            failed = (~checked.adversarial).nonzero().squeeze(1)
            if not len(failed):
                break
            x, sides, who = images[failed], (box[0][failed], box[1][failed]), samples[failed.to(samples.device)]
            trial = torch.clamp(x + factor * (points[failed] - x), *sides)
            again = recheck(self.model, self.problem, x, labels[failed], trial, who, looks=self.looks)
            holds = failed[again.adversarial]
            points = points.index_copy(0, holds, trial[again.adversarial])
            for whole, part in zip(checked, again, strict=True):
                whole[holds] = part[again.adversarial]
        return points, checked

    def _assess(self, samples: Tensor) -> None:
        """Evidence and status of what was found."""
        images, labels, box = self._of(samples)
        points, radius = self.x_adv[samples.to(self.x_adv.device)], self.radius[samples]
        models = gather_evidence(self.model, self.problem, images, labels, points, radius, box, samples, self.models)
        self.stationarity[samples], self.violation[samples] = models.stationarity, 0.0
        if self.eps is not None:
            self.gain[samples] = 0.0  # a misclassified point within eps is what was asked for
            for sample in samples.tolist():
                self.status[sample] = Status.FOUND
            return
        gain = self._count_agreeing(samples, radius).gain
        linear = torch.stack([record.linear[samples] for record in self.records.values()]).any(0)
        gain = torch.where(linear, torch.fmin(gain, models.excess), gain)
        self.gain[samples] = torch.where(radius == 0, 0.0, gain)  # nothing is nearer
        used_up = self.model.passes.total[samples] >= USED_UP * self.budget
        for sample, used in zip(samples.tolist(), used_up.tolist(), strict=True):
            sure = float(self.gain[sample]) <= self.tol
            by_solver = self._by_its_solver(sample)
            self.status[sample] = Status.CONVERGED if sure else by_solver or (Status.BUDGET if used else Status.ENDED)

    def _by_its_solver(self, sample: int) -> Status | None:
        """How the solver that found the point ended, if one did that tells; its evidence takes the place of ours."""
        record = self.records[self.attack[sample]]
        ended = record.ended[sample]
        if ended is not None:
            self.stationarity[sample], self.violation[sample] = record.stationarity[sample], record.violation[sample]
        # Its test is about the neighbourhood of the point: other minima may be nearer.
        return Status.STATIONARY if ended is Status.CONVERGED else ended

    def _assess_failures(self, samples: Tensor) -> None:
        """Of samples without a point: how near the searches came, and how many agree on that."""
        self.nearest[samples] = torch.stack([record.nearest[samples] for record in self.records.values()]).amin(0)
        for sample in set(samples.tolist()) & self.contradicted.keys():
            point, distance, logits = self.contradicted[sample]
            self.status[sample] = Status.CONTRADICTED
            self.x_adv[sample], self.logits[sample] = point, logits.cpu()
            self.nearest[sample] = min(float(self.nearest[sample]), distance)
            self.violation[sample] = self._shortfall(logits.unsqueeze(0), self.labels[sample : sample + 1])[0]
        self._count_agreeing(samples, self.nearest[samples])

    def _count_agreeing(self, samples: Tensor, radius: Tensor) -> Agreement:
        """How many of the independent searches of all attacks ended at the radius (m,) of these samples."""
        ends, began = (torch.cat(part, 1) for part in zip(*(r.searches for r in self.records.values()), strict=True))
        found = agreement_of(Searches(ends[samples], began[samples]), radius, self.problem.metric)
        self.agreement[samples], self.searches[samples] = found.agreement, found.searches
        return found

    def _shortfall(self, logits: Tensor, labels: Tensor) -> Tensor:
        """(n,) by how much the logits are short of what is wanted."""
        loss = margin(logits, labels)
        return (loss if self.problem.targeted else -loss).clamp(min=0).double().cpu()

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """(n,) that of the question, or the margin."""
        loss = as_loss(self.problem.loss if isinstance(self.problem, MaxLoss) else "margin")
        return loss(logits.cpu().float(), labels.cpu(), None).double()

    def _keep_loss(self, samples: Tensor, labels: Tensor, checked: Checked, eps: Tensor) -> None:
        """The largest loss within eps that the attacks have shown; of a wanted class the least."""
        inside = (self.problem.allows(checked.distance, eps) & is_defined(checked.logits)).cpu()
        loss = torch.where(inside, self._loss(checked.logits, labels), torch.nan)
        self.seen_loss[samples] = self._worse(self.seen_loss[samples], loss)

    def _worse(self, one: Tensor, other: Tensor) -> Tensor:
        return torch.fmin(one, other) if self.problem.targeted else torch.fmax(one, other)

    def _losses(self) -> Tensor:
        """(n,) the loss at the returned points; max-loss: where there is none, the largest one seen within eps."""
        if self.logits.shape[1] == 0:
            return torch.full_like(self.radius, torch.nan)
        loss = self._loss(self.logits, self.labels)
        return torch.where(self.adversarial, loss, self._worse(loss, self.seen_loss))

    def diagnose(self) -> list[str]:
        """Sentences about what looks wrong with the answers."""
        records = self.records.values()
        return diagnose(
            self.problem,
            [record.contribution() for record in records],
            {record.attack.name: record.diagnostics() for record in records},
            torch.tensor([status is Status.CONTRADICTED for status in self.status], dtype=torch.bool),
        )

    def result(self, seconds: float, remarks: list[str]) -> Run:
        each = self.model.classifier.samples
        passes = self.model.passes.times(each)
        evidence = AnswerEvidence(self.gain, self.agreement, self.searches, self.stationarity, self.violation)
        return Run(
            self.problem, self.radius, self.adversarial, self.x_adv, self.status, evidence, passes,
            self.model.metric_passes, self.attack, seconds, remarks,
            [record.contribution(each) for record in self.records.values()], self.clean_logits, self.logits,
            self._losses(), torch.where(self.adversarial, self.radius, self.nearest), asked=self._asked(),
        )  # fmt: skip

    def _asked(self) -> Asked:
        classifier = self.model.classifier
        return Asked(
            classifier, self.images, self.labels, classifier.bounds, self.attacks,
            [budget * classifier.samples for budget in self.budgets], self.seed,
            self.stop, self.tol, self.eight_bit, self.model.batch,
        )  # fmt: skip


def _answer_of(attack: Attack, task: Task) -> Answer:
    """The attack's answer, if it is one."""
    answer: object = attack(task)  # of somebody else's, perhaps: it may be anything
    if not isinstance(answer, Answer):
        found = type(answer).__name__
        raise TypeError(f"attack {attack.name}: expected a pwcf.attacks.Answer, found {found}; return Answer(points)")
    points, shape = answer.points, task.images.shape
    if not isinstance(points, Tensor) or points.shape != shape:
        seen = tuple(points.shape) if isinstance(points, Tensor) else type(points).__name__
        raise ValueError(f"attack {attack.name}: expected points of shape {tuple(shape)}, found {seen}")
    return answer


def _is_new(points: Tensor, task: Task) -> Tensor:
    """(n,) whether they are others than those the attack was told of."""
    if task.known is None:
        return torch.ones(len(points), dtype=torch.bool)
    return (points.to(task.known) != task.known).flatten(1).any(1)
