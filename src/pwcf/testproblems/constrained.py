"""Constrained nonsmooth problems: GRANSO's Rosenbrock, constrained variants of the large set, minimax.

The constraints of the large problems are our own, chosen so that the optimum follows from one line,
given in each docstring.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from pwcf.solvers import eq, ineq
from pwcf.testproblems import unconstrained as large
from pwcf.testproblems.data import full, largest, vector
from pwcf.testproblems.problem import TestProblem, register

_OWN = "Haarala, Miettinen, Makela (2004) objective, constraint of this package; "
_LV = "Luksan, Vlcek (2000), linearly constrained minimax, "


@register
def granso_rosenbrock() -> TestProblem:
    """min 8 |x1^2 - x2| + (1 - x1)^2 s.t. max(sqrt(2) x1, 2 x2) - 1 <= 0.

    x1 <= 1/sqrt(2) bounds f below by (1 - 1/sqrt(2))^2, attained at (1/sqrt(2), 1/2). Not convex.
    """

    def objective(x: Tensor) -> Tensor:
        a, b = x.unbind(-1)
        return 8 * (a * a - b).abs() + (1 - a) ** 2

    def constraint(x: Tensor) -> Tensor:
        a, b = x.unbind(-1)
        return largest(math.sqrt(2) * a, 2 * b) - 1

    half = math.sqrt(0.5)
    return TestProblem(
        "granso_rosenbrock", 2, objective, (ineq(constraint),), None, (1 - half) ** 2, False,
        "Curtis, Mitchell, Overton, Optim. Methods Softw. 32 (2017); example of the GRANSO package",
        vector([0.0, 0.0]), 2.0, vector([half, 0.5]),
    )  # fmt: skip


@register
def maxq_l1_ball(n: int = 20, radius: float = 0.25) -> TestProblem:
    """Maxq s.t. sum_i |x_i - 1| <= radius n, with 0 <= radius <= 1. Convex.

    max_i |x_i| >= mean_i x_i >= 1 - radius, so f* = (1 - radius)^2 at x_i = 1 - radius.
    """

    def constraint(x: Tensor) -> Tensor:
        return (x - 1).abs().mean(-1) - radius

    return TestProblem(
        "maxq_l1_ball", n, large.maxq_value, (ineq(constraint),), None, (1 - radius) ** 2, True,
        _OWN + "sum |x_i - 1| <= radius n", full(n, 0.0), 2.0, full(n, 1 - radius),
    )  # fmt: skip


@register
def mxhilb_corner(n: int = 20) -> TestProblem:
    """Mxhilb s.t. max_i (1 - x_i) <= 0. Convex.

    H has positive entries and for x > 0 its first row gives the maximum: f* = sum_j 1/j at x_i = 1.
    """

    def constraint(x: Tensor) -> Tensor:
        return (1 - x).amax(-1)

    optimum = math.fsum(1 / j for j in range(1, n + 1))
    return TestProblem(
        "mxhilb_corner", n, large.mxhilb_value, (ineq(constraint),), None, optimum, True,
        _OWN + "max (1 - x_i) <= 0", full(n, 2.0), 1.5, full(n, 1.0),
    )  # fmt: skip


@register
def chained_lq_folded(n: int = 20) -> TestProblem:
    """Chained LQ s.t. x_i <= 1/2 for all i, n columns folded into one. Convex.

    Each term is >= -x_i - x_{i+1} >= -1: f* = -(n - 1) at x_i = 1/2.
    """

    def constraint(x: Tensor) -> Tensor:
        return x - 0.5

    return TestProblem(
        "chained_lq_folded", n, large.chained_lq_value, (ineq(constraint, fold=True),), None, -(n - 1.0),
        True, _OWN + "x_i <= 1/2, folded", full(n, -0.5), 0.5, full(n, 0.5),
    )  # fmt: skip


@register
def chained_lq_equal(n: int = 20) -> TestProblem:
    """Chained LQ s.t. x_1 = 0 and x_i = x_{i+1} for 2 <= i < n, n - 1 equalities folded into one. Convex.

    One variable t is left: f = max(-t, -t + t^2 - 1) + (n - 2) max(-2 t, -2 t + 2 t^2 - 1), of which the
    second term is least at t = 1/sqrt(2); there the first falls with slope 1 < (n - 2)(2 sqrt(2) - 2)
    if n >= 4, so the kink is the minimum: f* = -(n - 2) sqrt(2) - 1/sqrt(2).
    """
    if n < 4:
        raise ValueError(f"chained_lq_equal(n=...): expected n >= 4, found {n}")

    def constraint(x: Tensor) -> Tensor:
        return torch.cat([x[:, :1], x[:, 2:] - x[:, 1:-1]], -1)

    minimizer = full(n, math.sqrt(0.5))
    minimizer[0] = 0.0
    return TestProblem(
        "chained_lq_equal", n, large.chained_lq_value, (eq(constraint, fold=True),), None,
        -(n - 2) * math.sqrt(2) - math.sqrt(0.5), True, _OWN + "x_1 = 0, x_2 = ... = x_n, folded",
        full(n, -0.5), 0.5, minimizer,
    )  # fmt: skip


def _pairs(x: Tensor) -> Tensor:
    return x[:, :-1] + x[:, 1:] - 1


@register
def chained_cb3_i_pairs(n: int = 20) -> TestProblem:
    """Chained CB3 I s.t. max_i (x_i + x_{i+1}) <= 1. Convex.

    Then (2 - x_i)^2 + (2 - x_{i+1})^2 >= 4.5, so that f* = 4.5 (n - 1) at x_i = 1/2.
    """

    def constraint(x: Tensor) -> Tensor:
        return _pairs(x).amax(-1)

    return TestProblem(
        "chained_cb3_i_pairs", n, large.chained_cb3_i_value, (ineq(constraint),), None, 4.5 * (n - 1), True,
        _OWN + "max (x_i + x_{i+1}) <= 1", full(n, 1.0), 1.0, full(n, 0.5),
    )  # fmt: skip


@register
def chained_cb3_ii_pairs(n: int = 20) -> TestProblem:
    """Chained CB3 II s.t. x_i + x_{i+1} <= 1, n - 1 columns folded. Convex, f* = 4.5 (n - 1) at 1/2."""
    return TestProblem(
        "chained_cb3_ii_pairs", n, large.chained_cb3_ii_value, (ineq(_pairs, fold=True),), None,
        4.5 * (n - 1), True, _OWN + "x_i + x_{i+1} <= 1, folded", full(n, 1.0), 1.0, full(n, 0.5),
    )  # fmt: skip


@register
def active_faces_l1_sphere(n: int = 20) -> TestProblem:
    """Number of active faces s.t. mean_i |x_i| = 1, n even. Not convex, neither f nor the constraint.

    max_i |x_i| >= 1 gives f* = ln 2, at any x of n/2 entries 1 and n/2 entries -1.
    """
    if n % 2:
        raise ValueError(f"active_faces_l1_sphere(n=...): expected an even n, found {n}")

    def constraint(x: Tensor) -> Tensor:
        return x.abs().mean(-1) - 1

    return TestProblem(
        "active_faces_l1_sphere", n, large.active_faces_value, (eq(constraint),), None, math.log(2), False,
        _OWN + "mean |x_i| = 1", full(n, 0.0), 2.0, large.alternating(n, 1.0, -1.0),
    )  # fmt: skip


@register
def chained_crescent_ii_corner(n: int = 20) -> TestProblem:
    """Chained crescent II s.t. max_i (1 - x_i) <= 0. Not convex.

    A term is x_{i+1} + |x_i^2 + (x_{i+1} - 1)^2 - 1| >= x_{i+1} >= 1: f* = n - 1 at x_i = 1, a kink.
    """

    def constraint(x: Tensor) -> Tensor:
        return (1 - x).amax(-1)

    return TestProblem(
        "chained_crescent_ii_corner", n, large.chained_crescent_ii_value, (ineq(constraint),), None, n - 1.0,
        False, _OWN + "max (1 - x_i) <= 0", large.alternating(n, -1.5, 2.0), 0.5, full(n, 1.0),
    )  # fmt: skip


def _mad(x: Tensor) -> Tensor:
    a, b = x.unbind(-1)
    return largest(a * a + b * b + a * b - 1, a.sin(), -b.cos())


@register
def mad1() -> TestProblem:
    """MAD1: max(x1^2 + x2^2 + x1 x2 - 1, sin x1, -cos x2) s.t. x1 + x2 >= 0.5. f* = -0.38965952."""

    def constraint(x: Tensor) -> Tensor:
        return 0.5 - x[:, 0] - x[:, 1]

    return TestProblem(
        "mad1", 2, _mad, (ineq(constraint),), None, -0.3896595160972098, False,
        _LV + "MAD1 (Madsen, Schjaer-Jacobsen 1978)", vector([1.0, 2.0]), 0.5,
        vector([-0.4002618579486191, 0.9002618579486191]),
    )  # fmt: skip


@register
def mad2() -> TestProblem:
    """MAD2: the objective of MAD1 s.t. -3 x1 - x2 >= 2.5. f* = -0.33035714 = -37/112."""

    def constraint(x: Tensor) -> Tensor:
        return 3 * x[:, 0] + x[:, 1] + 2.5

    return TestProblem(
        "mad2", 2, _mad, (ineq(constraint),), None, -37 / 112, False,
        _LV + "MAD2 (Madsen, Schjaer-Jacobsen 1978)", vector([-2.0, -1.0]), 0.5, vector([-25 / 28, 5 / 28]),
    )  # fmt: skip


@register
def mad4() -> TestProblem:
    """MAD4: max(-exp(x1 - x2), sinh(x1 - 1) - 1, -ln x2 - 1) s.t. 0.05 x1 - x2 + 0.5 >= 0, x2 >= 0.01.

    f* = -0.44891079. The bound on x2 (inactive) only keeps the logarithm defined.
    """

    def objective(x: Tensor) -> Tensor:
        a, b = x[:, 0], x[:, 1].clamp_min(1e-3)
        return largest(-(a - b).exp(), (a - 1).sinh() - 1, -b.log() - 1)

    def constraint(x: Tensor) -> Tensor:
        return x[:, 1] - 0.05 * x[:, 0] - 0.5

    return TestProblem(
        "mad4", 2, objective, (ineq(constraint),), (vector([-math.inf, 0.01]), math.inf),
        -0.4489107861066212, False, _LV + "MAD4 (Madsen, Schjaer-Jacobsen 1978)", vector([-1.0, 0.05]), 0.5,
        vector([1.5264346149972663, 0.5763217307498634]),
    )  # fmt: skip
