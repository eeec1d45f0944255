"""Problems 39 to 66 of Hock and Schittkowski: two to seven variables."""

from __future__ import annotations

import math

from torch import Tensor

from pwcf.testproblems.data import vector
from pwcf.testproblems.hock_schittkowski.coordinates import hs
from pwcf.testproblems.problem import TestProblem, register

INF = math.inf


@register
def hs39() -> TestProblem:
    """-x1 s.t. x2 - x1^3 - x3^2 = 0, x1^2 - x2 - x4^2 = 0."""
    return hs(
        39, lambda x1, x2, x3, x4: -x1, [2, 2, 2, 2], -1.0, [1, 1, 0, 0], convex=False,
        zero=lambda x1, x2, x3, x4: [x2 - x1**3 - x3 * x3, x1 * x1 - x2 - x4 * x4],
    )  # fmt: skip


@register
def hs40() -> TestProblem:
    """-x1 x2 x3 x4 s.t. x1^3 + x2^2 = 1, x1^2 x4 = x3, x4^2 = x2."""
    return hs(
        40, lambda x1, x2, x3, x4: -x1 * x2 * x3 * x4, [0.8, 0.8, 0.8, 0.8], -0.25,
        [2 ** (-1 / 3), 2**-0.5, 2 ** (-11 / 12), 2**-0.25], convex=False,
        zero=lambda x1, x2, x3, x4: [x1**3 + x2 * x2 - 1, x1 * x1 * x4 - x3, x4 * x4 - x2],
    )  # fmt: skip


@register
def hs41() -> TestProblem:
    """2 - x1 x2 x3 s.t. x1 + 2 x2 + 2 x3 = x4, 0 <= x <= (1, 1, 1, 2)."""
    return hs(
        41, lambda x1, x2, x3, x4: 2 - x1 * x2 * x3, [2, 2, 2, 2], 52 / 27, [2 / 3, 1 / 3, 1 / 3, 2], convex=False,
        zero=lambda x1, x2, x3, x4: [x1 + 2 * x2 + 2 * x3 - x4], bounds=(0.0, vector([1, 1, 1, 2])),
    )  # fmt: skip


@register
def hs42() -> TestProblem:
    """(x1-1)^2 + (x2-2)^2 + (x3-3)^2 + (x4-4)^2 s.t. x1 = 2, x3^2 + x4^2 = 2."""
    return hs(
        42, lambda x1, x2, x3, x4: (x1 - 1) ** 2 + (x2 - 2) ** 2 + (x3 - 3) ** 2 + (x4 - 4) ** 2, [1, 1, 1, 1],
        28 - 10 * math.sqrt(2), [2, 2, 0.6 * math.sqrt(2), 0.8 * math.sqrt(2)], convex=False,
        zero=lambda x1, x2, x3, x4: [x1 - 2, x3 * x3 + x4 * x4 - 2],
    )  # fmt: skip


@register
def hs43() -> TestProblem:
    """Rosen-Suzuki: a convex quadratic with three convex quadratic inequalities."""

    def objective(x1: Tensor, x2: Tensor, x3: Tensor, x4: Tensor) -> Tensor:
        return x1 * x1 + x2 * x2 + 2 * x3 * x3 + x4 * x4 - 5 * x1 - 5 * x2 - 21 * x3 + 7 * x4

    def below(x1: Tensor, x2: Tensor, x3: Tensor, x4: Tensor) -> list[Tensor]:
        return [
            x1 * x1 + x2 * x2 + x3 * x3 + x4 * x4 + x1 - x2 + x3 - x4 - 8,
            x1 * x1 + 2 * x2 * x2 + x3 * x3 + 2 * x4 * x4 - x1 - x4 - 10,
            2 * x1 * x1 + x2 * x2 + x3 * x3 + 2 * x1 - x2 - x4 - 5,
        ]

    return hs(43, objective, [0, 0, 0, 0], -44.0, [0, 1, 2, -1], convex=True, below=below)


