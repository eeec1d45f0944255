"""Projections, linear functions over l_p balls, and the distance from a point to a linear classifier.

All optima are closed forms, by duality of norms or because the instance is built from its multipliers.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from pwcf.solvers import Constraint, eq, ineq
from pwcf.testproblems.data import full, signs, times_rows, uniform
from pwcf.testproblems.problem import TestProblem, register

_DESIGN = "random instance of this package, optimum in closed form; "


def _projection(
    name: str, point: Tensor, constraints: tuple[Constraint, ...], minimizer: Tensor, what: str
) -> TestProblem:
    """||x - point||^2 subject to the constraints."""

    def objective(x: Tensor) -> Tensor:
        return ((x - point.to(x)) ** 2).sum(-1)

    n = point.numel()
    optimum = float(((minimizer - point) ** 2).sum())
    return TestProblem(
        name, n, objective, constraints, None, optimum, True, _DESIGN + what, full(n, 0.0), 2.0, minimizer
    )


@register
def projection_l1_ball(n: int = 30, seed: int = 61) -> TestProblem:
    """||x - a||^2 s.t. ||x||_1 <= r, one nonsmooth constraint. Convex; a third of x* is nonzero.

    x* is the soft threshold of a: a_j = x_j + theta sign(x_j) where x_j != 0, |a_j| <= theta elsewhere.
    """
    sign = signs(seed, n)
    support = torch.arange(n) % 3 == 0
    minimizer = torch.where(support, sign * uniform(seed + 1, n, low=0.1, high=1.0), 0.0)
    point = minimizer + torch.where(support, sign * 0.7, 0.6 * uniform(seed + 2, n))
    radius = float(minimizer.abs().sum())

    def constraint(x: Tensor) -> Tensor:
        return x.abs().sum(-1) - radius

    return _projection("projection_l1_ball", point, (ineq(constraint),), minimizer, "projection on an l1 ball")


@register
def projection_lp_ball(n: int = 20, p: float = 1.5, seed: int = 71) -> TestProblem:
    """||x - a||^2 s.t. sum_j |x_j|^p <= r, p > 1. Convex; a = x* + tau |x*|^(p-1) sign(x*), tau > 0."""
    minimizer = signs(seed, n) * uniform(seed + 1, n, low=0.1, high=1.0)
    point = minimizer + 0.8 * minimizer.sign() * minimizer.abs() ** (p - 1)
    radius = float((minimizer.abs() ** p).sum())

    def constraint(x: Tensor) -> Tensor:
        return (x.abs() ** p).sum(-1) - radius

    return _projection("projection_lp_ball", point, (ineq(constraint),), minimizer, "projection on an l_p ball")


@register
def projection_linf_ball(n: int = 30, radius: float = 0.5, seed: int = 81) -> TestProblem:
    """||x - a||^2 s.t. |x_j| <= radius, n columns folded. Convex; x* clips a."""
    point = uniform(seed, n)

    def constraint(x: Tensor) -> Tensor:
        return x.abs() - radius

    minimizer = point.clamp(-radius, radius)
    return _projection(
        "projection_linf_ball",
        point,
        (ineq(constraint, fold=True),),
        minimizer,
        "projection on a cube, folded",
    )


@register
def projection_simplex(n: int = 30, seed: int = 91) -> TestProblem:
    """||x - a||^2 s.t. sum_j x_j = 1 and x >= 0, n columns folded. Convex; half of x* is 0.

    a_j = x_j + nu where x_j > 0 and a_j <= nu elsewhere.
    """
    support = torch.arange(n) % 2 == 0
    minimizer = torch.where(support, uniform(seed, n, low=0.1, high=1.0), 0.0)
    minimizer = minimizer / minimizer.sum()
    point = minimizer + torch.where(support, 0.3, 0.3 - uniform(seed + 1, n, low=0.1, high=1.0))

    def total(x: Tensor) -> Tensor:
        return x.sum(-1) - 1

    def negative(x: Tensor) -> Tensor:
        return -x

    return _projection(
        "projection_simplex", point, (eq(total), ineq(negative, fold=True)), minimizer,
        "projection on the simplex, folded",
    )  # fmt: skip


@register
def projection_polyhedron(n: int = 20, m: int = 30, active: int = 8, seed: int = 101) -> TestProblem:
    """||x - a||^2 s.t. G x <= h, m columns folded. Convex; a = x* + G' mu / 2, mu > 0 on ``active`` rows."""
    matrix = uniform(seed, m, n)
    minimizer = uniform(seed + 1, n)
    bound = matrix @ minimizer + uniform(seed + 2, m, low=0.1, high=1.0)
    bound[:active] = matrix[:active] @ minimizer
    point = minimizer + matrix[:active].T @ uniform(seed + 3, active, low=0.2, high=1.0) / 2

    def constraint(x: Tensor) -> Tensor:
        return times_rows(x, matrix) - bound.to(x)

    return _projection(
        "projection_polyhedron", point, (ineq(constraint, fold=True),), minimizer,
        "projection on a polyhedron, folded",
    )  # fmt: skip


def _linear(name: str, cost: Tensor, constraint: Constraint, minimizer: Tensor, optimum: float) -> TestProblem:
    """cost'x over the unit ball of an l_p norm."""

    def objective(x: Tensor) -> Tensor:
        return (x * cost.to(x)).sum(-1)

    n = cost.numel()
    reference = _DESIGN + "a linear function over an l_p ball, minus the dual norm"
    return TestProblem(name, n, objective, (constraint,), None, optimum, True, reference, full(n, 0.0), 1.0, minimizer)


