"""Structured convex problems: eigenvalues, spectral norm, LASSO, l1 and linf regression, maxima.

Every instance is built backwards from a minimizer and a dual certificate, so that its optimum is known
exactly: choose the dual variable first, make the data orthogonal to it, then choose the minimizer.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pwcf.solvers import ineq
from pwcf.testproblems.data import full, make_orthogonal_to, orthogonal, signs, times_rows, uniform
from pwcf.testproblems.problem import TestProblem, register

_DESIGN = "random instance of this package built from its dual certificate; "


def _pencil(x: Tensor, constant: Tensor, matrices: Tensor) -> Tensor:
    """(b, n) -> (b, p, q): constant + sum_i x_i matrices[i]."""
    return constant.to(x) + (x[:, :, None, None] * matrices.to(x)).sum(1)


@register
def max_eigenvalue(n: int = 6, size: int = 8, multiplicity: int = 3, seed: int = 1) -> TestProblem:
    """lambda_max(A_0 + sum_i x_i A_i) with symmetric (size, size) matrices. Convex, f* = 2.

    Certificate: X >= 0 of trace 1 with <A_i, X> = 0, whose range lies in the eigenspace of lambda_max at
    the minimizer, of dimension ``multiplicity``: lambda_max(A(x)) >= <A(x), X> = <A(x*), X> = 2.
    """
    q = orthogonal(seed, size)
    weights = uniform(seed + 1, multiplicity, low=0.5, high=1.0)
    dual = (q[:, :multiplicity] * (weights / weights.sum())) @ q[:, :multiplicity].T
    matrices = uniform(seed + 2, n, size, size)
    matrices = make_orthogonal_to((matrices + matrices.mT) / 2, dual)
    eigenvalues = torch.cat([full(multiplicity, 2.0), uniform(seed + 3, size - multiplicity, low=-1.0, high=1.5)])
    minimizer = uniform(seed + 4, n)
    constant = (q * eigenvalues) @ q.T - (minimizer[:, None, None] * matrices).sum(0)

    def objective(x: Tensor) -> Tensor:
        values: Tensor = torch.linalg.eigvalsh(_pencil(x, constant, matrices))
        return values[:, -1]

    return TestProblem(
        "max_eigenvalue", n, objective, (), None, 2.0, True, _DESIGN + "eigenvalue optimisation",
        full(n, 0.0), 3.0, minimizer,
    )  # fmt: skip


@register
def spectral_norm(n: int = 6, rows: int = 8, columns: int = 6, multiplicity: int = 2, seed: int = 11) -> TestProblem:
    """||B_0 + sum_i x_i B_i||_2, the largest singular value; columns <= rows. Convex, f* = 2.

    Certificate: Z of nuclear norm 1 with <B_i, Z> = 0, in the span of the leading singular pairs at x*.
    """
    u, v = orthogonal(seed, rows), orthogonal(seed + 1, columns)
    weights = uniform(seed + 2, multiplicity, low=0.5, high=1.0)
    dual = (u[:, :multiplicity] * (weights / weights.sum())) @ v[:, :multiplicity].T
    matrices = make_orthogonal_to(uniform(seed + 3, n, rows, columns), dual)
    values = torch.cat([full(multiplicity, 2.0), uniform(seed + 4, columns - multiplicity, low=0.1, high=1.5)])
    minimizer = uniform(seed + 5, n)
    constant = (u[:, :columns] * values) @ v.T - (minimizer[:, None, None] * matrices).sum(0)

    def objective(x: Tensor) -> Tensor:
        singular: Tensor = torch.linalg.svdvals(_pencil(x, constant, matrices))
        return singular[:, 0]

    return TestProblem(
        "spectral_norm", n, objective, (), None, 2.0, True, _DESIGN + "spectral norm minimisation",
        full(n, 0.0), 3.0, minimizer,
    )  # fmt: skip


def lasso_data(n: int, m: int, weight: float, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """A, b and the minimizer of the box-constrained LASSO.

    With r = b - A x* the conditions are A_j' r = weight sign(x_j) inside, |A_j' r| <= weight at 0 and
    A_j' r sign(x_j) >= weight at a bound; each column of A is shifted along r to meet its own.
    """
    residual = uniform(seed, m)
    sign = signs(seed + 1, n)
    size = uniform(seed + 2, n, low=0.1, high=0.9)
    kind = torch.arange(n) % 3
    minimizer = sign * torch.where(kind == 0, 0.0, torch.where(kind == 1, size, 1.0))
    target = weight * sign * torch.where(kind == 0, size, torch.where(kind == 1, 1.0, 1.0 + size))
    matrix = uniform(seed + 3, m, n)
    matrix = matrix + residual[:, None] * (target - residual @ matrix) / (residual @ residual)
    return matrix, matrix @ minimizer + residual, minimizer


@register
def lasso_box(n: int = 30, m: int = 40, weight: float = 0.5, seed: int = 21) -> TestProblem:
    """||A x - b||^2 / 2 + weight ||x||_1 s.t. -1 <= x <= 1. Convex; a third of x* is 0, a third at bounds."""
    matrix, rhs, minimizer = lasso_data(n, m, weight, seed)
    residual = rhs - matrix @ minimizer
    optimum = float(residual @ residual) / 2 + weight * float(minimizer.abs().sum())

    def objective(x: Tensor) -> Tensor:
        gap = times_rows(x, matrix) - rhs.to(x)
        return (gap * gap).sum(-1) / 2 + weight * x.abs().sum(-1)

    return TestProblem(
        "lasso_box", n, objective, (), (-1.0, 1.0), optimum, True,
        _DESIGN + "LASSO (Tibshirani 1996) on a box", full(n, 0.0), 1.0, minimizer,
    )  # fmt: skip


def lad_data(n: int, m: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """A, b, x* of least absolute deviations: A' u = 0, u = sign of the residuals, n of which vanish."""
    residual = uniform(seed, m, low=0.2, high=1.0) * signs(seed + 1, m)
    residual[:n] = 0.0
    dual = torch.where(residual == 0, 0.9 * uniform(seed + 2, m), residual.sign())
    matrix = make_orthogonal_to(uniform(seed + 3, n, m), dual).T.contiguous()
    minimizer = uniform(seed + 4, n)
    return matrix, matrix @ minimizer - residual, minimizer


