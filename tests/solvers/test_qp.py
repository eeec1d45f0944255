"""The batched QP solver against SciPy, against its own duality gap, and row by row."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import LinearConstraint, minimize

from pwcf.solvers import qp
from pwcf.solvers.qp import active_set, box, solve_box_qp, solve_group_qp
from pwcf.solvers.qp.program import Array

GAP = 1e-7  # the data below have entries of size one, so that this is a relative accuracy too


def _normal(*shape: int) -> Array:
    return torch.randn(*shape, dtype=torch.float64).numpy()


def _uniform(*shape: int) -> Array:
    return torch.rand(*shape, dtype=torch.float64).numpy()


def _gram(b: int, k: int, rank: int) -> Array:
    """Random positive semidefinite matrices (b, k, k) of the given rank."""
    factor = _normal(b, k, rank)
    return factor @ factor.swapaxes(1, 2) / rank


def _vectors(b: int, k: int) -> Array:
    return _normal(b, k)


def _gradient(Q: Array, q: Array, z: Array) -> Array:
    return (Q @ z[..., None])[..., 0] + q


def _value(Q: Array, q: Array, z: Array) -> Array:
    return 0.5 * (z * (_gradient(Q, q, z) + q)).sum(-1)


def _box_gap(Q: Array, q: Array, lower: Array, upper: Array, z: Array) -> Array:
    """Frank-Wolfe gap: at least the excess of z over the minimum, for convex Q."""
    gradient = _gradient(Q, q, z)
    best = np.where(gradient > 0, lower, upper)
    return (gradient * (z - best)).sum(-1)


def _group_gap(Q: Array, q: Array, groups: Array, caps: Array, simplex: Array, mass: Array, z: Array) -> Array:
    """The same where each column is in one group or in the simplex."""
    gradient = _gradient(Q, q, z)
    far = np.full_like(gradient, np.inf)
    in_groups = np.where(groups > 0, gradient[:, None], far[:, None]).min(-1)
    least = (caps * np.minimum(in_groups, 0)).sum(-1)
    if bool((simplex > 0).any()):
        least = least + mass * np.where(simplex > 0, gradient, far).min(-1)
    return (gradient * z).sum(-1) - least


def _groups_of(b: int, owner: list[int]) -> Array:
    """(b, g, k) of 0/1 from the group number of each column (0: none)."""
    count = max(owner)
    matrix = np.zeros((count, len(owner)))
    for column, group in enumerate(owner):
        if group:
            matrix[group - 1, column] = 1
    return np.tile(matrix, (b, 1, 1))


def _assert_feasible(z: Array, groups: Array, caps: Array, simplex: Array, mass: Array) -> None:
    assert (z >= 0).all()
    assert ((groups * z[:, None]).sum(-1) <= caps * (1 + 1e-12)).all()
    if bool((simplex > 0).any()):
        np.testing.assert_allclose((simplex * z).sum(-1), mass, rtol=1e-9, atol=0)


@pytest.mark.parametrize(("k", "rank"), [(2, 2), (5, 5), (12, 12), (12, 3), (30, 4), (50, 50)])
def test_box_qp_reaches_the_minimum(k: int, rank: int) -> None:
    Q, q = _gram(20, k, rank), _vectors(20, k)
    lower = -_uniform(20, k)
    upper = _uniform(20, k) + 0.1
    z = solve_box_qp(Q, q, lower, upper)
    assert ((z >= lower) & (z <= upper)).all()
    assert _box_gap(Q, q, lower, upper, z).max() <= GAP


def test_box_qp_agrees_with_scipy() -> None:
    k = 6
    Q, q = _gram(8, k, k) + 0.1 * np.eye(k), _vectors(8, k)
    lower, upper = np.zeros_like(q), np.ones_like(q)
    z = solve_box_qp(Q, q, lower, upper)
    for row in range(8):
        matrix, vector = Q[row], q[row]
        found = minimize(
            lambda v, m=matrix, c=vector: 0.5 * v @ m @ v + c @ v,
            np.full(k, 0.5),
            jac=lambda v, m=matrix, c=vector: m @ v + c,
            bounds=[(0.0, 1.0)] * k,
            method="SLSQP",
            options={"ftol": 1e-15, "maxiter": 500},
        )
        np.testing.assert_allclose(z[row], found.x, atol=1e-6)


def _sqp_dual(b: int, n: int, p: int) -> tuple[Array, ...]:
    """The dual of a penalty SQP step with bounds: columns (h, -I, I), of rank n, and many multipliers without a cap."""
    eye = np.tile(np.eye(n), (b, 1, 1))
    V = np.concatenate([_normal(b, p, n), -eye, eye], 1)
    room = _uniform(b, 2 * n) * (_uniform(b, 2 * n) < 0.5)
    H = _gram(b, n, 2 * n) + 0.05 * eye
    slope = (V @ H @ _normal(b, n, 1))[..., 0]
    q = slope + np.concatenate([_vectors(b, p), room], 1)
    upper = np.concatenate([np.ones((b, p)), np.full((b, 2 * n), np.inf)], 1)
    lower = np.zeros_like(upper)
    lower[:, 0] = -1  # an equality
    return V @ H @ V.swapaxes(1, 2), q, lower, upper


def _assert_stationary(Q: Array, q: Array, lower: Array, upper: Array, z: Array) -> None:
    """z is feasible and no entry that can move has a gradient that moves it."""
    assert ((z >= lower) & (z <= upper)).all()
    gradient = _gradient(Q, q, z)
    wrong = z - np.maximum(np.minimum(z - gradient, upper), lower)
    size = 1 + np.abs(z).sum(-1, keepdims=True) * Q.diagonal(axis1=1, axis2=2).max(-1, keepdims=True)
    assert (np.abs(wrong) / size).max() <= 1e-9


@pytest.mark.parametrize(("n", "p"), [(1, 1), (2, 1), (4, 2), (10, 3), (12, 12)])
def test_box_without_caps(n: int, p: int) -> None:
    Q, q, lower, upper = _sqp_dual(30, n, p)
    _assert_stationary(Q, q, lower, upper, solve_box_qp(Q, q, lower, upper))


@pytest.mark.parametrize("steps", [0, 10])
@pytest.mark.parametrize(("k", "rank"), [(2, 2), (2, 1), (4, 4), (7, 3), (30, 10)])
def test_box_with_entries_that_have_no_bound(k: int, rank: int, steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With 0 Newton steps all rows are left to the interior point method."""
    monkeypatch.setattr(box, "MAX_NEWTON_STEPS", steps)
    b = 20
    Q, x = _gram(b, k, rank), _vectors(b, k)
    q = _gradient(Q, np.zeros_like(x), x)  # in the range of Q, so that there is a minimum
    lower = np.where(_uniform(b, k) < 0.4, -np.inf, _vectors(b, k))
    upper = np.where(_uniform(b, k) < 0.4, np.inf, _vectors(b, k) + 3)
    upper = np.maximum(lower, upper)
    lower[3:6, 0] = upper[3:6, 0] = 0.5
    z = solve_box_qp(Q, q, lower, upper)
    # The interior point method ends by the complementarity of all entries, so that single ones are less exact.
    gradient = _gradient(Q, q, z)
    wrong = z - np.maximum(np.minimum(z - gradient, upper), lower)
    assert np.abs(wrong).max() <= (1e-5 if steps == 0 else 1e-9)


