"""``converged`` is said only where nothing better is near, and problems of all kinds are solved."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

import pwcf
from pwcf import Status, testproblems
from pwcf.solvers import Constraint
from pwcf.solvers.bounds import Bounds
from pwcf.solvers.confirmation import Confirmation
from pwcf.solvers.host import Array
from pwcf.solvers.solution import SolverState
from pwcf.solvers.state import PASSED_AT_X, RETURN, SolverRows
from pwcf.solvers.units import units

F64 = torch.float64


def _solve(problem: testproblems.TestProblem, starts: Tensor) -> pwcf.Solution:
    return pwcf.minimize(problem.objective, starts, problem.constraints, bounds=problem.bounds)


# ---- claims --------------------------------------------------------------------------------------------


def test_a_cut_made_elsewhere_on_a_concave_piece_is_not_believed() -> None:
    """The constrained nonsmooth Rosenbrock: bundle steps lead to where such a cut passes through f by chance."""
    columns = pwcf.ineq(lambda x: torch.stack([2**0.5 * x[:, 0] - 1, 2 * x[:, 1] - 1], 1))
    generator = torch.Generator().manual_seed(0)
    starts = torch.cat([torch.tensor([[0.0, -0.8]]), torch.randn(15, 2, generator=generator)]).double()
    solution = pwcf.minimize(lambda x: 8 * (x[:, 0] ** 2 - x[:, 1]).abs() + (1 - x[:, 0]) ** 2, starts, [columns])
    best = (1 - 2**-0.5) ** 2
    assert (solution.objective <= best * (1 + 1e-3)).all()
    assert solution.converged.double().mean() >= 0.85


@pytest.mark.parametrize(("name", "more"), [("hs29", 3), ("hs37", 5), ("hs56", 0)])
def test_products_under_constraints(name: str, more: int) -> None:
    """Their penalty function has no minimum until f weighs little enough; hs37 ended 10 % above the optimum."""
    problem = testproblems.get(name)
    solution = _solve(problem, torch.cat([problem.start[None], problem.starts(more)]))
    assert (solution.evidence.violation <= 1e-6).all()
    assert (solution.objective <= problem.optimum + 1e-4 * abs(problem.optimum)).all()


def test_a_flat_valley_is_followed() -> None:
    """At (0, 0) the gradient is 2e-5, and f can still be halved, far away."""
    start = torch.tensor([[0.0, 1.0]], dtype=F64)
    solution = pwcf.minimize(lambda x: 1 + 1e-10 * (x[:, 0] - 1e5) ** 2 + x[:, 1] ** 2, start)
    assert float(solution.objective) <= 1 + 1e-4


def test_complementarity() -> None:
    """min |x - 1|^2 over x y <= 0, x, y >= 0 has the minima (1, 0) and (0, 1)."""
    product = pwcf.ineq(lambda x: x[:, 0] * x[:, 1])
    starts = torch.tensor([[0.9, 1.1], [1.1, 0.9], [0.3, 2.0]], dtype=F64)
    solution = pwcf.minimize(lambda x: ((x - 1) ** 2).sum(1), starts, [product], bounds=(0, None))
    assert (solution.objective <= 1 + 1e-4).all()


def test_what_looked_convex_is_tried_near_the_answer() -> None:
    """Gill's minimax problem is not convex in directions that a search along its valleys never takes."""
    problem = testproblems.get("gill")
    starts = problem.start + 0.25 * (2 * torch.rand(1, 10, generator=torch.Generator().manual_seed(3)) - 1).double()
    solution = _solve(problem, starts)
    excess = (solution.objective - problem.optimum) / problem.optimum
    assert (excess[solution.converged] <= 1e-3).all()


def test_gradients_that_cancel_at_an_upward_kink_are_no_minimum() -> None:
    """Nesterov's second function: where gradients of all sides cancel, as at (.5, 0, -1), one side leads down to 1."""
    generator = torch.Generator().manual_seed(3)
    starts = torch.tensor([0.0, -1.0, 1.0]) + 0.3 * torch.randn(12, 3, generator=generator)
    solution = pwcf.minimize(testproblems.nesterov_rosenbrock_2(3).objective, starts.double())
    assert solution.converged.double().mean() >= 0.75
    assert (solution.objective[solution.converged] <= 1e-3).all()
    assert (solution.objective <= 1e-3).double().mean() >= 0.9


