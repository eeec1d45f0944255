"""The test problems: their form, and their optima against independent SciPy computations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.optimize import Bounds, linprog, minimize
from torch import Tensor

from pwcf import testproblems
from pwcf.testproblems import TestProblem, structured, unconstrained
from pwcf.testproblems.data import uniform

# The other problems of Hock and Schittkowski have cheaper tests of their own.
SOLVED = [f"hs{number}" for number in (6, 7, 10, 12, 21, 26, 28, 35, 39, 40, 42, 43, 48, 51, 71, 76, 100, 113)]
ALL = [testproblems.get(name) for name in testproblems.names() if not name.startswith("hs") or name in SOLVED]
KNOWN = [problem for problem in ALL if problem.minimizer is not None]


def _ids(problem: TestProblem) -> str:
    return problem.name


def _values(problem: TestProblem, x: Tensor, sense: str) -> Tensor:
    """The constraint columns of one sense, bounds among the inequalities, unfolded: (b, k)."""
    columns = [x.new_zeros(len(x), 0)]
    for constraint in problem.constraints:
        if constraint.sense == sense:
            assert constraint.function is not None
            columns.append(constraint.function(x).reshape(len(x), -1))
    if sense == "ineq" and problem.bounds is not None:
        low, high = (torch.as_tensor(side).to(x).expand(problem.n) for side in problem.bounds)
        columns += [(low - x)[:, low.isfinite()], (x - high)[:, high.isfinite()]]
    return torch.cat(columns, -1)


def _violation(problem: TestProblem, x: Tensor) -> Tensor:
    above = _values(problem, x, "ineq").clamp_min(0)
    return torch.cat([above, _values(problem, x, "eq").abs(), x.new_zeros(len(x), 1)], -1).amax(-1)


def _scale(problem: TestProblem) -> float:
    return max(1.0, abs(problem.optimum))


def test_registry() -> None:
    assert len(ALL) >= 28
    assert [problem.name for problem in testproblems.all_problems()] == testproblems.names()
    assert testproblems.get("maxq", n=7).n == 7
    assert all(hasattr(testproblems, name) for name in [*testproblems.names(), *testproblems.__all__])
    assert not hasattr(testproblems, "nothing")
    assert any(constraint.fold for problem in ALL for constraint in problem.constraints)
    with pytest.raises(KeyError, match="no test problem"):
        testproblems.get("nothing")
    with pytest.raises(ValueError, match="expected one of"):
        testproblems.get("chained_mifflin_2", n=7)


@pytest.mark.parametrize("problem", ALL, ids=_ids)
def test_form(problem: TestProblem) -> None:
    x = problem.starts(3, seed=1).requires_grad_()
    assert x.shape == (3, problem.n)
    assert x.dtype == torch.float64
    assert torch.equal(x, problem.starts(3, seed=1))
    assert not torch.equal(x, problem.starts(3, seed=2))
    functions = [problem.objective]
    for constraint in problem.constraints:
        assert constraint.function is not None
        functions.append(constraint.function)
    for function in functions:
        value = function(x)
        assert value.shape[0] == 3
        assert value.dim() <= (1 if function is problem.objective else 2)
        for row in range(3):
            assert torch.equal(function(x[row : row + 1])[0], value[row])
        (gradient,) = torch.autograd.grad(value.sum(), x)
        assert value.isfinite().all()
        assert gradient.isfinite().all()
        single = function(x.detach().float())
        assert single.dtype == torch.float32
        assert torch.allclose(single.double(), value, rtol=1e-3, atol=1e-3 * float(value.detach().abs().max()))


@pytest.mark.parametrize("problem", KNOWN, ids=_ids)
def test_minimizer(problem: TestProblem) -> None:
    assert problem.minimizer is not None
    assert problem.minimizer.shape == (problem.n,)
    x = problem.minimizer[None].clone().requires_grad_()
    value = problem.objective(x)
    assert abs(float(value.detach()) - problem.optimum) <= 1e-8 * _scale(problem)
    assert float(_violation(problem, x.detach())) <= 1e-9
    assert torch.autograd.grad(value.sum(), x)[0].isfinite().all()


def _restore(problem: TestProblem, x: Tensor) -> Tensor:
    """Rows moved towards the feasible set by Gauss-Newton steps on the violated constraints."""

    def violated(row: Tensor) -> Tensor:
        above = (_values(problem, row[None], "ineq") + 1e-10).clamp_min(0)
        return torch.cat([above, _values(problem, row[None], "eq")], -1)[0]

    rows = []
    for start in x:
        row = start
        for _ in range(200):
            if float(_violation(problem, row[None])) <= 1e-11:
                break
            jacobian = torch.autograd.functional.jacobian(violated, row)
            row = row - torch.linalg.pinv(jacobian, rtol=1e-10) @ violated(row)
        rows.append(row)
    return torch.stack(rows)


# Gauss-Newton steps do not reach the products of the complementarity problems, which have no regular points.
REGULAR = [problem for problem in KNOWN if "MacMPEC" not in problem.reference]


@pytest.mark.parametrize("problem", REGULAR, ids=_ids)
def test_optimum_is_not_beaten(problem: TestProblem) -> None:
    """Feasible points near the minimizer (and, if convex, far from it) are not better."""
    assert problem.minimizer is not None
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(8, problem.n, generator=generator, dtype=torch.float64)
    scales = [1e-4, 1e-2, 1.0] if problem.convex else [1e-4, 1e-2]
    x = torch.cat([problem.minimizer + scale * noise for scale in scales])
    if problem.constraints or problem.bounds is not None:
        x = _restore(problem, x)
    feasible = _violation(problem, x) <= 1e-9
    assert int(feasible.sum()) >= 6
    assert float(problem.objective(x[feasible]).min()) >= problem.optimum - 1e-7 * _scale(problem)


@pytest.mark.parametrize("problem", [problem for problem in ALL if problem.convex], ids=_ids)
def test_midpoint_convexity(problem: TestProblem) -> None:
    wide = TestProblem(**{**vars(problem), "spread": 3.0})
    a, b = wide.starts(50, seed=3), wide.starts(50, seed=4)
    middle = (a + b) / 2
    mean = (problem.objective(a) + problem.objective(b)) / 2
    assert (problem.objective(middle) <= mean + 1e-9 * (1 + mean.abs())).all()
    mean = (_values(problem, a, "ineq") + _values(problem, b, "ineq")) / 2
    assert (_values(problem, middle, "ineq") <= mean + 1e-9 * (1 + mean.abs())).all()
    mean = (_values(problem, a, "eq") + _values(problem, b, "eq")) / 2
    assert torch.allclose(_values(problem, middle, "eq"), mean)


# --- independent optima: linear programmes -----------------------------------------------------------


def _lp(cost: np.ndarray, rows: np.ndarray, bound: np.ndarray) -> float:
    result = linprog(cost, rows, bound, bounds=(None, None), method="highs")
    assert result.success
    return float(result.fun)


def _epigraph_lp(rows: Tensor, shift: Tensor) -> float:
    """min over x of max_i (rows_i'x + shift_i)."""
    matrix = np.hstack([rows.numpy(), -np.ones((len(rows), 1))])
    return _lp(np.eye(matrix.shape[1])[-1], matrix, -shift.numpy())


def test_max_affine_and_linf_regression_by_linear_programming() -> None:
    rows, shift, _ = structured.minimax_data(10, 30, 41, signed=False)
    assert _epigraph_lp(rows, shift) == pytest.approx(testproblems.max_affine().optimum, abs=1e-8)
    rows, shift, _ = structured.minimax_data(10, 30, 51, signed=True)
    optimum = _epigraph_lp(torch.cat([rows, -rows]), torch.cat([shift, -shift]))
    assert optimum == pytest.approx(testproblems.linf_regression().optimum, abs=1e-8)
    assert optimum == pytest.approx(testproblems.linf_regression_slack().optimum, abs=1e-8)


def test_least_absolute_deviations_by_linear_programming() -> None:
    rows, rhs, _ = structured.lad_data(10, 40, 31)
    a, one = rows.numpy(), np.eye(40)
    matrix = np.block([[a, -one], [-a, -one]])
    cost = np.concatenate([np.zeros(10), np.ones(40)])
    optimum = _lp(cost, matrix, np.concatenate([rhs.numpy(), -rhs.numpy()]))
    assert optimum == pytest.approx(testproblems.least_absolute_deviations().optimum, abs=1e-8)


def _affine_columns(function: Callable[[Tensor], Tensor], n: int) -> tuple[np.ndarray, np.ndarray]:
    """G, h with function(x) = G x - h, for an affine function."""
    zero = torch.zeros(1, n, dtype=torch.float64)
    constant = function(zero).reshape(-1)
    columns = [function(zero + row).reshape(-1) - constant for row in torch.eye(n, dtype=torch.float64)]
    return torch.stack(columns, -1).numpy(), -constant.numpy()


@pytest.mark.parametrize("name", ["classifier_linf", "classifier_l1"])
def test_classifier_radius_by_linear_programming(name: str) -> None:
    problem = testproblems.get(name)
    n = problem.n
    assert problem.constraints[0].function is not None
    normal, bound = _affine_columns(problem.constraints[0].function, n)
    a, one = problem.start.numpy(), np.eye(n)
    slack = np.ones((n, 1)) if name == "classifier_linf" else one
    matrix = np.block([[one, -slack], [-one, -slack], [normal, np.zeros((1, slack.shape[1]))]])
    cost = np.concatenate([np.zeros(n), np.ones(slack.shape[1])])
    optimum = _lp(cost, matrix, np.concatenate([a, -a, bound]))
    assert optimum == pytest.approx(problem.optimum, abs=1e-8)
    if name == "classifier_linf":
        assert optimum == pytest.approx(testproblems.classifier_linf_slack().optimum, abs=1e-8)


def test_linear_over_polyhedral_balls_by_linear_programming() -> None:
    for name, ball in [("linear_l1_ball", "l1"), ("linear_linf_ball", "linf")]:
        problem = testproblems.get(name)
        n = problem.n
        cost = _affine_columns(problem.objective, n)[0][0]
        if ball == "linf":
            optimum = _lp(cost, np.vstack([np.eye(n), -np.eye(n)]), np.ones(2 * n))
        else:  # x = u - v, u, v >= 0, sum (u + v) <= 1
            rows = np.vstack([-np.eye(2 * n), np.ones((1, 2 * n))])
            optimum = _lp(np.concatenate([cost, -cost]), rows, np.concatenate([np.zeros(2 * n), [1.0]]))
        assert optimum == pytest.approx(problem.optimum, abs=1e-8)


def test_polyhedral_variants_of_the_large_set_by_linear_programming() -> None:
    n = 50
    one, ones = np.eye(n), np.ones((n, 1))
    i = np.arange(1, n + 1)
    hilbert = 1 / (i[:, None] + i - 1)
    cost = np.eye(n + 1)[-1]
    rows = np.block([[hilbert, -ones], [-hilbert, -ones], [-one, 0 * ones]])
    optimum = _lp(cost, rows, np.concatenate([np.zeros(2 * n), -np.ones(n)]))
    assert optimum == pytest.approx(testproblems.mxhilb_corner(n=n).optimum, abs=1e-7)
    # maxq_l1_ball: the square root of f, in (x, s, t) with |x_i - 1| <= s_i, sum s <= n / 4, |x_i| <= t
    zero = np.zeros((n, n))
    rows = np.block(
        [
            [one, -one, 0 * ones],
            [-one, -one, 0 * ones],
            [one, zero, -ones],
            [-one, zero, -ones],
            [np.zeros((1, n)), ones.T, np.zeros((1, 1))],
        ]
    )
    bound = np.concatenate([np.ones(n), -np.ones(n), np.zeros(2 * n), [n / 4]])
    optimum = _lp(np.eye(2 * n + 1)[-1], rows, bound) ** 2
    assert optimum == pytest.approx(testproblems.maxq_l1_ball(n=n).optimum, abs=1e-7)


# --- independent optima: smooth programmes by SLSQP and L-BFGS-B ---------------------------------------


def _slsqp(
    cost: Callable[[Tensor], Tensor],
    start: Tensor,
    below: Callable[[Tensor], Tensor] | None = None,
    zero: Callable[[Tensor], Tensor] | None = None,
) -> float:
    """min cost(z) s.t. below(z) <= 0, zero(z) = 0 for functions (b, n) -> (b, ...), exact derivatives."""

    def pair(function: Callable[[Tensor], Tensor], sign: float) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
        def value(z: np.ndarray) -> np.ndarray:
            return (sign * function(torch.tensor(z)[None])[0]).numpy()

        def derivative(z: np.ndarray) -> np.ndarray:
            jacobian = torch.autograd.functional.jacobian(lambda x: function(x[None])[0], torch.tensor(z))
            return (sign * jacobian).numpy()

        return {"fun": value, "jac": derivative}

    constraints = []
    if below is not None:
        constraints.append({"type": "ineq", **pair(below, -1.0)})
    if zero is not None:
        constraints.append({"type": "eq", **pair(zero, 1.0)})
    options = {"ftol": 1e-13, "maxiter": 400}
    result = minimize(x0=start.numpy(), method="SLSQP", constraints=constraints, options=options, **pair(cost, 1.0))
    z = torch.tensor(result.x)[None]
    assert below is None or float(below(z).max()) <= 1e-8
    assert zero is None or float(zero(z).abs().max()) <= 1e-8
    return float(result.fun)


@pytest.mark.parametrize("problem", [testproblems.get(name) for name in SOLVED], ids=_ids)
def test_hock_schittkowski_by_slsqp(problem: TestProblem) -> None:
    senses = {constraint.sense for constraint in problem.constraints}
    optimum = _slsqp(
        problem.objective,
        problem.starts(1)[0],
        (lambda z: _values(problem, z, "ineq")) if "ineq" in senses or problem.bounds else None,
        (lambda z: _values(problem, z, "eq")) if "eq" in senses else None,
    )
    assert optimum == pytest.approx(problem.optimum, rel=1e-6, abs=1e-6)


def _last(z: Tensor) -> Tensor:
    return z[:, -1]


SMOOTH_NAMES = ["projection_simplex", "projection_linf_ball", "projection_polyhedron", "classifier_l2"]


@pytest.mark.parametrize("name", [*SMOOTH_NAMES, "projection_lp_ball", "linear_lp_ball"])
def test_differentiable_problems_by_slsqp(name: str) -> None:
    problem = testproblems.get(name)
    senses = {constraint.sense for constraint in problem.constraints}
    optimum = _slsqp(
        (lambda z: problem.objective(z) ** 2) if name == "classifier_l2" else problem.objective,
        problem.starts(1)[0],
        lambda z: _values(problem, z, "ineq"),
        (lambda z: _values(problem, z, "eq")) if "eq" in senses else None,
    )
    expected = problem.optimum**2 if name == "classifier_l2" else problem.optimum
    assert optimum == pytest.approx(expected, abs=1e-6)


def test_projection_l1_ball_by_slsqp() -> None:
    problem = testproblems.projection_l1_ball()
    n = problem.n
    assert problem.constraints[0].function is not None
    radius = -float(problem.constraints[0].function(torch.zeros(1, n, dtype=torch.float64)))

    def below(z: Tensor) -> Tensor:
        return torch.cat([-z, z.sum(-1, keepdim=True) - radius], -1)

    start = torch.full((2 * n,), 0.01, dtype=torch.float64)
    optimum = _slsqp(lambda z: problem.objective(z[:, :n] - z[:, n:]), start, below)
    assert optimum == pytest.approx(problem.optimum, abs=1e-6)


def test_lasso_by_bounded_split() -> None:
    problem = testproblems.lasso_box()
    n = problem.n
    matrix, rhs, _ = structured.lasso_data(n, 40, 0.5, 21)
    a, b = matrix.numpy(), rhs.numpy()

    def split(z: np.ndarray) -> tuple[float, np.ndarray]:
        gap = a @ (z[:n] - z[n:]) - b
        slope = a.T @ gap
        return gap @ gap / 2 + 0.5 * z.sum(), np.concatenate([slope, -slope]) + 0.5

    options = {"ftol": 1e-16, "gtol": 1e-10, "maxiter": 5000, "maxfun": 20000}
    result = minimize(split, np.zeros(2 * n), jac=True, method="L-BFGS-B", bounds=Bounds(0.0, 1.0), options=options)
    assert result.fun == pytest.approx(problem.optimum, abs=1e-8)


def _minimax(pieces: Callable[[Tensor], Tensor], start: Tensor, problem: TestProblem) -> float:
    """min over (x, t) of t s.t. pieces(x) <= t and the constraints of the problem."""

    def below(z: Tensor) -> Tensor:
        return torch.cat([pieces(z[:, :-1]) - z[:, -1:], _values(problem, z[:, :-1], "ineq")], -1)

    return _slsqp(_last, torch.cat([start, pieces(start[None]).amax(-1)]), below)


def test_small_minimax_by_slsqp() -> None:
    def cb2(x: Tensor) -> Tensor:
        a, b = x.unbind(-1)
        return torch.stack([a**2 + b**4, (2 - a) ** 2 + (2 - b) ** 2, 2 * (b - a).exp()], -1)

    def mad(x: Tensor) -> Tensor:
        a, b = x.unbind(-1)
        return torch.stack([a**2 + b**2 + a * b - 1, a.sin(), -b.cos()], -1)

    def mad4(x: Tensor) -> Tensor:
        a, b = x[:, 0], x[:, 1].clamp_min(0.01)
        return torch.stack([-(a - b).exp(), (a - 1).sinh() - 1, -b.log() - 1], -1)

    for name, pieces, published in [
        ("cb2", cb2, 1.9522245),
        ("mad1", mad, -0.38965952),
        ("mad2", mad, -0.33035714),
        ("mad4", mad4, -0.44891079),
    ]:
        problem = testproblems.get(name)
        assert problem.optimum == pytest.approx(published, abs=6e-8)
        assert _minimax(pieces, problem.start, problem) == pytest.approx(problem.optimum, abs=1e-7)


@pytest.mark.parametrize("name", ["chained_cb3_i_pairs", "chained_lq_folded", "chained_lq_equal"])
def test_constrained_chains_by_slsqp(name: str) -> None:
    """The sums of maxima in the epigraph form: one slack per term, n = 12."""
    n = 12
    problem = testproblems.get(name, n=n)

    def below(z: Tensor) -> Tensor:
        x, t = z[:, :n], z[:, n:]
        if "cb3" in name:
            pieces = list(unconstrained.cb3_pieces(x))
            limits = x[:, 1:] + x[:, :-1] - 1
        else:
            a, b = x[:, :-1], x[:, 1:]
            pieces = [-a - b, -a - b + a * a + b * b - 1]
            limits = _values(problem, x, "ineq")
        return torch.cat([piece - t for piece in pieces] + [limits], -1)

    start = torch.cat([problem.start, torch.full((n - 1,), 5.0, dtype=torch.float64)])
    zero = (lambda z: _values(problem, z[:, :n], "eq")) if name == "chained_lq_equal" else None
    optimum = _slsqp(lambda z: z[:, n:].sum(-1), start, below, zero)
    assert optimum == pytest.approx(problem.optimum, abs=1e-6)


def test_chained_cb3_ii_pairs_by_slsqp() -> None:
    problem = testproblems.chained_cb3_ii_pairs(n=12)

    def pieces(x: Tensor) -> Tensor:
        return torch.stack([piece.sum(-1) for piece in unconstrained.cb3_pieces(x)], -1)

    assert _minimax(pieces, problem.start, problem) == pytest.approx(problem.optimum, abs=1e-6)


@pytest.mark.parametrize(("n", "published"), [(50, -34.795), (200, -140.86), (1000, -706.55)])
def test_chained_mifflin_2_by_its_dual(n: int, published: float) -> None:
    """The dual bounds f from below, and the primal point it gives attains the bound."""

    def dual(theta: np.ndarray) -> tuple[float, np.ndarray]:
        pair = theta + np.concatenate([[0.0], theta[:-1]])
        slope = 1 - 1 / (4 * pair**2)
        slope[:-1] -= 1 / (4 * pair[1:] ** 2)
        return theta.sum() + (1 / (4 * pair)).sum(), slope

    options = {"ftol": 1e-16, "gtol": 1e-9, "maxiter": 20000, "maxfun": 50000}
    theta = np.full(n - 1, 0.36)
    result = minimize(dual, theta, jac=True, method="L-BFGS-B", bounds=Bounds(0.25, 3.75), options=options)
    pair = result.x + np.concatenate([[0.0], result.x[:-1]])
    x = torch.tensor(np.concatenate([1 / (2 * pair), [0.0]]))
    problem = testproblems.chained_mifflin_2(n)
    assert problem.optimum == pytest.approx(published, abs=6e-3 if n == 1000 else 1e-3)
    assert -result.fun == pytest.approx(problem.optimum, rel=1e-9)
    assert float(problem.objective(x[None])) == pytest.approx(problem.optimum, rel=1e-5)


@pytest.mark.parametrize("name", ["max_eigenvalue", "spectral_norm"])
def test_spectral_problems_by_cutting_planes(name: str) -> None:
    """Kelley's method: linear programmes over the cuts give lower bounds that rise to the optimum."""
    problem = testproblems.get(name)
    n = problem.n
    rows: list[np.ndarray] = []
    bounds: list[float] = []
    z = np.zeros(n + 1)
    best = np.inf
    lower = -np.inf
    for _ in range(400):
        x = torch.tensor(z[None, :n]).requires_grad_()
        value = problem.objective(x)
        slope = torch.autograd.grad(value.sum(), x)[0][0].numpy()
        best = min(best, float(value.detach()))
        if best - lower <= 2e-7:
            break
        rows.append(np.concatenate([slope, [-1.0]]))
        bounds.append(float(slope @ z[:n]) - float(value.detach()))
        box = [(-5.0, 5.0)] * n + [(-100.0, None)]
        result = linprog(np.eye(n + 1)[-1], np.array(rows), np.array(bounds), bounds=box, method="highs")
        z, lower = result.x, float(result.fun)
    assert lower - 1e-7 <= problem.optimum <= best + 1e-7
    assert best - lower <= 1e-6


def test_data_is_stable() -> None:
    """The generator of the random instances gives these very numbers, everywhere."""
    expected = [-0.7312715117751976, 0.6948674738744653, 0.5275492379532281]
    assert uniform(1, 3).tolist() == pytest.approx(expected, abs=1e-15)
