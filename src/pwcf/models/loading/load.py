"""A model by its spec: built by the form it is named in, put on its device, wrapped, and identified by a fingerprint.

A new form of model is one more line in ``FORMS`` and the function from ModelRequest to BuiltModel that it names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from pwcf._common.text import describe_error
from pwcf.models.classifier import Classifier, Logits
from pwcf.models.loading import exported, hubs, onnx, python_code
from pwcf.models.loading.fingerprint import fingerprint
from pwcf.models.loading.request import BuiltModel, ModelError, ModelRequest, PerChannel
from pwcf.models.loading.weights import refuse_as_model

_DEFAULT_BOUNDS = (0.0, 1.0)

Build = Callable[[ModelRequest], BuiltModel]


@dataclass(frozen=True)
class Form:
    """One way to name a model."""

    spec: str
    """what users write"""
    about: str
    """one line of help"""
    build: Build
    prefix: str | None = None
    """specs that begin with it and a colon are of this form"""
    ending: str | None = None
    """specs that end with it are of this form"""


FORMS = (
    Form(
        "package.module:callable",
        "a module, a function of images to logits, or a factory without arguments",
        python_code.build,
    ),
    Form(
        "path/to/file.py:callable", "the same, from a file; with --weights its state dict is loaded", python_code.build
    ),
    Form(
        "zoo:NAME",
        "a small network that comes with pwcf (pwcf zoo), or with --weights FILE its architecture",
        hubs.build_zoo,
        prefix="zoo",
    ),
    Form(
        "timm:NAME",
        "a pretrained model of timm, or with --weights FILE one of its architectures",
        hubs.build_timm,
        prefix="timm",
    ),
    Form(
        "torchvision:NAME",
        "a pretrained model of torchvision, or with --weights FILE one of its architectures",
        hubs.build_torchvision,
        prefix="torchvision",
    ),
    Form(
        "hf:NAME",
        "an image classifier of transformers, from the Hugging Face hub or a folder",
        hubs.build_hugging_face,
        prefix="hf",
    ),
    Form(
        "robustbench:[DATASET/THREAT/]NAME",
        "a model of RobustBench, for cifar10/Linf unless said otherwise",
        hubs.build_robustbench,
        prefix="robustbench",
    ),
    Form("FILE.pt2", "a program saved by torch.export.save", exported.build, ending=".pt2"),
    Form("FILE.onnx", "an ONNX model, turned into PyTorch so that gradients flow", onnx.build, ending=".onnx"),
)
# Files of weights, or pickled modules: no form of model, but often given as one.
_WEIGHTS_ENDINGS = (".pt", ".pth", ".safetensors", ".ckpt", ".bin", ".pkl", ".pickle")


def list_kinds() -> list[tuple[str, str]]:
    """(form, what it is in one line) of every form of model, for help texts."""
    return [(form.spec, form.about) for form in FORMS]


def parse_spec(spec: str) -> tuple[Build, str]:
    """(the function that builds the model, what the spec says behind its prefix)."""
    prefix, colon, rest = spec.partition(":")
    ending = Path(spec).suffix.lower()
    for form in FORMS:
        if colon and prefix == form.prefix:
            if not rest:
                raise ModelError(f"model {spec}: expected a name behind {prefix}:, found none; write {prefix}:NAME")
            return form.build, rest
    for form in FORMS:
        if ending and ending == form.ending:
            return form.build, spec
    if ending in _WEIGHTS_ENDINGS:
        return refuse_as_model, spec
    if colon:
        return python_code.build, spec
    if ending == ".py":
        raise ModelError(f"model {spec}: expected what to take from the file, found none; write {spec}:callable")
    forms = ", ".join(form.spec for form in FORMS)
    raise ModelError(f"model: expected one of {forms}, found {spec!r}; name the model in one of these forms")


@dataclass(frozen=True)
class LoadedModel:
    """A classifier and what identifies it."""

    classifier: Classifier
    """in eval mode, on its device"""
    fingerprint: str
    """SHA-256 of what the logits are computed from: tensors, code, normalisation; the same on every device"""
    about: str
    """one line for the record: what was loaded, with which version of which library, from which weights"""


def load_model(
    spec: str,
    *,
    weights: str | Path | None = None,
    bounds: tuple[float, float] = _DEFAULT_BOUNDS,
    mean: PerChannel = None,
    std: PerChannel = None,
    device: str = "cpu",
) -> LoadedModel:
    """Load the model that a spec names.

    Args:
        spec: ``package.module:callable``, ``file.py:callable``, ``timm:NAME``, ``FILE.onnx`` and so on; ``list_kinds``
            has all forms.
        weights: file of a state dict (.safetensors, .pt or .pth), in place of the weights the model comes with.
        bounds: smallest and largest value of an input entry.
        mean, std: the model is called with (x - mean) / std. Models of libraries bring their own unless these are
            given; 0 and 1 turn that off.
        device: where the model is put.

    Returns:
        A classifier from images (n, ...) to logits (n, classes), with its fingerprint and a line for the record.

    Raises:
        ModelError: whatever goes wrong, in one line.
    """
    build, name = parse_spec(spec)
    request = ModelRequest(spec, name, None if weights is None else Path(weights), _checked_device(device))
    built = build(request)
    if isinstance(built.model, Classifier):
        classifier = _own_classifier(built.model, bounds, mean, std, spec)
    elif mean is None and std is None:
        classifier = _wrap(built.model, bounds, built.mean, built.std)
    else:
        classifier = _wrap(built.model, bounds, mean, std)
    _prepare(classifier.model, request)
    found = fingerprint(classifier, built.name, built.content, built.own)
    return LoadedModel(classifier, found, ", ".join([*built.about, *_normalisation_note(classifier)]))


def _wrap(model: Logits, bounds: tuple[float, float], mean: object, std: object) -> Classifier:
    try:
        return Classifier(model, bounds, _numbers("mean", mean), _numbers("std", std))
    except (TypeError, ValueError) as error:
        raise ModelError(str(error)) from error


def _normalisation_note(classifier: Classifier) -> list[str]:
    """For the record: which normalisation is used, the caller's or the library's."""
    mean, std = classifier.normalisation
    return [] if mean is None else [f"normalised with mean {mean} and std {std}"]


def _prepare(model: object, request: ModelRequest) -> None:
    """Put a module on its device and into eval mode; a function has neither."""
    if not isinstance(model, nn.Module):
        return
    try:
        model.to(request.device)
    except Exception as error:
        raise ModelError(
            f"device: expected one that the model can be put on, found {request.device!r} ({describe_error(error)}); "
            "take cpu"
        ) from error
    try:
        model.eval()
    except NotImplementedError:  # exported programs are fixed in eval mode and refuse the call
        for module in model.modules():
            module.training = False


def _own_classifier(
    classifier: Classifier, bounds: tuple[float, float], mean: PerChannel, std: PerChannel, spec: str
) -> Classifier:
    """The user's Classifier, which has its own bounds and normalisation: others on top of them are a mistake."""
    if mean is not None or std is not None:
        raise ModelError(f"mean, std: expected none for {spec}, a Classifier with its own; set them where it is made")
    if tuple(bounds) not in (_DEFAULT_BOUNDS, classifier.bounds):
        raise ModelError(
            f"bounds: expected {classifier.bounds}, those of the Classifier {spec}, found {bounds}; leave them out"
        )
    return classifier


def _checked_device(device: str) -> str:
    try:
        return str(torch.device(device))
    except (RuntimeError, TypeError) as error:
        raise ModelError(f"device: expected cpu, cuda, cuda:1 or mps, found {device!r}; write one of these") from error


def _numbers(name: str, value: object) -> PerChannel:
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
