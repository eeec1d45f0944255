"""Radii against exact ones from outside: linear classifiers, MILP on small networks, proved instances on real ones.

The oracles come first: they are compared with each other and with brute force, so that they can be trusted.
"""

from __future__ import annotations

import importlib.util
import math
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pwcf
from oracles.cases import linear_case, trained_mlp
from oracles.linear import boxed_radii, by_linprog, by_slsqp, exact_radii, unboxed_radii
from oracles.relu import exact_radius

P = (1.0, 1.5, 2.0, 4.0, 8.0, math.inf)
NORMS = pytest.mark.parametrize("p", P)


# ---- the oracles ----------------------------------------------------------------------------------


@NORMS
@pytest.mark.parametrize(("n", "classes"), [(10, 2), (300, 20)])
def test_where_the_box_is_inactive_the_dual_norm_is_the_answer(p: float, n: int, classes: int) -> None:
    case = linear_case(n, classes, 10, box_active=False, seed=1)
    closed = [unboxed_radii(x, int(y), case.W, case.b, p).min() for x, y in zip(case.images, case.labels, strict=True)]
    np.testing.assert_allclose(exact_radii(case.images, case.labels, case.W, case.b, p), closed, rtol=1e-12)


@NORMS
def test_an_active_box_makes_radii_larger_and_scipy_agrees(p: float) -> None:
    case = linear_case(12, 4, 10, box_active=True, seed=2)
    box = free = 0.0
    for x, y in zip(case.images, case.labels, strict=True):
        radii, logits = boxed_radii(x, int(y), case.W, case.b, p), case.W @ x + case.b
        solve = by_linprog if p in (1, math.inf) else by_slsqp
        for t in set(range(4)) - {int(y)}:
            assert radii[t] == pytest.approx(solve(x, case.W[t] - case.W[y], logits[y] - logits[t], p), rel=1e-5)
        box += radii.min()
        free += unboxed_radii(x, int(y), case.W, case.b, p).min()
    assert box > 1.01 * free


@NORMS
def test_a_class_the_box_does_not_hold_is_infinitely_far(p: float) -> None:
    W, b = np.array([[0.0, 0.0], [1.0, 1.0], [1.0, -1.0]]), np.array([0.0, -2.5, -0.5])
    radii = boxed_radii(np.array([0.0, 0.5]), 0, W, b, p)
    assert np.isinf(radii[[0, 1]]).all()
    assert np.isfinite(radii[2])


@pytest.mark.parametrize("p", [1.0, math.inf])
def test_milp_of_a_network_without_kinks_is_the_linear_answer(p: float) -> None:
    case = linear_case(8, 3, 4, box_active=True, seed=3)
    # ReLUs that are always on: their inputs are x + 1 > 0.
    hidden, last = nn.Linear(8, 8, dtype=torch.float64), nn.Linear(8, 3, dtype=torch.float64)
    with torch.no_grad():
        hidden.weight.copy_(torch.eye(8))
        hidden.bias.fill_(1.0)
        last.weight.copy_(torch.from_numpy(case.W))
        last.bias.copy_(torch.from_numpy(case.b - case.W.sum(1)))
    net = nn.Sequential(hidden, nn.ReLU(), last).requires_grad_(False)
    exact = exact_radii(case.images, case.labels, case.W, case.b, p)
    corners = torch.from_numpy(np.random.default_rng(0).integers(2, size=(64, 8)).astype(np.float64))
    for x, y, radius in zip(torch.from_numpy(case.images), case.labels, exact, strict=True):
        found = exact_radius(net, x, int(y), p, corners)
        assert found.lower == pytest.approx(radius, rel=1e-6)
        assert found.upper == pytest.approx(radius, rel=1e-6)


@pytest.mark.parametrize("p", [1.0, math.inf])
def test_milp_agrees_with_a_fine_grid_in_two_dimensions(p: float) -> None:
    net, points, labels = trained_mlp((2, 10, 6, 3), seed=0)
    axis = torch.linspace(0, 1, 501, dtype=torch.float64)
    grid = torch.cartesian_prod(axis, axis)
    classes = net(grid).argmax(1)
    for x, y in zip(points[:3], labels[:3], strict=True):
        found = exact_radius(net, x, int(y), p, points)
        nearest = torch.linalg.vector_norm(grid - x, ord=p, dim=1)[classes != y].min()
        assert found.lower <= found.upper <= found.lower * (1 + 1e-5)
        # A wrong cell of the grid may have its corner up to one spacing (l1: two) farther away than its wrong part.
        assert found.lower <= nearest <= found.upper + 2 * 0.002