@register
def hs44() -> TestProblem:
    """x1 - x2 - x3 - x1 x3 + x1 x4 + x2 x3 - x2 x4 s.t. six linear inequalities, x >= 0; f = -13 is a local minimum."""
    return hs(
        44, lambda x1, x2, x3, x4: x1 - x2 - x3 - x1 * x3 + x1 * x4 + x2 * x3 - x2 * x4, [0, 0, 0, 0], -15.0,
        [0, 3, 0, 4], convex=False,
        below=lambda x1, x2, x3, x4: [
            x1 + 2 * x2 - 8, 4 * x1 + x2 - 12, 3 * x1 + 4 * x2 - 12,
            2 * x3 + x4 - 8, x3 + 2 * x4 - 8, x3 + x4 - 5,
        ],
        bounds=(0.0, INF),
    )  # fmt: skip


@register
def hs45() -> TestProblem:
    """2 - x1 x2 x3 x4 x5 / 120 s.t. 0 <= x_i <= i."""
    return hs(
        45, lambda x1, x2, x3, x4, x5: 2 - x1 * x2 * x3 * x4 * x5 / 120, [2, 2, 2, 2, 2], 1.0, [1, 2, 3, 4, 5],
        convex=False, bounds=(0.0, vector([1, 2, 3, 4, 5])),
    )  # fmt: skip


@register
def hs46() -> TestProblem:
    """(x1-x2)^2 + (x3-1)^2 + (x4-1)^4 + (x5-1)^6 s.t. x1^2 x4 + sin(x4 - x5) = 1, x2 + x3^4 x4^2 = 2."""
    return hs(
        46, lambda x1, x2, x3, x4, x5: (x1 - x2) ** 2 + (x3 - 1) ** 2 + (x4 - 1) ** 4 + (x5 - 1) ** 6,
        [math.sqrt(0.5), 1.75, 0.5, 2, 2], 0.0, [1, 1, 1, 1, 1], convex=False,
        zero=lambda x1, x2, x3, x4, x5: [x1 * x1 * x4 + (x4 - x5).sin() - 1, x2 + x3**4 * x4 * x4 - 2],
    )  # fmt: skip


@register
def hs47() -> TestProblem:
    """(x1-x2)^2 + (x2-x3)^3 + (x3-x4)^4 + (x4-x5)^4 s.t. three equalities; f = 0 at (1, 1, 1, 1, 1)."""
    root = math.sqrt(2)
    return hs(
        47, lambda x1, x2, x3, x4, x5: (x1 - x2) ** 2 + (x2 - x3) ** 3 + (x3 - x4) ** 4 + (x4 - x5) ** 4,
        [2, root, -1, 2 - root, 0.5], -0.026714182693940863,
        [0.6770043948666403, 0.726089472652032, 1.2154912142370975, 1.7513294192355415, 1.4770952856177322],
        convex=False, zero=lambda x1, x2, x3, x4, x5: [x1 + x2 * x2 + x3**3 - 3, x2 - x3 * x3 + x4 - 1, x1 * x5 - 1],
        note="better than 0 of the book, which is stationary",
    )  # fmt: skip


@register
def hs48() -> TestProblem:
    """(x1 - 1)^2 + (x2 - x3)^2 + (x4 - x5)^2 s.t. sum_i x_i = 5, x3 - 2 (x4 + x5) = -3."""
    return hs(
        48, lambda x1, x2, x3, x4, x5: (x1 - 1) ** 2 + (x2 - x3) ** 2 + (x4 - x5) ** 2, [3, 5, -3, 2, -2], 0.0,
        [1, 1, 1, 1, 1], convex=True,
        zero=lambda x1, x2, x3, x4, x5: [x1 + x2 + x3 + x4 + x5 - 5, x3 - 2 * (x4 + x5) + 3],
    )  # fmt: skip


