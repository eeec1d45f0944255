"""ALMA with a search for its first step size that ends, and with any distance.

As published the step is doubled until it moves the image by a given distance. Where the box does not let it go so far,
as where all of the gradient points out of it, that never happens. And distances are those of a table of names.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, cast

import torch
from torch import Tensor

SEARCH, DISTANCES = "init_lr_finder", "_distances"
# What is under this name in their table is called with ``target=images`` and returns the distance from them.
ABOUT_A_TARGET = "lpips"
# 2^100 times any gradient worth the name crosses the box, and times 10^8 it is still a float32.
DOUBLINGS, HALVINGS = 100, 20
# Where nothing moves at all: ALMA's step size without the search.
DEFAULT = 0.1


def with_first_step_that_ends(
    alma: Callable[..., Any], distance: Callable[[Tensor], Tensor] | None = None
) -> Callable[..., Any]:
    """The same function with another search. adv-lib's own is left as it is, for whoever else uses it.

    With a ``distance`` of points (n, ...) from the images, that is what it takes for ``distance=ABOUT_A_TARGET``.
    """
    if not isinstance(alma, FunctionType) or SEARCH not in alma.__globals__:
        return alma
    names = {**alma.__globals__, SEARCH: first_step}
    if distance is not None:
        names[DISTANCES] = {ABOUT_A_TARGET: lambda target: distance}
    copy = FunctionType(alma.__code__, names, alma.__name__, alma.__defaults__, alma.__closure__)
    copy.__kwdefaults__ = alma.__kwdefaults__
    return cast(Callable[..., Any], copy)


def first_step(
    inputs: Tensor, grad: Tensor, distance_function: Callable[[Tensor], Tensor], target_distance: float
) -> Tensor:
    """(n,) step sizes against the gradient that move by the distance, or by half of what the box allows if less."""
    shape = (-1, *(1 for _ in inputs.shape[1:]))

    def moved(step: Tensor) -> Tensor:
        return distance_function((inputs - step.view(shape) * grad).clamp(0, 1))

    high = torch.ones(inputs.shape[0], device=inputs.device)
    reach = moved(high * 2.0**DOUBLINGS)
    target = torch.where(reach > target_distance, torch.full_like(reach, target_distance), 0.5 * reach)
    low = torch.zeros_like(high)
    for _ in range(DOUBLINGS):
        short = moved(high) <= target
        if not bool(short.any()):
            break
        low, high = torch.where(short, high, low), torch.where(short, 2 * high, high)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        beyond = moved(middle) > target
        low, high = torch.where(beyond, low, middle), torch.where(beyond, middle, high)
    return torch.where(reach > 0, 0.5 * (low + high), torch.full_like(high, DEFAULT))
