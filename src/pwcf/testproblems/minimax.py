"""Minimax problems: the maximum of smooth functions, some with linear constraints.

L. Luksan, J. Vlcek, "Test problems for nonsmooth unconstrained and linearly constrained optimization",
report V-798, Academy of Sciences of the Czech Republic (2000), which names the sources. The optima are the
published ones with more digits, from sequential quadratic programming on min t s.t. f_i(x) <= t.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from pwcf.solvers import Constraint, ineq
from pwcf.testproblems.data import full, vector
from pwcf.testproblems.problem import BoundsPair, TestProblem, register

_LV = "Luksan, Vlcek (2000), "


def columns(function: Callable[..., Sequence[Tensor]]) -> Callable[[Tensor], Tensor]:
    """A function of the n coordinates that gives k values, as a function (b, n) -> (b, k)."""

    def values(x: Tensor) -> Tensor:
        return torch.stack(list(function(*x.unbind(-1))), -1)

    return values


def magnitudes(residuals: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The 2 k smooth functions r and -r, whose maximum is max_i |r_i|."""

    def values(x: Tensor) -> Tensor:
        r = residuals(x)
        return torch.cat([r, -r], -1)

    return values


def minimax(
    name: str,
    pieces: Callable[[Tensor], Tensor],
    start: Tensor,
    optimum: float,
    minimizer: Tensor,
    source: str,
    *,
    convex: bool = False,
    constraints: tuple[Constraint, ...] = (),
    bounds: BoundsPair | None = None,
    spread: float | Tensor = 0.25,
) -> TestProblem:
    """min max_i pieces(x)_i s.t. constraints and bounds."""

    def objective(x: Tensor) -> Tensor:
        return pieces(x).amax(-1)

    return TestProblem(
        name, len(start), objective, constraints, bounds, optimum, convex, source, start, spread, minimizer, pieces
    )


@register
def cb3() -> TestProblem:
    """CB3: max(x1^4 + x2^2, (2 - x1)^2 + (2 - x2)^2, 2 exp(x2 - x1)). Convex, f* = 2 at (1, 1)."""

    def pieces(a: Tensor, b: Tensor) -> list[Tensor]:
        return [(a * a) ** 2 + b * b, (2 - a) ** 2 + (2 - b) ** 2, 2 * (b - a).exp()]

    return minimax("cb3", columns(pieces), full(2, 2.0), 2.0, full(2, 1.0), _LV + "CB3", convex=True)


@register
def demyanov_malozemov() -> TestProblem:
    """DEM: max(5 x1 + x2, -5 x1 + x2, x1^2 + x2^2 + 4 x2). Convex, f* = -3 at (0, -3)."""

    def pieces(a: Tensor, b: Tensor) -> list[Tensor]:
        return [5 * a + b, -5 * a + b, a * a + b * b + 4 * b]

    return minimax(
        "demyanov_malozemov", columns(pieces), full(2, 1.0), -3.0, vector([0.0, -3.0]), _LV + "DEM", convex=True
    )


@register
def ql() -> TestProblem:
    """QL: max of q, q + 10 (4 - 4 x1 - x2) and q + 10 (6 - x1 - 2 x2), q = |x|^2. Convex, f* = 7.2."""

    def pieces(a: Tensor, b: Tensor) -> list[Tensor]:
        q = a * a + b * b
        return [q, q + 10 * (4 - 4 * a - b), q + 10 * (6 - a - 2 * b)]

    return minimax("ql", columns(pieces), vector([-1.0, 5.0]), 7.2, vector([1.2, 2.4]), _LV + "QL", convex=True)


@register
def lq() -> TestProblem:
    """LQ: max(-x1 - x2, -x1 - x2 + x1^2 + x2^2 - 1). Convex, f* = -sqrt(2)."""

    def pieces(a: Tensor, b: Tensor) -> list[Tensor]:
        return [-a - b, -a - b + a * a + b * b - 1]

    return minimax(
        "lq", columns(pieces), full(2, -0.5), -math.sqrt(2), full(2, math.sqrt(0.5)), _LV + "LQ", convex=True
    )