@register
def hs49() -> TestProblem:
    """(x1-x2)^2 + (x3-1)^2 + (x4-1)^4 + (x5-1)^6 s.t. x1 + x2 + x3 + 4 x4 = 7, x3 + 5 x5 = 6."""
    return hs(
        49, lambda x1, x2, x3, x4, x5: (x1 - x2) ** 2 + (x3 - 1) ** 2 + (x4 - 1) ** 4 + (x5 - 1) ** 6,
        [10, 7, 2, -3, 0.8], 0.0, [1, 1, 1, 1, 1], convex=True,
        zero=lambda x1, x2, x3, x4, x5: [x1 + x2 + x3 + 4 * x4 - 7, x3 + 5 * x5 - 6],
    )  # fmt: skip


@register
def hs50() -> TestProblem:
    """(x1-x2)^2 + (x2-x3)^2 + (x3-x4)^4 + (x4-x5)^2 s.t. x_i + 2 x_(i+1) + 3 x_(i+2) = 6."""
    return hs(
        50, lambda x1, x2, x3, x4, x5: (x1 - x2) ** 2 + (x2 - x3) ** 2 + (x3 - x4) ** 4 + (x4 - x5) ** 2,
        [35, -31, 11, 5, -5], 0.0, [1, 1, 1, 1, 1], convex=True,
        zero=lambda x1, x2, x3, x4, x5: [x1 + 2 * x2 + 3 * x3 - 6, x2 + 2 * x3 + 3 * x4 - 6, x3 + 2 * x4 + 3 * x5 - 6],
    )  # fmt: skip


@register
def hs51() -> TestProblem:
    """(x1-x2)^2 + (x2+x3-2)^2 + (x4-1)^2 + (x5-1)^2 s.t. x1 + 3 x2 = 4, x3 + x4 = 2 x5, x2 = x5."""
    return hs(
        51, lambda x1, x2, x3, x4, x5: (x1 - x2) ** 2 + (x2 + x3 - 2) ** 2 + (x4 - 1) ** 2 + (x5 - 1) ** 2,
        [2.5, 0.5, 2, -1, 0.5], 0.0, [1, 1, 1, 1, 1], convex=True,
        zero=lambda x1, x2, x3, x4, x5: [x1 + 3 * x2 - 4, x3 + x4 - 2 * x5, x2 - x5],
    )  # fmt: skip


@register
def hs52() -> TestProblem:
    """(4 x1-x2)^2 + (x2+x3-2)^2 + (x4-1)^2 + (x5-1)^2 s.t. x1 + 3 x2 = 0, x3 + x4 = 2 x5, x2 = x5."""
    return hs(
        52, lambda x1, x2, x3, x4, x5: (4 * x1 - x2) ** 2 + (x2 + x3 - 2) ** 2 + (x4 - 1) ** 2 + (x5 - 1) ** 2,
        [2, 2, 2, 2, 2], 1859 / 349, [-33 / 349, 11 / 349, 180 / 349, -158 / 349, 11 / 349], convex=True,
        zero=lambda x1, x2, x3, x4, x5: [x1 + 3 * x2, x3 + x4 - 2 * x5, x2 - x5],
    )  # fmt: skip


@register
def hs53() -> TestProblem:
    """(x1-x2)^2 + (x2+x3-2)^2 + (x4-1)^2 + (x5-1)^2 s.t. the equalities of problem 52, |x| <= 10."""
    return hs(
        53, lambda x1, x2, x3, x4, x5: (x1 - x2) ** 2 + (x2 + x3 - 2) ** 2 + (x4 - 1) ** 2 + (x5 - 1) ** 2,
        [2, 2, 2, 2, 2], 176 / 43, [-33 / 43, 11 / 43, 27 / 43, -5 / 43, 11 / 43], convex=True,
        zero=lambda x1, x2, x3, x4, x5: [x1 + 3 * x2, x3 + x4 - 2 * x5, x2 - x5], bounds=(-10.0, 10.0),
    )  # fmt: skip


