"""The batch law: rows solved together equal rows solved alone, in any order, queued, or interrupted."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import pwcf
from pwcf import Solution, SolverState, Status, testproblems
from pwcf.solvers.confirmation import Confirmation
from pwcf.solvers.host import Array
from pwcf.solvers.state import BUNDLE, SolverRows
from pwcf.solvers.steering import Steering
from pwcf.testproblems import TestProblem

ROWS = 8
ITERATIONS = 18  # the first row is in the bundle phase by then, the others mostly are not
CLOSE = 1e-9
# Nonsmooth unconstrained, constrained, folded, with bounds, with equalities: all of elementwise operations
# and sums over the last axis, whose values do not depend on the batch.
PROBLEMS: dict[str, dict[str, Any]] = {
    "least_absolute_deviations": {"n": 4},
    "granso_rosenbrock": {},
    "projection_polyhedron": {"n": 3, "m": 5, "active": 2},
    "projection_simplex": {"n": 4},
    "lasso_box": {"n": 6, "m": 9},
}
LIMITED = ("least_absolute_deviations", "projection_polyhedron", "lasso_box")
CASES = pytest.mark.parametrize(
    ("name", "hessian"), [(name, "bfgs") for name in PROBLEMS] + [(name, "lbfgs") for name in LIMITED]
)


@functools.cache
def _problem(name: str) -> TestProblem:
    return testproblems.get(name, **PROBLEMS[name])


def _starts(name: str) -> Tensor:
    """Random starts; the first row starts at an optimum where one is known and so ends early."""
    problem = _problem(name)
    x0 = problem.starts(ROWS)
    if problem.minimizer is not None:
        x0[0] = problem.minimizer
    return x0


def _solve(name: str, hessian: str, rows: Sequence[int] | slice = slice(None), **arguments: Any) -> Solution:
    problem = _problem(name)
    arguments = {"max_iterations": ITERATIONS, "memory": 5} | arguments
    return pwcf.minimize(
        problem.objective, _starts(name)[rows], problem.constraints, bounds=problem.bounds, hessian=hessian,
        **arguments,
    )  # fmt: skip


@functools.cache
def _together(name: str, hessian: str) -> Solution:
    return _solve(name, hessian)


def _assert_same(found: Solution, expected: Solution, rows: Sequence[int]) -> None:
    pick = list(rows)
    torch.testing.assert_close(found.x, expected.x[pick], rtol=0, atol=CLOSE)
    torch.testing.assert_close(found.objective, expected.objective[pick], rtol=0, atol=CLOSE)
    assert found.status == [expected.status[row] for row in pick]
    assert found.iterations.tolist() == expected.iterations[pick].tolist()
    assert found.evaluations.tolist() == expected.evaluations[pick].tolist()


@CASES
def test_alone(name: str, hessian: str) -> None:
    for row in (0, 3):
        _assert_same(_solve(name, hessian, [row]), _together(name, hessian), [row])


@CASES
def test_in_another_order(name: str, hessian: str) -> None:
    order = [3, 0, 6, 5, 7, 1, 4, 2]
    _assert_same(_solve(name, hessian, order), _together(name, hessian), order)


@pytest.mark.parametrize("slots", [1, 3, 7])
@CASES
def test_queued(name: str, hessian: str, slots: int) -> None:
    rows = range(2) if slots == 1 else range(ROWS)
    _assert_same(_solve(name, hessian, list(rows), slots=slots), _together(name, hessian), rows)


@pytest.mark.parametrize("stop", [{"max_iterations": 13}, {"budget": 10}])
@CASES
def test_interrupted(name: str, hessian: str, stop: dict[str, int], tmp_path: Path) -> None:
    """Stop, save to a file, load, go on: as if nothing had happened."""
    stopped = _solve(name, hessian, keep_state=True, **stop)
    assert any(status in (Status.MAX_ITERATIONS, Status.BUDGET) for status in stopped.status)
    assert stopped.state is not None
    stopped.state.save(tmp_path / "state.pt")
    state = SolverState.load(tmp_path / "state.pt")
    resumed = _solve(name, hessian, state=state)
    _assert_same(resumed, _together(name, hessian), range(ROWS))


@pytest.mark.parametrize("name", ["least_absolute_deviations", "projection_polyhedron"])
def test_to_the_very_end(name: str) -> None:
    """Through all phases of the solver, with rows that end at different times."""
    together = _solve(name, "bfgs", [1, 2, 3, 4], max_iterations=200)
    assert together.converged.any()
    assert len(set(together.iterations.tolist())) > 1
    _assert_same(_solve(name, "bfgs", [4, 2], max_iterations=200), together, [3, 1])
    _assert_same(_solve(name, "bfgs", [3], max_iterations=200), together, [2])


@pytest.mark.parametrize("name", ["linear_l1_ball", "maxq_l1_ball"])
def test_in_the_bundle_phases(name: str) -> None:
    """Vertices: every row takes many bundle steps and certifies, each at its own time and with its own mu."""
    problem = testproblems.get(name, n=5)
    start = problem.starts(5, seed=1)

    def solve(rows: Tensor, **more: Any) -> Solution:
        return pwcf.minimize(problem.objective, start[rows], problem.constraints, keep_state=True, **more)

    together = solve(torch.arange(5))
    assert together.state is not None
    assert int((together.state.rows.phase >= BUNDLE).sum()) >= 3
    assert len(set(together.iterations.tolist())) > 1
    back = torch.arange(4, -1, -1)
    _assert_same(solve(back), together, back.tolist())
    _assert_same(solve(torch.arange(5), slots=2), together, range(5))
    for row in range(5):
        alone = solve(torch.tensor([row]))
        _assert_same(alone, together, [row])
        gap = together.evidence.stationarity[[row]]
        torch.testing.assert_close(alone.evidence.stationarity, gap, rtol=1e-6, atol=CLOSE)


def test_steps_of_the_confirmation_are_a_matter_of_each_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the same time, the linearised steps of some rows are too short and are taken again, those of others are not.

    In every second row the constraint x + y <= 0 blocks all descent. In the others x <= 0 leaves a step along y, of
    seven tenths of the length. Rows are queued, so that they are confirmed at all times.
    """
    b = 20
    start = torch.randn(b, 2, dtype=torch.float64)
    share = torch.tensor([1.0, 0.0] * (b // 2), dtype=torch.float64)

    def points(chosen: list[int]) -> dict[int, list[list[float]]]:
        """All points that were evaluated, by row."""
        seen: dict[int, list[list[float]]] = {row: [] for row in chosen}

        def objective(x: Tensor, rows: Tensor) -> Tensor:
            if x.requires_grad:
                for row, point in zip(rows.tolist(), x.tolist(), strict=True):
                    seen[chosen[row]].append(point)
            return (x - 1).abs().sum(1) + 0.1 * (x**2).sum(1)

        def blocked(x: Tensor, rows: Tensor) -> Tensor:
            return x[:, 0] + share[chosen][rows] * x[:, 1]

        assert pwcf.minimize(objective, start[chosen], [pwcf.ineq(blocked)], slots=6).converged.all()
        return seen

    again: list[tuple[int, int]] = []  # rows with a step, and how many of them had it taken again
    step, confirm = Steering.linearised_step, Confirmation._try_linearised

    def counted(self: Steering, S: SolverRows, rows: Array, tau: Array | None = None, HV: Tensor | None = None) -> Any:
        if tau is not None:
            again[-1] = (again[-1][0], again[-1][1] + len(rows)) if again[-1][0] else (len(rows), 0)
        return step(self, S, rows, tau, HV)

    def confirmed(self: Confirmation, S: SolverRows, rows: Array) -> None:
        again.append((0, 0))
        confirm(self, S, rows)

    monkeypatch.setattr(Steering, "linearised_step", counted)
    monkeypatch.setattr(Confirmation, "_try_linearised", confirmed)
    together = points(list(range(b)))
    mixed = any(0 < short < rows for rows, short in again)
    for row in range(b):
        assert points([row])[row] == together[row]
    assert mixed


def test_evidence_obeys_the_law() -> None:
    """Also that of rows which end at a limit, alone or after an interruption."""
    name = "least_absolute_deviations"
    together = _together(name, "bfgs")
    assert Status.MAX_ITERATIONS in together.status
    stopped = _solve(name, "bfgs", max_iterations=13, keep_state=True)
    for other in (_solve(name, "bfgs", slots=3), _solve(name, "bfgs", state=stopped.state)):
        for kind in ("violation", "stationarity", "step"):
            found, expected = getattr(other.evidence, kind), getattr(together.evidence, kind)
            torch.testing.assert_close(found, expected, rtol=1e-6, atol=CLOSE, msg=lambda m, k=kind: f"{k}: {m}")


def test_a_state_can_be_used_twice() -> None:
    stopped = _solve("granso_rosenbrock", "bfgs", max_iterations=5, keep_state=True)
    for _ in range(2):
        resumed = _solve("granso_rosenbrock", "bfgs", state=stopped.state, slots=3)
        _assert_same(resumed, _together("granso_rosenbrock", "bfgs"), range(ROWS))


def test_interrupted_twice() -> None:
    first = _solve("least_absolute_deviations", "lbfgs", max_iterations=5, keep_state=True)
    second = _solve("least_absolute_deviations", "lbfgs", max_iterations=12, keep_state=True, state=first.state)
    resumed = _solve("least_absolute_deviations", "lbfgs", state=second.state)
    _assert_same(resumed, _together("least_absolute_deviations", "lbfgs"), range(ROWS))


def test_float32_obeys_the_law_too() -> None:
    problem = _problem("lasso_box")
    x0 = _starts("lasso_box").float()

    def solve(rows: list[int]) -> Solution:
        return pwcf.minimize(problem.objective, x0[rows], bounds=problem.bounds, max_iterations=ITERATIONS)

    together = solve(list(range(ROWS)))
    for row in (1, 4):
        _assert_same(solve([row]), together, [row])


def test_neighbours_that_fail_do_not_matter() -> None:
    """Rows beside one that is NaN, one that is unbounded and one that is infeasible."""
    offset = torch.tensor([0.0, torch.nan, 0.0, 0.0, 0.0], dtype=torch.float64)
    weight = torch.tensor([1.0, 1.0, -1.0, 1.0, 1.0], dtype=torch.float64)
    shift = torch.tensor([-9.0, -9.0, -9.0, 1.0, -9.0], dtype=torch.float64)
    x0 = torch.randn(5, 3, dtype=torch.float64)

    def solve(chosen: list[int]) -> Solution:
        users = torch.tensor(chosen)

        def objective(x: Tensor, rows: Tensor) -> Tensor:
            k = users[rows]
            return weight[k] * (x - 1).abs().sum(-1) + offset[k]

        def curve(x: Tensor, rows: Tensor) -> Tensor:
            k = users[rows]
            return (weight[k] > 0) * (x**2).sum(-1) + shift[k]

        return pwcf.minimize(objective, x0[chosen], [pwcf.ineq(curve)], max_iterations=150)

    together = solve([0, 1, 2, 3, 4])
    assert together.status[1:4] == [Status.NONFINITE, Status.UNBOUNDED, Status.INFEASIBLE]
    _assert_same(solve([0, 4]), together, [0, 4])


def test_a_queue_evaluates_exactly_the_rows_in_work() -> None:
    b, n, slots = 300, 1, 16
    target = torch.randn(b, n, dtype=torch.float64)
    evaluated, checked = torch.zeros(b, dtype=torch.int64), 0
    sizes: list[int] = []

    def objective(x: Tensor, rows: Tensor) -> Tensor:
        nonlocal checked
        assert len(x) == len(rows)
        sizes.append(len(rows))
        if x.requires_grad:
            assert len(rows.unique()) == len(rows)
            evaluated.index_add_(0, rows, torch.ones_like(rows))
        else:
            checked += len(rows)
        return (x - target[rows]).abs().sum(-1) + 1

    solution = pwcf.minimize(objective, torch.zeros(b, n, dtype=torch.float64), slots=slots)
    assert max(sizes) == slots
    assert torch.equal(evaluated, solution.evaluations)
    assert checked <= 4 * slots  # the check that rows are independent
    assert solution.converged.all()
    # Work is done in full slots until the queue is empty.
    assert len(sizes) <= 2 * int(evaluated.sum()) / slots


def test_bundle_steps_are_the_same_alone() -> None:
    """Equalities and bounds in nine variables: matrices of odd sizes, hundreds of bundle steps."""
    problem = testproblems.get("hs109")
    starts = problem.starts(4)
    together = pwcf.minimize(problem.objective, starts, problem.constraints, bounds=problem.bounds, budget=120)
    for row in range(4):
        alone = pwcf.minimize(
            problem.objective, starts[row : row + 1], problem.constraints, bounds=problem.bounds, budget=120
        )
        assert torch.equal(alone.x[0], together.x[row])
