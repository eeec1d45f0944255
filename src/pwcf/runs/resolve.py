"""Settings resolved: the names in them turned into a model, data, a problem and attacks. Done once for a run."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from pwcf._common.text import describe_error, first_line
from pwcf._common.user_code import UserCodeError, is_named_code, kept_alive, load_named
from pwcf.attacks import PRESETS, Answer, Attack, CannotAnswer, Stop, as_attack, resolve_attacks
from pwcf.attacks import Task as Asked
from pwcf.data import BalancedSource, Source, open_data
from pwcf.metrics import Custom, Metric, as_metric
from pwcf.models import Classifier, count_classes
from pwcf.models.loading import LoadedModel, code_fingerprint, load_model, syntax
from pwcf.problems import MaxLoss, MinRadius, Problem
from pwcf.runs.header import AttackAbout
from pwcf.runs.settings import RunError, Settings

T = TypeVar("T")
# Digits of a SHA-256 by which the user's own code is known again.
CODE_DIGITS = 16


class UnsupportedError(RunError):
    """An attack that was named, or every attack of a preset, does not support the question."""


class Reseeded(Attack):
    """An attack once more, with another seed."""

    def __init__(self, attack: Attack, number: int) -> None:
        self.attack, self.number = attack, number
        self.name, self.black_box = f"{attack.name}#{number}", attack.black_box
        self.converges = attack.converges

    @property
    def about(self) -> str:
        return f"{self.attack.about}, seed + {self.number - 1}"

    def __call__(self, task: Asked) -> Answer:
        return self.attack(replace(task, seed=task.seed + self.number - 1))


@dataclass(frozen=True)
class ResolvedSettings:
    """The problem and the attacks that settings name."""

    problem: Problem
    """bound to the classifier"""
    attacks: list[Attack]
    """restarts included"""
    about: tuple[AttackAbout, ...]
    """one for each attack, with a digest of its code where that is the user's own"""
    budgets: list[int]
    """passes per sample, of each attack"""
    metric: str
    """which network measures, or a digest of the user's own distance; empty for other metrics"""
    left_out: list[str]
    """sentences: attacks of a preset that do not support the question"""


def resolve(settings: Settings, classifier: Classifier, images: Tensor) -> ResolvedSettings:
    """The problem and attacks of a run.

    Args:
        settings: of the run.
        classifier: the model they are about.
        images: (n, ...) some of the data; the model is asked once, about the first.

    Raises:
        UnsupportedError: an attack that was named does not support the question.
        RunError: a name stands for nothing, or model and data do not fit.
    """
    classes = _classes(classifier, images)
    try:
        problem, metric = _problem_and_about(settings)
        problem = problem.bind(classifier)
        codes: dict[int, str] = {}
        named = [_own_attack(name, codes) if is_named_code(name) else name for name in settings.attacks]
        chosen = resolve_attacks(named, problem, classes, cast(Stop, settings.stop))
    except CannotAnswer as error:
        raise UnsupportedError(first_line(error)) from error
    except (TypeError, ValueError, ImportError, FileNotFoundError) as error:
        raise RunError(first_line(error)) from error
    attacks: list[Attack] = list(chosen.attacks)
    for number in range(2, settings.restarts + 1):
        attacks += [Reseeded(attack, number) for attack in chosen.attacks]
    told = []
    for attack in attacks:
        own = attack.attack if isinstance(attack, Reseeded) else attack
        code = f", code {codes[id(own)]}" if id(own) in codes else ""
        told.append(AttackAbout(attack.name, attack.about + code, attack.black_box))
    count = len(chosen.attacks)
    each = chosen.budgets if settings.budget is None else [settings.budget // count] * count
    return ResolvedSettings(problem, attacks, tuple(told), each * settings.restarts, metric, chosen.left_out)


def _classes(classifier: Classifier, images: Tensor) -> int:
    try:
        with kept_alive():
            return count_classes(classifier, images)
    except UserCodeError as error:
        raise RunError(f"model: {error}") from error
    except Exception as error:
        raise RunError(
            f"model: cannot take inputs of shape {tuple(images.shape[1:])} of the data ({describe_error(error)}); "
            "check resize and crop, or that model and data belong together"
        ) from error


def resolve_problem(settings: Settings) -> Problem:
    """The question of a run."""
    try:
        return _problem_and_about(settings)[0]
    except (TypeError, ValueError, ImportError, FileNotFoundError) as error:
        raise RunError(first_line(error)) from error


def resolve_metric(name: str) -> Metric:
    """A metric by its name, or the user's own as ``module:function`` or ``file.py:function``."""
    return as_metric(_own_metric(name) if is_named_code(name) else name)


def check_names(metrics: Iterable[str], attacks: Iterable[str]) -> None:
    """Raise a RunError where one of the names stands for nothing."""
    try:
        for name in metrics:
            resolve_metric(name)
        for name in attacks:
            if is_named_code(name):
                _own_attack(name, {})
            elif name not in PRESETS:
                as_attack(name)
    except (TypeError, ValueError, ImportError, FileNotFoundError) as error:
        raise RunError(first_line(error)) from error


def _problem_and_about(settings: Settings) -> tuple[Problem, str]:
    name = settings.metric
    own: Any = _own_metric(name) if is_named_code(name) else None
    metric = as_metric(name if own is None else own)
    told = metric.about
    if own is not None:
        told = f"{told or metric.name}, code {code_fingerprint(own)[:CODE_DIGITS]}"
    elif not told and isinstance(metric, Custom):
        told = f"{metric.name}, code {code_fingerprint(metric.function)[:CODE_DIGITS]}"
    return problem_of(settings, metric), told


def problem_of(settings: Settings, metric: Metric) -> Problem:
    """The question that settings ask, in a metric that was made from their name of it."""
    if settings.eps is None:
        return MinRadius(metric, targeted=settings.targeted)
    return MaxLoss(metric, settings.eps, settings.loss, targeted=settings.targeted)


def _own_metric(name: str) -> Any:
    try:
        return load_named(name)
    except UserCodeError as error:
        raise RunError(
            f"metric: expected a name, or module:function or file.py:function to import, found {name!r} ({error})"
        ) from error


def _own_attack(name: str, codes: dict[int, str]) -> Attack:
    """A class or a function without arguments makes the attack; anything else callable is one."""
    try:
        found: Any = load_named(name)
    except UserCodeError as error:
        raise RunError(f"attacks: {name!r}: {error}") from error
    try:
        made = found() if isinstance(found, type) or _needs_nothing(found) else found
    except Exception as error:
        raise RunError(
            f"attacks: {name!r}: expected an attack, or what makes one without arguments ({describe_error(error)})"
        ) from error
    attack = as_attack(made)
    codes[id(attack)] = _code_of(name, made)[:CODE_DIGITS]
    return attack


def _code_of(name: str, made: object) -> str:
    """SHA-256 of an attack's code, and of the file that was named: settings of our attacks may stand there."""
    whole = hashlib.sha256(code_fingerprint(made).encode())
    where = name.rpartition(":")[0]
    if where.lower().endswith(".py"):
        whole.update(syntax(Path(where)))
    return whole.hexdigest()


def _needs_nothing(found: Any) -> bool:
    try:
        parameters = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):
        return False
    free = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return not any(each.default is each.empty and each.kind not in free for each in parameters)


