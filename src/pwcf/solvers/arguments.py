"""Checks of the arguments of ``minimize``. Errors name the argument, what was found and what was expected."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from pwcf.solvers.constraints import Constraint
from pwcf.solvers.host import Array


def check_positive(name: str, value: object) -> None:
    """Refuse anything but a number > 0."""
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not value > 0:
        raise ValueError(f"{name}: expected a number > 0, found {value!r}")


def check_count(name: str, value: object, least: int) -> None:
    """Refuse anything but a whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name}: expected a whole number >= {least}, found {value!r}")


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Refuse anything but one of some words."""
    if value not in choices:
        raise ValueError(f"{name}: expected one of {', '.join(map(repr, choices))}, found {value!r}")


def check_constraints(constraints: Sequence[Constraint]) -> None:
    """Refuse constraints that were not made with ``ineq`` or ``eq``."""
    if not isinstance(constraints, (list, tuple)):
        found = type(constraints).__name__
        raise TypeError(f"constraints: expected a list of pwcf.ineq(...) and pwcf.eq(...), found {found}")
    for i, constraint in enumerate(constraints):
        if not isinstance(constraint, Constraint):
            raise TypeError(
                f"constraints[{i}]: expected pwcf.ineq(...) or pwcf.eq(...), found {type(constraint).__name__}"
            )


def check_budget(budget: int | Tensor | None, b: int) -> Array | None:
    """The budget of every row, (b,) int64."""
    if budget is None:
        return None
    if isinstance(budget, Tensor):
        if budget.shape != (b,) or budget.is_floating_point():
            raise ValueError(
                f"budget: expected a number or an integer tensor ({b},), found {budget.dtype} {tuple(budget.shape)}"
            )
        if bool((budget < 1).any()):
            raise ValueError(f"budget: expected whole numbers >= 1, found {int(budget.min())}")
        return budget.to(device="cpu", dtype=torch.int64).numpy()
    check_count("budget", budget, 1)
    return np.full(b, budget, dtype=np.int64)


def check_target(target: float | Tensor | None, b: int) -> Array | None:
    """The target of every row, (b,) float64."""
    if target is None:
        return None
    if isinstance(target, (np.ndarray, np.generic)):
        target = torch.as_tensor(target)
    if isinstance(target, Tensor):
        if target.shape not in ((), (b,)) or target.dtype in (torch.bool, torch.complex64, torch.complex128):
            raise ValueError(
                f"target: expected a number or a tensor ({b},), found {target.dtype} {tuple(target.shape)}"
            )
        if bool(target.isnan().any()):
            raise ValueError("target: expected numbers, found NaN")
        return target.to(device="cpu", dtype=torch.float64).expand(b).numpy()
    if isinstance(target, bool) or not isinstance(target, (int, float)) or math.isnan(target):
        raise ValueError(f"target: expected a number or a tensor ({b},), found {target!r}")
    return np.full(b, float(target))
