"""What a metric is: a function of two batches. Everything beyond that is an optional capability.

An attack that needs a capability names it in its error message when the metric does not have it:

==========================  =================================================================  ====================
capability                  methods                                                            used by
==========================  =================================================================  ====================
``HasDualNorm``             ``norm``, ``dual_norm``                                            evidence, lmn, FAB, MALT
``HasProjection``           ``project`` onto ball and box                                      APGD, 8-bit answers
``HasHalfspaceStep``        ``nearest_on_halfspace`` and box                                   lmn, FAB, FW
``HasSteepest``             ``steepest`` ascent direction                                      training
``HasSlackForm``            ``slacks`` of an equivalent smooth form                            PWCF
==========================  =================================================================  ====================

Capabilities work on flat tensors, (b, n): one row per sample. The box ``lower``, ``upper`` may be (b, n), (1, n) or a
number as a 0-dim tensor: "lmn" passes (1, n) when there is no mask. Each norm has a file of its own; ``l2.py`` is a
short example.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from pwcf.models import Classifier

Distance = Callable[[Tensor, Tensor], Tensor]


class Metric(ABC):
    """A distance d(reference, candidate): two (b, ...) batches -> (b,), differentiable almost everywhere."""

    differentiable = True
    """False for counts such as l0, which only some attacks can minimise"""
    in_float64 = False
    """whether the metric computes in float64 when its inputs are float64"""
    degree: float | None = None
    """the power by which the distance grows near the reference: 1 for a norm, 2 for its square, None if unknown"""
    network = False
    """whether a call runs a network; its passes are counted apart from the classifier's"""

    @property
    def exponent(self) -> float | None:
        """The p of an l_p distance, 0 for a count; None for every other metric."""
        return None

    @property
    @abstractmethod
    def name(self) -> str:
        """The metric's name in tables."""

    @property
    def about(self) -> str:
        """A description for the record: network, weights and settings, where the name does not tell them."""
        return ""

    @abstractmethod
    def __call__(self, reference: Tensor, candidate: Tensor) -> Tensor:
        """Measure the distance of every candidate from its reference.

        Args:
            reference: (b, ...) images.
            candidate: (b, ...) points, of the same shape and dtype.

        Returns:
            (b,) distances >= 0 in the dtype of the candidates.
        """

    def prepare(self, reference: Tensor) -> Tensor:
        """Compute what the distance needs from the references, once for many candidates.

        Args:
            reference: (b, ...) images.

        Returns:
            (b, ...) for ``from_prepared``; by default the references themselves.
        """
        return reference

    def from_prepared(self, prepared: Tensor, candidate: Tensor) -> Tensor:
        """Measure the distance of candidates from prepared references.

        Args:
            prepared: (b, ...) from ``prepare``.
            candidate: (b, ...) points.

        Returns:
            (b,) distances, as ``__call__`` gives them.
        """
        return self(prepared, candidate)

    def distance64(self, reference: Tensor, candidate: Tensor) -> Tensor:
        """Measure the distance that verification uses, as exactly as the metric can.

        Args:
            reference: (b, ...) images.
            candidate: (b, ...) points.

        Returns:
            (b,) float64; computed in float64 if ``in_float64``, otherwise converted.
        """
        if self.in_float64:
            reference, candidate = reference.double(), candidate.double()
        return self(reference, candidate).double()

    def bind(self, classifier: Classifier) -> Metric:
        """Return the metric to use with a classifier; only metrics that measure with the classifier itself change.

        Args:
            classifier: the model that is evaluated.

        Returns:
            The metric. Metrics that do not fit the classifier's bounds raise ValueError.
        """
        return self


NAMED: dict[str, Callable[[], Metric]] = {}
"""Names of metrics other than l_p, and the functions that make them."""


def register(name: str, make: Callable[[], Metric]) -> None:
    """Register a metric under a name, for ``MinRadius``, ``MaxLoss`` and the command line.

    Args:
        name: in lower case, such as ``"ssim"``. A metric already registered under it is replaced.
        make: a function without arguments that returns the metric. It is called at every use of the name, so that
            libraries and weights are loaded only when needed.
    """
    NAMED[name] = make


class Norm(Metric):
    """The distance |candidate - reference| in a norm. Subclasses define ``norm`` and ``dual_norm``."""

    in_float64 = True
    degree = 1.0

    @abstractmethod
    def norm(self, move: Tensor) -> Tensor:
        """Measure the length of moves.

        Args:
            move: (b, n) differences candidate - reference.

        Returns:
            (b,) lengths.
        """

    @abstractmethod
    def dual_norm(self, gradient: Tensor) -> Tensor:
        """Compute max g'v over moves v with norm(v) <= 1: how much a linear function changes per unit of distance.

        Args:
            gradient: (b, n) gradients g.

        Returns:
            (b,) dual norms.
        """

    def __call__(self, reference: Tensor, candidate: Tensor) -> Tensor:
        return self.norm((candidate - reference).flatten(1))


