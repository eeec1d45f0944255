"""Samples as people have them (tensors, NumPy arrays, lists, data sets, loaders) as two tensors, images and labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pwcf._common.text import brief
from pwcf.models import Classifier

Images = Tensor | np.ndarray[Any, Any] | Iterable[Any]
"""(n, ...): a tensor, an array, a list of images; or a DataLoader or Dataset that gives images with labels"""
Labels = Tensor | np.ndarray[Any, Any] | Iterable[int]
"""(n,) integers"""


def read_samples(classifier: Classifier, images: Images, labels: Labels | None) -> tuple[Tensor, Tensor]:
    """Images and labels as tensors. Given tensors stay as they are; all else goes to the model's device and dtype.

    Args:
        classifier: the model they are for.
        images: (n, ...), or pairs of images and labels.
        labels: (n,); None where images come with theirs.
    """
    if isinstance(images, Tensor) and (labels is None or isinstance(labels, Tensor)):
        if labels is None:
            raise TypeError(
                "labels: expected one label per image, found none; only a DataLoader or Dataset has its own"
            )
        return images, labels
    if not hasattr(images, "__iter__") and not hasattr(images, "__getitem__"):
        raise TypeError(
            f"images: expected a tensor, an array, a list, a DataLoader or a Dataset, found {type(images).__name__}"
        )
    if labels is None:
        read = _read_pairs(images)
    elif _gives_pairs(images):
        raise TypeError(f"labels: expected none beside a {type(images).__name__}, which has its own; leave them out")
    else:
        read = _stacked("images", images), _stacked("labels", labels)
    device, dtype = _place_of(classifier, read[0])
    x, y = read
    if not isinstance(images, Tensor):
        x = x.to(device, dtype if x.is_floating_point() else None)
    return x, y if isinstance(labels, Tensor) else y.to(x.device)


def _gives_pairs(images: object) -> bool:
    return isinstance(images, (torch.utils.data.DataLoader, torch.utils.data.Dataset))


def _place_of(classifier: Classifier, images: Tensor) -> tuple[torch.device, torch.dtype]:
    """Device and dtype of the model's weights; NumPy's float64 is hardly ever meant."""
    owner = getattr(classifier.model, "__self__", classifier.model)
    weights = [*owner.parameters(), *owner.buffers()] if isinstance(owner, nn.Module) else []
    dtype = next((each.dtype for each in weights if each.is_floating_point()), torch.float32)
    return weights[0].device if weights else images.device, torch.float64 if dtype == torch.float64 else torch.float32


def _read_pairs(samples: Any) -> tuple[Tensor, Tensor]:
    """Of a loader batch by batch, of a data set sample by sample."""
    images: list[Tensor] = []
    labels: list[Tensor] = []
    shape: tuple[int, ...] | None = None
    for number, pair in enumerate(_items(samples)):
        if not isinstance(pair, (list, tuple)) or len(pair) < 2:
            raise TypeError(
                f"images: expected pairs (images, labels), found {_kind(pair)} (item {number}); wrap the set"
            )
        image, label = _as_tensor("images", pair[0], number), _as_tensor("labels", pair[1], number)
        if label.dim() == 0:
            image, label = image.unsqueeze(0), label.unsqueeze(0)
        if label.dim() != 1 or label.shape != image.shape[:1]:
            raise ValueError(
                f"labels: expected a label for each image, found shape {tuple(label.shape)} for images of shape "
                f"{tuple(image.shape)} (item {number}); classes are integers, not one-hot rows"
            )
        shape = _one_shape(shape, tuple(image.shape[1:]), number)
        images.append(image)
        labels.append(label)
    if not images:
        raise ValueError("images: expected samples, found none in the set")
    return torch.cat(images), torch.cat(labels)


def _items(samples: Any) -> Iterator[Any]:
    """A Dataset without ``__iter__`` need not say where it ends."""
    if not hasattr(samples, "__iter__") and hasattr(samples, "__len__"):
        return (samples[i] for i in range(len(samples)))
    return iter(samples)


def _stacked(name: str, values: Any) -> Tensor:
    """An array or a list of one shape."""
    if isinstance(values, (Tensor, np.ndarray)):
        return _as_tensor(name, values, 0)
    if not hasattr(values, "__iter__"):
        raise TypeError(f"{name}: expected a tensor, an array or a list, found {_kind(values)}")
    parts = [_as_tensor(name, value, number) for number, value in enumerate(values)]
    shape: tuple[int, ...] | None = None
    for number, part in enumerate(parts):
        shape = _one_shape(shape, tuple(part.shape), number, name)
    return torch.stack(parts) if parts else torch.zeros(0, dtype=torch.int64)


def _one_shape(
    shape: tuple[int, ...] | None, found: tuple[int, ...], number: int, name: str = "images"
) -> tuple[int, ...]:
    if shape is not None and found != shape:
        raise ValueError(f"{name}: expected one shape, found {shape} and {found} (item {number}); resize or crop them")
    return found


def _as_tensor(name: str, value: Any, number: int) -> Tensor:
    """A copy of what is no tensor: arrays are written to by others."""
    if isinstance(value, Tensor):
        return value
    try:
        return torch.tensor(value)
    except (TypeError, ValueError, RuntimeError):
        hint = "; give the set a transform to tensors in [0, 1], such as ToTensor()" if name == "images" else ""
        expected = "the numbers of classes" if isinstance(value, str) and name == "labels" else "tensors or arrays"
        raise TypeError(f"{name}: expected {expected}, found {_kind(value)} (item {number}){hint}") from None


def _kind(value: object) -> str:
    kind = type(value)
    if isinstance(value, dict):
        return f"a dict of {brief(list(value))}"
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
