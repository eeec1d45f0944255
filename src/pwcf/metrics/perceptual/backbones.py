"""Networks whose features are compared: LPIPS's three, those of a library, or a module; and their weights from files.

Weights are read from files on this machine, without running what is in them, and named by their checksum.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pwcf._common.files import file_checksum
from pwcf.metrics.perceptual.features import Features

AnyPath = str | os.PathLike[str]
LIBRARIES = ("torchvision", "timm")
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
WEIGHTS_VARIABLE = "PWCF_WEIGHTS"
# Anything else in such a file is no weights: a page that says the download failed, for instance.
WEIGHTS_ENDINGS = ("pt", "pth")
_ACTIVATIONS = (
    nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.PReLU, nn.ELU, nn.CELU, nn.SELU, nn.GELU, nn.SiLU, nn.Mish, nn.Hardswish,
    nn.Softplus, nn.Sigmoid, nn.Tanh,
)  # fmt: skip


@dataclass(frozen=True)
class Backbone:
    """Features, and a description of the network that computes them."""

    features: Features
    about: str


def known(name: str, weights: AnyPath | None, layers: Sequence[str] | None = None) -> Backbone:
    """Load one of the three LPIPS networks, with weights from a file."""
    path = find_weights(f"weights of {name}", f"{name}_features", f"{name}*") if weights is None else weights
    network = NETWORKS[name].build()
    _load(network, name, path)
    features = Features(network, layers or NETWORKS[name].layers, IMAGENET_MEAN, IMAGENET_STD)
    return Backbone(features, f"{name}, weights with SHA-256 {file_checksum(path)}...")


def from_library(name: str, weights: AnyPath | None, layers: Sequence[str] | None = None) -> Backbone:
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
    """Wrap a user's module, which is called with (x - mean) / std."""
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


def _load(network: nn.Module, name: str, path: AnyPath) -> None:
    """Load a file's weights into the network; weights the network does not have (a classifier's head) are ignored."""
    state, own = load_weights("weights", path), network.state_dict()
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


# ---- the networks of LPIPS, as far as it uses them. Attribute names are those of torchvision's weights ---------------


class Convolutional(nn.Module):
    """``features`` of a convolutional network, without its classifier."""

    def __init__(self, layers: Sequence[nn.Module]) -> None:
        super().__init__()
        self.features = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.features(x)
        return out


