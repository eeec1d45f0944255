"""What is asked of every form of model, and what each gives back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pwcf.models.classifier import Classifier, Logits

Normal = float | list[float] | None


@dataclass(frozen=True)
class Wanted:
    """One model as the caller asks for it."""

    spec: str
    """as it was given"""
    rest: str
    """the spec behind its prefix ``timm:``, ``hf:`` and so on; the whole spec where it has none"""
    weights: Path | None
    device: str


@dataclass(frozen=True)
class Built:
    """A model as one of the forms makes it, not yet on its device."""

    model: Logits | Classifier
    name: str
    """of the architecture, part of the fingerprint"""
    about: tuple[str, ...]
    """for the record: where the model comes from, by name and version, never by path"""
    mean: Sequence[float] | None = None
    """of the normalisation the library says its models are trained behind"""
    std: Sequence[float] | None = None
    content: bytes = b""
    """what the function is made of besides its tensors: the file of an exported program"""
