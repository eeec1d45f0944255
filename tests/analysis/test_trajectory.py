"""Searches that are watched, and when they end."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

import pwcf
from pwcf import analysis
from runfolders import Place
from runs_by_hand import run_of

INF = math.inf


def test_termination_is_of_attacked_samples() -> None:
    found = analysis.termination_of(run_of("cbwx", [1, 1, 0, INF]))
    assert found.passes.tolist() == [2, 4]
    assert found.status == {"converged": 1, "budget": 1}
    assert found.seconds.tolist() == [0.75, 0.75]


def linear(w: Tensor) -> nn.Module:
    net = nn.Sequential(nn.Flatten(), nn.Linear(len(w), 2, bias=False))
    with torch.no_grad():
        net[1].weight.copy_(torch.stack((w, -w)))
    return net


@pytest.mark.parametrize("attack", ["lmn", "fab", "apgd", "pwcf", "ddn"])
def test_every_attack_is_watched_and_the_best_point_is_its_answer(attack: str) -> None:
    w = torch.tensor([1.0, -2.0, 0.5, 1.5])
    images = torch.full((3, 4), 0.5) + 0.2 * torch.tensor([1.0, 0.7, -1.0])[:, None] * w / w.norm()
    labels = torch.tensor([0, 0, 0])  # the last is wrong: w'x < 0 there
    images -= 0.5 * w.sum() / w.norm() ** 2 * w  # the plane goes through the middle
    images = images.clamp(0, 1)
    net = linear(w)
    right = net(images)[:, 0] > net(images)[:, 1]
    traces = analysis.trace(net, images, labels, pwcf.MinRadius("l2"), attack, budget=300)
    exact = (images @ w).abs() / w.norm()
    for i, each in enumerate(traces):
        if not bool(right[i]):
            assert len(each.passes) == 0
            assert each.best_at is None
            continue
        assert bool((each.passes.diff() >= 0).all())
        assert int(each.passes[-1]) <= 300
        assert float(each.best[-1]) == pytest.approx(float(exact[i]), rel=0.03)
        assert float(each.best[-1]) >= float(exact[i]) * (1 - 1e-5)
        assert 1 <= each.best_at <= 300  # type: ignore[operator]
        assert bool((each.violation >= 0).all())


def test_a_trace_of_max_loss_keeps_to_eps() -> None:
    w = torch.tensor([1.0, 1.0])
    images, labels = torch.tensor([[0.9, 0.9]]), torch.tensor([0])
    (found,) = analysis.trace(linear(w), images, labels, pwcf.MaxLoss("l2", 0.1, "ce"), "apgd", budget=100)
    assert found.eps == 0.1
    assert bool((found.distance[found.feasible] <= 0.1 * (1 + 1e-6)).all())
    # The loss of the point eps down the slope: log(1 + exp(-2 w'x)).
    best = math.log1p(math.exp(-2 * (1.8 - 0.1 * math.sqrt(2))))
    assert float(found.best[-1]) == pytest.approx(best, rel=1e-3)


def test_points_outside_the_box_are_no_answers() -> None:
    # The nearest misclassified point is outside: the paper's method passes through it on its way.
    w = torch.tensor([1.0, 0.05])
    images, labels = torch.tensor([[0.1, 0.9]]), torch.tensor([1])
    net = linear(w)
    with torch.no_grad():
        net.insert(1, nn.Linear(2, 2))
        net[1].weight.copy_(torch.eye(2))
        net[1].bias.copy_(torch.tensor([-0.55, 0.0]))
    (found,) = analysis.trace(net, images, labels, pwcf.MinRadius("l2"), "pwcf-published", budget=200)
    beyond = found.wrong & (found.outside > 1e-3)
    assert bool(beyond.any())
    assert not bool(found.feasible[beyond].any())
    assert bool((found.violation[beyond] >= found.outside[beyond]).all())
    made_up = analysis.Trace(*(torch.tensor([value]) for value in (1, 0.5, 1.0, 0.2, True)), None)
    assert (made_up.feasible.tolist(), made_up.best_at) == ([False], None)


def test_a_targeted_trace_is_feasible_where_the_class_is_the_wanted_one() -> None:
    w = torch.tensor([1.0, 1.0])
    images, labels = torch.tensor([[0.6, 0.6], [0.6, 0.6]]) - 0.5, torch.tensor([1, 0])
    net = nn.Sequential(linear(w))
    traces = analysis.trace(
        pwcf.Classifier(net, (-1.0, 1.0)), images, labels, pwcf.MinRadius("l2", targeted=True), "lmn", budget=100
    )
    assert len(traces[1].passes) == 0  # it is of class 0 already
    found = traces[0]
    assert float(found.best[-1]) == pytest.approx(0.2 / math.sqrt(2), rel=0.02)
    # The loss is larger the nearer the wanted class is, and positive where it is reached.
    assert bool((found.loss[found.feasible] > 0).all())
    assert float(found.loss[0]) < 0
    assert bool((found.violation[found.feasible] == 0).all())


def test_who_is_traced_is_who_is_attacked() -> None:
    tied = nn.Sequential(nn.Flatten(), nn.Linear(2, 2))
    with torch.no_grad():
        tied[1].weight.zero_()
        tied[1].bias.zero_()
    images = torch.full((2, 2), 0.5)
    traces = analysis.trace(tied, images, torch.tensor([0, 1]), pwcf.MinRadius("l2"), budget=60)
    assert len(traces[1].passes) == 0  # a tie is the first class, as evaluate has it

    def undefined(x: Tensor) -> Tensor:
        return torch.full((len(x), 2), torch.nan) + 0 * x.sum()

    traces = analysis.trace(undefined, images, torch.tensor([0, 1]), pwcf.MinRadius("l2"), budget=60)
    assert [len(each.passes) for each in traces] == [0, 0]
    with pytest.raises(ValueError, match="budget: expected an integer > 0"):
        analysis.trace(tied, images, torch.tensor([0, 1]), pwcf.MinRadius("l2"), budget=0)


def test_a_recorded_search_can_be_watched_again(place: Place) -> None:
    run = pwcf.load_run(place.path / "l2")
    samples = analysis.found_in(run).nonzero().squeeze(1).tolist()[:2]
    (name, traces), *others = analysis.retrace(run, samples, trust=True).items()
    assert (name, others, len(traces)) == ("lmn", [], 2)
    for sample, each in zip(samples, traces, strict=True):
        assert float(each.best[-1]) == pytest.approx(float(run.radius[sample]), rel=0.05)