@pytest.mark.parametrize(
    ("objective", "constraints", "start", "optimum"),
    [
        (lambda x: -x.abs().sum(1), [], (0.0, 0.0), -2.0),
        (lambda x: x[:, 0], [lambda x: 1 - x.abs().sum(1)], (1.0, 0.0), -1.0),
        (lambda x: x[:, 0] ** 2 - x[:, 1] ** 2, [], (0.5, 0.0), -1.0),
    ],
    ids=["peak", "outside a ball", "saddle"],
)
def test_gradients_of_ties_are_not_believed(
    objective: Callable[[Tensor], Tensor],
    constraints: list[Callable[[Tensor], Tensor]],
    start: tuple[float, float],
    optimum: float,
) -> None:
    """Automatic differentiation gives |x| the slope 0 at 0: from there nothing seems to lead down."""
    x0 = torch.tensor([start], dtype=F64)
    solution = pwcf.minimize(objective, x0, [pwcf.ineq(c) for c in constraints], bounds=(-1, 1))
    assert solution.converged.all()
    assert float(solution.objective) <= optimum + 1e-3


def test_a_better_trial_point_refutes_a_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that passes the test, but has seen a feasible point clearly below, goes there instead of ending."""
    phases: list[int] = []
    advance = Confirmation.advance

    def with_a_better_point(self: Confirmation, S: SolverRows, alive: Array) -> None:
        first = not phases and bool((S.verdict == PASSED_AT_X).any())
        if first:
            S.best_values[:, 0] -= 0.01
        advance(self, S, alive)
        if first:
            S.best_values[:, 0] += 0.01
            phases.append(int(S.phase[0]))

    monkeypatch.setattr(Confirmation, "advance", with_a_better_point)
    solution = pwcf.minimize(lambda x: 1 + ((x - 1) ** 2).sum(1), torch.zeros(1, 2, dtype=F64))
    assert phases == [RETURN]
    assert solution.converged.all()


def test_a_step_along_curved_constraints_is_led_back_to_them() -> None:
    """A curved valley of products: 1 % along it lowers f by 4e-4, but leaves constraints with large multipliers."""
    problem = testproblems.get("outrata33")
    noise = 2 * torch.rand(17, 5, generator=torch.Generator().manual_seed(0), dtype=F64) - 1
    starts = (problem.start.double() + torch.as_tensor(problem.spread) * noise[[4]]).clamp(min=0)
    solution = _solve(problem, starts)
    assert solution.converged.all()
    assert float(solution.objective) <= problem.optimum * (1 + 3e-4)


# ---- scale ---------------------------------------------------------------------------------------------


def test_large_entries_are_not_held_by_rounding() -> None:
    """In float32 2e7 + 1 is 2e7."""
    solution = pwcf.minimize(lambda x: (x[:, 0] / 1e7 - 3) ** 2 + 1, torch.full((1, 1), 2e7), bounds=(0, None))
    assert float(solution.objective) <= 1 + 1e-3
    box, x = Bounds(torch.zeros(1, 1), None), torch.full((1, 1), 2e7)
    assert box.free(x, torch.ones(1, 1)).item() == 1  # type: ignore[union-attr]


def test_equalities_with_bounds_and_badly_scaled_variables() -> None:
    """HS71 with variables of sizes from 1e-3 to 1e3 is as easy as HS71."""
    problem, size = testproblems.get("hs71"), torch.tensor([1e-3, 1e-1, 10.0, 1e3], dtype=F64)

    def scaled(constraint: Constraint) -> Constraint:
        function = constraint.function
        assert function is not None
        return Constraint(constraint.sense, lambda x: function(x / size))

    solution = pwcf.minimize(
        lambda x: problem.objective(x / size),
        problem.starts(4) * size,
        [scaled(constraint) for constraint in problem.constraints],
        bounds=(1 * size, 5 * size),
    )
    assert solution.converged.all()
    assert ((solution.objective - problem.optimum).abs() <= 1e-4 * problem.optimum).all()
    assert (solution.x >= 1 * size).all()
    assert (solution.x <= 5 * size).all()
    assert (solution.evaluations <= 30).all()


def test_units_are_powers_of_two_and_only_where_sizes_differ() -> None:
    alike = units(torch.tensor([[0.001, 1.0, 20.0]], dtype=F64), Bounds())
    assert alike.factors is None
    small = Bounds(torch.tensor([[0.0, -9.0]], dtype=F64), torch.tensor([[1e-3, 9.0]], dtype=F64))
    factors = units(torch.tensor([[1e-4, 1.0]], dtype=F64), small).factors
    assert factors is not None
    assert (factors.log2() == factors.log2().round()).all()
    assert factors[0, 0] <= 2e-3


def test_entries_are_put_onto_a_bound_only_if_they_are_as_good_as_there() -> None:
    wide = Bounds(torch.zeros(1, 1, dtype=F64), None)
    narrow = Bounds(torch.zeros(1, 1, dtype=F64), torch.full((1, 1), 1e-9, dtype=F64))
    x = torch.full((1, 1), 1e-11, dtype=F64)
    assert wide.snap(x).item() == 0
    assert narrow.snap(x).item() == 1e-11


def test_a_state_of_another_version_is_refused(tmp_path: Path) -> None:
    part = pwcf.minimize(lambda x: (x**2).sum(1), torch.ones(1, 2, dtype=F64), budget=2, keep_state=True)
    assert part.state is not None
    tensors = part.state.rows.tensors()
    del tensors["verdict"]
    torch.save(tensors, tmp_path / "state.pt")
    with pytest.raises(ValueError, match="path: expected a state saved by this version"):
        SolverState.load(tmp_path / "state.pt")


def test_a_state_keeps_its_units() -> None:
    """A row that goes on from another x0 works in the units that it began with."""
    size = torch.tensor([1.0, 1e4], dtype=F64)

    def objective(x: Tensor) -> Tensor:
        return ((x / size - 3) ** 4).sum(1)

    start = torch.tensor([[1.0, 1e4]], dtype=F64)
    part = pwcf.minimize(objective, start, budget=6, keep_state=True)
    more = pwcf.minimize(objective, torch.ones(1, 2, dtype=F64), state=part.state)
    whole = pwcf.minimize(objective, start)
    assert torch.equal(more.x, whole.x)


# ---- kinds of problems ------------------------------------------------------------------------------------


def test_a_system_of_equations_is_a_feasibility_problem() -> None:
    system = pwcf.eq(lambda x: torch.stack([x[:, 0] ** 2 + x[:, 1] ** 2 - 1, x[:, 0] - x[:, 1]], 1))
    solution = pwcf.minimize(lambda x: 0 * x[:, 0], torch.tensor([[0.9, 1.1]], dtype=F64), [system])
    assert solution.status == [Status.CONVERGED]
    assert float(solution.evidence.stationarity) == 0
    torch.testing.assert_close(solution.x, torch.full((1, 2), math.sqrt(0.5), dtype=F64), rtol=1e-5, atol=0)


def test_many_columns_are_as_good_as_their_maximum() -> None:
    """A linear program with 300 constraints, as 300 columns and as one maximum."""
    generator = torch.Generator().manual_seed(0)
    A, b, c = (torch.randn(300, 8, generator=generator), torch.rand(300, generator=generator) + 1, torch.ones(8))
    A, b, c = A.double(), b.double(), c.double()

    def rows(x: Tensor) -> Tensor:
        return (x.unsqueeze(1) * A).sum(-1) - b

    start = torch.zeros(1, 8, dtype=F64)
    columns = pwcf.minimize(lambda x: (x * c).sum(-1), start, [pwcf.ineq(rows)])
    together = pwcf.minimize(lambda x: (x * c).sum(-1), start, [pwcf.ineq(lambda x: rows(x).amax(1))])
    assert columns.status == together.status == [Status.CONVERGED]
    torch.testing.assert_close(columns.objective, together.objective, rtol=1e-5, atol=0)


def test_fixed_entries_stay() -> None:
    fixed = torch.tensor([2.0, -9.0], dtype=F64), torch.tensor([2.0, 9.0], dtype=F64)
    solution = pwcf.minimize(lambda x: (x.abs()).sum(1) + (x[:, 1] - 1) ** 2, torch.ones(2, 2, dtype=F64), bounds=fixed)
    assert solution.converged.all()
    assert (solution.x[:, 0] == 2).all()
    torch.testing.assert_close(solution.x[:, 1], torch.full((2,), 0.5, dtype=F64), rtol=0, atol=1e-3)