@register
def mifflin_1() -> TestProblem:
    """Mifflin 1: -x1 + 20 max(x1^2 + x2^2 - 1, 0). Convex, f* = -1 at (1, 0)."""

    def pieces(a: Tensor, b: Tensor) -> list[Tensor]:
        return [-a + 20 * (a * a + b * b - 1), -a]

    return minimax(
        "mifflin_1", columns(pieces), vector([0.8, 0.6]), -1.0, vector([1.0, 0.0]), _LV + "Mifflin 1", convex=True
    )


@register
def mifflin_2() -> TestProblem:
    """Mifflin 2: -x1 + 2 y + 1.75 |y| with y = x1^2 + x2^2 - 1. Convex, f* = -1 at (1, 0)."""

    def pieces(a: Tensor, b: Tensor) -> list[Tensor]:
        y = a * a + b * b - 1
        return [-a + 3.75 * y, -a + 0.25 * y]

    return minimax(
        "mifflin_2", columns(pieces), full(2, -1.0), -1.0, vector([1.0, 0.0]), _LV + "Mifflin 2", convex=True
    )


@register
def crescent() -> TestProblem:
    """Crescent: x2 + |x1^2 + (x2 - 1)^2 - 1|, f* = 0 at 0."""

    def pieces(a: Tensor, b: Tensor) -> list[Tensor]:
        y = a * a + (b - 1) ** 2 - 1
        return [b + y, b - y]

    return minimax("crescent", columns(pieces), vector([-1.5, 2.0]), 0.0, full(2, 0.0), _LV + "Crescent")


@register
def womersley_fletcher() -> TestProblem:
    """WF: max(x1 + u, -x1 + u, x1 - u) / 2 + x2^2 with u = 10 x1 / (x1 + 0.1), f* = 0 at 0."""

    def pieces(a: Tensor, b: Tensor) -> list[Tensor]:
        u = 10 * a / (a + 0.1)
        return [(a + u) / 2 + b * b, (u - a) / 2 + b * b, (a - u) / 2 + b * b]

    return minimax("womersley_fletcher", columns(pieces), vector([3.0, 1.0]), 0.0, full(2, 0.0), _LV + "WF")


@register
def spiral() -> TestProblem:
    """SPIRAL: max of (x1 - r cos r)^2 + r^2 / 200 and (x2 - r sin r)^2 + r^2 / 200, r = |x|; f* = 0 at 0."""

    def pieces(x: Tensor) -> Tensor:
        r: Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        return (x - r * torch.cat([r.cos(), r.sin()], -1)) ** 2 + 0.005 * (x * x).sum(-1, keepdim=True)

    return minimax("spiral", pieces, vector([1.41831, -4.79462]), 0.0, full(2, 0.0), _LV + "SPIRAL")


@register
def madsen() -> TestProblem:
    """Madsen: max(|x1^2 + x2^2 + x1 x2|, |sin x1|, |cos x2|), f* = 0.61643244; several minima."""

    def residuals(a: Tensor, b: Tensor) -> list[Tensor]:
        return [a * a + b * b + a * b, a.sin(), b.cos()]

    return minimax(
        "madsen", magnitudes(columns(residuals)), vector([3.0, 1.0]), 0.616432435560786,
        vector([0.4532962370462364, -0.906592474092438]), "Madsen, Schjaer-Jacobsen, Math. Programming 14 (1978)",
    )  # fmt: skip


@register
def rosenbrock_minimax() -> TestProblem:
    """Hald, Madsen 1: max(10 |x2 - x1^2|, |1 - x1|), f* = 0 at (1, 1)."""

    def residuals(a: Tensor, b: Tensor) -> list[Tensor]:
        return [10 * (b - a * a), 1 - a]

    return minimax(
        "rosenbrock_minimax", magnitudes(columns(residuals)), vector([-1.2, 1.0]), 0.0, full(2, 1.0),
        "Hald, Madsen, Math. Programming 20 (1981), example 1",
    )  # fmt: skip


