"""Perceptual distances by name: the paper's PD and LPIPS, with a network of your choice."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from torch import Tensor, nn

from pwcf._common.files import file_checksum
from pwcf.metrics.metric import Metric, register
from pwcf.metrics.perceptual.backbones import (
    LIBRARIES,
    NETWORKS,
    find_weights,
    from_library,
    from_module,
    known,
    load_weights,
    package_folder,
)
from pwcf.metrics.perceptual.features import FeatureDistance, Features
from pwcf.models import Classifier

# What networks that have a name expect: their mean and std are for these.
UNIT = (0.0, 1.0)
# LPIPS's own package has its heads, but not the networks.
_HEADS = "weights/v0.1"


def perceptual(
    backbone: str | nn.Module = "alexnet",
    *,
    p: int = 2,
    layers: Sequence[str] | None = None,
    weights: str | os.PathLike[str] | None = None,
    mean: Tensor | Sequence[float] | float | None = None,
    std: Tensor | Sequence[float] | float | None = None,
    name: str | None = None,
) -> Metric:
    """PD:  |phi(x) - phi(x')|_p  over the normalised intermediate features of a network (paper, eq. LPIPS Constraint).

    Args:
        backbone: "alexnet", "vgg16" or "squeezenet1_1" for images in [0, 1]; "self", the classifier that is evaluated;
            "torchvision:NAME" or "timm:NAME"; or a module.
        p: 2, or 1 for the l1 variant.
        layers: names of the modules whose outputs are compared; by default those of LPIPS, a library's stages, or all
            activations.
        weights: a file with the network's weights. By default the first matching file in the folders of PWCF_WEIGHTS
            or in torch's cache is used; timm and torchvision load their own weights and may download them.
        mean, std: only with a module, which is then called with (x - mean) / std.
        name: the metric's name in tables.

    Returns:
        A metric of two batches (b, ...) -> (b,).
    """
    if p not in (1, 2):
        raise ValueError(f"p: expected 1 or 2, found {p!r}")
    called = name or "pd" + ("-self" if backbone == "self" else "") + ("-l1" if p == 1 else "")
    if isinstance(backbone, str) and (mean is not None or std is not None):
        raise ValueError("mean, std: expected only with a module; a named backbone has its own")
    if isinstance(backbone, nn.Module):
        if weights is not None:
            raise ValueError("weights: expected only with a named backbone; load them into the module")
        found = from_module(backbone, layers, mean, std, f"features of a {type(backbone).__name__}")
    elif backbone == "self":
        if weights is not None:
            raise ValueError("weights: expected only with a named backbone; 'self' is the classifier as it is")
        return SelfDistance(called, p, None if layers is None else tuple(layers))
    elif backbone in NETWORKS:
        found = known(backbone, weights, layers)
    elif isinstance(backbone, str) and backbone.partition(":")[0] in LIBRARIES:
        found = from_library(backbone, weights, layers)
    else:
        raise ValueError(
            f"backbone: expected one of {', '.join(NETWORKS)}, 'self', 'torchvision:NAME', 'timm:NAME' or a module, "
            f"found {backbone!r}"
        )
    bounds = None if isinstance(backbone, nn.Module) else UNIT
    return FeatureDistance(found.features, called, p, about=f"PD, l{p} over {found.about}", bounds=bounds)


def lpips(
    network: str = "alexnet",
    *,
    weights: str | os.PathLike[str] | None = None,
    heads: str | os.PathLike[str] | None = None,
) -> FeatureDistance:
    """LPIPS v0.1 with its linear heads, for images in [0, 1].

    Args:
        network: "alexnet", "vgg16" or "squeezenet1_1" ("alex", "vgg" and "squeeze" mean the same).
        weights: a file with the network's weights; default as for ``perceptual``.
        heads: a file with the heads; default: lpips_lin_*_v0.1.pt from the same folders or from the package lpips.

    Returns:
        A metric of two batches (b, c, height, width) -> (b,): the squared distance, as LPIPS defines it.
    """
    short = {entry.lpips: name for name, entry in NETWORKS.items()}
    network = short.get(network, network)
    if network not in NETWORKS:
        raise ValueError(f"network: expected one of {', '.join(NETWORKS)}, found {network!r}")
    found = known(network, weights)
    entry = NETWORKS[network]
    if heads is None:
        beside = [Path(weights).parent] if weights is not None else []
        packaged = package_folder("lpips", _HEADS)
        try:
            heads = find_weights("LPIPS's heads", f"lpips_lin_{entry.lpips}_v0.1", also=beside)
        except FileNotFoundError:
            if not packaged:
                raise
            heads = packaged[0] / f"{entry.lpips}.pth"
    state = load_weights("heads", heads)
    scales = [_head(state, layer, channels, heads) for layer, channels in enumerate(entry.channels)]
    base = found.features
    features = Features(base.network, entry.layers, base.mean, base.std, scales)
    called = "lpips" if network == "alexnet" else f"lpips-{entry.lpips}"
    about = f"LPIPS v0.1 with {found.about}, heads with SHA-256 {file_checksum(heads)}..."
    return FeatureDistance(features, called, squared=True, about=about, bounds=UNIT)


def _head(state: dict[str, Tensor], layer: int, channels: int, path: object) -> Tensor:
    """(channels,) the weights of one layer."""
    head = state.get(f"lin{layer}.model.1.weight")
    if head is None or head.numel() != channels or bool((head < 0).any()):
        raise ValueError(f"heads: expected {channels} weights >= 0 as lin{layer}.model.1.weight in {path}")
    return head.flatten()


class SelfDistance(Metric):
    """PD over the features of the evaluated classifier, which ``evaluate`` binds."""

    network = True

    def __init__(self, name: str, p: int, layers: tuple[str, ...] | None) -> None:
        self._name, self.p, self.layers = name, p, layers

    @property
    def name(self) -> str:
        return self._name

    def __call__(self, reference: Tensor, candidate: Tensor) -> Tensor:
        raise ValueError(
            f"metric {self.name}: measures with the classifier; ask pwcf.evaluate, or use .bind(classifier)"
        )

    def bind(self, classifier: Classifier) -> Metric:
        model = classifier.model
        if not isinstance(model, nn.Module):
            raise TypeError(
                f"metric {self.name}: expected a classifier that is a torch.nn.Module, found {type(model).__name__}; "
                "give one to pwcf.metrics.perceptual"
            )
        mean, std = classifier.normalisation
        found = from_module(model, self.layers, mean, std, f"the classifier's own features ({type(model).__name__})")
        return FeatureDistance(found.features, self.name, self.p, about=f"PD, l{self.p} over {found.about}")


register("lpips", lpips)
register("lpips-vgg", lambda: lpips("vgg16"))
register("lpips-squeeze", lambda: lpips("squeezenet1_1"))
register("pd", perceptual)
register("pd-l1", lambda: perceptual(p=1))
register("pd-self", lambda: perceptual("self"))
register("pd-self-l1", lambda: perceptual("self", p=1))
