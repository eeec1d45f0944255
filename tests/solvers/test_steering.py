"""Steering: multipliers of the penalty subproblem, and a penalty parameter that is never raised."""

from __future__ import annotations

import numpy as np
import pytest

from pwcf.solvers.constraints import total_violation
from pwcf.solvers.host import Array
from pwcf.solvers.steering import SUFFICIENT, Steered, steer

INEQUALITY, EQUALITY = np.array([False]), np.array([True])


def _steer(gradients: Array, c: Array, mu: float, equality: Array) -> tuple[Steered, Array]:
    """Steering with H = I for gradients (r, 1+p, n), and the direction it means."""
    lower = np.where(equality, -1.0, np.zeros_like(c))
    gram = gradients @ gradients.transpose(0, 2, 1)
    found = steer(gram, c, lower, np.ones_like(c), np.full(len(c), mu), equality)
    weights = np.concatenate([found.mu[:, None], found.multipliers], -1)
    return found, -(weights[..., None] * gradients).sum(1)


def _random(r: int, p: int, n: int) -> tuple[Array, Array]:
    generator = np.random.default_rng(0)
    gradients = generator.standard_normal((r, 1 + p, n))
    return gradients / np.linalg.norm(gradients, axis=-1, keepdims=True), generator.standard_normal((r, p))


def test_violation() -> None:
    values = np.array([[1.0, -2.0, -3.0]])
    sense = np.array([False, False, True])
    assert total_violation(values, sense).tolist() == [4.0]


def test_without_constraints_it_is_steepest_descent() -> None:
    gradients, c = _random(4, 0, 3)
    found, direction = _steer(gradients, c, 0.7, np.zeros(0, dtype=bool))
    np.testing.assert_allclose(direction, -0.7 * gradients[:, 0], rtol=1e-7)
    assert found.multipliers.shape == (4, 0)
    assert (found.mu == 0.7).all()


def test_far_constraints_do_not_matter() -> None:
    gradients, c = _random(6, 3, 4)
    found, direction = _steer(gradients, -9 - np.abs(c), 0.7, INEQUALITY.repeat(3))
    np.testing.assert_allclose(direction, -0.7 * gradients[:, 0], rtol=0, atol=1e-7)
    assert (found.multipliers <= 1e-7).all()
    assert (found.mu == 0.7).all()


@pytest.mark.parametrize("sense", [INEQUALITY, EQUALITY])
def test_reported_changes_are_those_of_the_direction(sense: Array) -> None:
    gradients, c = _random(20, 3, 5)
    equality = sense.repeat(3)
    found, direction = _steer(gradients, c, 0.7, equality)
    change = (gradients * direction[:, None]).sum(-1)
    ahead = total_violation(c + change[:, 1:], equality)
    np.testing.assert_allclose(found.violation_ahead, ahead, atol=1e-12)
    np.testing.assert_allclose(
        found.promise, found.mu * change[:, 0] + ahead - total_violation(c, equality), atol=1e-12
    )
    assert (np.abs(found.multipliers) <= 1).all()
    assert (found.mu <= 0.7).all()
    assert bool(sense) or (found.multipliers >= 0).all()


@pytest.mark.parametrize("sense", [INEQUALITY, EQUALITY])
def test_direction_minimises_the_penalty_model(sense: Array) -> None:
    """No other direction is better for  mu g'd + sum |c + h'd|_+ + |d|^2 / 2."""
    gradients, c = _random(10, 2, 4)
    equality = sense.repeat(2)
    found, direction = _steer(gradients, c, 0.7, equality)

    def model(d: Array) -> Array:
        change = (gradients * d[:, None]).sum(-1)
        return found.mu * change[:, 0] + total_violation(c + change[:, 1:], equality) + 0.5 * (d**2).sum(-1)

    least, generator = model(direction), np.random.default_rng(1)
    for size in (1e-3, 1e-2, 1e-1, 1.0):
        for _ in range(50):
            assert (model(direction + size * generator.standard_normal(direction.shape)) >= least - 1e-8).all()


def test_penalty_parameter_falls_where_the_objective_blocks() -> None:
    """c = x + 1 is violated at 0, f = -x pulls away from it: mu = 4 is too much, 0.1 is not."""
    gradients = np.array([[[-1.0], [1.0]]])
    c = np.array([[1.0]])
    lowered, direction = _steer(gradients, c, 1.4, INEQUALITY)
    assert lowered.mu.item() < 1.4
    assert c.item() - lowered.violation_ahead.item() >= SUFFICIENT * c.item()
    assert direction.item() < 0
    kept, _ = _steer(gradients, c, 0.1, INEQUALITY)
    assert kept.mu.item() == 0.1


def test_penalty_parameter_stays_where_violation_cannot_fall() -> None:
    """A constraint without a gradient cannot be helped by lowering mu."""
    gradients = np.array([[[-1.0], [0.0]]])
    found, _ = _steer(gradients, np.array([[1.0]]), 0.7, INEQUALITY)
    assert found.mu.item() == 0.7


def test_row_alone_is_the_row_in_the_batch() -> None:
    gradients, c = _random(12, 3, 4)
    equality = np.array([False, True, False])
    together, _ = _steer(gradients, 3 * c, 2.0, equality)
    assert (together.mu < 2.0).any()
    assert (together.mu == 2.0).any()
    for row in range(12):
        one = slice(row, row + 1)
        alone, _ = _steer(gradients[one], 3 * c[one], 2.0, equality)
        for left, right in zip(alone, together, strict=True):
            assert np.array_equal(left[0], right[row])
