"""Reproducible data for the random instances: the same numbers on every platform and library version."""

from __future__ import annotations

import math
import random

import torch
from torch import Tensor


def uniform(seed: int, *shape: int, low: float = -1.0, high: float = 1.0) -> Tensor:
    """Uniform numbers in [low, high), float64, from Python's own (documented, stable) generator."""
    source = random.Random(seed)
    values = [source.random() for _ in range(math.prod(shape))]
    return low + (high - low) * torch.tensor(values, dtype=torch.float64).reshape(shape)


def signs(seed: int, n: int) -> Tensor:
    """n random signs, float64."""
    return torch.where(uniform(seed, n) < 0, -1.0, 1.0).to(torch.float64)


def orthogonal(seed: int, m: int) -> Tensor:
    """An orthogonal (m, m) matrix."""
    q: Tensor = torch.linalg.qr(uniform(seed, m, m))[0]
    return q


def make_orthogonal_to(matrices: Tensor, direction: Tensor) -> Tensor:
    """Subtract from matrices[i] its component along ``direction``, in the Euclidean inner product."""
    axes = tuple(range(1, matrices.dim()))
    along = (matrices * direction).sum(axes, keepdim=True) / (direction * direction).sum()
    return matrices - along * direction
