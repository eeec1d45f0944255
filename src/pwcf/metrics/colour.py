"""Colour difference as people see it, in the CIELAB space, computed by kornia."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from pwcf._common.optional import import_optional, name_and_version
from pwcf.metrics.metric import Metric, register
from pwcf.models import Classifier

EXTRA, MODULE = "colour", "kornia.color"


@dataclass(frozen=True)
class LabDistance(Metric):
    """Root of the mean over pixels of (Delta E)^2, Delta E = |Lab(candidate) - Lab(reference)|_2 (CIE76).

    A just noticeable difference is about 2.3; black and white are 100 apart. For sRGB images in [0, 1]; grey images are
    treated as three equal channels.
    """

    in_float64 = True

    @property
    def name(self) -> str:
        return "lab"

    @property
    def about(self) -> str:
        return f"root mean square over pixels of the CIELAB difference (CIE76, D65), by {name_and_version('kornia')}"

    def bind(self, classifier: Classifier) -> Metric:
        lower, upper = classifier.bounds
        if lower < 0 or upper > 1:
            raise ValueError(f"bounds: metric lab expected sRGB colours in [0, 1], found {classifier.bounds}")
        return self

    def __call__(self, reference: Tensor, candidate: Tensor) -> Tensor:
        return self.from_prepared(self.prepare(reference), candidate)

    def prepare(self, reference: Tensor) -> Tensor:
        """Convert to CIELAB -> (b, 3, height, width). kornia keeps roots away from 0: gradients are finite."""
        if reference.dim() != 4 or reference.shape[1] not in (1, 3):
            raise ValueError(
                "images: metric lab expected (n, 3, height, width), or (n, 1, height, width) if they are grey, found "
                f"{tuple(reference.shape)}"
            )
        lab: Tensor = import_optional(MODULE, f"metric {self.name}", EXTRA).rgb_to_lab(reference.expand(-1, 3, -1, -1))
        return lab

    def from_prepared(self, prepared: Tensor, candidate: Tensor) -> Tensor:
        # The norm's slope at 0 is taken to be 0, which that of the square root is not.
        difference = (self.prepare(candidate) - prepared).flatten(1)
        norm: Tensor = torch.linalg.vector_norm(difference, dim=1)
        return norm / math.sqrt(max(difference.shape[1] // 3, 1))


def lab() -> LabDistance:
    """Root mean square over pixels of the CIELAB difference, for sRGB images in [0, 1].

    Returns:
        A metric of two batches (b, 3, height, width), or (b, 1, height, width) if they are grey -> (b,).
    """
    import_optional(MODULE, f"metric {LabDistance().name}", EXTRA)
    return LabDistance()


register("lab", lab)
