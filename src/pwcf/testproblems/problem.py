"""A test problem with a known optimum, and the registry that finds one by its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from pwcf.solvers import Constraint

BoundsPair = tuple[Tensor | float, Tensor | float]
"""(low, high), each a number or an (n,) tensor."""


@dataclass(frozen=True, eq=False)
class TestProblem:
    """minimise objective(x) subject to constraints and bounds, with known optimum f*.

    Attributes:
        name: as in ``testproblems.names()``.
        n: number of variables.
        objective: (b, n) -> (b,), every row on its own, differentiable almost everywhere, any float dtype and device.
        constraints: made with ``ineq`` (c(x) <= 0) and ``eq`` (h(x) = 0); some are to be folded.
        bounds: (low, high), each a number or an (n,) tensor, or None.
        optimum: the global optimal value; for the non-convex problems the best value known (see ``reference``).
        convex: whether, within the bounds, objective and inequality functions are convex and the equality functions
            affine.
        reference: where the problem and its optimum come from.
        start: (n,) the middle of the starts.
        spread: random starts are drawn uniformly from start +- spread, both clipped to the bounds; a number, or
            (n,) where the variables differ in scale.
        minimizer: one minimizer (n,), where it is known.
        pieces: (b, n) -> (b, k): the smooth functions whose maximum the objective is, where it is one.
    """

    __test__ = False

    name: str
    n: int
    objective: Callable[[Tensor], Tensor]
    constraints: tuple[Constraint, ...]
    bounds: BoundsPair | None
    optimum: float
    convex: bool
    reference: str
    start: Tensor
    spread: float | Tensor = 1.0
    minimizer: Tensor | None = None
    pieces: Callable[[Tensor], Tensor] | None = None

    def starts(self, count: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
        """Random starts.

        Args:
            count: how many.
            seed: the same seed gives the same starts, whatever the dtype.
            dtype: float32 or float64.

        Returns:
            (count, n), within the bounds.
        """
        generator = torch.Generator().manual_seed(seed)
        noise = 2 * torch.rand(count, self.n, generator=generator, dtype=torch.float64) - 1
        if self.bounds is None:
            return (self.start + self.spread * noise).to(dtype)
        low, high = (torch.as_tensor(side, dtype=torch.float64) for side in self.bounds)
        # A start far outside the bounds is moved onto them first; otherwise all of its rows would be the same corner.
        return (self.start.clamp(low, high) + self.spread * noise).clamp(low, high).to(dtype)


Factory = TypeVar("Factory", bound=Callable[..., TestProblem])

_REGISTRY: dict[str, Callable[..., TestProblem]] = {}


def register(function: Factory) -> Factory:
    """Decorator: list a factory function, all of whose arguments have defaults, under its own name."""
    name = function.__name__
    if name in _REGISTRY:
        raise ValueError(f"test problem {name!r} is registered twice")
    _REGISTRY[name] = function
    return function


def names() -> list[str]:
    """The names of all test problems, in the order in which the modules define them."""
    return list(_REGISTRY)


def factory(name: str) -> Callable[..., TestProblem]:
    """The factory function of the test problem of that name."""
    if name not in _REGISTRY:
        raise KeyError(f"no test problem named {name!r}; see pwcf.testproblems.names()")
    return _REGISTRY[name]


def get(name: str, **kwargs: Any) -> TestProblem:
    """The test problem of that name; keyword arguments (mostly ``n``) go to its factory."""
    return factory(name)(**kwargs)


def all_problems() -> list[TestProblem]:
    """Every test problem with its default arguments."""
    return [function() for function in _REGISTRY.values()]
