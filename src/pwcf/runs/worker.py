"""Works on one chunk after the other. Every engine has these, in one process or in many."""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from pwcf.attacks import Answer, Attack, resolve_attacks
from pwcf.attacks import Task as Asked
from pwcf.evaluation import BUDGET, default_batch, evaluate
from pwcf.metrics import Custom, Metric, as_metric
from pwcf.models import Classifier
from pwcf.models.loading import code_fingerprint
from pwcf.problems import MaxLoss, MinRadius, Problem
from pwcf.runs.errors import RunError
from pwcf.runs.settings import Settings
from pwcf.runs.shard import Chunk, Shard, shard_of


class Reseeded(Attack):
    """An attack once more, with another seed."""

    def __init__(self, attack: Attack, number: int) -> None:
        self.attack, self.number = attack, number
        self.name, self.black_box = f"{attack.name}#{number}", attack.black_box

    @property
    def about(self) -> str:
        return f"{self.attack.about}, seed + {self.number - 1}"

    def __call__(self, task: Asked) -> Answer:
        return self.attack(replace(task, seed=task.seed + self.number - 1))


@dataclass(frozen=True)
class Plan:
    """The question with all that settings say by name made into things."""

    problem: Problem
    attacks: list[Attack]
    budget: int


def plan_of(settings: Settings, classifier: Classifier, classes: int | None) -> Plan:
    problem: Problem
    try:
        metric = metric_of(settings.metric)
        if settings.eps is None:
            problem = MinRadius(metric, targeted=settings.targeted)
        else:
            problem = MaxLoss(metric, settings.eps, settings.loss, targeted=settings.targeted)
        chosen = resolve_attacks(settings.attacks, problem.bind(classifier), classes, BUDGET)
    except (TypeError, ValueError, ImportError, FileNotFoundError) as error:
        raise RunError(str(error).partition("\n")[0]) from error
    attacks = list(chosen.attacks)
    for number in range(2, settings.restarts + 1):
        attacks += [Reseeded(attack, number) for attack in chosen.attacks]
    return Plan(problem, attacks, (settings.budget or chosen.budget) * settings.restarts)


def metric_of(name: str) -> Metric:
    """By name, or somebody's own function as module:function."""
    module, colon, function = name.partition(":")
    if not colon:
        return as_metric(name)
    if (here := os.getcwd()) not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = getattr(importlib.import_module(module), function)
    except Exception as error:  # whatever the user's code raises while it is imported
        reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        raise RunError(f"metric: expected a name, or module:function to import, found {name!r} ({reason})") from error
    return as_metric(found)


def code_of_metric(metric: Metric) -> str:
    """By which a function of one's own is known again; "" for metrics with a name."""
    if not isinstance(metric, Custom):
        return ""
    return f"{metric.name}, code {code_fingerprint(metric.function)[:16]}"


class Worker:
    """Answers about chunks, on one device."""

    def __init__(self, settings: Settings, classifier: Classifier, device: str) -> None:
        self.settings, self.classifier, self.device = settings, classifier, device
        self._plan: Plan | None = None

    def __call__(self, chunk: Chunk) -> Shard:
        if self.settings.threads is not None:
            torch.set_num_threads(self.settings.threads)
        images, labels = chunk.images.to(self.device), chunk.labels.to(self.device)
        last = chunk.start + len(images) - 1
        try:
            if self._plan is None:
                self.classifier.to(self.device)
                self._plan = plan_of(self.settings, self.classifier, self._classes(images))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the run keeps them
                run = evaluate(
                    self.classifier,
                    images,
                    labels,
                    self._plan.problem,
                    attacks=self._plan.attacks,
                    budget=self._plan.budget,
                    seed=self.settings.seed,
                    eight_bit=self.settings.eight_bit,
                    batch=self.settings.batch,
                    tol=self.settings.tol,
                )
                return shard_of(chunk, run, self.classifier, self.settings.batch or default_batch(images))
        except RunError:
            raise
        except Exception as error:
            reason = str(error).partition("\n")[0]
            raise RunError(f"samples {chunk.start} to {last}: {type(error).__name__}: {reason}") from error

    def _classes(self, images: Tensor) -> int:
        with self.classifier.in_use(), torch.no_grad():
            return int(self.classifier(images[:1]).shape[1])
