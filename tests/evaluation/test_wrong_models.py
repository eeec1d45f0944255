"""Models, images and metrics that do not belong together: the argument is named, and what to do."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import pwcf


def _net(dtype: torch.dtype = torch.float32) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 2, 3), nn.Flatten(), nn.Linear(72, 4)).to(dtype)


IMAGES, LABELS = torch.rand(6, 3, 8, 8, generator=torch.Generator().manual_seed(0)), torch.zeros(6, dtype=torch.int64)
L2 = pwcf.MinRadius("l2")


@pytest.mark.parametrize(
    ("model", "images", "said"),
    [
        (_net(torch.float64), IMAGES, "the model computes in torch.float64: give images of it"),
        (_net(), IMAGES.double(), "the model computes in torch.float32: give images of it"),
        (_net(), IMAGES.half(), "images: expected float32 or float64, found torch.float16"),
        (_net(), IMAGES.permute(0, 2, 3, 1), "they look like channels last"),
        (_net(), IMAGES[:, :1], "model: cannot take images of shape"),
        (_net(), IMAGES.flatten(1), "model: cannot take images of shape"),
        (_net().to("meta"), IMAGES, "the model is on meta: give images and labels on it"),
        (lambda: 0, IMAGES, "model: cannot take images"),
        (lambda x: {"logits": x}, IMAGES, "found dict; wrap it in a function that returns the logits alone"),
        (lambda x: (x, x), IMAGES, "found tuple; wrap it"),
        (lambda x: x, IMAGES, "model: expected logits of shape"),
        (lambda x: x.flatten(1).long(), IMAGES, "model: expected a floating-point tensor"),
    ],
)
def test_a_model_that_does_not_take_the_images_is_told(model: Any, images: Tensor, said: str) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^(model|images): ") as found:
        pwcf.evaluate(model, images, LABELS, L2, budget=60)
    assert said in str(found.value)


@pytest.mark.parametrize("metric", [lambda a: a.flatten(1).norm(dim=1), lambda: 0, lambda a, b, c: a])
def test_a_metric_takes_two_batches(metric: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match="metric: expected a function of two batches"):
        pwcf.MinRadius(metric)


@pytest.mark.parametrize("tol", [float("inf"), float("nan"), 0, -1, True, "1"])
def test_a_tolerance_is_a_finite_number(tol: Any) -> None:
    with pytest.raises(ValueError, match="tol: expected a finite number > 0"):
        pwcf.evaluate(_net(), IMAGES, LABELS, L2, tol=tol)


class _Autocast(nn.Module):
    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            logits: Tensor = self.net(x)
        return logits


@pytest.mark.parametrize("kind", ["bfloat16", "float16", "autocast"])
@pytest.mark.parametrize("problem", [L2, pwcf.MaxLoss("linf", eps=0.1)], ids=["min-radius", "max-loss"])
def test_a_model_of_half_precision_is_searched_in_single_and_verified_in_its_own(
    kind: str, problem: pwcf.MinRadius | pwcf.MaxLoss
) -> None:
    net = _Autocast(_net()) if kind == "autocast" else _net(getattr(torch, kind))

    def alone(x: Tensor) -> Tensor:
        with torch.no_grad():
            parts = [net(one if kind == "autocast" else one.to(getattr(torch, kind))) for one in x.split(1)]
        return torch.cat(parts).argmax(1)

    labels = alone(IMAGES)
    run = pwcf.evaluate(net, IMAGES, labels, problem, budget=300)
    assert run.x_adv.dtype == torch.float32
    assert run.adversarial.any()
    found = run.adversarial
    assert bool((alone(run.x_adv[found]) != labels[found]).all())
    whole = pwcf.evaluate(_net(), IMAGES, _net()(IMAGES).argmax(1), problem, budget=300)
    if isinstance(problem, pwcf.MinRadius):  # 8 bits of a logit are a percent of it, so radii are near those
        torch.testing.assert_close(run.radius, whole.radius, rtol=0.2, atol=0.02)
