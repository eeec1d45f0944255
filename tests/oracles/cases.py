"""Instances with exact answers: random linear classifiers and small trained ReLU networks, float64, in [0, 1]."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from oracles.linear import unboxed_radii

Array = NDArray[np.float64]
# Box inactive: how far images are from the middle and how far their answers may be from them; less than 0.5 in all.
FARTHEST, LARGEST_MOVE = 0.15, 0.3


@dataclass(frozen=True)
class LinearCase:
    """f(x) = Wx + b with images and their classes."""

    W: Array
    b: Array
    images: Array
    labels: NDArray[np.int64]

    def model(self, dtype: torch.dtype = torch.float64) -> nn.Module:
        layer = nn.Linear(self.W.shape[1], self.W.shape[0], dtype=dtype).requires_grad_(False)
        layer.weight.copy_(torch.from_numpy(self.W))
        layer.bias.copy_(torch.from_numpy(self.b))
        return layer

    def tensors(self, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
        return torch.from_numpy(self.images).to(dtype), torch.from_numpy(self.labels)


def linear_case(n: int, classes: int, rows: int, box_active: bool, seed: int | list[int]) -> LinearCase:
    """Weights whose size differs by class and by entry, so that the largest logit is not always the nearest class.

    Box inactive: images so near the middle of the box that even the l1 move, one single entry, stays inside. Active:
    images pushed towards their class by different amounts, with a third of the entries at a bound.
    All numbers are float32 values, so that a model in single precision has the same exact answer.
    """
    draw = np.random.default_rng(seed)
    size = np.exp(draw.uniform(-0.7, 0.7, (classes, 1)) + 0.5 * draw.standard_normal((1, n)))
    W = _single(size * draw.standard_normal((classes, n)))
    if box_active:
        images = draw.uniform(-0.25, 1.25, (rows, n)).clip(0, 1)
        aim = np.tanh(W - W.mean(0))[draw.integers(classes, size=rows)]
        images = (images + draw.uniform(0, 0.5, (rows, 1)) * aim).clip(0, 1)
        offset = 0.1 * n**0.5 * draw.standard_normal(classes)
    else:
        # Radii grow in proportion to these moves and offsets, so that one factor keeps images and answers inside.
        move, offset = draw.standard_normal((rows, n)) / n**0.5, 0.5 * draw.standard_normal(classes)
        labels = (move @ W.T + offset).argmax(1)
        nearest = [unboxed_radii(x, int(y), W, offset, 1.0).min() for x, y in zip(move, labels, strict=True)]
        scale = min(LARGEST_MOVE / max(nearest), FARTHEST / np.abs(move).max())
        images, offset = 0.5 + scale * move, scale * offset
    images, b = _single(images), _single(offset - 0.5 * W.sum(1))
    labels = (images @ W.T + b).argmax(1)
    return LinearCase(W, b, images, labels)


def _single(values: Array) -> Array:
    return values.astype(np.float32).astype(np.float64)


def blobs(n: int, classes: int, rows: int, seed: int, spread: float = 0.12, centres: int = 3) -> tuple[Tensor, Tensor]:
    """Points of a mixture of Gaussians in [0, 1]^n, ``centres`` for each class."""
    draw = torch.Generator().manual_seed(seed)
    middle = 0.2 + 0.6 * torch.rand(classes, centres, n, generator=draw, dtype=torch.float64)
    labels = torch.arange(rows) % classes
    which = torch.randint(centres, (rows,), generator=draw)
    noise = torch.randn(rows, n, generator=draw, dtype=torch.float64)
    return (middle[labels, which] + spread * noise).clamp(0, 1), labels


def trained_mlp(widths: tuple[int, ...], seed: int, steps: int = 300) -> tuple[nn.Sequential, Tensor, Tensor]:
    """A ReLU network trained on blobs, and fresh correctly classified points of the same mixture with their labels."""
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for wide, narrow in pairwise(widths):
        layers += [nn.Linear(wide, narrow, dtype=torch.float64), nn.ReLU()]
    net = nn.Sequential(*layers[:-1])
    points, labels = blobs(widths[0], widths[-1], 1000, seed)
    seen, unseen = slice(0, 700), slice(700, None)
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(steps):
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(points[seen]), labels[seen]).backward()
        optimiser.step()
    net.requires_grad_(False)
    right = net(points[unseen]).argmax(1) == labels[unseen]
    return net, points[unseen][right], labels[unseen][right]
