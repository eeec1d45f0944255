"""Attacks of other people: any function, and those of Foolbox and torchattacks, which are imported when needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module, metadata
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from pwcf.attacks.base import Answer, Attack, Diagnostics, Task
from pwcf.attacks.external.tracked_model import TrackedModel, run_external
from pwcf.metrics import HasDualNorm


@dataclass(frozen=True, init=False)
class Function(Attack):
    """``call(model, images, labels) -> points``, all of them in [0, 1] whatever the bounds are.

    The model counts its passes. When the budget is spent it ends the call, and the best points it was shown are the
    answer; ``model.task`` is the whole question, for those who want to know.

    Args:
        call: the function. With a targeted problem the labels are the wanted classes.
        name: what tables call it; by default the function's own name.
        about: implementation and settings in words.
        black_box: whether it goes without gradients.
        each_eps: call it once for every value of eps there is among the samples, with the samples that have it.
    """

    call: Callable[..., Tensor]
    name: str = ""
    about: str = ""
    black_box: bool = False
    each_eps: bool = False

    def __init__(
        self,
        call: Callable[..., Tensor],
        name: str | None = None,
        about: str = "",
        black_box: bool = False,
        each_eps: bool = False,
    ) -> None:
        if not callable(call):
            raise TypeError(f"call: expected a function (model, images, labels) -> points, found {type(call).__name__}")
        object.__setattr__(self, "call", call)
        object.__setattr__(self, "name", name or getattr(call, "__name__", type(call).__name__).strip("<>"))
        object.__setattr__(self, "about", about or type(self).__name__)
        object.__setattr__(self, "black_box", black_box)
        object.__setattr__(self, "each_eps", each_eps)

    def __call__(self, task: Task) -> Answer:
        if task.eps is None or not self.each_eps:
            return run_external(self.call, task, self.name)
        points, seen = task.images.clone(), torch.zeros_like(task.labels, dtype=torch.bool)
        for eps in sorted(set(task.eps.tolist())):
            rows = (task.eps == eps).nonzero().squeeze(1).to(points.device)
            answer = run_external(self.call, task.select(rows), self.name)
            points[rows] = answer.points
            if answer.diagnostics.seen is not None:
                seen[rows] = answer.diagnostics.seen
        return Answer(points, Diagnostics(seen=seen))


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
