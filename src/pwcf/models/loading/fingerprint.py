"""A model's fingerprint: it changes where tensors, code or structure of the model change.

Runs store it, so the same model must have the same fingerprint in every version of this package.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from pwcf.models.classifier import Classifier
from pwcf.models.loading.reached import reached, reached_code

# Types whose printed form is their value.
_PLAIN = (bool, int, float, str, tuple)
# Where an object lies in memory is no part of what it does.
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def fingerprint(classifier: Classifier, name: str, content: bytes = b"", own: bool = False) -> str:
    """SHA-256 of what the logits are computed from; the device does not matter.

    Args:
        classifier: the model with its bounds and normalisation.
        name: of its architecture.
        content: the file it was made from, if that is a program.
        own: whether the user's own code has made it: then all that it reaches counts. What libraries make is known by
            its structure and tensors, and records have their versions.
    """
    whole = hashlib.sha256()
    model = classifier.model
    for part in (name.encode(), content, *(reached(model) if own else _structure(model))):
        whole.update(hashlib.sha256(part).digest())  # of equal length each, so that no two lists run together
    buffers = model.named_buffers() if isinstance(model, nn.Module) else ()
    tensors = {**{f"buffer.{name}": value for name, value in buffers}, **classifier.state()}
    for key in sorted(tensors):
        _add(whole, key, tensors[key])
    return whole.hexdigest()


def code_fingerprint(function: object, values: bool = True) -> str:
    """SHA-256 of a metric, an attack or a model of the user's own.

    Args:
        function: the metric, the attack or the model.
        values: whether the values it computes with count, beside its code.
    """
    whole = hashlib.sha256()
    for part in reached(function) if values else reached_code(function):
        whole.update(hashlib.sha256(part).digest())
    return whole.hexdigest()


def _add(whole: hashlib._Hash, key: str, value: Tensor) -> None:
    value = value.to_dense() if value.layout is not torch.strided else value
    value = value.detach().cpu()
    whole.update(f"{key}|{value.dtype}|{tuple(value.shape)}|".encode())
    whole.update(hashlib.sha256(value.reshape(-1).view(torch.uint8).numpy().tobytes()).digest())


def _structure(model: object) -> Iterator[bytes]:
    """What weights do not tell of a module: strides, paddings, kinds of activation."""
    owner = getattr(model, "__self__", model)
    if isinstance(owner, nn.Module):
        for name, module in owner.named_modules():
            yield f"{name}|{_plain_attributes(module)}".encode()
        yield _ADDRESS.sub("", repr(owner)).encode()


def _plain_attributes(module: nn.Module) -> str:
    """Plain values among a module's attributes: a temperature, a number of steps."""
    held = {name: value for name, value in vars(module).items() if not name.startswith("_") and name != "training"}
    return repr(sorted((name, value) for name, value in held.items() if isinstance(value, _PLAIN)))
