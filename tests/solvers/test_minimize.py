"""minimize(): right answers on known problems, and the promises of its arguments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.optimize import brentq, linprog
from torch import Tensor

import pwcf
from pwcf import Status, testproblems
from pwcf.testproblems import TestProblem

SMOOTH = ["hs6", "hs7", "hs10", "hs12", "hs21", "hs35", "hs42", "hs43", "hs71", "hs76"]
NONSMOOTH = ["cb2", "wolfe", "rosen_suzuki", "granso_rosenbrock", "mad1", "mad2"]
F64 = torch.float64


class Recorder:
    """An objective that remembers what it was asked: every point, and the rows of real evaluations.

    The solver's own checks of the function are made without gradients, evaluations with.
    """

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        self.function = function
        self.points: list[Tensor] = []
        self.checked: list[Tensor] = []
        self.evaluated: Counter[int] = Counter()

    def __call__(self, x: Tensor, rows: Tensor) -> Tensor:
        if x.requires_grad:
            self.points.append(x.detach().clone())
            self.evaluated.update(rows.tolist())
        else:
            self.checked.append(x.clone())
        return self.function(x, rows)

    def counts(self, b: int) -> list[int]:
        return [self.evaluated[row] for row in range(b)]


def _rosenbrock(x: Tensor) -> Tensor:
    """Nonsmooth Rosenbrock, minimum 0 at (1, 1)."""
    return 8 * (x[:, 0] ** 2 - x[:, 1]).abs() + (1 - x[:, 0]) ** 2


def _solve(problem: TestProblem, count: int, dtype: torch.dtype) -> pwcf.Solution:
    return pwcf.minimize(
        problem.objective, problem.starts(count, dtype=dtype), problem.constraints, bounds=problem.bounds
    )


# ---- answers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SMOOTH + NONSMOOTH)
def test_known_optimum(name: str) -> None:
    problem = testproblems.get(name)
    solution = _solve(problem, 3, F64)
    scale = max(1.0, abs(problem.optimum))
    assert ((solution.objective - problem.optimum).abs() <= 1e-4 * scale).all()
    assert (solution.evidence.violation <= 1e-6).all()
    assert solution.x.dtype == F64


@pytest.mark.parametrize("name", ["hs10", "hs12", "hs21", "hs43", "hs76", "cb2", "granso_rosenbrock"])
def test_known_optimum_in_float32(name: str) -> None:
    problem = testproblems.get(name)
    solution = _solve(problem, 3, torch.float32)
    scale = max(1.0, abs(problem.optimum))
    assert ((solution.objective - problem.optimum).abs() <= 1e-3 * scale).all()
    assert (solution.evidence.violation <= 1e-5).all()
    assert solution.x.dtype == torch.float32


@pytest.mark.parametrize("hessian", ["bfgs", "lbfgs"])
def test_projection_on_a_box(hessian: str) -> None:
    """Bounds per row, one side open in places; the closed form is clamp."""
    target = torch.randn(5, 6, dtype=F64)
    low = torch.full((5, 6), -0.3, dtype=F64)
    low[2] = -torch.inf
    high = torch.rand(6, dtype=F64)

    def objective(x: Tensor, rows: Tensor) -> Tensor:
        return ((x - target[rows]) ** 2).sum(-1)

    solution = pwcf.minimize(objective, torch.zeros(5, 6, dtype=F64), bounds=(low, high), hessian=hessian)
    expected = target.clamp(low, high)
    best = ((expected - target) ** 2).sum(-1)
    assert ((solution.x >= low) & (solution.x <= high)).all()
    assert (solution.objective >= best - 1e-12).all()
    assert (solution.objective <= best * (1 + 1e-4)).all()
    torch.testing.assert_close(solution.x, expected, rtol=0, atol=2e-2)


def test_projection_on_a_box_and_a_hyperplane() -> None:
    """min |x - a|^2, 0 <= x <= 1, sum x = 2: x = clamp(a - nu) with nu the root of a monotone function."""
    target = torch.randn(4, 6, dtype=F64)
    expected = torch.stack(
        [(row - brentq(lambda nu, a=row: float((a - nu).clamp(0, 1).sum()) - 2, -10, 10)).clamp(0, 1) for row in target]
    )

    def objective(x: Tensor, rows: Tensor) -> Tensor:
        return ((x - target[rows]) ** 2).sum(-1)

    on_plane = pwcf.eq(lambda x: x.sum(-1) - 2)
    solution = pwcf.minimize(objective, torch.full((4, 6), 0.5, dtype=F64), [on_plane], bounds=(0.0, 1.0))
    best = ((expected - target) ** 2).sum(-1)
    assert (solution.evidence.violation <= 1e-6).all()
    assert ((solution.objective - best).abs() <= 1e-4 * best).all()


def test_linear_programs_with_fifty_constraints() -> None:
    b, n, m = 4, 5, 50
    matrix = torch.randn(m, n, dtype=F64)
    matrix = matrix / torch.linalg.vector_norm(matrix, dim=-1, keepdim=True)
    cost = torch.randn(b, n, dtype=F64)

    def objective(x: Tensor, rows: Tensor) -> Tensor:
        return (x * cost[rows]).sum(-1)

    def below(x: Tensor) -> Tensor:
        return (x.unsqueeze(1) * matrix).sum(-1) - 1

    solution = pwcf.minimize(objective, torch.zeros(b, n, dtype=F64), [pwcf.ineq(below)])
    for row in range(b):
        best = linprog(cost[row].numpy(), matrix.numpy(), np.ones(m), bounds=(None, None)).fun
        assert float(solution.objective[row]) == pytest.approx(best, rel=1e-4)
    assert (solution.evidence.violation <= 1e-6).all()


@pytest.mark.parametrize("fold", [False, True])
def test_equality_constraints(fold: bool) -> None:
    """The least-norm point of an affine space: the pseudoinverse."""
    matrix, rhs = torch.randn(2, 5, dtype=F64), torch.randn(2, dtype=F64)
    expected = torch.linalg.pinv(matrix) @ rhs

    def objective(x: Tensor) -> Tensor:
        return (x**2).sum(-1)

    def residual(x: Tensor) -> Tensor:
        return (x.unsqueeze(1) * matrix).sum(-1) - rhs

    solution = pwcf.minimize(objective, torch.randn(3, 5, dtype=F64), [pwcf.eq(residual, fold=fold)])
    assert (solution.evidence.violation <= 1e-6).all()
    best = float(expected @ expected)
    assert ((solution.objective - best).abs() <= 1e-4 * best).all()


def test_nonsmooth_objective_converges_and_says_so() -> None:
    starts = torch.tensor([[2.0, 3.0], [1.2, -1.0], [0.0, 2.0], [-1.0, -1.0], [0.5, 0.5], [-1.2, 1.0]], dtype=F64)
    solution = pwcf.minimize(_rosenbrock, starts)
    assert (solution.objective <= 1e-7).all()
    # Along a curved valley to f = 0 the last digits of the evidence may be out of reach.
    converged = int(solution.converged.sum())
    assert converged >= 4
    assert all(status in (Status.CONVERGED, Status.STALLED) for status in solution.status)
    assert f"{converged} converged" in solution.summary()


def test_shape_of_x_is_kept() -> None:
    def objective(x: Tensor) -> Tensor:
        assert x.shape[1:] == (2, 3)
        return ((x - 1) ** 2).sum((1, 2))

    solution = pwcf.minimize(objective, torch.zeros(4, 2, 3, dtype=F64), bounds=(None, torch.full((2, 3), 0.5)))
    assert solution.x.shape == (4, 2, 3)
    torch.testing.assert_close(solution.x, torch.full((4, 2, 3), 0.5, dtype=F64))


def test_starts_are_not_changed() -> None:
    x0 = torch.randn(3, 2, dtype=F64)
    before = x0.clone()
    pwcf.minimize(_rosenbrock, x0, bounds=(-0.1, 0.1), max_iterations=20)
    assert torch.equal(x0, before)


@pytest.mark.parametrize("context", [torch.no_grad, torch.enable_grad])
def test_works_under_no_grad_and_detaches(context: Callable[[], torch.no_grad]) -> None:
    x0 = torch.randn(2, 2, dtype=F64).requires_grad_(True)
    with context():
        solution = pwcf.minimize(_rosenbrock, x0, max_iterations=20)
    assert not solution.x.requires_grad
    assert not solution.objective.requires_grad


# ---- ways to write a problem --------------------------------------------------------------------------


def _same(left: pwcf.Solution, right: pwcf.Solution) -> None:
    assert torch.equal(left.x, right.x)
    assert torch.equal(left.objective, right.objective)
    assert torch.equal(left.evaluations, right.evaluations)
    assert left.status == right.status


def test_fused_objective_is_the_separate_functions() -> None:
    def objective(x: Tensor) -> Tensor:
        return _rosenbrock(x)

    def disc(x: Tensor) -> Tensor:
        return (x**2).sum(-1) - 1

    def columns(x: Tensor) -> Tensor:
        return torch.stack([x[:, 0] - 0.6, -x[:, 1]], 1)

    x0 = torch.randn(4, 2, dtype=F64)
    separate = pwcf.minimize(objective, x0, [pwcf.ineq(disc), pwcf.ineq(columns, fold=True)], budget=60)
    fused = pwcf.minimize(
        lambda x: (objective(x), disc(x), columns(x)), x0, [pwcf.ineq(), pwcf.ineq(fold=True)], budget=60
    )
    mixed = pwcf.minimize(lambda x: (objective(x), columns(x)), x0, [pwcf.ineq(disc), pwcf.ineq(fold=True)], budget=60)
    _same(fused, separate)
    _same(mixed, separate)


def test_rows_and_whole_batch_closures_agree() -> None:
    target, radius = torch.randn(5, 3, dtype=F64), torch.rand(5, dtype=F64) + 0.1
    x0 = torch.zeros(5, 3, dtype=F64)

    def picked(x: Tensor, rows: Tensor) -> Tensor:
        return (x - target[rows]).abs().sum(-1)

    def picked_ball(x: Tensor, rows: Tensor) -> Tensor:
        return (x**2).sum(-1) - radius[rows]

    def whole(x: Tensor) -> Tensor:
        return (x - target).abs().sum(-1)

    def whole_ball(x: Tensor) -> Tensor:
        return (x**2).sum(-1) - radius

    by_rows = pwcf.minimize(picked, x0, [pwcf.ineq(picked_ball)], budget=60)
    by_batch = pwcf.minimize(whole, x0, [pwcf.ineq(whole_ball)], budget=60)
    _same(by_batch, by_rows)


def test_rows_by_keyword_name_and_module() -> None:
    target = torch.tensor([[1.0], [2.0], [3.0]], dtype=F64)

    class Distance(torch.nn.Module):
        def forward(self, x: Tensor, rows: Tensor) -> Tensor:
            return ((x - target[rows]) ** 2).sum(-1)

    def optional(x: Tensor, rows: Tensor | None = None) -> Tensor:
        assert rows is not None
        assert rows.dtype == torch.int64
        return ((x - target[rows]) ** 2).sum(-1)

    x0 = torch.zeros(3, 1, dtype=F64)
    for objective in (Distance(), optional):
        solution = pwcf.minimize(objective, x0, slots=2)
        torch.testing.assert_close(solution.x, target, rtol=0, atol=2e-2)


def test_a_function_of_defaults_is_not_given_rows() -> None:
    def objective(x: Tensor, power: int = 2) -> Tensor:
        return (x.abs() ** power).sum(-1)

    assert (pwcf.minimize(objective, torch.ones(2, 2, dtype=F64)).objective < 1e-2).all()


# ---- limits -------------------------------------------------------------------------------------------


def test_budget_per_row_is_kept_exactly() -> None:
    budget = torch.tensor([1, 2, 3, 7, 20, 10_000])
    record = Recorder(lambda x, rows: _rosenbrock(x))
    x0 = torch.tensor([[-1.2, 1.0]], dtype=F64).repeat(6, 1)
    solution = pwcf.minimize(record, x0, budget=budget)
    assert solution.evaluations.tolist() == record.counts(6)
    assert (solution.evaluations <= budget).all()
    assert solution.evaluations[:5].tolist() == budget[:5].tolist()
    assert solution.status[:5] == [Status.BUDGET] * 5
    assert solution.status[5] in (Status.CONVERGED, Status.STALLED)
    # More is never worse, and one evaluation gives the start.
    assert torch.equal(solution.x[0], x0[0])
    assert (solution.objective.diff() <= 0).all()


@pytest.mark.parametrize("slots", [None, 2])
def test_budget_as_a_number(slots: int | None) -> None:
    record = Recorder(lambda x, rows: _rosenbrock(x))
    solution = pwcf.minimize(record, torch.randn(5, 2, dtype=F64), budget=9, slots=slots)
    assert solution.evaluations.tolist() == record.counts(5) == [9] * 5


@pytest.mark.parametrize("budget", [4, 5, 8, 30, 100])
def test_budget_includes_restarts(budget: int) -> None:
    record = Recorder(lambda x, rows: _rosenbrock(x))
    x0 = torch.tensor([[-1.2, 1.0], [0.0, 2.0]], dtype=F64)
    restarts = pwcf.Restarts(pwcf.noisy_starts(x0, 3, 0.5), iterations=5)
    solution = pwcf.minimize(record, x0, restarts=restarts, budget=budget)
    assert solution.evaluations.tolist() == record.counts(2)
    assert (solution.evaluations <= budget).all()


def test_budget_below_the_number_of_starts_is_refused() -> None:
    x0 = torch.zeros(2, 2, dtype=F64)
    with pytest.raises(ValueError, match=r"^budget: 3 .* 4 starts"):
        pwcf.minimize(_rosenbrock, x0, restarts=pwcf.Restarts(pwcf.noisy_starts(x0, 3, 0.5)), budget=3)


def test_max_iterations() -> None:
    x0 = torch.tensor([[-1.2, 1.0]], dtype=F64)
    solution = pwcf.minimize(_rosenbrock, x0, max_iterations=4)
    assert solution.status == [Status.MAX_ITERATIONS]
    assert solution.iterations.tolist() == [4]
    assert pwcf.minimize(_rosenbrock, x0, max_iterations=0).evaluations.tolist() == [1]


def test_returned_point_is_the_best_one_seen() -> None:
    values: list[Tensor] = []

    def objective(x: Tensor) -> Tensor:
        value = _rosenbrock(x)
        if x.requires_grad:
            values.append(value.detach())
        return value

    solution = pwcf.minimize(objective, torch.tensor([[-1.2, 1.0]], dtype=F64), budget=30)
    assert float(solution.objective) == float(torch.cat(values).min())


# ---- bounds -------------------------------------------------------------------------------------------


def _bounded_problem() -> tuple[Recorder, Tensor, Tensor, Tensor]:
    """A nonsmooth function with a curved valley across a small box, and starts outside."""
    low = torch.tensor([-0.5, 0.1, -1.0], dtype=F64)
    high = torch.tensor([0.7, 0.3, 0.0], dtype=F64)

    def function(x: Tensor, rows: Tensor) -> Tensor:
        return _rosenbrock(x[:, :2]) + (x[:, 2] - 3 * x[:, 0]).abs()

    return Recorder(function), torch.randn(6, 3, dtype=F64), low, high


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("constrained", [False, True])
def test_no_evaluated_point_violates_a_bound(dtype: torch.dtype, constrained: bool) -> None:
    record, x0, low, high = _bounded_problem()
    constraints = [pwcf.ineq(lambda x: x.sum(-1) + 0.4)] if constrained else []
    solution = pwcf.minimize(record, x0.to(dtype), constraints, bounds=(low, high), max_iterations=60)
    seen = torch.cat([*record.points, solution.x])
    assert len(seen) > 60
    assert ((seen >= low.to(dtype)) & (seen <= high.to(dtype))).all()


def test_the_check_of_the_function_respects_bounds_too() -> None:
    """A function may be undefined outside of its bounds, and raise there."""
    record, x0, low, high = _bounded_problem()
    pwcf.minimize(record, x0, bounds=(low, high), max_iterations=1)
    checked = torch.cat(record.checked)
    assert len(checked)
    assert ((checked >= low) & (checked <= high)).all()


def test_equal_bounds_fix_an_entry() -> None:
    low, high = torch.tensor([0.0, 0.25], dtype=F64), torch.tensor([1.0, 0.25], dtype=F64)
    solution = pwcf.minimize(_rosenbrock, torch.randn(3, 2, dtype=F64), bounds=(low, high))
    assert (solution.x[:, 1] == 0.25).all()
    # On x2 = 1/4 the minimum is (1 - x1)^2 at the kink x1 = 1/2.
    assert ((solution.objective - 0.25).abs() <= 1e-4).all()


# ---- trajectory, progress, state ----------------------------------------------------------------------


def test_trajectory_is_padded_with_nan() -> None:
    x0 = torch.tensor([[-1.2, 1.0], [1.0, 1.0 + 1e-3], [0.3, -0.4]], dtype=F64)
    disc = pwcf.ineq(lambda x: (x**2).sum(-1) - 4)
    solution = pwcf.minimize(_rosenbrock, x0, [disc], trajectory=True, slots=2, budget=torch.tensor([50, 20, 35]))
    path = solution.trajectory
    assert path is not None
    length = int(solution.iterations.max())
    for name in ("objective", "violation", "stationarity", "mu", "step"):
        table = getattr(path, name)
        assert table.shape == (3, length), name
        for row, end in enumerate(solution.iterations.tolist()):
            assert not table[row, :end].isnan().any(), name
            assert table[row, end:].isnan().all(), name
    assert int(solution.iterations.min()) < length
    torch.testing.assert_close(path.objective[:, 0], _rosenbrock(x0), rtol=0, atol=0)
    assert (path.mu.nan_to_num(1.0) > 0).all()


def test_trajectory_shows_the_lengths_of_steps() -> None:
    """A line search that needed more than one trial did not take a unit step."""
    solution = pwcf.minimize(_rosenbrock, torch.tensor([[-1.2, 1.0]], dtype=F64), trajectory=True, budget=25)
    assert int(solution.evaluations) > int(solution.iterations) + 3
    assert solution.trajectory is not None
    steps = solution.trajectory.step[0]
    assert ((steps != 1) & (steps > 0)).any()


def test_trajectory_only_when_asked() -> None:
    solution = pwcf.minimize(_rosenbrock, torch.zeros(1, 2, dtype=F64), max_iterations=2)
    assert solution.trajectory is None
    assert solution.state is None


def test_recording_changes_nothing() -> None:
    x0 = torch.randn(3, 2, dtype=F64)
    plain = pwcf.minimize(_rosenbrock, x0, budget=60)
    _same(pwcf.minimize(_rosenbrock, x0, budget=60, trajectory=True, keep_state=True), plain)


def test_progress_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    x0 = torch.randn(3, 2, dtype=F64)
    pwcf.minimize(_rosenbrock, x0, max_iterations=5)
    assert capsys.readouterr().err == ""
    shown = pwcf.minimize(_two_wells, x0, progress=True)
    captured = capsys.readouterr()
    assert "minimize" in captured.err
    assert "3/3" in captured.err
    assert f"converged={int(shown.converged.sum())}" in captured.err
    assert captured.out == ""
    _same(shown, pwcf.minimize(_two_wells, x0))


def test_state_of_another_batch_is_refused() -> None:
    stopped = pwcf.minimize(_rosenbrock, torch.zeros(2, 2, dtype=F64), max_iterations=2, keep_state=True)
    with pytest.raises(ValueError, match="state"):
        pwcf.minimize(_rosenbrock, torch.zeros(3, 2, dtype=F64), state=stopped.state)


# ---- restarts -----------------------------------------------------------------------------------------


def _two_wells(x: Tensor) -> Tensor:
    """Minimum 0 at +2, a second one of 1 at -2."""
    left, right = ((x + 2) ** 2).sum(-1) + 1, ((x - 2) ** 2).sum(-1)
    return torch.minimum(left, right)


def test_restarts_find_the_better_well() -> None:
    x0 = torch.full((3, 2), -1.5, dtype=F64)
    points = torch.stack([torch.full_like(x0, -2.5), torch.full_like(x0, 1.0)])
    points[1, 1] = -1.0  # the second row has no start in the better well
    plain = pwcf.minimize(_two_wells, x0)
    solution = pwcf.minimize(_two_wells, x0, restarts=pwcf.Restarts(points, iterations=3))
    expected = torch.tensor([0.0, 1.0, 0.0], dtype=F64)
    torch.testing.assert_close(plain.objective, torch.ones_like(expected), rtol=0, atol=1e-3)
    torch.testing.assert_close(solution.objective, expected, rtol=0, atol=1e-3)
    assert (solution.evaluations > plain.evaluations).all()


def test_restarts_prefer_feasible_points() -> None:
    """The better well lies outside of the feasible set."""
    x0 = torch.full((2, 2), -1.5, dtype=F64)
    outside = pwcf.ineq(lambda x: x.sum(-1))
    restarts = pwcf.Restarts(torch.full((1, 2, 2), 2.0, dtype=F64), iterations=1)
    solution = pwcf.minimize(_two_wells, x0, [outside], restarts=restarts)
    torch.testing.assert_close(solution.objective, torch.ones(2, dtype=F64), rtol=0, atol=1e-3)


def test_stage_two_goes_on_where_stage_one_stopped() -> None:
    """A restart from the same point changes nothing but the cost, which counts both starts."""
    x0 = torch.tensor([[-1.2, 1.0], [0.4, -1.0]], dtype=F64)
    plain = pwcf.minimize(_rosenbrock, x0, max_iterations=40)
    stage_one = pwcf.minimize(_rosenbrock, x0, max_iterations=6)
    record = Recorder(lambda x, rows: _rosenbrock(x))
    solution = pwcf.minimize(record, x0, restarts=pwcf.Restarts(x0.unsqueeze(0), iterations=6), max_iterations=40)
    assert torch.equal(solution.x, plain.x)
    assert torch.equal(solution.objective, plain.objective)
    assert torch.equal(solution.iterations, plain.iterations)
    assert torch.equal(solution.evaluations, plain.evaluations + stage_one.evaluations)
    assert solution.evaluations.tolist() == record.counts(2)


def test_restarts_of_a_queue_use_the_rows_of_the_user() -> None:
    target = torch.tensor([[1.0], [2.0], [3.0]], dtype=F64)

    def objective(x: Tensor, rows: Tensor) -> Tensor:
        return (x - target[rows]).abs().sum(-1)

    x0 = torch.zeros(3, 1, dtype=F64)
    restarts = pwcf.Restarts(pwcf.noisy_starts(x0, 4, 1.0), iterations=2)
    solution = pwcf.minimize(objective, x0, restarts=restarts, slots=2)
    torch.testing.assert_close(solution.x, target, rtol=0, atol=1e-3)


def test_restarts_need_matching_points_and_rows() -> None:
    x0 = torch.zeros(2, 2, dtype=F64)
    for points in (torch.zeros(3, 3, 2), torch.zeros(2, 2), "here"):
        with pytest.raises(ValueError, match=r"restarts\.points"):
            pwcf.minimize(_rosenbrock, x0, restarts=pwcf.Restarts(points))  # type: ignore[arg-type]
    target = torch.randn(2, 2, dtype=F64)
    with pytest.raises(ValueError, match="rows"):
        pwcf.minimize(
            lambda x: ((x - target) ** 2).sum(-1), x0, restarts=pwcf.Restarts(torch.zeros(1, 2, 2, dtype=F64))
        )


def test_restarts_and_state_exclude_each_other() -> None:
    """One of them would have to be ignored silently."""
    x0 = torch.zeros(2, 2, dtype=F64)
    stopped = pwcf.minimize(_rosenbrock, x0, max_iterations=2, keep_state=True)
    with pytest.raises(ValueError, match="restarts"):
        pwcf.minimize(_rosenbrock, x0, state=stopped.state, restarts=pwcf.Restarts(x0.unsqueeze(0)), max_iterations=5)
