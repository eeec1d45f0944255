"""The zoo's images: the first 200 of the test set of Fashion-MNIST (MIT licence, beside the file)."""

from __future__ import annotations

import safetensors.torch
import torch
from torch import Tensor

from pwcf.zoo.files import read

DATA = "fashion-mnist"
"""name of the set, as in ``--data zoo:fashion-mnist``"""
CLASSES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)


def load_images() -> tuple[Tensor, Tensor]:
    """Load the 200 images, in [0, 1], and their labels.

    Returns:
        Images (200, 1, 28, 28), float32, and labels (200,), int64.
    """
    images, labels = stored_images()
    return images.to(torch.float32) / 255, labels.to(torch.int64)


def stored_images() -> tuple[Tensor, Tensor]:
    """Load the same images and labels as stored, in 8 bits.

    Returns:
        Images (200, 1, 28, 28) and labels (200,), both uint8.
    """
    stored = safetensors.torch.load(read(f"{DATA}.safetensors"))
    return stored["images"], stored["labels"]
