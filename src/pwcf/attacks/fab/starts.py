"""Where runs start."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pwcf.attacks.fab.geometry import Box
from pwcf.metrics import Norm


def random_starts(
    metric: Norm, seeds: Sequence[int], image: Tensor, radius: Tensor, box: Box, scattered: bool = False
) -> Tensor:
    """(r, n) points at ``radius`` (r,) from the images in random directions, cut to the box.

    ``scattered``: at a random share of the radius.
    """
    directions, shares = [], []
    for seed in seeds:
        generator = torch.Generator().manual_seed(seed)
        if metric.exponent == torch.inf:
            directions.append(2 * torch.rand(image.shape[1], generator=generator) - 1)
        else:
            directions.append(torch.randn(image.shape[1], generator=generator))
        shares.append(torch.rand((), generator=generator))
    direction = torch.stack(directions).to(image)
    tiny = torch.finfo(image.dtype).tiny
    size = metric.norm(direction).clamp(min=tiny)
    length = radius.to(image)
    if scattered:
        length = length * torch.stack(shares).to(image)
    return box.clip(image + (length / size).unsqueeze(1) * direction)
