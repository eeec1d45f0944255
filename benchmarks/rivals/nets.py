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

OTHERS = {"cifar10": "cifar10", "mnist": "mnist", "fmnist": "fashion_mnist"}
"""Of other nets, by the first word of their names."""


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
    dataset = DATASETS.get(name) or OTHERS[name.split("_")[0]]
    images, labels, test_index = first_correct(zoo, net, dataset, n)
    return Task(name, dataset, net, images, labels, test_index)