@register
def hs54() -> TestProblem:
    """-exp(-h(x)/2), h quadratic, s.t. x1 + 4000 x2 = 17600 in a box; variables from 1e-3 to 1e8."""

    def objective(*x: Tensor) -> Tensor:
        x1, x2, x3, x4, x5, x6 = x
        pair = (x1 - 1e4) ** 2 / 6.4e7 + (x1 - 1e4) * (x2 - 1) / 2e4 + (x2 - 1) ** 2
        rest = (x3 - 2e6) ** 2 / 4.9e13 + (x4 - 10) ** 2 / 2.5e3 + (x5 - 1e-3) ** 2 / 2.5e-3 + (x6 - 1e8) ** 2 / 2.5e17
        return -(-(pair / 0.96 + rest) / 2).exp()

    return hs(
        54, objective, [6e3, 1.5, 4e6, 2, 3e-3, 5e7], -math.exp(-27 / 280),
        [91600 / 7, 79 / 70, 2e6, 10, 1e-3, 1e8], convex=False,
        zero=lambda x1, x2, x3, x4, x5, x6: [x1 + 4e3 * x2 - 1.76e4],
        bounds=(vector([0, -10, 0, 0, -1, 0]), vector([2e4, 10, 1e7, 20, 1, 2e8])),
        spread=[1.5e3, 0.375, 1e6, 0.5, 7.5e-4, 1.25e7],
    )  # fmt: skip


@register
def hs55() -> TestProblem:
    """x1 + 2 x2 + 4 x5 + exp(x1 x4) s.t. six equalities, x >= 0, x1, x4 <= 1; f = 20/3 is a local minimum."""
    return hs(
        55, lambda x1, x2, x3, x4, x5, x6: x1 + 2 * x2 + 4 * x5 + (x1 * x4).exp(), [1, 2, 0, 0, 0, 2], 19 / 3,
        [0, 4 / 3, 5 / 3, 1, 2 / 3, 1 / 3], convex=False,
        zero=lambda x1, x2, x3, x4, x5, x6: [
            x1 + 2 * x2 + 5 * x5 - 6, x1 + x2 + x3 - 3, x4 + x5 + x6 - 2, x1 + x4 - 1, x2 + x5 - 2, x3 + x6 - 2,
        ],
        bounds=(0.0, vector([1, INF, INF, 1, INF, INF])),
    )  # fmt: skip


@register
def hs56() -> TestProblem:
    """-x1 x2 x3 with the bounds of problem 37, divided by 10, written as x_i = 4.2 sin^2(.)."""
    a, b = math.asin(math.sqrt(1 / 4.2)), math.asin(math.sqrt(5 / 7.2))
    c, d = math.asin(math.sqrt(4 / 7)), math.asin(math.sqrt(2 / 7))
    return hs(
        56, lambda x1, x2, x3, x4, x5, x6, x7: -x1 * x2 * x3, [1, 1, 1, a, a, a, b], -3.456,
        [2.4, 1.2, 1.2, c, d, d, math.pi / 2], convex=False,
        zero=lambda x1, x2, x3, x4, x5, x6, x7: [
            x1 - 4.2 * x4.sin() ** 2, x2 - 4.2 * x5.sin() ** 2, x3 - 4.2 * x6.sin() ** 2,
            x1 + 2 * x2 + 2 * x3 - 7.2 * x7.sin() ** 2,
        ],
    )  # fmt: skip