@register
def evd52() -> TestProblem:
    """EVD52: max of six functions of three variables, one of them cubic, f* = 3.5997193."""

    def pieces(a: Tensor, b: Tensor, c: Tensor) -> list[Tensor]:
        q = a * a + b * b
        cubic = 2 * (a * a * a + 3 * b * b + (5 * c - a + 1) ** 2)
        return [q + c * c - 1, q + (c - 2) ** 2, a + b + c - 1, a + b - c + 1, cubic, a * a - 9 * c]

    return minimax(
        "evd52", columns(pieces), full(3, 1.0), 3.59971929982624,
        vector([0.32825995074747977, 7.0501487586442e-12, 0.13132006363810333]),
        _LV + "EVD52 (El-Attar, Vidyasagar, Dutta 1979)",
    )  # fmt: skip


@register
def polak_1() -> TestProblem:
    """Polak 1: max of exp(x1^2 / 1000 + (x2 -+ 1)^2). Convex, f* = e at 0."""

    def pieces(a: Tensor, b: Tensor) -> list[Tensor]:
        return [(0.001 * a * a + (b - 1) ** 2).exp(), (0.001 * a * a + (b + 1) ** 2).exp()]

    source = "Polak, Higgins, Mayne, Math. Programming 64 (1994), example 6.1"
    return minimax("polak_1", columns(pieces), vector([50.0, 0.05]), math.e, full(2, 0.0), source, convex=True)


@register
def polak_2() -> TestProblem:
    """Polak 2: exp of two quadratics of condition 4e8, n = 10. Convex, f* = e^4 at 0."""

    def pieces(x: Tensor) -> Tensor:
        weights = torch.tensor([1e-8, 0, 1, 4, 1, 1, 1, 1, 1, 1]).to(x)
        shared = (weights * x * x).sum(-1)
        return torch.stack([(shared + (x[:, 1] + 2) ** 2).exp(), (shared + (x[:, 1] - 2) ** 2).exp()], -1)

    start = full(10, 0.1)
    start[0] = 100.0
    return minimax("polak_2", pieces, start, math.exp(4), full(10, 0.0), _LV + "Polak 2", convex=True)


@register
def polak_3() -> TestProblem:
    """Polak 3: max over j < 10 of sum_i (i + j) exp((x_i - sin(2 i + j - 2))^2), n = 11. Convex, f* = 261.08258."""
    i, j = torch.arange(1, 12, dtype=torch.float64), torch.arange(10, dtype=torch.float64)[:, None]
    weight, shift = i + j, (2 * i + j - 2).sin()

    def pieces(x: Tensor) -> Tensor:
        return (weight.to(x) * ((x[:, None] - shift.to(x)) ** 2).exp()).sum(-1)

    return minimax(
        "polak_3", pieces, full(11, 1.0), 261.08258060636683,
        vector([
            0.1464961277042243, -0.09618804437047378, 0.022065446960349195, 0.14159452059774477,
            -0.0638641678558585, -0.024689244830878816, 0.11893516672235868, -0.03916823841168301,
            -0.08295548107348939, 0.09316212738557218, -0.019168491306223334,
        ]), _LV + "Polak 3", convex=True,
    )  # fmt: skip


