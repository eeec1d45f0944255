"""Constraints of a nonlinear problem: c(x) <= 0 and h(x) = 0, per row, optionally folded."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from torch import Tensor

from pwcf.solvers.host import Array

ConstraintFunction = Callable[..., Tensor]
"""(b, ...) -> (b,) or (b, k). It may take a second argument ``rows``: the row indices, int64 (b,)."""


@dataclass(frozen=True)
class Constraint:
    """One constraint function with its sense, as made by ``pwcf.ineq`` and ``pwcf.eq``.

    Attributes:
        sense: "ineq" for function(x) <= 0, "eq" for function(x) = 0.
        function: (b, ...) -> (b,) or (b, k); None if the objective returns the values beside f.
        fold: p of the l_p norm that folds the k columns into one; None: they are not folded.
        name: what error messages call the constraint.
    """

    sense: Literal["ineq", "eq"]
    function: ConstraintFunction | None = None
    fold: float | None = None
    name: str = "constraint"


def ineq(function: ConstraintFunction | None = None, *, fold: bool | float = False, name: str = "ineq") -> Constraint:
    """The constraint function(x) <= 0, for every one of its k columns.

    Args:
        function: (b, ...) -> (b,) or (b, k). It may take a second argument ``rows``, the row indices. For one problem:
            of x, of the structure or of the module, as the objective, -> values of any shape. Without a function the
            values are taken, in order, from what the objective returns beside f.
        fold: True replaces the k columns by the single constraint ||max(c(x), 0)||_2 <= 0, which has the same
            feasible set (paper, section "constraint-folding"). A number p >= 1 chooses the l_p norm.
        name: what error messages call the constraint.

    Returns:
        The constraint, for ``pwcf.minimize(..., constraints=[...])``.
    """
    return Constraint("ineq", _callable(function, "ineq"), _fold_norm(fold, "ineq"), name)


def eq(function: ConstraintFunction | None = None, *, fold: bool | float = False, name: str = "eq") -> Constraint:
    """The constraint function(x) = 0, for every one of its k columns.

    Args:
        function: as in ``pwcf.ineq``.
        fold: True replaces the k columns by the single constraint ||h(x)||_2 <= 0; a number p >= 1 chooses the
            l_p norm.
        name: what error messages call the constraint.

    Returns:
        The constraint, for ``pwcf.minimize(..., constraints=[...])``.
    """
    return Constraint("eq", _callable(function, "eq"), _fold_norm(fold, "eq"), name)


def total_violation(values: Array, equality: Array) -> Array:
    """Sum of max(c, 0) and |h| over the last axis of ``values`` (..., p); ``equality`` (p,) tells h from c."""
    size = np.where(equality, np.abs(values), np.maximum(values, 0.0))
    return size[..., 0] if size.shape[-1] == 1 else size.sum(-1)


def _callable(function: ConstraintFunction | None, maker: str) -> ConstraintFunction | None:
    if function is not None and not callable(function):
        raise TypeError(
            f"pwcf.{maker}(function=...): expected a function (b, ...) -> (b,) or (b, k), "
            f"found {type(function).__name__}"
        )
    return function


def _fold_norm(fold: bool | float, maker: str) -> float | None:
    if fold is False:
        return None
    p = 2.0 if fold is True else float(fold)
    if math.isnan(p) or p < 1:
        raise ValueError(f"pwcf.{maker}(fold=...): expected True, False or a norm p >= 1, found {fold!r}")
    return p
