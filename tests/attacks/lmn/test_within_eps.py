"""Max-loss in waves: budget, independence of the batch, and who is given up."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from pwcf import MaxLoss, MinRadius, evaluate
from pwcf.attacks.lmn import within_eps
from pwcf.attacks.lmn.within_eps import WavesWithinEps

N, ROWS = 20, 24
NORMS = pytest.mark.parametrize("norm", ["l1", "l2", "linf"])


def _net(classes: int = 5) -> nn.Module:
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(N, 30), nn.ReLU(), nn.Linear(30, 30), nn.ReLU(), nn.Linear(30, classes)).double()
    with torch.no_grad():
        for layer in net[::2]:
            layer.weight *= 3
    return net


def _images() -> Tensor:
    return torch.rand(ROWS, N, dtype=torch.float64, generator=torch.Generator().manual_seed(2))


@pytest.mark.filterwarnings("ignore:The later restarts")  # with so few passes more would help
@NORMS
@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("budget", [340, 420, 1000])
def test_no_image_takes_more_than_the_budget(norm: str, classes: int, budget: int) -> None:
    net, images = _net(classes), _images()
    labels = net(images).argmax(1)
    eps = 0.97 * evaluate(net, images, labels, MinRadius(norm), budget=1000).radius
    run = evaluate(net, images, labels, MaxLoss(norm, eps), budget=budget)
    assert (run.passes.total <= budget).all()
    assert (run.passes.total[~run.adversarial] > 50).all()


@NORMS
def test_an_image_has_the_same_answer_and_passes_whatever_is_beside_it(norm: str) -> None:
    net, images = _net(), _images()
    labels = net(images).argmax(1)
    radius = evaluate(net, images, labels, MinRadius(norm), budget=1000).radius
    eps = torch.linspace(0.5, 1.1, ROWS, dtype=torch.float64) * radius
    together = evaluate(net, images, labels, MaxLoss(norm, eps))
    some = torch.tensor([0, 20, 3, 11, 16])  # what the first ones take is also for looks at the model
    apart = evaluate(net, images[some], labels[some], MaxLoss(norm, eps[some]))
    assert torch.equal(apart.adversarial, together.adversarial[some])
    assert torch.equal(apart.passes.total, together.passes.total[some])
    torch.testing.assert_close(apart.nearest, together.nearest[some], rtol=1e-6, atol=0)


@NORMS
def test_images_far_beyond_eps_are_given_up_early(norm: str) -> None:
    net, images = _net(), _images()
    labels = net(images).argmax(1)
    radius = evaluate(net, images, labels, MinRadius(norm), budget=1000).radius
    near, far = (
        evaluate(net, images, labels, MaxLoss(norm, share * radius)).passes.total.double().mean()
        for share in (0.95, 0.2)
    )
    assert far < 0.6 * near


def test_what_is_not_found_says_how_near_the_search_came() -> None:
    net, images = _net(), _images()
    labels = net(images).argmax(1)
    radius = evaluate(net, images, labels, MinRadius("l2"), budget=1000).radius
    run = evaluate(net, images, labels, MaxLoss("l2", 0.9 * radius))
    assert not run.adversarial.all()
    missed = ~run.adversarial
    assert (run.nearest[missed] > 0.9 * radius[missed]).all()
    assert (run.nearest[missed] / radius[missed]).median() < 1.05
    assert (run.evidence.searches[missed] >= 2).all()
    assert (run.evidence.agreement[missed] <= run.evidence.searches[missed]).all()


def test_rows_that_cannot_reach_eps_are_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    net, images = _net(), _images()
    labels = net(images).argmax(1)
    problem = MaxLoss("linf", 0.4 * evaluate(net, images, labels, MinRadius("linf"), budget=1000).radius)
    monkeypatch.setattr(WavesWithinEps, "_give_up", lambda search, number: None)
    cut = evaluate(net, images, labels, problem, budget=700)
    monkeypatch.setattr(within_eps, "CUTS_LINF", ((), ()))
    whole = evaluate(net, images, labels, problem, budget=700)
    assert not cut.adversarial.any()
    # What is saved goes into further rows.
    assert cut.evidence.searches.double().mean() > whole.evidence.searches.double().mean()
