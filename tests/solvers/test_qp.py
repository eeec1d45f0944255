"""The batched QP solver against SciPy, against its own duality gap, and row by row."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import LinearConstraint, minimize
from torch import Tensor

from pwcf.solvers.qp import solve_box_qp, solve_group_qp

GAP = 1e-7  # the data below have entries of size one, so that this is a relative accuracy too


def _gram(b: int, k: int, rank: int) -> Tensor:
    """Random positive semidefinite matrices (b, k, k) of the given rank."""
    factor = torch.randn(b, k, rank, dtype=torch.float64)
    return factor @ factor.mT / rank


def _vectors(b: int, k: int) -> Tensor:
    return torch.randn(b, k, dtype=torch.float64)


def _gradient(Q: Tensor, q: Tensor, z: Tensor) -> Tensor:
    return (Q @ z.unsqueeze(-1)).squeeze(-1) + q


def _value(Q: Tensor, q: Tensor, z: Tensor) -> Tensor:
    return 0.5 * (z * (_gradient(Q, q, z) + q)).sum(-1)


def _box_gap(Q: Tensor, q: Tensor, lower: Tensor, upper: Tensor, z: Tensor) -> Tensor:
    """Frank-Wolfe gap: at least the excess of z over the minimum, for convex Q."""
    gradient = _gradient(Q, q, z)
    best = torch.where(gradient > 0, lower, upper)
    return (gradient * (z - best)).sum(-1)


def _group_gap(Q: Tensor, q: Tensor, groups: Tensor, caps: Tensor, simplex: Tensor, mass: Tensor, z: Tensor) -> Tensor:
    """The same where each column is in one group or in the simplex."""
    gradient = _gradient(Q, q, z)
    far = torch.full_like(gradient, torch.inf)
    in_groups = torch.where(groups > 0, gradient.unsqueeze(1), far.unsqueeze(1)).amin(-1).clamp(max=0)
    least = (caps * in_groups).sum(-1)
    if bool((simplex > 0).any()):
        least = least + mass * torch.where(simplex > 0, gradient, far).amin(-1)
    return (gradient * z).sum(-1) - least


def _groups_of(b: int, owner: list[int]) -> Tensor:
    """(b, g, k) of 0/1 from the group number of each column (0: none)."""
    count = max(owner)
    matrix = torch.zeros(count, len(owner), dtype=torch.float64)
    for column, group in enumerate(owner):
        if group:
            matrix[group - 1, column] = 1
    return matrix.expand(b, -1, -1).clone()


def _assert_feasible(z: Tensor, groups: Tensor, caps: Tensor, simplex: Tensor, mass: Tensor) -> None:
    assert (z >= 0).all()
    assert ((groups * z.unsqueeze(1)).sum(-1) <= caps * (1 + 1e-12)).all()
    if bool((simplex > 0).any()):
        torch.testing.assert_close((simplex * z).sum(-1), mass, rtol=1e-9, atol=0)


@pytest.mark.parametrize(("k", "rank"), [(2, 2), (5, 5), (12, 12), (12, 3), (30, 4), (50, 50)])
def test_box_qp_reaches_the_minimum(k: int, rank: int) -> None:
    Q, q = _gram(20, k, rank), _vectors(20, k)
    lower = -torch.rand(20, k, dtype=torch.float64)
    upper = torch.rand(20, k, dtype=torch.float64) + 0.1
    z = solve_box_qp(Q, q, lower, upper)
    assert ((z >= lower) & (z <= upper)).all()
    assert _box_gap(Q, q, lower, upper, z).max() <= GAP


def test_box_qp_agrees_with_scipy() -> None:
    k = 6
    Q, q = _gram(8, k, k) + 0.1 * torch.eye(k, dtype=torch.float64), _vectors(8, k)
    lower, upper = torch.zeros_like(q), torch.ones_like(q)
    z = solve_box_qp(Q, q, lower, upper)
    for row in range(8):
        matrix, vector = Q[row].numpy(), q[row].numpy()
        found = minimize(
            lambda v, m=matrix, c=vector: 0.5 * v @ m @ v + c @ v,
            np.full(k, 0.5),
            jac=lambda v, m=matrix, c=vector: m @ v + c,
            bounds=[(0.0, 1.0)] * k,
            method="SLSQP",
            options={"ftol": 1e-15, "maxiter": 500},
        )
        np.testing.assert_allclose(z[row].numpy(), found.x, atol=1e-6)


@pytest.mark.parametrize("rank", [7, 2])
def test_simplex_and_groups_reach_the_minimum(rank: int) -> None:
    b, owner = 20, [0, 0, 0, 1, 1, 2, 3]
    k = len(owner)
    Q, q = _gram(b, k, rank), _vectors(b, k)
    groups = _groups_of(b, owner)
    caps = torch.rand(b, 3, dtype=torch.float64) + 0.1
    simplex = torch.tensor([[1.0] * 3 + [0.0] * 4], dtype=torch.float64).expand(b, -1)
    mass = torch.rand(b, dtype=torch.float64) + 0.1
    z = solve_group_qp(Q, q, groups, caps, simplex, mass)
    _assert_feasible(z, groups, caps, simplex, mass)
    assert _group_gap(Q, q, groups, caps, simplex, mass, z).max() <= GAP


def test_simplex_and_groups_agree_with_scipy() -> None:
    owner = [0, 0, 0, 1, 1, 2]
    b, k = 6, len(owner)
    Q, q = _gram(b, k, k) + 0.1 * torch.eye(k, dtype=torch.float64), _vectors(b, k)
    groups, caps = _groups_of(b, owner), torch.full((b, 2), 0.6, dtype=torch.float64)
    simplex = torch.tensor([[1.0, 1, 1, 0, 0, 0]], dtype=torch.float64).expand(b, -1)
    mass = torch.full((b,), 0.8, dtype=torch.float64)
    z = solve_group_qp(Q, q, groups, caps, simplex, mass)
    for row in range(b):
        matrix, vector = Q[row].numpy(), q[row].numpy()
        found = minimize(
            lambda v, m=matrix, c=vector: 0.5 * v @ m @ v + c @ v,
            np.array([0.8 / 3] * 3 + [0.1] * 3),
            jac=lambda v, m=matrix, c=vector: m @ v + c,
            bounds=[(0.0, None)] * k,
            constraints=[
                LinearConstraint(groups[row].numpy(), -np.inf, 0.6),
                LinearConstraint(simplex[row].numpy()[None], 0.8, 0.8),
            ],
            method="SLSQP",
            options={"ftol": 1e-15, "maxiter": 500},
        )
        np.testing.assert_allclose(z[row].numpy(), found.x, atol=1e-6)


def test_simplex_alone() -> None:
    b, k = 10, 8
    Q, q = _gram(b, k, 3), _vectors(b, k)
    groups, caps = torch.zeros(b, 0, k, dtype=torch.float64), torch.zeros(b, 0, dtype=torch.float64)
    simplex, mass = torch.ones_like(q), torch.ones(b, dtype=torch.float64)
    z = solve_group_qp(Q, q, groups, caps, simplex, mass)
    _assert_feasible(z, groups, caps, simplex, mass)
    assert _group_gap(Q, q, groups, caps, simplex, mass, z).max() <= GAP


def test_zero_matrix_is_a_linear_program() -> None:
    b, k = 5, 7
    Q, q = torch.zeros(b, k, k, dtype=torch.float64), _vectors(b, k)
    lower, upper = -torch.ones_like(q), 2 * torch.ones_like(q)
    z = solve_box_qp(Q, q, lower, upper)
    assert _box_gap(Q, q, lower, upper, z).max() <= GAP
    torch.testing.assert_close(z, torch.where(q > 0, lower, upper), rtol=0, atol=1e-6)


@pytest.mark.parametrize("copies", [2, 10])
def test_duplicate_columns(copies: int) -> None:
    b, k = 10, 4
    pick = torch.arange(k).repeat(copies)
    Q, q = _gram(b, k, k)[:, pick][:, :, pick], _vectors(b, k)[:, pick]
    lower, upper = torch.zeros_like(q), torch.ones_like(q)
    z = solve_box_qp(Q, q, lower, upper)
    assert _box_gap(Q, q, lower, upper, z).max() <= GAP
    # A column in as many copies is a column with as much room.
    room = copies * torch.ones(b, k, dtype=torch.float64)
    single = solve_box_qp(Q[:, :k, :k], q[:, :k], torch.zeros_like(room), room)
    torch.testing.assert_close(_value(Q, q, z), _value(Q[:, :k, :k], q[:, :k], single), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1e6, 1e12])
def test_accuracy_does_not_depend_on_units(scale: float) -> None:
    Q, q = _gram(10, 6, 6), _vectors(10, 6)
    lower, upper = torch.zeros_like(q), torch.ones_like(q)
    z = solve_box_qp(scale * Q, scale * q, lower, upper)
    assert _box_gap(Q, q, lower, upper, z).max() <= GAP


def test_one_column_is_solved_in_closed_form() -> None:
    Q = torch.tensor([2.0, 2.0, 2.0, 0.0, 0.0, 0.0], dtype=torch.float64).reshape(-1, 1, 1)
    q = torch.tensor([-1.0, -9.0, 9.0, 1.0, -1.0, 0.0], dtype=torch.float64).unsqueeze(-1)
    lower, upper = torch.full_like(q, -1.0), torch.full_like(q, 1.0)
    expected = torch.tensor([0.5, 1.0, -1.0, -1.0, 1.0, 0.0], dtype=torch.float64).unsqueeze(-1)
    assert torch.equal(solve_box_qp(Q, q, lower, upper), expected)
    # Where zero is not allowed and every point is as good, the answer is still in the box.
    flat = solve_box_qp(Q[-1:], q[-1:], lower[-1:] - 1, upper[-1:] - 1.5)
    assert -2 <= float(flat) <= -0.5


def test_empty_problems() -> None:
    none = torch.zeros(3, 0, dtype=torch.float64)
    assert solve_box_qp(torch.zeros(3, 0, 0, dtype=torch.float64), none, none, none).shape == (3, 0)
    no_rows = torch.zeros(0, 4, dtype=torch.float64)
    found = solve_box_qp(torch.zeros(0, 4, 4, dtype=torch.float64), no_rows, no_rows, no_rows + 1)
    assert found.shape == (0, 4)


@pytest.mark.parametrize("k", [1, 2, 7, 33])
def test_box_row_alone_is_the_row_in_the_batch(k: int) -> None:
    b = 9
    Q, q = _gram(b, k, max(1, k // 2)), _vectors(b, k)
    Q[0] *= 1e6  # rows that need different numbers of iterations
    q[1] = 0
    lower, upper = torch.zeros_like(q), torch.ones_like(q)
    together = solve_box_qp(Q, q, lower, upper)
    for row in range(b):
        one = slice(row, row + 1)
        assert torch.equal(solve_box_qp(Q[one], q[one], lower[one], upper[one])[0], together[row])
    back = torch.arange(b - 1, -1, -1)
    assert torch.equal(solve_box_qp(Q[back], q[back], lower[back], upper[back]), together[back])


def test_group_row_alone_is_the_row_in_the_batch() -> None:
    b, owner = 9, [0, 0, 0, 1, 1, 2, 3]
    k = len(owner)
    Q, q, groups = _gram(b, k, 3), _vectors(b, k), _groups_of(b, owner)
    caps = torch.rand(b, 3, dtype=torch.float64) + 0.1
    simplex = torch.tensor([[1.0] * 3 + [0.0] * 4], dtype=torch.float64).expand(b, -1)
    mass = torch.rand(b, dtype=torch.float64) + 0.1
    together = solve_group_qp(Q, q, groups, caps, simplex, mass)
    for row in range(b):
        one = slice(row, row + 1)
        alone = solve_group_qp(Q[one], q[one], groups[one], caps[one], simplex[one], mass[one])
        assert torch.equal(alone[0], together[row])


def _bundle(b: int, k: int, n: int) -> tuple[torch.Tensor, ...]:
    """A program as a bundle has it: k // 2 columns on a simplex, the others in one group."""
    simplex = torch.zeros(b, k, dtype=torch.float64)
    simplex[:, : k // 2] = 1
    groups = (1 - simplex).unsqueeze(1)
    cost = torch.rand(b, k, dtype=torch.float64)
    cost[:, 0] = 0
    return _gram(b, k, n), cost, groups, torch.ones(b, 1, dtype=torch.float64), simplex, cost.new_full((b,), 0.7)


@pytest.mark.parametrize("likely", [1, 10, 59])
def test_likely_columns_change_the_work_and_not_the_answer(likely: int) -> None:
    Q, q, groups, caps, simplex, mass = _bundle(8, 60, 20)
    whole = solve_group_qp(Q, q, groups, caps, simplex, mass)
    z = solve_group_qp(Q, q, groups, caps, simplex, mass, torch.full((8,), likely))

    def value(z: torch.Tensor) -> torch.Tensor:
        return 0.5 * torch.einsum("bi,bij,bj->b", z, Q, z) + (q * z).sum(1)

    assert ((z * simplex).sum(1) - mass).abs().max() <= 1e-12
    assert (z >= 0).all()
    assert (z * groups[:, 0]).sum(1).max() <= 1 + 1e-12
    assert (value(z) <= value(whole) + 1e-3 * value(whole).abs()).all()


def test_likely_columns_keep_the_batch_law() -> None:
    Q, q, groups, caps, simplex, mass = _bundle(7, 60, 20)
    likely = torch.tensor([1, 5, 20, 30, 50, 59, 60])
    together = solve_group_qp(Q, q, groups, caps, simplex, mass, likely)
    for row in range(7):
        one = slice(row, row + 1)
        alone = solve_group_qp(Q[one], q[one], groups[one], caps[one], simplex[one], mass[one], likely[one])
        assert torch.equal(alone[0], together[row])
