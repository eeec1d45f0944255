"""Scripts written for Foolbox."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from compat_models import CLASSES, N, Net, samples, script
from pwcf.attacks.external import available
from pwcf.compat import foolbox
from query_limit import QueryLimit


class EagerTensor:
    """As eagerpy's."""

    def __init__(self, raw: Tensor) -> None:
        self.raw = raw


class Misclassification:
    def __init__(self, labels: Any) -> None:
        self.labels = labels


class TargetedMisclassification:
    def __init__(self, target_classes: Any) -> None:
        self.target_classes = target_classes


class PyTorchModel:
    """As Foolbox's: bounds, and a call on tensors."""

    def __init__(self, net: nn.Module, bounds: tuple[float, float]) -> None:
        self.net, self.bounds = net, bounds

    def __call__(self, x: Tensor) -> Tensor:
        lower, upper = self.bounds
        logits: Tensor = self.net((x - lower) / (upper - lower))
        return logits


FOOLBOX_SCRIPT = """
raw_advs, clipped_advs, success = attack(fmodel, images, labels, epsilons=epsilons)
robust_accuracy = 1 - success.float().mean(axis=-1)
for eps, advs_, acc in zip(epsilons, clipped_advs, robust_accuracy):
    acc2 = (fmodel(advs_).argmax(-1) == labels).float().mean().item()
    assert abs(acc.item() - acc2) < 1e-6
    perturbation_sizes = (advs_ - images).abs().flatten(1).max(1).values
    assert perturbation_sizes.max().item() <= eps * (1 + 1e-5)
"""


@pytest.mark.parametrize("bounds", [(0.0, 1.0), (-1.0, 1.0)])
def test_the_script_of_foolbox_runs(bounds: tuple[float, float]) -> None:
    net = Net()
    images, labels = samples(net)
    fmodel = PyTorchModel(net, bounds)
    images = bounds[0] + (bounds[1] - bounds[0]) * images
    epsilons = [0.0, 0.02, 0.06, 1.0]
    attack = foolbox.MinRadiusAttack("linf", budget=150)
    names = script(FOOLBOX_SCRIPT, attack=attack, fmodel=fmodel, images=images, labels=labels, epsilons=epsilons)
    assert names["success"].shape == (4, N)
    robust = names["robust_accuracy"].tolist()
    assert robust == sorted(robust, reverse=True)
    assert robust[0] == pytest.approx(1 - 2 / N)
    assert robust[0] > robust[2] > robust[3] == 0
    assert names["raw_advs"][0].min() >= bounds[0]
    assert all(torch.equal(raw, names["raw_advs"][0]) for raw in names["raw_advs"])


def test_one_epsilon_gives_tensors_and_none_has_no_limit() -> None:
    net = Net()
    images, labels = samples(net)
    attack = foolbox.MinRadiusAttack("l2", budget=150)
    raw, clipped, success = attack(net, images, Misclassification(labels), epsilons=None)
    assert success.all()
    assert torch.equal(raw, clipped)
    assert (net(raw).argmax(1) != labels).all()
    size = (raw - images).flatten(1).norm(dim=1)
    eps = size.median().item()
    _, clipped, success = attack(net, images, labels, epsilons=eps)
    assert success.shape == (N,)
    assert torch.equal(success, net(clipped).argmax(1) != labels)
    assert 0 < success.sum() < N
    assert torch.equal(clipped[success & (size <= eps)], raw[success & (size <= eps)])


def test_foolbox_targets_and_eager_tensors_come_back_as_they_were() -> None:
    net = Net()
    images, labels = samples(net, 9)
    wanted = (labels + 1) % CLASSES
    attack = foolbox.MinRadiusAttack("linf", budget=150)
    criterion = TargetedMisclassification(EagerTensor(wanted))
    raw, clipped, success = attack(net, EagerTensor(images), criterion, epsilons=[None, 1e-3])
    assert all(isinstance(t, EagerTensor) for t in (*raw, *clipped, success))
    assert torch.equal(success.raw[0], net(raw[0].raw).argmax(1) == wanted)
    assert success.raw[0].float().mean() > 0.7
    assert success.raw[1].sum() < success.raw[0].sum()
    with pytest.raises(TypeError, match="expected PyTorch tensors"):
        attack(net, images, [1, 2], epsilons=None)


def test_run_gives_the_points_alone() -> None:
    net = Net()
    images, labels = samples(net, 6)
    attack = foolbox.MinRadiusAttack("l2", budget=150)
    raw, _, _ = attack(net, images, labels, epsilons=None)
    assert torch.equal(attack.run(net, images, labels, early_stop=0.1), raw)
    eager = attack.run(net, EagerTensor(images), Misclassification(EagerTensor(labels)))
    assert isinstance(eager, EagerTensor)
    assert torch.equal(eager.raw, raw)