@register
def least_absolute_deviations(n: int = 10, m: int = 40, seed: int = 31) -> TestProblem:
    """||A x - b||_1. Convex; n residuals vanish at the minimizer, f* is the sum of the others."""
    matrix, rhs, minimizer = lad_data(n, m, seed)
    optimum = float((matrix @ minimizer - rhs).abs().sum())

    def objective(x: Tensor) -> Tensor:
        return (times_rows(x, matrix) - rhs.to(x)).abs().sum(-1)

    return TestProblem(
        "least_absolute_deviations", n, objective, (), None, optimum, True, _DESIGN + "l1 regression",
        full(n, 0.0), 3.0, minimizer,
    )  # fmt: skip


def minimax_data(n: int, m: int, seed: int, signed: bool) -> tuple[Tensor, Tensor, Tensor]:
    """A, b, x* with n + 1 active rows of max_i (a_i'x + b_i) = 1, or of max_i |a_i'x + b_i| if ``signed``.

    Certificate: multipliers w on the active rows, of sum (of absolute values) 1, with A' w = 0.
    """
    sign = signs(seed, m) if signed else full(m, 1.0)
    dual = torch.zeros(m, dtype=torch.float64)
    dual[: n + 1] = (uniform(seed + 1, n + 1, low=0.5, high=1.0) * sign[: n + 1]) / (n + 1)
    matrix = make_orthogonal_to(uniform(seed + 2, n, m), dual).T.contiguous()
    minimizer = uniform(seed + 3, n)
    value = sign * uniform(seed + 4, m, low=0.0, high=0.8)
    value[: n + 1] = sign[: n + 1]
    return matrix, value - matrix @ minimizer, minimizer


@register
def max_affine(n: int = 10, m: int = 30, seed: int = 41) -> TestProblem:
    """max_i (a_i'x + b_i). Convex (a linear programme), f* = 1 with n + 1 active pieces."""
    matrix, shift, minimizer = minimax_data(n, m, seed, signed=False)

    def objective(x: Tensor) -> Tensor:
        return (times_rows(x, matrix) + shift.to(x)).amax(-1)

    return TestProblem(
        "max_affine", n, objective, (), None, 1.0, True, _DESIGN + "maximum of affine functions",
        full(n, 0.0), 3.0, minimizer,
    )  # fmt: skip


@register
def linf_regression(n: int = 10, m: int = 30, seed: int = 51) -> TestProblem:
    """||A x + b||_inf (Chebyshev regression). Convex, f* = 1 with n + 1 residuals of that size."""
    matrix, shift, minimizer = minimax_data(n, m, seed, signed=True)

    def objective(x: Tensor) -> Tensor:
        return (times_rows(x, matrix) + shift.to(x)).abs().amax(-1)

    return TestProblem(
        "linf_regression", n, objective, (), None, 1.0, True, _DESIGN + "Chebyshev regression",
        full(n, 0.0), 3.0, minimizer,
    )  # fmt: skip


@register
def linf_regression_slack(n: int = 10, m: int = 30, seed: int = 51) -> TestProblem:
    """The same as a linear programme in (x, t): t s.t. |A x + b| - t <= 0, m columns folded. f* = 1."""
    matrix, shift, minimizer = minimax_data(n, m, seed, signed=True)

    def objective(x: Tensor) -> Tensor:
        return x[:, -1]

    def constraint(x: Tensor) -> Tensor:
        return (times_rows(x[:, :-1], matrix) + shift.to(x)).abs() - x[:, -1:]

    return TestProblem(
        "linf_regression_slack", n + 1, objective, (ineq(constraint, fold=True),), None, 1.0, True,
        _DESIGN + "Chebyshev regression in slack form", full(n + 1, 0.0), 3.0,
        torch.cat([minimizer, full(1, 1.0)]),
    )  # fmt: skip
