"""A problem of the collection, written as functions of its coordinates x1, ..., xn."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from pwcf.solvers import Constraint, eq, ineq
from pwcf.testproblems.data import vector
from pwcf.testproblems.problem import BoundsPair, TestProblem

Columns = Callable[..., Sequence[Tensor]]


def _columns(function: Columns) -> Callable[[Tensor], Tensor]:
    """A function of the n coordinates that gives k values, as a function (b, n) -> (b, k)."""

    def values(x: Tensor) -> Tensor:
        return torch.stack(list(function(*x.unbind(-1))), -1)

    return values


def hs(
    number: int,
    objective: Callable[..., Tensor],
    start: Sequence[float],
    optimum: float,
    minimizer: Sequence[float],
    *,
    convex: bool,
    below: Columns | None = None,
    zero: Columns | None = None,
    bounds: BoundsPair | None = None,
    spread: float | Sequence[float] = 0.25,
    note: str = "",
) -> TestProblem:
    """Problem ``number``: objective(x1, ..., xn) s.t. below(x1, ...) <= 0 and zero(x1, ...) = 0.

    Args:
        number: in the book.
        objective: of n tensors (b,), gives (b,).
        start: the standard start of the book, which may violate constraints and bounds.
        optimum: f*.
        minimizer: with f* to rounding.
        convex: within the bounds.
        below: the inequality functions, or None.
        zero: the equality functions, or None.
        bounds: (low, high), or None.
        spread: of the random starts around the standard one; a list where the variables differ in scale.
        note: on an optimum that differs from the book's, for the reference.
    """
    constraints: list[Constraint] = []
    if below is not None:
        constraints.append(ineq(_columns(below)))
    if zero is not None:
        constraints.append(eq(_columns(zero)))
    width = spread if isinstance(spread, float) else vector(spread)
    return TestProblem(
        f"hs{number}", len(start), lambda x: objective(*x.unbind(-1)), tuple(constraints), bounds, optimum,
        convex, f"Hock, Schittkowski (1981), problem {number}" + (f"; {note}" if note else ""), vector(start),
        width, vector(minimizer),
    )  # fmt: skip


def colville() -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The data of problems 86 and 117: rows (10, 5), right-hand side (10,), linear, quadratic and cubic terms."""
    rows: list[list[float]] = [
        [-16, 2, 0, 1, 0],
        [0, -2, 0, 0.4, 2],
        [-3.5, 0, 2, 0, 0],
        [0, -2, 0, -4, -1],
        [0, -9, -2, 1, -2.8],
        [2, 0, -4, 0, 0],
        [-1, -1, -1, -1, -1],
        [-1, -2, -3, -2, -1],
        [1, 2, 3, 4, 5],
        [1, 1, 1, 1, 1],
    ]
    quadratic = [
        [30, -20, -10, 32, -10],
        [-20, 39, -6, -31, 32],
        [-10, -6, 10, -6, -10],
        [32, -31, -6, 39, -20],
        [-10, 32, -10, -20, 30],
    ]
    return (
        torch.stack([vector(row) for row in rows]),
        vector([-40, -2, -0.25, -4, -4, -1, -40, -60, 5, 1]),
        vector([-15, -27, -36, -18, -12]),
        torch.stack([vector(row) for row in quadratic]),
        vector([4, 8, 10, 6, 2]),
    )
