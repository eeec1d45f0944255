"""Callback, time limit and target: how a user ends rows before the solver does."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import pwcf
from pwcf import Status
from pwcf.solvers import Progress

F64 = torch.float64
STARTS = torch.tensor([[3.0, 1.0], [-2.0, 2.0], [0.5, -1.0]], dtype=F64)


def _valley(x: Tensor) -> Tensor:
    return 8 * (x[..., 0] - x[..., 1]).abs() + (1 - x[..., 0]) ** 2 + 1


def test_callback_sees_every_row_get_better() -> None:
    seen: list[Progress] = []
    solution = pwcf.minimize(_valley, STARTS, callback=seen.append, slots=2)
    assert torch.equal(solution.x, pwcf.minimize(_valley, STARTS, slots=2).x)
    objectives = torch.stack([progress.objective for progress in seen])
    assert bool(objectives[0, 2].isnan())
    assert not bool(objectives[0, :2].isnan().any())
    assert (objectives[1:].nan_to_num(1e9) <= objectives[:-1].nan_to_num(1e9)).all()
    assert torch.equal(seen[0].evaluations, torch.tensor([1, 1, 0]))
    assert seen[0].running.all()
    assert seen[0].status == [None] * 3
    last = seen[-1]
    assert torch.equal(last.x, solution.x)
    assert torch.equal(last.objective, solution.objective)
    assert torch.equal(last.evaluations, solution.evaluations)
    assert last.status == solution.status
    assert not last.running.any()
    assert last.seconds >= seen[0].seconds >= 0
    # copies: nothing that the callback keeps or changes comes back
    assert not torch.equal(seen[0].x, last.x)


@pytest.mark.parametrize("how", ["true", "tensor", "raise"])
def test_callback_ends_all_rows(how: str) -> None:
    def callback(progress: Progress) -> Any:
        if int(progress.evaluations.max()) < 5:
            return None
        if how == "raise":
            raise StopIteration
        return True if how == "true" else torch.tensor(True)

    solution = pwcf.minimize(_valley, STARTS, callback=callback)
    assert solution.status == [Status.STOPPED] * 3
    assert solution.evaluations.tolist() == [5, 5, 5]
    # as for any limit, evidence is there
    assert torch.isfinite(solution.evidence.stationarity).any()
    # rows that wait are evaluated once
    waiting = pwcf.minimize(_valley, STARTS, callback=callback, slots=1)
    assert waiting.status == [Status.STOPPED] * 3
    assert waiting.evaluations.tolist() == [5, 1, 1]
    assert torch.isfinite(waiting.objective).all()


def test_callback_ends_some_rows_and_they_go_on_from_their_state() -> None:
    def callback(progress: Progress) -> Tensor:
        return (progress.evaluations >= 4) & torch.tensor([False, True, False])

    part = pwcf.minimize(_valley, STARTS, callback=callback, keep_state=True)
    whole = pwcf.minimize(_valley, STARTS)
    assert [status is Status.STOPPED for status in part.status] == [False, True, False]
    assert int(part.evaluations[1]) == 4
    assert torch.equal(part.x[[0, 2]], whole.x[[0, 2]])
    rest = pwcf.minimize(_valley, STARTS, state=part.state)
    assert torch.equal(rest.x, whole.x)
    assert rest.status == whole.status


def test_callback_of_one_problem_has_no_batch_axis() -> None:
    seen: list[Progress] = []

    def callback(progress: Progress) -> Tensor:
        seen.append(progress)
        return progress.objective < 1.5

    x0 = {"a": torch.tensor(3.0, dtype=F64), "b": torch.tensor(1.0, dtype=F64)}
    solution = pwcf.minimize(lambda x: _valley(torch.stack([x["a"], x["b"]])), x0, callback=callback)
    assert solution.status is Status.STOPPED
    assert 1 <= solution.objective < 1.5
    assert seen[0].x["a"].shape == ()
    assert seen[0].objective.shape == ()
    assert seen[0].status is None


# ---- limits -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("restarts", [False, True])
def test_time_limit_ends_all_rows_after_one_evaluation_at_least(restarts: bool) -> None:
    points = pwcf.Restarts(pwcf.noisy_starts(STARTS, 2, 0.5)) if restarts else None
    solution = pwcf.minimize(_valley, STARTS, time_limit=1e-9, slots=2, restarts=points, keep_state=True)
    assert solution.status == [Status.TIME_LIMIT] * 3
    assert solution.evaluations.tolist() == [3 if restarts else 1] * 3
    assert torch.isfinite(solution.objective).all()
    if not restarts:
        rest = pwcf.minimize(_valley, STARTS, state=solution.state)
        assert torch.equal(rest.x, pwcf.minimize(_valley, STARTS).x)
    assert pwcf.minimize(_valley, STARTS, time_limit=1e9).status == pwcf.minimize(_valley, STARTS).status


def test_target_ends_rows_at_feasible_points_only() -> None:
    """The first points are far below the target, but violate the constraint."""
    outside = pwcf.ineq(lambda x: 4 - (x**2).sum(-1))

    def objective(x: Tensor) -> Tensor:
        return ((x - 0.1) ** 2).sum(-1)

    x0 = torch.tensor([[0.2, 0.3], [6.0, 5.0]], dtype=F64)
    best = pwcf.minimize(objective, x0, [outside]).objective
    assert objective(x0)[0] < best[0] - 1
    solution = pwcf.minimize(objective, x0, [outside], target=3.9)
    assert solution.status == [Status.TARGET] * 2
    assert (solution.objective <= 3.9).all()
    assert (solution.evidence.violation <= 1e-6).all()
    each = pwcf.minimize(objective, x0, [outside], target=torch.tensor([3.9, 0.0]), keep_state=True)
    assert each.status == [Status.TARGET, Status.CONVERGED]
    rest = pwcf.minimize(objective, x0, [outside], state=each.state)
    torch.testing.assert_close(rest.objective, best, rtol=1e-3, atol=0)


def test_target_holds_with_restarts() -> None:
    points = pwcf.noisy_starts(STARTS, 2, 0.5)
    solution = pwcf.minimize(_valley, STARTS, target=1.6, restarts=pwcf.Restarts(points, 4))
    assert solution.status == [Status.TARGET] * 3
    assert (solution.objective <= 1.6).all()
