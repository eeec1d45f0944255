"""Real networks, which are not part of this repository: a folder with ``zoo.py``, by PWCF_REALDATA or beside it."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

REPOSITORY = Path(__file__).resolve().parents[1]


def find_zoo(folder: Path | None = None) -> Any | None:
    """The module that loads them; None where the folder is absent."""
    folder = folder or Path(os.environ.get("PWCF_REALDATA") or REPOSITORY.parent / "shared" / "realdata")
    if not (folder / "zoo.py").is_file():
        return None
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    return importlib.import_module("zoo")


def first_correct(zoo: Any, net: nn.Module, dataset: str, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The first ``count`` test images the net classifies correctly, their labels and places in the test set."""
    # Enough for every net there is: the least accurate is right on 54 % of the images.
    images, labels = zoo.load_images(dataset, n=3 * count + 50)
    with torch.no_grad():
        chosen = (net(images).argmax(1) == labels).nonzero().squeeze(1)[:count]
    if len(chosen) < count:
        raise RuntimeError(f"{dataset}: only {len(chosen)} of {len(labels)} images are classified correctly")
    return images[chosen].clone(), labels[chosen], chosen
