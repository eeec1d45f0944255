"""Approximation in the maximum norm: max_i |r_i(x)| for rational, exponential and circuit models.

L. Luksan, J. Vlcek, "Test problems for nonsmooth unconstrained and linearly constrained optimization",
report V-798, Academy of Sciences of the Czech Republic (2000), which names the sources. None is convex,
and the optima are the best values known; most have worse local minima.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from pwcf.solvers import eq, ineq
from pwcf.testproblems.data import full, vector
from pwcf.testproblems.minimax import magnitudes, minimax
from pwcf.testproblems.problem import TestProblem, register

_LV = "Luksan, Vlcek (2000), "


def grid(low: float, high: float, count: int) -> Tensor:
    """``count`` equidistant float64 points from low to high."""
    return torch.linspace(low, high, count, dtype=torch.float64)


def coordinates(x: Tensor) -> tuple[Tensor, ...]:
    """(b, n) -> n tensors (b, 1), which broadcast against the points of a grid."""
    return x[:, :, None].unbind(1)


@register
def pbc_1() -> TestProblem:
    """PBC1: rational fit (2, 2) of sqrt((8t - 1)^2 + 1) atan(8t) / (8t) on [-1, 1], f* = 0.022340496."""
    t = grid(-1, 1, 30)
    y = ((8 * t - 1) ** 2 + 1).sqrt() * (8 * t).atan() / (8 * t)

    def residuals(x: Tensor) -> Tensor:
        a, b, c, d, e = coordinates(x)
        s = t.to(x)
        return (a + s * (b + s * c)) / (1 + s * (d + s * e)) - y.to(x)

    return minimax(
        "pbc_1", magnitudes(residuals), vector([0.0, -1.0, 10.0, 1.0, 10.0]), 0.022340496047726255,
        vector([
            1.4135858243271557, -10.579662245536285, 40.711743028887454, -4.021277234450651, 27.615010413910007,
        ]),
        _LV + "PBC1",
    )  # fmt: skip


@register
def pbc_3() -> TestProblem:
    """PBC3: reduced model x3 exp(-x1 t) sin(x2 t) / x2 of a linear system on [0, 10], f* = 0.0042021427."""
    t = grid(0, 10, 21)
    y = 3 / 20 * (-t).exp() + (-5 * t).exp() / 52 - (-2 * t).exp() / 65 * (3 * (2 * t).sin() + 11 * (2 * t).cos())

    def residuals(x: Tensor) -> Tensor:
        a, b, c = coordinates(x)
        s = t.to(x)
        return c / b * (-a * s).exp() * (b * s).sin() - y.to(x)

    return minimax(
        "pbc_3", magnitudes(residuals), full(3, 1.0), 0.0042021426721522565,
        vector([0.9516109262726142, 0.8761203975395168, 0.16232518862011824]),
        _LV + "PBC3",
    )  # fmt: skip


@register
def bard() -> TestProblem:
    """Bard: fit of y_i by x1 + i / ((16 - i) x2 + min(i, 16 - i) x3), i = 1..15, f* = 0.050816327."""
    y = vector([0.14, 0.18, 0.22, 0.25, 0.29, 0.32, 0.35, 0.39, 0.37, 0.58, 0.73, 0.96, 1.34, 2.1, 4.39])
    i = torch.arange(1, 16, dtype=torch.float64)

    def residuals(x: Tensor) -> Tensor:
        a, b, c = coordinates(x)
        u = i.to(x)
        return y.to(x) - a - u / ((16 - u) * b + torch.minimum(u, 16 - u) * c)

    return minimax(
        "bard", magnitudes(residuals), full(3, 1.0), 0.0508163265306123,
        vector([0.053469387755102085, 1.5399979363819452, 1.960002063618055]),
        _LV + "Bard",
    )  # fmt: skip


@register
def kowalik_osborne() -> TestProblem:
    """Kowalik-Osborne: fit by x1 t (t + x2) / (t^2 + x3 t + x4), 11 points, f* = 0.0080843684."""
    y = vector([0.1957, 0.1947, 0.1735, 0.16, 0.0844, 0.0627, 0.0456, 0.0342, 0.0323, 0.0235, 0.0246])
    t = vector([4.0, 2.0, 1.0, 0.5, 0.25, 0.167, 0.125, 0.1, 0.0833, 0.0714, 0.0625])

    def residuals(x: Tensor) -> Tensor:
        a, b, c, d = coordinates(x)
        s = t.to(x)
        return y.to(x) - a * s * (s + b) / ((s + c) * s + d)

    return minimax(
        "kowalik_osborne", magnitudes(residuals), vector([0.25, 0.39, 0.415, 0.39]), 0.008084368386040014,
        vector([0.184631551370097, 0.10520566876026267, 0.011964192156997698, 0.11178802847699197]),
        _LV + "Kowalik-Osborne", spread=0.1,
    )  # fmt: skip


@register
def oet_5() -> TestProblem:
    """OET5: fit of sqrt(t) by x4 - (x1 t^2 + x2 t + x3)^2 on [1/4, 1], f* = 0.0026359735."""
    t = grid(0.25, 1, 21)

    def residuals(x: Tensor) -> Tensor:
        a, b, c, d = coordinates(x)
        s = t.to(x)
        return d - ((a * s + b) * s + c) ** 2 - s.sqrt()

    return minimax(
        "oet_5", magnitudes(residuals), full(4, 1.0), 0.002635973497368216,
        vector([0.08801551466890528, -0.4954443098479294, 1.1186219560513082, 1.5031597385741424]),
        _LV + "OET5",
    )  # fmt: skip


@register
def oet_6() -> TestProblem:
    """OET6: fit of 1 / (1 + t) by x1 exp(x3 t) + x2 exp(x4 t) on [-1/2, 1/2], f* = 0.0020160753."""
    t = grid(-0.5, 0.5, 21)

    def residuals(x: Tensor) -> Tensor:
        a, b, c, d = coordinates(x)
        s = t.to(x)
        return a * (c * s).exp() + b * (d * s).exp() - 1 / (1 + s)

    return minimax(
        "oet_6", magnitudes(residuals), vector([1.0, 1.0, -3.0, -1.0]), 0.0020160753793934116,
        vector([0.0987334600250844, 0.900944263578529, -4.061854598284639, -0.6477322411481323]),
        _LV + "OET6",
    )  # fmt: skip


@register
def rational_exp() -> TestProblem:
    """EXP: rational fit (1, 3) of e^t on [-1, 1], f* = 0.00012237125 (also Hald, Madsen 2)."""
    t = grid(-1, 1, 21)

    def residuals(x: Tensor) -> Tensor:
        a, b, c, d, e = coordinates(x)
        s = t.to(x)
        return (a + s * b) / (1 + s * (c + s * (d + s * e))) - s.exp()

    return minimax(
        "rational_exp", magnitudes(residuals), vector([0.5, 0.0, 0.0, 0.0, 0.0]), 0.00012237125114739067,
        vector([
            0.9998776287488526, 0.25358844041148004, -0.746607571746293, 0.24520150190226866, -0.037490291008433145,
        ]),
        _LV + "EXP",
    )  # fmt: skip


def evd61_residuals(x: Tensor) -> Tensor:
    """x1 exp(-x2 t) cos(x3 t + x4) + x5 exp(-x6 t) - y(t) at the 51 points t = 0, 0.1, ..., 5."""
    t = grid(0, 5, 51)
    y = (-t).exp() / 2 - (-2 * t).exp() + (-3 * t).exp() / 2
    y = y + 1.5 * (-1.5 * t).exp() * (7 * t).sin() + (-2.5 * t).exp() * (5 * t).sin()
    a, b, c, d, e, f = coordinates(x)
    s = t.to(x)
    return a * (-b * s).exp() * (c * s + d).cos() + e * (-f * s).exp() - y.to(x)


@register
def evd61() -> TestProblem:
    """EVD61: two-mode model of an impulse response, n = 6, f* = 0.034904926."""
    return minimax(
        "evd61", magnitudes(evd61_residuals), vector([2.0, 2.0, 7.0, 0.0, -2.0, 1.0]), 0.034904926536381345,
        vector([
            2.275920436032116, 1.8993201599747205, 6.848237716957489, -1.650250206717052, 0.14573558094258396,
            0.5169569404515896,
        ]),
        _LV + "EVD61 (El-Attar, Vidyasagar, Dutta 1979)",
    )  # fmt: skip


@register
def transformer() -> TestProblem:
    """Transformer: largest reflection of a three-section 10:1 line transformer at 11 frequencies, f* = 0.19729063.

    Lengths x1, x3, x5 and impedances x2, x4, x6 of the sections (Bandler, Charalambous).
    """
    beta = math.pi / 2 * vector([0.5, 0.6, 0.7, 0.77, 0.9, 1.0, 1.1, 1.23, 1.3, 1.4, 1.5])

    def pieces(x: Tensor) -> Tensor:
        frequency = beta.to(x)
        current = torch.ones_like(frequency).expand(len(x), -1).to(torch.complex(x[:0], x[:0]).dtype)
        voltage = 10 * current
        for length, impedance in zip(reversed(coordinates(x)[::2]), reversed(coordinates(x)[1::2]), strict=True):
            cos, sin = (frequency * length).cos(), (frequency * length).sin() * 1j
            voltage, current = cos * voltage + sin * impedance * current, sin / impedance * voltage + cos * current
        return (voltage - current).abs() / (voltage + current).abs()

    return minimax(
        "transformer", pieces, vector([0.8, 1.5, 1.2, 3.0, 0.8, 6.0]), 0.19729062692274546,
        vector([
            0.9999999999334428, 1.6347071364124417, 1.0, 3.16227765959811, 1.0000000000665572, 6.117303687081448,
        ]),
        _LV + "Transformer", spread=0.1,
    )  # fmt: skip


@register
def digital_filter() -> TestProblem:
    """Filter: recursive digital filter of two second-order sections for |1 - 2 theta|, n = 9, f* = 0.0061852848."""
    theta = torch.cat(
        [grid(0, 0.05, 6), grid(0.07, 0.46, 14), grid(0.5, 0.5, 1), grid(0.54, 0.93, 14), grid(0.95, 1, 6)]
    )

    def section(a: Tensor, b: Tensor, angle: Tensor) -> Tensor:
        modulus: Tensor = torch.linalg.vector_norm(
            torch.stack([a + (1 + b) * angle.cos(), (1 - b) * angle.sin()], -1), dim=-1
        )
        return modulus

    def residuals(x: Tensor) -> Tensor:
        a, b, c, d, e, f, g, h, gain = coordinates(x)
        s = theta.to(x)
        angle = math.pi * s
        ratio = section(a, b, angle) / section(c, d, angle) * section(e, f, angle) / section(g, h, angle)
        return gain * ratio - (1 - 2 * s).abs()

    return minimax(
        "digital_filter", magnitudes(residuals),
        vector([0.0, 1.0, 0.0, -0.15, 0.0, -0.68, 0.0, -0.72, 0.37]), 0.0061852847775081266,
        vector([
            0.0, 0.9800374026301725, 0.0, -0.16577232562904343, 0.0, -0.7350821179009064, 0.0, -0.7672313822859166,
            0.36789998905379256,
        ]),
        _LV + "Filter", spread=0.05,
    )  # fmt: skip


@register
def watson_minimax() -> TestProblem:
    """Watson: polynomial of degree 19 for y' = y^2 + 1, y(0) = 0 at 29 points, f* below 1e-9 (published: 1.5e-8)."""
    t = grid(1 / 29, 1, 29)
    powers = t[:, None] ** torch.arange(20, dtype=torch.float64)
    slopes = torch.cat([torch.zeros(29, 1), torch.arange(1, 20) * powers[:, :-1]], -1)

    def residuals(x: Tensor) -> Tensor:
        rows = x[:, None]
        fit = (rows * slopes.to(x)).sum(-1) - (rows * powers.to(x)).sum(-1) ** 2 - 1
        return torch.cat([x[:, :1], x[:, 1:2] - x[:, :1] ** 2 - 1, fit], -1)

    return minimax(
        "watson_minimax", magnitudes(residuals), full(20, 0.0), 9.109126786199795e-10,
        vector([
            -1.6557203084452413e-10, 0.9999999990890905, 4.5563822125414183e-07, 0.33331509587716457,
            0.00032773717437722965, 0.1300038257089682, 0.021010711269530045, -0.03176895043445218,
            0.22590481347626945, -0.33679943148500674, 0.24228316214379758, 0.20587588798785925,
            -0.4660173106865224, 0.049181312010295186, 0.5675184498186084, -0.41032951601148504,
            -0.32617807842998214, 0.6460527316528671, -0.3720290775327199, 0.07905590755402012,
        ]),
        _LV + "Watson",
    )  # fmt: skip


