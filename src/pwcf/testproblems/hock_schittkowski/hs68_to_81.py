"""Problems 68 to 81 of Hock and Schittkowski: four and five variables."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from pwcf.testproblems.data import vector
from pwcf.testproblems.hock_schittkowski.coordinates import hs
from pwcf.testproblems.problem import TestProblem, register

INF = math.inf


def _inspection(number: int, a: float, b: float, n: float, optimum: float, minimizer: Sequence[float]) -> TestProblem:
    """Cost of a quality control: x3, x4 are false and true alarms, sums of normal distribution functions."""

    def objective(x1: Tensor, x2: Tensor, x3: Tensor, x4: Tensor) -> Tensor:
        growth = x1.expm1()
        return (a * n - (b * growth - x3) * x4 / (growth + x4)) / x1

    def zero(x1: Tensor, x2: Tensor, x3: Tensor, x4: Tensor) -> list[Tensor]:
        shift = math.sqrt(n)
        alarm = torch.special.ndtr(shift - x2) + torch.special.ndtr(-shift - x2)
        return [x3 - 2 * torch.special.ndtr(-x2), x4 - alarm]

    return hs(
        number, objective, [1, 1, 1, 1], optimum, minimizer, convex=False, zero=zero,
        bounds=(vector([1e-4, 0, 0, 0]), vector([100, 100, 2, 2])),
    )  # fmt: skip


@register
def hs68() -> TestProblem:
    """Cost optimal inspection plan with a = .0001, b = 1, n = 24."""
    return _inspection(
        68, 1e-4, 1, 24, -0.9204250036397507,
        [0.06785857708551214, 3.6462108556881807, 0.00026613562521538085, 0.8948550393735524],
    )  # fmt: skip


@register
def hs69() -> TestProblem:
    """Cost optimal inspection plan with a = .1, b = 1000, n = 4."""
    return _inspection(
        69, 0.1, 1000, 4, -956.7128866500283,
        [0.029371417421706066, 1.1902534504068978, 0.2339467906674241, 0.7916678112438078],
    )  # fmt: skip


@register
def hs70() -> TestProblem:
    """Least squares: fit a mixture of two gamma densities to 19 points s.t. x3 + (1 - x3) x4 >= 0 in a box."""
    seen = [
        0.00189, 0.1038, 0.268, 0.506, 0.577, 0.604, 0.725, 0.898, 0.947, 0.845,
        0.702, 0.528, 0.385, 0.257, 0.159, 0.0869, 0.0453, 0.01509, 0.00189,
    ]  # fmt: skip

    def objective(*x: Tensor) -> Tensor:
        x1, x2, x3, x4 = (part[..., None] for part in x)
        b = x3 + (1 - x3) * x4
        time = vector([0.1, *range(1, 19)]).to(x1)
        one = x3 * b**x2 * (x2 / 6.2832).sqrt() * (time / 7.658) ** (x2 - 1) * (x2 - b * time * x2 / 7.658).exp()
        two = (1 - x3) * (b / x4) ** x1 * (x1 / 6.2832).sqrt()
        two = two * (time / 7.658) ** (x1 - 1) * (x1 - b * time * x1 / (7.658 * x4)).exp()
        fit = one / (1 + 1 / (12 * x2)) + two / (1 + 1 / (12 * x1))
        return ((fit - vector(seen).to(x1)) ** 2).sum(-1)

    return hs(
        70, objective, [2, 4, 0.04, 2], 0.007498463574427517,
        [12.276979127629092, 4.631748162854861, 0.3128646302256911, 2.02928282534149], convex=False,
        below=lambda x1, x2, x3, x4: [-x3 - (1 - x3) * x4], bounds=(1e-5, vector([100, 100, 1, 100])),
        spread=[0.25, 0.25, 0.03, 0.25],
    )  # fmt: skip


@register
def hs71() -> TestProblem:
    """x1 x4 (x1 + x2 + x3) + x3 s.t. x1 x2 x3 x4 >= 25, sum_i x_i^2 = 40, 1 <= x <= 5. f* = 17.0140173."""
    return hs(
        71, lambda x1, x2, x3, x4: x1 * x4 * (x1 + x2 + x3) + x3, [1, 5, 5, 1], 17.0140172891563,
        [1.0, 4.742999637264417, 3.8211499841848737, 1.3794082931726723], convex=False,
        below=lambda x1, x2, x3, x4: [25 - x1 * x2 * x3 * x4],
        zero=lambda x1, x2, x3, x4: [x1 * x1 + x2 * x2 + x3 * x3 + x4 * x4 - 40], bounds=(1.0, 5.0),
    )  # fmt: skip


@register
def hs72() -> TestProblem:
    """1 + sum_i x_i s.t. two sums of reciprocals, .001 <= x_i <= (5 - i) 1e5."""
    return hs(
        72, lambda x1, x2, x3, x4: 1 + x1 + x2 + x3 + x4, [1, 1, 1, 1], 727.6793577896129,
        [193.40742727194635, 179.54707603227456, 185.01806335815152, 168.70679112724056], convex=True,
        below=lambda x1, x2, x3, x4: [
            4 / x1 + 2.25 / x2 + 1 / x3 + 0.25 / x4 - 0.0401,
            0.16 / x1 + 0.36 / x2 + 0.64 / x3 + 0.64 / x4 - 0.010085,
        ],
        bounds=(0.001, vector([4e5, 3e5, 2e5, 1e5])),
    )  # fmt: skip


@register
def hs73() -> TestProblem:
    """Cattle feed: a linear cost s.t. a linear and a second-order cone inequality on the simplex."""

    def below(x1: Tensor, x2: Tensor, x3: Tensor, x4: Tensor) -> list[Tensor]:
        deviation = (0.28 * x1 * x1 + 0.19 * x2 * x2 + 20.5 * x3 * x3 + 0.62 * x4 * x4).sqrt()
        return [
            5 - 2.3 * x1 - 5.6 * x2 - 11.1 * x3 - 1.3 * x4,
            21 + 1.645 * deviation - 12 * x1 - 11.9 * x2 - 41.8 * x3 - 52.1 * x4,
        ]

    return hs(
        73, lambda x1, x2, x3, x4: 24.55 * x1 + 26.75 * x2 + 39 * x3 + 40.5 * x4, [1, 1, 1, 1], 29.894378159143354,
        [0.6355215686350697, 0, 0.31270188075152355, 0.05177655061340672], convex=True, below=below,
        zero=lambda x1, x2, x3, x4: [x1 + x2 + x3 + x4 - 1], bounds=(0.0, INF),
    )  # fmt: skip


def _power(number: int, a: float, optimum: float, minimizer: Sequence[float]) -> TestProblem:
    """Two generators, with the phases x3, x4 at most a apart."""

    def zero(x1: Tensor, x2: Tensor, x3: Tensor, x4: Tensor) -> list[Tensor]:
        return [
            1000 * (-x3 - 0.25).sin() + 1000 * (-x4 - 0.25).sin() + 894.8 - x1,
            1000 * (x3 - 0.25).sin() + 1000 * (x3 - x4 - 0.25).sin() + 894.8 - x2,
            1000 * (x4 - 0.25).sin() + 1000 * (x4 - x3 - 0.25).sin() + 1294.8,
        ]

    return hs(
        number, lambda x1, x2, x3, x4: 3 * x1 + 1e-6 * x1**3 + 2 * x2 + 2e-6 / 3 * x2**3, [0, 0, 0, 0], optimum,
        minimizer, convex=False, below=lambda x1, x2, x3, x4: [x3 - x4 - a, x4 - x3 - a], zero=zero,
        bounds=(vector([0, 0, -a, -a]), vector([1200, 1200, a, a])), spread=[100, 100, 0.25, 0.25],
    )  # fmt: skip


@register
def hs74() -> TestProblem:
    """Two generators, phases at most .55 apart."""
    return _power(
        74, 0.55, 5126.498109595272, [679.9453198512116, 1026.0671326104646, 0.11887636449310192, -0.3962335532032102],
    )  # fmt: skip


@register
def hs75() -> TestProblem:
    """Two generators, phases at most .48 apart."""
    return _power(
        75, 0.48, 5174.41269537774, [776.1590265860594, 925.1951384690917, 0.05110892853835126, -0.42889107146164873],
    )  # fmt: skip


@register
def hs76() -> TestProblem:
    """A convex quadratic programme with three inequalities and x >= 0. f* = -103/22."""

    def objective(x1: Tensor, x2: Tensor, x3: Tensor, x4: Tensor) -> Tensor:
        return x1 * x1 + 0.5 * x2 * x2 + x3 * x3 + 0.5 * x4 * x4 - x1 * x3 + x3 * x4 - x1 - 3 * x2 + x3 - x4

    return hs(
        76, objective, [0.5, 0.5, 0.5, 0.5], -103 / 22, [3 / 11, 23 / 11, 0, 6 / 11], convex=True,
        below=lambda x1, x2, x3, x4: [x1 + 2 * x2 + x3 + x4 - 5, 3 * x1 + x2 + 2 * x3 - x4 - 4, 1.5 - x2 - 4 * x3],
        bounds=(0.0, INF),
    )  # fmt: skip


@register
def hs77() -> TestProblem:
    """(x1-1)^2 + (x1-x2)^2 + (x3-1)^2 + (x4-1)^4 + (x5-1)^6 s.t. two equalities."""

    def objective(x1: Tensor, x2: Tensor, x3: Tensor, x4: Tensor, x5: Tensor) -> Tensor:
        return (x1 - 1) ** 2 + (x1 - x2) ** 2 + (x3 - 1) ** 2 + (x4 - 1) ** 4 + (x5 - 1) ** 6

    root = math.sqrt(2)
    return hs(
        77, objective, [2, 2, 2, 2, 2], 0.24150512879017869,
        [1.1661721897092985, 1.1821113888027044, 1.3802570431454597, 1.5060362736230457, 0.6109201960430908],
        convex=False,
        zero=lambda x1, x2, x3, x4, x5: [
            x1 * x1 * x4 + (x4 - x5).sin() - 2 * root,
            x2 + x3**4 * x4 * x4 - 8 - root,
        ],
    )  # fmt: skip


def _sphere_and_cubics(x1: Tensor, x2: Tensor, x3: Tensor, x4: Tensor, x5: Tensor) -> list[Tensor]:
    square = x1 * x1 + x2 * x2 + x3 * x3 + x4 * x4 + x5 * x5
    return [square - 10, x2 * x3 - 5 * x4 * x5, x1**3 + x2**3 + 1]


@register
def hs78() -> TestProblem:
    """x1 x2 x3 x4 x5 s.t. |x|^2 = 10, x2 x3 = 5 x4 x5, x1^3 + x2^3 = -1."""
    return hs(
        78, lambda x1, x2, x3, x4, x5: x1 * x2 * x3 * x4 * x5, [-2, 1.5, 2, -1, -1], -2.919700408963679,
        [-1.7171435703943823, 1.5957096901835544, 1.8272457529271946, -0.7636430781841304, -0.7636430781841304],
        convex=False, zero=_sphere_and_cubics,
    )  # fmt: skip


@register
def hs79() -> TestProblem:
    """(x1-1)^2 + (x1-x2)^2 + (x2-x3)^2 + (x3-x4)^4 + (x4-x5)^4 s.t. three equalities."""

    def objective(x1: Tensor, x2: Tensor, x3: Tensor, x4: Tensor, x5: Tensor) -> Tensor:
        return (x1 - 1) ** 2 + (x1 - x2) ** 2 + (x2 - x3) ** 2 + (x3 - x4) ** 4 + (x4 - x5) ** 4

    root = math.sqrt(2)
    return hs(
        79, objective, [2, 2, 2, 2, 2], 0.07877682087105692,
        [1.1911274563110514, 1.3626031649617423, 1.4728179315120877, 1.6350166191679931, 1.6790814361664075],
        convex=False,
        zero=lambda x1, x2, x3, x4, x5: [
            x1 + x2 * x2 + x3**3 - 2 - 3 * root,
            x2 - x3 * x3 + x4 + 2 - 2 * root,
            x1 * x5 - 2,
        ],
    )  # fmt: skip


@register
def hs80() -> TestProblem:
    """exp(x1 x2 x3 x4 x5) s.t. the equalities of problem 78 in a box."""
    return hs(
        80, lambda x1, x2, x3, x4, x5: (x1 * x2 * x3 * x4 * x5).exp(), [-2, 2, 2, -1, -1], 0.05394984777027203,
        [-1.7171435703943823, 1.5957096901835544, 1.8272457529271946, -0.7636430781841304, -0.7636430781841304],
        convex=False, zero=_sphere_and_cubics,
        bounds=(vector([-2.3, -2.3, -3.2, -3.2, -3.2]), vector([2.3, 2.3, 3.2, 3.2, 3.2])),
    )  # fmt: skip


@register
def hs81() -> TestProblem:
    """exp(x1 x2 x3 x4 x5) - (x1^3 + x2^3 + 1)^2 / 2 s.t. the equalities of problem 78 in a box."""
    return hs(
        81, lambda x1, x2, x3, x4, x5: (x1 * x2 * x3 * x4 * x5).exp() - 0.5 * (x1**3 + x2**3 + 1) ** 2,
        [-2, 2, 2, -1, -1], 0.05394984777027208,
        [-1.717143570394382, 1.5957096901835544, 1.8272457529271944, -0.7636430781841302, -0.7636430781841304],
        convex=False,
        zero=_sphere_and_cubics,
        bounds=(vector([-2.3, -2.3, -3.2, -3.2, -3.2]), vector([2.3, 2.3, 3.2, 3.2, 3.2])),
    )  # fmt: skip
