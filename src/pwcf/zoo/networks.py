"""The zoo's networks: how each was trained, how accurate it is, and the network itself with its weights."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import safetensors.torch
import torch
from torch import nn

from pwcf.zoo.files import read

CARDS = "cards.json"


@dataclass(frozen=True)
class Recipe:
    """Arguments of ``pwcf.training.train``, on the 60,000 training images of Fashion-MNIST."""

    metric: str | None
    """None: standard training"""
    eps: float | None
    epochs: int = 8
    batch: int = 128
    lr: float = 2e-3
    inner_steps: int = 7
    seed: int = 0
    architecture: str = "cnn"


# benchmarks/train_zoo.py trains them again.
RECIPES = {
    "fashion-standard": Recipe(None, None),
    "fashion-linf": Recipe("linf", 0.1),
    "fashion-l2": Recipe("l2", 1.5),
    "fashion-l1": Recipe("l1", 12.0),
}


@dataclass(frozen=True)
class Card:
    """A network's training and accuracy, in shares. Names that end in 200 refer to the 200 shipped images."""

    name: str
    recipe: Recipe
    clean_accuracy: float
    """on the 10,000 test images"""
    clean_accuracy_200: float
    robust_accuracy_200: dict[str, float]
    """metric -> robust accuracy within ``eps``, by ``evaluate`` with MaxLoss"""
    eps: dict[str, float]
    """metric -> eps of the robust accuracies"""
    tolerance: float
    """how much robust accuracies may differ on other machines and versions of torch"""
    made_with: dict[str, str]
    """package versions, and the attack behind the robust accuracies"""


def names() -> list[str]:
    """List the networks that come with weights.

    Returns:
        Names for ``load_network``, ``card`` and ``--model zoo:NAME``.
    """
    return list(RECIPES)


def card(name: str) -> Card:
    """Look up how a network was trained and how accurate it is.

    Args:
        name: one of ``names()``.

    Returns:
        The network's card, measured with the shipped weights.
    """
    content = _cards()[_known_network(name)]
    return Card(**{**content, "recipe": Recipe(**content["recipe"])})


def load_network(name: str) -> nn.Module:
    """Load a network with its weights, in eval mode.

    The weights are stored in half precision and converted to float32; all accuracies are measured with these.

    Args:
        name: one of ``names()``.

    Returns:
        A module from images (n, 1, 28, 28) in [0, 1] to logits (n, 10).
    """
    stored = safetensors.torch.load(weights_file(name))
    network = make(RECIPES[name].architecture)
    network.load_state_dict({key: value.to(torch.float32) for key, value in stored.items()})
    return network.eval()


def weights_file(name: str) -> bytes:
    """Read the shipped safetensors file of a network's weights.

    Args:
        name: one of ``names()``.

    Returns:
        The bytes of the file.
    """
    return read(f"{_known_network(name)}.safetensors")


def architectures() -> list[str]:
    """List the architectures that ``make`` builds.

    Returns:
        Names for ``make``, and for ``--model zoo:NAME --weights FILE``.
    """
    return list(_ARCHITECTURES)


def make(name: str) -> nn.Module:
    """A network with random weights, drawn from torch's global generator.

    Args:
        name: one of ``architectures()``.

    Returns:
        A module from images (n, 1, 28, 28) in [0, 1] to logits (n, 10), in train mode.
    """
    if name not in _ARCHITECTURES:
        raise ValueError(f"architecture: expected one of {', '.join(_ARCHITECTURES)}, found {name!r}")
    return _ARCHITECTURES[name]()


def _cnn() -> nn.Module:
    """Two convolutions and two linear layers, 166,406 parameters: (n, 1, 28, 28) in [0, 1] to (n, 10)."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 4, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 4, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 7 * 7, 100),
        nn.ReLU(),
        nn.Linear(100, 10),
    )


_ARCHITECTURES: dict[str, Callable[[], nn.Module]] = {"cnn": _cnn}


def _known_network(name: str) -> str:
    if name not in RECIPES:
        raise ValueError(f"zoo: expected one of {', '.join(RECIPES)}, found {name!r}")
    return name


@cache
def _cards() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(read(CARDS))
    return content
