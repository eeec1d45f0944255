"""Scripts written for Foolbox."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from compat_models import CLASSES, N, Net, samples, script
from pwcf.compat import foolbox


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
