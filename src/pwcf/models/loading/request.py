"""What every form of model is given, ``ModelRequest``, and what it returns, ``BuiltModel``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pwcf._common.errors import UserError
from pwcf._common.optional import import_optional
from pwcf.models.classifier import Classifier, Logits

PerChannel = float | list[float] | None
"""a mean or std: one number, or one per channel"""


class ModelError(UserError):
    """A model that cannot be loaded as it was asked for: one line that says what to do."""


@dataclass(frozen=True)
class ModelRequest:
    """One model as the caller asks for it."""

    spec: str
    """as it was given"""
    name: str
    """the spec behind its prefix ``timm:``, ``hf:`` and so on; the whole spec where it has none"""
    weights: Path | None
    device: str

    def file_with_weights(self) -> Path:
        """The file that the spec names, for forms whose files hold their own weights."""
        path = Path(self.spec)
        if self.weights is not None:
            raise ModelError(f"weights: expected none for {path.name}, which holds its own; leave them out")
        if not path.is_file():
            raise ModelError(f"model {path}: expected a file, found none; check the path")
        return path


@dataclass(frozen=True)
class BuiltModel:
    """A model as one of the forms makes it, not yet on its device."""

    model: Logits | Classifier
    name: str
    """of the architecture, part of the fingerprint"""
    about: tuple[str, ...]
    """for the record: where the model comes from, by name and version, never by path"""
    mean: Sequence[float] | None = None
    """of the normalisation that the library trains its models behind"""
    std: Sequence[float] | None = None
    content: bytes = b""
    """the file of a program: part of the fingerprint, as tensors do not tell what is done with them"""
    own: bool = False
    """whether the user's own code has made it"""


def import_library(module: str, spec: str, extra: str | None = None) -> Any:
    """Import a library that this form of model needs; a ModelError says what to install."""
    sentence = "{needed_by}: needs {package}, which cannot be imported ({reason}); pip install {install}"
    return import_optional(module, f"model {spec}", extra, error=ModelError, sentence=sentence)


class FixedBatch(nn.Module):
    """A model that takes batches of one size only, called with any number of rows.

    The last call is filled up to ``rows`` rows, and the logits of the filling are dropped. The names of this class and
    of its attributes are part of stored fingerprints.
    """

    def __init__(self, model: Callable[[Tensor], Tensor], rows: int) -> None:
        super().__init__()
        self.model, self.rows = model, rows

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self._padded(some)[: some.shape[0]] for some in torch.split(x, self.rows)])

    def _padded(self, some: Tensor) -> Tensor:
        lacking = self.rows - some.shape[0]
        if lacking == 0:
            return self.model(some)
        # An image the model knows how to treat, rather than zeros, which may be no image. No rows: only shapes count.
        filling = some[-1:].detach() if some.shape[0] else some.new_zeros(1, *some.shape[1:])
        return self.model(torch.cat([some, filling.expand(lacking, *some.shape[1:])]))


def with_batch_size(model: Logits, rows: int | None, about: tuple[str, ...]) -> tuple[Logits, tuple[str, ...]]:
    """(the model for any number of rows, its record with why it is slow); ``rows`` None: it takes any batch."""
    if rows is None:
        return model, about
    note = f"made for batches of {rows}, so called with {rows} {'row' if rows == 1 else 'rows'} at a time"
    return FixedBatch(model, rows), (*about, note)