def test_keyword_arguments_go_to_evaluate() -> None:
    net = Net()
    images, labels = samples(net, 6)
    attack = foolbox.MinRadiusAttack("l2", budget=150)
    free = torch.arange(3) > 0
    raw, _, _ = attack(net, images, labels, epsilons=[None], mask=free, attacks="fab", budget=200)
    assert torch.equal(raw[0][..., 0], images[..., 0])
    assert not torch.equal(raw[0], images)
    with pytest.raises(TypeError, match="starting_points"):
        attack.run(net, images, labels, starting_points=images)


def test_the_distance_is_one_of_foolboxs() -> None:
    images = torch.zeros(2, 3)
    points = torch.tensor([[3.0, 4.0, 0.0], [0.3, 0.4, 0.0]])
    distance = foolbox.MinRadiusAttack("l2").distance
    assert distance.p == 2
    torch.testing.assert_close(distance(images, points), torch.tensor([5.0, 0.5], dtype=torch.float64))
    clipped = distance.clip_perturbation(EagerTensor(images), EagerTensor(points), 1.0).raw
    torch.testing.assert_close(clipped, torch.tensor([[0.6, 0.8, 0.0], [0.3, 0.4, 0.0]]))
    assert foolbox.MinRadiusAttack(lambda x, z: (x - z).flatten(1).norm(dim=1)).distance.p is None


def test_repeated_attacks_have_so_much_more_budget() -> None:
    attack = foolbox.MinRadiusAttack("linf", budget=100, seed=3).repeat(3)
    assert (attack.budget, attack.seed, attack.metric) == (300, 3, "linf")
    with pytest.raises(ValueError, match="times: expected an integer >= 1"):
        attack.repeat(0)


@pytest.mark.skipif(not available(), reason="adv-lib is not installed")
@pytest.mark.parametrize("targeted", [False, True])
def test_entries_can_be_counted(targeted: bool) -> None:
    net = Net()
    images, labels = samples(net, 8)
    wanted = (labels + 1) % CLASSES
    criterion = TargetedMisclassification(wanted) if targeted else Misclassification(labels)
    attack = foolbox.MinRadiusAttack("l0", budget=200)
    assert attack.distance.p == 0
    raw, clipped, success = attack(net, images, criterion, epsilons=[None, 2])
    entries = (raw[0] != images).flatten(1).sum(1)
    said = net(raw[0]).argmax(1)
    assert torch.equal(success[0], said == wanted if targeted else said != labels)
    assert success[0].sum() >= 6
    assert torch.equal(success[1], success[0] & (entries <= 2))
    assert ((clipped[1] != images).flatten(1).sum(1) <= 2).all()


def test_what_was_seen_before_a_limit_is_returned_and_no_success() -> None:
    net = Net()
    images, labels = samples(net, 8)
    images, labels = images[:6], labels[:6]
    model = QueryLimit(net, 100, 2.0)
    model.start(images, labels)
    attack = foolbox.MinRadiusAttack("l2")
    with pytest.warns(UserWarning, match="changed its answer on 6 of 6"):
        raw, clipped, success = attack(model, images, labels, epsilons=[None, 1e-3])
    assert (net(raw[0]).argmax(1) != labels).all()
    assert not success.any()
    assert ((clipped[1] - images).flatten(1).norm(dim=1) <= 1e-3 * (1 + 1e-6)).all()


def test_with_foolbox_itself() -> None:
    fb = pytest.importorskip("foolbox")
    ep = pytest.importorskip("eagerpy")
    net = Net()
    images, labels = samples(net)
    fmodel = fb.PyTorchModel(net.eval(), bounds=(0, 1))
    attack = foolbox.MinRadiusAttack("l2", budget=150)
    epsilons = [None, 0.05, 0.2]
    eager, truth = ep.astensors(images, labels)
    raw, _, success = attack(fmodel, eager, fb.Misclassification(truth), epsilons=epsilons)
    plain, _, also = attack(fmodel, images, labels, epsilons=epsilons)
    assert torch.equal(raw[0].raw, plain[0])
    assert torch.equal(success.raw, also)
    repeated = fb.attacks.base.Repeated(attack, 2)  # theirs takes ours
    _, clipped, found = repeated(fmodel, eager, fb.Misclassification(truth), epsilons=epsilons)
    assert torch.equal(found.raw, success.raw)
    theirs = fb.distances.LpDistance(2)
    torch.testing.assert_close(attack.distance(eager, raw[0]).raw.float(), theirs(eager, raw[0]).raw)
    torch.testing.assert_close(
        attack.distance.clip_perturbation(images, plain[0], 0.1), theirs.clip_perturbation(images, plain[0], 0.1)
    )
    assert (theirs(eager, clipped[1]).raw <= 0.05 * (1 + 1e-5)).all()