@register
def hs57() -> TestProblem:
    """Least squares: fit x1 + (.49 - x1) exp(-x2 (a - 8)) to 44 points s.t. .49 x2 - x1 x2 >= .09."""
    counts = [2, 4, 4, 3, 3, 2, 3, 3, 3, 3, 2, 3, 2, 1, 2, 2, 1, 1]
    a = [8 + 2.0 * i for i, count in enumerate(counts) for _ in range(count)]
    b = [
        49, 49, 48, 47, 48, 47, 46, 46, 45, 43, 45, 43, 43, 44, 43, 43, 46, 45, 42, 42, 43, 41,
        41, 40, 42, 40, 40, 41, 40, 41, 41, 40, 40, 40, 38, 41, 40, 40, 41, 38, 40, 40, 39, 39,
    ]  # fmt: skip

    def objective(x1: Tensor, x2: Tensor) -> Tensor:
        dose, share = (vector(values).to(x1) for values in (a, [value / 100 for value in b]))
        x1, x2 = x1[..., None], x2[..., None]
        return ((share - x1 - (0.49 - x1) * (-x2 * (dose - 8)).exp()) ** 2).sum(-1)

    return hs(
        57, objective, [0.42, 5], 0.028459669722986695, [0.41995265075780125, 1.2848451936248448], convex=False,
        below=lambda x1, x2: [0.09 - 0.49 * x2 + x1 * x2], bounds=(vector([0.4, -4]), INF), spread=[0.02, 0.25],
    )  # fmt: skip


@register
def hs59() -> TestProblem:
    """A polynomial of degree 6 with an exponential and a pole s.t. three quadratics; f = -6.7546 is a local minimum."""

    def objective(x1: Tensor, x2: Tensor) -> Tensor:
        first = 3.8112 * x1 - 0.12694 * x1**2 + 0.0020567 * x1**3 - 1.0345e-5 * x1**4
        second = 6.8306 * x2 - 0.25645 * x2**2 + 0.0034604 * x2**3 - 1.3514e-5 * x2**4 + 28.106 / (x2 + 1)
        mixed = -0.030234 * x1 * x2 + 1.28134e-3 * x1**2 * x2 - 3.5256e-5 * x1**3 * x2 + 2.266e-7 * x1**4 * x2
        square = -3.4054e-4 * x1 * x2**2 + 5.2375e-6 * x1**2 * x2**2 + 6.3e-8 * x1**3 * x2**2
        cube = 1.6638e-6 * x1 * x2**3 - 7e-10 * x1**3 * x2**3
        return first + second + mixed + square + cube + 2.8673 * (0.0005 * x1 * x2).exp() - 75.196

    return hs(
        59, objective, [90, 10], -7.804235953664758, [13.550088840434142, 51.6601778957467], convex=False,
        below=lambda x1, x2: [700 - x1 * x2, x1 * x1 / 125 - x2, 5 * (x1 - 55) - (x2 - 50) ** 2],
        bounds=(0.0, vector([75, 65])),
    )  # fmt: skip


@register
def hs60() -> TestProblem:
    """(x1-1)^2 + (x1-x2)^2 + (x2-x3)^4 s.t. x1 (1 + x2^2) + x3^4 = 4 + 3 sqrt 2, |x| <= 10."""
    return hs(
        60, lambda x1, x2, x3: (x1 - 1) ** 2 + (x1 - x2) ** 2 + (x2 - x3) ** 4, [2, 2, 2], 0.032568200255069873,
        [1.1048590197333166, 1.1966741822882572, 1.5352622603253263], convex=False,
        zero=lambda x1, x2, x3: [x1 * (1 + x2 * x2) + x3**4 - 4 - 3 * math.sqrt(2)], bounds=(-10.0, 10.0),
    )  # fmt: skip


@register
def hs61() -> TestProblem:
    """4 x1^2 + 2 x2^2 + 2 x3^2 - 33 x1 + 16 x2 - 24 x3 s.t. 3 x1 - 2 x2^2 = 7, 4 x1 - x3^2 = 11."""

    def objective(x1: Tensor, x2: Tensor, x3: Tensor) -> Tensor:
        return 4 * x1 * x1 + 2 * x2 * x2 + 2 * x3 * x3 - 33 * x1 + 16 * x2 - 24 * x3

    return hs(
        61, objective, [0, 0, 0], -143.64614219778025,
        [5.326770135563928, -2.118998632218976, 3.2104642253505506], convex=False,
        zero=lambda x1, x2, x3: [3 * x1 - 2 * x2 * x2 - 7, 4 * x1 - x3 * x3 - 11],
    )  # fmt: skip


