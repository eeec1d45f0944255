"""Models that take batches of one size only, served with any number of rows."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


class FixedBatch(nn.Module):
    """Calls the model with exactly ``rows`` rows at a time; what the last call lacks is filled up and thrown away."""

    def __init__(self, model: Callable[[Tensor], Tensor], rows: int) -> None:
        super().__init__()
        self.model, self.rows = model, rows

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self._padded(some)[: some.shape[0]] for some in torch.split(x, self.rows)])

    def _padded(self, some: Tensor) -> Tensor:
        lacking = self.rows - some.shape[0]
        if lacking == 0:
            return self.model(some)
        # An image the model knows how to treat, rather than zeros, which may be no image. No rows: only shapes count.
        filling = some[-1:].detach() if some.shape[0] else some.new_zeros(1, *some.shape[1:])
        return self.model(torch.cat([some, filling.expand(lacking, *some.shape[1:])]))


def told(rows: int) -> str:
    """For the record: why it is slow."""
    return f"made for batches of {rows}, so called with {rows} {'row' if rows == 1 else 'rows'} at a time"
