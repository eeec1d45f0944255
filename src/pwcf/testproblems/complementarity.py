"""Small mathematical programmes with complementarity constraints, written with products.

S. Leyffer, "MacMPEC: AMPL collection of MPECs", Argonne National Laboratory (2000), which names the sources.
0 <= g(x) _|_ h(x) >= 0 becomes g >= 0, h >= 0 and g h <= 0, which violates every constraint qualification.
Problems whose value a tiny violation of the product changes much (ralph1, scholtes4) are left out. Where the
collection gives no start, it is 0, and (1, 1) where 0 is a corner of the feasible set. None is convex.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from pwcf.solvers import Constraint, eq, ineq
from pwcf.testproblems.data import full, vector
from pwcf.testproblems.minimax import columns
from pwcf.testproblems.problem import BoundsPair, TestProblem, register

Pairs = Callable[..., Sequence[tuple[Tensor, Tensor]]]


def mpec(
    name: str,
    objective: Callable[..., Tensor],
    start: Sequence[float],
    optimum: float,
    minimizer: Sequence[float],
    bounds: BoundsPair,
    *,
    pairs: Pairs | None = None,
    variables: Sequence[tuple[int, int]] = (),
    below: Callable[..., Sequence[Tensor]] | None = None,
    zero: Callable[..., Sequence[Tensor]] | None = None,
    spread: float = 0.25,
) -> TestProblem:
    """objective(x1, ..., xn) s.t. below <= 0, zero = 0 and complementary pairs.

    ``pairs(x1, ..., xn)`` gives the pairs (g, h) of functions g and variables h; ``variables`` the indices of the
    pairs of which both are variables. The bounds say that the variables are not negative.
    """

    def functions(x: Tensor) -> list[tuple[Tensor, Tensor]]:
        return [] if pairs is None else list(pairs(*x.unbind(-1)))

    def positive(x: Tensor) -> Tensor:
        return torch.stack([-g for g, _ in functions(x)], -1)

    def products(x: Tensor) -> Tensor:
        both = [(x[:, i], x[:, j]) for i, j in variables]
        return torch.stack([g * h for g, h in [*functions(x), *both]], -1)

    constraints: list[Constraint] = []
    if below is not None:
        constraints.append(ineq(columns(below)))
    if zero is not None:
        constraints.append(eq(columns(zero)))
    if pairs is not None:
        constraints.append(ineq(positive))
    constraints.append(ineq(products))
    return TestProblem(
        name, len(start), lambda x: objective(*x.unbind(-1)), tuple(constraints), bounds, optimum, False,
        f"Leyffer (2000), MacMPEC, {name.replace('_', '.')}", vector(start), spread, vector(minimizer),
    )  # fmt: skip


_POSITIVE = (0.0, math.inf)


@register
def complementarity_pair() -> TestProblem:
    """(x - 1)^2 + (y - 1)^2, 0 <= x _|_ y >= 0: two minima, f* = 1 at (1, 0) and (0, 1)."""
    return mpec(
        "complementarity_pair", lambda x, y: (x - 1) ** 2 + (y - 1) ** 2, [0.9, 1.1], 1.0, [1.0, 0.0], _POSITIVE,
        variables=[(0, 1)],
    )  # fmt: skip


@register
def kth1() -> TestProblem:
    """x + y, 0 <= x _|_ y >= 0. f* = 0 at 0."""
    return mpec("kth1", lambda x, y: x + y, [1.0, 1.0], 0.0, [0.0, 0.0], _POSITIVE, variables=[(0, 1)])


@register
def kth2() -> TestProblem:
    """x + (y - 1)^2, 0 <= x _|_ y >= 0. f* = 0 at (0, 1)."""
    return mpec("kth2", lambda x, y: x + (y - 1) ** 2, [1.0, 1.0], 0.0, [0.0, 1.0], _POSITIVE, variables=[(0, 1)])


@register
def kth3() -> TestProblem:
    """(x - 1)^2 / 2 + (y - 1)^2, 0 <= x _|_ y >= 0. f* = 0.5 at (0, 1), local minimum 1 at (1, 0)."""
    return mpec(
        "kth3", lambda x, y: (x - 1) ** 2 / 2 + (y - 1) ** 2, [1.0, 1.0], 0.5, [0.0, 1.0], _POSITIVE,
        variables=[(0, 1)],
    )  # fmt: skip


@register
def scholtes3() -> TestProblem:
    """((x - 1)^2 + (y - 1)^2) / 2, 0 <= x _|_ y >= 0, started at the corner. f* = 0.5 at (1, 0) and (0, 1)."""
    return mpec(
        "scholtes3", lambda x, y: ((x - 1) ** 2 + (y - 1) ** 2) / 2, [1e-4, 1e-4], 0.5, [1.0, 0.0], _POSITIVE,
        variables=[(0, 1)],
    )  # fmt: skip


@register
def ralph2() -> TestProblem:
    """x^2 + y^2 - 4 x y, 0 <= x _|_ y >= 0. f* = 0 at 0."""
    return mpec(
        "ralph2", lambda x, y: x * x + y * y - 4 * x * y, [1.0, 1.0], 0.0, [0.0, 0.0], _POSITIVE, variables=[(0, 1)]
    )


@register
def scale1() -> TestProblem:
    """(100 x - 1)^2 + (y - 1)^2, 0 <= x _|_ y >= 0. f* = 1 at (0, 1) and (0.01, 0)."""
    return mpec(
        "scale1", lambda x, y: (100 * x - 1) ** 2 + (y - 1) ** 2, [1.0, 1.0], 1.0, [0.0, 1.0], _POSITIVE,
        variables=[(0, 1)],
    )  # fmt: skip


@register
def scholtes5() -> TestProblem:
    """(x - 1)^2 + (y - 2)^2 + (z + 1)^2, 0 <= x _|_ z >= 0, 0 <= y _|_ z >= 0. f* = 1 at (1, 2, 0)."""
    return mpec(
        "scholtes5", lambda x, y, z: (x - 1) ** 2 + (y - 2) ** 2 + (z + 1) ** 2, [1.0, 1.0, 1.0], 1.0, [1.0, 2.0, 0.0],
        _POSITIVE, variables=[(0, 2), (1, 2)],
    )  # fmt: skip


@register
def jr1() -> TestProblem:
    """(x - 1)^2 + y^2, 0 <= y - x _|_ y >= 0. f* = 0.5 at (0.5, 0.5)."""
    return mpec(
        "jr1", lambda x, y: (x - 1) ** 2 + y * y, [0.0, 0.0], 0.5, [0.5, 0.5], (vector([-math.inf, 0.0]), math.inf),
        pairs=lambda x, y: [(y - x, y)],
    )  # fmt: skip


@register
def jr2() -> TestProblem:
    """(y - 1)^2 + x^2, 0 <= y - x _|_ y >= 0. f* = 0.5 at (0.5, 0.5), stationary at 0."""
    return mpec(
        "jr2", lambda x, y: (y - 1) ** 2 + x * x, [0.0, 0.0], 0.5, [0.5, 0.5], (vector([-math.inf, 0.0]), math.inf),
        pairs=lambda x, y: [(y - x, y)],
    )  # fmt: skip


@register
def scholtes1() -> TestProblem:
    """(x + 1)^2 + (y - 2.5)^2 + (z + 1)^2, 0 <= y - e^x - e^z _|_ x >= 0, z >= 0. f* = 2 at (0, 2.5, 0)."""
    return mpec(
        "scholtes1", lambda x, y, z: (x + 1) ** 2 + (y - 2.5) ** 2 + (z + 1) ** 2, [0.0, 0.0, 0.0], 2.0,
        [0.0, 2.5, 0.0], (vector([0.0, -math.inf, 0.0]), math.inf), pairs=lambda x, y, z: [(y - x.exp() - z.exp(), x)],
    )  # fmt: skip


@register
def scholtes2() -> TestProblem:
    """(x + 1)^2 + y^2 + 10 (z + 1)^2, 0 <= y - e^x - e^z _|_ x >= 0, z >= 0. f* = 15 at (0, 2, 0)."""
    return mpec(
        "scholtes2", lambda x, y, z: (x + 1) ** 2 + y * y + 10 * (z + 1) ** 2, [0.0, 0.0, 0.0], 15.0,
        [0.0, 2.0, 0.0], (vector([0.0, -math.inf, 0.0]), math.inf), pairs=lambda x, y, z: [(y - x.exp() - z.exp(), x)],
    )  # fmt: skip


@register
def gauvin() -> TestProblem:
    """x^2 + (y - 10)^2, x <= 15, 0 <= 4 (x + 2 y - 30) + u _|_ y >= 0, 0 <= 20 - x - y _|_ u >= 0. f* = 20."""
    return mpec(
        "gauvin", lambda x, y, u: x * x + (y - 10) ** 2, [7.5, 0.0, 1.0], 20.0, [2.0, 14.0, 0.0],
        (0.0, vector([15.0, math.inf, math.inf])),
        pairs=lambda x, y, u: [(4 * (x + 2 * y - 30) + u, y), (20 - x - y, u)],
    )  # fmt: skip


@register
def df1() -> TestProblem:
    """(x - 1 - y)^2, x^2 <= 2, (x - 1)^2 + (y - 1)^2 <= 3, 0 <= y - x^2 + 1 _|_ y >= 0. f* = 0 at (1, 0)."""
    return mpec(
        "df1", lambda x, y: (x - 1 - y) ** 2, [0.0, 0.0], 0.0, [1.0, 0.0],
        (vector([-1.0, 0.0]), vector([2.0, math.inf])), pairs=lambda x, y: [(y - x * x + 1, y)],
        below=lambda x, y: [x * x - 2, (x - 1) ** 2 + (y - 1) ** 2 - 3],
    )  # fmt: skip


@register
def stackelberg1() -> TestProblem:
    """x^2 / 2 + x y / 2 - 95 x, x <= 200, l = 2 y + x / 2 - 100, 0 <= y _|_ l >= 0. f* = -9800 / 3."""
    return mpec(
        "stackelberg1", lambda x, y, l: x * x / 2 + x * y / 2 - 95 * x, [0.0, 0.0, 0.0], -9800 / 3,
        [280 / 3, 80 / 3, 0.0], (0.0, vector([200.0, math.inf, math.inf])), variables=[(1, 2)],
        zero=lambda x, y, l: [2 * y + x / 2 - 100 - l], spread=10.0,
    )  # fmt: skip


@register
def desilva() -> TestProblem:
    """De Silva: two followers with 0 <= 1/4 - (y - 1)^2 _|_ l >= 0. f* = -1 at x = y = 1/2, l = 0."""
    low, high = vector([0.0, 0.0, -math.inf, -math.inf, 0.0, 0.0]), vector([2.0, 2.0, *[math.inf] * 4])
    return mpec(
        "desilva", lambda a, b, y, z, p, q: a * a - 2 * a + b * b - 2 * b + y * y + z * z, [0.0] * 6, -1.0,
        [0.5, 0.5, 0.5, 0.5, 0.0, 0.0], (low, high),
        pairs=lambda a, b, y, z, p, q: [(0.25 - (y - 1) ** 2, p), (0.25 - (z - 1) ** 2, q)],
        zero=lambda a, b, y, z, p, q: [2 * (y - a) + 2 * (y - 1) * p, 2 * (z - b) + 2 * (z - 1) * q],
    )  # fmt: skip


@register
def bard1() -> TestProblem:
    """(x - 5)^2 + (2 y + 1)^2 over the optimality conditions of a quadratic follower. f* = 17 at (1, 0)."""
    return mpec(
        "bard1", lambda x, y, p, q, r: (x - 5) ** 2 + (2 * y + 1) ** 2, [0.0] * 5, 17.0,
        [1.0, 0.0, 3.5, 0.0, 0.0], _POSITIVE,
        pairs=lambda x, y, p, q, r: [(3 * x - y - 3, p), (4 - x + y / 2, q), (7 - x - y, r)],
        zero=lambda x, y, p, q, r: [2 * (y - 1) - 1.5 * x + p - q / 2 + r],
    )  # fmt: skip


@register
def bard3() -> TestProblem:
    """Bilevel programme with a quadratic follower, n = 6. f* = -12.6787."""
    return mpec(
        "bard3", lambda a, b, y, z, p, q: -a * a - 3 * b - 4 * y + z * z, [0.0] * 6, -12.6787109375,
        [0.0, 2.0, 1.875, 0.90625, 0.0, 1.25], _POSITIVE,
        pairs=lambda a, b, y, z, p, q: [
            (a * a - 2 * a + b * b - 2 * y + z + 3, p), (b + 3 * y - 4 * z - 4, q)
        ],
        below=lambda a, b, y, z, p, q: [a * a + 2 * b - 4],
        zero=lambda a, b, y, z, p, q: [2 * y + 2 * p - 3 * q, 4 * q - p - 5],
    )  # fmt: skip


@register
def nash1() -> TestProblem:
    """Generalised Nash equilibrium of two players as a least-squares problem, n = 6. f* = 0, many minimizers."""
    low, high = vector([0.0, 0.0, -math.inf, -math.inf, 0.0, 0.0]), vector([10.0, 10.0, *[math.inf] * 4])
    return mpec(
        "nash1", lambda a, b, y, z, p, q: ((a - y) ** 2 + (b - z) ** 2) / 2, [0.0] * 6, 0.0,
        [5.0, 9.0, 5.0, 9.0, 0.0, 0.0], (low, high),
        pairs=lambda a, b, y, z, p, q: [(15 - b - y, p), (15 - a - z, q)],
        zero=lambda a, b, y, z, p, q: [2 * y + 8 / 3 * z + p - 34, 1.25 * y + 2 * z + q - 24.25],
    )  # fmt: skip


@register
def flp2() -> TestProblem:
    """Fukushima, Luo, Pang 2: zero of two quadratics over a linear complementarity problem, n = 4. f* = 0."""
    return mpec(
        "flp2", lambda a, b, y, z: ((a + b + y - 15) ** 2 + (a + b + z - 15) ** 2) / 2, [0.0] * 4, 0.0,
        [7.000000000015898, 7.500000000056892, 0.4999999999430977, 0.49999999998410843],
        (0.0, vector([10.0, 10.0, math.inf, math.inf])),
        pairs=lambda a, b, y, z: [
            (8 / 3 * a + 2 * b + 2 * y + 8 / 3 * z - 36, y), (2 * a + 1.25 * b + 1.25 * y + 2 * z - 25, z)
        ],
    )  # fmt: skip


def _outrata(name: str, objective: Callable[..., Tensor], optimum: float, minimizer: Sequence[float]) -> TestProblem:
    """Objective of the equilibrium x1..x4 >= 0 of a nonlinear complementarity problem with parameter 0 <= y <= 10."""

    def pairs(a: Tensor, b: Tensor, c: Tensor, d: Tensor, y: Tensor) -> list[tuple[Tensor, Tensor]]:
        return [
            ((1 + 0.2 * y) * a - (3 + 1.333 * y) - 0.333 * c + 2 * a * d, a),
            ((1 + 0.1 * y) * b - y + c + 2 * b * d, b),
            (0.333 * a - b + 1 - 0.1 * y, c),
            (9 + 0.1 * y - a * a - b * b, d),
        ]

    bounds = (0.0, vector([math.inf, math.inf, math.inf, math.inf, 10.0]))
    return mpec(name, objective, [0.0] * 5, optimum, minimizer, bounds, pairs=pairs)


@register
def outrata31() -> TestProblem:
    """((x1 - 3)^2 + (x2 - 4)^2) / 2. f* = 3.2077."""
    return _outrata(
        "outrata31", lambda a, b, c, d, y: ((a - 3) ** 2 + (b - 4) ** 2) / 2, 3.207700023601752,
        [2.6822444295831525, 1.4871467522609745, 0.0, 0.6621463717133361, 4.060406427902153],
    )  # fmt: skip


@register
def outrata32() -> TestProblem:
    """((x1 - 3)^2 + (x2 - 4)^2 + (x3 - 1)^2) / 2. f* = 3.4494."""
    return _outrata(
        "outrata32", lambda a, b, c, d, y: ((a - 3) ** 2 + (b - 4) ** 2 + (c - 1) ** 2) / 2, 3.4494035683513684,
        [
            2.7487206358671687, 1.3999628516636202, 0.7252771485031485, 0.823909282517531, 5.1536112008014685,
        ],
    )  # fmt: skip


@register
def outrata33() -> TestProblem:
    """((x1 - 3)^2 + (x2 - 4)^2 + 10 x4^2) / 2. f* = 4.60425."""
    return _outrata(
        "outrata33", lambda a, b, c, d, y: ((a - 3) ** 2 + (b - 4) ** 2 + 10 * d * d) / 2, 4.6042536476114915,
        [2.7893319612614094, 1.2077125809653002, 0.0, 0.3697644171871536, 2.389424683362328],
    )  # fmt: skip


@register
def outrata34() -> TestProblem:
    """((x1 - 3)^2 + (x2 - 4)^2 + (x3 - 1)^2 + (x4 - 1)^2 + y^2) / 2. f* = 6.59268."""
    return _outrata(
        "outrata34",
        lambda a, b, c, d, y: ((a - 3) ** 2 + (b - 4) ** 2 + (c - 1) ** 2 + (d - 1) ** 2 + y * y) / 2,
        6.5926838308029385,
        [2.8875020360103436, 0.8942286061822518, 0.0, 0.1991159929139271, 1.3731280807853208],
    )  # fmt: skip


@register
def ex9_1_4() -> TestProblem:
    """Linear bilevel programme x - 4 y in slack form, n = 10. f* = -37 at (19, 14)."""

    def zero(x: Tensor, y: Tensor, *rest: Tensor) -> list[Tensor]:
        s, l = rest[:4], rest[4:]  # slacks and multipliers
        return [
            s[0] - 2 * x + y, s[1] + 2 * x + 5 * y - 108, s[2] + 2 * x - 3 * y + 4, s[3] - y,
            l[0] + 5 * l[1] - 3 * l[2] - l[3] + 1,
        ]  # fmt: skip

    return mpec(
        "ex9_1_4", lambda x, y, *rest: x - 4 * y, [0.0] * 10, -37.0,
        [19.0, 14.0, 24.0, 0.0, 0.0, 14.0, 0.0, 0.0, 1 / 3, 0.0], _POSITIVE,
        variables=[(2, 6), (3, 7), (4, 8), (5, 9)], zero=zero,
    )  # fmt: skip


@register
def ex9_2_2() -> TestProblem:
    """Quadratic bilevel programme x^2 + (y - 10)^2 in slack form, n = 8. f* = 100 at (10, 10)."""

    def zero(x: Tensor, y: Tensor, *rest: Tensor) -> list[Tensor]:
        s, l = rest[:3], rest[3:]
        return [s[0] + x + y - 20, s[1] - y, s[2] + y - 20, 2 * (x + 2 * y - 30) + l[0] - l[1] + l[2]]

    return mpec(
        "ex9_2_2", lambda x, y, *rest: x * x + (y - 10) ** 2, [0.0] * 8, 100.0,
        [10.0, 10.0, 0.0, 10.0, 10.0, 0.0, 0.0, 0.0], (0.0, vector([15.0, *[math.inf] * 7])),
        variables=[(2, 5), (3, 6), (4, 7)], zero=zero, below=lambda x, y, *rest: [y - x],
    )  # fmt: skip


@register
def ex9_2_4() -> TestProblem:
    """Bilevel programme ((y1 - 2)^2 + (y2 - 2)^2) / 2 in slack form, n = 8. f* = 0.5."""

    def zero(m: Tensor, x: Tensor, y: Tensor, z: Tensor, s: Tensor, t: Tensor, p: Tensor, q: Tensor) -> list[Tensor]:
        return [y + z - x, s - y, t - z, y + m - p, 1 + m - q]

    return mpec(
        "ex9_2_4", lambda m, x, y, z, *rest: ((y - 2) ** 2 + (z - 2) ** 2) / 2, [0.0] * 8, 0.5,
        [-1.0, 3.0, 1.0, 2.0, 1.0, 2.0, 0.0, 0.0], (vector([-math.inf, *[0.0] * 7]), math.inf),
        variables=[(4, 6), (5, 7)], zero=zero,
    )  # fmt: skip


@register
def ex9_2_8() -> TestProblem:
    """Bilinear bilevel programme 3 y + 2 x - 4 x y + 1 in slack form, n = 6. f* = 1.5 at (1/4, 0)."""
    return mpec(
        "ex9_2_8", lambda x, y, s, t, p, q: 3 * y + 2 * x - 4 * x * y + 1, [0.0] * 6, 1.5,
        [0.25, 0.0, 0.0, 1.0, 0.0, 0.0], (0.0, vector([1.0, *[math.inf] * 5])), variables=[(2, 4), (3, 5)],
        zero=lambda x, y, s, t, p, q: [s - y, t + y - 1, 4 * x - 1 - p + q],
    )  # fmt: skip


def _qpec(name: str, sign: float, optimum: float, pair: tuple[float, float]) -> TestProblem:
    """sum_i (x_i + sign)^2 + sum_j (y_j + 2 sign)^2, 0 <= y_i - x_i _|_ y_i >= 0, i <= 10, and y_j = 0 for j > 10."""

    def objective(*x: Tensor) -> Tensor:
        z = torch.stack(x, -1)
        return ((z[:, :10] + sign) ** 2).sum(-1) + ((z[:, 10:] + 2 * sign) ** 2).sum(-1)

    def pairs(*x: Tensor) -> list[tuple[Tensor, Tensor]]:
        return [(x[10 + i] - x[i], x[10 + i]) for i in range(10)]

    low = torch.cat([full(10, -math.inf), full(20, 0.0)])
    minimizer = [pair[0]] * 10 + [pair[1]] * 10 + [0.0] * 10
    square = [(20 + i, 20 + i) for i in range(10)]
    return mpec(name, objective, [1.0] * 30, optimum, minimizer, (low, math.inf), pairs=pairs, variables=square)


@register
def qpec1() -> TestProblem:
    """Separable quadratic programme with 20 complementarity pairs, n = 30. f* = 80 at x = -1, y = 0."""
    return _qpec("qpec1", 1.0, 80.0, (-1.0, 0.0))


@register
def qpec2() -> TestProblem:
    """qpec1 with the opposite sign. f* = 45 at x_i = y_i = 3/2, y_j = 0."""
    return _qpec("qpec2", -1.0, 45.0, (1.5, 1.5))
