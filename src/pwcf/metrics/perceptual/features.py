"""Distances between features: PD of the paper (eq. LPIPS Constraint) and LPIPS are norms of their differences.

A network's intermediate features become one vector phi(x) per image, scaled so that Euclidean distance is perceptual
distance (Zhang et al. 2018). Of every layer's map the channels at each position are divided by their norm, and all by
the root of the number of positions:  |phi(x) - phi(x')|_2^2  is the sum over layers of the mean over positions of the
squared differences. With weights w_c of the channels (LPIPS's linear heads) channel c is scaled by sqrt(w_c).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from pwcf.metrics.metric import Metric
from pwcf.models import Classifier

# Channels that are all 0 stay 0.
SMALLEST = 1e-10
# What torch says of images that strided layers leave nothing of.
_TOO_SMALL = ("output size is too small", "greater than actual input size")


class Features(nn.Module):
    """The feature map phi: images (b, ...) -> (b, m).

    Args:
        network: called with (x - mean) / std. The first call finds out which layer is the last one; later calls stop
            after it.
        layers: names of the submodules whose outputs are used, as returned (later in-place changes do not matter). A
            submodule that the network calls several times, such as a shared activation, is used every time.
        mean, std: numbers, one value per channel, or a tensor that broadcasts to an input.
        heads: per layer, weights >= 0 of its channels; None: all 1.
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        network: nn.Module,
        layers: Sequence[str],
        mean: Tensor | Sequence[float] | float = 0.0,
        std: Tensor | Sequence[float] | float = 1.0,
        heads: Sequence[Tensor] | None = None,
    ) -> None:
        super().__init__()
        known = dict(network.named_modules())
        if missing := [name for name in layers if name not in known]:
            some = ", ".join(repr(name) for name in list(known)[1:9])
            raise ValueError(f"layers: expected names of the network's modules such as {some}, found {missing}")
        if not layers:
            raise ValueError("layers: expected at least one, found none")
        if heads is not None and len(heads) != len(layers):
            raise ValueError(f"heads: expected one for each of {len(layers)} layers, found {len(heads)}")
        self.network, self.layers = network, tuple(layers)
        self._outputs: int | None = None  # how many the layers have, all together
        # Of three axes the channels are the last for tokens, but not for what one-dimensional convolutions leave.
        self._last_of_three = not any(isinstance(module, nn.Conv1d) for module in known.values())
        self.register_buffer("mean", torch.as_tensor(mean, dtype=torch.get_default_dtype()))
        self.register_buffer("std", torch.as_tensor(std, dtype=torch.get_default_dtype()))
        self.heads = nn.ParameterList([] if heads is None else [nn.Parameter(head.clone(), False) for head in heads])

    def forward(self, x: Tensor) -> Tensor:
        # Grey images become colours here, where a mean has three channels.
        maps = self._maps((x - _per_channel(self.mean, x)) / _per_channel(self.std, x))
        return torch.cat([self._scaled(layer, map) for layer, map in maps], 1)

    def _maps(self, x: Tensor) -> list[tuple[int, Tensor]]:
        """The layers' outputs in the order they are computed. Hooks stay only for the call: the network may be
        somebody's own.
        """
        maps: list[tuple[int, Tensor]] = []
        handles = []

        def keep(layer: int, name: str) -> None:
            def hook(module: nn.Module, inputs: object, output: object) -> None:
                if not isinstance(output, Tensor):
                    raise TypeError(f"layers: expected modules that return tensors, {name!r} returns {type(output)}")
                # A copy: what the network does to it in place afterwards is seen by whole calls only.
                maps.append((layer, output.clone()))
                if len(maps) == self._outputs:
                    raise _Complete

            handles.append(self.network.get_submodule(name).register_forward_hook(hook))

        try:
            for layer, name in enumerate(self.layers):
                keep(layer, name)
            self.network(x)
        except _Complete:
            pass
        except RuntimeError as error:
            if not any(words in str(error).lower() for words in _TOO_SMALL):
                raise
            size = " x ".join(str(side) for side in x.shape[2:])
            raise ValueError(
                f"images: expected larger ones, the network has nothing left of {size} (AlexNet: 31 a side): {error}"
            ) from error
        finally:
            for handle in handles:
                handle.remove()
        called = {layer for layer, _ in maps}
        if missing := [name for layer, name in enumerate(self.layers) if layer not in called]:
            raise ValueError(f"layers: expected layers that the network uses, found {missing}, which it did not call")
        self._outputs = len(maps)
        return maps

    def _scaled(self, layer: int, map: Tensor) -> Tensor:
        """(b, entries) of one layer's map: (b, c), (b, tokens, c) or (b, c, ...)."""
        at = 2 if map.dim() == 3 and self._last_of_three else 1
        positions = math.prod(map.shape[1:]) / map.shape[at]
        scaled: Tensor = nn.functional.normalize(map, dim=at, eps=SMALLEST) / positions**0.5
        if len(self.heads):
            shape = [-1 if axis == at else 1 for axis in range(map.dim())]
            scaled = scaled * self.heads[layer].sqrt().view(shape)
        return scaled.flatten(1)

    def copied(self, dtype: torch.dtype | None = None) -> Features:
        """Return an independent copy, converted to ``dtype`` if one is given."""
        return copy.deepcopy(self).to(dtype).eval().requires_grad_(False)


