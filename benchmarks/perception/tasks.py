"""Networks, images and the distance that are measured."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from realdata import find_zoo, first_correct
from torch import Tensor, nn

import pwcf
from pwcf.metrics import Metric

CIFAR = ("cifar10_resnet4b_linf2", "cifar10_cnn_a_adv4")
IMAGENET = "imagenet_efficientnet_lite0"
NETS = (*CIFAR, IMAGENET)


@dataclass(frozen=True)
class Task:
    """A net and images it classifies correctly."""

    name: str
    net: nn.Module
    images: Tensor
    labels: Tensor


def zoo() -> Any:
    found = find_zoo()
    if found is None:
        raise SystemExit("no zoo.py in the folder of real networks: name that folder in PWCF_REALDATA")
    return found


def load(name: str, count: int) -> Task:
    """The first ``count`` images that the net classifies correctly; of the 80 of ImageNet it does 74."""
    net = zoo().load_net(name)
    if name != IMAGENET:
        images, labels, _ = first_correct(zoo(), net, "cifar10", count)
        return Task(name, net, images, labels)
    images, labels = zoo().load_images("imagenet80", n=80)
    with torch.no_grad():
        correct = (torch.cat([net(some) for some in images.split(16)]).argmax(1) == labels).nonzero().squeeze(1)
    return Task(name, net, images[correct][:count], labels[correct][:count])


def folder() -> Path:
    """LPIPS's weights."""
    return Path(zoo().__file__).parent / "lpips"


def distance() -> Metric:
    """PD over AlexNet's features."""
    return pwcf.metrics.perceptual(weights=folder() / "alexnet_features.pt")
