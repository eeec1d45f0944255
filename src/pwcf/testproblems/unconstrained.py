"""Unconstrained nonsmooth problems: the large set of Haarala, Miettinen, Makela (2004), three small ones.

The large set: M. Haarala, K. Miettinen, M. M. Makela, "New limited memory bundle method for
large-scale nonsmooth optimization", Optimization Methods and Software 19 (2004) 673-692.
The small ones: L. Luksan, J. Vlcek, "Test problems for nonsmooth unconstrained and linearly
constrained optimization", report V-798, Academy of Sciences of the Czech Republic (2000).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from pwcf.testproblems.data import full, largest, times_rows, vector
from pwcf.testproblems.problem import TestProblem, register

_HMM = "Haarala, Miettinen, Makela (2004), "
_LV = "Luksan, Vlcek (2000), "

MIFFLIN_2_OPTIMA = {
    10: -6.51461421067764,
    20: -13.5831178691977,
    50: -34.7951814095476,
    100: -70.1501877811193,
    200: -140.860707172869,
    1000: -706.5460085829,
}
"""f* of chained Mifflin 2, to all printed digits: its dual is a smooth concave problem on a box."""


def alternating(n: int, odd: float, even: float) -> Tensor:
    """(odd, even, odd, ...): x_1 = odd, x_2 = even."""
    return torch.where(torch.arange(n) % 2 == 0, full(n, odd), full(n, even))


def maxq_value(x: Tensor) -> Tensor:
    """max_i x_i^2."""
    return (x * x).amax(-1)


def mxhilb_value(x: Tensor) -> Tensor:
    """max_i |sum_j x_j / (i + j - 1)|."""
    i = torch.arange(1, x.shape[-1] + 1, dtype=torch.float64)
    return times_rows(x, 1 / (i[:, None] + i - 1)).abs().amax(-1)


def chained_lq_value(x: Tensor) -> Tensor:
    """sum_i max(-x_i - x_{i+1}, -x_i - x_{i+1} + x_i^2 + x_{i+1}^2 - 1)."""
    a, b = x[:, :-1], x[:, 1:]
    return (-a - b + (a * a + b * b - 1).clamp_min(0)).sum(-1)


def cb3_pieces(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The three pieces of CB3 for every pair (x_i, x_{i+1}), each (b, n - 1)."""
    a, b = x[:, :-1], x[:, 1:]
    return (a * a) ** 2 + b * b, (2 - a) ** 2 + (2 - b) ** 2, 2 * (b - a).exp()


def chained_cb3_i_value(x: Tensor) -> Tensor:
    """sum_i max(x_i^4 + x_{i+1}^2, (2 - x_i)^2 + (2 - x_{i+1})^2, 2 exp(-x_i + x_{i+1}))."""
    return largest(*cb3_pieces(x)).sum(-1)


def chained_cb3_ii_value(x: Tensor) -> Tensor:
    """The maximum of the three sums over i of the pieces of chained CB3 I."""
    return largest(*(piece.sum(-1) for piece in cb3_pieces(x)))


def active_faces_value(x: Tensor) -> Tensor:
    """max(g(-sum_i x_i), max_i g(x_i)) with g(y) = ln(|y| + 1)."""
    return torch.cat([x, -x.sum(-1, keepdim=True)], -1).abs().amax(-1).log1p()


def brown_2_value(x: Tensor) -> Tensor:
    """sum_i |x_i|^(x_{i+1}^2 + 1) + |x_{i+1}|^(x_i^2 + 1)."""
    a, b = x[:, :-1], x[:, 1:]
    return (a.abs() ** (b * b + 1) + b.abs() ** (a * a + 1)).sum(-1)


def chained_mifflin_2_value(x: Tensor) -> Tensor:
    """sum_i -x_i + 2 y_i + 1.75 |y_i|, with y_i = x_i^2 + x_{i+1}^2 - 1."""
    a, b = x[:, :-1], x[:, 1:]
    y = a * a + b * b - 1
    return (-a + 2 * y + 1.75 * y.abs()).sum(-1)


def crescent_pieces(x: Tensor) -> tuple[Tensor, Tensor]:
    """The two pieces of Crescent for every pair (x_i, x_{i+1}), each (b, n - 1)."""
    a, b = x[:, :-1], x[:, 1:]
    q = a * a + (b - 1) ** 2
    return q + b - 1, -q + b + 1


