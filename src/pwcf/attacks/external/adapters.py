"""Attacks of Foolbox and torchattacks. Neither is imported before somebody brings one of its attacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module, metadata
from types import ModuleType
from typing import Any

from torch import Tensor

from pwcf.attacks.external.function import Function
from pwcf.attacks.external.watched import TrackedModel
from pwcf.metrics import HasDualNorm


def from_foolbox(attack: Any, epsilons: Sequence[float] | None = None, name: str | None = None) -> Function:
    """An attack object of Foolbox, such as ``foolbox.attacks.LinfPGD(steps=40)``.

    Args:
        attack: it gets the problem's eps, or None for the least radius, which only its minimising attacks can do.
        epsilons: for the others, the radii to try for the least one, in the units of the inputs. They share the budget.
        name: by default the name of the attack's class.
    """
    foolbox = _required("foolbox")

    def call(model: TrackedModel, images: Tensor, labels: Tensor) -> Tensor:
        task = model.task
        wanted = foolbox.criteria.TargetedMisclassification if task.problem.targeted else foolbox.Misclassification
        unit = model.width if isinstance(task.problem.metric, HasDualNorm) else 1.0
        radii = [float(task.eps[0])] if task.eps is not None else epsilons
        scaled = None if radii is None else [eps / unit for eps in radii]
        seen = foolbox.PyTorchModel(model, bounds=(0, 1), device=images.device)
        _, clipped, _ = attack(seen, images, wanted(labels), epsilons=scaled)
        points: Tensor = clipped if scaled is None else clipped[-1]  # of several, the model has seen which are best
        return points

    kind = type(attack).__name__
    return Function(call, name or kind, f"foolbox {metadata.version('foolbox')} {kind}", each_eps=True)


def from_torchattacks(build: Callable[[TrackedModel], Any], name: str | None = None) -> Function:
    """An attack of torchattacks, by a function that makes it from a model.

    Args:
        build: such as ``lambda model: torchattacks.PGD(model, eps=8 / 255)``; its eps is in units of the bounds' width.
        name: by default "torchattacks".
    """
    _required("torchattacks")

    def call(model: TrackedModel, images: Tensor, labels: Tensor) -> Tensor:
        attack = build(model)
        if model.task.problem.targeted:
            attack.set_mode_targeted_by_label(quiet=True)
        points: Tensor = attack(images, labels)
        return points

    return Function(call, name or "torchattacks", f"torchattacks {metadata.version('torchattacks')}")


def _required(package: str) -> ModuleType:
    try:
        return import_module(package)
    except ImportError as error:
        raise ImportError(f"{package} cannot be imported: pip install {package} ({error})") from error
