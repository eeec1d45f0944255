"""Networks and images as tensors."""

from __future__ import annotations

import safetensors.torch
import torch
from torch import Tensor, nn

from pwcf.zoo.architectures import make
from pwcf.zoo.cards import names
from pwcf.zoo.files import read
from pwcf.zoo.recipes import RECIPES

DATA = "fashion-mnist"
"""the first 200 images of the test set of Fashion-MNIST (MIT licence, beside the file)"""
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


def weights_file(name: str) -> bytes:
    """The file of a network's weights, as it is shipped."""
    if name not in RECIPES:
        raise ValueError(f"zoo: expected one of {', '.join(names())}, found {name!r}")
    return read(f"{name}.safetensors")


def load_network(name: str) -> nn.Module:
    """A network with its weights, in eval mode: (n, 1, 28, 28) in [0, 1] to 10 logits.

    Weights are stored in half precision and used as float32; all figures are about these.
    """
    stored = safetensors.torch.load(weights_file(name))
    network = make(RECIPES[name].architecture)
    network.load_state_dict({key: value.to(torch.float32) for key, value in stored.items()})
    return network.eval()


def load_images() -> tuple[Tensor, Tensor]:
    """200 images (200, 1, 28, 28) in [0, 1], float32, and their labels (200,), int64."""
    images, labels = stored_images()
    return images.to(torch.float32) / 255, labels.to(torch.int64)


def stored_images() -> tuple[Tensor, Tensor]:
    """The same in 8 bits, as they are shipped."""
    stored = safetensors.torch.load(read(f"{DATA}.safetensors"))
    return stored["images"], stored["labels"]
