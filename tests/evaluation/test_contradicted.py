"""A model that changes its answer between the search and the verification."""

from __future__ import annotations

import math
import warnings

import pytest
import torch
from torch import Tensor, nn

from pwcf import MaxLoss, MinRadius, Run, Status, evaluate
from pwcf.attacks import AttackLike
from pwcf.problems import Problem
from query_limit import QueryLimit

N, NARROW = 6, 0.1


def two_classes() -> tuple[nn.Module, Tensor, Tensor]:
    """Class 1 where the sum of four entries is above 2; the images' sums are from 1 to 1.5."""
    net = nn.Linear(4, 2)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[0.0] * 4, [1.0] * 4]))
        net.bias.copy_(torch.tensor([0.0, -2.0]))
    images = torch.linspace(0.25, 0.375, N).view(N, 1).repeat(1, 4)
    return net, images, torch.zeros(N, dtype=torch.int64)


class Limited(nn.Module):
    """Says the true class, 0, from so many rows on."""

    def __init__(self, net: nn.Module, rows: float) -> None:
        super().__init__()
        self.net, self.rows, self.asked = net, rows, 0

    def forward(self, x: Tensor) -> Tensor:
        self.asked += len(x)
        logits: Tensor = self.net(x)
        return logits if self.asked <= self.rows else torch.tensor([1.0, 0.0]) + 0 * logits


def gradient_descent(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """Somebody else's: small steps, on and on."""
    x = images
    for _ in range(60):
        x = x.detach().requires_grad_(True)
        logits = model(x)
        (gradient,) = torch.autograd.grad((logits[:, 1] - logits[:, 0]).sum(), x)
        x = x + 0.01 * gradient
    return x.detach()


def rows_of(problem: Problem, attacks: AttackLike) -> int:
    """How many rows an evaluation takes."""
    net, images, labels = two_classes()
    model = Limited(net, math.inf)
    evaluate(model, images, labels, problem, attacks=attacks, budget=200)
    return model.asked


def evaluated(problem: Problem, attacks: AttackLike, rows: float) -> tuple[Run, list[str]]:
    net, images, labels = two_classes()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = evaluate(Limited(net, rows), images, labels, problem, attacks=attacks, budget=200)
    return run, [str(each.message) for each in caught]


@pytest.mark.parametrize("attack", ["lmn", "fab", "apgd", gradient_descent])
@pytest.mark.parametrize("share", [0.6, 0.9])
def test_the_nearest_point_seen_is_returned_and_does_not_count(attack: AttackLike, share: float) -> None:
    net, images, labels = two_classes()
    problem = MinRadius("l2")
    run, said = evaluated(problem, attack, share * rows_of(problem, attack))
    lost = torch.tensor([status is Status.CONTRADICTED for status in run.status])
    assert lost.any()
    assert not run.adversarial[lost].any()
    assert run.radius[lost].isinf().all()
    assert (net(run.x_adv).argmax(1) != labels).all()  # without the limit these are adversarial
    distance = (run.x_adv - images).norm(dim=1).double()
    torch.testing.assert_close(run.nearest[lost], distance[lost])
    exact = (2 - images.sum(1)) / 2
    assert (distance <= 1.05 * exact + 0.01).all()
    assert any(f"changed its answer on {int(lost.sum())} of {N} samples" in sentence for sentence in said)
    assert any("limit on queries" in sentence for sentence in said)
    assert not any("No misclassified point" in sentence for sentence in said)
    assert run.logits[lost].argmax(1).tolist() == [0] * int(lost.sum())  # what it said in the end
    assert "contradicted" in run.summary()


def test_within_eps_alike() -> None:
    net, images, labels = two_classes()
    problem = MaxLoss("l2", 0.6)
    run, said = evaluated(problem, "lmn", rows_of(problem, "lmn") - 1)  # only the last look comes too late
    assert Status.CONTRADICTED in run.status
    for i, status in enumerate(run.status):
        if status is Status.CONTRADICTED:
            assert not run.adversarial[i]
            assert int(net(run.x_adv[i : i + 1]).argmax()) != int(labels[i])
            assert float((run.x_adv[i] - images[i]).norm()) <= 0.6 * (1 + 1e-6)
        elif status is Status.NOT_FOUND:
            assert torch.equal(run.x_adv[i], images[i])
    assert any("changed its answer" in sentence for sentence in said)


def test_another_attacks_verified_point_comes_first() -> None:
    """The first attack has what it found verified; the limit stops the second."""
    problem = MinRadius("l2")
    run, said = evaluated(problem, ["lmn", "fab"], 1.2 * rows_of(problem, "lmn"))
    assert run.adversarial.all()
    assert Status.CONTRADICTED not in run.status
    assert not said


@pytest.mark.parametrize("problem", [MinRadius("l2"), MaxLoss("l2", 0.3)])
def test_a_model_that_keeps_to_its_answers_contradicts_nothing(problem: Problem) -> None:
    run, said = evaluated(problem, "lmn", math.inf)
    assert Status.CONTRADICTED not in run.status
    assert not said


def test_a_random_model_that_was_misclassified_by_luck() -> None:
    """Near the boundary either class comes up; what the search saw is kept, and the model is said to be random."""
    net, images, labels = two_classes()
    generator = torch.Generator().manual_seed(0)

    def noisy(x: Tensor) -> Tensor:
        return net(x) + torch.tensor([0.0, 1.0]) * (torch.rand(len(x), 1, generator=generator) - 0.5)

    with pytest.warns(UserWarning, match="random") as caught:
        run = evaluate(noisy, images, labels, MinRadius("l2"), budget=200)
    lost = [i for i, status in enumerate(run.status) if status is Status.CONTRADICTED]
    assert lost
    assert all(not torch.equal(run.x_adv[i], images[i]) and run.radius[i] == math.inf for i in lost)
    assert any("changed its answer" in str(each.message) for each in caught)


@pytest.mark.parametrize("batch", [1, 4])
def test_queries_are_counted_for_the_sample_a_row_is_nearest_to(batch: int) -> None:
    net, images, labels = two_classes()
    model = QueryLimit(net, 3, 2.0)
    model.start(images[:batch], labels[:batch])
    x = images[:batch].clone().requires_grad_(True)
    assert torch.equal(model(x), net(x))
    (gradient,) = torch.autograd.grad(model(x).sum(), x)
    assert gradient.abs().sum() > 0
    assert model.queries.tolist() == [3] * batch
    assert torch.equal(model(x).argmax(1), labels[:batch])
    model(torch.ones(1, 4))  # past the limit: as if it were right
    assert model.nearest.isinf().all()
    model.stop()
    assert torch.equal(model(x), net(x))
