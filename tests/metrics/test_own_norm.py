"""A norm that is one file, ``weighted_l2``: attacked with its own projection and half-space step, against closed forms.

On a linear classifier of two classes the radius is margin / dual norm, as long as the box does not matter.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from metrics.weighted_l2 import WeightedL2
from pwcf import MaxLoss, MinRadius, Status, evaluate
from pwcf.attacks import CannotAnswer
from pwcf.metrics import HasDualNorm, HasHalfspaceStep, HasProjection, HasSteepest, Metric, Norm, distance64

ROWS, N, RATIO = 6, 20, 10.0
GENERATOR = torch.Generator().manual_seed(0)
SLOPE = torch.randn(N, generator=GENERATOR, dtype=torch.float64)
# The norm is up to ten times as long in one entry as in another.
METRIC = WeightedL2(torch.logspace(0, 1, N, dtype=torch.float64)[torch.randperm(N, generator=GENERATOR)])
IMAGES = (0.5 + 0.01 * torch.randn(ROWS, N, generator=GENERATOR, dtype=torch.float64)).float()


def model(x: Tensor) -> Tensor:
    level = (x - 0.5) @ SLOPE.to(x)
    return torch.stack([torch.zeros_like(level), level], 1)


LABELS = model(IMAGES).argmax(1)
EXACT = ((IMAGES.double() - 0.5) @ SLOPE).abs() / METRIC.dual_norm(SLOPE.unsqueeze(0))


def test_it_offers_capabilities_and_has_no_exponent() -> None:
    for capability in (HasDualNorm, HasHalfspaceStep, HasProjection, HasSteepest):
        assert isinstance(METRIC, capability)
    assert METRIC.exponent is None


# Measured at 2000 passes: 2e-4 for lmn, which stops as far from the boundary as rounding asks for; 8e-5 for FAB; .8 %
# for APGD, whose search over radii does not narrow a bracket below 1 %.
@pytest.mark.parametrize(
    ("attack", "budget", "excess"), [("lmn", 1000, 1e-3), ("fab", 500, 1e-3), ("apgd", 2000, 0.011)]
)
def test_radii_are_those_of_the_closed_form(attack: str, budget: int, excess: float) -> None:
    run = evaluate(model, IMAGES, LABELS, MinRadius(METRIC), attacks=attack, budget=budget)
    assert run.adversarial.all()
    assert (run.radius >= EXACT * (1 - 1e-6)).all()
    assert (run.radius <= EXACT * (1 + excess)).all()
    torch.testing.assert_close(run.radius, distance64(METRIC, IMAGES, run.x_adv))
    assert (model(run.x_adv).argmax(1) != LABELS).all()
    # Evidence is in the norm's own units, and the models are exact here: the excess is bounded by what it says.
    assert (run.radius * (1 - 2 * run.evidence.stationarity) <= EXACT).all()
    if attack != "apgd":
        assert (run.evidence.stationarity < 0.01).all()
        assert set(run.status) == {Status.CONVERGED if attack == "lmn" else Status.BUDGET}  # FAB cannot tell


@pytest.mark.parametrize("attack", ["lmn", "fab", "apgd", "fw"])
def test_max_loss_breaks_above_the_radius_and_not_below(attack: str) -> None:
    above = evaluate(model, IMAGES, LABELS, MaxLoss(METRIC, 1.02 * EXACT), attacks=attack, budget=300)
    assert above.robust_accuracy == 0
    assert (above.radius <= 1.02 * EXACT * (1 + 1e-6)).all()
    below = evaluate(model, IMAGES, LABELS, MaxLoss(METRIC, 0.98 * EXACT), attacks=attack, budget=300)
    assert below.robust_accuracy == 1


def test_its_projection_is_the_nearest_point_of_ball_and_box() -> None:
    generator = torch.Generator().manual_seed(1)
    centre = torch.rand(50, N, generator=generator, dtype=torch.float64)
    point = centre + 2 * torch.randn(50, N, generator=generator, dtype=torch.float64)
    radius = 3 * torch.rand(50, generator=generator, dtype=torch.float64)
    lower, upper = torch.zeros_like(centre), torch.ones_like(centre)
    found = METRIC.project(point, centre, radius, lower, upper)
    assert (METRIC.norm(found - centre) <= radius * (1 + 1e-9)).all()
    assert ((found >= lower) & (found <= upper)).all()
    for _ in range(200):  # towards others of the set the distance cannot fall: <point - z, other - z> <= 0
        other = torch.rand(50, N, generator=generator, dtype=torch.float64)
        share = (radius / METRIC.norm(other - centre)).clamp(max=1).unsqueeze(1)
        other = centre + share * (other - centre)
        assert (((point - found) * (other - found)).sum(1) <= 1e-9).all()


def test_its_half_space_step_is_the_closed_form_without_a_box() -> None:
    point, g = IMAGES.double(), SLOPE.expand(ROWS, N)
    h = (g * point).sum(1) - 0.3
    found = METRIC.nearest_on_halfspace(point, g, h, point - 9, point + 9)
    torch.testing.assert_close((g * found).sum(1), h)
    torch.testing.assert_close(METRIC.norm(found - point), 0.3 / METRIC.dual_norm(g))
    torch.testing.assert_close(found, point - 0.3 * METRIC.steepest(g) / METRIC.dual_norm(g).unsqueeze(1))


class Bare(Norm):
    """A norm that offers nothing beyond its length."""

    name = "bare"

    def norm(self, move: Tensor) -> Tensor:
        return METRIC.norm(move)

    def dual_norm(self, gradient: Tensor) -> Tensor:
        return METRIC.dual_norm(gradient)


def test_what_a_norm_does_not_offer_is_named() -> None:
    for attack, sentence in (
        ("apgd", "apgd needs a metric with project; bare offers none"),
        ("fab", "fab needs a metric with nearest_on_halfspace; bare offers none"),
        ("square", "square has windows for l1, l2 and linf, not for bare"),
    ):
        with pytest.raises(CannotAnswer, match=sentence):
            evaluate(model, IMAGES, LABELS, MinRadius(Bare()), attacks=attack)
    with pytest.raises(CannotAnswer, match="fab needs a metric with nearest_on_halfspace; squares offers none"):
        evaluate(model, IMAGES, LABELS, MinRadius(squares), attacks="fab")


def squares(reference: Tensor, candidate: Tensor) -> Tensor:
    return (candidate - reference).flatten(1).square().sum(1)


class Squares(Metric):
    """The square of a norm is no norm, but its balls and half-space steps are the norm's."""

    in_float64, degree = True, 2.0
    name = "squares"

    def __call__(self, reference: Tensor, candidate: Tensor) -> Tensor:
        assert reference.shape[1:] == candidate.shape[1:] == (4, 5)  # a metric sees images, its capabilities rows
        return METRIC(reference, candidate).square()

    def project(self, point: Tensor, centre: Tensor, radius: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
        return METRIC.project(point, centre, radius.sqrt(), lower, upper)

    def nearest_on_halfspace(self, point: Tensor, g: Tensor, h: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
        return METRIC.nearest_on_halfspace(point, g, h, lower, upper)


@pytest.mark.parametrize(("attack", "excess"), [("fab", 1e-3), ("apgd", 0.04)])
def test_a_metric_that_is_no_norm_needs_only_the_method_an_attack_asks_for(attack: str, excess: float) -> None:
    images = IMAGES.view(ROWS, 4, 5)
    run = evaluate(lambda x: model(x.flatten(1)), images, LABELS, MinRadius(Squares()), attacks=attack, budget=700)
    assert run.adversarial.all()
    assert (run.radius >= EXACT.square() * (1 - 1e-6)).all()
    assert (run.radius <= EXACT.square() * (1 + excess)).all()
