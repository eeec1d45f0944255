"""The networks and images that are measured."""

from __future__ import annotations

from dataclasses import dataclass

from realdata import find_zoo, first_correct
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


def load(name: str, n: int) -> Task:
    """The task of net ``name``, images in the test set's own order."""
    zoo = find_zoo()
    if zoo is None:
        raise SystemExit("no zoo.py in the folder of real networks: name that folder in PWCF_REALDATA")
    net = zoo.load_net(name)
    images, labels, test_index = first_correct(zoo, net, DATASETS[name], n)
    return Task(name, DATASETS[name], net, images, labels, test_index)
