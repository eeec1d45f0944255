"""Smooth problems of Hock and Schittkowski with equality and inequality constraints.

W. Hock, K. Schittkowski, "Test examples for nonlinear programming codes", Lecture Notes in Economics
and Mathematical Systems 187, Springer (1981). The book writes g(x) >= 0; here the sign is turned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from pwcf.solvers import Constraint, eq, ineq
from pwcf.testproblems.data import vector
from pwcf.testproblems.problem import BoundsPair, TestProblem, register

Columns = Callable[..., Sequence[Tensor]]


def _columns(function: Columns) -> Callable[[Tensor], Tensor]:
    """A function of the n coordinates that gives k values, as a function (b, n) -> (b, k)."""

    def values(x: Tensor) -> Tensor:
        return torch.stack(list(function(*x.unbind(-1))), -1)

    return values


def _hs(
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
) -> TestProblem:
    """Problem ``number``: objective(x1, ..., xn) s.t. below(x1, ...) <= 0 and zero(x1, ...) = 0."""
    constraints: list[Constraint] = []
    if below is not None:
        constraints.append(ineq(_columns(below)))
    if zero is not None:
        constraints.append(eq(_columns(zero)))
    return TestProblem(
        f"hs{number}", len(start), lambda x: objective(*x.unbind(-1)), tuple(constraints), bounds, optimum,
        convex, f"Hock, Schittkowski (1981), problem {number}", vector(start), 0.25, vector(minimizer),
    )  # fmt: skip


@register
def hs6() -> TestProblem:
    """(1 - x1)^2 s.t. 10 (x2 - x1^2) = 0."""
    return _hs(
        6,
        lambda a, b: (1 - a) ** 2,
        [-1.2, 1],
        0.0,
        [1, 1],
        convex=False,
        zero=lambda a, b: [10 * (b - a * a)],
    )


@register
def hs7() -> TestProblem:
    """ln(1 + x1^2) - x2 s.t. (1 + x1^2)^2 + x2^2 = 4."""
    return _hs(
        7, lambda a, b: (a * a).log1p() - b, [2, 2], -math.sqrt(3), [0, math.sqrt(3)], convex=False,
        zero=lambda a, b: [(1 + a * a) ** 2 + b * b - 4],
    )  # fmt: skip


@register
def hs10() -> TestProblem:
    """x1 - x2 s.t. 3 x1^2 - 2 x1 x2 + x2^2 <= 1."""
    return _hs(
        10, lambda a, b: a - b, [-10, 10], -1.0, [0, 1], convex=True,
        below=lambda a, b: [3 * a * a - 2 * a * b + b * b - 1],
    )  # fmt: skip


@register
def hs12() -> TestProblem:
    """x1^2/2 + x2^2 - x1 x2 - 7 x1 - 7 x2 s.t. 4 x1^2 + x2^2 <= 25."""
    return _hs(
        12, lambda a, b: 0.5 * a * a + b * b - a * b - 7 * a - 7 * b, [0, 0], -30.0, [2, 3], convex=True,
        below=lambda a, b: [4 * a * a + b * b - 25],
    )  # fmt: skip


@register
def hs21() -> TestProblem:
    """x1^2/100 + x2^2 - 100 s.t. 10 x1 - x2 >= 10, 2 <= x1 <= 50, -50 <= x2 <= 50."""
    return _hs(
        21, lambda a, b: 0.01 * a * a + b * b - 100, [2, -1], -99.96, [2, 0], convex=True,
        below=lambda a, b: [10 - 10 * a + b], bounds=(vector([2, -50]), vector([50, 50])),
    )  # fmt: skip


@register
def hs26() -> TestProblem:
    """(x1 - x2)^2 + (x2 - x3)^4 s.t. (1 + x2^2) x1 + x3^4 = 3."""
    return _hs(
        26, lambda a, b, c: (a - b) ** 2 + (b - c) ** 4, [-2.6, 2, 2], 0.0, [1, 1, 1], convex=False,
        zero=lambda a, b, c: [(1 + b * b) * a + c**4 - 3],
    )  # fmt: skip


@register
def hs28() -> TestProblem:
    """(x1 + x2)^2 + (x2 + x3)^2 s.t. x1 + 2 x2 + 3 x3 = 1."""
    return _hs(
        28, lambda a, b, c: (a + b) ** 2 + (b + c) ** 2, [-4, 1, 1], 0.0, [0.5, -0.5, 0.5], convex=True,
        zero=lambda a, b, c: [a + 2 * b + 3 * c - 1],
    )  # fmt: skip


@register
def hs35() -> TestProblem:
    """Beale: a convex quadratic programme in three variables s.t. x1 + x2 + 2 x3 <= 3, x >= 0. f* = 1/9."""

    def objective(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        return 9 - 8 * a - 6 * b - 4 * c + 2 * a * a + 2 * b * b + c * c + 2 * a * b + 2 * a * c

    return _hs(
        35, objective, [0.5, 0.5, 0.5], 1 / 9, [4 / 3, 7 / 9, 4 / 9], convex=True,
        below=lambda a, b, c: [a + b + 2 * c - 3], bounds=(0.0, math.inf),
    )  # fmt: skip


@register
def hs39() -> TestProblem:
    """-x1 s.t. x2 - x1^3 - x3^2 = 0, x1^2 - x2 - x4^2 = 0."""
    return _hs(
        39, lambda a, b, c, d: -a, [2, 2, 2, 2], -1.0, [1, 1, 0, 0], convex=False,
        zero=lambda a, b, c, d: [b - a**3 - c * c, a * a - b - d * d],
    )  # fmt: skip


@register
def hs40() -> TestProblem:
    """-x1 x2 x3 x4 s.t. x1^3 + x2^2 = 1, x1^2 x4 = x3, x4^2 = x2."""
    return _hs(
        40, lambda a, b, c, d: -a * b * c * d, [0.8, 0.8, 0.8, 0.8], -0.25,
        [2 ** (-1 / 3), 2**-0.5, 2 ** (-11 / 12), 2**-0.25], convex=False,
        zero=lambda a, b, c, d: [a**3 + b * b - 1, a * a * d - c, d * d - b],
    )  # fmt: skip


@register
def hs42() -> TestProblem:
    """(x1-1)^2 + (x2-2)^2 + (x3-3)^2 + (x4-4)^2 s.t. x1 = 2, x3^2 + x4^2 = 2."""
    return _hs(
        42, lambda a, b, c, d: (a - 1) ** 2 + (b - 2) ** 2 + (c - 3) ** 2 + (d - 4) ** 2, [1, 1, 1, 1],
        28 - 10 * math.sqrt(2), [2, 2, 0.6 * math.sqrt(2), 0.8 * math.sqrt(2)], convex=False,
        zero=lambda a, b, c, d: [a - 2, c * c + d * d - 2],
    )  # fmt: skip


@register
def hs43() -> TestProblem:
    """Rosen-Suzuki: a convex quadratic with three convex quadratic inequalities."""

    def objective(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> Tensor:
        return a * a + b * b + 2 * c * c + d * d - 5 * a - 5 * b - 21 * c + 7 * d

    def below(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> list[Tensor]:
        return [
            a * a + b * b + c * c + d * d + a - b + c - d - 8,
            a * a + 2 * b * b + c * c + 2 * d * d - a - d - 10,
            2 * a * a + b * b + c * c + 2 * a - b - d - 5,
        ]

    return _hs(43, objective, [0, 0, 0, 0], -44.0, [0, 1, 2, -1], convex=True, below=below)


@register
def hs48() -> TestProblem:
    """(x1 - 1)^2 + (x2 - x3)^2 + (x4 - x5)^2 s.t. sum_i x_i = 5, x3 - 2 (x4 + x5) = -3."""
    return _hs(
        48, lambda a, b, c, d, e: (a - 1) ** 2 + (b - c) ** 2 + (d - e) ** 2, [3, 5, -3, 2, -2], 0.0,
        [1, 1, 1, 1, 1], convex=True, zero=lambda a, b, c, d, e: [a + b + c + d + e - 5, c - 2 * (d + e) + 3],
    )  # fmt: skip


@register
def hs51() -> TestProblem:
    """(x1-x2)^2 + (x2+x3-2)^2 + (x4-1)^2 + (x5-1)^2 s.t. x1 + 3 x2 = 4, x3 + x4 = 2 x5, x2 = x5."""
    return _hs(
        51, lambda a, b, c, d, e: (a - b) ** 2 + (b + c - 2) ** 2 + (d - 1) ** 2 + (e - 1) ** 2,
        [2.5, 0.5, 2, -1, 0.5], 0.0, [1, 1, 1, 1, 1], convex=True,
        zero=lambda a, b, c, d, e: [a + 3 * b - 4, c + d - 2 * e, b - e],
    )  # fmt: skip


@register
def hs71() -> TestProblem:
    """x1 x4 (x1 + x2 + x3) + x3 s.t. x1 x2 x3 x4 >= 25, sum_i x_i^2 = 40, 1 <= x <= 5. f* = 17.0140173."""
    return _hs(
        71, lambda a, b, c, d: a * d * (a + b + c) + c, [1, 5, 5, 1], 17.0140172891563,
        [1.0, 4.742999637264417, 3.8211499841848737, 1.3794082931726723], convex=False,
        below=lambda a, b, c, d: [25 - a * b * c * d],
        zero=lambda a, b, c, d: [a * a + b * b + c * c + d * d - 40], bounds=(1.0, 5.0),
    )  # fmt: skip


@register
def hs76() -> TestProblem:
    """A convex quadratic programme with three inequalities and x >= 0. f* = -103/22."""

    def objective(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> Tensor:
        return a * a + 0.5 * b * b + c * c + 0.5 * d * d - a * c + c * d - a - 3 * b + c - d

    return _hs(
        76, objective, [0.5, 0.5, 0.5, 0.5], -103 / 22, [3 / 11, 23 / 11, 0, 6 / 11], convex=True,
        below=lambda a, b, c, d: [a + 2 * b + c + d - 5, 3 * a + b + 2 * c - d - 4, 1.5 - b - 4 * c],
        bounds=(0.0, math.inf),
    )  # fmt: skip


@register
def hs100() -> TestProblem:
    """Seven variables, four convex inequalities. Not convex (x7^4 - 4 x6 x7). f* = 680.6300573."""

    def objective(a: Tensor, b: Tensor, c: Tensor, d: Tensor, e: Tensor, f: Tensor, g: Tensor) -> Tensor:
        first = (a - 10) ** 2 + 5 * (b - 12) ** 2 + c**4 + 3 * (d - 11) ** 2 + 10 * e**6
        return first + 7 * f * f + g**4 - 4 * f * g - 10 * f - 8 * g

    def below(a: Tensor, b: Tensor, c: Tensor, d: Tensor, e: Tensor, f: Tensor, g: Tensor) -> list[Tensor]:
        return [
            2 * a * a + 3 * b**4 + c + 4 * d * d + 5 * e - 127,
            7 * a + 3 * b + 10 * c * c + d - e - 282,
            23 * a + b * b + 6 * f * f - 8 * g - 196,
            4 * a * a + b * b - 3 * a * b + 2 * c * c + 5 * f - 11 * g,
        ]

    return _hs(
        100, objective, [1, 2, 0, 4, 0, 1, 1], 680.630057374402,
        [2.33049937287957, 1.951372372896889, -0.4775413923888716, 4.36572623365581,
         -0.6244869705268175, 1.0381310186079584, 1.5942267116118685], convex=False, below=below,
    )  # fmt: skip


@register
def hs113() -> TestProblem:
    """Wong 2: ten variables, three linear and five quadratic inequalities. Convex, f* = 24.3062091."""

    def objective(x: Tensor) -> Tensor:
        a, b, c, d, e, f, g, h, i, j = x.unbind(-1)
        first = a * a + b * b + a * b - 14 * a - 16 * b + (c - 10) ** 2 + 4 * (d - 5) ** 2 + (e - 3) ** 2
        second = 2 * (f - 1) ** 2 + 5 * g * g + 7 * (h - 11) ** 2 + 2 * (i - 10) ** 2 + (j - 7) ** 2
        return first + second + 45

    def below(x: Tensor) -> Tensor:
        a, b, c, d, e, f, g, h, i, j = x.unbind(-1)
        columns = [
            4 * a + 5 * b - 3 * g + 9 * h - 105,
            10 * a - 8 * b - 17 * g + 2 * h,
            -8 * a + 2 * b + 5 * i - 2 * j - 12,
            3 * (a - 2) ** 2 + 4 * (b - 3) ** 2 + 2 * c * c - 7 * d - 120,
            5 * a * a + 8 * b + (c - 6) ** 2 - 2 * d - 40,
            0.5 * (a - 8) ** 2 + 2 * (b - 4) ** 2 + 3 * e * e - f - 30,
            a * a + 2 * (b - 2) ** 2 - 2 * a * b + 14 * e - 6 * f,
            -3 * a + 6 * b + 12 * (i - 8) ** 2 - 7 * j,
        ]
        return torch.stack(columns, -1)

    minimizer = [
        2.171996371255455, 2.3636829736972804, 8.77392573847685, 5.095984487948453, 0.9906547649638593,
        1.4305739789363159, 1.3216442081617028, 9.828725807886322, 8.280091670098345, 8.375926663921323,
    ]  # fmt: skip
    return TestProblem(
        "hs113", 10, objective, (ineq(below),), None, 24.30620906817979, True,
        "Hock, Schittkowski (1981), problem 113",
        vector([2, 3, 5, 5, 1, 2, 7, 3, 6, 10]), 0.25, vector(minimizer),
    )  # fmt: skip