class FeatureDistance(Metric):
    """|phi(candidate) - phi(reference)|_p per row, p = 1 or 2; or the square of the latter, as LPIPS has it.

    Args:
        features: phi.
        name: the metric's name in tables.
        p: 2 or 1.
        squared: whether to square the l2 distance.
        about: network and weights, for the record.
        bounds: range of the images that the network expects; None: any.
    """

    in_float64 = True
    network = True

    def __init__(
        self,
        features: Features,
        name: str,
        p: int = 2,
        squared: bool = False,
        about: str = "",
        bounds: tuple[float, float] | None = None,
    ) -> None:
        if p not in (1, 2) or (squared and p == 1):
            raise ValueError(f"p: expected 1 or 2, and 2 for a square, found {p!r}")
        self.p, self.squared = p, squared
        self.degree = 2.0 if squared else 1.0
        self._name, self._about, self._bounds = name, about, bounds
        # A copy, in eval mode: the network may be the user's own, who may train it on. One more set of weights for
        # every dtype images come in: images in float64 are measured in it.
        self._features = features.copied()
        self._in: dict[torch.dtype, Features] = {}

    @property
    def name(self) -> str:
        return self._name

    @property
    def about(self) -> str:
        return self._about

    def features(self, x: Tensor) -> Tensor:
        """Return phi(x) (b, m) with the graph of x (b, ...), in its dtype and on its device."""
        features = self._in.setdefault(x.dtype, self._in.get(x.dtype) or self._features.copied(x.dtype))
        if features.mean.device != x.device:
            features.to(x.device)
        out: Tensor = features(x)
        return out

    def bind(self, classifier: Classifier) -> Metric:
        if self._bounds is not None and classifier.bounds != self._bounds:
            raise ValueError(
                f"bounds: metric {self.name} expected images in {self._bounds}, found {classifier.bounds}; scale the "
                "images, or give pwcf.metrics.perceptual a module with its mean and std"
            )
        return self

    def __call__(self, reference: Tensor, candidate: Tensor) -> Tensor:
        return self.from_prepared(self.features(reference), candidate)

    def prepare(self, reference: Tensor) -> Tensor:
        return self.features(reference)

    def from_prepared(self, prepared: Tensor, candidate: Tensor) -> Tensor:
        return self.of_difference(self.features(candidate) - prepared)

    def of_difference(self, difference: Tensor) -> Tensor:
        """Return distances (b,) from phi(candidate) - phi(reference) (b, m)."""
        if self.squared:
            return difference.square().sum(1)
        norm: Tensor = torch.linalg.vector_norm(difference, ord=self.p, dim=1)
        return norm


class _Complete(BaseException):
    """All that is wanted of the network is there. No Exception: the network must not mistake it for a failure."""


def _per_channel(value: Tensor, x: Tensor) -> Tensor:
    return value.to(x).view(1, -1, *(1 for _ in x.shape[2:])) if value.dim() == 1 else value.to(x)