def chained_crescent_i_value(x: Tensor) -> Tensor:
    """max of sum_i x_i^2 + (x_{i+1}-1)^2 + x_{i+1} - 1 and sum_i -x_i^2 - (x_{i+1}-1)^2 + x_{i+1} + 1."""
    return largest(*(piece.sum(-1) for piece in crescent_pieces(x)))


def chained_crescent_ii_value(x: Tensor) -> Tensor:
    """The sum over i of the maximum of the two pieces of chained crescent I."""
    return largest(*crescent_pieces(x)).sum(-1)


@register
def maxq(n: int = 50) -> TestProblem:
    """Maxq: max_i x_i^2. Convex, f* = 0 at 0."""
    i = torch.arange(1, n + 1, dtype=torch.float64)
    start = torch.where(i <= n // 2, i, -i)
    return TestProblem("maxq", n, maxq_value, (), None, 0.0, True, _HMM + "problem 1", start, 1.0, full(n, 0.0))


@register
def mxhilb(n: int = 50) -> TestProblem:
    """Mxhilb: max_i |(Hx)_i| with the Hilbert matrix H. Convex, f* = 0 at 0 (very ill-conditioned)."""
    return TestProblem(
        "mxhilb", n, mxhilb_value, (), None, 0.0, True, _HMM + "problem 2", full(n, 1.0), 0.5, full(n, 0.0)
    )


@register
def chained_lq(n: int = 50) -> TestProblem:
    """Chained LQ. Convex, f* = -(n - 1) sqrt(2) at x_i = 1/sqrt(2)."""
    optimum = -(n - 1) * math.sqrt(2)
    return TestProblem(
        "chained_lq", n, chained_lq_value, (), None, optimum, True, _HMM + "problem 3",
        full(n, -0.5), 0.5, full(n, math.sqrt(0.5)),
    )  # fmt: skip


@register
def chained_cb3_i(n: int = 50) -> TestProblem:
    """Chained CB3 I (a sum of maxima). Convex, f* = 2 (n - 1) at x_i = 1."""
    return TestProblem(
        "chained_cb3_i", n, chained_cb3_i_value, (), None, 2.0 * (n - 1), True, _HMM + "problem 4",
        full(n, 2.0), 0.5, full(n, 1.0),
    )  # fmt: skip


@register
def chained_cb3_ii(n: int = 50) -> TestProblem:
    """Chained CB3 II (a maximum of sums). Convex, f* = 2 (n - 1) at x_i = 1."""
    return TestProblem(
        "chained_cb3_ii", n, chained_cb3_ii_value, (), None, 2.0 * (n - 1), True, _HMM + "problem 5",
        full(n, 2.0), 0.5, full(n, 1.0),
    )  # fmt: skip


@register
def active_faces(n: int = 50) -> TestProblem:
    """Number of active faces. Not convex (its level sets are), f* = 0 at 0."""
    return TestProblem(
        "active_faces", n, active_faces_value, (), None, 0.0, False, _HMM + "problem 6",
        full(n, 1.0), 0.5, full(n, 0.0),
    )  # fmt: skip


@register
def brown_2(n: int = 50) -> TestProblem:
    """Nonsmooth generalisation of Brown function 2. Not convex, f* = 0 at 0."""
    return TestProblem(
        "brown_2", n, brown_2_value, (), None, 0.0, False, _HMM + "problem 7",
        alternating(n, -1.0, 1.0), 0.5, full(n, 0.0),
    )  # fmt: skip


@register
def chained_mifflin_2(n: int = 50) -> TestProblem:
    """Chained Mifflin 2, f* from a table (n = 10, 20, 50, 100, 200, 1000).

    The literature lists it as non-convex; it is convex: 2 y + 1.75 |y| = max(3.75 y, 0.25 y) is convex
    and increasing in the convex y_i = x_i^2 + x_{i+1}^2 - 1. Its dual is therefore tight,

        f* = max over theta in [1/4, 15/4]^(n-1) of -sum_i theta_i - sum_i 1 / (4 (theta_{i-1} + theta_i)),

    (theta_0 = 0, both sums over i = 1..n-1), from which the table was computed to about 1e-11 relative;
    the published values are -34.795 (n = 50), -140.86 (n = 200) and -706.55 (n = 1000).
    """
    if n not in MIFFLIN_2_OPTIMA:
        raise ValueError(f"chained_mifflin_2(n=...): expected one of {sorted(MIFFLIN_2_OPTIMA)}, found {n}")
    return TestProblem(
        "chained_mifflin_2", n, chained_mifflin_2_value, (), None, MIFFLIN_2_OPTIMA[n], True,
        _HMM + "problem 8", full(n, -1.0), 0.5,
    )  # fmt: skip


@register
def chained_crescent_i(n: int = 50) -> TestProblem:
    """Chained crescent I (a maximum of two sums). Not convex, f* = 0 at 0."""
    return TestProblem(
        "chained_crescent_i", n, chained_crescent_i_value, (), None, 0.0, False, _HMM + "problem 9",
        alternating(n, -1.5, 2.0), 0.5, full(n, 0.0),
    )  # fmt: skip


@register
def chained_crescent_ii(n: int = 50) -> TestProblem:
    """Chained crescent II (a sum of maxima). Not convex, f* = 0 at 0."""
    return TestProblem(
        "chained_crescent_ii", n, chained_crescent_ii_value, (), None, 0.0, False, _HMM + "problem 10",
        alternating(n, -1.5, 2.0), 0.5, full(n, 0.0),
    )  # fmt: skip


@register
def cb2() -> TestProblem:
    """CB2: max(x1^2 + x2^4, (2 - x1)^2 + (2 - x2)^2, 2 exp(x2 - x1)). Convex, f* = 1.9522245."""

    def objective(x: Tensor) -> Tensor:
        a, b = x.unbind(-1)
        return largest(a * a + (b * b) ** 2, (2 - a) ** 2 + (2 - b) ** 2, 2 * (b - a).exp())

    return TestProblem(
        "cb2", 2, objective, (), None, 1.952224493870659, True, _LV + "CB2 (Charalambous, Bandler 1976)",
        vector([1.0, -0.1]), 0.5, vector([1.1390376519926626, 0.8995599383953928]),
    )  # fmt: skip


@register
def wolfe() -> TestProblem:
    """Wolfe: steepest descent stalls at 0, which is not optimal. Convex, f* = -8 at (-1, 0).

    f = 5 sqrt(9 x1^2 + 16 x2^2) if x1 >= |x2|; 9 x1 + 16 |x2| if 0 < x1 < |x2|; and
    9 x1 + 16 |x2| - x1^9 if x1 <= 0.
    """

    def objective(x: Tensor) -> Tensor:
        a, b = x[:, 0], x[:, 1].abs()
        cone = 5 * torch.linalg.vector_norm(torch.stack([3 * a, 4 * b], -1), dim=-1)
        return torch.where(a >= b, cone, 9 * a + 16 * b + (-a).clamp_min(0) ** 9)

    return TestProblem(
        "wolfe",
        2,
        objective,
        (),
        None,
        -8.0,
        True,
        _LV + "Wolfe",
        vector([3.0, 2.0]),
        0.5,
        vector([-1.0, 0.0]),
    )


@register
def rosen_suzuki() -> TestProblem:
    """Rosen-Suzuki as a minimax problem, max(f1, f1 + 10 c_j): exact penalty of HS43. Convex, f* = -44."""

    def objective(x: Tensor) -> Tensor:
        a, b, c, d = x.unbind(-1)
        f = a * a + b * b + 2 * c * c + d * d - 5 * a - 5 * b - 21 * c + 7 * d
        c1 = a * a + b * b + c * c + d * d + a - b + c - d - 8
        c2 = a * a + 2 * b * b + c * c + 2 * d * d - a - d - 10
        c3 = 2 * a * a + b * b + c * c + 2 * a - b - d - 5
        return largest(f, f + 10 * c1, f + 10 * c2, f + 10 * c3)

    return TestProblem(
        "rosen_suzuki", 4, objective, (), None, -44.0, True, _LV + "Rosen-Suzuki",
        full(4, 0.0), 1.0, vector([0.0, 1.0, 2.0, -1.0]),
    )  # fmt: skip
