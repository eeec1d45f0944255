"""Problems 83 to 99 of Hock and Schittkowski: two to seven variables."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from pwcf.testproblems.data import vector
from pwcf.testproblems.hock_schittkowski.coordinates import colville, hs
from pwcf.testproblems.problem import TestProblem, register

INF = math.inf


@register
def hs83() -> TestProblem:
    """Colville 3: an indefinite quadratic with three two-sided quadratic inequalities in a box."""

    def below(x1: Tensor, x2: Tensor, x3: Tensor, x4: Tensor, x5: Tensor) -> list[Tensor]:
        one = 85.334407 + 0.0056858 * x2 * x5 + 0.0006262 * x1 * x4 - 0.0022053 * x3 * x5
        two = 80.51249 + 0.0071317 * x2 * x5 + 0.0029955 * x1 * x2 + 0.0021813 * x3 * x3 - 90
        three = 9.300961 + 0.0047026 * x3 * x5 + 0.0012547 * x1 * x3 + 0.0019085 * x3 * x4 - 20
        return [-one, -two, -three, one - 92, two - 20, three - 5]

    return hs(
        83, lambda x1, x2, x3, x4, x5: 5.3578547 * x3 * x3 + 0.8356891 * x1 * x5 + 37.293239 * x1 - 40792.141,
        [78, 33, 27, 27, 27], -30665.538671783313,
        [78, 33, 29.995256025681627, 45, 36.775812905788136], convex=False, below=below,
        bounds=(vector([78, 33, 27, 27, 27]), vector([102, 45, 45, 45, 45])),
    )  # fmt: skip


@register
def hs84() -> TestProblem:
    """x1 times linear functions of the others, three of them between 0 and 3e5; coefficients up to 9e6."""

    def linear(a: float, b: float, c: float, d: float, e: float) -> Callable[..., Tensor]:
        return lambda x1, x2, x3, x4, x5: x1 * (a + b * x2 + c * x3 + d * x4 + e * x5)

    profit = linear(-8720288.849, 150512.5253, -156.6950325, 476470.3222, 729482.8271)
    one = linear(-145421.402, 2931.1506, -40.427932, 5106.192, 15711.36)
    two = linear(-155011.1084, 4360.53352, 12.9492344, 10236.884, 13176.786)
    three = linear(-326669.5104, 7390.68412, -27.8986976, 16643.076, 30988.146)
    return hs(
        84, lambda *x: 24345 - profit(*x), [2.52, 2, 37.5, 9.25, 6.8], -5280335.133214757,
        [4.537430974655399, 2.4, 60, 9.3, 7], convex=False,
        below=lambda *x: [
            -one(*x), -two(*x), -three(*x), one(*x) - 294000, two(*x) - 294000, three(*x) - 277200,
        ],
        bounds=(vector([0, 1.2, 20, 9, 6.5]), vector([1000, 2.4, 60, 9.3, 7])),
    )  # fmt: skip


@register
def hs86() -> TestProblem:
    """Colville 1: a convex cubic with ten linear inequalities, x >= 0. Its dual is problem 117."""
    rows, right, linear, quadratic, cubic = colville()

    def objective(*x: Tensor) -> Tensor:
        z = torch.stack(x, -1)
        square = (z[..., :, None] * quadratic.to(z) * z[..., None, :]).sum((-2, -1))
        return (linear.to(z) * z).sum(-1) + square + (cubic.to(z) * z**3).sum(-1)

    def below(*x: Tensor) -> Sequence[Tensor]:
        z = torch.stack(x, -1)
        return (right.to(z) - (rows.to(z) * z[..., None, :]).sum(-1)).unbind(-1)

    return hs(
        86, objective, [0, 0, 0, 0, 1], -32.34867896572271,
        [0.3, 0.3334676065346071, 0.39999999999999997, 0.4283101047816988, 0.22396487356079814],
        convex=True, below=below, bounds=(0.0, INF),
    )  # fmt: skip


def _heat(number: int, n: int, optimum: float, minimizer: Sequence[float]) -> TestProblem:
    """Time-optimal heating: |x|^2, the time with n switches, s.t. a distance to the target of at most 1e-4."""
    roots = []  # of mu tan(mu) = 1, one in each interval (j pi, (j + 1/2) pi)
    for j in range(30):
        mu = j * math.pi + 0.8
        for _ in range(100):
            mu = j * math.pi + math.atan(1 / mu)
        roots.append(mu)

    def below(*x: Tensor) -> list[Tensor]:
        mu = vector(roots).to(x[0])
        sine, cosine = mu.sin(), mu.cos()
        weight = 2 * sine / (mu + sine * cosine)
        state = torch.ones_like(mu)
        for part in x:
            state = 2 - state if part is not x[0] else state
            state = state * (-(mu**2) * part[..., None] ** 2).exp()
        state = (1 - state) * (-1) ** n
        cross = 2 * weight * state * (cosine - sine / mu) / mu**2
        distance = (weight * state) ** 2 * (sine * cosine / (2 * mu) + 0.5) - cross
        return [2 / 15 - 1e-4 + distance.sum(-1)]

    return hs(
        number, lambda *x: torch.stack(x, -1).square().sum(-1), [0.5 * (-1) ** i for i in range(n)], optimum,
        minimizer, convex=False, below=below,
    )  # fmt: skip


@register
def hs88() -> TestProblem:
    """Time-optimal heating with two switches."""
    return _heat(
        88, 2, 1.362656814889897, [1.0743187312032578, -0.45661370837472604],
    )  # fmt: skip


@register
def hs89() -> TestProblem:
    """Time-optimal heating with three switches."""
    return _heat(
        89, 3, 1.3626568148898819, [1.0743187312032523, -0.45661370837472265, 0],
    )  # fmt: skip


@register
def hs90() -> TestProblem:
    """Time-optimal heating with four switches."""
    return _heat(
        90, 4, 1.3626568148898819, [1.0743187312032523, -0.45661370837472265, 0, 0],
    )  # fmt: skip


@register
def hs91() -> TestProblem:
    """Time-optimal heating with five switches."""
    return _heat(
        91, 5, 1.3626568148898819, [1.0743187312032523, -0.45661370837472265, 0, 0, 0],
    )  # fmt: skip


@register
def hs92() -> TestProblem:
    """Time-optimal heating with six switches."""
    return _heat(
        92, 6, 1.3626568148898819, [1.0743187312032523, -0.45661370837472265, 0, 0, 0, 0],
    )  # fmt: skip


@register
def hs93() -> TestProblem:
    """Transformer design: a polynomial with two polynomial inequalities, x >= 0."""

    def parts(*x: Tensor) -> tuple[Tensor, Tensor]:
        x1, x2, x3, x4, _, _ = x
        return x1 * x4 * (x1 + x2 + x3), x2 * x3 * (x1 + 1.57 * x2 + x4)

    def objective(*x: Tensor) -> Tensor:
        one, two = parts(*x)
        return 0.0204 * one + 0.0187 * two + 0.0607 * one * x[4] ** 2 + 0.0437 * two * x[5] ** 2

    def below(*x: Tensor) -> list[Tensor]:
        x1, x2, x3, x4, x5, x6 = x
        one, two = parts(*x)
        return [2.07 - 0.001 * x1 * x2 * x3 * x4 * x5 * x6, 0.00062 * one * x5**2 + 0.00058 * two * x6**2 - 1]

    return hs(
        93, objective, [5.54, 4.4, 12.02, 11.82, 0.702, 0.852], 135.07596282915182,
        [5.3326663355288115, 4.656744059172022, 10.432991940468277, 12.082306340063699, 0.7526074362238322,
         0.8786508746591392], convex=False, below=below,
        bounds=(0.0, INF),
    )  # fmt: skip


def _alkali(number: int, b: Sequence[float], optimum: float, minimizer: Sequence[float]) -> TestProblem:
    """A linear cost with four bilinear inequalities in a box, right-hand sides b."""

    def below(*x: Tensor) -> list[Tensor]:
        x1, x2, x3, x4, x5, x6 = x
        one = 17.1 * x1 + 38.2 * x2 + 204.2 * x3 + 212.3 * x4 + 623.4 * x5 + 1495.5 * x6
        one = one - 169 * x1 * x3 - 3580 * x3 * x5 - 3810 * x4 * x5 - 18500 * x4 * x6 - 24300 * x5 * x6
        two = 17.9 * x1 + 36.8 * x2 + 113.9 * x3 + 169.7 * x4 + 337.8 * x5 + 1385.2 * x6
        two = two - 139 * x1 * x3 - 2450 * x4 * x5 - 16600 * x4 * x6 - 17200 * x5 * x6
        three = -273 * x2 - 70 * x4 - 819 * x5 + 26000 * x4 * x5
        four = 159.9 * x1 - 311 * x2 + 587 * x4 + 391 * x5 + 2198 * x6 - 14000 * x1 * x6
        return [b[0] - one, b[1] - two, b[2] - three, b[3] - four]

    def objective(*x: Tensor) -> Tensor:
        x1, x2, x3, x4, x5, x6 = x
        return 4.3 * x1 + 31.8 * x2 + 63.3 * x3 + 15.8 * x4 + 68.5 * x5 + 4.7 * x6

    high = vector([0.31, 0.046, 0.068, 0.042, 0.028, 0.0134])
    return hs(
        number, objective, [0] * 6, optimum, minimizer, convex=False, below=below, bounds=(0.0, high),
        spread=high.tolist(),
    )  # fmt: skip


@register
def hs95() -> TestProblem:
    """Four bilinear inequalities with b = (4.97, -1.88, -29.08, -78.02)."""
    return _alkali(
        95, [4.97, -1.88, -29.08, -78.02], 0.015619525242393848, [0, 0, 0, 0, 0, 0.0033233032430625207],
    )  # fmt: skip


@register
def hs96() -> TestProblem:
    """Four bilinear inequalities with b = (4.97, -1.88, -69.08, -118.02)."""
    return _alkali(
        96, [4.97, -1.88, -69.08, -118.02], 0.015619525242393848, [0, 0, 0, 0, 0, 0.0033233032430625207],
    )  # fmt: skip


@register
def hs97() -> TestProblem:
    """Four bilinear inequalities with b = (32.97, 25.12, -29.08, -78.02); f = 4.0712 is a local minimum."""
    return _alkali(
        97, [32.97, 25.12, -29.08, -78.02], 3.1358091228070166, [0.26856491228070145, 0, 0, 0, 0.028, 0.0134],
    )  # fmt: skip


@register
def hs98() -> TestProblem:
    """Four bilinear inequalities with b = (32.97, 25.12, -124.08, -173.02); f = 4.0712 is a local minimum."""
    return _alkali(
        98, [32.97, 25.12, -124.08, -173.02], 3.1358091228070166, [0.26856491228070145, 0, 0, 0, 0.028, 0.0134],
    )  # fmt: skip


@register
def hs99() -> TestProblem:
    """Thrust angles x of a rocket: the range squared, negative, s.t. height 1e5 and speed 1e3, 0 <= x <= 1.58."""
    thrust = [50, 50, 75, 75, 75, 100, 100]
    times = [0, 25, 50, 100, 150, 200, 290, 380]

    def flight(*x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        r = q = s = torch.zeros_like(x[0])
        for i, angle in enumerate(x):
            step = times[i + 1] - times[i]
            lift = thrust[i] * angle.sin() - 32
            r, q, s = r + thrust[i] * step * angle.cos(), q + step * s + 0.5 * step**2 * lift, s + step * lift
        return r, q, s

    return hs(
        99, lambda *x: -(flight(*x)[0] ** 2), [0.5] * 7, -831079891.5101076,
        [0.5424678161643386, 0.5290214242645903, 0.5084491553076004, 0.48026885098975114, 0.4512363497801727,
         0.40918308241202633, 0.352787891786958], convex=False,
        zero=lambda *x: [flight(*x)[1] - 1e5, flight(*x)[2] - 1e3], bounds=(0.0, 1.58),
    )  # fmt: skip
