"""When a search stops, and what its status and its evidence say."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pwcf import MaxLoss, MinRadius, Status, evaluate
from pwcf.attacks import Answer, Attack, Task
from pwcf.attacks.agreement import FAR
from pwcf.losses import margin
from pwcf.models import Classifier, CountedClassifier
from searches import search_of

N, ROWS, BUDGET = 24, 20, 4000


def _two_classes(x: Tensor) -> Tensor:
    w = torch.randn(N, generator=torch.Generator().manual_seed(0)).to(x)
    return torch.stack([(x - 0.5) @ w, torch.zeros_like(x[:, 0])], 1)


def _network(x: Tensor) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    W, U = torch.randn(N, 24, generator=generator), torch.randn(24, 6, generator=generator)
    return torch.tanh((x - 0.5) @ W.to(x)) @ U.to(x)


IMAGES = torch.rand(ROWS, N, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("norm", ["l1", "l1.5", "l2", "l8", "linf"])
def test_linear_two_class_problems_are_solved_at_once(norm: str) -> None:
    labels = _two_classes(IMAGES).argmax(1)
    run = evaluate(_two_classes, IMAGES, labels, MinRadius(norm))
    assert set(run.status) == {Status.CONVERGED}
    assert run.passes.total.double().mean() <= 100
    longer = evaluate(_two_classes, IMAGES, labels, MinRadius(norm), budget=2000, stop="budget")
    assert (run.radius <= 1.005 * longer.radius).all()
    assert (longer.radius >= (1 - run.evidence.gain) * run.radius - 1e-6).all()


def test_a_search_that_has_converged_stops_and_a_budget_is_used_up_if_it_is_to_be() -> None:
    labels = _network(IMAGES).argmax(1)
    run = evaluate(_network, IMAGES, labels, MinRadius("l1"), budget=BUDGET)
    whole = evaluate(_network, IMAGES, labels, MinRadius("l1"), budget=BUDGET, stop="budget")
    assert run.adversarial.all()
    converged = torch.tensor([status is Status.CONVERGED for status in run.status])
    assert 0 < converged.sum() < ROWS
    assert torch.equal(converged, run.evidence.gain <= 0.01)
    assert (run.passes.total[converged] < 0.9 * BUDGET).all()
    assert (whole.passes.total > 0.9 * BUDGET).all()
    assert (whole.passes.total <= BUDGET).all()
    assert (run.evidence.agreement <= run.evidence.searches).all()
    assert (run.evidence.agreement[converged] >= 5).all()
    assert all(status is Status.BUDGET for status, done in zip(run.status, converged, strict=True) if not done)
    # A smaller tol asks for more searches that agree.
    strict = evaluate(_network, IMAGES, labels, MinRadius("l1"), budget=BUDGET, tol=0.005)
    assert strict.passes.total.sum() > run.passes.total.sum()


class _Gives(Attack):
    """Hands back a corner of another class, at the cost of one pass."""

    name = "gives"

    def __call__(self, task: Task) -> Answer:
        points = torch.where(torch.rand(task.images.shape, generator=torch.Generator().manual_seed(0)) < 0.5, 0.0, 1.0)
        task.model.logits(points, task.samples)
        return Answer(points)


@pytest.mark.filterwarnings("ignore:No misclassified point")
def test_an_attack_that_ends_by_itself_does_not_say_that_it_used_its_budget() -> None:
    labels = _network(IMAGES).argmax(1)
    run = evaluate(_network, IMAGES, labels, MinRadius("l2"), attacks=_Gives(), budget=1000)
    found = [status for status, hit in zip(run.status, run.adversarial, strict=True) if hit]
    assert set(found) == {Status.ENDED}
    assert run.evidence.gain[run.adversarial].isnan().all()
    assert (run.evidence.searches == 0).all()


def test_max_loss_says_how_near_the_search_came() -> None:
    labels = _network(IMAGES).argmax(1)
    radius = evaluate(_network, IMAGES, labels, MinRadius("l2"), budget=2000).radius
    eps = float(radius.median())
    run = evaluate(_network, IMAGES, labels, MaxLoss("l2", eps))
    failed = ~run.adversarial
    assert 0 < failed.sum() < ROWS
    assert (run.nearest[failed] > eps).all()
    assert (run.nearest[failed] < 3 * eps).all()
    assert torch.equal(run.nearest[run.adversarial], run.radius[run.adversarial])
    assert (run.loss[run.adversarial] > 0).all()  # the margin of the wrong class
    assert (run.evidence.agreement[failed] >= 1).any()


def test_max_loss_says_how_large_the_loss_within_eps_was() -> None:
    """Where no point was found: more than that of the image, and no more than beyond eps, where the class changes."""
    labels = _network(IMAGES).argmax(1)
    eps = float(evaluate(_network, IMAGES, labels, MinRadius("l2"), budget=2000).radius.median())
    run = evaluate(_network, IMAGES, labels, MaxLoss("l2", eps))
    failed = ~run.adversarial
    clean = margin(run.clean_logits, labels)
    assert (run.loss[failed] > clean[failed]).all()
    assert (run.loss[failed] < 0).all()
    near = failed & (run.nearest < 1.1 * eps)
    assert near.any()
    assert (run.loss[near] > 0.2 * clean[near]).all()  # most of the way
    seen = run.largest_loss()
    assert (seen["samples"], seen["nearest"]) == (int(failed.sum()), float(run.loss[failed].max()))
    assert f"largest margin seen within eps {seen['median']:.3g} (median of {seen['samples']:.0f} not" in run.summary()


def test_targeted_max_loss_says_how_small_the_loss_was() -> None:
    wanted = (_network(IMAGES).argmax(1) + 1) % 3
    eps = 0.5 * float(evaluate(_network, IMAGES, wanted, MinRadius("l2", targeted=True), budget=2000).radius.median())
    run = evaluate(_network, IMAGES, wanted, MaxLoss("l2", eps, targeted=True))
    failed = ~run.adversarial
    assert failed.any()
    assert (run.loss[failed] < margin(run.clean_logits, wanted)[failed]).all()
    assert (run.loss[failed] > 0).all()
    assert "least margin seen within eps" in run.summary()


@pytest.mark.parametrize("attack", ["lmn", "pwcf", "apgd"])
def test_the_largest_loss_is_no_smaller_and_no_answer_is_called_contradicted(attack: str) -> None:
    """The search for the largest loss goes on from points that were seen misclassified to others."""
    labels = _network(IMAGES).argmax(1)
    eps = 2 * float(evaluate(_network, IMAGES, labels, MinRadius("l2"), budget=2000).radius.median())
    first, largest = (
        evaluate(_network, IMAGES, labels, MaxLoss("l2", eps, "ce", clip=clip), attacks=attack, budget=600)
        for clip in (True, False)
    )
    assert {status.value for status in largest.status} <= {"found", "not-found"}
    assert (largest.loss >= first.loss - 1e-3).all()
    assert largest.loss.mean() > first.loss.mean() + 0.05


def test_other_ways_to_stop_are_refused() -> None:
    with pytest.raises(ValueError, match="stop: expected 'converged' or 'budget', found 'never'"):
        evaluate(_network, IMAGES, IMAGES[:, 0].long(), MinRadius("l2"), stop="never")  # type: ignore[arg-type]


def test_attacks_may_have_budgets_of_their_own() -> None:
    labels = _network(IMAGES).argmax(1)
    run = evaluate(_network, IMAGES, labels, MinRadius("l2"), attacks=["lmn", "fab"], budget=[900, 120], stop="budget")
    first, second = (each.passes for each in run.contributions)
    assert (first > 700).all()
    assert (second <= 120).all()
    with pytest.raises(ValueError, match="budget: expected one number, or 2, one for each attack; found 1"):
        evaluate(_network, IMAGES, labels, MinRadius("l2"), attacks=["lmn", "fab"], budget=[900])


def test_a_landmark_of_the_same_class_is_no_place_far_away() -> None:
    """Where no landmark is of another class all restarts begin at noise, and none counts as one from far away."""

    def ring(x: Tensor) -> Tensor:
        level = (x - 0.5).abs().mean(1)  # of landmarks, noise included, below .2 or above .3
        return torch.stack([torch.zeros_like(level), 0.03 - (level - 0.25).abs(), torch.full_like(level, -9)], 1)

    images = 0.5 + 0.02 * (IMAGES[:4] - 0.5)
    model, labels = CountedClassifier(Classifier(ring), 4), torch.zeros(4, dtype=torch.int64)
    searches = search_of(model, MinRadius("l2"), images, labels, 3000).run().diagnostics.searches
    assert searches is not None
    assert torch.isfinite(searches.ends).any(1).all()
    assert not (searches.began == FAR).any()
