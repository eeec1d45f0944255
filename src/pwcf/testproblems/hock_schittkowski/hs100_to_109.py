"""Problems 100 to 109 of Hock and Schittkowski: seven to nine variables."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from pwcf.testproblems.data import vector
from pwcf.testproblems.hock_schittkowski.coordinates import hs
from pwcf.testproblems.problem import TestProblem, register

INF = math.inf


@register
def hs100() -> TestProblem:
    """Seven variables, four convex inequalities. Not convex (x7^4 - 4 x6 x7). f* = 680.6300573."""

    def objective(x1: Tensor, x2: Tensor, x3: Tensor, x4: Tensor, x5: Tensor, x6: Tensor, x7: Tensor) -> Tensor:
        first = (x1 - 10) ** 2 + 5 * (x2 - 12) ** 2 + x3**4 + 3 * (x4 - 11) ** 2 + 10 * x5**6
        return first + 7 * x6 * x6 + x7**4 - 4 * x6 * x7 - 10 * x6 - 8 * x7

    def below(x1: Tensor, x2: Tensor, x3: Tensor, x4: Tensor, x5: Tensor, x6: Tensor, x7: Tensor) -> list[Tensor]:
        return [
            2 * x1 * x1 + 3 * x2**4 + x3 + 4 * x4 * x4 + 5 * x5 - 127,
            7 * x1 + 3 * x2 + 10 * x3 * x3 + x4 - x5 - 282,
            23 * x1 + x2 * x2 + 6 * x6 * x6 - 8 * x7 - 196,
            4 * x1 * x1 + x2 * x2 - 3 * x1 * x2 + 2 * x3 * x3 + 5 * x6 - 11 * x7,
        ]

    return hs(
        100, objective, [1, 2, 0, 4, 0, 1, 1], 680.630057374402,
        [2.33049937287957, 1.951372372896889, -0.4775413923888716, 4.36572623365581,
         -0.6244869705268175, 1.0381310186079584, 1.5942267116118685], convex=False, below=below,
    )  # fmt: skip


def _geometric(number: int, a: float, optimum: float, minimizer: Sequence[float]) -> TestProblem:
    """Geometric programme: posynomials in seven variables, x7 with the exponent a in one term."""
    # One row per term: coefficient, exponents of x1, ..., x7.
    cost: list[list[float]] = [
        [10, 1, -1, 0, 2, 0, -3, a],
        [15, -1, -2, 1, 1, -1, 0, -0.5],
        [20, -2, 1, 0, -1, -2, 1, 0],
        [25, 2, 2, -1, 0, 0.5, -2, 1],
    ]
    limits: list[list[list[float]]] = [
        [[0.5, 0.5, 0, -1, 0, 0, -2, 1], [0.7, 3, 1, -2, 0, 0, 1, 0.5], [0.2, 0, -1, 1, -0.5, 0, 2 / 3, 0.25]],
        [[1.3, -0.5, 1, -1, 0, -1, 1, 0], [0.8, 0, 0, 1, -1, -1, 2, 0], [3.1, -1, 0.5, 0, -2, -1, 1 / 3, 0]],
        [
            [2, 1, 0, -1.5, 0, 1, -1, 1 / 3],
            [0.1, 0, 1, -0.5, 0, 1, -1, -0.5],
            [1, -1, 1, 0.5, 0, 1, 0, 0],
            [0.65, 0, -2, 1, 0, 1, -1, 1],
        ],
        [
            [0.2, -2, 1, 0, -1, 0.5, 0, 1 / 3],
            [0.3, 0.5, 2, 1, 1 / 3, -2 / 3, 0, 0.25],
            [0.4, -3, -2, 1, 0, 1, 0, 0.75],
            [0.5, 0, 0, -2, 1, 0, 0, 0.5],
        ],
    ]

    def posynomial(terms: list[list[float]], x: Sequence[Tensor]) -> Tensor:
        total = torch.zeros_like(x[0])
        for coefficient, *exponents in terms:
            term = torch.full_like(x[0], coefficient)
            for part, exponent in zip(x, exponents, strict=True):
                term = term * part**exponent if exponent else term
            total = total + term
        return total

    def below(*x: Tensor) -> list[Tensor]:
        value = posynomial(cost, x)
        return [posynomial(terms, x) - 1 for terms in limits] + [100 - value, value - 3000]

    return hs(
        number, lambda *x: posynomial(cost, x), [6] * 7, optimum, minimizer, convex=False, below=below,
        bounds=(vector([0.1] * 6 + [0.01]), 10.0),
    )  # fmt: skip


@register
def hs101() -> TestProblem:
    """Geometric programme with the exponent -1/4."""
    return _geometric(
        101, -0.25, 1809.7647655714156,
        [2.8561585557551457, 0.6108230308034504, 2.1508125621644734, 4.712873709241228, 0.9994875408574636,
         1.3475075048283298, 0.031652766502774286],
    )  # fmt: skip


@register
def hs102() -> TestProblem:
    """Geometric programme with the exponent 1/8."""
    return _geometric(
        102, 0.125, 911.8805714301081,
        [3.89625319107028, 0.8093587601054144, 2.6643859937754892, 4.300912874794021, 0.8535549352485842,
         1.0952874445761034, 0.027310459657719256],
    )  # fmt: skip


@register
def hs103() -> TestProblem:
    """Geometric programme with the exponent 1/2."""
    return _geometric(
        103, 0.5, 543.6679584662807,
        [4.394104510526406, 0.8544687387974248, 2.843230313950895, 3.3999786676865584, 0.7229261330073025,
         0.8704063818044572, 0.024638826327228507],
    )  # fmt: skip


@register
def hs104() -> TestProblem:
    """Optimal reactor design: eight variables in [.1, 10] with powers, .1 <= f <= 4.2."""

    def objective(*x: Tensor) -> Tensor:
        x1, x2, _, _, _, _, x7, x8 = x
        return 0.4 * (x1 / x7) ** 0.67 + 0.4 * (x2 / x8) ** 0.67 + 10 - x1 - x2

    def below(*x: Tensor) -> list[Tensor]:
        x1, x2, x3, x4, x5, x6, x7, x8 = x
        value = objective(*x)
        return [
            0.0588 * x5 * x7 + 0.1 * x1 - 1,
            0.0588 * x6 * x8 + 0.1 * x1 + 0.1 * x2 - 1,
            4 * x3 / x5 + 2 * x3**-0.71 / x5 + 0.0588 * x3**-1.3 * x7 - 1,
            4 * x4 / x6 + 2 * x4**-0.71 / x6 + 0.0588 * x4**-1.3 * x8 - 1,
            0.1 - value,
            value - 4.2,
        ]

    return hs(
        104, objective, [6, 3, 0.4, 0.2, 6, 6, 1, 0.5], 3.9511634401033566,
        [6.4651140283691, 2.2327086479852287, 0.6673974912866293, 0.595756422900371, 5.932675677909848,
         5.527234564976939, 1.0133220089025612, 0.4006682291257031], convex=False,
        below=below, bounds=(0.1, 10.0), spread=[0.25, 0.25, 0.1, 0.05, 0.25, 0.25, 0.25, 0.1],
    )  # fmt: skip


@register
def hs105() -> TestProblem:
    """Maximum likelihood: a mixture of three normal distributions to 235 observations, in a box."""
    counts = {
        95: 1, 105: 1, 110: 4, 115: 4, 120: 15, 125: 15, 130: 15, 135: 13, 140: 21, 145: 12, 150: 17, 155: 4, 160: 20,
        165: 8, 170: 17, 175: 8, 180: 6, 185: 6, 190: 7, 195: 4, 200: 3, 205: 3, 210: 8, 215: 1, 220: 6, 230: 5,
        235: 1, 240: 7, 245: 1, 250: 2,
    }  # fmt: skip

    def objective(*x: Tensor) -> Tensor:
        x1, x2, x3, x4, x5, x6, x7, x8 = (part[..., None] for part in x)
        y, count = (vector(list(values)).to(x1) for values in (counts.keys(), counts.values()))

        def density(share: Tensor, mean: Tensor, deviation: Tensor) -> Tensor:
            return share / deviation * (-((y - mean) ** 2) / (2 * deviation**2)).exp()

        mixture = density(x1, x3, x6) + density(x2, x4, x7) + density(1 - x1 - x2, x5, x8)
        return -(count * (mixture / math.sqrt(2 * math.pi)).log()).sum(-1)

    return hs(
        105, objective, [0.1, 0.2, 100, 125, 175, 11.2, 13.2, 15.8], 1136.307303574072,
        [0.499, 0.3527630304890162, 163.0582181996607, 130.24561422816012, 222.76694290002206,
         19.537368085039652, 11.878316352629334, 16.414893609358934], convex=False,
        below=lambda *x: [x[0] + x[1] - 1],
        bounds=(vector([0.001, 0.001, 100, 130, 170, 5, 5, 5]), vector([0.499, 0.449, 180, 210, 240, 25, 25, 25])),
        spread=[0.05, 0.05, 10, 10, 10, 1, 1, 1], note="the optimum in the book, 1138.41624, is not the best",
    )  # fmt: skip


@register
def hs106() -> TestProblem:
    """Heat exchanger design: x1 + x2 + x3 with three linear and three bilinear inequalities in a box."""

    def below(*x: Tensor) -> list[Tensor]:
        x1, x2, x3, x4, x5, x6, x7, x8 = x
        return [
            0.0025 * (x4 + x6) - 1,
            0.0025 * (x5 + x7 - x4) - 1,
            0.01 * (x8 - x5) - 1,
            833.33252 * x4 + 100 * x1 - 83333.333 - x1 * x6,
            1250 * x5 + x2 * x4 - x2 * x7 - 1250 * x4,
            1250000 + x3 * x5 - x3 * x8 - 2500 * x5,
        ]

    return hs(
        106, lambda *x: x[0] + x[1] + x[2], [5000, 5000, 5000, 200, 350, 150, 225, 425], 7049.248020528665,
        [579.3066844253549, 1359.9706680516556, 5109.970668051654, 182.01769958111987, 295.6011732779338,
         217.9823004188801, 286.41652630318606, 395.6011732779338], convex=False,
        below=below, bounds=(vector([100, 1000, 1000] + [10] * 5), vector([1e4] * 3 + [1e3] * 5)),
        spread=[500] * 3 + [20] * 5, note="the optimum in the book, 7049.330923, is not accurate",
    )  # fmt: skip


@register
def hs107() -> TestProblem:
    """Static power scheduling: two generators, six power flow equalities."""
    c, d = (48.4 / 50.176 * part for part in (math.sin(0.25), math.cos(0.25)))

    def zero(*x: Tensor) -> list[Tensor]:
        x1, x2, x3, x4, x5, x6, x7, x8, x9 = x
        y1, y2, y3, y4, y5, y6 = x8.sin(), x8.cos(), x9.sin(), x9.cos(), (x8 - x9).sin(), (x8 - x9).cos()
        return [
            0.4 - x1 + 2 * c * x5 * x5 - x5 * x6 * (d * y1 + c * y2) - x5 * x7 * (d * y3 + c * y4),
            0.4 - x2 + 2 * c * x6 * x6 + x5 * x6 * (d * y1 - c * y2) + x6 * x7 * (d * y5 - c * y6),
            0.8 + 2 * c * x7 * x7 + x5 * x7 * (d * y3 - c * y4) - x6 * x7 * (d * y5 + c * y6),
            0.2 - x3 + 2 * d * x5 * x5 + x5 * x6 * (c * y1 - d * y2) + x5 * x7 * (c * y3 - d * y4),
            0.2 - x4 + 2 * d * x6 * x6 - x5 * x6 * (c * y1 + d * y2) - x6 * x7 * (c * y5 + d * y6),
            -0.337 + 2 * d * x7 * x7 - x5 * x7 * (c * y3 + d * y4) + x6 * x7 * (c * y5 - d * y6),
        ]

    def objective(*x: Tensor) -> Tensor:
        return 3000 * x[0] + 1000 * x[0] ** 3 + 2000 * x[1] + 666.667 * x[1] ** 3

    return hs(
        107, objective, [0.8, 0.8, 0.2, 0.2, 1.0454, 1.0454, 1.0454, 0, 0], 5055.011803543818,
        [0.6670127623153281, 1.0223847170508327, 0.2282871446675199, 0.18482175612975071, 1.0909, 1.0909,
         1.069036003142822, 0.10661062240656406, -0.3387876190699068],
        convex=False, zero=zero,
        bounds=(vector([0, 0, -INF, -INF] + [0.90909] * 3 + [-INF] * 2), vector([INF] * 4 + [1.0909] * 3 + [INF] * 2)),
    )  # fmt: skip


@register
def hs108() -> TestProblem:
    """The largest hexagon of diameter 1, area negative: fourteen quadratic inequalities."""

    def below(*x: Tensor) -> list[Tensor]:
        x1, x2, x3, x4, x5, x6, x7, x8, x9 = x
        return [
            x3**2 + x4**2 - 1,
            x9**2 - 1,
            x5**2 + x6**2 - 1,
            x1**2 + (x2 - x9) ** 2 - 1,
            (x1 - x5) ** 2 + (x2 - x6) ** 2 - 1,
            (x1 - x7) ** 2 + (x2 - x8) ** 2 - 1,
            (x3 - x5) ** 2 + (x4 - x6) ** 2 - 1,
            (x3 - x7) ** 2 + (x4 - x8) ** 2 - 1,
            x7**2 + (x8 - x9) ** 2 - 1,
            x2 * x3 - x1 * x4,
            -x3 * x9,
            x5 * x9,
            x6 * x7 - x5 * x8,
        ]

    def objective(*x: Tensor) -> Tensor:
        x1, x2, x3, x4, x5, x6, x7, x8, x9 = x
        return -0.5 * (x1 * x4 - x2 * x3 + x3 * x9 - x5 * x9 + x5 * x8 - x6 * x7)

    return hs(
        108, objective, [1] * 9, -0.8660254037844387,
        [0.8841292201370802, 0.467242466070667, 0.03742076472445377, 0.9992995979021693, 0.8841292201370802,
         0.46724246607066694, 0.03742076472445383, 0.9992995979021692, 0],
        convex=False, below=below, bounds=(vector([-INF] * 8 + [0]), INF),
    )  # fmt: skip


@register
def hs109() -> TestProblem:
    """Static power scheduling with voltages: six equalities, four inequalities; variables from .1 to 1000."""
    a, b, c = 50.176, math.sin(0.25), math.cos(0.25)

    def zero(*x: Tensor) -> list[Tensor]:
        x1, x2, x3, x4, x5, x6, x7, x8, x9 = x
        load = 0.7533e-3 * a
        return [
            x5 * x6 * (-x3 - 0.25).sin() + x5 * x7 * (-x4 - 0.25).sin() + 2 * x5**2 * b - a * x1 + 400 * a,
            x5 * x6 * (x3 - 0.25).sin() + x6 * x7 * (x3 - x4 - 0.25).sin() + 2 * x6**2 * b - a * x2 + 400 * a,
            x5 * x7 * (x4 - 0.25).sin() + x6 * x7 * (x4 - x3 - 0.25).sin() + 2 * x7**2 * b + 881.779 * a,
            a * x8 + x5 * x6 * (-x3 - 0.25).cos() + x5 * x7 * (-x4 - 0.25).cos() + (load - 2 * c) * x5**2 - 200 * a,
            a * x9 + x5 * x6 * (x3 - 0.25).cos() + x6 * x7 * (x3 - x4 - 0.25).cos() + (load - 2 * c) * x6**2 - 200 * a,
            x5 * x7 * (x4 - 0.25).cos() + x6 * x7 * (x4 - x3 - 0.25).cos() + (load - 2 * c) * x7**2 + 22.938 * a,
        ]

    return hs(
        109, lambda *x: 3 * x[0] + 1e-6 * x[0] ** 3 + 2 * x[1] + 0.522074e-6 * x[1] ** 3, [0] * 9, 5326.85133008621,
        [669.1097610257111, 1131.6631462237071, 0.1329592125985437, -0.36042430842327233, 252, 252,
         209.21246858089964, 386.4424559553807, 327.9904896071661], convex=False,
        below=lambda *x: [
            x[2] - x[3] - 0.55, x[3] - x[2] - 0.55, x[0] ** 2 + x[7] ** 2 - 2250000, x[1] ** 2 + x[8] ** 2 - 2250000,
        ],
        zero=zero,
        bounds=(
            vector([0, 0, -0.55, -0.55, 196, 196, 196, -400, -400]),
            vector([INF, INF, 0.55, 0.55, 252, 252, 252, 800, 800]),
        ),
        spread=[100, 100, 0.25, 0.25, 20, 20, 20, 100, 100], note="better than 5362.06928 of the book",
    )  # fmt: skip
