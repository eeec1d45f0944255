"""The first steps of max-loss, towards the farthest points of the ball."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pwcf import MaxLoss, evaluate
from pwcf.attacks.linearised import farthest_points
from pwcf.metrics import Custom, as_metric

N = 30
GENERATOR = torch.Generator().manual_seed(5)
W = torch.randn(N, 8, generator=GENERATOR, dtype=torch.float64)
IMAGES = 0.3 + 0.4 * torch.rand(20, N, generator=GENERATOR, dtype=torch.float64)
METRICS = pytest.mark.parametrize("metric", ["l1", "l1.5", "l2", "l4", "linf"])


def _linear(x: Tensor) -> Tensor:
    return x @ W.to(x)


def _exact(metric: str) -> Tensor:
    """(n,) the radii of the linear model, where the box does not matter."""
    logits, labels = _linear(IMAGES), _linear(IMAGES).argmax(1)
    p = {"linf": 1.0, "l1": torch.inf}.get(metric) or float(metric[1:]) / (float(metric[1:]) - 1)
    gap = logits.gather(1, labels[:, None]) - logits
    size = torch.linalg.vector_norm(W.T[labels][:, None] - W.T[None], ord=p, dim=2)
    return (gap / size).masked_fill(size == 0, torch.inf).amin(1)


@METRICS
def test_a_linear_model_is_broken_at_once(metric: str) -> None:
    eps = 1.3 * _exact(metric)
    run = evaluate(_linear, IMAGES, _linear(IMAGES).argmax(1), MaxLoss(metric, eps))
    assert run.adversarial.all()
    assert (run.radius <= eps * (1 + 1e-9)).all()
    # One step is enough where the likeliest class is the nearest; the checks of model and answer take the other passes.
    assert run.passes.total.double().median() <= 10


@METRICS
def test_they_find_nothing_that_is_not_there(metric: str) -> None:
    run = evaluate(_linear, IMAGES, _linear(IMAGES).argmax(1), MaxLoss(metric, 0.97 * _exact(metric)), budget=700)
    assert not run.adversarial.any()
    assert (run.passes.total <= 700).all()


def test_entries_that_must_not_change_do_not() -> None:
    mask = torch.arange(N) % 2 == 0
    run = evaluate(_linear, IMAGES, _linear(IMAGES).argmax(1), MaxLoss("linf", 0.5), mask=mask)
    assert run.adversarial.any()
    assert torch.equal(run.x_adv[:, ~mask], IMAGES[:, ~mask])


def test_a_metric_without_a_linear_oracle_goes_without() -> None:
    metric = Custom(lambda x, z: (x - z).flatten(1).norm(dim=1))
    assert farthest_points.passes(metric) == 0
    assert farthest_points.passes(as_metric("l2")) == 2 * (farthest_points.STEPS + 1)
    eps = float(1.3 * _exact("l2").median())
    assert evaluate(_linear, IMAGES, _linear(IMAGES).argmax(1), MaxLoss(metric, eps)).adversarial.any()
