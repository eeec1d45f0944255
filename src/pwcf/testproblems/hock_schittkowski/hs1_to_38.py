"""Problems 1 to 38 of Hock and Schittkowski: two to four variables."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from pwcf.testproblems.data import vector
from pwcf.testproblems.hock_schittkowski.coordinates import hs
from pwcf.testproblems.problem import TestProblem, register

INF = math.inf


def _rosenbrock(x1: Tensor, x2: Tensor) -> Tensor:
    return 100 * (x2 - x1 * x1) ** 2 + (1 - x1) ** 2


@register
def hs1() -> TestProblem:
    """Rosenbrock's function s.t. x2 >= -1.5."""
    return hs(1, _rosenbrock, [-2, 1], 0.0, [1, 1], convex=False, bounds=(vector([-INF, -1.5]), INF))


@register
def hs2() -> TestProblem:
    """Rosenbrock's function s.t. x2 >= 1.5: a local minimum at x1 < 0 and the global one at x1 = 1.2244."""
    return hs(
        2, _rosenbrock, [-2, 1], 0.050426187893607075, [1.2243707487363524, 1.5], convex=False,
        bounds=(vector([-INF, 1.5]), INF),
    )  # fmt: skip


@register
def hs3() -> TestProblem:
    """x2 + 1e-5 (x2 - x1)^2 s.t. x2 >= 0."""
    return hs(
        3, lambda x1, x2: x2 + 1e-5 * (x2 - x1) ** 2, [10, 1], 0.0, [0, 0], convex=True,
        bounds=(vector([-INF, 0]), INF),
    )  # fmt: skip


@register
def hs4() -> TestProblem:
    """(x1 + 1)^3 / 3 + x2 s.t. x1 >= 1, x2 >= 0, where it is convex."""
    return hs(
        4, lambda x1, x2: (x1 + 1) ** 3 / 3 + x2, [1.125, 0.125], 8 / 3, [1, 0], convex=True,
        bounds=(vector([1, 0]), INF),
    )  # fmt: skip


@register
def hs5() -> TestProblem:
    """sin(x1 + x2) + (x1 - x2)^2 - 1.5 x1 + 2.5 x2 + 1 in a box."""
    return hs(
        5, lambda x1, x2: (x1 + x2).sin() + (x1 - x2) ** 2 - 1.5 * x1 + 2.5 * x2 + 1, [0, 0],
        -math.sqrt(3) / 2 - math.pi / 3, [0.5 - math.pi / 3, -0.5 - math.pi / 3], convex=False,
        bounds=(vector([-1.5, -3]), vector([4, 3])),
    )  # fmt: skip


@register
def hs6() -> TestProblem:
    """(1 - x1)^2 s.t. 10 (x2 - x1^2) = 0."""
    return hs(
        6, lambda x1, x2: (1 - x1) ** 2, [-1.2, 1], 0.0, [1, 1], convex=False,
        zero=lambda x1, x2: [10 * (x2 - x1 * x1)],
    )  # fmt: skip


@register
def hs7() -> TestProblem:
    """ln(1 + x1^2) - x2 s.t. (1 + x1^2)^2 + x2^2 = 4."""
    return hs(
        7, lambda x1, x2: (x1 * x1).log1p() - x2, [2, 2], -math.sqrt(3), [0, math.sqrt(3)], convex=False,
        zero=lambda x1, x2: [(1 + x1 * x1) ** 2 + x2 * x2 - 4],
    )  # fmt: skip


@register
def hs8() -> TestProblem:
    """A constant, -1, s.t. x1^2 + x2^2 = 25, x1 x2 = 9: a system of equations."""
    x1 = math.sqrt((25 + math.sqrt(301)) / 2)
    return hs(
        8, lambda x1, x2: 0 * x1 - 1, [2, 1], -1.0, [x1, 9 / x1], convex=False,
        zero=lambda x1, x2: [x1 * x1 + x2 * x2 - 25, x1 * x2 - 9],
    )  # fmt: skip


@register
def hs9() -> TestProblem:
    """sin(pi x1 / 12) cos(pi x2 / 16) s.t. 4 x1 = 3 x2: minima at (12 k - 3, 16 k - 4)."""
    return hs(
        9, lambda x1, x2: (math.pi * x1 / 12).sin() * (math.pi * x2 / 16).cos(), [0, 0], -0.5, [-3, -4],
        convex=False, zero=lambda x1, x2: [4 * x1 - 3 * x2],
    )  # fmt: skip


