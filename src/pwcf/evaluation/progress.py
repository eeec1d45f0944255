"""How far an evaluation has come: what a callback of ``evaluate`` hears, for trackers and for people."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class EvaluationProgress:
    """The statistics of the samples that are done; NaN where there are none to be over."""

    samples: int
    """of the whole evaluation"""
    done: int
    clean_accuracy: float
    """of those that are done"""
    attacked: int
    found: int
    converged: int
    """min-radius"""
    mean_radius: float
    """min-radius: of those found"""
    robust_accuracy: float
    """max-loss: of those that are done"""
    passes: float
    """mean of attacked samples"""
    seconds: float

    def numbers(self) -> dict[str, float]:
        """What is known, by name: as trackers such as W&B, MLflow and TensorBoard log it."""
        return {name: float(value) for name, value in asdict(self).items() if math.isfinite(value)}


Callback = Callable[[EvaluationProgress], object]
