"""A small network, samples and checks that the tests of compat share."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from pwcf.compat import AutoAttack

SHAPE, N, CLASSES, EPS = (2, 2, 3), 14, 5, 0.06


class Net(nn.Module):
    """Small, with a kink; says how often it is called, and can be made to fail after so many calls."""

    def __init__(self, classes: int = CLASSES) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(3)
        self.first = nn.Parameter(torch.randn(16, 12, generator=generator) / 4)
        self.second = nn.Parameter(torch.randn(classes, 16, generator=generator))
        self.calls, self.fail_at = 0, math.inf

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        if self.calls >= self.fail_at:
            raise ConnectionError("preempted")
        return (8 * (x.flatten(1) - 0.5) @ self.first.T).tanh() @ self.second.T


def samples(net: nn.Module, n: int = N) -> tuple[Tensor, Tensor]:
    """The last two labels are wrong as they are."""
    images = torch.rand(n, *SHAPE, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        logits = net(images)
    classes = max(2, logits.shape[1])
    labels = logits.argmax(1) if logits.shape[1] > 1 else (logits[:, 0] > 0).long()
    labels[-2:] = (labels[-2:] + 1) % classes
    return images, labels


def cheap(adversary: AutoAttack) -> AutoAttack:
    """Few steps, as scripts that only try things out have them."""
    for settings in (adversary.apgd, adversary.apgd_targeted, adversary.fab):
        settings.n_iter = 4
    adversary.square.n_queries = 20
    adversary.lmn.budget = 150
    return adversary


def checked(
    net: nn.Module, images: Tensor, labels: Tensor, x_adv: Tensor, norm: str = "Linf", eps: float = EPS
) -> float:
    """Robust accuracy of points that keep the rules."""
    order = {"Linf": math.inf, "L2": 2, "L1": 1}[norm]
    size = torch.linalg.vector_norm((x_adv.double() - images.double()).flatten(1), ord=order, dim=1)
    assert size.max() <= eps * (1 + 1e-6)
    assert x_adv.min() >= 0
    assert x_adv.max() <= 1
    assert x_adv.dtype == images.dtype
    with torch.no_grad():
        right = net(x_adv).argmax(1) == labels
    assert torch.equal(x_adv[right], images[right])  # what was not broken is as it was
    return right.double().mean().item()


def script(text: str, **names: Any) -> dict[str, Any]:
    """Run with the imports changed."""
    text = text.replace("from autoattack.state import", "from pwcf.compat import")
    names = {"torch": torch, **names}
    exec(text.replace("from autoattack import", "from pwcf.compat import"), names)
    return names