_OSBORNE = """
1.366 1.191 1.112 1.013 .991 .885 .831 .847 .786 .725 .746 .679 .608 .655 .616 .606 .602 .626 .651 .724 .649 .649
.694 .644 .624 .661 .612 .558 .553 .495 .5 .423 .395 .375 .372 .391 .396 .405 .428 .429 .523 .562 .607 .653 .672
.708 .633 .668 .645 .632 .591 .559 .597 .625 .739 .71 .729 .72 .636 .581 .428 .292 .162 .098 .054
"""


@register
def osborne_2() -> TestProblem:
    """Osborne 2: an exponential and three Gaussians, 65 points, n = 11, f* = 0.048027401."""
    t = grid(0, 6.4, 65)
    y = vector([float(value) for value in _OSBORNE.split()])

    def residuals(x: Tensor) -> Tensor:
        a, b, c, d, e, f, g, h, p, q, r = coordinates(x)
        s = t.to(x)
        peaks = b * (-f * (s - p) ** 2).exp() + c * (-g * (s - q) ** 2).exp() + d * (-h * (s - r) ** 2).exp()
        return y.to(x) - a * (-e * s).exp() - peaks

    return minimax(
        "osborne_2", magnitudes(residuals),
        vector([1.3, 0.65, 0.65, 0.7, 0.6, 3.0, 5.0, 7.0, 2.0, 4.5, 5.5]), 0.04802740071257483,
        vector([
            1.31604872548521, 0.4489305119323152, 0.6390209759452523, 0.690052400277968, 0.7397057438259376,
            0.9432837621018343, 2.019678122651572, 3.5808245162060603, 2.4042396067655925, 4.459607301203168,
            5.606171612953041,
        ]),
        _LV + "Osborne 2", spread=0.1,
    )  # fmt: skip


