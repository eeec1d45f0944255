"""Feature extractors from a name, a module or the classifier itself."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from pwcf._common.files import file_checksum
from pwcf.metrics.perceptual import weights as files
from pwcf.metrics.perceptual.features import Features
from pwcf.metrics.perceptual.networks import IMAGENET_MEAN, IMAGENET_STD, NETWORKS

Path = str | os.PathLike[str]
LIBRARIES = ("torchvision", "timm")
_ACTIVATIONS = (
    nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.PReLU, nn.ELU, nn.CELU, nn.SELU, nn.GELU, nn.SiLU, nn.Mish, nn.Hardswish,
    nn.Softplus, nn.Sigmoid, nn.Tanh,
)  # fmt: skip


@dataclass(frozen=True)
class Backbone:
    """Features, and in words what computes them."""

    features: Features
    about: str


def known(name: str, weights: Path | None, layers: Sequence[str] | None = None) -> Backbone:
    """One of the networks LPIPS knows, with weights from a file."""
    path = files.find(f"weights of {name}", f"{name}_features", f"{name}*") if weights is None else weights
    network = NETWORKS[name].build()
    _load(network, name, path)
    features = Features(network, layers or NETWORKS[name].layers, IMAGENET_MEAN, IMAGENET_STD)
    return Backbone(features, f"{name}, weights with SHA-256 {file_checksum(path)}...")


def from_library(name: str, weights: Path | None, layers: Sequence[str] | None = None) -> Backbone:
    """``"torchvision:resnet50"`` or ``"timm:resnet50"``: with the library's own weights, or with those in a file."""
    library, _, model = name.partition(":")
    try:
        module = importlib.import_module("torchvision.models" if library == "torchvision" else library)
    except (ImportError, RuntimeError) as error:  # a torchvision made for another torch raises the latter
        raise ImportError(f"backbone {name!r}: needs {library}, which does not import: {error}") from error
    try:
        if library == "torchvision":
            network = module.get_model(model, weights="DEFAULT" if weights is None else None)
        else:
            network = module.create_model(model, pretrained=weights is None)
    except (RuntimeError, ValueError) as error:
        raise ValueError(f"backbone {name!r}: {library} cannot make it: {error}") from error
    if weights is not None:
        _load(network, name, weights)
    told: dict[str, Any] = getattr(network, "pretrained_cfg", None) or {}
    mean, std = told.get("mean", IMAGENET_MEAN), told.get("std", IMAGENET_STD)
    chosen = layers or _library_layers(network) or default_layers(network)
    which = f"{library}'s own weights" if weights is None else f"weights with SHA-256 {file_checksum(weights)}..."
    return Backbone(Features(network, chosen, mean, std), f"{model} of {library}, {which}")


def from_module(
    network: nn.Module,
    layers: Sequence[str] | None,
    mean: Tensor | Sequence[float] | float | None,
    std: Tensor | Sequence[float] | float | None,
    about: str,
) -> Backbone:
    """A module of the user's own, called with (x - mean) / std."""
    if (mean is None) != (std is None):
        raise ValueError(f"mean, std: expected both or neither, found {'mean' if std is None else 'std'} alone")
    chosen = layers or default_layers(network)
    return Backbone(Features(network, chosen, 0.0 if mean is None else mean, 1.0 if std is None else std), about)


def default_layers(network: nn.Module) -> list[str]:
    """Its activations, as LPIPS takes them; where activations are no modules, its convolutions and linear layers.

    The last of these would be the logits, which are left out where there is anything else.
    """
    modules = [(name, module) for name, module in network.named_modules() if name]
    found = [name for name, module in modules if isinstance(module, _ACTIVATIONS)]
    found = found or [name for name, m in modules if isinstance(m, (nn.Conv1d, nn.Conv2d, nn.Conv3d))]
    # Attention does without calling the module of its last product: of a class of its own, below Linear.
    found = found or [name for name, m in modules if type(m) is nn.Linear][:-1]
    if not found:
        raise ValueError(
            "layers: expected names, for the network has neither activations, convolutions nor hidden linear layers "
            f"that are modules: it is a {type(network).__name__}"
        )
    return found


def _load(network: nn.Module, name: str, path: Path) -> None:
    """The file's weights into the network; what the file has beyond them (a classifier's head) is left out."""
    state, own = files.load("weights", path), network.state_dict()
    wrong = [key for key in own if key not in state or state[key].shape != own[key].shape]
    if wrong:
        raise ValueError(f"weights: expected those of {name}, found none that fit for {wrong[0]} in {path}")
    network.load_state_dict({key: state[key] for key in own})


def _library_layers(network: nn.Module) -> list[str]:
    """timm's networks say which of their layers end a stage."""
    stages = getattr(network, "feature_info", None)
    if stages is None:
        return []
    names = dict(network.named_modules())
    return [stage["module"] for stage in stages if stage.get("module") in names]
