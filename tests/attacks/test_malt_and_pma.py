"""MALT and PMA: the order of MALT's targets, what it costs, and what both find on linear models."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from oracles.cases import linear_case
from oracles.linear import exact_radii
from pwcf import Classifier, MaxLoss, evaluate
from pwcf.attacks import Apgd, Task, as_attack
from pwcf.attacks.apgd.targets import nearest
from pwcf.models import CountedClassifier

P = {"l1": 1.0, "l2": 2.0, "linf": math.inf}


def _task(
    net: Callable[[Tensor], Tensor],
    metric: str,
    images: Tensor,
    budget: int,
    mask: Tensor | None = None,
    batch: int = 256,
    eps: float = 0.1,
) -> Task:
    """Every image is of class 0."""
    n = len(images)
    model = CountedClassifier(Classifier(net), n, batch)
    lower, upper = torch.zeros_like(images), torch.ones_like(images)
    if mask is not None:
        lower, upper = torch.where(mask, lower, images), torch.where(mask, upper, images)
    problem = MaxLoss(metric, eps)
    labels = torch.zeros(n, dtype=torch.int64)
    return Task(model, problem, images, labels, torch.arange(n), lower, upper, problem.radii(n), budget, 0)


# Logits at the middle: 3, 2.5, 2, 1. Class 0 has no slope, so that the slope of a gap is that of the other class.
SLOPES = torch.tensor([[0.0, 0.0, 0.0], [0.1, 0.0, 0.0], [1.0, 1.0, 1.2], [0.0, 3.0, 0.0]])
AT_MIDDLE = torch.tensor([3.0, 2.5, 2.0, 1.0])
GAPS = torch.tensor([0.5, 1.0, 2.0])


def by_hand(x: Tensor) -> Tensor:
    return (x - 0.5) @ SLOPES.T + AT_MIDDLE


@pytest.mark.parametrize(
    # l1: gaps over the largest slope, 5, 0.83, 0.67; l2: 5, 0.54, 0.67; linf: over the sum, 5, 0.31, 0.67.
    ("metric", "order"),
    [("l1", [3, 2, 1]), ("l2", [2, 3, 1]), ("linf", [2, 3, 1])],
)
def test_targets_are_in_the_order_of_the_distance_of_a_linear_model(metric: str, order: list[int]) -> None:
    task = _task(by_hand, metric, torch.full((5, 3), 0.5), 2000, batch=2)
    found = nearest(task, 9)
    dual = torch.linalg.vector_norm(SLOPES[1:], ord={"l1": math.inf, "l2": 2.0, "linf": 1.0}[metric], dim=1)
    assert ((GAPS / dual).argsort() + 1).tolist() == order
    assert found.classes.tolist() == [order] * 5
    assert found.passes == 4  # logits, and a gradient for each of three classes
    assert task.model.passes.forward.tolist() == [1] * 5
    assert task.model.passes.backward.tolist() == [3] * 5
    assert nearest(task, 2).classes.tolist() == [order[:2]] * 5


def test_masked_entries_do_not_bring_a_class_nearer() -> None:
    """Without its second entry class 3 cannot be reached, and comes last."""
    mask = torch.tensor([True, False, True])
    assert nearest(_task(by_hand, "l1", torch.full((1, 3), 0.5), 2000, mask), 9).classes.tolist() == [[2, 1, 3]]


def test_the_first_run_aims_at_the_nearest_class() -> None:
    """Within 0.57 only class 2 is to be found, which is not the likeliest one: that costs a run."""
    images = torch.full((3, 3), 0.5)
    labels = torch.zeros(3, dtype=torch.int64)
    malt = Apgd(loss="dlr", targets=9, ranking="malt", steps=20)
    by_logit = Apgd(loss="dlr", targets=9, steps=20)
    problem = MaxLoss("l2", 0.57)
    passes = {
        attack.ranking: evaluate(by_hand, images, labels, problem, attacks=[attack], budget=300).passes.total
        for attack in (malt, by_logit)
    }
    assert (passes["malt"] + 20 < passes["logit"]).all()


@pytest.mark.parametrize(("budget", "candidates"), [(2000, 100), (300, 29), (60, 5), (15, 1)])
def test_gradients_take_a_tenth_of_the_budget_at_most(budget: int, candidates: int) -> None:
    generator = torch.Generator().manual_seed(0)
    W = torch.randn(6, 150, generator=generator)
    bias = torch.zeros(150)
    bias[0] = 20.0
    task = _task(lambda x: x @ W + bias, "l2", torch.rand(2, 6, generator=generator), budget)
    found = nearest(task, 9)
    assert found.passes == 1 + (candidates if candidates > 1 else 0)
    assert task.model.passes.total.tolist() == [found.passes] * 2
    likeliest = (task.images @ W)[:, 1:].topk(candidates).indices + 1
    assert all(set(row) <= set(some) for row, some in zip(found.classes.tolist(), likeliest.tolist(), strict=True))


@pytest.mark.parametrize("budget", [40, 201, 450])
def test_budgets_are_kept_and_used(budget: int) -> None:
    """Nothing is to be found, so that all runs are made."""
    generator = torch.Generator().manual_seed(0)
    W, bias = torch.randn(6, 30, generator=generator), torch.zeros(30)
    bias[0] = 50.0
    for name in ("malt", "pma"):
        task = _task(lambda x: x @ W + bias, "l2", torch.rand(2, 6, generator=generator), budget)
        assert torch.equal(as_attack(name)(task).points, task.images)
        assert (task.model.passes.total <= budget).all()
        assert (task.model.passes.total >= budget - 4).all()


@pytest.mark.parametrize("name", ["malt", "pma"])
@pytest.mark.parametrize("metric", list(P))
def test_two_classes_are_broken_above_the_exact_radius_and_not_below(name: str, metric: str) -> None:
    case = linear_case(30, 2, 6, box_active=False, seed=5)
    images, labels = case.tensors()
    exact = torch.from_numpy(exact_radii(case.images, case.labels, case.W, case.b, P[metric]))
    for share, robust in ((1.02, 0.0), (0.98, 1.0)):
        run = evaluate(case.model(), images, labels, MaxLoss(metric, share * exact), attacks=name, budget=400)
        assert run.robust_accuracy == robust
        assert (run.passes.total <= 400).all()


def test_malt_finds_the_nearest_of_many_classes() -> None:
    case = linear_case(30, 20, 6, box_active=False, seed=6)
    images, labels = case.tensors()
    exact = exact_radii(case.images, case.labels, case.W, case.b, 2.0)
    # The nearest class is not always the likeliest one: the case is made so.
    logits = case.images @ case.W.T + case.b
    logits[np.arange(6), case.labels] = -np.inf
    run = evaluate(
        case.model(), images, labels, MaxLoss("l2", torch.from_numpy(1.02 * exact)), attacks="malt", budget=300
    )
    assert run.adversarial.all()
    assert (case.model()(run.x_adv).argmax(1).numpy() != logits.argmax(1)).any()


@pytest.mark.parametrize("name", ["malt", "pma"])
def test_a_sample_has_the_same_answer_whatever_is_beside_it(name: str) -> None:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(12, 30), torch.nn.ReLU(), torch.nn.Linear(30, 6)).double()
    with torch.no_grad():
        net[0].weight *= 4
    images = torch.rand(60, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    images = images[net(images).argmax(1) == net(images).argmax(1)[0]][:8]
    label = int(net(images).argmax(1)[0])
    some = torch.tensor([6, 1, 3])

    def first_is_own(x: Tensor) -> Tensor:
        return net(x).roll(-label, 1)

    together = _task(first_is_own, "l2", images, 150, eps=0.4)
    apart = _task(first_is_own, "l2", images[some], 150, batch=2, eps=0.4)
    points = as_attack(name)(together).points[some]
    torch.testing.assert_close(as_attack(name)(apart).points, points, rtol=0, atol=1e-6)
    assert torch.equal(apart.model.passes.total, together.model.passes.total[some])
    assert not torch.equal(points, images[some])


def test_what_they_say_of_themselves() -> None:
    malt, pma = as_attack("malt"), as_attack("pma")
    assert "dlr, 9 targets, the nearest of 100 classes by MALT" in malt.about
    assert "pm, untargeted" in pma.about
    for attack in (malt, pma):
        assert attack.unsupported_reason(MaxLoss("l1", 1.0), 10) is None
        assert "project" in str(attack.unsupported_reason(MaxLoss("l1.5", 1.0), 10))
    with pytest.raises(ValueError, match="ranking: expected one of logit, malt, found 'near'"):
        Apgd(ranking="near")  # type: ignore[arg-type]
