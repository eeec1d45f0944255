"""The perceptual distance of the paper (eq. LPIPS Constraint) and LPIPS: norms of differences of features."""

from __future__ import annotations

import torch
from torch import Tensor

from pwcf.metrics.metric import Metric
from pwcf.metrics.perceptual.features import Features
from pwcf.models import Classifier


class FeatureDistance(Metric):
    """|phi(candidate) - phi(reference)|_p per row, p = 1 or 2; or the square of the latter, as LPIPS has it.

    Args:
        features: phi.
        name: what tables call it.
        p: 2, or 1.
        squared: for p = 2.
        about: which network with which weights, for the record.
        bounds: of the images the network was made for; None: of any.
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
        """phi(x) (b, m) with the graph of x, computed in its dtype and on its device."""
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
        """(b,) from phi(candidate) - phi(reference) (b, m)."""
        if self.squared:
            return difference.square().sum(1)
        norm: Tensor = torch.linalg.vector_norm(difference, ord=self.p, dim=1)
        return norm
