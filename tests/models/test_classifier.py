"""The wrapped classifier: shapes, normalisation, modes given back, counted passes, mistakes found."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from pwcf.models import Classifier, CountedClassifier, check_inputs, warnings_about


def _net(classes: int = 3) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, classes))


def _data(net: nn.Module, n: int = 12) -> tuple[Tensor, Tensor]:
    x = torch.rand(n, 3, 2, 2, generator=torch.Generator().manual_seed(1))
    return x, net(x).argmax(1)


def test_logits_are_those_of_the_model_behind_the_normalisation() -> None:
    net = _net()
    x, _ = _data(net)
    mean, std = [0.4, 0.5, 0.6], [0.2, 0.3, 0.1]
    wrapped = Classifier(net, mean=mean, std=std)(x)
    expected = net((x - torch.tensor(mean).view(1, 3, 1, 1)) / torch.tensor(std).view(1, 3, 1, 1))
    torch.testing.assert_close(wrapped, expected)
    torch.testing.assert_close(Classifier(net, mean=0.5, std=0.5)(x), net(2 * x - 1))


@pytest.mark.parametrize("shape", [(7,), (7, 1)])
def test_one_logit_becomes_two_classes(shape: tuple[int, ...]) -> None:
    values = torch.linspace(-3, 3, 7)
    logits = Classifier(lambda x: values.view(shape))(torch.zeros(7, 2))
    assert logits.shape == (7, 2)
    assert torch.equal(logits.argmax(1), (values > 0).long())


def test_the_model_is_given_back_as_it_was() -> None:
    net = nn.Sequential(_net(), nn.Dropout(0.5), nn.BatchNorm1d(3))
    net[1].eval()
    next(net.parameters()).requires_grad_(False)
    modes = [module.training for module in net.modules()]
    wanted = [parameter.requires_grad for parameter in net.parameters()]

    def interrupted() -> None:
        with Classifier(net).in_use():
            assert not any(module.training for module in net.modules())
            assert not any(parameter.requires_grad for parameter in net.parameters())
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        interrupted()
    assert [module.training for module in net.modules()] == modes
    assert [parameter.requires_grad for parameter in net.parameters()] == wanted


def test_a_model_in_use_twice_is_given_back_when_both_have_done() -> None:
    net, head = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(12)), nn.Linear(12, 3)
    first, second = Classifier(nn.Sequential(net, head)).in_use(), Classifier(net).in_use()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert head.training
    assert all(parameter.requires_grad for parameter in head.parameters())
    assert not any(module.training for module in net.modules())  # the other one computes with it
    assert not any(parameter.requires_grad for parameter in net.parameters())
    second.__exit__(None, None, None)
    assert all(module.training for module in net.modules())
    assert all(parameter.requires_grad for parameter in net.parameters())


def test_passes_are_counted_for_the_samples_they_serve() -> None:
    net = _net()
    x, _ = _data(net)
    counted = CountedClassifier(Classifier(net), len(x))
    counted.logits(x[:4], torch.tensor([0, 1, 2, 2]))
    logits, value, gradient = counted.value_and_gradient(x[1:3], torch.tensor([1, 2]), lambda f, _: f[:, 0] - f[:, 1])
    assert counted.passes.forward[:4].tolist() == [1, 2, 3, 0]
    assert counted.passes.backward[:4].tolist() == [0, 1, 1, 0]
    assert counted.passes.total.sum() == 8
    counted.value_and_gradient(x[:3], torch.tensor([1, 3, 3]), lambda f, _: f[:, 0])
    assert counted.passes.backward[:4].tolist() == [0, 2, 1, 2]
    at = x[1:3].clone().requires_grad_(True)
    (expected,) = torch.autograd.grad((net(at)[:, 0] - net(at)[:, 1]).sum(), at)
    torch.testing.assert_close(gradient, expected)
    torch.testing.assert_close(value, logits[:, 0] - logits[:, 1])
    assert not value.requires_grad
    assert not logits.requires_grad


def test_gradients_come_under_no_grad_too() -> None:
    net = _net()
    x, _ = _data(net)
    with torch.no_grad():
        _, _, gradient = CountedClassifier(Classifier(net), 12).value_and_gradient(
            x, torch.arange(12), lambda f, _: f[:, 0]
        )
    assert gradient.abs().sum() > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": 3}, "model: expected a callable"),
        ({"model": torch.nn.Flatten}, r"found the class Flatten; give Flatten\(\)"),
        ({"bounds": (1, 0)}, "bounds: expected finite numbers, lowest < highest"),
        ({"bounds": "01x"}, "bounds: expected two numbers"),
        ({"mean": 0.5}, "mean, std: expected both or neither, found mean alone"),
        ({"mean": 0.5, "std": 0.0}, "std: expected positive"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, object], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        Classifier(**({"model": _net()} | arguments))  # type: ignore[arg-type]


def test_wrong_outputs_are_named() -> None:
    x = torch.zeros(4, 2)
    with pytest.raises(ValueError, match=r"model: expected logits of shape \(4, classes\)"):
        Classifier(lambda x: torch.zeros(3, 5))(x)
    with pytest.raises(TypeError, match="model: expected a floating-point tensor"):
        Classifier(lambda x: [0.0])(x)  # type: ignore[arg-type,return-value]
    with pytest.raises(ValueError, match=r"mean: expected a number or one value per channel, found 3 values"):
        Classifier(_net(), mean=[0.1] * 3, std=[1.0] * 3)(x)


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (torch.full((4, 12), 255.0), torch.zeros(4).long(), r"look like 8-bit values: divide by 255"),
        (torch.rand(4, 12) * 3, torch.zeros(4).long(), r"within bounds \(0, 1\).*before normalisation"),
        (torch.randint(0, 255, (4, 12)), torch.zeros(4).long(), "images: expected floating point"),
        (torch.rand(4, 12), torch.full((4,), 3), "labels: expected 0 to 2 for a model with 3 classes"),
        (torch.rand(4, 12), torch.zeros(5).long(), r"labels: expected one label per image, shape \(4,\)"),
        (torch.rand(4, 12), torch.zeros(4), "labels: expected integers"),
        (torch.full((4, 12), torch.nan), torch.zeros(4).long(), "images: expected finite"),
        (torch.rand(4), torch.zeros(4).long(), "images: expected a tensor of shape"),
    ],
)
def test_wrong_inputs_are_named(images: Tensor, labels: Tensor, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        check_inputs(Classifier(_net()), images, labels)


def test_a_sound_model_gets_no_warning() -> None:
    net = _net().eval()
    x, y = _data(net)
    check_inputs(Classifier(net), x, y)
    assert warnings_about(CountedClassifier(Classifier(net), len(x)), x, y) == []


class _Random(nn.Module):
    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.net(x)
        return logits + torch.randn_like(logits)


def test_classic_mistakes_are_said_in_a_sentence() -> None:
    net = _net().eval()
    x, y = _data(net)

    def said(model: object, labels: Tensor = y) -> str:
        return " ".join(warnings_about(CountedClassifier(Classifier(model), len(x)), x, labels))  # type: ignore[arg-type]

    assert "softmax" in said(lambda x: net(x).softmax(1))
    assert "random" in said(_Random(net).eval())
    assert "exactly zero on 100%" in said(lambda x: net(x) * 0 + torch.eye(3)[net(x).argmax(1)])
    assert "differentiable" in said(lambda x: net(x.detach()).detach())
    assert "train mode" in said(nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(12, 3)).train())
    assert "train mode" not in said(_net().train())  # nothing in it knows the difference
    assert "other images of the batch" in said(lambda x: net(x) - net(x).mean(0) * (len(x) > 1))
    assert "Nearly all" in said(net, (y + 1) % 3)
    assert "NaN" in said(lambda x: net(x) / 0)


def test_the_state_of_a_classifier_changes_with_all_its_logits_are_made_of() -> None:
    def state(mean: float = 0.0, bounds: tuple[float, float] = (0.0, 1.0), running: float = 0.0) -> dict[str, float]:
        net = nn.BatchNorm1d(2)
        assert net.running_mean is not None
        net.running_mean += running
        return {name: value.tolist() for name, value in Classifier(net, bounds, mean, 1.0).state().items()}

    assert state() == state()
    for other in (state(mean=0.5), state(bounds=(-1.0, 1.0)), state(running=1.0)):
        assert other != state()
