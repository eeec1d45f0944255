"""Metrics that are awkward: networks changed in place, or not differentiable twice, functions without a slope."""

from __future__ import annotations

import pickle

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from pwcf import Classifier, MaxLoss, MinRadius, Status, evaluate
from pwcf.attacks import ATTACKS, CannotAnswer, Lpa
from pwcf.metrics import Custom, FeatureDistance, Features, ReferenceDistance, perceptual
from pwcf.metrics.perceptual.backbones import default_layers
from pwcf.models import Passes


class InPlace(nn.Module):
    """No activation is a module, and what convolutions return is changed in place."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Conv2d(3, 8, 3, 2), nn.Conv2d(8, 8, 3), nn.Linear(200, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.first(x), inplace=True)
        x = functional.relu(self.second(x), inplace=True)
        out: Tensor = self.last(x.flatten(1))
        return out


class Attention(nn.Module):
    """Fused attention, which has no second derivative on a CPU."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.qkv, self.act, self.last = nn.Linear(12, 16), nn.Linear(16, 48), nn.GELU(), nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        z = self.into(functional.unfold(x, 2, stride=2).transpose(1, 2))
        q, k, v = self.qkv(z).view(*z.shape[:2], 3, 2, 8).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        out: Tensor = self.last(self.act(z + mixed).mean(1))
        return out


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.last = nn.TransformerEncoderLayer(12, 2, 24, batch_first=True), nn.Linear(12, 4)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(self.layer(functional.unfold(x, 2, stride=2).transpose(1, 2)).mean(1))
        return out


def images(side: int, n: int = 3) -> Tensor:
    return torch.rand(n, 3, side, side, generator=torch.Generator().manual_seed(5))


def test_the_first_call_sees_what_all_others_see() -> None:
    x, metric = images(16), perceptual(InPlace())
    assert metric(x, x).tolist() == [0.0, 0.0, 0.0]
    torch.testing.assert_close(metric(x, x.flip(0)), metric(x, x.flip(0)), rtol=0, atol=0)
    net = InPlace()
    run = evaluate(net, x, net(x).argmax(1), MinRadius("pd-self"), budget=120)
    torch.testing.assert_close(run.problem.metric(x.double(), run.x_adv.double()), run.radius, rtol=1e-6, atol=0)


@pytest.mark.parametrize("net", [Attention, Encoder])
def test_without_second_derivatives_the_gradient_is_the_evidence(net: type[nn.Module]) -> None:
    model, x = net().eval(), images(8)
    run = evaluate(model, x, model(x).argmax(1), MinRadius("pd-self"), budget=100)
    assert bool(run.adversarial.all())
    assert bool(torch.isfinite(run.evidence.stationarity).all())


def test_layers_that_attention_does_not_call_are_left_out() -> None:
    assert default_layers(Encoder()) == ["layer.linear1", "layer.linear2"]


def test_bounds_that_a_named_network_was_not_made_for() -> None:
    features = Features(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()), ["1"])
    metric = FeatureDistance(features, "pd", bounds=(0.0, 1.0))
    model = Classifier(nn.Sequential(nn.Flatten(), nn.Linear(192, 3)), bounds=(0, 255))
    x = 255 * images(8)
    with pytest.raises(ValueError, match=r"bounds: metric pd expected images in \(0.0, 1.0\), found \(0.0, 255.0\)"):
        evaluate(model, x, model(x).argmax(1), MinRadius(metric), budget=60)


@pytest.mark.parametrize("attack", ["lmn", "lpa"])
def test_a_function_without_a_slope_is_named(attack: str) -> None:
    def changed(reference: Tensor, candidate: Tensor) -> Tensor:
        return (reference != candidate).flatten(1).sum(1).float()

    model, x = nn.Sequential(nn.Flatten(), nn.Linear(192, 3)), images(8)
    with pytest.raises(ValueError, match="metric changed: expected a distance with a gradient in the candidate"):
        evaluate(model, x, model(x).argmax(1), MinRadius(changed), budget=60, attacks=attack)