class Fire(nn.Module):
    """SqueezeNet's block: 1 x 1 convolution, then 1 x 1 and 3 x 3 side by side."""

    def __init__(self, c_in: int, squeezed: int, expanded: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(c_in, squeezed, 1)
        self.expand1x1 = nn.Conv2d(squeezed, expanded, 1)
        self.expand3x3 = nn.Conv2d(squeezed, expanded, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.squeeze(x).relu()
        return torch.cat([self.expand1x1(x), self.expand3x3(x)], 1).relu()


def alexnet() -> Convolutional:
    """AlexNet's convolutions."""
    relu, pool = nn.ReLU, nn.MaxPool2d
    return Convolutional([
        nn.Conv2d(3, 64, 11, 4, 2), relu(), pool(3, 2),
        nn.Conv2d(64, 192, 5, 1, 2), relu(), pool(3, 2),
        nn.Conv2d(192, 384, 3, 1, 1), relu(),
        nn.Conv2d(384, 256, 3, 1, 1), relu(),
        nn.Conv2d(256, 256, 3, 1, 1), relu(),
    ])  # fmt: skip


def vgg16() -> Convolutional:
    """VGG-16's convolutions."""
    layers: list[nn.Module] = []
    c_in = 3
    for block, (count, c_out) in enumerate(((2, 64), (2, 128), (3, 256), (3, 512), (3, 512))):
        layers += [nn.MaxPool2d(2, 2)] if block else []
        for _ in range(count):
            layers += [nn.Conv2d(c_in, c_out, 3, 1, 1), nn.ReLU()]
            c_in = c_out
    return Convolutional(layers)


def squeezenet1_1() -> Convolutional:
    """SqueezeNet 1.1's convolutions."""

    def pool() -> nn.Module:
        return nn.MaxPool2d(3, 2, ceil_mode=True)

    return Convolutional([
        nn.Conv2d(3, 64, 3, 2), nn.ReLU(), pool(),
        Fire(64, 16, 64), Fire(128, 16, 64), pool(),
        Fire(128, 32, 128), Fire(256, 32, 128), pool(),
        Fire(256, 48, 192), Fire(384, 48, 192), Fire(384, 64, 256), Fire(512, 64, 256),
    ])  # fmt: skip


@dataclass(frozen=True)
class LpipsNetwork:
    """A network that LPIPS measures with."""

    lpips: str
    """what LPIPS calls it"""
    layers: tuple[str, ...]
    """whose outputs it compares"""
    channels: tuple[int, ...]

    def build(self) -> Convolutional:
        return _BUILD[self.lpips]()


def _named(*places: int) -> tuple[str, ...]:
    return tuple(f"features.{place}" for place in places)


_BUILD = {"alex": alexnet, "vgg": vgg16, "squeeze": squeezenet1_1}
NETWORKS = {
    "alexnet": LpipsNetwork("alex", _named(1, 4, 7, 9, 11), (64, 192, 384, 256, 256)),
    "vgg16": LpipsNetwork("vgg", _named(3, 8, 15, 22, 29), (64, 128, 256, 512, 512)),
    "squeezenet1_1": LpipsNetwork("squeeze", _named(1, 4, 7, 9, 10, 11, 12), (64, 128, 256, 384, 384, 512, 512)),
}


# ---- files of weights ---------------------------------------------------------------------------------------------


def weight_folders() -> list[Path]:
    """Return the folders searched for weights: those in PWCF_WEIGHTS, and torch's download cache."""
    named = [Path(folder) for folder in os.environ.get(WEIGHTS_VARIABLE, "").split(os.pathsep) if folder]
    return [*named, Path(torch.hub.get_dir()) / "checkpoints"]


def find_weights(what: str, *patterns: str, also: list[Path] | None = None) -> Path:
    """Find the first file that matches one of the patterns (without suffix) in the weight folders and in ``also``."""
    places = [*weight_folders(), *(also or [])]
    for place in places:
        for pattern in patterns:
            for ending in WEIGHTS_ENDINGS:
                if found := sorted(place.glob(f"{pattern}.{ending}")):
                    return found[0]
    names = " or ".join(f"{pattern}.{ending}" for pattern in patterns for ending in WEIGHTS_ENDINGS)
    raise FileNotFoundError(
        f"{what}: no {names} in {', '.join(map(str, places))}. Nothing is downloaded unasked: give the file itself, "
        f"put it in one of these folders, or name its folder in {WEIGHTS_VARIABLE}."
    )


def package_folder(package: str, inside: str) -> list[Path]:
    """Return a folder of an installed package without importing it; an empty list if it is not installed."""
    spec = importlib.util.find_spec(package)
    return [] if spec is None or spec.origin is None else [Path(spec.origin).parent / inside]


def load_weights(argument: str, path: AnyPath) -> dict[str, Tensor]:
    """Read a state dict; only tensors are unpickled. Anything else raises an error that names the argument."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"{argument}: expected a file of weights, found none at {path}")
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise ValueError(
            f"{argument}: expected a file of weights that torch.load reads with weights_only=True, found {path}: "
            f"{type(error).__name__} {str(error).partition(chr(10))[0]}"
        ) from error
    if isinstance(state, dict) and isinstance(state.get("state_dict"), dict):
        state = state["state_dict"]
    if not isinstance(state, dict) or not state or not all(isinstance(value, Tensor) for value in state.values()):
        raise ValueError(f"{argument}: expected a state dict, names to tensors, found {type(state).__name__} in {path}")
    return state
