"""What a metric is: a function of two batches, and nothing else that is required."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from pwcf.models import Classifier

Distance = Callable[[Tensor, Tensor], Tensor]


class Metric(ABC):
    """d(reference, candidate): two (b, ...) batches -> (b,), differentiable almost everywhere."""

    differentiable = True
    """False for counts, which some attacks can make small all the same"""
    in_float64 = False
    """whether it computes in float64 when it is given float64, whatever else it knows"""
    degree: float | None = None
    """by what power it grows near the reference, 1 like a norm, 2 like its square; None: not known"""
    network = False
    """whether a call runs a network: its passes are counted, apart from the classifier's"""

    @property
    @abstractmethod
    def name(self) -> str:
        """What tables call it."""

    @property
    def about(self) -> str:
        """For the record, in words: what measures, where the name alone does not tell."""
        return ""

    @abstractmethod
    def __call__(self, reference: Tensor, candidate: Tensor) -> Tensor: ...

    def prepare(self, reference: Tensor) -> Tensor:
        """(b, ...) all that the distance needs of the reference: computed once for many candidates."""
        return reference

    def from_prepared(self, prepared: Tensor, candidate: Tensor) -> Tensor:
        """(b,) the distance of candidates from references that were prepared."""
        return self(prepared, candidate)

    def exactly(self, reference: Tensor, candidate: Tensor) -> Tensor:
        """(b,) float64: the distance as it is judged, in as many digits as the metric can give."""
        if self.in_float64:
            reference, candidate = reference.double(), candidate.double()
        return self(reference, candidate).double()

    def of(self, classifier: Classifier) -> Metric:
        """The metric for this classifier; another one only where it measures with the classifier itself."""
        return self


@dataclass(frozen=True)
class Custom(Metric):
    """A distance of the user's own, known by its values only."""

    function: Distance

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)

    def __call__(self, reference: Tensor, candidate: Tensor) -> Tensor:
        distance = self.function(reference, candidate)
        b = candidate.shape[0]
        if not isinstance(distance, Tensor) or distance.shape != (b,):
            found = tuple(distance.shape) if isinstance(distance, Tensor) else type(distance).__name__
            raise ValueError(f"metric {self.name}: expected one distance per sample, shape ({b},), found {found}")
        if not distance.is_floating_point():
            raise TypeError(f"metric {self.name}: expected floating-point distances, found {distance.dtype}")
        return distance.to(candidate.dtype)