@register
def hs62() -> TestProblem:
    """A sum of logarithms of ratios over the simplex x1 + x2 + x3 = 1, 0 <= x <= 1."""

    def objective(x1: Tensor, x2: Tensor, x3: Tensor) -> Tensor:
        first = 255 * ((x1 + x2 + x3 + 0.03) / (0.09 * x1 + x2 + x3 + 0.03)).log()
        second = 280 * ((x2 + x3 + 0.03) / (0.07 * x2 + x3 + 0.03)).log()
        return -32.174 * (first + second + 290 * ((x3 + 0.03) / (0.13 * x3 + 0.03)).log())

    return hs(
        62, objective, [0.7, 0.2, 0.1], -26272.514487318258,
        [0.6178126908126925, 0.3282022231196691, 0.0539850860676384], convex=False,
        zero=lambda x1, x2, x3: [x1 + x2 + x3 - 1], bounds=(0.0, 1.0),
    )  # fmt: skip


@register
def hs63() -> TestProblem:
    """1000 - x1^2 - 2 x2^2 - x3^2 - x1 x2 - x1 x3 s.t. 8 x1 + 14 x2 + 7 x3 = 56, |x|^2 = 25, x >= 0."""
    return hs(
        63, lambda x1, x2, x3: 1000 - x1 * x1 - 2 * x2 * x2 - x3 * x3 - x1 * x2 - x1 * x3, [2, 2, 2],
        961.7151721300521, [3.5121213418747206, 0.21698794151522294, 3.552171154827016], convex=False,
        zero=lambda x1, x2, x3: [8 * x1 + 14 * x2 + 7 * x3 - 56, x1 * x1 + x2 * x2 + x3 * x3 - 25], bounds=(0.0, INF),
    )  # fmt: skip


@register
def hs64() -> TestProblem:
    """5 x1 + 5e4/x1 + 20 x2 + 7.2e4/x2 + 10 x3 + 1.44e5/x3 s.t. 4/x1 + 32/x2 + 120/x3 <= 1, x >= 1e-5."""
    return hs(
        64, lambda x1, x2, x3: 5 * x1 + 5e4 / x1 + 20 * x2 + 7.2e4 / x2 + 10 * x3 + 1.44e5 / x3, [1, 1, 1],
        6299.8424279215205, [108.73470491089891, 85.1262127908938, 204.32459661260552], convex=True,
        below=lambda x1, x2, x3: [4 / x1 + 32 / x2 + 120 / x3 - 1], bounds=(1e-5, INF),
    )  # fmt: skip


@register
def hs65() -> TestProblem:
    """(x1-x2)^2 + (x1+x2-10)^2/9 + (x3-5)^2 s.t. |x|^2 <= 48, |x1|, |x2| <= 4.5, |x3| <= 5."""
    return hs(
        65, lambda x1, x2, x3: (x1 - x2) ** 2 + (x1 + x2 - 10) ** 2 / 9 + (x3 - 5) ** 2, [-5, 5, 0], 0.953528856804783,
        [3.6504617252130362, 3.6504617252130362, 4.620417555320008], convex=True,
        below=lambda x1, x2, x3: [x1 * x1 + x2 * x2 + x3 * x3 - 48],
        bounds=(vector([-4.5, -4.5, -5]), vector([4.5, 4.5, 5])),
    )  # fmt: skip


@register
def hs66() -> TestProblem:
    """.2 x3 - .8 x1 s.t. exp(x1) <= x2, exp(x2) <= x3, 0 <= x <= (100, 100, 10)."""
    return hs(
        66, lambda x1, x2, x3: 0.2 * x3 - 0.8 * x1, [0, 1.05, 2.9], 0.518163274181541,
        [0.18412648792284772, 1.2021678731970429, 3.3273223225990955], convex=True,
        below=lambda x1, x2, x3: [x1.exp() - x2, x2.exp() - x3], bounds=(0.0, vector([100, 100, 10])),
    )  # fmt: skip
