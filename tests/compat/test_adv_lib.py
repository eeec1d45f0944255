"""Functions in the manner of adversarial-library."""

from __future__ import annotations

import functools
import math

import pytest
import torch

from compat_models import CLASSES, Net, samples
from pwcf.attacks.external import available
from pwcf.compat import adv_lib


@pytest.mark.parametrize(("old", "new"), [("pwcf_min", "lmn_min"), ("pwcf_max", "lmn_max")])
def test_old_names_tell_the_new_ones(old: str, new: str) -> None:
    with pytest.raises(AttributeError, match=f"{old}.*called {new}"):
        getattr(adv_lib, old)
    with pytest.raises(AttributeError, match=r"no attribute 'pwcf_mean'$"):
        adv_lib.pwcf_mean  # noqa: B018


@pytest.mark.parametrize("norm", [1, 2, math.inf])
def test_functions_of_adversarial_library(norm: float) -> None:
    net = Net()
    images, labels = samples(net)
    attack = functools.partial(adv_lib.lmn_min, norm=norm, budget=150)
    nearest = attack(net, images, labels, targeted=False)  # as adv_lib's run_attack calls it
    assert (net(nearest).argmax(1) != labels).all()
    size = torch.linalg.vector_norm((nearest - images).flatten(1).double(), ord=norm, dim=1)
    eps = size.median().item()
    within = adv_lib.lmn_max(net, images, labels, eps, norm, budget=150)
    moved = torch.linalg.vector_norm((within - images).flatten(1).double(), ord=norm, dim=1)
    assert moved.max() <= eps * (1 + 1e-6)
    broken = net(within).argmax(1) != labels
    assert broken[size <= eps].all()
    each = adv_lib.lmn_max(net, images, labels, 1.01 * size, norm, budget=150)
    assert (net(each).argmax(1) != labels).double().mean() > 0.9
    images, wanted = images[:9], (labels[:9] + 2) % CLASSES
    aimed = attack(net, images, wanted, targeted=True)
    hit = net(aimed).argmax(1) == wanted
    assert hit.double().mean() > 0.7
    assert torch.equal(aimed[~hit], images[~hit])


@pytest.mark.skipif(not available(), reason="adv-lib is not installed")
def test_zero_counts_entries() -> None:
    net = Net()
    images, labels = samples(net)
    nearest = adv_lib.lmn_min(net, images, labels, norm=0, budget=200)
    assert (net(nearest).argmax(1) != labels).all()
    entries = (nearest != images).flatten(1).sum(1)
    assert entries.median() <= 6
    within = adv_lib.lmn_max(net, images, labels, 3, norm=0, budget=200)
    assert ((within != images).flatten(1).sum(1) <= 3).all()
    assert (net(within).argmax(1) != labels)[entries <= 3].all()
    wanted = (labels + 1) % CLASSES
    aimed = adv_lib.lmn_min(net, images, wanted, norm=0, targeted=True, budget=200)
    assert (net(aimed).argmax(1) == wanted).double().mean() > 0.7