@register
def mad5() -> TestProblem:
    """MAD5: max(-exp(x1 - x2), sinh(x1 - 1) - 1, -ln x2 - 1) s.t. x2 >= 0.9 x1 + 1, x2 >= 0.01, f* = -0.42928061."""

    def pieces(x: Tensor) -> Tensor:
        a, b = x[:, 0], x[:, 1].clamp_min(1e-3)
        return torch.stack([-(a - b).exp(), (a - 1).sinh() - 1, -b.log() - 1], -1)

    def below(x: Tensor) -> Tensor:
        return 1 + 0.9 * x[:, 0] - x[:, 1]

    return minimax(
        "mad5", pieces, vector([-1.0, 3.0]), -0.42928061461981043,
        vector([1.5435553943988978, 2.3891998549590077]),
        _LV + "MAD5", constraints=(ineq(below),), bounds=(vector([-math.inf, 0.01]), math.inf),
    )  # fmt: skip


@register
def mad6() -> TestProblem:
    """MAD6: sidelobes of a linear antenna array, 163 angles, n = 7, f* = 0.10183089.

    |1 + 2 sum_j cos(2 pi x_j sin theta)| / 15 s.t. x1 >= 0.4, x_{j+1} - x_j >= 0.4, x6 - x4 = 1, x7 = 3.5.
    """
    wave = 2 * math.pi * torch.deg2rad(8.5 + 0.5 * torch.arange(1, 164, dtype=torch.float64)).sin()

    def residuals(x: Tensor) -> Tensor:
        return (1 + 2 * (x[:, None] * wave.to(x)[:, None]).cos().sum(-1)) / 15

    def below(x: Tensor) -> Tensor:
        return 0.4 - (x[:, 1:] - x[:, :-1])

    def zero(x: Tensor) -> Tensor:
        return x[:, 5] - x[:, 3] - 1

    low, high = full(7, -math.inf), full(7, math.inf)
    low[0], low[6], high[6] = 0.4, 3.5, 3.5
    return minimax(
        "mad6", magnitudes(residuals), 0.5 * torch.arange(1, 8, dtype=torch.float64), 0.10183088875863404,
        vector([
            0.4, 0.8198390734952654, 1.219839073495265, 1.6939853085860856, 2.0939853085860856, 2.6939853085860856,
            3.5,
        ]),
        _LV + "MAD6", constraints=(ineq(below), eq(zero)), bounds=(low, high),
    )  # fmt: skip


