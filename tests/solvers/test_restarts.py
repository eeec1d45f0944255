"""The parts of two-stage restarts: noisy starts and the choice among them."""

from __future__ import annotations

import math

import numpy as np
import torch

from pwcf import noisy_starts
from pwcf.solvers.restarts import select_start

NAN, INF = math.nan, math.inf


def _choice(objective: list[list[float]], violation: list[list[float]]) -> list[int]:
    """Lists of starts, each with a number per row."""
    return select_start(np.array(objective), np.array(violation), 1e-6).tolist()


def test_least_objective_among_the_feasible() -> None:
    assert _choice([[3.0, 1.0], [2.0, 5.0], [1.0, 0.0]], [[0.0, 0.0], [1e-7, 0.0], [1.0, 1e-5]]) == [1, 0]


def test_least_violation_where_nothing_is_feasible() -> None:
    assert _choice([[0.0, -9.0], [5.0, 3.0]], [[0.3, 0.2], [0.2, 0.1]]) == [1, 1]


def test_rows_choose_for_themselves() -> None:
    assert _choice([[1.0, 2.0], [2.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]]) == [0, 1]
    assert _choice([[1.0, 2.0], [2.0, 1.0]], [[0.5, 0.0], [0.0, 0.5]]) == [1, 0]


def test_nonfinite_starts_lose() -> None:
    assert _choice([[NAN], [7.0]], [[INF], [0.0]]) == [1]
    assert _choice([[NAN], [7.0]], [[0.0], [0.0]]) == [1]
    assert _choice([[NAN], [7.0]], [[NAN], [3.0]]) == [1]
    assert _choice([[-INF], [7.0]], [[INF], [3.0]]) == [1]


def test_the_first_of_equals() -> None:
    assert _choice([[1.0], [1.0]], [[0.0], [0.0]]) == [0]


def test_noisy_starts() -> None:
    x0 = torch.randn(3, 2, 4, dtype=torch.float64)
    points = noisy_starts(x0, 5, 0.25)
    assert points.shape == (5, 3, 2, 4)
    assert points.dtype == torch.float64
    distance = (points - x0).abs()
    assert distance.max() <= 0.25
    assert distance.max() > 0.2
    assert torch.equal(points, noisy_starts(x0, 5, 0.25))
    assert not torch.equal(points, noisy_starts(x0, 5, 0.25, seed=1))
    assert not torch.equal(points[0], points[1])


def test_noisy_starts_leave_the_global_generator_alone() -> None:
    before = torch.get_rng_state()
    noisy_starts(torch.zeros(2, 2), 3, 1.0)
    assert torch.equal(torch.get_rng_state(), before)