@register
def linear_lp_ball(n: int = 20, p: float = 1.5, seed: int = 111) -> TestProblem:
    """c'x s.t. sum_j |x_j|^p <= 1, p > 1. Convex, f* = -||c||_q with 1/p + 1/q = 1 (Hoelder)."""
    cost = uniform(seed, n)
    q = p / (p - 1)
    dual = float((cost.abs() ** q).sum()) ** (1 / q)
    minimizer = -cost.sign() * (cost.abs() / dual) ** (q - 1)

    def constraint(x: Tensor) -> Tensor:
        return (x.abs() ** p).sum(-1) - 1

    return _linear("linear_lp_ball", cost, ineq(constraint), minimizer, -dual)


@register
def linear_l1_ball(n: int = 20, seed: int = 121) -> TestProblem:
    """c'x s.t. ||x||_1 <= 1. Convex, f* = -||c||_inf at a vertex."""
    cost = uniform(seed, n)
    best = int(cost.abs().argmax())
    minimizer = full(n, 0.0)
    minimizer[best] = -cost[best].sign()

    def constraint(x: Tensor) -> Tensor:
        return x.abs().sum(-1) - 1

    return _linear("linear_l1_ball", cost, ineq(constraint), minimizer, -float(cost.abs().max()))


@register
def linear_linf_ball(n: int = 20, seed: int = 131) -> TestProblem:
    """c'x s.t. |x_j| <= 1, n columns folded. Convex, f* = -||c||_1 at a vertex."""
    cost = uniform(seed, n)

    def constraint(x: Tensor) -> Tensor:
        return x.abs() - 1

    return _linear("linear_linf_ball", cost, ineq(constraint, fold=True), -cost.sign(), -float(cost.abs().sum()))


def classifier_data(n: int, seed: int) -> tuple[Tensor, Tensor, float]:
    """The point a, the weights w and the offset beta of a linear classifier, with w'a + beta = 1."""
    point, weight = uniform(seed, n), uniform(seed + 1, n)
    return point, weight, 1.0 - float(weight @ point)


def _decision(weight: Tensor, beta: float, n: int) -> Callable[[Tensor], Tensor]:
    def decision(x: Tensor) -> Tensor:
        return (x[:, :n] * weight.to(x)).sum(-1) + beta

    return decision


def _classifier(name: str, p: float, n: int, seed: int) -> TestProblem:
    """||x - a||_p s.t. w'x + beta <= 0; f* = (w'a + beta) / ||w||_q."""
    point, weight, beta = classifier_data(n, seed)
    q = 1.0 if p == math.inf else math.inf if p == 1 else p / (p - 1)
    margin = float(weight @ point) + beta
    optimum = margin / float(torch.linalg.vector_norm(weight, q))
    if p == 1:
        step = torch.where(weight.abs() == weight.abs().max(), weight.sign(), 0.0)
    else:
        step = weight.sign() * (weight.abs() / torch.linalg.vector_norm(weight, q)) ** (q - 1)

    def objective(x: Tensor) -> Tensor:
        distance: Tensor = torch.linalg.vector_norm(x - point.to(x), p, dim=-1)
        return distance

    return TestProblem(
        name, n, objective, (ineq(_decision(weight, beta, n)),), None, optimum, True,
        _DESIGN + "robustness radius of a linear classifier", point, 1.0, point - optimum * step,
    )  # fmt: skip


@register
def classifier_linf(n: int = 50, seed: int = 141) -> TestProblem:
    """||x - a||_inf s.t. w'x + beta <= 0. Convex, f* = (w'a + beta) / ||w||_1."""
    return _classifier("classifier_linf", math.inf, n, seed)


@register
def classifier_l1(n: int = 50, seed: int = 141) -> TestProblem:
    """||x - a||_1 s.t. w'x + beta <= 0. Convex, f* = (w'a + beta) / ||w||_inf."""
    return _classifier("classifier_l1", 1.0, n, seed)


@register
def classifier_l2(n: int = 50, seed: int = 141) -> TestProblem:
    """||x - a||_2 s.t. w'x + beta <= 0. Convex, f* = (w'a + beta) / ||w||_2."""
    return _classifier("classifier_l2", 2.0, n, seed)


@register
def classifier_linf_slack(n: int = 50, seed: int = 141) -> TestProblem:
    """classifier_linf in (x, t): t s.t. |x - a| - t <= 0 (n columns folded) and w'x + beta <= 0."""
    point, weight, beta = classifier_data(n, seed)
    optimum = (float(weight @ point) + beta) / float(weight.abs().sum())

    def objective(x: Tensor) -> Tensor:
        return x[:, -1]

    def distance(x: Tensor) -> Tensor:
        return (x[:, :-1] - point.to(x)).abs() - x[:, -1:]

    minimizer = torch.cat([point - optimum * weight.sign(), full(1, optimum)])
    return TestProblem(
        "classifier_linf_slack", n + 1, objective,
        (ineq(_decision(weight, beta, n)), ineq(distance, fold=True)), None, optimum, True,
        _DESIGN + "robustness radius of a linear classifier in slack form",
        torch.cat([point, full(1, 1.0)]), 1.0, minimizer,
    )  # fmt: skip
