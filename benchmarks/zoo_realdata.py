"""The five real networks of these benchmarks as a zoo file for ``pwcf bench``::

    PWCF_REALDATA=... pwcf bench --zoo benchmarks/zoo_realdata.py --out results/bench

Of each the first test images that it classifies correctly.
"""

from __future__ import annotations

from rivals import nets
from torch import Tensor, nn

NETS = tuple(nets.DATASETS)

# The usual radii, as in rivals.accuracies (which cannot be imported without the rivals); of two the first.
_GREY = {"linf": 0.1, "l2": 1.5, "l1": 10.0}
_OF_DATASET = {"cifar10": {"linf": 2 / 255, "l2": 0.5, "l1": 12.0}, "mnist": _GREY, "fashion_mnist": _GREY}
EPS = {net: _OF_DATASET[dataset] for net, dataset in nets.DATASETS.items()}


def load(name: str, images: int) -> tuple[nn.Module, Tensor, Tensor]:
    """A net, its images and their labels."""
    task = nets.load(name, images)
    return task.net, task.images, task.labels
