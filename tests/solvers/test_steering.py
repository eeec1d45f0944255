"""Steering: multipliers of the penalty subproblem, and a penalty parameter that is never raised."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pwcf.solvers.constraints import total_violation
from pwcf.solvers.steering import SUFFICIENT, Steered, steer

INEQUALITY, EQUALITY = torch.tensor([False]), torch.tensor([True])


def _steer(gradients: Tensor, c: Tensor, mu: float, equality: Tensor) -> tuple[Steered, Tensor]:
    """Steering with H = I for gradients (r, 1+p, n), and the direction it means."""
    start = torch.full((len(c),), mu, dtype=torch.float64)
    found = steer(gradients @ gradients.mT, c, start, equality)
    weights = torch.cat([found.mu.unsqueeze(-1), found.multipliers], -1)
    return found, -(weights.unsqueeze(-1) * gradients).sum(1)


def _random(r: int, p: int, n: int) -> tuple[Tensor, Tensor]:
    gradients = torch.randn(r, 1 + p, n, dtype=torch.float64)
    gradients = gradients / torch.linalg.vector_norm(gradients, dim=-1, keepdim=True)
    return gradients, torch.randn(r, p, dtype=torch.float64)


def test_violation() -> None:
    values = torch.tensor([[1.0, -2.0, -3.0]], dtype=torch.float64)
    sense = torch.tensor([False, False, True])
    assert float(total_violation(values, sense)) == 4.0


def test_without_constraints_it_is_steepest_descent() -> None:
    gradients, c = _random(4, 0, 3)
    found, direction = _steer(gradients, c, 0.7, torch.zeros(0, dtype=torch.bool))
    torch.testing.assert_close(direction, -0.7 * gradients[:, 0])
    assert found.multipliers.shape == (4, 0)
    assert (found.mu == 0.7).all()


def test_far_constraints_do_not_matter() -> None:
    gradients, c = _random(6, 3, 4)
    found, direction = _steer(gradients, -9 - c.abs(), 0.7, INEQUALITY.repeat(3))
    torch.testing.assert_close(direction, -0.7 * gradients[:, 0], rtol=0, atol=1e-7)
    assert (found.multipliers <= 1e-7).all()
    assert (found.mu == 0.7).all()


@pytest.mark.parametrize("sense", [INEQUALITY, EQUALITY])
def test_reported_changes_are_those_of_the_direction(sense: Tensor) -> None:
    gradients, c = _random(20, 3, 5)
    equality = sense.repeat(3)
    found, direction = _steer(gradients, c, 0.7, equality)
    change = (gradients * direction.unsqueeze(1)).sum(-1)
    torch.testing.assert_close(found.change_f, change[:, 0])
    torch.testing.assert_close(found.violation_ahead, total_violation(c + change[:, 1:], equality))
    assert (found.multipliers.abs() <= 1).all()
    assert (found.mu <= 0.7).all()
    assert bool(sense) or (found.multipliers >= 0).all()


@pytest.mark.parametrize("sense", [INEQUALITY, EQUALITY])
def test_direction_minimises_the_penalty_model(sense: Tensor) -> None:
    """No other direction is better for  mu g'd + sum |c + h'd|_+ + |d|^2 / 2."""
    gradients, c = _random(10, 2, 4)
    equality = sense.repeat(2)
    found, direction = _steer(gradients, c, 0.7, equality)

    def model(d: Tensor) -> Tensor:
        change = (gradients * d.unsqueeze(1)).sum(-1)
        return found.mu * change[:, 0] + total_violation(c + change[:, 1:], equality) + 0.5 * (d**2).sum(-1)

    least = model(direction)
    for size in (1e-3, 1e-2, 1e-1, 1.0):
        for _ in range(50):
            assert (model(direction + size * torch.randn_like(direction)) >= least - 1e-8).all()


def test_penalty_parameter_falls_where_the_objective_blocks() -> None:
    """c = x + 1 is violated at 0, f = -x pulls away from it: mu = 4 is too much, 0.1 is not."""
    gradients = torch.tensor([[[-1.0], [1.0]]], dtype=torch.float64)
    c = torch.tensor([[1.0]], dtype=torch.float64)
    lowered, direction = _steer(gradients, c, 1.4, INEQUALITY)
    assert lowered.mu.item() < 1.4
    assert c.item() - lowered.violation_ahead.item() >= SUFFICIENT * c.item()
    assert direction.item() < 0
    kept, _ = _steer(gradients, c, 0.1, INEQUALITY)
    assert kept.mu.item() == 0.1


def test_penalty_parameter_stays_where_violation_cannot_fall() -> None:
    """A constraint without a gradient cannot be helped by lowering mu."""
    gradients = torch.tensor([[[-1.0], [0.0]]], dtype=torch.float64)
    found, _ = _steer(gradients, torch.tensor([[1.0]], dtype=torch.float64), 0.7, INEQUALITY)
    assert found.mu.item() == 0.7


def test_row_alone_is_the_row_in_the_batch() -> None:
    gradients, c = _random(12, 3, 4)
    equality = torch.tensor([False, True, False])
    together, _ = _steer(gradients, 3 * c, 2.0, equality)
    assert (together.mu < 2.0).any()
    assert (together.mu == 2.0).any()
    for row in range(12):
        one = slice(row, row + 1)
        gram = gradients @ gradients.mT
        alone = steer(gram[one], 3 * c[one], torch.full((1,), 2.0, dtype=torch.float64), equality)
        for left, right in zip(alone, together, strict=True):
            assert torch.equal(left[0], right[row])