def test_box_agrees_with_the_interior_point_method(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [(_gram(20, k, rank), _vectors(20, k)) for k, rank in ((3, 3), (6, 2), (20, 20), (30, 5))]
    found = [solve_box_qp(Q, q, -np.ones_like(q), np.ones_like(q)) for Q, q in cases]
    monkeypatch.setattr(box, "MAX_NEWTON_STEPS", 0)
    for (Q, q), z in zip(cases, found, strict=True):
        interior = solve_box_qp(Q, q, -np.ones_like(q), np.ones_like(q))
        np.testing.assert_allclose(_value(Q, q, z), _value(Q, q, interior), rtol=1e-9, atol=1e-9)


def test_box_with_columns_of_zeros_and_opposite_columns() -> None:
    b, n = 12, 4
    V = _normal(b, 5, n)
    V = np.concatenate([V, np.zeros((b, 3, n)), -V[:, :2], V[:, :2]], 1)
    Q, q = V @ V.swapaxes(1, 2), _vectors(b, 12)
    q[:, 5:8] = np.array([1e-20, -1e-20, 0.0])
    lower, upper = np.full_like(q, -2.0), np.full_like(q, 3.0)
    z = solve_box_qp(Q, q, lower, upper)
    assert np.array_equal(z[:, 5:7], np.tile([-2.0, 3.0], (b, 1)))
    _assert_stationary(Q, q, lower, upper, z)


def test_box_that_rounding_has_made_indefinite() -> None:
    V = _normal(10, 12, 3).astype(np.float32)
    Q, q = (V @ V.swapaxes(1, 2)).astype(np.float64), _vectors(10, 12)
    assert np.linalg.eigvalsh(Q).min() < -1e-9
    lower, upper = np.zeros_like(q), np.ones_like(q)
    z = solve_box_qp(Q, q, lower, upper)
    assert _box_gap(Q, q, lower, upper, z).max() <= 1e-5


def test_box_starts_from_a_point(monkeypatch: pytest.MonkeyPatch) -> None:
    Q, q, lower, upper = _sqp_dual(10, 6, 3)
    z = solve_box_qp(Q, q, lower, upper)

    def never(*_: object) -> None:
        raise AssertionError("a solution needs no step")

    monkeypatch.setattr(box, "_newton_step", never)
    np.testing.assert_allclose(solve_box_qp(Q, q, lower, upper, z), z, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("steps", [2, 10])
def test_box_row_without_caps_alone_is_the_row_in_the_batch(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(box, "MAX_NEWTON_STEPS", steps)  # 2: some rows need the interior point method, some do not
    b = 9
    Q, q, lower, upper = _sqp_dual(b, 4, 3)
    q[4], lower[4:6, 0], upper[4:6, 0] = 0, -np.inf, np.inf
    together = solve_box_qp(Q, q, lower, upper)
    for row in range(b):
        one = slice(row, row + 1)
        assert np.array_equal(solve_box_qp(Q[one], q[one], lower[one], upper[one])[0], together[row])


@pytest.mark.parametrize("rank", [7, 2])
def test_simplex_and_groups_reach_the_minimum(rank: int) -> None:
    b, owner = 20, [0, 0, 0, 1, 1, 2, 3]
    k = len(owner)
    Q, q = _gram(b, k, rank), _vectors(b, k)
    groups = _groups_of(b, owner)
    caps = _uniform(b, 3) + 0.1
    simplex = np.tile([1.0] * 3 + [0.0] * 4, (b, 1))
    mass = _uniform(b) + 0.1
    z = solve_group_qp(Q, q, groups, caps, simplex, mass)
    _assert_feasible(z, groups, caps, simplex, mass)
    assert _group_gap(Q, q, groups, caps, simplex, mass, z).max() <= GAP


def test_simplex_and_groups_agree_with_scipy() -> None:
    owner = [0, 0, 0, 1, 1, 2]
    b, k = 6, len(owner)
    Q, q = _gram(b, k, k) + 0.1 * np.eye(k), _vectors(b, k)
    groups, caps = _groups_of(b, owner), np.full((b, 2), 0.6)
    simplex = np.tile([1.0, 1, 1, 0, 0, 0], (b, 1))
    mass = np.full(b, 0.8)
    z = solve_group_qp(Q, q, groups, caps, simplex, mass)
    for row in range(b):
        matrix, vector = Q[row], q[row]
        found = minimize(
            lambda v, m=matrix, c=vector: 0.5 * v @ m @ v + c @ v,
            np.array([0.8 / 3] * 3 + [0.1] * 3),
            jac=lambda v, m=matrix, c=vector: m @ v + c,
            bounds=[(0.0, None)] * k,
            constraints=[
                LinearConstraint(groups[row], -np.inf, 0.6),
                LinearConstraint(simplex[row][None], 0.8, 0.8),
            ],
            method="SLSQP",
            options={"ftol": 1e-15, "maxiter": 500},
        )
        np.testing.assert_allclose(z[row], found.x, atol=1e-6)


def test_simplex_alone() -> None:
    b, k = 10, 8
    Q, q = _gram(b, k, 3), _vectors(b, k)
    groups, caps = np.zeros((b, 0, k)), np.zeros((b, 0))
    simplex, mass = np.ones_like(q), np.ones(b)
    z = solve_group_qp(Q, q, groups, caps, simplex, mass)
    _assert_feasible(z, groups, caps, simplex, mass)
    assert _group_gap(Q, q, groups, caps, simplex, mass, z).max() <= GAP


def test_zero_matrix_is_a_linear_program() -> None:
    b, k = 5, 7
    Q, q = np.zeros((b, k, k)), _vectors(b, k)
    lower, upper = -np.ones_like(q), 2 * np.ones_like(q)
    z = solve_box_qp(Q, q, lower, upper)
    assert _box_gap(Q, q, lower, upper, z).max() <= GAP
    np.testing.assert_allclose(z, np.where(q > 0, lower, upper), rtol=0, atol=1e-6)


@pytest.mark.parametrize("copies", [2, 10])
def test_duplicate_columns(copies: int) -> None:
    b, k = 10, 4
    pick = np.tile(np.arange(k), copies)
    Q, q = _gram(b, k, k)[:, pick][:, :, pick], _vectors(b, k)[:, pick]
    lower, upper = np.zeros_like(q), np.ones_like(q)
    z = solve_box_qp(Q, q, lower, upper)
    assert _box_gap(Q, q, lower, upper, z).max() <= GAP
    # A column in as many copies is a column with as much room.
    room = copies * np.ones((b, k))
    single = solve_box_qp(Q[:, :k, :k], q[:, :k], np.zeros_like(room), room)
    np.testing.assert_allclose(_value(Q, q, z), _value(Q[:, :k, :k], q[:, :k], single), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1e6, 1e12])
def test_accuracy_does_not_depend_on_units(scale: float) -> None:
    Q, q = _gram(10, 6, 6), _vectors(10, 6)
    lower, upper = np.zeros_like(q), np.ones_like(q)
    z = solve_box_qp(scale * Q, scale * q, lower, upper)
    assert _box_gap(Q, q, lower, upper, z).max() <= GAP


def test_one_column_is_solved_in_closed_form() -> None:
    Q = np.array([2.0, 2.0, 2.0, 0.0, 0.0, 0.0]).reshape(-1, 1, 1)
    q = np.array([-1.0, -9.0, 9.0, 1.0, -1.0, 0.0])[..., None]
    lower, upper = np.full_like(q, -1.0), np.full_like(q, 1.0)
    expected = np.array([0.5, 1.0, -1.0, -1.0, 1.0, 0.0])[..., None]
    assert np.array_equal(solve_box_qp(Q, q, lower, upper), expected)
    # Where zero is not allowed and every point is as good, the answer is still in the box.
    flat = solve_box_qp(Q[-1:], q[-1:], lower[-1:] - 1, upper[-1:] - 1.5)
    assert -2 <= flat.item() <= -0.5


def test_empty_problems() -> None:
    none = np.zeros((3, 0))
    assert solve_box_qp(np.zeros((3, 0, 0)), none, none, none).shape == (3, 0)
    no_rows = np.zeros((0, 4))
    found = solve_box_qp(np.zeros((0, 4, 4)), no_rows, no_rows, no_rows + 1)
    assert found.shape == (0, 4)


@pytest.mark.parametrize("k", [1, 2, 7, 33])
def test_box_row_alone_is_the_row_in_the_batch(k: int) -> None:
    b = 9
    Q, q = _gram(b, k, max(1, k // 2)), _vectors(b, k)
    Q[0] *= 1e6  # rows that need different numbers of iterations
    q[1] = 0
    lower, upper = np.zeros_like(q), np.ones_like(q)
    together = solve_box_qp(Q, q, lower, upper)
    for row in range(b):
        one = slice(row, row + 1)
        assert np.array_equal(solve_box_qp(Q[one], q[one], lower[one], upper[one])[0], together[row])
    back = np.arange(b - 1, -1, -1)
    assert np.array_equal(solve_box_qp(Q[back], q[back], lower[back], upper[back]), together[back])


def test_group_row_alone_is_the_row_in_the_batch() -> None:
    b, owner = 9, [0, 0, 0, 1, 1, 2, 3]
    k = len(owner)
    Q, q, groups = _gram(b, k, 3), _vectors(b, k), _groups_of(b, owner)
    caps = _uniform(b, 3) + 0.1
    simplex = np.tile([1.0] * 3 + [0.0] * 4, (b, 1))
    mass = _uniform(b) + 0.1
    together = solve_group_qp(Q, q, groups, caps, simplex, mass)
    for row in range(b):
        one = slice(row, row + 1)
        alone = solve_group_qp(Q[one], q[one], groups[one], caps[one], simplex[one], mass[one])
        assert np.array_equal(alone[0], together[row])


def _bundle(b: int, k: int, n: int) -> tuple[Array, ...]:
    """A program as a bundle has it: k // 2 columns on a simplex, the others in one group."""
    simplex = np.zeros((b, k))
    simplex[:, : k // 2] = 1
    groups = (1 - simplex)[:, None]
    cost = _uniform(b, k)
    cost[:, 0] = 0
    return _gram(b, k, n), cost, groups, np.ones((b, 1)), simplex, np.full(b, 0.7)


def _kink(b: int, k: int, n: int) -> tuple[Array, ...]:
    """As near a kink in float32: columns nearly alike, copies, one of zeros, one of no group; costs from 0 to 1e-9."""
    V = (np.repeat(_normal(b, 1, n), k, 1) + 0.1 * _normal(b, k, n)).astype(np.float32)
    V[:, 1], V[:, 2], V[:, -1] = V[:, 0], 0, V[:, 0]
    Q = (V @ V.swapaxes(1, 2)).astype(np.float64) * (1 + 1e-8 * _normal(b, k, k))  # symmetric to float32 only
    q = 1e-9 * _uniform(b, k)
    q[:, 0] = 0
    simplex, groups = np.zeros((b, k)), np.zeros((b, 2, k))
    simplex[:, : k // 2], groups[:, 0, k // 2 : -4], groups[:, 1, -4:-1] = 1, 1, 1
    q[:, -1] = 1  # an empty column
    return Q, q, groups, np.full((b, 2), 0.3), simplex, np.full(b, 0.7)


@pytest.mark.parametrize(("k", "n"), [(24, 3), (90, 40)])
def test_pivots_give_all_digits_of_a_kink(k: int, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("the active set method solves all rows")

    monkeypatch.setattr(qp, "solve_by_interior_point", never)
    Q, q, groups, caps, simplex, mass = _kink(20, k, n)
    z = solve_group_qp(Q, q, groups, caps, simplex, mass)
    _assert_feasible(z, groups, caps, simplex, mass)
    gap = _group_gap(0.5 * (Q + Q.swapaxes(1, 2)), q, groups, caps, simplex, mass, z)
    assert (gap <= 1e-13 * (Q.diagonal(axis1=1, axis2=2) * z).sum(-1)).all()
    assert ((z > 0).sum(1) <= n + 1 + 2).all()


def test_value_far_below_the_entries_is_found() -> None:
    """As in the bound of the stopping test: the columns cancel, so that the costs alone decide."""
    V = _normal(30, 20, 2)
    Q, q = V @ V.swapaxes(1, 2), 1e-8 * _uniform(30, 20)
    program = (Q, q, np.zeros((30, 0, 20)), np.zeros((30, 0)), np.ones_like(q), np.ones(30))
    z = solve_group_qp(*program)
    least = _value(Q, q, z)
    assert (least < 1e-8).all()
    assert (_group_gap(*program, z) <= 1e-5 * least).all()


@pytest.mark.parametrize("pivots", [0, 3])
def test_pivots_and_interior_points_agree(pivots: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With no pivots all rows are left to the interior point method."""
    cases = [_bundle(20, k, rank) for k, rank in ((6, 6), (20, 3), (40, 20))]
    monkeypatch.setattr(active_set, "MAX_PIVOTS", pivots)
    for Q, q, groups, caps, simplex, mass in cases:
        z = solve_group_qp(Q, q, groups, caps, simplex, mass)
        _assert_feasible(z, groups, caps, simplex, mass)
        assert _group_gap(Q, q, groups, caps, simplex, mass, z).max() <= 1e-11


def test_cap_that_is_reached_and_left_again() -> None:
    """The first column fills its group; a better one of the same group takes its place, and a third goes further."""
    V = np.array([[[3.0, 0.0], [-2.0, 0.1], [-2.5, -0.1], [0.0, 1.0]]])
    q, groups = np.array([[0.0, -1.0, 0.2, 0.3]]), np.array([[[0.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]]])
    Q, simplex = V @ V.swapaxes(1, 2), np.array([[1.0, 0, 0, 0]])
    for cap in (0.1, 0.5, 1.1, 1.3, 5.0):
        caps, mass = np.array([[cap, 1.0]]), np.ones(1)
        z = solve_group_qp(Q, q, groups, caps, simplex, mass)
        _assert_feasible(z, groups, caps, simplex, mass)
        assert _group_gap(Q, q, groups, caps, simplex, mass, z) <= 1e-12


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_bad_numbers_end_and_harm_no_other_row(bad: float) -> None:
    Q, q, groups, caps, simplex, mass = _bundle(6, 12, 4)
    lower, upper = np.zeros_like(q), np.ones_like(q)
    good, good_box = solve_group_qp(Q, q, groups, caps, simplex, mass), solve_box_qp(Q, q, lower, upper)
    Q[1, 3, :] = Q[1, :, 3] = bad
    q[2, 5] = bad
    simplex[4] = 0
    others = [0, 3, 5]
    assert np.array_equal(solve_group_qp(Q, q, groups, caps, simplex, mass)[others], good[others])
    assert np.array_equal(solve_box_qp(Q, q, lower, upper)[others], good_box[others])


@pytest.mark.parametrize(("k", "pivots"), [(7, 3), (16, 3), (31, 3), (31, 0.5), (80, 3)])
def test_bundle_row_alone_is_the_row_in_the_batch(k: int, pivots: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """More rows than are worked on at once; with few pivots some rows need the interior point method."""
    monkeypatch.setattr(active_set, "MAX_PIVOTS", pivots)
    b = 21
    program = [np.concatenate(arrays) for arrays in zip(_bundle(b - 9, k, 6), _kink_with_one_group(9, k), strict=True)]
    together = solve_group_qp(*program)
    for row in range(b):
        assert np.array_equal(solve_group_qp(*(array[row : row + 1] for array in program))[0], together[row])
    back = np.arange(b - 1, 2, -2)
    assert np.array_equal(solve_group_qp(*(array[back] for array in program)), together[back])


def _kink_with_one_group(b: int, k: int) -> tuple[Array, ...]:
    Q, q, groups, caps, simplex, mass = _kink(b, k, 3)
    return Q, q, groups[:, :1], caps[:, :1], simplex, mass


@pytest.mark.parametrize("likely", [1, 10, 149])
def test_likely_columns_change_the_work_and_not_the_answer(likely: int) -> None:
    Q, q, groups, caps, simplex, mass = _bundle(8, 150, 20)
    whole = solve_group_qp(Q, q, groups, caps, simplex, mass)
    z = solve_group_qp(Q, q, groups, caps, simplex, mass, np.full(8, likely))

    def value(z: Array) -> Array:
        return 0.5 * np.einsum("bi,bij,bj->b", z, Q, z) + (q * z).sum(1)

    assert np.abs((z * simplex).sum(1) - mass).max() <= 1e-12
    assert (z >= 0).all()
    assert (z * groups[:, 0]).sum(1).max() <= 1 + 1e-12
    assert (value(z) <= value(whole) + 1e-3 * np.abs(value(whole))).all()


def test_likely_columns_keep_the_batch_law() -> None:
    Q, q, groups, caps, simplex, mass = _bundle(7, 150, 20)
    likely = np.array([1, 5, 20, 30, 90, 149, 150])
    together = solve_group_qp(Q, q, groups, caps, simplex, mass, likely)
    for row in range(7):
        one = slice(row, row + 1)
        alone = solve_group_qp(Q[one], q[one], groups[one], caps[one], simplex[one], mass[one], likely[one])
        assert np.array_equal(alone[0], together[row])
