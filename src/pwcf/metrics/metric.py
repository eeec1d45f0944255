"""What a metric is: a function of two batches, and nothing else that is required."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

Distance = Callable[[Tensor, Tensor], Tensor]


class Metric(ABC):
    """d(reference, candidate): two (b, ...) batches -> (b,), differentiable almost everywhere."""

    differentiable = True
    """False for counts, which some attacks can make small all the same"""

    @property
    @abstractmethod
    def name(self) -> str:
        """What tables call it."""

    @abstractmethod
    def __call__(self, reference: Tensor, candidate: Tensor) -> Tensor: ...


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
