"""A model by its spec: built by the form it is named in, put on its device, wrapped, and known by a fingerprint."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from pwcf.models.classifier import Classifier, Logits
from pwcf.models.loading.built import Built, Normal, Wanted
from pwcf.models.loading.errors import ModelError, said
from pwcf.models.loading.fingerprint import fingerprint
from pwcf.models.loading.kinds import place_of

_ANY_IMAGE = (0.0, 1.0)


@dataclass(frozen=True)
class LoadedModel:
    """A classifier and what identifies it."""

    classifier: Classifier
    """in eval mode, on its device"""
    fingerprint: str
    """SHA-256: another as soon as anything the logits are made of is seen to differ; the same on every device"""
    about: str
    """one line for the record: what was loaded, with which version of which library, from which weights"""


def load_model(
    spec: str,
    *,
    weights: str | Path | None = None,
    bounds: tuple[float, float] = _ANY_IMAGE,
    mean: Normal = None,
    std: Normal = None,
    device: str = "cpu",
) -> LoadedModel:
    """The model a spec names; see ``list_kinds`` for the forms. Whatever goes wrong is a ModelError.

    Args:
        spec: ``package.module:callable``, ``file.py:callable``, ``timm:NAME``, ``FILE.onnx`` and so on.
        weights: a state dict, as .safetensors, .pt or .pth, for architectures that come without or with others.
        bounds: smallest and largest value of an input entry.
        mean, std: the model is called with (x - mean) / std. Models of libraries bring their own unless both are given;
            0 and 1 turn that off.
        device: where the model is put.
    """
    place, rest = place_of(spec)
    wanted = Wanted(spec, rest, None if weights is None else Path(weights), _checked_device(device))
    built: Built = importlib.import_module(f"pwcf.models.loading.{place}").build(wanted)
    if isinstance(built.model, Classifier):
        classifier = _kept(built.model, bounds, mean, std, spec)
    elif mean is None and std is None:
        classifier = _wrapped(built.model, bounds, built.mean, built.std)
    else:
        classifier = _wrapped(built.model, bounds, mean, std)
    _settle(classifier.model, wanted)
    found = fingerprint(classifier, built.name, built.content)
    return LoadedModel(classifier, found, ", ".join([*built.about, *_told(classifier)]))


def _wrapped(model: Logits, bounds: tuple[float, float], mean: object, std: object) -> Classifier:
    try:
        return Classifier(model, bounds, _numbers("mean", mean), _numbers("std", std))
    except (TypeError, ValueError) as error:
        raise ModelError(str(error)) from error


def _told(classifier: Classifier) -> list[str]:
    """For the record: which normalisation is used, whoever it comes from."""
    mean, std = classifier.normalisation
    return [] if mean is None else [f"normalised with mean {mean} and std {std}"]


def _settle(model: object, wanted: Wanted) -> None:
    """In eval mode and on the device, where it is a module; a function has neither."""
    if not isinstance(model, nn.Module):
        return
    try:
        model.to(wanted.device)
    except Exception as error:
        raise ModelError(
            f"device: expected one that the model can be put on, found {wanted.device!r} ({said(error)}); take cpu"
        ) from error
    try:
        model.eval()
    except NotImplementedError:  # exported programs are fixed in eval mode and will not be told
        for module in model.modules():
            module.training = False


def _kept(classifier: Classifier, bounds: tuple[float, float], mean: Normal, std: Normal, spec: str) -> Classifier:
    """A classifier knows its bounds and normalisation; others on top of them cannot be meant."""
    if mean is not None or std is not None:
        raise ModelError(f"mean, std: expected none for {spec}, a Classifier with its own; set them where it is made")
    if tuple(bounds) not in (_ANY_IMAGE, classifier.bounds):
        raise ModelError(
            f"bounds: expected {classifier.bounds}, those of the Classifier {spec}, found {bounds}; leave them out"
        )
    return classifier


def _checked_device(device: str) -> str:
    try:
        return str(torch.device(device))
    except (RuntimeError, TypeError) as error:
        raise ModelError(f"device: expected cpu, cuda, cuda:1 or mps, found {device!r}; write one of these") from error


def _numbers(name: str, value: object) -> Normal:
    """A float or a list of floats: 0 and 0.0, a tuple and a list are the same normalisation, with one fingerprint."""
    if value is None:
        return None
    try:
        found = torch.as_tensor(value, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ModelError(f"{name}: expected a number or one per channel, found {value!r}; give numbers") from error
    if found.dim() > 1 or found.numel() == 0:
        raise ModelError(f"{name}: expected a number or one per channel, found {value!r}; give a number or a list")
    numbers: float | list[float] = found.tolist()
    return numbers