@dataclass(frozen=True)
class Custom(Metric):
    """A user's function as a metric: values and gradients, no capabilities.

    Args:
        function: d(reference, candidate), two batches (b, ...) -> (b,).
    """

    function: Distance

    def __post_init__(self) -> None:
        try:
            inspect.signature(self.function).bind(None, None)
        except TypeError as error:
            raise TypeError(
                f"metric: expected a function of two batches, d(reference, candidate), found {self.name} ({error})"
            ) from None
        except ValueError:  # of some built-in functions Python does not know the arguments
            return

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)

    def __call__(self, reference: Tensor, candidate: Tensor) -> Tensor:
        tracked = [each for each in (reference, candidate) if not each.is_inference()]
        before = [each._version for each in tracked]
        try:
            distance = self.function(reference, candidate)
        except RuntimeError as error:
            if "in-place" not in str(error):
                raise
            raise ValueError(self._in_place()) from error
        if [each._version for each in tracked] != before:
            raise ValueError(self._in_place())
        b = candidate.shape[0]
        if not isinstance(distance, Tensor) or distance.shape != (b,):
            found = tuple(distance.shape) if isinstance(distance, Tensor) else type(distance).__name__
            raise ValueError(f"metric {self.name}: expected one distance per sample, shape ({b},), found {found}")
        if not distance.is_floating_point():
            raise TypeError(f"metric {self.name}: expected floating-point distances, found {distance.dtype}")
        return distance.to(candidate.dtype)

    def _in_place(self) -> str:
        return f"metric {self.name}: expected its batches to stay as they are, found one changed in place; clone it"


# ---- capabilities -------------------------------------------------------------------------------------------------


@runtime_checkable
class HasDualNorm(Protocol):
    """The distance is a norm of the move, and its dual norm is known."""

    def norm(self, move: Tensor) -> Tensor:
        """Return the lengths (b,) of moves (b, n)."""
        ...

    def dual_norm(self, gradient: Tensor) -> Tensor:
        """Return (b,), the largest g'v over moves v of length 1, for gradients g (b, n)."""
        ...


@runtime_checkable
class HasProjection(Protocol):
    """Exact Euclidean projection onto the intersection of the metric's ball and a box."""

    def project(self, point: Tensor, centre: Tensor, radius: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
        """Solve  min |z - point|_2  s.t.  d(centre, z) <= radius,  lower <= z <= upper.

        Args:
            point: (b, n) points to project.
            centre: (b, n) centres of the balls, inside the box.
            radius: (b,) radii >= 0.
            lower: least values: (b, n), (1, n) or a number as a 0-dim tensor.
            upper: largest values, of the same kind.

        Returns:
            (b, n) the projections z.
        """
        ...


@runtime_checkable
class HasHalfspaceStep(Protocol):
    """The nearest point of a half-space and a box, measured by the metric itself."""

    def nearest_on_halfspace(self, point: Tensor, g: Tensor, h: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
        """Solve  min d(point, z)  s.t.  g'z <= h,  lower <= z <= upper.

        Args:
            point: (b, n) points inside the box.
            g: (b, n) normals of the half-spaces.
            h: (b,) their right-hand sides.
            lower: least values: (b, n), (1, n) or a number as a 0-dim tensor.
            upper: largest values, of the same kind.

        Returns:
            (b, n) the nearest points z. If the box does not meet the half-space, the corner with the least g'z.
        """
        ...


@runtime_checkable
class HasSteepest(Protocol):
    """The steepest ascent direction in the metric."""

    def steepest(self, gradient: Tensor) -> Tensor:
        """Solve  max g'v  s.t.  norm(v) <= 1.

        Args:
            gradient: (b, n) gradients g.

        Returns:
            (b, n) directions v of length 1; 0 for rows whose gradient is 0.
        """
        ...


@runtime_checkable
class HasSlackForm(Protocol):
    """A smooth form:  d(x, x') = min 1't  s.t.  |x' - x| <= t  entrywise (paper, eq. min reform)."""

    def slacks(self, n: int) -> int:
        """Return the number of slacks t.

        Args:
            n: entries of an input.

        Returns:
            1 (one t for all entries, as in linf) or n (one t per entry, as in l1).
        """
        ...


def dual_norm(metric: object, gradient: Tensor) -> Tensor:
    """Compute the metric's dual norm, or the l2 norm if the metric has no dual norm.

    Args:
        metric: any metric.
        gradient: (b, n) gradients.

    Returns:
        (b,) norms of the gradients.
    """
    if isinstance(metric, HasDualNorm):
        return metric.dual_norm(gradient)
    length: Tensor = torch.linalg.vector_norm(gradient, ord=2.0, dim=1)
    return length
