"""Random numbers of every sample's own, however many samples are beside it and when they leave."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class Draws:
    """One generator per row. They are drawn from for many queries at once: a call for each costs microseconds."""

    def __init__(self, seeds: Sequence[int], device: torch.device) -> None:
        # On the CPU wherever the images are: a sample has the same numbers on all devices.
        self.generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        self.device = device

    def uniform(self, *shape: int) -> Tensor:
        """(rows, *shape) in [0, 1), float32."""
        drawn = [torch.rand(shape, generator=generator, dtype=torch.float32) for generator in self.generators]
        return torch.stack(drawn).to(self.device)

    def keep(self, rows: Tensor) -> None:
        self.generators = [self.generators[row] for row in rows.tolist()]
