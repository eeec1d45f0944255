"""What x0 may be: one problem or a batch, a tensor, an array, a structure of tensors or a module."""

from __future__ import annotations

import math
import pickle
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pwcf
from pwcf import Status

F64 = torch.float64


def _distance(x: Tensor) -> Tensor:
    return ((x - torch.arange(1.0, 4.0, dtype=x.dtype)) ** 2).sum(-1)


def _ball(x: Tensor) -> Tensor:
    return (x**2).sum(-1) - 1


# ---- one problem --------------------------------------------------------------------------------------


def test_one_axis_is_one_problem_with_the_answer_of_a_batch_of_one() -> None:
    x0 = torch.zeros(3, dtype=F64)
    shapes: list[tuple[int, ...]] = []

    def objective(x: Tensor) -> Tensor:
        shapes.append(tuple(x.shape))
        return _distance(x)

    one = pwcf.minimize(
        objective, x0, [pwcf.ineq(_ball)], bounds=(-0.5, torch.tensor([1.0, 1.0, 0.5])), trajectory=True
    )
    batch = pwcf.minimize(
        _distance, x0[None], [pwcf.ineq(_ball)], bounds=(-0.5, torch.tensor([1.0, 1.0, 0.5])), trajectory=True
    )
    assert set(shapes) == {(3,)}
    assert one.status is batch.status[0] is Status.CONVERGED
    assert torch.equal(one.x, batch.x[0])
    for name in ("objective", "iterations", "evaluations", "converged"):
        assert getattr(one, name).shape == ()
        assert torch.equal(getattr(one, name), getattr(batch, name)[0])
    assert torch.equal(one.evidence.stationarity, batch.evidence.stationarity[0])
    assert one.trajectory is not None
    assert batch.trajectory is not None
    assert torch.equal(one.trajectory.objective, batch.trajectory.objective[0])
    assert "converged" in one.summary()


def test_a_number_is_one_problem() -> None:
    solution = pwcf.minimize(lambda x: (x - 2).abs() + 1, torch.tensor(0.0, dtype=F64), bounds=(None, 1.5))
    assert solution.x.shape == ()
    assert math.isclose(solution.x.item(), 1.5)
    assert solution.status is Status.CONVERGED


def test_batched_overrides_the_rule() -> None:
    """A matrix as one problem, numbers as a batch."""
    target = torch.tensor([[1.0, 5.0], [3.0, 2.0]], dtype=F64)
    zeros = torch.zeros(2, 2, dtype=F64)
    symmetric = pwcf.eq(lambda X: X - X.T)
    matrix = pwcf.minimize(lambda X: ((X - target) ** 2).sum() + 1, zeros, [symmetric], batched=False)
    torch.testing.assert_close(matrix.x, (target + target.T) / 2, rtol=0, atol=1e-3)
    assert matrix.multipliers[0].shape == (2, 2)
    numbers = pwcf.minimize(lambda x: (x - target[0]) ** 2 + 1, zeros[0], batched=True)
    assert numbers.x.shape == (2,)
    assert len(numbers.status) == 2
    torch.testing.assert_close(numbers.x, target[0], rtol=0, atol=1e-2)


def test_arrays_are_converted() -> None:
    one = pwcf.minimize(lambda x: _distance(x) + 1, np.zeros(3), bounds=(np.zeros(3), np.full(3, 2.0)))
    assert isinstance(one.x, Tensor)
    assert one.x.dtype == F64
    torch.testing.assert_close(one.x, torch.tensor([1.0, 2.0, 2.0], dtype=F64), rtol=0, atol=1e-3)
    batch = pwcf.minimize(_distance, np.zeros((2, 3), dtype=np.float32), bounds=(None, np.float32(2)))
    assert batch.x.shape == (2, 3)
    assert batch.x.dtype == torch.float32


