"""Problems 110 to 119 of Hock and Schittkowski: ten to sixteen variables."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from pwcf.solvers import ineq
from pwcf.testproblems.data import vector
from pwcf.testproblems.hock_schittkowski.coordinates import colville, hs
from pwcf.testproblems.problem import TestProblem, register

INF = math.inf


@register
def hs110() -> TestProblem:
    """sum_i ln(x_i - 2)^2 + ln(10 - x_i)^2 - (prod_i x_i)^(1/5), 2.001 <= x <= 9.999."""

    def objective(*x: Tensor) -> Tensor:
        z = torch.stack(x, -1)
        return ((z - 2).log() ** 2 + (10 - z).log() ** 2).sum(-1) - z.prod(-1) ** 0.2

    return hs(
        110, objective, [9] * 10, -45.778469707446284,
        [9.350265833069384, 9.350265833069384, 9.350265833069384, 9.350265833069384, 9.350265833069384,
         9.350265833069384, 9.350265833069384, 9.350265833069384, 9.350265833069384, 9.350265833069384],
        convex=False, bounds=(2.001, 9.999),
    )  # fmt: skip


ENERGIES = [-6.089, -17.164, -34.054, -5.914, -24.721, -14.986, -24.1, -10.708, -26.662, -22.179]


def _balance(*x: Tensor) -> list[Tensor]:
    """The mass balances of problems 111 and 112, for mole numbers x."""
    x1, x2, x3, x4, x5, x6, x7, x8, x9, x10 = x
    return [
        x1 + 2 * x2 + 2 * x3 + x6 + x10 - 2,
        x4 + 2 * x5 + x6 + x7 - 1,
        x3 + x7 + x8 + 2 * x9 + x10 - 1,
    ]


@register
def hs111() -> TestProblem:
    """Chemical equilibrium in the logarithms of the mole numbers: problem 112 with x -> exp(x), |x| <= 100."""

    def objective(*x: Tensor) -> Tensor:
        z = torch.stack(x, -1)
        return (z.exp() * (vector(ENERGIES).to(z) + z - z.logsumexp(-1, keepdim=True))).sum(-1)

    return hs(
        111, objective, [-2.3] * 10, -47.761090859365865,
        [-3.2023115885512143, -1.9123665970809771, -0.24442674775038453, -6.561177271658377,
         -0.7230979632953047, -7.27423228018814, -3.59723742232778, -4.020316730690849, -3.288376881360245,
         -2.334371739220617],
        convex=False, zero=lambda *x: _balance(*(part.exp() for part in x)), bounds=(-100.0, 100.0),
    )  # fmt: skip


@register
def hs112() -> TestProblem:
    """Chemical equilibrium: sum_j x_j (c_j + ln(x_j / sum x)) s.t. three mass balances, x >= 1e-6."""

    def objective(*x: Tensor) -> Tensor:
        z = torch.stack(x, -1)
        return (z * (vector(ENERGIES).to(z) + (z / z.sum(-1, keepdim=True)).log())).sum(-1)

    return hs(
        112, objective, [0.1] * 10, -47.76109085936587,
        [0.040668087355690136, 0.14773035434082232, 0.7831533540092336, 0.001414219809030122,
         0.4852466486992728, 0.0006931720784210655, 0.0273993107140033, 0.01794727958492543,
         0.03731436591303032, 0.096871323865777], convex=True,
        zero=_balance, bounds=(1e-6, INF), spread=0.05, note="the optimum in the book, -47.707579, is not the best",
    )  # fmt: skip


@register
def hs113() -> TestProblem:
    """Wong 2: ten variables, three linear and five quadratic inequalities. Convex, f* = 24.3062091."""

    def objective(x: Tensor) -> Tensor:
        x1, x2, x3, x4, x5, x6, x7, x8, x9, x10 = x.unbind(-1)
        first = x1 * x1 + x2 * x2 + x1 * x2 - 14 * x1 - 16 * x2 + (x3 - 10) ** 2 + 4 * (x4 - 5) ** 2 + (x5 - 3) ** 2
        second = 2 * (x6 - 1) ** 2 + 5 * x7 * x7 + 7 * (x8 - 11) ** 2 + 2 * (x9 - 10) ** 2 + (x10 - 7) ** 2
        return first + second + 45

    def below(x: Tensor) -> Tensor:
        x1, x2, x3, x4, x5, x6, x7, x8, x9, x10 = x.unbind(-1)
        columns = [
            4 * x1 + 5 * x2 - 3 * x7 + 9 * x8 - 105,
            10 * x1 - 8 * x2 - 17 * x7 + 2 * x8,
            -8 * x1 + 2 * x2 + 5 * x9 - 2 * x10 - 12,
            3 * (x1 - 2) ** 2 + 4 * (x2 - 3) ** 2 + 2 * x3 * x3 - 7 * x4 - 120,
            5 * x1 * x1 + 8 * x2 + (x3 - 6) ** 2 - 2 * x4 - 40,
            0.5 * (x1 - 8) ** 2 + 2 * (x2 - 4) ** 2 + 3 * x5 * x5 - x6 - 30,
            x1 * x1 + 2 * (x2 - 2) ** 2 - 2 * x1 * x2 + 14 * x5 - 6 * x6,
            -3 * x1 + 6 * x2 + 12 * (x9 - 8) ** 2 - 7 * x10,
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


@register
def hs114() -> TestProblem:
    """Alkylation process: ten variables from 3 to 16000, eight inequalities, three equalities."""
    a, b = 0.99, 0.9

    def below(*x: Tensor) -> list[Tensor]:
        x1, _, _, x4, _, x6, x7, x8, x9, x10 = x
        one = 35.82 - 0.222 * x10 - b * x9
        two = -133 + 3 * x7 - a * x10
        five = 1.12 * x1 + 0.13167 * x1 * x8 - 0.00667 * x1 * x8**2 - a * x4
        six = 57.425 + 1.098 * x8 - 0.038 * x8**2 + 0.325 * x6 - a * x7
        wide = 1 / a - a
        return [
            -one, -two, one - x9 * (1 / b - b), two - wide * x10, -five, -six, five - wide * x4, six - wide * x7,
        ]  # fmt: skip

    def zero(*x: Tensor) -> list[Tensor]:
        x1, x2, x3, x4, x5, x6, _, x8, x9, _ = x
        return [1.22 * x4 - x1 - x5, 98000 * x3 / (x4 * x9 + 1000 * x3) - x6, (x2 + x5) / x1 - x8]

    def objective(*x: Tensor) -> Tensor:
        return 5.04 * x[0] + 0.035 * x[1] + 10 * x[2] + 3.36 * x[4] - 0.063 * x[3] * x[6]

    return hs(
        114, objective, [1745, 12000, 110, 3048, 1974, 89.2, 92.8, 8, 3.6, 145], -1768.8069637162444,
        [1698.0947651889674, 15818.614924182939, 54.102682333247266, 3031.2252173680063, 2000,
         90.11542219898666, 95, 10.493298306705542, 1.561636363636363, 153.53535353535355], convex=False,
        below=below, zero=zero,
        bounds=(
            vector([1e-5] * 5 + [85, 90, 3, 1.2, 145]),
            vector([2000, 16000, 120, 5000, 2000, 93, 95, 12, 4, 162]),
        ),
        spread=[100, 1000, 10, 200, 100, 1, 1, 1, 0.25, 5],
    )  # fmt: skip


@register
def hs116() -> TestProblem:
    """Membrane separation in three stages: x11 + x12 + x13 with fifteen inequalities in a box."""

    def below(*x: Tensor) -> list[Tensor]:
        x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13 = x
        a, b, c, d, e, f = 0.002, 1.262626, 1.231059, 0.03475, 0.975, 0.00975
        return [
            x2 - x3,
            x1 - x2,
            a * x7 - a * x8 - 1,
            50 - x11 - x12 - x13,
            x11 + x12 + x13 - 250,
            b * x10 - c * x3 * x10 - x13,
            d * x2 + e * x2 * x5 - f * x2**2 - x5,
            d * x3 + e * x3 * x6 - f * x3**2 - x6,
            d * x1 + e * x1 * x4 - f * x1**2 - x4,
            b * x9 - c * x2 * x9 - x12,
            b * x8 - c * x1 * x8 - x11,
            x1 * x8 + x4 * x7 - x4 * x8 - x5 * x7,
            a * (x2 * x9 + x5 * x8 - x1 * x8 - x6 * x9) + x5 + x6 - 1,
            x3 * x10 + x6 * x9 + 500 * x2 - x2 * x9 - 500 * x6 - x2 * x10,
            0.9 + a * (x2 * x10 - x3 * x10) - x2,
        ]

    return hs(
        116, lambda *x: x[10] + x[11] + x[12], [0.5, 0.8, 0.9, 0.1, 0.14, 0.5, 489, 80, 650, 450, 150, 150, 150],
        97.58750955807047,
        [0.8037731573766546, 0.8999858006730378, 0.9709824354837546, 0.1, 0.19081317621550697,
         0.46065478285178346, 574.0775735827623, 74.07757358276228, 500.01616016896855, 0.1, 20.233090697367544,
         77.34768992730734, 0.0067289333955804454], convex=False, below=below,
        bounds=(
            vector([0.1, 0.1, 0.1, 1e-4, 0.1, 0.1, 0.1, 0.1, 500, 0.1, 1, 1e-4, 1e-4]),
            vector([1, 1, 1, 0.1, 0.9, 0.9, 1000, 1000, 1000, 500, 150, 150, 150]),
        ),
        spread=[0.05, 0.05, 0.05, 0.01, 0.02, 0.05, 25, 10, 25, 25, 10, 10, 10], note="97.588409 in the book",
    )  # fmt: skip


@register
def hs117() -> TestProblem:
    """Colville 2, the dual of problem 86: fifteen variables, five quadratic inequalities, x >= 0."""
    rows, right, linear, quadratic, cubic = colville()

    def objective(*x: Tensor) -> Tensor:
        u, z = torch.stack(x[:10], -1), torch.stack(x[10:], -1)
        square = (z[..., :, None] * quadratic.to(z) * z[..., None, :]).sum((-2, -1))
        return square + 2 * (cubic.to(z) * z**3).sum(-1) - (right.to(u) * u).sum(-1)

    def below(*x: Tensor) -> Sequence[Tensor]:
        u, z = torch.stack(x[:10], -1), torch.stack(x[10:], -1)
        slope = 2 * (quadratic.to(z) * z[..., None, :]).sum(-1) + 3 * cubic.to(z) * z**2 + linear.to(z)
        return ((rows.to(u) * u[..., :, None]).sum(-2) - slope).unbind(-1)

    return hs(
        117, objective, [0.001] * 6 + [60] + [0.001] * 8, 32.348678965722705,
        [0, 0, 5.174040727698173, 0, 3.06110868775845, 11.839545664800731, 0, 0, 0.10389619077061563, 0,
         0.2999999999999999, 0.3334676065346071, 0.39999999999999974, 0.42831010478169873, 0.22396487356079792],
        convex=False, below=below, bounds=(0.0, INF),
    )  # fmt: skip


@register
def hs118() -> TestProblem:
    """A separable convex quadratic with 29 linear inequalities, fifteen variables in a box."""

    def objective(*x: Tensor) -> Tensor:
        z = torch.stack(x, -1)
        linear, square = vector([2.3, 1.7, 2.2] * 5).to(z), vector([1e-4, 1e-4, 1.5e-4] * 5).to(z)
        return (linear * z + square * z * z).sum(-1)

    def below(*x: Tensor) -> list[Tensor]:
        steps = [x[i + 3] - x[i] for i in range(12)]
        tops = [6.0, 7.0, 6.0] * 4
        demand = [60, 50, 70, 85, 100]
        return (
            [-7 - step for step in steps]
            + [step - top for step, top in zip(steps, tops, strict=True)]
            + [demand[k] - x[3 * k] - x[3 * k + 1] - x[3 * k + 2] for k in range(5)]
        )

    return hs(
        118, objective, [20, 55, 15] + [20, 60, 20] * 4, 664.8204499999999,
        [8, 49, 3, 1, 56, 0, 1.0000000000000029, 63, 6, 3.0000000000000058, 70, 12, 4.999999999999994, 77, 18],
        convex=True, below=below,
        bounds=(vector([8, 43, 3] + [0] * 12), vector([21, 57, 16] + [90, 120, 60] * 4)),
    )  # fmt: skip


@register
def hs119() -> TestProblem:
    """sum_ij a_ij (x_i^2 + x_i + 1)(x_j^2 + x_j + 1) s.t. eight linear equalities, 0 <= x <= 5."""
    # The pairs (i, j) with a_ij = 1, from 1 as in the book.
    pairs = {
        1: [1, 4, 7, 8, 16], 2: [2, 3, 7, 10], 3: [3, 7, 9, 10, 14], 4: [4, 7, 11, 15], 5: [5, 6, 10, 12, 16],
        6: [6, 8, 15], 7: [7, 11, 13], 8: [8, 10, 15], 9: [9, 12, 16], 10: [10, 14], 11: [11, 13], 12: [12, 14],
        13: [13, 14], 14: [14], 15: [15], 16: [16],
    }  # fmt: skip
    rows = [
        [0.22, 0.20, 0.19, 0.25, 0.15, 0.11, 0.12, 0.13, 1, 0, 0, 0, 0, 0, 0, 0],
        [-1.46, 0, -1.30, 1.82, -1.15, 0, 0.80, 0, 0, 1, 0, 0, 0, 0, 0, 0],
        [1.29, -0.89, 0, 0, -1.16, -0.96, 0, -0.49, 0, 0, 1, 0, 0, 0, 0, 0],
        [-1.10, -1.06, 0.95, -0.54, 0, -1.78, -0.41, 0, 0, 0, 0, 1, 0, 0, 0, 0],
        [0, 0, 0, -1.43, 1.51, 0.59, -0.33, -0.43, 0, 0, 0, 0, 1, 0, 0, 0],
        [0, -1.72, -0.33, 0, 1.62, 1.24, 0.21, -0.26, 0, 0, 0, 0, 0, 1, 0, 0],
        [1.12, 0, 0, 0.31, 0, 0, 1.12, 0, -0.36, 0, 0, 0, 0, 0, 1, 0],
        [0, 0.45, 0.26, -1.10, 0.58, 0, -1.03, 0.10, 0, 0, 0, 0, 0, 0, 0, 1],
    ]
    right = [2.5, 1.1, -3.1, -3.5, 1.3, 2.1, 2.3, -1.5]

    def objective(*x: Tensor) -> Tensor:
        p = [part * part + part + 1 for part in x]
        return torch.stack([p[i - 1] * p[j - 1] for i, others in pairs.items() for j in others], -1).sum(-1)

    def zero(*x: Tensor) -> Sequence[Tensor]:
        z = torch.stack(x, -1)
        matrix = torch.stack([vector(row) for row in rows]).to(z)
        return ((matrix * z[..., None, :]).sum(-1) - vector(right).to(z)).unbind(-1)

    return hs(
        119, objective, [10] * 16, 244.89969751680087,
        [0.039847351411122285, 0.7919831556883807, 0.20287033025103604, 0.844357916365675, 1.269906452866503,
         0.9347387078246429, 1.6819619692469192, 0.1553008773895686, 1.5678703335518012, 0, 0, 0,
         0.6602040660869546, 0, 0.6742559268682825, 0], convex=False, zero=zero, bounds=(0.0, 5.0),
    )  # fmt: skip