@register
def mad8() -> TestProblem:
    """MAD8: 38 quadratics of 20 variables, x_1, ..., x_10 >= 1/2, f* = 0.50694799.

    |sum_j x_j - 1 + x_i (2 x_i - 1)| for i < 20 and |sum_j x_j - 1 + x_i (x_i - 1)| for i > 1.
    """

    def residuals(x: Tensor) -> Tensor:
        total = x.sum(-1, keepdim=True) - 1
        return torch.cat([total + (x * (2 * x - 1))[:, :-1], total + (x * (x - 1))[:, 1:]], -1)

    low = full(20, -math.inf)
    low[:10] = 0.5
    return minimax(
        "mad8", magnitudes(residuals), full(20, 100.0), 0.5069479957195019,
        vector([
            0.5000000000000001, 0.5000000000000003, 0.5, 0.5, 0.5000000000000001, 0.5, 0.5, 0.5, 0.5, 0.5,
            -0.4166693301176392, -0.416669330117639, -0.41666933011763924, -0.41666933011763924,
            -0.4166693301176392, -0.41666933011763924, -0.4166693301176392, -0.4166693301176391,
            -0.4166693301176391, -0.5069240246607499,
        ]),
        _LV + "MAD8", bounds=(low, math.inf),
    )  # fmt: skip
