"""Frank-Wolfe: its linear oracle, its steps, feasible points, and what it finds on linear models."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from oracles.cases import linear_case
from oracles.linear import dual, exact_radii, least_moves
from pwcf import Classifier, MaxLoss, MinRadius, evaluate
from pwcf.attacks import FrankWolfe, Task
from pwcf.attacks.feasible_set import FeasibleSet
from pwcf.attacks.frank_wolfe import FwState
from pwcf.metrics import distance64, lp
from pwcf.models import CountedClassifier
from pwcf.problems import Problem

P = (1.0, 1.5, 2.0, 4.0, math.inf)
NORMS = pytest.mark.parametrize("p", P)
N, ROWS = 12, 8
# Within these some images of the small network are broken, others are not.
EPS = {1.0: 1.0, 1.5: 0.6, 2.0: 0.5, 4.0: 0.33, math.inf: 0.22}


def _net(dtype: torch.dtype = torch.float32) -> nn.Module:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(N, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 5)).to(dtype)
    with torch.no_grad():
        for layer in net[::2]:
            layer.weight *= 3
    return net


def _task(net: Callable[[Tensor], Tensor], problem: Problem, images: Tensor, labels: Tensor, budget: int) -> Task:
    n = len(images)
    eps = problem.radii(n) if isinstance(problem, MaxLoss) else None
    counted = CountedClassifier(Classifier(net), n, batch=5)
    box = torch.zeros_like(images), torch.ones_like(images)
    return Task(counted, problem, images, labels, torch.arange(n), *box, eps, budget, 0)


def _images(dtype: torch.dtype = torch.float32) -> Tensor:
    """Many entries are at their bounds."""
    return (2 * torch.rand(ROWS, N, generator=torch.Generator().manual_seed(3)) - 0.5).clamp(0, 1).to(dtype)


def _region(p: float, centre: Tensor, eps: float, room: float = 0.0) -> FeasibleSet:
    """The box is [-room, 1 + room]."""
    lower, upper = torch.full_like(centre, -room), torch.full_like(centre, 1 + room)
    radius = torch.full((len(centre),), eps, dtype=torch.float64)
    return FeasibleSet(centre, radius, lower, upper, lp(p), centre.shape[1:])


# ---- the oracle -------------------------------------------------------------------------------------


@NORMS
@pytest.mark.parametrize("eps", [0.01, 0.3, 2.0])
def test_the_vertex_is_the_best_point_of_ball_and_box(p: float, eps: float) -> None:
    """No shorter move gains as much: by an oracle from outside that finds the least move for a gain."""
    centre, g = _images(torch.float64), torch.randn(ROWS, N, generator=torch.Generator().manual_seed(1)).double()
    g[:, 0] = 0
    region = _region(p, centre, eps)
    vertex = region.vertex(1e-20 * g)  # the scale does not count
    assert (region.distance(vertex) <= eps * (1 + 1e-12)).all()
    assert torch.equal(vertex, vertex.clamp(0, 1))
    assert torch.equal(vertex[:, 0], centre[:, 0])
    room = torch.where(g > 0, 1 - centre, centre) * (g != 0)
    gain = (g * (vertex - centre)).sum(1)
    least = np.linalg.norm(least_moves(*(t.numpy() for t in (g.abs(), room, gain)), p), ord=p, axis=1)
    corner = (g.abs() * room).sum(1)
    filled = (gain >= corner * (1 - 1e-9)).numpy()  # the whole box is within eps
    np.testing.assert_allclose(least[~filled], eps, rtol=1e-6)


@NORMS
def test_without_the_box_the_gain_is_eps_times_the_dual_norm(p: float) -> None:
    g = torch.randn(ROWS, N, generator=torch.Generator().manual_seed(1)).double()
    centre = _images(torch.float64)
    vertex = _region(p, centre, 0.3, room=9.0).vertex(g)
    expected = 0.3 * torch.linalg.vector_norm(g, ord=dual(p), dim=1)
    torch.testing.assert_close((g * (vertex - centre)).sum(1), expected)


@NORMS
def test_vertices_are_within_tiny_radii_too(p: float) -> None:
    """A unit in the last place of 0.7 is 7e-8, much of a radius of 1e-5 and too much of one of 0.01."""
    centre = 0.5 + 0.5 * torch.rand(200, N, generator=torch.Generator().manual_seed(0))
    g = torch.randn(200, N, generator=torch.Generator().manual_seed(1))
    for eps in (1e-5, 1e-3, 1e-2):
        region = _region(p, centre, eps, room=1.0)
        distance = region.distance(region.vertex(g))
        assert (distance <= eps * (1 + 1e-6)).all()
        assert (distance > 0.8 * eps).all()


def test_no_gradient_and_no_ball_stay_at_the_image() -> None:
    centre = _images()
    for p in P:
        assert torch.equal(_region(p, centre, 0.3).vertex(torch.zeros_like(centre)), centre)
        assert torch.equal(_region(p, centre, 0.0).vertex(torch.ones_like(centre)), centre)


# ---- steps ------------------------------------------------------------------------------------------


def test_the_estimate_doubles_where_the_loss_does_not_rise_and_shrinks_where_it_does() -> None:
    centre = torch.full((3, 2), 0.5, dtype=torch.float64)
    region, state = _region(2.0, centre, 0.1), FwState.at(centre)
    g = torch.tensor([[1.0, 0.0]], dtype=torch.float64).repeat(3, 1)
    state.learn(region, state.trial(), torch.zeros(3, dtype=torch.float64), g)
    # gap = |g| eps = 0.1, |s - x|^2 = 0.01: the first step goes all the way.
    torch.testing.assert_close(state.gap, torch.full((3,), 0.1, dtype=torch.float64))
    torch.testing.assert_close(state.lipschitz, torch.full((3,), 10.0, dtype=torch.float64))
    torch.testing.assert_close(state.trial()[:, 0], torch.full((3,), 0.6, dtype=torch.float64))
    # Promised is gap - M |s - x|^2 / 2 = 0.05: less, exactly that (nearly), and a linear rise.
    trial = state.trial()
    state.learn(region, trial, torch.tensor([0.04, 0.0501, 0.1], dtype=torch.float64), g)
    torch.testing.assert_close(state.lipschitz, torch.tensor([20.0, 9.98, 9.0], dtype=torch.float64))
    torch.testing.assert_close(state.x[:, 0], torch.tensor([0.5, 0.6, 0.6], dtype=torch.float64))
    assert state.stationary.tolist() == [False, True, True]
    torch.testing.assert_close(state.trial()[0, 0], torch.tensor(0.55, dtype=torch.float64))  # half the step


@NORMS
def test_every_point_is_in_ball_and_box(p: float) -> None:
    """Those that the model is asked about and those of the answer, before anybody repairs them."""
    seen: list[Tensor] = []
    net, images = _net(), _images()
    labels = net(images).argmax(1)

    def watched(x: Tensor) -> Tensor:
        seen.append(x.detach().clone())
        return net(x)  # type: ignore[no-any-return]

    problem = MaxLoss(lp(p), EPS[p])
    for row in range(ROWS):
        seen.clear()
        image, label = images[row : row + 1], labels[row : row + 1]
        task = _task(watched, problem, image, label, 200)
        answer, passes = FrankWolfe()(task).points, task.model.passes.total.item()
        points = torch.cat(seen)
        assert (distance64(problem.metric, image.expand_as(points), points) <= EPS[p] * (1 + 1e-6)).all()
        assert torch.equal(points, points.clamp(0, 1))
        assert problem.allows(distance64(problem.metric, image, answer)).all()
        assert passes <= 200
        assert torch.equal(answer, image) == (net(answer).argmax(1) == label).item()
        assert passes >= 199 or not torch.equal(answer, image)


# ---- answers ----------------------------------------------------------------------------------------


@NORMS
@pytest.mark.parametrize("active", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_two_classes_are_broken_above_the_exact_radius_and_not_below(
    p: float, active: bool, dtype: torch.dtype
) -> None:
    case = linear_case(30, 2, 6, box_active=active, seed=5)
    images, labels = case.tensors(dtype)
    exact = torch.from_numpy(exact_radii(case.images, case.labels, case.W, case.b, p))
    for share, robust in ((1.02, 0.0), (0.98, 1.0)):
        run = evaluate(case.model(dtype), images, labels, MaxLoss(lp(p), share * exact), attacks="fw", budget=60)
        assert run.robust_accuracy == robust


@NORMS
def test_min_radius_of_a_linear_model(p: float) -> None:
    case = linear_case(30, 2, 6, box_active=False, seed=5)
    images, labels = case.tensors()
    exact = exact_radii(case.images, case.labels, case.W, case.b, p)
    run = evaluate(case.model(), images, labels, MinRadius(lp(p)), attacks="fw", budget=400)
    ratio = run.radius.numpy() / exact
    assert (ratio >= 1 - 1e-6).all()
    assert (ratio <= 1.02).all()
    assert (run.passes.total <= 400).all()


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0])
def test_a_sample_has_the_same_answer_whatever_is_beside_it(p: float) -> None:
    net, images = _net(torch.float64), _images(torch.float64)
    labels = net(images).argmax(1)
    some = torch.tensor([6, 4, 2])
    for problem in (MaxLoss(lp(p), EPS[p]), MinRadius(lp(p))):
        together = _task(net, problem, images, labels, 120)
        apart = _task(net, problem, images[some], labels[some], 120)
        points = FrankWolfe()(together).points[some]
        torch.testing.assert_close(FrankWolfe()(apart).points, points, rtol=0, atol=1e-6)
        assert torch.equal(apart.model.passes.total, together.model.passes.total[some])
        assert not torch.equal(points, images[some])


def test_masked_entries_and_wanted_classes() -> None:
    net, images = _net(), _images()
    wanted = (net(images).argmax(1) + 1) % 5
    mask = torch.arange(N) % 3 > 0
    run = evaluate(net, images, wanted, MaxLoss("l1.5", 3.0, targeted=True), attacks="fw", budget=400, mask=mask)
    assert run.adversarial.any()
    assert torch.equal(run.x_adv[:, ~mask], images[:, ~mask])
    assert torch.equal(net(run.x_adv).argmax(1)[run.adversarial], wanted[run.adversarial])


def test_restarts_end_a_search_and_samples_that_are_broken_cost_no_more() -> None:
    case = linear_case(30, 2, 4, box_active=False, seed=5)
    images, labels = case.tensors()
    exact = torch.from_numpy(exact_radii(case.images, case.labels, case.W, case.b, 2.0))
    problem = MaxLoss("l2", exact * torch.tensor([2.0, 0.5, 0.5, 0.5]))
    for restarts, expected in ((1, 4), (2, 8), (None, 101)):
        task = _task(case.model(), problem, images, labels, 101)
        FrankWolfe(restarts=restarts)(task)
        # A run on a linear model: the image, the vertex. There it is stationary, or the answer is found.
        assert task.model.passes.total.tolist() == [4, expected, expected, expected]


def test_what_it_says_of_itself() -> None:
    assert FrankWolfe().about == (
        "pwcf's own Frank-Wolfe, the problem's loss, automatic steps, at most 100 a run, restarts by budget"
    )
    for p in P:
        assert FrankWolfe().unsupported_reason(MinRadius(lp(p)), 2) is None
    assert "l0" in str(FrankWolfe().unsupported_reason(MaxLoss("l0", 3), 10))
    with pytest.raises(ValueError, match="loss: expected one of"):
        FrankWolfe(loss="hinge")
    with pytest.raises(ValueError, match="steps: expected an integer >= 1"):
        FrankWolfe(steps=0)