@register
def hs10() -> TestProblem:
    """x1 - x2 s.t. 3 x1^2 - 2 x1 x2 + x2^2 <= 1."""
    return hs(
        10, lambda x1, x2: x1 - x2, [-10, 10], -1.0, [0, 1], convex=True,
        below=lambda x1, x2: [3 * x1 * x1 - 2 * x1 * x2 + x2 * x2 - 1],
    )  # fmt: skip


@register
def hs11() -> TestProblem:
    """(x1 - 5)^2 + x2^2 - 25 s.t. x1^2 <= x2."""
    return hs(
        11, lambda x1, x2: (x1 - 5) ** 2 + x2 * x2 - 25, [4.9, 0.1], -8.498464223154677,
        [1.234772825053297, 1.5246639294900999],
        convex=True, below=lambda x1, x2: [x1 * x1 - x2],
    )  # fmt: skip


@register
def hs12() -> TestProblem:
    """x1^2/2 + x2^2 - x1 x2 - 7 x1 - 7 x2 s.t. 4 x1^2 + x2^2 <= 25."""
    return hs(
        12, lambda x1, x2: 0.5 * x1 * x1 + x2 * x2 - x1 * x2 - 7 * x1 - 7 * x2, [0, 0], -30.0, [2, 3],
        convex=True, below=lambda x1, x2: [4 * x1 * x1 + x2 * x2 - 25],
    )  # fmt: skip


@register
def hs13() -> TestProblem:
    """(x1 - 2)^2 + x2^2 s.t. x2 <= (1 - x1)^3, x >= 0.

    There are no multipliers at the minimizer (1, 0): a violation v lowers f by 2 v^(1/3).
    """
    return hs(
        13, lambda x1, x2: (x1 - 2) ** 2 + x2 * x2, [-2, -2], 1.0, [1, 0], convex=False,
        below=lambda x1, x2: [x2 - (1 - x1) ** 3], bounds=(0.0, INF),
    )  # fmt: skip


@register
def hs14() -> TestProblem:
    """(x1 - 2)^2 + (x2 - 1)^2 s.t. x1^2/4 + x2^2 <= 1, x1 - 2 x2 = -1."""
    root = math.sqrt(7)
    return hs(
        14, lambda x1, x2: (x1 - 2) ** 2 + (x2 - 1) ** 2, [2, 2], 9 - 2.875 * root,
        [(root - 1) / 2, (root + 1) / 4], convex=True,
        below=lambda x1, x2: [0.25 * x1 * x1 + x2 * x2 - 1], zero=lambda x1, x2: [x1 - 2 * x2 + 1],
    )  # fmt: skip


@register
def hs15() -> TestProblem:
    """Rosenbrock's function s.t. x1 x2 >= 1, x1 + x2^2 >= 0, x1 <= 1/2; a local minimum has f = 360.4."""
    return hs(
        15, _rosenbrock, [-2, 1], 306.5, [0.5, 2], convex=False,
        below=lambda x1, x2: [1 - x1 * x2, -x1 - x2 * x2], bounds=(-INF, vector([0.5, INF])),
    )  # fmt: skip


@register
def hs16() -> TestProblem:
    """Rosenbrock's function s.t. x1 + x2^2 >= 0, x1^2 + x2 >= 0, |x1| <= 1/2, x2 <= 1."""
    return hs(
        16, _rosenbrock, [-2, 1], 0.25, [0.5, 0.25], convex=False,
        below=lambda x1, x2: [-x1 - x2 * x2, -x1 * x1 - x2], bounds=(vector([-0.5, -INF]), vector([0.5, 1])),
    )  # fmt: skip


@register
def hs17() -> TestProblem:
    """Rosenbrock's function s.t. x1 <= x2^2, x2 <= x1^2, |x1| <= 1/2, x2 <= 1."""
    return hs(
        17, _rosenbrock, [-2, 1], 1.0, [0, 0], convex=False,
        below=lambda x1, x2: [x1 - x2 * x2, x2 - x1 * x1], bounds=(vector([-0.5, -INF]), vector([0.5, 1])),
    )  # fmt: skip


