"""What may go wrong has a status with a sentence or an error that names the argument."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import pwcf
from pwcf import Status

F64 = torch.float64
ZEROS = torch.zeros(2, 3, dtype=F64)


def _square(x: Tensor) -> Tensor:
    return ((x - 1) ** 2).sum(-1)


# ---- values that are not finite -----------------------------------------------------------------------


def test_nonfinite_start_ends_only_its_row() -> None:
    offset = torch.tensor([0.0, math.nan, 0.0, math.inf, -math.inf], dtype=F64)
    x0 = torch.randn(5, 3, dtype=F64)
    solution = pwcf.minimize(lambda x, rows: _square(x) + 1 + offset[rows], x0)
    clean = pwcf.minimize(lambda x, rows: _square(x) + 1, x0)
    for row, status in enumerate(solution.status):
        if bool(torch.isfinite(offset[row])):
            assert status is clean.status[row] is Status.CONVERGED
            assert torch.equal(solution.x[row], clean.x[row])
        else:
            assert status is Status.NONFINITE
            assert int(solution.evaluations[row]) == 1
            assert torch.equal(solution.x[row], x0[row])
            assert not bool(solution.converged[row])
            assert solution.evidence.stationarity[row] == math.inf


def test_nonfinite_constraint_ends_only_its_row() -> None:
    offset = torch.tensor([0.0, math.nan], dtype=F64)
    ball = pwcf.ineq(lambda x, rows: (x**2).sum(-1) - 1 + offset[rows])
    solution = pwcf.minimize(_square, ZEROS, [ball])
    assert solution.status == [Status.CONVERGED, Status.NONFINITE]


def test_nonfinite_gradient_at_the_start() -> None:
    x0 = torch.tensor([[0.0], [4.0]], dtype=F64)  # the square root has an infinite slope at 0
    solution = pwcf.minimize(lambda x: (x.sqrt() - 1).abs().sum(-1), x0)
    assert solution.status == [Status.NONFINITE, Status.CONVERGED]


def test_nonfinite_x0() -> None:
    x0 = torch.tensor([[math.nan, 0.0], [0.0, 0.0]], dtype=F64)
    assert pwcf.minimize(lambda x: _square(x) + 1, x0).status == [Status.NONFINITE, Status.CONVERGED]


def test_line_search_steps_back_from_undefined_points() -> None:
    """x - log(x) / 100 is NaN below zero, and the first step leads there."""
    seen: list[Tensor] = []

    def objective(x: Tensor) -> Tensor:
        seen.append(x.detach())
        return (x - 0.01 * x.log()).sum(-1)

    solution = pwcf.minimize(objective, torch.full((3, 1), 0.3, dtype=F64))
    assert (torch.cat(seen) < 0).any()
    best = 0.01 - 0.01 * math.log(0.01)
    assert ((solution.objective - best).abs() <= 1e-4).all()
    assert solution.status == [Status.CONVERGED] * 3


# ---- problems without an answer -----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_unbounded_objective(dtype: torch.dtype) -> None:
    slope = torch.tensor([1.0, 0.0, -1.0], dtype=dtype)

    def objective(x: Tensor, rows: Tensor) -> Tensor:
        return slope[rows] * x.sum(-1) + (1 - slope[rows].abs()) * (_square(x) + 1)

    solution = pwcf.minimize(objective, torch.zeros(3, 2, dtype=dtype))
    assert solution.status == [Status.UNBOUNDED, Status.CONVERGED, Status.UNBOUNDED]


def test_concave_objective_is_unbounded() -> None:
    solution = pwcf.minimize(lambda x: -(x**2).sum(-1), torch.ones(2, 2, dtype=F64))
    assert solution.status == [Status.UNBOUNDED] * 2


def test_unbounded_along_a_constraint() -> None:
    line = pwcf.eq(lambda x: x[:, 0] - x[:, 1])
    assert pwcf.minimize(lambda x: x.sum(-1), torch.ones(1, 2, dtype=F64), [line]).status == [Status.UNBOUNDED]


def test_unbounded_inside_a_cylinder_is_never_called_converged() -> None:
    """The constraint leaves the first entry free, along which the objective falls for ever."""
    cylinder = pwcf.ineq(lambda x: (x[:, 1:] ** 2).sum(-1) - 1)
    solution = pwcf.minimize(
        lambda x: (x - 1).abs().sum(-1) - 2 * x[:, 0],
        torch.full((1, 3), 0.2, dtype=F64),
        [cylinder],
        max_iterations=200,
    )
    assert solution.status[0] in (Status.UNBOUNDED, Status.MAX_ITERATIONS, Status.STALLED)


def test_falling_outside_of_the_feasible_set_is_not_unbounded() -> None:
    above = pwcf.ineq(lambda x: -x)
    solution = pwcf.minimize(lambda x: x.sum(-1) + 1, torch.ones(2, 2, dtype=F64), [above])
    torch.testing.assert_close(solution.objective, torch.ones(2, dtype=F64), rtol=0, atol=1e-4)


def test_infeasible_problem() -> None:
    """x^2 + 1 <= 0 can be violated by 1 at least."""
    solution = pwcf.minimize(
        lambda x: x.sum(-1), torch.ones(2, 2, dtype=F64), [pwcf.ineq(lambda x: (x**2).sum(-1) + 1)]
    )
    assert solution.status == [Status.INFEASIBLE] * 2
    assert ((solution.evidence.violation - 1).abs() <= 1e-2).all()
    assert not solution.converged.any()


@pytest.mark.parametrize("make", [pwcf.ineq, pwcf.eq])
@pytest.mark.parametrize("fold", [False, True])
def test_contradicting_constraints(make: Any, fold: bool) -> None:
    both = make(lambda x: torch.stack([x[:, 0] + 1, 1 - x[:, 0]], 1), fold=fold)
    solution = pwcf.minimize(_square, torch.zeros(1, 2, dtype=F64), [both])
    assert solution.status == [Status.INFEASIBLE]
    assert float(solution.evidence.violation) > 1


def test_one_infeasible_row_does_not_touch_the_others() -> None:
    offset = torch.tensor([-1.0, 1.0, -1.0], dtype=F64)
    ball = pwcf.ineq(lambda x, rows: (x**2).sum(-1) + offset[rows])
    solution = pwcf.minimize(_square, torch.zeros(3, 2, dtype=F64), [ball])
    assert solution.status == [Status.CONVERGED, Status.INFEASIBLE, Status.CONVERGED]


# ---- unusual problems ---------------------------------------------------------------------------------


@pytest.mark.parametrize("fold", [False, True])
def test_infeasible_start(fold: bool) -> None:
    cube = pwcf.ineq(lambda x: x.abs() - 0.5, fold=fold)
    solution = pwcf.minimize(_square, torch.full((2, 3), 50.0, dtype=F64), [cube])
    assert (solution.evidence.violation <= 1e-6).all()
    torch.testing.assert_close(solution.objective, torch.full((2,), 0.75, dtype=F64), rtol=1e-4, atol=0)


@pytest.mark.parametrize("copies", [2, 5])
def test_duplicate_constraints(copies: int) -> None:
    ball = pwcf.ineq(lambda x: (x**2).sum(-1) - 1)
    line = pwcf.eq(lambda x: x[:, 0] - x[:, 1])
    solution = pwcf.minimize(_square, ZEROS, [ball, line] * copies)
    best = (math.sqrt(3) - 1) ** 2
    torch.testing.assert_close(solution.objective, torch.full((2,), best, dtype=F64), rtol=1e-4, atol=0)
    assert (solution.evidence.violation <= 1e-6).all()


@pytest.mark.parametrize("connected", [False, True])
def test_constant_objective(connected: bool) -> None:
    def objective(x: Tensor) -> Tensor:
        return 3 + 0 * x.sum(-1) if connected else x.new_full((len(x),), 3.0)

    plain = pwcf.minimize(objective, ZEROS)
    assert plain.status == [Status.CONVERGED] * 2
    assert torch.equal(plain.x, ZEROS)
    away = pwcf.ineq(lambda x: 2 - x.sum(-1))
    found = pwcf.minimize(objective, ZEROS, [away])
    assert (found.evidence.violation <= 1e-6).all()
    assert (found.objective == 3).all()
    assert found.status == [Status.CONVERGED] * 2


def test_start_at_the_minimum() -> None:
    for objective in (_square, lambda x: (x - 1).abs().sum(-1)):
        solution = pwcf.minimize(objective, ZEROS + 1)
        assert (solution.objective == 0).all()
        assert solution.status == [Status.CONVERGED] * 2


def test_one_variable() -> None:
    solution = pwcf.minimize(lambda x: (x[:, 0] - 0.3).abs() + 1, torch.tensor([[5.0], [-2.0]], dtype=F64))
    torch.testing.assert_close(solution.objective, torch.ones(2, dtype=F64), rtol=1e-4, atol=0)
    assert solution.status == [Status.CONVERGED] * 2


@pytest.mark.parametrize("shape", [(0, 3), (0, 2, 3)])
def test_no_rows(shape: tuple[int, ...]) -> None:
    def never(x: Tensor) -> Tensor:
        raise AssertionError("nothing to evaluate")

    solution = pwcf.minimize(never, torch.zeros(shape), [pwcf.ineq(never)], bounds=(0, 1), slots=4)
    assert solution.x.shape == shape
    assert solution.status == []
    assert solution.objective.shape == solution.evaluations.shape == solution.converged.shape == (0,)
    assert solution.summary() == "0 rows"


def test_one_row() -> None:
    solution = pwcf.minimize(lambda x: _square(x) + 1, ZEROS[:1])
    assert solution.status == [Status.CONVERGED]
    assert solution.x.shape == (1, 3)


@pytest.mark.parametrize("constraints", [(), []])
def test_no_constraints(constraints: Any) -> None:
    solution = pwcf.minimize(_square, ZEROS, constraints)
    assert (solution.evidence.violation == 0).all()
    assert (solution.objective <= 1e-3).all()


@pytest.mark.parametrize("fold", [False, True])
def test_a_constraint_without_columns(fold: bool) -> None:
    solution = pwcf.minimize(_square, ZEROS, [pwcf.ineq(lambda x: x[:, :0], fold=fold)])
    assert (solution.evidence.violation == 0).all()
    assert (solution.objective <= 1e-3).all()


@pytest.mark.parametrize("fold", [False, True])
def test_fifty_constraints(fold: bool) -> None:
    """Fifty half-spaces around the unit disc; the nearest point to (3, 4) is where one touches the disc."""
    angle = torch.atan2(torch.tensor(4.0), torch.tensor(3.0)) + torch.arange(50) * (2 * math.pi / 50)
    normals = torch.stack([angle.cos(), angle.sin()], 1).double()
    target = torch.tensor([3.0, 4.0], dtype=F64)
    polygon = pwcf.ineq(lambda x: (x.unsqueeze(1) * normals).sum(-1) - 1, fold=fold)
    solution = pwcf.minimize(lambda x: ((x - target) ** 2).sum(-1), torch.zeros(2, 2, dtype=F64), [polygon])
    torch.testing.assert_close(solution.objective, torch.full((2,), 16.0, dtype=F64), rtol=1e-4, atol=0)
    assert (solution.evidence.violation <= 1e-6).all()


# ---- errors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("x0", [[0.0, 1.0]], TypeError),
        ("x0", torch.zeros(2, 3, dtype=torch.int64), TypeError),
        ("x0", torch.zeros(2, 3, dtype=torch.float16), TypeError),
        ("x0", {"a": torch.zeros(3), "b": [1.0]}, TypeError),
        ("x0", {}, ValueError),
        ("x0", torch.nn.ReLU(), ValueError),
        ("x0", torch.zeros(2, 0), ValueError),
        ("batched", 1, TypeError),
        ("objective", 3.0, TypeError),
        ("objective", lambda x: 1.0, TypeError),
        ("objective", lambda x: x.sum(-1).long(), TypeError),
        ("objective", lambda x: _square(x).sum(), ValueError),
        ("objective", lambda x: _square(x).unsqueeze(0), ValueError),
        ("objective", lambda x: x, ValueError),
        ("objective", lambda x: (x - x.mean()).sum(-1), ValueError),
        ("objective", lambda x: x.sum(1) - x.mean(), ValueError),
        ("objective", lambda x: _square(x) + torch.rand(len(x), dtype=F64), ValueError),
        ("bounds", 1.0, TypeError),
        ("bounds", (0.0, 1.0, 2.0), TypeError),
        ("bounds", ("a", 1.0), TypeError),
        ("bounds", (1.0, 0.0), ValueError),
        ("bounds", (math.nan, None), ValueError),
        ("bounds", (torch.zeros(4), None), ValueError),
        ("tol", 0.0, ValueError),
        ("tol", -1.0, ValueError),
        ("tol", math.nan, ValueError),
        ("tol", "small", ValueError),
        ("feasibility", -1e-6, ValueError),
        ("feasibility", math.nan, ValueError),
        ("feasibility", "small", ValueError),
        ("mu0", 0.0, ValueError),
        ("max_iterations", -1, ValueError),
        ("max_iterations", 2.5, ValueError),
        ("budget", 0, ValueError),
        ("budget", -3, ValueError),
        ("budget", 2.5, ValueError),
        ("budget", True, ValueError),
        ("budget", torch.tensor([1, 2, 3]), ValueError),
        ("budget", torch.tensor([1.0, 2.0]), ValueError),
        ("budget", torch.tensor([0, 5]), ValueError),
        ("time_limit", 0.0, ValueError),
        ("time_limit", "1 min", ValueError),
        ("target", math.nan, ValueError),
        ("target", torch.zeros(3), ValueError),
        ("target", "low", ValueError),
        ("callback", 3, TypeError),
        ("callback", lambda progress: 3, TypeError),
        ("callback", lambda progress: torch.ones(3, dtype=torch.bool), TypeError),
        ("slots", 0, ValueError),
        ("slots", 1.5, ValueError),
        ("memory", 0, ValueError),
        ("hessian", "newton", ValueError),
        ("hessian", None, ValueError),
        ("test", "none", ValueError),
        ("constraints", [lambda x: x], TypeError),
        ("constraints", [pwcf.ineq(_square), "x <= 1"], TypeError),
        ("constraints", [pwcf.ineq(lambda x: 1.0)], TypeError),
        ("constraints", [pwcf.ineq(lambda x: x.unsqueeze(0))], ValueError),
        ("constraints", [pwcf.ineq(lambda x: x.sum())], ValueError),
        ("constraints", [pwcf.eq(lambda x: x - x.mean())], ValueError),
    ],
)
def test_errors_name_the_argument(name: str, value: Any, error: type[Exception]) -> None:
    arguments: dict[str, Any] = {"objective": _square, "x0": ZEROS, name: value}
    with pytest.raises(error, match=name) as caught:
        pwcf.minimize(**arguments)
    assert "found" in str(caught.value) or "expected" in str(caught.value) or "contains" in str(caught.value)


@pytest.mark.parametrize("b", [2, 3, 4, 7])
@pytest.mark.parametrize("slots", [None, 2])
def test_coupled_rows_are_found_even_if_equal(b: int, slots: int | None) -> None:
    with pytest.raises(ValueError, match="objective"):
        pwcf.minimize(lambda x: x.sum(1) - x.mean(), torch.ones(b, 3, dtype=F64), slots=slots)


def test_coupled_constraint_is_named() -> None:
    sphere = pwcf.eq(lambda x: (x**2).sum(-1) - 1)
    coupled = pwcf.ineq(lambda x: x.sum(-1) - x.amax(), name="relative height")
    with pytest.raises(ValueError, match=r"constraints\[1\] \(relative height\).*other rows"):
        pwcf.minimize(_square, torch.randn(4, 3, dtype=F64), [sphere, coupled])


def test_batch_norm_in_train_mode_is_found() -> None:
    layer = torch.nn.BatchNorm1d(3, track_running_stats=False).double()
    with pytest.raises(ValueError, match=r"objective.*other rows"):
        pwcf.minimize(lambda x: _square(layer(x)), torch.randn(4, 3, dtype=F64))


def test_random_objective_is_told_from_a_coupled_one() -> None:
    with pytest.raises(ValueError, match="deterministic"):
        pwcf.minimize(lambda x: _square(x) + torch.rand(len(x), dtype=F64), torch.randn(4, 3, dtype=F64))


def test_whole_batch_closure_cannot_be_queued() -> None:
    target = torch.randn(4, 3, dtype=F64)
    with pytest.raises(ValueError, match="rows"):
        pwcf.minimize(lambda x: ((x - target) ** 2).sum(-1), torch.zeros(4, 3, dtype=F64), slots=2)


def test_fused_values_must_match_the_constraints() -> None:
    with pytest.raises(TypeError, match="objective"):
        pwcf.minimize(_square, ZEROS, [pwcf.ineq()])
    with pytest.raises(ValueError, match=r"objective.*2.*1"):
        pwcf.minimize(lambda x: (_square(x), x, x), ZEROS, [pwcf.ineq()])
    with pytest.raises(TypeError, match="objective"):
        pwcf.minimize(lambda x: (_square(x), x), ZEROS)


def test_an_error_of_the_users_function_comes_through() -> None:
    def broken(x: Tensor) -> Tensor:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        pwcf.minimize(broken, ZEROS)
