"""How each network of the zoo was trained; benchmarks/train_zoo.py does it again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Recipe:
    """What was asked of ``pwcf.training.train``, on the 60,000 training images of Fashion-MNIST."""

    metric: str | None
    """None: standard training"""
    eps: float | None
    epochs: int = 8
    batch: int = 128
    lr: float = 2e-3
    inner_steps: int = 7
    seed: int = 0
    architecture: str = "cnn"


RECIPES = {
    "fashion-standard": Recipe(None, None),
    "fashion-linf": Recipe("linf", 0.1),
    "fashion-l2": Recipe("l2", 1.5),
    "fashion-l1": Recipe("l1", 12.0),
}
