"""The three networks LPIPS knows, as far as it uses them. Attribute names are those of torchvision's weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Convolutional(nn.Module):
    """``features`` of a convolutional network, without its classifier."""

    def __init__(self, layers: Sequence[nn.Module]) -> None:
        super().__init__()
        self.features = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.features(x)
        return out


class Fire(nn.Module):
    """SqueezeNet's block: 1 x 1 convolution, then 1 x 1 and 3 x 3 side by side."""

    def __init__(self, c_in: int, squeezed: int, expanded: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(c_in, squeezed, 1)
        self.expand1x1 = nn.Conv2d(squeezed, expanded, 1)
        self.expand3x3 = nn.Conv2d(squeezed, expanded, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.squeeze(x).relu()
        return torch.cat([self.expand1x1(x), self.expand3x3(x)], 1).relu()


def alexnet() -> Convolutional:
    relu, pool = nn.ReLU, nn.MaxPool2d
    return Convolutional([
        nn.Conv2d(3, 64, 11, 4, 2), relu(), pool(3, 2),
        nn.Conv2d(64, 192, 5, 1, 2), relu(), pool(3, 2),
        nn.Conv2d(192, 384, 3, 1, 1), relu(),
        nn.Conv2d(384, 256, 3, 1, 1), relu(),
        nn.Conv2d(256, 256, 3, 1, 1), relu(),
    ])  # fmt: skip


def vgg16() -> Convolutional:
    layers: list[nn.Module] = []
    c_in = 3
    for block, (count, c_out) in enumerate(((2, 64), (2, 128), (3, 256), (3, 512), (3, 512))):
        layers += [nn.MaxPool2d(2, 2)] if block else []
        for _ in range(count):
            layers += [nn.Conv2d(c_in, c_out, 3, 1, 1), nn.ReLU()]
            c_in = c_out
    return Convolutional(layers)


def squeezenet1_1() -> Convolutional:
    def pool() -> nn.Module:
        return nn.MaxPool2d(3, 2, ceil_mode=True)

    return Convolutional([
        nn.Conv2d(3, 64, 3, 2), nn.ReLU(), pool(),
        Fire(64, 16, 64), Fire(128, 16, 64), pool(),
        Fire(128, 32, 128), Fire(256, 32, 128), pool(),
        Fire(256, 48, 192), Fire(384, 48, 192), Fire(384, 64, 256), Fire(512, 64, 256),
    ])  # fmt: skip


@dataclass(frozen=True)
class Known:
    """A network LPIPS measures with."""

    lpips: str
    """what LPIPS calls it"""
    layers: tuple[str, ...]
    """whose outputs it compares"""
    channels: tuple[int, ...]

    def build(self) -> Convolutional:
        return _BUILD[self.lpips]()


def _named(*places: int) -> tuple[str, ...]:
    return tuple(f"features.{place}" for place in places)


_BUILD = {"alex": alexnet, "vgg": vgg16, "squeeze": squeezenet1_1}
NETWORKS = {
    "alexnet": Known("alex", _named(1, 4, 7, 9, 11), (64, 192, 384, 256, 256)),
    "vgg16": Known("vgg", _named(3, 8, 15, 22, 29), (64, 128, 256, 512, 512)),
    "squeezenet1_1": Known("squeeze", _named(1, 4, 7, 9, 10, 11, 12), (64, 128, 256, 384, 384, 512, 512)),
}
