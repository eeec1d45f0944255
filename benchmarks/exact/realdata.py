"""Real networks, which are not part of this repository: a folder with ``zoo.py``, by PWCF_REALDATA or beside it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from exact import REPOSITORY


def find_zoo() -> Any | None:
    """The module that loads them; None where the folder is absent."""
    folder = Path(os.environ.get("PWCF_REALDATA") or REPOSITORY.parent / "shared" / "realdata")
    if not (folder / "zoo.py").exists():
        return None
    sys.path.insert(0, str(folder))
    import zoo

    return zoo


def first_correct(zoo: Any, net: torch.nn.Module, dataset: str, count: int) -> tuple[Tensor, Tensor]:
    """The first ``count`` test images the net classifies correctly."""
    images, labels = zoo.load_images(dataset, n=4 * count + 20)
    right = torch.nonzero(net(images).argmax(1) == labels).flatten()[:count]
    return images[right], labels[right]
