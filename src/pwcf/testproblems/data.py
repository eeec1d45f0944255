"""What problems are built from: vectors, row by row products, and random data.

The random data are the same numbers on every platform and library version.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import torch
from torch import Tensor


def vector(values: Sequence[float]) -> Tensor:
    """A float64 vector."""
    return torch.tensor(list(values), dtype=torch.float64)


def full(n: int, value: float) -> Tensor:
    """The float64 vector (value, ..., value) of length n."""
    return torch.full((n,), value, dtype=torch.float64)


def times_rows(x: Tensor, matrix: Tensor) -> Tensor:
    """(b, n), (m, n) -> (b, m): matrix @ x for each row x; the value of a row does not depend on b."""
    return (x[:, None, :] * matrix.to(x)).sum(-1)


def largest(*pieces: Tensor) -> Tensor:
    """The pointwise maximum of tensors of equal shape."""
    return torch.stack(pieces, -1).amax(-1)


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
