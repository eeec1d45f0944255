"""An attack for AttackBench, whose model counts queries and past 2000 answers the true class."""

from __future__ import annotations

import functools
import math
import warnings

import pytest
import torch
from torch import Tensor

from compat_models import CLASSES, Net, samples
from pwcf.attacks.external import available
from pwcf.compat import adv_lib, attackbench
from query_limit import QueryLimit

LIMIT = 2000


def judged(norm: float, batch: int, n: int, limit: int = LIMIT, targeted: bool = False) -> tuple[QueryLimit, Tensor]:
    """What AttackBench does with one attack: distances (n,) of what it returns, inf where the model is right there."""
    net = Net()
    images, labels = samples(net, n)
    targets = (labels + 1) % CLASSES if targeted else None
    attack = functools.partial(attackbench, norm=norm)
    model, found = QueryLimit(net, limit, norm), []
    for rows in torch.split(torch.arange(n), batch):
        model.start(images[rows], labels[rows])
        given = None if targets is None else targets[rows]
        points = attack(model=model, inputs=images[rows], labels=labels[rows], targets=given, targeted=targeted)
        model.stop()
        assert points.min() >= 0
        assert points.max() <= 1
        said = model(points).argmax(1)
        hit = said != labels[rows] if given is None else said == given
        move = (points - images[rows]).flatten(1)
        found.append(torch.where(hit, torch.linalg.vector_norm(move, ord=norm, dim=1), torch.inf))
    return model, torch.cat(found)


@pytest.mark.parametrize(("norm", "batch", "n"), [(1, 64, 64), (2, 64, 64), (math.inf, 64, 64), (2, 1, 2)])
def test_nothing_is_lost_to_the_limit(norm: float, batch: int, n: int) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model, distance = judged(norm, batch, n)
    assert torch.isfinite(distance).all()
    assert not [each for each in caught if "changed its answer" in str(each.message)]
    assert model.queries.max() <= LIMIT
    # What was returned is as near as the nearest point that the model was seen to misclassify.
    last = distance[-len(model.nearest) :]
    assert (last <= 1.01 * model.nearest + 1e-6).all()


def test_nor_where_the_limit_comes_long_before_the_budget_is_used_up() -> None:
    model, distance = judged(2, 64, 64, limit=600)
    assert model.queries.median() == 600
    assert torch.isfinite(distance).all()
    assert (distance <= 1.01 * model.nearest + 1e-6).all()


def test_targets() -> None:
    _, distance = judged(2, 8, 8, targeted=True)
    assert torch.isfinite(distance).double().mean() > 0.7
    with pytest.raises(ValueError, match="targets: expected the wanted classes"):
        attackbench(Net(), *samples(Net()), targeted=True, norm=2)


@pytest.mark.skipif(not available(), reason="adv-lib is not installed")
def test_zero_counts_entries() -> None:
    _, distance = judged(0, 16, 16)
    assert torch.isfinite(distance).all()
    assert torch.equal(distance, distance.round())
    assert distance.median() <= 6  # of 12


def test_functions_of_adversarial_library_lose_nothing_either() -> None:
    net = Net()
    images, labels = samples(net, 8)
    images, labels = images[:6], labels[:6]
    model = QueryLimit(net, 100, 2.0)
    model.start(images, labels)
    with pytest.warns(UserWarning, match="changed its answer on 6 of 6"):
        points = adv_lib.lmn_min(model, images, labels, norm=2)
    assert (net(points).argmax(1) != labels).all()
