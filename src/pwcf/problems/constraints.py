"""Constraints of a nonlinear problem: c(x) <= 0 and h(x) = 0, per row, optionally folded."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

ConstraintFunction = Callable[..., Tensor]
"""(b, ...) -> (b,) or (b, k). It may take a second argument ``rows``: the row indices, int64 (b,)."""


@dataclass(frozen=True)
class Constraint:
    """One constraint function, its sense, and the norm its columns are folded with (None: not)."""

    sense: Literal["ineq", "eq"]
    function: ConstraintFunction | None = None
    fold: float | None = None
    name: str = "constraint"


def ineq(function: ConstraintFunction | None = None, *, fold: bool | float = False, name: str = "ineq") -> Constraint:
    """The constraint function(x) <= 0, for every one of its k columns.

    ``fold=True`` replaces the k columns by the single constraint ||max(c(x), 0)||_2 <= 0, which has
    the same feasible set (paper, section "constraint-folding"); a number p >= 1 chooses the l_p norm.
    Without a function the values are taken, in order, from what the objective returns beside f.
    """
    return Constraint("ineq", _callable(function, "ineq"), _fold_norm(fold, "ineq"), name)


def eq(function: ConstraintFunction | None = None, *, fold: bool | float = False, name: str = "eq") -> Constraint:
    """The constraint function(x) = 0, for every one of its k columns; folded: || |h(x)| ||_p <= 0."""
    return Constraint("eq", _callable(function, "eq"), _fold_norm(fold, "eq"), name)


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