@pytest.mark.parametrize("p", [1.0, math.inf])
def test_no_sampled_point_is_below_the_milp_radius(p: float) -> None:
    net, points, labels = trained_mlp((8, 16, 3), seed=1)
    draw = torch.Generator().manual_seed(0)
    for x, y in zip(points[:4], labels[:4], strict=True):
        found = exact_radius(net, x, int(y), p, points)
        ends = torch.from_numpy(found.point) + 0.2 * found.upper * torch.randn(20_000, 8, generator=draw).double()
        for moves in (torch.randn(20_000, 8, generator=draw).double(), ends - x):
            moves = moves / torch.linalg.vector_norm(moves, ord=p, dim=1, keepdim=True)
            inside = (x + found.lower * (1 - 1e-9) * moves).clamp(0, 1)
            assert (net(inside).argmax(1) == y).all()
        assert net(torch.from_numpy(found.point)).argmax() != y


# ---- pwcf.evaluate --------------------------------------------------------------------------------


def _name(p: float) -> str:
    return "linf" if math.isinf(p) else f"l{p:g}"


@NORMS
@pytest.mark.parametrize(("classes", "active"), [(2, False), (6, True)])
def test_radii_of_linear_classifiers_are_exact(p: float, classes: int, active: bool) -> None:
    case = linear_case(40, classes, 5, active, seed=4)
    images, labels = case.tensors()
    run = pwcf.evaluate(case.model(), images, labels, pwcf.MinRadius(_name(p)), budget=1000, seed=0)
    excess = run.radius.numpy() / exact_radii(case.images, case.labels, case.W, case.b, p) - 1
    assert (excess >= -1e-6).all()
    assert (excess <= 0.01).all()


@NORMS
@pytest.mark.parametrize("budget", [60, 200])
def test_with_two_classes_no_row_says_converged_too_early(p: float, budget: int) -> None:
    """The problem is convex, so a claim is a promise; 60 passes are too few for some rows to be within 2 %."""
    case = linear_case(40, 2, 12, box_active=True, seed=4)
    images, labels = case.tensors()
    run = pwcf.evaluate(case.model(), images, labels, pwcf.MinRadius(_name(p)), budget=budget, seed=0)
    excess = run.radius.numpy() / exact_radii(case.images, case.labels, case.W, case.b, p) - 1
    claims = np.array([status is pwcf.Status.CONVERGED for status in run.status])
    assert (excess[claims] <= 0.02).all()


def test_an_answer_exactly_on_the_boundary_survives_rounding() -> None:
    """A point that is wrong by the last bit among many rows may be right among few: it must not be lost for that."""
    case = linear_case(3072, 100, 3, box_active=True, seed=[0, 3072, 100, 1])
    images, labels = case.tensors()
    run = pwcf.evaluate(case.model(), images[1:], labels[1:], pwcf.MinRadius("linf"), budget=1000, seed=0)
    assert run.adversarial.all()
    excess = run.radius.numpy() / exact_radii(case.images[1:], case.labels[1:], case.W, case.b, math.inf) - 1
    assert ((excess >= -1e-6) & (excess <= 0.01)).all()


@pytest.mark.parametrize("p", [1.0, math.inf])
def test_radii_of_small_networks_are_exact(p: float) -> None:
    net, points, labels = trained_mlp((8, 12, 6, 3), seed=2)
    images, own = points[:8], labels[:8]
    run = pwcf.evaluate(net, images, own, pwcf.MinRadius(_name(p)), budget=2000, seed=0)
    exact = [exact_radius(net, x, int(y), p, points) for x, y in zip(images, own, strict=True)]
    assert (run.radius.numpy() >= np.array([found.lower for found in exact]) * (1 - 1e-6)).all()
    excess = run.radius.numpy() / np.array([found.upper for found in exact]) - 1
    assert (excess <= 0.01).mean() >= 0.85


@pytest.fixture(scope="module")
def zoo() -> Any:
    """The loader of real networks, which are not part of this repository."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "realdata"
    path = Path(os.environ.get("PWCF_REALDATA") or beside) / "zoo.py"
    if not path.exists():
        pytest.skip("no folder of real networks: PWCF_REALDATA names it")
    spec = importlib.util.spec_from_file_location("zoo", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["zoo"] = module  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


def test_radii_are_on_the_proved_side(zoo: Any) -> None:
    rows = [row for row in zoo.load_groundtruth() if row.model == "mnist_fc_256x2"]
    robust = [row for row in rows if row.verdict == "robust"][:4]
    broken = [row for row in rows if row.verdict == "not_robust" and row.pgd40x3_found][:4]
    assert robust
    assert broken
    images, labels = _samples(zoo, [*robust, *broken])
    run = pwcf.evaluate(zoo.load_net("mnist_fc_256x2"), images, labels, pwcf.MinRadius("linf"), budget=1000, seed=0)
    eps = torch.tensor([row.eps for row in [*robust, *broken]], dtype=torch.float64)
    assert (run.radius[:4] > eps[:4] - 1e-6).all()
    assert (run.radius[4:] <= eps[4:] + 1e-6).all()


def _samples(zoo: Any, rows: list[Any]) -> tuple[Tensor, Tensor]:
    images, labels = zoo.load_images(rows[0].dataset)
    indices = [row.test_index for row in rows]
    return images[indices], labels[indices]
