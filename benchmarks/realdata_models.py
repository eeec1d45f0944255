"""The real networks as models of ``pwcf run``, by their names, and the files of their test sets::

pwcf run --model benchmarks/realdata_models.py:cifar10_cnn_a_adv --data ../shared/realdata/data/cifar10_test.npz ...
"""

from __future__ import annotations

from collections.abc import Callable

from realdata import find_zoo
from torch import nn


def __getattr__(name: str) -> Callable[[], nn.Module]:
    zoo = find_zoo()
    if zoo is None or name not in zoo.net_names():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def load() -> nn.Module:
        net: nn.Module = zoo.load_net(name)
        return net

    load.__name__ = load.__qualname__ = name
    return load