def test_a_run_and_its_metric_can_be_pickled_and_training_goes_on() -> None:
    net, x = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3)), images(8)
    run = evaluate(net, x, net(x).argmax(1), MinRadius("pd-self"), budget=60)
    again = pickle.loads(pickle.dumps(run))
    assert torch.equal(again.radius, run.radius)
    metric = perceptual(net)
    with torch.no_grad():
        net[0].weight.mul_(-1)
    single, double = metric(x, x.flip(0)).double(), metric(x.double(), x.flip(0).double())
    torch.testing.assert_close(single, double, rtol=1e-4, atol=0)


def test_no_point_has_no_slope() -> None:
    metric = Custom(lambda a, b: (a - b).flatten(1).norm(dim=1))
    measure = ReferenceDistance(metric, images(4), torch.arange(3), Passes.none(3), 2)
    values, slopes = measure.value_and_gradient(images(4)[:0], torch.arange(0))
    assert values.shape == (0,)
    assert slopes.shape == (0, 3, 4, 4)
    # LPA whose last sample is broken in the last step has nothing left to project.
    torch.manual_seed(1)
    net, x = nn.Sequential(nn.Flatten(), nn.Linear(48, 16), nn.ReLU(), nn.Linear(16, 5)), images(4, 1)
    problem = MaxLoss(metric, 5.0)
    for steps in (2, 3, 4, 5):
        run = evaluate(net, x, net(x).argmax(1), problem, budget=60, attacks=Lpa(steps=steps, searches=1))
        assert len(run.radius) == 1


class Rows(nn.Module):
    """Counts what it is called with."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.calls = nn.Linear(48, 6), []  # type: ignore[var-annotated]

    def forward(self, x: Tensor) -> Tensor:
        self.calls.append(len(x))
        out: Tensor = self.layer(x.flatten(1)).relu()
        return out


@pytest.mark.parametrize("attack", ["lpa", "fast-lpa", "ppgd"])
def test_searches_over_radii_keep_to_batch_and_count(attack: str) -> None:
    seen = Rows()
    metric = perceptual(seen, layers=["layer"])
    assert isinstance(metric, FeatureDistance)
    for features in (metric._features, *metric._in.values()):
        features.network.calls = seen.calls  # copies count together
    net, x = nn.Sequential(nn.Flatten(), nn.Linear(48, 4)), images(4, 6)
    seen.calls.clear()
    for dtype in (torch.float32, torch.float64):
        metric.features(x[:1].to(dtype))
    for features in metric._in.values():
        features.network.calls = seen.calls
    seen.calls.clear()
    run = evaluate(net, x, net(x).argmax(1), MinRadius(metric), budget=120, attacks=attack, batch=2)
    assert max(seen.calls) <= 2
    assert sum(seen.calls) == int(run.metric_passes.forward.sum())


def test_a_function_may_be_called_as_a_norm() -> None:
    def l2(reference: Tensor, candidate: Tensor) -> Tensor:
        return ((candidate - reference) * torch.linspace(0, 1, 8)).flatten(1).norm(dim=1)

    net, x = nn.Sequential(nn.Flatten(), nn.Linear(192, 4)), images(8)
    for attack in ("ddn", "fmn", "pdgd"):
        with pytest.raises(CannotAnswer, match=f"{attack} "):
            evaluate(net, x, net(x).argmax(1), MinRadius(l2), budget=200, attacks=attack)
    assert "alma" in ATTACKS


def test_nothing_is_nearer_than_zero() -> None:
    def blind(reference: Tensor, candidate: Tensor) -> Tensor:
        return (candidate - reference)[:, 0].flatten(1).norm(dim=1)

    torch.manual_seed(0)
    net, x = nn.Sequential(nn.Flatten(), nn.Linear(48, 4)), images(4)
    run = evaluate(net, x, net(x).argmax(1), MinRadius(blind), budget=300)
    assert run.radius.tolist() == [0.0, 0.0, 0.0]
    assert run.status == [Status.CONVERGED] * 3


@pytest.mark.parametrize("question", [MinRadius, lambda metric: MaxLoss(metric, 0.5)])
def test_a_distance_below_zero_is_named(question) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 3))
    images = torch.rand(2, 3, 2, 2)

    def similarity(reference: Tensor, candidate: Tensor) -> Tensor:
        return -(reference - candidate).flatten(1).norm(dim=1)

    with pytest.raises(ValueError, match="metric similarity: expected distances >= 0, found -"):
        evaluate(model, images, model(images).argmax(1), question(similarity), budget=100)