@register
def hs18() -> TestProblem:
    """x1^2/100 + x2^2 s.t. x1 x2 >= 25, x1^2 + x2^2 >= 25, 2 <= x1 <= 50, 0 <= x2 <= 50."""
    return hs(
        18, lambda x1, x2: 0.01 * x1 * x1 + x2 * x2, [2, 2], 5.0, [math.sqrt(250), math.sqrt(2.5)], convex=False,
        below=lambda x1, x2: [25 - x1 * x2, 25 - x1 * x1 - x2 * x2], bounds=(vector([2, 0]), 50.0),
    )  # fmt: skip


@register
def hs19() -> TestProblem:
    """(x1 - 10)^3 + (x2 - 20)^3 between two circles, 13 <= x1 <= 100, 0 <= x2 <= 100."""
    return hs(
        19, lambda x1, x2: (x1 - 10) ** 3 + (x2 - 20) ** 3, [20.1, 5.84], -6961.8138755801465,
        [14.094999999999997, 0.8429607892154721], convex=False,
        below=lambda x1, x2: [
            100 - (x1 - 5) ** 2 - (x2 - 5) ** 2,
            (x2 - 5) ** 2 + (x1 - 6) ** 2 - 82.81,
        ],
        bounds=(vector([13, 0]), 100.0),
    )  # fmt: skip


@register
def hs20() -> TestProblem:
    """Rosenbrock's function s.t. x1 + x2^2 >= 0, x1^2 + x2 >= 0, |x| >= 1, |x1| <= 1/2; f = 40.2 at x1 = -1/2."""
    return hs(
        20, _rosenbrock, [-2, 1], 81.5 - 25 * math.sqrt(3), [0.5, math.sqrt(3) / 2], convex=False,
        below=lambda x1, x2: [-x1 - x2 * x2, -x1 * x1 - x2, 1 - x1 * x1 - x2 * x2],
        bounds=(vector([-0.5, -INF]), vector([0.5, INF])),
    )  # fmt: skip


@register
def hs21() -> TestProblem:
    """x1^2/100 + x2^2 - 100 s.t. 10 x1 - x2 >= 10, 2 <= x1 <= 50, -50 <= x2 <= 50."""
    return hs(
        21, lambda x1, x2: 0.01 * x1 * x1 + x2 * x2 - 100, [2, -1], -99.96, [2, 0], convex=True,
        below=lambda x1, x2: [10 - 10 * x1 + x2], bounds=(vector([2, -50]), vector([50, 50])),
    )  # fmt: skip


@register
def hs22() -> TestProblem:
    """(x1 - 2)^2 + (x2 - 1)^2 s.t. x1 + x2 <= 2, x1^2 <= x2."""
    return hs(
        22, lambda x1, x2: (x1 - 2) ** 2 + (x2 - 1) ** 2, [2, 2], 1.0, [1, 1], convex=True,
        below=lambda x1, x2: [x1 + x2 - 2, x1 * x1 - x2],
    )  # fmt: skip


@register
def hs23() -> TestProblem:
    """x1^2 + x2^2 s.t. a line and four quadratics, |x| <= 50."""
    return hs(
        23, lambda x1, x2: x1 * x1 + x2 * x2, [3, 1], 2.0, [1, 1], convex=False,
        below=lambda x1, x2: [
            1 - x1 - x2,
            1 - x1 * x1 - x2 * x2,
            9 - 9 * x1 * x1 - x2 * x2,
            x2 - x1 * x1,
            x1 - x2 * x2,
        ],
        bounds=(-50.0, 50.0),
    )  # fmt: skip


@register
def hs24() -> TestProblem:
    """((x1 - 3)^2 - 9) x2^3 / (27 sqrt 3) over a triangle."""
    root = math.sqrt(3)
    return hs(
        24, lambda x1, x2: ((x1 - 3) ** 2 - 9) * x2**3 / (27 * root), [1, 0.5], -1.0, [3, root], convex=False,
        below=lambda x1, x2: [x2 - x1 / root, -x1 - root * x2, x1 + root * x2 - 6], bounds=(0.0, INF),
    )  # fmt: skip


