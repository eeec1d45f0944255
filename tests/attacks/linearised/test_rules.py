"""Linearised subproblems against SciPy's LP and QP solvers; which rule a row follows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import linprog, minimize
from torch import Tensor

from pwcf.attacks.linearised.rules import (
    ENOUGH_TO_RETURN,
    REACH_MARGIN,
    Iterate,
    ReachFirst,
    StepSchedule,
    l2_rule,
    onto_cut_and_box,
    sparse_on_cut,
)
from pwcf.metrics import L1, L2, Linf, lp

F64 = torch.float64
N = 7


def _case(seed: int, tightness: float) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """point, centre, g, h, lower, upper of one row. At tightness 1 only a corner of the box satisfies the cut."""
    generator = torch.Generator().manual_seed(seed)
    lower, upper = torch.zeros(1, N, dtype=F64), torch.ones(1, N, dtype=F64)
    point, centre = torch.rand(2, 1, N, generator=generator, dtype=F64)
    g = torch.randn(1, N, generator=generator, dtype=F64)
    least = torch.where(g > 0, lower, upper)
    h = (g * ((1 - tightness) * centre + tightness * least)).sum(-1)
    return point, centre, g, h, lower, upper


CASES = pytest.mark.parametrize(("seed", "tightness"), [(s, t) for s in range(6) for t in (0.0, 0.3, 0.8, 0.99)])


@CASES
def test_projection_onto_cut_and_box(seed: int, tightness: float) -> None:
    point, _, g, h, lower, upper = _case(seed, tightness)
    z = onto_cut_and_box(point, g, h, lower, upper)[0].numpy()
    p, normal, level = point[0].numpy(), g[0].numpy(), h.item()
    cut = {"type": "ineq", "fun": lambda z: level - normal @ z, "jac": lambda z: -normal}
    best = minimize(
        lambda z: 0.5 * np.sum((z - p) ** 2), p, jac=lambda z: z - p, bounds=[(0, 1)] * N, constraints=[cut],
        method="SLSQP", options={"ftol": 1e-14, "maxiter": 500},
    )  # fmt: skip
    assert normal @ z <= level + 1e-10
    assert ((z >= 0) & (z <= 1)).all()
    assert 0.5 * np.sum((z - p) ** 2) <= best.fun + 1e-8


@CASES
def test_least_radius(seed: int, tightness: float) -> None:
    _, centre, g, h, lower, upper = _case(seed, tightness)
    t = Linf().least_radius(centre, g, h, lower, upper).item()
    x, normal = centre[0].numpy(), g[0].numpy()
    # variables z, t: min t s.t. g'z <= h, |z - x| <= t, 0 <= z <= 1
    eye, ones = np.eye(N), -np.ones((N, 1))
    rows = np.block([[normal[None], np.zeros((1, 1))], [eye, ones], [-eye, ones]])
    level = np.concatenate([[h.item()], x, -x])
    found = linprog(np.r_[np.zeros(N), 1], A_ub=rows, b_ub=level, bounds=[(0, 1)] * N + [(0, None)])
    assert t == pytest.approx(found.fun, abs=1e-9)


@CASES
@pytest.mark.parametrize("p", [1.5, 2.0, 3.0, 8.0])
def test_nearest_point_in_lp(seed: int, tightness: float, p: float) -> None:
    _, centre, g, h, lower, upper = _case(seed, tightness)
    z = lp(p).nearest_on_halfspace(centre, g, h, lower, upper)[0].numpy()
    x, normal, level = centre[0].numpy(), g[0].numpy(), h.item()
    assert normal @ z <= level + 1e-9
    assert ((z >= 0) & (z <= 1)).all()
    # No feasible point is nearer: the way to any of them goes uphill (the distance is convex).
    slope = np.sign(z - x) * np.abs(z - x) ** (p - 1)
    best = linprog(slope, A_ub=normal[None], b_ub=[level + 1e-9], bounds=[(0, 1)] * N)
    assert slope @ z <= best.fun + 1e-7


@CASES
def test_nearest_point_in_l1(seed: int, tightness: float) -> None:
    _, centre, g, h, lower, upper = _case(seed, tightness)
    z = L1().nearest_on_halfspace(centre, g, h, lower, upper)[0].numpy()
    x, normal = centre[0].numpy(), g[0].numpy()
    # z = x + a - b with a, b >= 0: min sum(a + b) s.t. g'(a - b) <= h - g'x
    bounds = [(0, 1 - v) for v in x] + [(0, v) for v in x]
    found = linprog(np.ones(2 * N), A_ub=np.r_[normal, -normal][None], b_ub=[h.item() - normal @ x], bounds=bounds)
    assert normal @ z <= h.item() + 1e-10
    assert np.abs(z - x).sum() == pytest.approx(found.fun, abs=1e-9)


@pytest.mark.parametrize(("seed", "tightness"), [(s, t) for s in range(6) for t in (0.0, 0.3, 0.5)])
def test_sparse_step(seed: int, tightness: float) -> None:
    point, centre, g, h, lower, upper = _case(seed, tightness)
    tau = torch.tensor([0.15], dtype=F64)
    z = sparse_on_cut(point, centre, g, h, tau, lower, upper)[0].numpy()
    p, x, normal, level = point[0].numpy(), centre[0].numpy(), g[0].numpy(), h.item()
    # z = x + a - b with a, b >= 0 makes it smooth
    cost = lambda ab: 0.15 * ab.sum() + 0.5 * np.sum((x + ab[:N] - ab[N:] - p) ** 2)  # noqa: E731
    bounds = [(0, 1 - v) for v in x] + [(0, v) for v in x]
    cut = {"type": "ineq", "fun": lambda ab: level - normal @ (x + ab[:N] - ab[N:])}
    start = np.r_[np.maximum(z - x, 0), np.maximum(x - z, 0)]
    best = minimize(cost, start, bounds=bounds, constraints=[cut], method="SLSQP", options={"ftol": 1e-14})
    assert normal @ z <= level + 1e-8
    assert 0.15 * np.abs(z - x).sum() + 0.5 * np.sum((z - p) ** 2) <= best.fun + 1e-6


def test_a_cut_out_of_reach_moves_only_entries_with_a_slope() -> None:
    centre, lower, upper = (torch.full((1, 3), v, dtype=F64) for v in (0.5, 0.0, 1.0))
    g = torch.tensor([[1.0, 0.1, -1.0]], dtype=F64)
    z = sparse_on_cut(centre, centre, g, torch.tensor([-9.0], dtype=F64), torch.tensor([0.2], dtype=F64), lower, upper)
    assert z.tolist() == [[0.0, 0.5, 1.0]]


def test_cuts_out_of_reach_are_approached() -> None:
    point, centre, g, h, lower, upper = _case(0, 1.0)
    corner = torch.where(g > 0, lower, upper)
    torch.testing.assert_close(onto_cut_and_box(point, g, h - 1, lower, upper), corner)
    torch.testing.assert_close(L1().nearest_on_halfspace(centre, g, h - 1, lower, upper), corner)
    reached = Linf().least_radius(centre, g, h - 1, lower, upper)
    torch.testing.assert_close(reached, (corner - centre).abs().amax(1))


def test_a_cut_that_holds_moves_nothing() -> None:
    point, _, g, _, lower, upper = _case(1, 0.5)
    slack = (g * point).sum(-1) + 1
    assert torch.equal(onto_cut_and_box(point, g, slack, lower, upper), point)
    assert Linf().least_radius(point, g, slack, lower, upper).item() == 0


def test_rows_without_a_point_go_straight_to_the_cut_and_later_to_landmarks() -> None:
    x = torch.tensor([[0.6, 0.5], [0.6, 0.5]], dtype=torch.float64)
    centre, g = torch.full_like(x, 0.5), torch.tensor([[1.0, 0.0], [1.0, 0.0]], dtype=torch.float64)
    c, one = torch.tensor([0.2, 0.2], dtype=torch.float64), torch.ones(2, dtype=torch.float64)
    at = Iterate(
        centre, x, x, c, g, torch.tensor([False, False]), 0.1 * one, None, one, torch.tensor([torch.inf, 0.3]),
        x, torch.zeros_like(x[:1]), torch.ones_like(x[:1]), None,
    )  # fmt: skip
    schedule, memory = StepSchedule(0.2, 0.2, 0.0, 0.0), torch.zeros_like(c)
    rule = ReachFirst(l2_rule, 11, L2(), patience=4)
    usual, _ = l2_rule(at, schedule, 0.1, memory)
    straight, _ = rule(at, schedule, 0.1, memory)
    # Beyond the cut at .4 by a twentieth of c and by the margin; no pull towards the image.
    torch.testing.assert_close(straight[0, 0].item(), 0.4 - 0.05 * 0.2 - REACH_MARGIN * 0.1)
    assert torch.equal(straight[1], usual[1])
    late, _ = rule(at, schedule, 0.4, memory)
    assert late[0].tolist() == [0.0, 0.0]  # the dark image
    assert torch.equal(late[1], usual[1])


def test_rows_that_have_lost_the_boundary_go_half_the_way_to_their_best_point() -> None:
    x = torch.tensor([[0.52, 0.5]] * 4, dtype=torch.float64)
    centre, g = torch.full_like(x, 0.5), torch.tensor([[1.0, 0.0]] * 4, dtype=torch.float64)
    best_x, one = torch.tensor([[0.9, 0.9]] * 4, dtype=torch.float64), torch.ones(4, dtype=torch.float64)
    wrong, best = torch.tensor([False, False, True, False]), torch.tensor([0.4, 0.1, 0.4, torch.inf])
    at = Iterate(
        centre, x, x, 0.2 * one, g, wrong, 0.02 * one, None, one, best.double(), best_x,
        torch.zeros_like(x[:1]), torch.ones_like(x[:1]), None,
    )  # fmt: skip
    schedule, memory = StepSchedule(0.2, 0.2, 0.0, 0.0), torch.zeros_like(one)
    usual, _ = l2_rule(at, schedule, 0.0, memory)
    found, _ = ReachFirst(l2_rule, ENOUGH_TO_RETURN, None)(at, schedule, 0.0, memory)
    torch.testing.assert_close(found[0], torch.tensor([0.71, 0.7], dtype=torch.float64))
    assert torch.equal(found[1:], usual[1:])  # not far behind, misclassified, without a point
    few, _ = ReachFirst(l2_rule, ENOUGH_TO_RETURN - 1, None)(at, schedule, 0.0, memory)
    assert torch.equal(few, usual)
