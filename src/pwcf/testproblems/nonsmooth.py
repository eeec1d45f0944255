"""Nonsmooth problems beyond fits: quadratics, penalties, sums of absolute values, Rosenbrock functions.

L. Luksan, J. Vlcek, "Test problems for nonsmooth unconstrained and linearly constrained optimization",
report V-798, Academy of Sciences of the Czech Republic (2000), which names the sources.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from pwcf.solvers import ineq
from pwcf.testproblems.data import full, times_rows, vector
from pwcf.testproblems.minimax import columns, magnitudes, minimax
from pwcf.testproblems.problem import TestProblem, register

_LV = "Luksan, Vlcek (2000), "


@register
def shor() -> TestProblem:
    """Shor: max_i b_i |x - a_i|^2, ten points in five dimensions. Convex, f* = 22.600162."""
    weights = vector([1.0, 5.0, 10.0, 2.0, 4.0, 3.0, 1.7, 2.5, 6.0, 3.5])
    digits = "00000 21113 12112 14122 32101 02101 11111 10121 00210 11200"
    centres = torch.tensor([[float(digit) for digit in word] for word in digits.split()], dtype=torch.float64)

    def pieces(x: Tensor) -> Tensor:
        return weights.to(x) * ((x[:, None] - centres.to(x)) ** 2).sum(-1)

    return minimax(
        "shor", pieces, vector([0.0, 0.0, 0.0, 0.0, 1.0]), 22.600162095770898,
        vector([
            1.12435101018662, 0.9794615993136553, 1.4777077519642712, 0.9202334858848628, 1.1242915880048425,
        ]),
        _LV + "Shor", convex=True,
    )  # fmt: skip


@register
def maxquad() -> TestProblem:
    """Maxquad: max_k x'A_k x - b_k'x, five diagonally dominant quadratics, n = 10. Convex, f* = -0.8414083."""
    i = torch.arange(1, 11, dtype=torch.float64)
    small, large = torch.minimum(i[:, None], i), torch.maximum(i[:, None], i)
    off = (small / large).exp() * (small * large).cos()
    off.fill_diagonal_(0.0)
    k = torch.arange(1, 6, dtype=torch.float64)[:, None]
    matrices = off * k.sin()[:, :, None]
    matrices = matrices + torch.diag_embed(k.sin().abs() * i / 10 + matrices.abs().sum(-1))
    linear = (i / k).exp() * (i * k).sin()

    def pieces(x: Tensor) -> Tensor:
        z = x[:, None, :]
        image = (matrices.to(x) * z[:, None]).sum(-1)
        return ((image - linear.to(x)) * z).sum(-1)

    return minimax(
        "maxquad", pieces, full(10, 1.0), -0.8414083345964148,
        vector([
            -0.12625658136909412, -0.03437830186452578, -0.006857198541911909, 0.026360659132265277,
            0.06729492270401885, -0.2783994998554252, 0.07421866525040688, 0.13852404802277238, 0.08403122307238753,
            0.038580309615111656,
        ]),
        _LV + "Maxquad", convex=True,
    )  # fmt: skip


@register
def gill() -> TestProblem:
    """Gill: the largest of a penalty, the Watson and the chained Rosenbrock function, n = 10. f* = 9.7857721."""
    t = torch.arange(1, 30, dtype=torch.float64)[:, None] / 29
    powers = t ** torch.arange(10, dtype=torch.float64)
    slopes = torch.cat([torch.zeros_like(t), torch.arange(1, 10) * powers[:, :-1]], -1)

    def pieces(x: Tensor) -> Tensor:
        penalty = ((x - 1) ** 2).sum(-1) + 1e-3 * ((x * x).sum(-1) - 0.25) ** 2
        fit = times_rows(x, slopes) - times_rows(x, powers) ** 2 - 1
        watson = (fit * fit).sum(-1) + x[:, 0] ** 2 + (x[:, 1] - x[:, 0] ** 2 - 1) ** 2
        rosenbrock = (100 * (x[:, 1:] - x[:, :-1] ** 2) ** 2 + (1 - x[:, 1:]) ** 2).sum(-1)
        return torch.stack([penalty, watson, rosenbrock], -1)

    return minimax(
        "gill", pieces, full(10, -0.1), 9.785772080817834,
        vector([
            -0.60221451029242, 0.4906984595175804, 0.3095573548346122, 0.14162317168686753, 0.05420359650595417,
            0.028647412295473317, 0.019714475765669006, 0.013681165204022587, 0.008729361453797732,
            0.00446612742465241,
        ]),
        _LV + "Gill",
    )  # fmt: skip


@register
def maxl(n: int = 20) -> TestProblem:
    """Maxl: max_i |x_i|. Convex, f* = 0 at 0."""
    i = torch.arange(1, n + 1, dtype=torch.float64)
    start = torch.where(i <= n // 2, i, -i)
    return minimax("maxl", magnitudes(lambda x: x), start, 0.0, full(n, 0.0), _LV + "Maxl", convex=True)


@register
def goffin(n: int = 50) -> TestProblem:
    """Goffin: n max_i x_i - sum_i x_i. Convex, f* = 0 where all x_i are equal."""

    def pieces(x: Tensor) -> Tensor:
        return n * x - x.sum(-1, keepdim=True)

    start = torch.arange(1, n + 1, dtype=torch.float64) - (n + 1) / 2
    return minimax("goffin", pieces, start, 0.0, full(n, 0.0), _LV + "Goffin", convex=True)


@register
def l1hilb(n: int = 50) -> TestProblem:
    """L1HILB: sum_i |(Hx)_i| with the Hilbert matrix H. Convex, f* = 0 at 0 (very ill-conditioned)."""
    i = torch.arange(1, n + 1, dtype=torch.float64)
    hilbert = 1 / (i[:, None] + i - 1)

    def objective(x: Tensor) -> Tensor:
        return times_rows(x, hilbert).abs().sum(-1)

    return TestProblem("l1hilb", n, objective, (), None, 0.0, True, _LV + "L1HILB", full(n, 1.0), 0.25, full(n, 0.0))


@register
def nonsmooth_rosenbrock() -> TestProblem:
    """8 |x1^2 - x2| + (1 - x1)^2, f* = 0 at (1, 1)."""

    def pieces(a: Tensor, b: Tensor) -> list[Tensor]:
        return [8 * (a * a - b) + (1 - a) ** 2, 8 * (b - a * a) + (1 - a) ** 2]

    return minimax(
        "nonsmooth_rosenbrock", columns(pieces), vector([-1.2, 1.0]), 0.0, full(2, 1.0),
        "Lewis, Overton, Math. Programming 141 (2013)",
    )  # fmt: skip


@register
def nonsmooth_rosenbrock_columns() -> TestProblem:
    """8 |x1^2 - x2| + (1 - x1)^2 s.t. sqrt(2) x1 <= 1 and 2 x2 <= 1, two columns; f* = (1 - 1/sqrt(2))^2."""

    def below(x: Tensor) -> Tensor:
        return torch.stack([math.sqrt(2) * x[:, 0] - 1, 2 * x[:, 1] - 1], -1)

    unconstrained = nonsmooth_rosenbrock()
    assert unconstrained.pieces is not None
    half = math.sqrt(0.5)
    return minimax(
        "nonsmooth_rosenbrock_columns", unconstrained.pieces, vector([0.0, -0.8]), (1 - half) ** 2,
        vector([half, 0.5]), "Curtis, Mitchell, Overton, Optim. Methods Softw. 32 (2017)",
        constraints=(ineq(below),), spread=1.0,
    )  # fmt: skip


@register
def nesterov_rosenbrock_1(n: int = 4) -> TestProblem:
    """Nesterov's first nonsmooth Chebyshev-Rosenbrock function, f* = 0 at 1; 1 is its only stationary point.

    (x_1 - 1)^2 / 4 + sum_i |x_{i+1} - 2 x_i^2 + 1|.
    """

    def objective(x: Tensor) -> Tensor:
        return (x[:, 0] - 1) ** 2 / 4 + (x[:, 1:] - 2 * x[:, :-1] ** 2 + 1).abs().sum(-1)

    start = full(n, 1.0)
    start[0] = -1.0
    return TestProblem(
        "nesterov_rosenbrock_1", n, objective, (), None, 0.0, False,
        "Gurbuzbalaban, Overton, Nonlinear Analysis 75 (2012)", start, 0.25, full(n, 1.0),
    )  # fmt: skip


@register
def nesterov_rosenbrock_2(n: int = 3) -> TestProblem:
    """Nesterov's second nonsmooth Chebyshev-Rosenbrock function, f* = 0 at 1; 2^(n - 1) Clarke stationary points.

    |x_1 - 1| / 4 + sum_i |x_{i+1} - 2 |x_i| + 1|.
    """

    def objective(x: Tensor) -> Tensor:
        return (x[:, 0] - 1).abs() / 4 + (x[:, 1:] - 2 * x[:, :-1].abs() + 1).abs().sum(-1)

    start = full(n, 1.0)
    start[0] = -1.0
    return TestProblem(
        "nesterov_rosenbrock_2", n, objective, (), None, 0.0, False,
        "Gurbuzbalaban, Overton, Nonlinear Analysis 75 (2012)", start, 0.25, full(n, 1.0),
    )  # fmt: skip


@register
def colville_1() -> TestProblem:
    """Colville 1: exact penalty, weight 50, of HS86; x >= 0 keeps the cubic bounded below. f* = -32.348679."""
    rows = vector([
        -16, 2, 0, 1, 0, 0, -2, 0, 4, 2, -3.5, 0, 2, 0, 0, 0, -2, 0, -4, -1, 0, -9, -2, 1, -2.8,
        2, 0, -4, 0, 0, -1, -1, -1, -1, -1, -1, -2, -3, -2, -1, 1, 2, 3, 4, 5, 1, 1, 1, 1, 1,
    ]).reshape(10, 5)  # fmt: skip
    right = vector([-40.0, -2.0, -0.25, -4.0, -4.0, -1.0, -40.0, -60.0, 5.0, 1.0])
    quadratic = vector([
        30, -20, -10, 32, -10, -20, 39, -6, -31, 32, -10, -6, 10, -6, -10, 32, -31, -6, 39, -20, -10, 32, -10, -20, 30,
    ]).reshape(5, 5)  # fmt: skip
    cubic, linear = vector([4.0, 8.0, 10.0, 6.0, 2.0]), vector([-15.0, -27.0, -36.0, -18.0, -12.0])

    def pieces(x: Tensor) -> Tensor:
        value = (cubic.to(x) * x**3 + linear.to(x) * x + times_rows(x, quadratic) * x).sum(-1, keepdim=True)
        return torch.cat([value, value + 50 * (right.to(x) - times_rows(x, rows))], -1)

    return minimax(
        "colville_1", pieces, vector([0.0, 0.0, 0.0, 0.0, 1.0]), -32.34867896572271,
        vector([
            0.2999999999999998, 0.3334676064526233, 0.3999999999999999, 0.42831010458230767, 0.22396487375310659,
        ]),
        _LV + "Colville 1", bounds=(0.0, math.inf),
    )  # fmt: skip


@register
def pentagon() -> TestProblem:
    """PENTAGON: three points in a regular pentagon as far apart as possible, n = 6, f* = -1.8596187."""
    angle = 2 * math.pi / 5 * torch.arange(5, dtype=torch.float64)
    sides = torch.stack([angle.cos(), angle.sin()], -1)

    def pieces(x: Tensor) -> Tensor:
        points = x.reshape(-1, 3, 2)
        distances: Tensor = torch.linalg.vector_norm(points - points.roll(-1, 1), dim=-1)
        return -distances

    def below(x: Tensor) -> Tensor:
        return torch.cat([times_rows(point, sides) - 1 for point in x.reshape(-1, 3, 2).unbind(1)], -1)

    return minimax(
        "pentagon", pieces, vector([-1.0, 0.0, 0.0, -1.0, 1.0, 1.0]), -1.859618695941715,
        vector([
            -0.849431510150231, 0.532159443454776, 0.24362493421166956, -0.9723036846194497, 0.9999999999999999,
            0.726542528005361,
        ]),
        _LV + "PENTAGON", constraints=(ineq(below),),
    )  # fmt: skip
