"""The networks and images that are measured."""

from __future__ import annotations

import importlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

DATASETS = {
    "cifar10_kw_l2_36": "cifar10",
    "fmnist_kw_linf01": "fashion_mnist",
    "mnist_colt_linf01": "mnist",
    "cifar10_cnn_a_adv4": "cifar10",
    "cifar10_resnet4b_linf2": "cifar10",
}
"""Net to dataset, the cheapest nets first: this is the order of work."""


@dataclass(frozen=True)
class Task:
    """A net and the first ``n`` test images it classifies correctly."""

    name: str
    dataset: str
    net: nn.Module
    images: Tensor
    labels: Tensor
    test_index: Tensor


def zoo() -> Any:
    """The module that loads real networks; not part of this repository."""
    default = Path(__file__).resolve().parents[3] / "shared" / "realdata"
    folder = Path(os.environ.get("PWCF_REALDATA") or default)
    if not (folder / "zoo.py").is_file():
        raise SystemExit("no zoo.py in the folder of real networks: name that folder in PWCF_REALDATA")
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    return importlib.import_module("zoo")


def load(name: str, n: int) -> Task:
    """The task of net ``name``, images in the test set's own order."""
    loader = zoo()
    net = loader.load_net(name)
    # Enough for every net here: the least accurate is right on 54 % of the images.
    images, labels = loader.load_images(DATASETS[name], n=3 * n + 50)
    with torch.no_grad():
        chosen = (net(images).argmax(1) == labels).nonzero().squeeze(1)[:n]
    if len(chosen) < n:
        raise RuntimeError(f"{name}: only {len(chosen)} of {len(labels)} images are classified correctly, {n} asked")
    return Task(name, DATASETS[name], net, images[chosen].clone(), labels[chosen], chosen)