def test_values_beside_the_objective_and_constraints_of_any_shape() -> None:
    def everything(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return _distance(x) + 1, _ball(x), x.outer(x)[:2, :2] - 0.1

    solution = pwcf.minimize(everything, torch.zeros(3, dtype=F64), [pwcf.ineq(), pwcf.ineq()])
    apart = pwcf.minimize(
        lambda x: _distance(x) + 1, torch.zeros(3, dtype=F64),
        [pwcf.ineq(_ball), pwcf.ineq(lambda x: x.outer(x)[:2, :2] - 0.1)],
    )  # fmt: skip
    assert torch.equal(solution.x, apart.x)
    assert [k.shape for k in solution.multipliers] == [(), (2, 2)]


def test_restarts_and_states_of_one_problem() -> None:
    def bumpy(x: Tensor) -> Tensor:
        return (x**2).sum() + 2 * (3 * x).cos().sum() + 5

    x0 = torch.full((2,), 3.0, dtype=F64)
    starts = pwcf.noisy_starts(x0, 4, 3.0)
    assert starts.shape == (4, 2)
    restarted = pwcf.minimize(bumpy, x0, restarts=pwcf.Restarts(starts, 5))
    rows = pwcf.minimize(
        lambda x: (x**2).sum(1) + 2 * (3 * x).cos().sum(1) + 5, x0[None],
        restarts=pwcf.Restarts(starts.unsqueeze(1), 5),
    )  # fmt: skip
    assert restarted.objective < pwcf.minimize(bumpy, x0).objective - 1
    torch.testing.assert_close(restarted.x, rows.x[0], rtol=0, atol=1e-6)
    part = pwcf.minimize(bumpy, x0, max_iterations=2, keep_state=True)
    assert part.status is Status.MAX_ITERATIONS
    assert torch.equal(pwcf.minimize(bumpy, x0, state=part.state).x, pwcf.minimize(bumpy, x0).x)


# ---- structures ---------------------------------------------------------------------------------------


class Factors(NamedTuple):
    U: Tensor
    V: Tensor


@pytest.mark.parametrize(
    "make",
    [
        lambda u, v: {"u": u, "v": v},
        lambda u, v: [u, v],
        lambda u, v: (u, {"deep": [v]}),
        Factors,
    ],
    ids=["dict", "list", "nested", "namedtuple"],
)
def test_structures_come_back_in_their_form(make: Any) -> None:
    """A rank-one fit with a bound on one factor, whatever holds the two factors."""
    M = torch.tensor([[2.0, 4.0], [1.0, 2.0], [3.0, 6.0]], dtype=F64)
    first, second = torch.ones(3, dtype=F64), torch.ones(2, dtype=torch.float32)
    tree = make(first, second)

    def parts(x: Any) -> tuple[Tensor, Tensor]:
        assert type(x) is type(tree)
        u, v = x.values() if isinstance(x, dict) else x
        return u, v["deep"][0] if isinstance(v, dict) else v

    def objective(x: Any) -> Tensor:
        u, v = parts(x)
        assert u.shape == (3,)
        assert v.shape == (2,)
        assert u.dtype == F64
        assert v.dtype == torch.float32
        return ((u[:, None] * v - M) ** 2).sum() + 1

    solution = pwcf.minimize(objective, tree, bounds=(make(0.0, None), make(None, torch.tensor([1.0, 9.0]))))
    u, v = parts(solution.x)
    assert v[0] <= 1
    torch.testing.assert_close(u[:, None] * v, M, rtol=0, atol=1e-2)
    assert type(solution.bound_multipliers) is type(tree)


def test_bounds_of_structures() -> None:
    x0 = {"a": torch.zeros(2, dtype=F64), "b": torch.zeros((), dtype=F64)}

    def objective(x: dict[str, Tensor]) -> Tensor:
        return ((x["a"] - 3) ** 2).sum() + (x["b"] - 3) ** 2

    common = pwcf.minimize(objective, x0, bounds=(None, 1))
    assert common.x["a"].tolist() == [1, 1]
    assert common.x["b"].item() == 1
    assert common.bound_multipliers["a"].tolist() == [4, 4]
    partial = pwcf.minimize(lambda x: objective(x) + 1, x0, bounds=(None, {"a": torch.tensor([1.0, 2.0])}))
    assert partial.x["a"].tolist() == [1, 2]
    assert abs(partial.x["b"].item() - 3) < 1e-2
    for bad, words in (
        ((None, {"c": 1.0}), r"bounds: hi.*'a', 'b'.*found 'c'"),
        ((None, {"a": torch.zeros(3)}), r"bounds of x0\['a'\]: hi.*\(3,\)"),
        (({"b": 1.0}, {"b": 0.0}), r"bounds of x0\['b'\].*lo exceeds hi"),
        ((torch.zeros(3), None), r"bounds: lo.*dict"),
        (1.0, r"bounds: expected \(lo, hi\)"),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            pwcf.minimize(objective, x0, bounds=bad)


def test_batches_of_structures() -> None:
    """Rows of a structure equal rows of one tensor, queued and with data picked by rows."""
    data = torch.tensor([1.0, 2.0, 3.0], dtype=F64)
    x0 = {"a": torch.zeros(3, 2, dtype=F64), "b": torch.ones(3, dtype=F64)}

    def objective(x: dict[str, Tensor], rows: Tensor) -> Tensor:
        return (x["a"] - data[rows, None]).abs().sum(1) + (x["b"] - data[rows]) ** 2 + 1

    def flat(x: Tensor, rows: Tensor) -> Tensor:
        return objective({"a": x[:, :2], "b": x[:, 2]}, rows)

    together = pwcf.minimize(objective, x0, bounds=({"a": torch.full((3, 2), -1.0)}, 2.5), batched=True, slots=2)
    tensors = pwcf.minimize(flat, torch.cat([x0["a"], x0["b"][:, None]], 1), bounds=(None, 2.5), slots=2)
    assert together.x["a"].shape == (3, 2)
    assert together.x["b"].shape == (3,)
    assert together.status == tensors.status
    torch.testing.assert_close(together.objective, tensors.objective, rtol=1e-6, atol=0)
    with pytest.raises(ValueError, match=r"x0\['b'\].*3 rows"):
        pwcf.minimize(objective, x0 | {"b": torch.ones(2, dtype=F64)}, batched=True)


def test_noisy_starts_of_structures() -> None:
    x0 = {"a": torch.zeros(2, dtype=F64), "b": [torch.ones(2, 2)]}
    points = pwcf.noisy_starts(x0, 3, 0.5)
    assert points["a"].shape == (3, 2)
    assert points["b"][0].shape == (3, 2, 2)
    assert ((points["b"][0] - 1).abs() <= 0.5).all()
    assert points["b"][0].std() > 0.1

    def objective(x: dict[str, Any]) -> Tensor:
        return (x["a"] ** 2).sum() + (x["b"][0] ** 2).sum() + 1

    assert pwcf.minimize(objective, x0, restarts=pwcf.Restarts(points, 2)).converged
    with pytest.raises(ValueError, match=r"restarts.points.*\(3, 2\).*x0\['a'\].*\(3, 3\)"):
        pwcf.minimize(objective, x0, restarts=pwcf.Restarts(points | {"a": torch.zeros(3, 3)}, 2))


# ---- modules ------------------------------------------------------------------------------------------


def test_parameters_of_a_module() -> None:
    """A least-absolute-deviations fit with a constraint on the weights, and the frozen parameter left alone."""
    X = torch.randn(30, 2, dtype=F64)
    y = X @ torch.tensor([1.0, 2.0], dtype=F64) + 0.5
    model = nn.Sequential(nn.Linear(2, 1), nn.BatchNorm1d(1, affine=False)).double()
    model[0].register_parameter("frozen", nn.Parameter(torch.ones(1, dtype=F64), requires_grad=False))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    parameters = [id(parameter) for parameter in model.parameters()]

    def objective(m: nn.Module) -> Tensor:
        assert m is model
        m(X)  # in train mode batch norm updates its running mean
        return (model[0](X).squeeze(1) - y).abs().mean() + 1

    small = pwcf.ineq(lambda m: m[0].weight.abs().sum() - 2)
    solution = pwcf.minimize(objective, model, [small])
    assert solution.status is Status.CONVERGED
    assert set(solution.x) == {"0.weight", "0.bias"}
    assert solution.x["0.weight"].shape == (1, 2)
    assert abs(solution.x["0.weight"].abs().sum().item() - 2) < 1e-4
    after = model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert parameters == [id(parameter) for parameter in model.parameters()]
    assert all(parameter.grad is None for parameter in model.parameters())

    solution.load_into(model)
    assert torch.equal(model[0].weight, solution.x["0.weight"])
    assert math.isclose(objective(model).item(), solution.objective.item(), rel_tol=1e-12)
    with pytest.raises(ValueError, match=r"0\.weight"):
        solution.load_into(nn.Linear(2, 1))


def test_tied_and_recurrent_parameters() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(2, 2, bias=False)
            self.second = nn.Linear(2, 2, bias=False)
            self.second.weight = self.first.weight
            self.memory = nn.RNN(2, 1)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.memory(self.second(self.first(x)))[0]
            return out

    model, x = Tied().double(), torch.randn(4, 2, dtype=F64)
    seen: list[Tensor] = []

    def objective(m: nn.Module) -> Tensor:
        seen.append(m.second.weight.detach().clone())
        return (m(x) - 0.25).abs().sum() + 1

    start = objective(model)
    solution = pwcf.minimize(objective, model, max_iterations=30)
    assert set(solution.x) == {"first.weight"} | {f"memory.{name}" for name, _ in model.memory.named_parameters()}
    assert solution.objective < start - 0.1
    assert not torch.equal(seen[-1], seen[0])
    assert math.isclose(objective(model).item(), start.item(), rel_tol=1e-15)


# ---- errors and copies --------------------------------------------------------------------------------


def test_errors_of_one_problem_say_what_functions_get() -> None:
    with pytest.raises(ValueError, match=r"objective: expected one value.*found shape \(3,\)"):
        pwcf.minimize(lambda x: x**2, torch.zeros(3))
    with pytest.raises(IndexError) as caught:
        pwcf.minimize(lambda x: x.sum(1), torch.zeros(3))
    assert "objective: x0 is one problem, so functions get a tensor of shape (3,)" in caught.value.__notes__[0]
    with pytest.raises(TypeError, match=r"constraints\[0\] \(ineq\): expected a tensor.*float"):
        pwcf.minimize(lambda x: x.sum(), torch.zeros(3), [pwcf.ineq(lambda x: 1.0)])
    with pytest.raises(TypeError, match=r"x0\['b'\]\[1\].*int64"):
        pwcf.minimize(lambda x: x["a"].sum(), {"a": torch.zeros(3), "b": [torch.zeros(1), torch.zeros(2).long()]})
    with pytest.raises(ValueError, match=r"batched.*module"):
        pwcf.minimize(lambda m: m.weight.sum(), nn.Linear(1, 1), batched=True)


def test_solutions_can_be_pickled() -> None:
    solution = pwcf.minimize(lambda x: _distance(x) + 1, torch.zeros(3, dtype=F64), [pwcf.ineq(_ball)])
    bare = pickle.loads(pickle.dumps(solution))
    assert torch.equal(bare.x, solution.x)
    assert bare.status is solution.status
    with pytest.raises(RuntimeError, match="multipliers"):
        _ = bare.multipliers
    found = solution.multipliers
    assert torch.equal(pickle.loads(pickle.dumps(solution)).multipliers[0], found[0])
