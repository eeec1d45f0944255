"""Attacks one after the other, each on the samples that are still robust, batch by batch on the model's device.

A random model is attacked as the average over its randomness (EOT: expectation over transformation).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import SupportsIndex

import torch
from torch import Tensor, nn

from pwcf._common.status import Status
from pwcf.compat.autoattack_settings import ConfiguredAttack
from pwcf.compat.state import EvaluationState, Saver
from pwcf.evaluation import Run, evaluate
from pwcf.models import Classifier, check_inputs
from pwcf.problems import MaxLoss, is_defined


@dataclass(frozen=True)
class Attempt:
    """One attack on one batch."""

    attack: str
    samples: Tensor
    """(m,) numbers of the samples it broke"""
    run: Run
    """verified answers and evidence about these"""
    tried: int
    """samples in the batch"""
    passes: int
    """forward + backward passes of all of them together"""


@dataclass(frozen=True)
class SequentialRunner:
    """The attacks of one evaluation, each on what the ones before it have left robust."""

    batches: Batches
    problem: MaxLoss
    state: EvaluationState
    saver: Saver
    log: Callable[[str], None]

    def run(self, names: Sequence[str], attacks: Sequence[ConfiguredAttack]) -> list[Attempt]:
        """All that are not done yet, as long as there is something to be broken."""
        attempts: list[Attempt] = []
        for name, configured in list(zip(names, attacks, strict=True))[len(self.state.done) :]:
            if not bool(self.state.robust.any()):
                break
            attempts += self._attack(name, configured)
            self.state.finish(name)
            self.saver.save(self.state, surely=True)
            self.log(
                f"robust accuracy after {name.upper()}: {self.state.robust_accuracy:.2%} "
                f"(total time {self.state.seconds:.1f} s)"
            )
        return attempts

    def _attack(self, name: str, configured: ConfiguredAttack) -> list[Attempt]:
        state, attempts = self.state, []
        batches = torch.split((state.robust & ~state.tried).nonzero().squeeze(1), self.batches.size)
        for number, batch in enumerate(batches, 1):
            started = time.perf_counter()
            left = batch
            for repeat in range(configured.repeats):
                if len(left):
                    attempts.append(self._once(name, configured, left, _another_seed(state.seed, repeat)))
                    left = left[state.robust[left]]
            state.tried[batch] = True
            state.seconds += time.perf_counter() - started
            self.saver.save(state)
            broken = len(batch) - len(left)
            self.log(f"{name} - {number}/{len(batches)} - {broken} out of {len(batch)} successfully perturbed")
        return attempts

    def _once(self, name: str, configured: ConfiguredAttack, rows: Tensor, seed: int) -> Attempt:
        images, labels = self.batches.of(rows)
        model = averaged(self.batches.classifier, configured.eot)
        with knowingly_random(configured.eot):
            run = evaluate(
                model, images, labels, self.problem, attacks=[configured.attack], budget=configured.budget, seed=seed,
                batch=max(1, self.batches.size // configured.eot),
            )  # fmt: skip
        broken = run.adversarial.nonzero().squeeze(1)
        passes = int(run.passes.total.sum())
        points = run.x_adv[broken.to(images.device)]
        said = run.logits[broken].argmax(1)
        self.state.broke(name, rows[broken], points.to(self.batches.images.device), said)
        seen = torch.tensor([status is Status.CONTRADICTED for status in run.status]).nonzero().squeeze(1)
        if len(seen):
            self.state.saw(rows[seen], run.x_adv[seen.to(images.device)].to(self.batches.images.device))
        return Attempt(name, rows[broken], run.select(broken), len(rows), passes)


def _another_seed(seed: int, number: int) -> int:
    """Towards 0: seeds have 64 bits."""
    return seed + (number if seed < 0 else -number)


@dataclass(frozen=True)
class Batches:
    """All samples, where they are, and the model, where it is."""

    classifier: Classifier
    images: Tensor
    labels: Tensor
    size: int
    device: torch.device

    @classmethod
    def to_the_model(
        cls,
        model: Callable[[Tensor], Tensor] | Classifier,
        x_orig: Tensor,
        y_orig: Tensor,
        bs: int,
        device: str | torch.device | None,
    ) -> Batches:
        """``device`` None: the model's own, or if it has no parameters the images'."""
        if isinstance(bs, bool) or not isinstance(bs, SupportsIndex) or int(bs) < 1:
            raise ValueError(f"bs: expected an integer >= 1, found {bs!r}")
        for name, tensor in (("x_orig", x_orig), ("y_orig", y_orig)):
            if not isinstance(tensor, Tensor):
                raise TypeError(f"{name}: expected a tensor, found {type(tensor).__name__}")
        if x_orig.shape[:1] != y_orig.shape:
            raise ValueError(
                f"y_orig: expected one label for each of {x_orig.shape[0]} images, found shape {tuple(y_orig.shape)}"
            )
        classifier = model if isinstance(model, Classifier) else Classifier(model)
        place = _device_of(classifier.model, x_orig) if device is None else torch.device(device)
        return cls(classifier, x_orig.detach(), y_orig, int(bs), place)

    def of(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        images, labels = (t[rows.to(t.device)].to(self.device) for t in (self.images, self.labels))
        return images.clone(), labels.long()

    def first_look(self, calls: int) -> tuple[Tensor, Tensor, int]:
        """(n,) which samples are classified correctly; (n,) what the model says; how many classes it has."""
        right, said, classes = [torch.zeros(0, dtype=torch.bool)], [torch.zeros(0, dtype=torch.int64)], 2
        for rows in torch.split(torch.arange(self.images.shape[0]), self.size):
            images, labels = self.of(rows)
            check_inputs(self.classifier, images, labels)
            logits = _logits(averaged(self.classifier, calls), images)
            classes = logits.shape[1]
            right.append(((logits.argmax(1) == labels) & is_defined(logits)).cpu())
            said.append(logits.argmax(1).cpu())
        return torch.cat(right), torch.cat(said), classes


def _logits(classifier: Classifier, images: Tensor) -> Tensor:
    with classifier.in_use(), torch.no_grad():
        return classifier(images)


def _device_of(model: object, images: Tensor) -> torch.device:
    owner = getattr(model, "__self__", model)  # scripts give model.forward, too
    tensors = (*owner.parameters(), *owner.buffers()) if isinstance(owner, nn.Module) else ()
    return tensors[0].device if tensors else images.device


def in_its_own_mode(classifier: Classifier) -> Classifier:
    """The same, but a module stays in the mode it is in: what is random about it may be just its train mode."""
    return Classifier(classifier.__call__, classifier.bounds)


def averaged(classifier: Classifier, calls: int) -> Classifier:
    """The mean logits of so many calls, gradients included; one call: the classifier as it is."""
    if calls == 1:
        return classifier

    def mean_logits(x: Tensor) -> Tensor:
        total = classifier(x)
        for _ in range(calls - 1):
            total = total + classifier(x)
        return total / calls

    return Classifier(mean_logits, classifier.bounds)


@contextmanager
def knowingly_random(calls: int) -> Iterator[None]:
    """Whoever averages knows that the model is random, and is not told so."""
    with warnings.catch_warnings():
        if calls > 1:
            warnings.filterwarnings("ignore", message="The model gives different logits")
        yield