@register
def hs25() -> TestProblem:
    """Least squares: fit exp(-(u - x2)^x3 / x1) to 99 points; nearly flat at the start."""

    def objective(*x: Tensor) -> Tensor:
        x1, x2, x3 = (part[..., None] for part in x)
        level = 0.01 * torch.arange(1, 100, dtype=x1.dtype, device=x1.device)
        u = 25 + (-50 * level.log()) ** (2 / 3)
        return (((-((u - x2) ** x3) / x1).exp() - level) ** 2).sum(-1)

    return hs(
        25, objective, [100, 12.5, 3], 0.0, [50, 25, 1.5], convex=False,
        bounds=(vector([0.1, 0, 0]), vector([100, 25.6, 5])),
    )  # fmt: skip


@register
def hs26() -> TestProblem:
    """(x1 - x2)^2 + (x2 - x3)^4 s.t. (1 + x2^2) x1 + x3^4 = 3."""
    return hs(
        26, lambda x1, x2, x3: (x1 - x2) ** 2 + (x2 - x3) ** 4, [-2.6, 2, 2], 0.0, [1, 1, 1], convex=False,
        zero=lambda x1, x2, x3: [(1 + x2 * x2) * x1 + x3**4 - 3],
    )  # fmt: skip


@register
def hs27() -> TestProblem:
    """(x1 - 1)^2 / 100 + (x2 - x1^2)^2 s.t. x1 + x3^2 = -1."""
    return hs(
        27, lambda x1, x2, x3: 0.01 * (x1 - 1) ** 2 + (x2 - x1 * x1) ** 2, [2, 2, 2], 0.04, [-1, 1, 0],
        convex=False, zero=lambda x1, x2, x3: [x1 + x3 * x3 + 1],
    )  # fmt: skip


@register
def hs28() -> TestProblem:
    """(x1 + x2)^2 + (x2 + x3)^2 s.t. x1 + 2 x2 + 3 x3 = 1."""
    return hs(
        28, lambda x1, x2, x3: (x1 + x2) ** 2 + (x2 + x3) ** 2, [-4, 1, 1], 0.0, [0.5, -0.5, 0.5], convex=True,
        zero=lambda x1, x2, x3: [x1 + 2 * x2 + 3 * x3 - 1],
    )  # fmt: skip


@register
def hs29() -> TestProblem:
    """-x1 x2 x3 s.t. x1^2 + 2 x2^2 + 4 x3^2 <= 48."""
    return hs(
        29, lambda x1, x2, x3: -x1 * x2 * x3, [1, 1, 1], -16 * math.sqrt(2), [4, math.sqrt(8), 2], convex=False,
        below=lambda x1, x2, x3: [x1 * x1 + 2 * x2 * x2 + 4 * x3 * x3 - 48],
    )  # fmt: skip


@register
def hs30() -> TestProblem:
    """|x|^2 s.t. x1^2 + x2^2 >= 1, 1 <= x1 <= 10, |x2|, |x3| <= 10: the inequality adds nothing to the bound."""
    return hs(
        30, lambda x1, x2, x3: x1 * x1 + x2 * x2 + x3 * x3, [1, 1, 1], 1.0, [1, 0, 0], convex=False,
        below=lambda x1, x2, x3: [1 - x1 * x1 - x2 * x2], bounds=(vector([1, -10, -10]), 10.0),
    )  # fmt: skip


@register
def hs31() -> TestProblem:
    """9 x1^2 + x2^2 + 9 x3^2 s.t. x1 x2 >= 1 in a box."""
    return hs(
        31, lambda x1, x2, x3: 9 * x1 * x1 + x2 * x2 + 9 * x3 * x3, [1, 1, 1], 6.0,
        [1 / math.sqrt(3), math.sqrt(3), 0], convex=False, below=lambda x1, x2, x3: [1 - x1 * x2],
        bounds=(vector([-10, 1, -10]), vector([10, 10, 1])),
    )  # fmt: skip


@register
def hs32() -> TestProblem:
    """(x1 + 3 x2 + x3)^2 + 4 (x1 - x2)^2 s.t. x1^3 + 3 <= 6 x2 + 4 x3, x1 + x2 + x3 = 1, x >= 0."""
    return hs(
        32, lambda x1, x2, x3: (x1 + 3 * x2 + x3) ** 2 + 4 * (x1 - x2) ** 2, [0.1, 0.7, 0.2], 1.0, [0, 0, 1],
        convex=True, below=lambda x1, x2, x3: [x1**3 + 3 - 6 * x2 - 4 * x3],
        zero=lambda x1, x2, x3: [1 - x1 - x2 - x3], bounds=(0.0, INF),
    )  # fmt: skip


