"""What a metric is: a function of two batches. Everything beyond that is an optional capability.

An attack asks for the capability it needs and says so in its error where a metric does not offer it:

==========================  =================================================================  ====================
capability                  methods                                                            asked for by
==========================  =================================================================  ====================
``HasDualNorm``             ``norm``, ``dual_norm``                                            evidence, lmn, FAB
``HasProjection``           ``project`` onto ball and box                                      APGD, 8-bit answers
``HasHalfspaceStep``        ``nearest_on_halfspace`` and box                                   lmn, FAB
``HasSteepest``             ``steepest`` ascent direction                                      training
``HasSlackForm``            ``slacks`` of an equivalent smooth form                            PWCF
==========================  =================================================================  ====================

All of their tensors are flat, (b, n): a row per sample. A norm is one file: see ``l2.py``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
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
    def exponent(self) -> float | None:
        """The p of an l_p distance, 0 for a count; None for every other metric."""
        return None

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

    def distance64(self, reference: Tensor, candidate: Tensor) -> Tensor:
        """(b,) float64: the distance as it is judged, in as many digits as the metric can give."""
        if self.in_float64:
            reference, candidate = reference.double(), candidate.double()
        return self(reference, candidate).double()

    def bind(self, classifier: Classifier) -> Metric:
        """The metric for this classifier; another one only where it measures with the classifier itself."""
        return self


NAMED: dict[str, Callable[[], Metric]] = {}
"""What has a name beside the l_p, and how it is made."""


def register(name: str, make: Callable[[], Metric]) -> None:
    """Give a metric a name by which ``MinRadius``, ``MaxLoss`` and the command line know it.

    Args:
        name: in lower case, such as ``"ssim"``.
        make: makes the metric when it is asked for; what it needs (libraries, weights) is loaded then.
    """
    NAMED[name] = make


class Norm(Metric):
    """d(reference, candidate) = |candidate - reference| for a norm, given by ``norm`` and its dual."""

    in_float64 = True
    degree = 1.0

    @abstractmethod
    def norm(self, move: Tensor) -> Tensor:
        """(b,) the length of moves (b, n)."""

    @abstractmethod
    def dual_norm(self, gradient: Tensor) -> Tensor:
        """(b,) the largest g'v over moves v of length 1: how much a linear function changes per unit of distance."""

    def __call__(self, reference: Tensor, candidate: Tensor) -> Tensor:
        return self.norm((candidate - reference).flatten(1))


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


# ---- capabilities -------------------------------------------------------------------------------------------------


@runtime_checkable
class HasDualNorm(Protocol):
    """The distance is a norm of the move, and its dual norm is known."""

    def norm(self, move: Tensor) -> Tensor: ...

    def dual_norm(self, gradient: Tensor) -> Tensor: ...


@runtime_checkable
class HasProjection(Protocol):
    """Exact Euclidean projections onto the intersection of the metric's ball and a box."""

    def project(self, point: Tensor, centre: Tensor, radius: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
        """min |z - point|_2  s.t.  d(centre, z) <= radius (b,), lower <= z <= upper, with the centre inside the box."""
        ...


@runtime_checkable
class HasHalfspaceStep(Protocol):
    """The nearest point of a half-space and a box, in the metric's own sense."""

    def nearest_on_halfspace(self, point: Tensor, g: Tensor, h: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
        """min d(point, z)  s.t.  g'z <= h (b,), lower <= z <= upper, with the point inside the box.

        Where no z meets the half-space, the corner of the box that comes closest to it.
        """
        ...


@runtime_checkable
class HasSteepest(Protocol):
    """The move of length 1 by which a linear function gains most."""

    def steepest(self, gradient: Tensor) -> Tensor:
        """argmax g'v  s.t.  |v| <= 1; 0 where the gradient is."""
        ...


@runtime_checkable
class HasSlackForm(Protocol):
    """d(x, x') = min 1't  s.t.  |x' - x| <= t entrywise (paper, eq. min reform), with one t for all entries or n."""

    def slacks(self, n: int) -> int:
        """How many slacks t there are for n entries: 1, or n."""
        ...


def dual_norm(metric: object, gradient: Tensor) -> Tensor:
    """(b,) the metric's dual norm of gradients (b, n); their Euclidean length where it offers none."""
    if isinstance(metric, HasDualNorm):
        return metric.dual_norm(gradient)
    length: Tensor = torch.linalg.vector_norm(gradient, ord=2.0, dim=1)
    return length
