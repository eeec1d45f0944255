"""Forward and backward passes, counted per sample."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Passes:
    """How often the model was called, and differentiated, for each sample. Counted where it is called."""

    forward: Tensor
    """(n,) int64"""
    backward: Tensor
    """(n,) int64"""

    @classmethod
    def none(cls, n: int) -> Passes:
        return cls(torch.zeros(n, dtype=torch.int64), torch.zeros(n, dtype=torch.int64))

    @property
    def total(self) -> Tensor:
        """What a budget counts: forward plus backward."""
        return self.forward + self.backward

    def select(self, rows: Tensor) -> Passes:
        """Those of some samples (m,)."""
        return Passes(self.forward[rows], self.backward[rows])

    def add(self, samples: Tensor, forward: int = 0, backward: int = 0) -> None:
        """Count one batch; a sample that fills several rows counts once for each."""
        samples = samples.cpu()
        self.forward.index_add_(0, samples, torch.full_like(samples, forward))
        self.backward.index_add_(0, samples, torch.full_like(samples, backward))
