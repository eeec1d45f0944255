"""Zoo files: Python files that bring the nets of a benchmark."""

from __future__ import annotations

import hashlib
import importlib.util
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from pwcf.attacks import AttackLike
from pwcf.cli.errors import CommandError
from pwcf.metrics import as_metric
from pwcf.models import Classifier


@dataclass(frozen=True)
class Loaded:
    """A net and the samples it is asked about."""

    model: Callable[[Tensor], Tensor]
    images: Tensor
    labels: Tensor
    data: str
    """digest of images, labels and weights"""


@dataclass(frozen=True)
class Zoo:
    """What a zoo file says."""

    nets: tuple[str, ...]
    eps: Mapping[str, Mapping[str, float]]
    """net -> norm -> eps"""
    attacks: Mapping[str, AttackLike]
    """the file's own, beside those of pwcf"""
    loader: Callable[[str, int], Any]

    def load(self, name: str, images: int) -> Loaded:
        """A net and its samples, as the file gives them."""
        found = self.loader(name, images)
        if not isinstance(found, Sequence) or len(found) != 3 or not callable(found[0]):
            raise CommandError(f"zoo: load({name!r}, {images}): expected (model, images, labels), found {_kind(found)}")
        model, x, y = found
        if not isinstance(x, Tensor) or not isinstance(y, Tensor) or len(x) != len(y) or not 0 < len(x) <= images:
            sizes = f"{_kind(x)} and {_kind(y)}"
            raise CommandError(
                f"zoo: load({name!r}, {images}): expected 1 to {images} images and labels, found {sizes}"
            )
        return Loaded(model, x, y, _digest(model, x, y))


def read_zoo(path: Path) -> Zoo:
    """The zoo of a file; CommandError where it is none."""
    module = _import(path)
    nets, loader = getattr(module, "NETS", None), getattr(module, "load", None)
    if isinstance(nets, str) or not nets or not all(isinstance(name, str) and name for name in nets):
        raise CommandError(f"zoo: {path}: expected NETS, the names of the nets, found {nets!r}")
    if not callable(loader):
        raise CommandError(f"zoo: {path}: expected a function load(name, images) -> (model, images, labels)")
    eps = getattr(module, "EPS", {})
    if not isinstance(eps, Mapping) or not all(isinstance(values, Mapping) for values in eps.values()):
        raise CommandError(f"zoo: {path}: expected EPS of the form {{net: {{norm: eps}}}}, found {eps!r}")
    for net, values in eps.items():
        for norm, value in values.items():
            try:
                as_metric(norm)
            except (TypeError, ValueError) as error:
                raise CommandError(f"zoo: {path}: EPS[{net!r}]: {error}") from None
            if not isinstance(value, (int, float)) or not 0 < value < math.inf:
                raise CommandError(f"zoo: {path}: EPS[{net!r}][{norm!r}]: expected a number > 0, found {value!r}")
    attacks = getattr(module, "ATTACKS", {})
    if not isinstance(attacks, Mapping) or not all(callable(attack) for attack in attacks.values()):
        raise CommandError(f"zoo: {path}: expected ATTACKS of the form {{name: attack}}, found {attacks!r}")
    return Zoo(
        tuple(nets),
        {net: {as_metric(norm).name: float(value) for norm, value in of.items()} for net, of in eps.items()},
        attacks,
        loader,
    )


def _import(path: Path) -> ModuleType:
    if not path.is_file():
        raise CommandError(f"zoo: there is no file {path}")
    name = f"pwcf_zoo_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise CommandError(f"zoo: expected a Python file (.py), found {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickles look there
    # As a script's: it may import what lies beside it.
    if (beside := str(path.parent.resolve())) not in sys.path:
        sys.path.insert(0, beside)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise CommandError(f"zoo: {path} cannot be imported: {type(error).__name__}: {error}") from error
    return module


def _digest(model: object, images: Tensor, labels: Tensor) -> str:
    """Changes with a bit of the samples or of a module's weights."""
    seen = hashlib.sha256()
    tensors = {"images": images, "labels": labels}
    state = (
        model.state() if isinstance(model, Classifier) else model.state_dict() if isinstance(model, nn.Module) else {}
    )
    tensors |= {f"model.{name}": value for name, value in state.items() if isinstance(value, Tensor)}
    for name, value in tensors.items():
        seen.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        seen.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return seen.hexdigest()[:16]


def _kind(value: object) -> str:
    return f"a tensor {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
