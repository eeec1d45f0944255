"""Losses against their definitions, and that their sign tells who is misclassified."""

from __future__ import annotations

import math

import pytest
import torch

from pwcf import losses

LOGITS = torch.randn(40, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
LABELS = torch.arange(40) % 6
TARGETS = (LABELS + 2) % 6


@pytest.mark.parametrize("name", ["margin", "dlr", "pm"])
def test_positive_exactly_where_misclassified(name: str) -> None:
    loss = losses.as_loss(name)
    assert torch.equal(loss(LOGITS, LABELS, None) > 0, LOGITS.argmax(1) != LABELS)
    targeted = LOGITS.gather(1, TARGETS[:, None]) > LOGITS.gather(1, LABELS[:, None])
    assert torch.equal(loss(LOGITS, LABELS, TARGETS) > 0, targeted.squeeze(1))


def test_margin_and_cross_entropy_by_hand() -> None:
    logits = torch.tensor([[2.0, 1.0, -1.0]])
    label, target = torch.tensor([0]), torch.tensor([2])
    assert losses.margin(logits, label).item() == -1
    assert losses.margin(logits, label, target).item() == -3
    p = torch.softmax(logits, 1)[0]
    assert losses.cross_entropy(logits, label).item() == pytest.approx(-math.log(p[0]))
    assert losses.cross_entropy(logits, label, target).item() == pytest.approx(math.log(p[2]))


def test_dlr_is_blind_to_scale_and_shift_and_follows_the_paper_of_autoattack() -> None:
    for targets in (None, TARGETS):
        torch.testing.assert_close(losses.dlr(5 * LOGITS + 3, LABELS, targets), losses.dlr(LOGITS, LABELS, targets))
    logits = torch.tensor([[4.0, 3.0, 1.0, 0.0]])
    assert losses.dlr(logits, torch.tensor([0])).item() == pytest.approx(-(4 - 3) / (4 - 1))
    assert losses.dlr(logits, torch.tensor([0]), torch.tensor([1])).item() == pytest.approx(-(4 - 3) / (4 - 0.5))


@pytest.mark.parametrize("scale", [1.0, 12.0])
@pytest.mark.parametrize("targets", [None, TARGETS], ids=["untargeted", "targets"])
def test_probability_margin_and_its_gradient_follow_the_formula(scale: float, targets: torch.Tensor | None) -> None:
    """p_i - p_y has the gradient p_i (e_i - p) - p_y (e_y - p); in float32, too, where p_y rounds to 1."""
    logits = (scale * LOGITS).float()
    p, own, unit = logits.double().softmax(1), LABELS[:, None], torch.eye(6, dtype=torch.float64)
    other = p.scatter(1, own, -1.0).argmax(1) if targets is None else targets
    p_i, p_y = p.gather(1, other[:, None]), p.gather(1, own)
    leaf = logits.clone().requires_grad_(True)
    loss = losses.probability_margin(leaf, LABELS, targets)
    (gradient,) = torch.autograd.grad(loss.sum(), leaf)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss.detach().double(), (p_i - p_y).squeeze(1), rtol=1e-6, atol=1e-7)
    expected = p_i * (unit[other] - p) - p_y * (unit[LABELS] - p)
    torch.testing.assert_close(gradient.double(), expected, rtol=1e-5, atol=1e-15)


@pytest.mark.parametrize("classes", [2, 3])
def test_dlr_with_few_classes_keeps_its_sign(classes: int) -> None:
    logits, labels = LOGITS[:, :classes], LABELS % classes
    assert torch.equal(losses.dlr(logits, labels) > 0, logits.argmax(1) != labels)
    assert torch.isfinite(losses.dlr(logits, labels, (labels + 1) % classes)).all()


@pytest.mark.parametrize("name", ["margin", "ce", "dlr", "pm"])
def test_no_correctly_classified_sample_is_clipped(name: str) -> None:
    level = losses.clip_level(name, 6)
    loss = losses.as_loss(name)(LOGITS, LABELS, None)
    right = LOGITS.argmax(1) == LABELS
    assert torch.equal(losses.clipped(loss, level)[right], loss[right])
    assert losses.clipped(loss, level).max() <= level


def test_unknown_losses_are_named() -> None:
    with pytest.raises(ValueError, match="loss: expected one of margin, ce, dlr, pm, found 'hinge'"):
        losses.as_loss("hinge")