@register
def hs33() -> TestProblem:
    """(x1 - 1)(x1 - 2)(x1 - 3) + x3 s.t. x1^2 + x2^2 <= x3^2, |x| >= 2, x >= 0, x3 <= 5; f = -4 is stationary too."""
    return hs(
        33, lambda x1, x2, x3: (x1 - 1) * (x1 - 2) * (x1 - 3) + x3, [0, 0, 3], math.sqrt(2) - 6,
        [0, math.sqrt(2), math.sqrt(2)], convex=False,
        below=lambda x1, x2, x3: [x1 * x1 + x2 * x2 - x3 * x3, 4 - x1 * x1 - x2 * x2 - x3 * x3],
        bounds=(0.0, vector([INF, INF, 5])),
    )  # fmt: skip


@register
def hs34() -> TestProblem:
    """-x1 s.t. exp(x1) <= x2, exp(x2) <= x3 in a box."""
    return hs(
        34, lambda x1, x2, x3: -x1, [0, 1.05, 2.9], -math.log(math.log(10)),
        [math.log(math.log(10)), math.log(10), 10], convex=True,
        below=lambda x1, x2, x3: [x1.exp() - x2, x2.exp() - x3], bounds=(0.0, vector([100, 100, 10])),
    )  # fmt: skip


@register
def hs35() -> TestProblem:
    """Beale: a convex quadratic programme in three variables s.t. x1 + x2 + 2 x3 <= 3, x >= 0. f* = 1/9."""

    def objective(x1: Tensor, x2: Tensor, x3: Tensor) -> Tensor:
        linear = 9 - 8 * x1 - 6 * x2 - 4 * x3
        return linear + 2 * x1 * x1 + 2 * x2 * x2 + x3 * x3 + 2 * x1 * x2 + 2 * x1 * x3

    return hs(
        35, objective, [0.5, 0.5, 0.5], 1 / 9, [4 / 3, 7 / 9, 4 / 9], convex=True,
        below=lambda x1, x2, x3: [x1 + x2 + 2 * x3 - 3], bounds=(0.0, INF),
    )  # fmt: skip


@register
def hs36() -> TestProblem:
    """-x1 x2 x3 s.t. x1 + 2 x2 + 2 x3 <= 72, 0 <= x <= (20, 11, 42)."""
    return hs(
        36, lambda x1, x2, x3: -x1 * x2 * x3, [10, 10, 10], -3300.0, [20, 11, 15], convex=False,
        below=lambda x1, x2, x3: [x1 + 2 * x2 + 2 * x3 - 72], bounds=(0.0, vector([20, 11, 42])),
    )  # fmt: skip


@register
def hs37() -> TestProblem:
    """-x1 x2 x3 s.t. 0 <= x1 + 2 x2 + 2 x3 <= 72, 0 <= x <= 42."""
    return hs(
        37, lambda x1, x2, x3: -x1 * x2 * x3, [10, 10, 10], -3456.0, [24, 12, 12], convex=False,
        below=lambda x1, x2, x3: [x1 + 2 * x2 + 2 * x3 - 72, -x1 - 2 * x2 - 2 * x3], bounds=(0.0, 42.0),
    )  # fmt: skip


@register
def hs38() -> TestProblem:
    """Colville 4 (Wood): two coupled Rosenbrock functions, |x| <= 10."""

    def objective(x1: Tensor, x2: Tensor, x3: Tensor, x4: Tensor) -> Tensor:
        first = 100 * (x2 - x1 * x1) ** 2 + (1 - x1) ** 2 + 90 * (x4 - x3 * x3) ** 2 + (1 - x3) ** 2
        return first + 10.1 * ((x2 - 1) ** 2 + (x4 - 1) ** 2) + 19.8 * (x2 - 1) * (x4 - 1)

    return hs(38, objective, [-3, -1, -3, -1], 0.0, [1, 1, 1, 1], convex=False, bounds=(-10.0, 10.0))