def check_devices(settings: Settings) -> None:
    """Try all devices now, not when the first chunk arrives there."""
    if not settings.devices:
        raise RunError(f"device: expected cpu, cuda, ...; found {settings.device!r}")
    for device in settings.devices:
        check_device(device)


def check_device(device: str, option: str = "device") -> None:
    """Raise a RunError, which begins with the option's name, where torch cannot compute on a device."""
    try:
        torch.ones(1, device=device).cpu()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise RunError(f"{option}: {device!r} cannot be used here ({first_line(error)}); cpu always can") from error


def open_model(settings: Settings) -> LoadedModel:
    """The model that settings name, on the first of their devices."""
    many = {"mean": settings.mean, "std": settings.std}
    given = {name: (value[0] if len(value) == 1 else value) for name, value in many.items() if value}
    bounds = (settings.bounds[0], settings.bounds[1])
    return load_model(settings.model, weights=settings.weights, bounds=bounds, device=settings.devices[0], **given)


def open_source(settings: Settings) -> Source:
    """The data that settings name, in their order."""
    return _in_order(_open_as_stored(settings), settings)


def _in_order(source: Source, settings: Settings) -> Source:
    return BalancedSource(source, settings.seed) if settings.order == "balanced" else source


def _open_as_stored(settings: Settings) -> Source:
    return open_data(
        settings.data,
        labels=settings.labels,
        classes=settings.classes,
        resize=settings.resize,
        crop=settings.crop,
        split=settings.split,
        bounds=(settings.bounds[0], settings.bounds[1]),
    )


@dataclass
class Loader:
    """Opens models and data, and keeps the last of each: runs of one network, one after the other, share them."""

    _kept: dict[str, tuple[tuple[Any, ...], Any]] = field(default_factory=dict)

    def model(self, settings: Settings) -> LoadedModel:
        given = settings.model, settings.weights, settings.bounds, settings.mean, settings.std, settings.devices
        return self._last("model", given, lambda: open_model(settings))

    def source(self, settings: Settings) -> Source:
        stored = self._last("stored", self._data(settings), lambda: _open_as_stored(settings))
        given = (*self._data(settings), settings.order, settings.seed)
        return self._last("source", given, lambda: _in_order(stored, settings))

    def data_fingerprint(self, settings: Settings, samples: int) -> str:
        """SHA-256 of the first samples, which are read for it."""
        source = self.source(settings)
        return self._last(
            "fingerprint",
            (*self._data(settings), settings.order, settings.seed, samples),
            lambda: source.fingerprint(samples),
        )

    @staticmethod
    def _data(settings: Settings) -> tuple[Any, ...]:
        which = settings.data, settings.labels, settings.classes, settings.split
        return *which, settings.resize, settings.crop, settings.bounds

    def _last(self, what: str, given: tuple[Any, ...], opened: Callable[[], T]) -> T:
        if what not in self._kept or self._kept[what][0] != given:
            self._kept.pop(what, None)  # two large models need not be in memory at once
            self._kept[what] = given, opened()
        kept: T = self._kept[what][1]
        return kept