@register
def polak_6() -> TestProblem:
    """Polak 6: Rosen-Suzuki in curved coordinates, f* = -44 at (0, 1, 2, -1)."""

    def pieces(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> list[Tensor]:
        u = a - (d + 1) ** 4
        v = b - u**4
        f = u * u + v * v + 2 * c * c + d * d - 5 * (u + v) - 21 * c + 7 * d
        c1 = u * u + v * v + c * c + d * d + u - v + c - d - 8
        c2 = u * u + 2 * v * v + c * c + 2 * d * d - u - d - 10
        c3 = u * u + v * v + c * c + 2 * u - v - d - 5
        return [f, f + 10 * c1, f + 10 * c2, f + 10 * c3]

    return minimax("polak_6", columns(pieces), full(4, 0.0), -44.0, vector([0.0, 1.0, 2.0, -1.0]), _LV + "Polak 6")


@register
def davidon_2() -> TestProblem:
    """Davidon 2: max_i (x1 + x2 t_i - e^t_i)^2 + (x3 + x4 sin t_i - cos t_i)^2, t_i = i / 5. Convex, f* = 115.70644."""
    t = 0.2 * torch.arange(1, 21, dtype=torch.float64)

    def pieces(x: Tensor) -> Tensor:
        a, b, c, d = x[:, :, None].unbind(1)
        s = t.to(x)
        return (a + b * s - s.exp()) ** 2 + (c + d * s.sin() - s.cos()) ** 2

    return minimax(
        "davidon_2", pieces, vector([25.0, 5.0, -5.0, -1.0]), 115.70643952100676,
        vector([
            -12.243680811474125, 14.021797493665073, -0.45151088695280417, -0.010518949540598885,
        ]), _LV + "Davidon 2", convex=True,
    )  # fmt: skip


@register
def wong_1() -> TestProblem:
    """Wong 1: the exact penalty f + 10 max(0, c_j) of HS100, n = 7, f* = 680.63006."""

    def pieces(x: Tensor) -> Tensor:
        a, b, c, d, e, g, h = x.unbind(-1)
        f = (a - 10) ** 2 + 5 * (b - 12) ** 2 + c**4 + 3 * (d - 11) ** 2 + 10 * e**6 + 7 * g * g + h**4
        f = f - 4 * g * h - 10 * g - 8 * h
        limits = [
            2 * a * a + 3 * b**4 + c + 4 * d * d + 5 * e - 127,
            7 * a + 3 * b + 10 * c * c + d - e - 282,
            23 * a + b * b + 6 * g * g - 8 * h - 196,
            4 * a * a + b * b - 3 * a * b + 2 * c * c + 5 * g - 11 * h,
        ]
        return torch.stack([f, *(f + 10 * limit for limit in limits)], -1)

    return minimax(
        "wong_1", pieces, vector([1.0, 2.0, 0.0, 4.0, 0.0, 1.0, 1.0]), 680.6300573744021,
        vector([
            2.330499373055847, 1.9513723729306696, -0.4775413924720968, 4.365726233546137, -0.6244869706751749,
            1.0381310188675916, 1.5942267119398439,
        ]), _LV + "Wong 1",
    )  # fmt: skip


_WONG_START = [2.0, 3, 5, 5, 1, 2, 7, 3, 6, 10, 2, 2, 6, 15, 1, 2, 1, 2, 1, 3]


def _wong_2(x: Tensor) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """Objective, five quadratic and three linear constraints of HS113."""
    a, b, c, d, e, f, g, h, i, j = x[:, :10].unbind(-1)
    value = a * a + b * b + a * b - 14 * a - 16 * b + (c - 10) ** 2 + 4 * (d - 5) ** 2 + (e - 3) ** 2
    value = value + 2 * (f - 1) ** 2 + 5 * g * g + 7 * (h - 11) ** 2 + 2 * (i - 10) ** 2 + (j - 7) ** 2 + 45
    curved = [
        3 * (a - 2) ** 2 + 4 * (b - 3) ** 2 + 2 * c * c - 7 * d - 120,
        5 * a * a + 8 * b + (c - 6) ** 2 - 2 * d - 40,
        (a - 8) ** 2 / 2 + 2 * (b - 4) ** 2 + 3 * e * e - f - 30,
        a * a + 2 * (b - 2) ** 2 - 2 * a * b + 14 * e - 6 * f,
        6 * b - 3 * a + 12 * (i - 8) ** 2 - 7 * j,
    ]
    linear = [4 * a + 5 * b - 3 * g + 9 * h - 105, 10 * a - 8 * b - 17 * g + 2 * h, 2 * b - 8 * a + 5 * i - 2 * j - 12]
    return value, curved, linear


def _wong_3(x: Tensor) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """Objective, thirteen nonlinear and four linear constraints; the first ten variables are those of Wong 2."""
    value, curved, linear = _wong_2(x)
    a, b = x[:, 0], x[:, 1]
    k, l, m, n, o, p, q, r, s, t = x[:, 10:].unbind(-1)
    value = value + (k - 9) ** 2 + 10 * (l - 1) ** 2 + 5 * (m - 7) ** 2 + 4 * (n - 14) ** 2 + 27 * (o - 1) ** 2
    value = value + p**4 + (q - 2) ** 2 + 13 * (r - 2) ** 2 + (s - 3) ** 2 + t * t + 50
    curved = [
        *curved,
        a * a + 15 * k - 8 * l - 28,
        4 * a + 9 * b + 5 * m * m - 9 * n - 87,
        3 * a + 4 * b + 3 * (m - 6) ** 2 - 14 * n - 10,
        14 * a * a + 35 * o - 79 * p - 92,
        15 * b * b + 11 * o - 61 * p - 54,
        5 * a * a + 2 * b + 9 * q**4 - r - 68,
        a * a - b + 19 * s - 20 * t + 19,
        7 * a * a + 5 * b * b + s * s - 30 * t,
    ]
    return value, curved, [*linear, a + b + 4 * k - 21 * l]


_Parts = Callable[[Tensor], tuple[Tensor, list[Tensor], list[Tensor]]]


def _wong(name: str, parts: _Parts, start: Tensor, optimum: float, minimizer: Tensor, linear: bool) -> TestProblem:
    """max(f, f + 10 c_j) over the nonlinear c_j, the linear ones as pieces too or as constraints."""

    def pieces(x: Tensor) -> Tensor:
        value, curved, straight = parts(x)
        limits = curved if linear else [*curved, *straight]
        return torch.stack([value, *(value + 10 * limit for limit in limits)], -1)

    def below(x: Tensor) -> Tensor:
        return torch.stack(parts(x)[2], -1)

    constraints = (ineq(below),) if linear else ()
    source = _LV + name.replace("_", " ").replace("wong", "Wong")
    return minimax(name, pieces, start, optimum, minimizer, source, convex=True, constraints=constraints)


_WONG_2_MINIMIZER = vector(
    [
        2.1719963712837846,
        2.3636829736088503,
        8.773925738425707,
        5.095984487760519,
        0.9906547650696431,
        1.4305739792239223,
        1.3216442082268351,
        9.82872580794457,
        8.280091670421097,
        8.375926664526457,
    ]
)
_WONG_3_MINIMIZER = vector(
    [
        2.1752161938470462,
        2.3528504064662763,
        8.76644766442563,
        5.066931690804196,
        0.9886673842974025,
        1.4309998461891336,
        1.3294829562260078,
        9.835925784550941,
        8.287277081580884,
        8.370178335030296,
        2.2758276475045807,
        1.3586225253178927,
        6.077186052151831,
        14.170829999547603,
        0.9962344632842546,
        0.6556910594140095,
        1.4665902550041243,
        2.0003613173712,
        1.0465879781247978,
        2.0631943333939646,
    ]
)


@register
def wong_2() -> TestProblem:
    """Wong 2: the exact penalty of HS113, n = 10. Convex, f* = 24.306209."""
    return _wong("wong_2", _wong_2, vector(_WONG_START[:10]), 24.30620906817979, _WONG_2_MINIMIZER, False)


@register
def wong_3() -> TestProblem:
    """Wong 3: an exact penalty with 17 constraints, n = 20. Convex, f* = 133.72828."""
    return _wong("wong_3", _wong_3, vector(_WONG_START), 133.72827616781453, _WONG_3_MINIMIZER, False)


@register
def wong_2_linear() -> TestProblem:
    """Wong 2 with its three linear constraints as constraints. Convex, f* = 24.306209."""
    return _wong("wong_2_linear", _wong_2, vector(_WONG_START[:10]), 24.30620906817979, _WONG_2_MINIMIZER, True)


@register
def wong_3_linear() -> TestProblem:
    """Wong 3 with its four linear constraints as constraints. Convex, f* = 133.72828."""
    return _wong("wong_3_linear", _wong_3, vector(_WONG_START), 133.72827616781453, _WONG_3_MINIMIZER, True)
