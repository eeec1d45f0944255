"""The zoo's networks without their weights."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn


def cnn() -> nn.Module:
    """Two convolutions and two layers, 166,406 parameters: (n, 1, 28, 28) in [0, 1] to 10 logits."""
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


_KNOWN: dict[str, Callable[[], nn.Module]] = {"cnn": cnn}


def architectures() -> list[str]:
    """What ``make`` knows."""
    return list(_KNOWN)


def make(name: str) -> nn.Module:
    """A network of random weights, from torch's global randomness."""
    if name not in _KNOWN:
        raise ValueError(f"architecture: expected one of {', '.join(_KNOWN)}, found {name!r}")
    return _KNOWN[name]()
