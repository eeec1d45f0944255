"""Randomness of a sample's own: from the image itself, so that the company it is evaluated in changes nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch
from torch import Tensor


def seeds_of(images: Tensor, seed: int) -> list[int]:
    """One seed for every image (n, ...), from its values and ``seed``."""
    salt = seed.to_bytes(8, "little", signed=True)
    return [_digest(image.detach().cpu().contiguous().numpy().tobytes() + salt) for image in images]


def noise_of(seeds: Sequence[int], rows: int, like: Tensor) -> Tensor:
    """(rows, n) uniform in [-1, 1], of the dtype, device and n of ``like``: as many rows in turn from every seed."""
    per_seed = rows // len(seeds)
    parts = []
    for seed in seeds:
        generator = torch.Generator().manual_seed(seed)
        parts.append(2 * torch.rand(per_seed, like.shape[1], generator=generator) - 1)
    return torch.cat(parts).to(like)


class RowRng:
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


def _digest(data: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(data, digest_size=6).digest())
