"""Adversarial training: inner points are feasible and worse, robustness is gained, and nothing else is touched."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import pwcf
from pwcf.losses import cross_entropy
from pwcf.metrics import Metric, as_metric
from pwcf.training import Epoch, train, worst_points

SIDE, CLASSES = 12, 3


def net(seed: int = 0, *, scale: float = 1.0) -> nn.Module:
    torch.manual_seed(seed)
    made = nn.Sequential(nn.Conv2d(1, 4, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, CLASSES))
    with torch.no_grad():
        made[-1].weight.mul_(scale)
    return made.eval()


def samples(count: int = 16) -> tuple[Tensor, Tensor]:
    """Some pixels are at the bounds, as in real images."""
    generator = torch.Generator().manual_seed(1)
    images = (1.4 * torch.rand(count, 1, SIDE, SIDE, generator=generator) - 0.2).clamp(0, 1)
    return images, torch.randint(0, CLASSES, (count,), generator=generator)


def middle(reference: Tensor, candidate: Tensor) -> Tensor:
    """One's own: the upper half counts ten times as much as the lower."""
    weight = torch.ones(SIDE, 1, device=reference.device)
    weight[: SIDE // 2] = 10
    return (weight * (candidate - reference)).flatten(1).norm(dim=1)


def squared(reference: Tensor, candidate: Tensor) -> Tensor:
    """No norm: it grows with the square of the way."""
    return (candidate - reference).square().flatten(1).sum(1)


def coarse(reference: Tensor, candidate: Tensor) -> Tensor:
    """Differences of means over 3 x 3 pixels: invisible noise lets a step go as far as the bounds."""
    return nn.functional.avg_pool2d((candidate - reference), 3).abs().flatten(1).sum(1)


METRICS: dict[str, tuple[Any, float]] = {
    "l1": ("l1", 3.0),
    "l1, tiny": ("l1", 1e-3),
    "l1.5": ("l1.5", 0.8),
    "l2": ("l2", 0.5),
    "l8": ("l8", 0.1),
    "linf": ("linf", 0.05),
    "linf, tiny": ("linf", 1e-6),
    "own": (middle, 1.0),
    "squared": (squared, 0.25),
    "coarse": (coarse, 0.5),
    "ssim": ("ssim", 0.02),
    "pd-self": ("pd-self", 0.05),
}


def asked(name: str) -> tuple[Metric, float]:
    what, eps = METRICS[name]
    if name == "ssim":
        pytest.importorskip("torchmetrics")
    return as_metric(what), eps


# The inner problem


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("bounds", [(0.0, 1.0), (-1.0, 2.0)])
def test_inner_points_are_feasible_and_their_loss_is_what_is_said(name: str, bounds: tuple[float, float]) -> None:
    metric, eps = asked(name)
    if name == "ssim" and bounds != (0.0, 1.0):
        pytest.skip("its data_range is that of the bounds (0, 1)")
    images, labels = samples()
    eps_each = torch.linspace(0.5 * eps, eps, len(images), dtype=torch.float64)
    classifier = pwcf.Classifier(net(scale=5), bounds)
    worst = worst_points(classifier, images, labels, metric, eps_each, steps=5)
    assert worst.points.shape == images.shape
    assert bool(((worst.points >= bounds[0]) & (worst.points <= bounds[1])).all())
    distance = metric.bind(classifier).distance64(images, worst.points).detach()
    assert bool((distance <= eps_each).all()), float((distance / eps_each).max())
    before, after = (cross_entropy(classifier(x), labels).detach() for x in (images, worst.points))
    torch.testing.assert_close(worst.clean_loss, before)
    torch.testing.assert_close(worst.loss, after, rtol=1e-4, atol=1e-5)
    assert bool((worst.loss >= worst.clean_loss).all())
    assert torch.equal(worst.clean_right, classifier(images).argmax(1) == labels)
    assert torch.equal(worst.right, classifier(worst.points).argmax(1) == labels)
    if "tiny" not in name:
        assert bool((after > before + 1e-4).all()), (
            "the loss did not rise for every sample, misclassified ones included"
        )
        # In the network's own features a maximum may lie inside.
        assert name == "pd-self" or bool((distance > 0.5 * eps_each).all()), "most of the room is used"


@pytest.mark.parametrize(("name", "share"), [("l1", 0.9), ("l2", 0.98), ("linf", 0.98), ("l1.5", 0.9), ("own", 0.9)])
def test_a_linear_model_is_climbed_to_its_maximum(name: str, share: float) -> None:
    """Two classes and no bounds in reach: the margin rises by eps |w|_q, and cross-entropy with it."""
    metric, eps = asked(name)
    torch.manual_seed(3)
    weight = torch.randn(SIDE * SIDE)
    classifier = pwcf.Classifier(lambda x: torch.stack([-(x.flatten(1) @ weight), x.flatten(1) @ weight], 1), (-9, 9))
    images, labels = torch.zeros(1, 1, SIDE, SIDE), torch.tensor([0])
    scale = torch.ones(SIDE, SIDE)
    if name == "own":
        scale[: SIDE // 2] = 10
    p = 2.0 if name == "own" else {"l1": 1.0, "l1.5": 1.5, "l2": 2.0, "linf": math.inf}[name]
    q = math.inf if p == 1 else 1 if math.isinf(p) else p / (p - 1)
    most = eps * float(torch.linalg.vector_norm(weight / scale.flatten(), ord=q))
    worst = worst_points(classifier, images, labels, metric, torch.tensor([eps], dtype=torch.float64), steps=20)
    gained = float(classifier(worst.points)[0, 1])
    assert share * most <= gained <= most * 1.00001


def test_steps_of_l1_are_sparse() -> None:
    images, labels = samples()
    classifier = pwcf.Classifier(net(scale=5))
    for name, most in (("l1", 0.45), ("linf", 1.0)):
        metric, eps = asked(name)
        worst = worst_points(classifier, images, labels, metric, torch.full((16,), eps, dtype=torch.float64))
        moved = (worst.points != images).flatten(1).float().mean(1)
        assert float(moved.mean()) <= most
    assert float(moved.mean()) > 0.8


def test_more_steps_find_worse_points() -> None:
    images, labels = samples(64)
    classifier = pwcf.Classifier(net(scale=5))
    for name in ("l1", "l2", "linf", "coarse"):
        metric, eps = asked(name)
        limit = torch.full((64,), 4 * eps, dtype=torch.float64)
        one, many = (
            float(worst_points(classifier, images, labels, metric, limit, steps=steps).loss.mean()) for steps in (1, 12)
        )
        assert many > one


def test_the_inner_problem_touches_neither_gradients_nor_modes_nor_statistics() -> None:
    model = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(SIDE * SIDE), nn.Dropout(0.5), nn.Linear(SIDE * SIDE, CLASSES))
    model.train()
    model[2].eval()
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 7.0)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    images, labels = samples()
    metric, eps = asked("l2")
    worst_points(pwcf.Classifier(model), images, labels, metric, torch.full((16,), eps, dtype=torch.float64))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(bool((parameter.grad == 7).all()) and parameter.requires_grad for parameter in model.parameters())
    assert [module.training for module in model] == [True, True, False, True]


def test_a_model_without_slope_gives_the_images_back() -> None:
    images, labels = samples()
    model = net()
    with torch.no_grad():
        model[-1].weight.zero_()
    for name in ("l1", "l2", "linf", "l1.5", "own", "ssim"):
        metric, eps = asked(name)
        worst = worst_points(pwcf.Classifier(model), images, labels, metric, torch.full((16,), eps).double())
        assert torch.equal(worst.points, images)


def test_points_stay_in_the_box_where_rounding_would_leave_it() -> None:
    """images + 1 * (boxed - images) is not always boxed."""
    bounds = (-2.1179, 2.64)
    torch.manual_seed(0)
    images = bounds[0] + (bounds[1] - bounds[0]) * torch.rand(16, 1, SIDE, SIDE)
    images, labels = images.clamp(*bounds), samples()[1]
    worst = worst_points(
        pwcf.Classifier(net(scale=5), bounds), images, labels, as_metric("l8"), torch.full((16,), 30.0)
    )
    assert bool(((worst.points >= bounds[0]) & (worst.points <= bounds[1])).all())


def constant(reference: Tensor, candidate: Tensor) -> Tensor:
    return (candidate - reference).detach().flatten(1).norm(dim=1)


def similarity(reference: Tensor, candidate: Tensor) -> Tensor:
    return nn.functional.cosine_similarity(reference.flatten(1), candidate.flatten(1))


def negative(reference: Tensor, candidate: Tensor) -> Tensor:
    return -(candidate - reference).square().flatten(1).sum(1)


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        (constant, "metric constant: expected a distance with a gradient in the candidate, found none"),
        (similarity, r"metric similarity: expected d\(x, x\) = 0, found 1, beyond eps; is it a similarity"),
        (negative, "metric negative: expected distances >= 0, found -.*; is it a similarity"),
    ],
)
def test_a_function_that_is_no_distance_is_named(metric: Any, said: str) -> None:
    images, labels = samples()
    with pytest.raises(ValueError, match=said):
        train(net(), images, labels, pwcf.MaxLoss(metric, 0.5), epochs=1)


def test_ssim_is_climbed_on_images_with_flat_regions() -> None:
    """SSIM is steep where images are flat: steps of equal length everywhere break half of what an attack does."""
    pytest.importorskip("torchmetrics")
    images, labels = (each[:40] for each in pwcf.zoo.load_images())
    classifier = pwcf.Classifier(pwcf.zoo.load_network("fashion-standard"))
    limit = torch.full((40,), 0.1, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    worst = worst_points(classifier, images, labels, as_metric("ssim"), limit, steps=10, generator=generator)
    assert float(worst.right.float().mean()) <= 0.1, "pwcf.evaluate with 400 passes breaks all"


def test_steps_are_measured_as_the_metric_weighs_entries() -> None:
    """A weighted l2 norm, weights from 1 to 100: the best point is known, and seven steps are near it."""
    weight = torch.logspace(0, 2, SIDE * SIDE).view(1, SIDE, SIDE)
    metric = as_metric(lambda a, b: (weight * (b - a)).flatten(1).norm(dim=1))
    torch.manual_seed(3)
    slope = torch.randn(SIDE * SIDE)
    classifier = pwcf.Classifier(lambda x: torch.stack([-(x.flatten(1) @ slope), x.flatten(1) @ slope], 1), (-9, 9))
    worst = worst_points(classifier, torch.zeros(1, 1, SIDE, SIDE), torch.tensor([0]), metric, torch.ones(1), steps=7)
    most = float((slope / weight.flatten()).norm())
    assert 0.85 * most <= float(classifier(worst.points)[0, 1]) <= most * 1.00001


# Training


def toy(
    count: int = 200, exact: tuple[int, float] = (13, 0.1), often: tuple[int, float] = (3, 0.4)
) -> tuple[Tensor, Tensor]:
    """Two classes; (entries, half difference) of those that are always right, and of those that are in nine of ten.

    Standard training relies on the former. They are the first to be overturned where they are small, or few.
    """
    generator = torch.Generator().manual_seed(5)
    labels = torch.randint(0, 2, (count,), generator=generator)
    always = (2.0 * labels - 1).unsqueeze(1)
    mostly = always * torch.where(torch.rand(count, 1, generator=generator) < 0.9, 1.0, -1.0)
    images = 0.5 + torch.cat([exact[1] * always.expand(-1, exact[0]), often[1] * mostly.expand(-1, often[0])], 1)
    return (images + 0.01 * torch.randn(images.shape, generator=generator)).clamp(0, 1), labels


def perceptron() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 2))


FEW = {"exact": (1, 0.3), "often": (10, 0.2)}


@pytest.mark.parametrize(
    ("metric", "eps", "entries"),
    [("linf", 0.15, {}), ("l2", 0.4, FEW), ("l1", 0.5, FEW), ("l1.5", 0.4, FEW), (squared, 0.16, FEW)],
)
def test_adversarial_training_beats_standard_training_under_attack(
    metric: Any, eps: float, entries: dict[str, Any]
) -> None:
    images, labels = toy(**entries)
    problem = pwcf.MaxLoss(metric, eps)
    robust = []
    for goal in (None, problem):
        torch.manual_seed(0)
        model = nn.Linear(images.shape[1], 2)
        train(model, images, labels, goal, epochs=30, batch=50, lr=0.2, inner_steps=4)
        run = pwcf.evaluate(model, images[:40], labels[:40], problem, budget=100)
        robust.append(run.robust_accuracy)
        assert run.clean_accuracy >= 0.9
    assert robust[1] >= 0.85, "the entries that eps cannot overturn are right in nine of ten"
    assert robust[1] > robust[0] + 0.3, robust


def test_the_log_says_what_happened() -> None:
    images, labels = toy(200)
    heard: list[Epoch] = []
    shares: list[float] = []
    log = train(
        perceptron(), images, labels, pwcf.MaxLoss("linf", 0.05), epochs=3, batch=64, lr=1e-2,
        on_epoch=heard.append, on_batch=lambda epoch, share: shares.append(epoch.number - 1 + share),
    )  # fmt: skip
    assert heard == log.epochs
    assert [epoch.number for epoch in log.epochs] == [1, 2, 3]
    assert shares == sorted(shares)
    assert len(shares) == 3 * 4
    assert shares[-1] == 3
    assert log.epochs[-1].loss < log.epochs[0].loss
    for epoch in log.epochs:
        assert epoch.robust_accuracy is not None
        assert epoch.inner_gain is not None
        assert 0 <= epoch.robust_accuracy <= epoch.clean_accuracy <= 1
        assert epoch.inner_gain > 0
    assert "linf within 0.05, 3 of 3 epochs" in log.summary()
    plain = train(perceptron(), images, labels, epochs=1)
    assert plain.epochs[0].robust_accuracy is None
    assert plain.epochs[0].inner_gain is None
    assert plain.summary().startswith("standard training")


@pytest.mark.parametrize("problem", [None, pwcf.MaxLoss("l1", 1.0), pwcf.MaxLoss(squared, 0.1)])
def test_the_same_seed_gives_the_same_bits(problem: pwcf.MaxLoss | None) -> None:
    images, labels = toy(200)

    def trained(seed: int, noise: int) -> dict[str, Tensor]:
        model = nn.Sequential(*perceptron(), nn.Dropout(0.2))
        torch.manual_seed(noise)  # what the caller does with randomness is no matter
        train(model, images, labels, problem, epochs=2, batch=64, seed=seed)
        return model.state_dict()

    first, again, other = trained(0, 1), trained(0, 2), trained(1, 1)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_modes_gradients_and_randomness_are_given_back() -> None:
    images, labels = toy(100)
    model = nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2)).eval()
    model[2].train()
    state = torch.get_rng_state()
    seen: list[bool] = []
    model[1].register_forward_hook(lambda module, *_: seen.append(module.training))
    train(model, images, labels, pwcf.MaxLoss("l2", 0.1), epochs=1, batch=50, inner_steps=3)
    assert torch.equal(torch.get_rng_state(), state)
    assert [module.training for module in model] == [False, False, True, False]
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())
    # The check, then of each batch: the images, three steps and the last point in eval mode, the outer step in train.
    # After the epoch a last look, whether all is finite.
    assert seen == [False] + 2 * ([False] * 5 + [True]) + [False]
    assert float(model[1].num_batches_tracked) == 2


def test_a_classifier_brings_bounds_and_normalisation() -> None:
    images, labels = toy(100)
    model = perceptron()
    before = model[0].weight.detach().clone()
    lowest: list[float] = []
    model.register_forward_pre_hook(lambda _, inputs: lowest.append(float(inputs[0].detach().min())))
    train(pwcf.Classifier(model, (0, 1), 0.5, 0.25), images, labels, pwcf.MaxLoss("linf", 0.5), epochs=1)
    assert min(lowest) == -2.0
    assert not torch.equal(model[0].weight, before)


def test_every_sample_has_its_own_eps() -> None:
    images, labels = toy(64)
    eps = torch.where(torch.arange(64) % 2 == 0, 0.0, 0.3)
    log = train(perceptron(), images, labels, pwcf.MaxLoss("l2", eps), epochs=1, batch=64, lr=1e-9)
    both = train(perceptron(), images, labels, pwcf.MaxLoss("l2", 0.3), epochs=1, batch=64, lr=1e-9)
    assert 0 < log.epochs[0].inner_gain < 0.7 * both.epochs[0].inner_gain  # type: ignore[operator]


def with_batch_norm() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2))


@pytest.mark.parametrize("problem", [None, pwcf.MaxLoss("l2", 0.1)])
def test_an_image_left_over_alone_joins_the_batch_before(problem: pwcf.MaxLoss | None) -> None:
    images, labels = toy(101)
    sizes: list[int] = []
    model = with_batch_norm()
    model.register_forward_hook(lambda module, inputs, _: sizes.append(len(inputs[0])) if module.training else None)
    shares: list[float] = []
    train(model, images, labels, problem, epochs=1, batch=50, on_batch=lambda _, share: shares.append(share))
    assert sizes == [50, 51]
    assert shares == [0.5, 1.0]
    sizes.clear()
    train(model, images[:52], labels[:52], problem, epochs=1, batch=50)
    assert sizes == [50, 2]
    with pytest.raises(ValueError, match="batch: expected at least 2 images for a model with batch norm"):
        train(model, images[:1], labels[:1], problem, epochs=1)
    plain = perceptron()
    train(plain, images[:3], labels[:3], problem, epochs=1, batch=1)


@pytest.mark.parametrize("problem", [None, pwcf.MaxLoss("l2", 0.1)])
@pytest.mark.parametrize("made", [perceptron, with_batch_norm])
def test_weights_of_the_last_step_are_looked_at(problem: pwcf.MaxLoss | None, made: Callable[[], nn.Module]) -> None:
    """A single step: its loss was that of the weights before."""
    images, labels = toy(20)
    heard: list[Epoch] = []
    with pytest.raises(FloatingPointError, match=r"no longer finite after epoch 1 with lr 1e\+36; give a smaller lr"):
        train(made(), images, labels, problem, epochs=1, lr=1e36, on_epoch=heard.append)
    assert heard == []


def test_a_mask_of_the_models_own_may_be_infinite() -> None:
    model = perceptron()
    model.register_buffer("mask", torch.tensor([-math.inf]))
    images, labels = toy(20)
    assert len(train(model, images, labels, epochs=1).epochs) == 1


def test_robust_accuracy_is_that_of_the_model_in_eval_mode() -> None:
    """In train mode a dropout of .999 leaves nothing, in eval mode nothing is wrong."""
    images, labels = toy(100, exact=(13, 0.4), often=(3, 0.4))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Dropout(0.0), nn.Linear(16, 2))
    train(model, images, labels, epochs=20, batch=50, lr=0.05)
    model[0].p = 0.999
    log = train(model, images, labels, pwcf.MaxLoss("linf", 0.01), epochs=1, lr=1e-9)
    assert log.epochs[0].robust_accuracy == log.epochs[0].clean_accuracy == 1


@pytest.mark.parametrize("metric", ["linf", "l1.5", squared])
def test_images_collect_no_gradients(metric: Any) -> None:
    images, labels = toy(20)
    images.requires_grad_(True)
    for problem in (None, pwcf.MaxLoss(metric, 0.1)):
        train(perceptron(), images, labels, problem, epochs=1)
    assert images.grad is None


def _never(x: Tensor) -> Tensor:
    return x


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"model": _never}, TypeError, r"model: expected a torch.nn.Module, .* found function"),
        ({"model": nn.Identity()}, ValueError, "model: expected parameters that require gradients"),
        ({"problem": pwcf.MinRadius("l2")}, TypeError, r"problem: expected MaxLoss\(metric, eps\) or None"),
        ({"problem": pwcf.MaxLoss("l2", 1, targeted=True)}, ValueError, "not targeted"),
        ({"problem": pwcf.MaxLoss("l0", 3)}, ValueError, "metric l0: expected a distance with a slope"),
        ({"problem": pwcf.MaxLoss("l2", torch.ones(3))}, ValueError, "eps: expected a number or 20 values"),
        ({"epochs": 0}, ValueError, "epochs: expected an integer >= 1, found 0"),
        ({"batch": 2.0}, ValueError, "batch: expected an integer"),
        ({"inner_steps": True}, ValueError, "inner_steps: expected an integer"),
        ({"lr": 0}, ValueError, "lr: expected a number > 0"),
        ({"seed": "a"}, ValueError, "seed: expected an integer"),
        ({"images": torch.zeros(0, 16), "labels": torch.zeros(0).long()}, ValueError, "images: expected at least one"),
        ({"images": torch.full((20, 16), 2.0)}, ValueError, "images: expected values within bounds"),
        ({"labels": torch.full((20,), 2)}, ValueError, "labels: expected 0 to 1"),
        ({"lr": 1e30}, FloatingPointError, "the loss became .* in epoch 1; give a smaller lr"),
    ],
)
def test_wrong_arguments_are_named(change: dict[str, Any], error: type[Exception], said: str) -> None:
    images, labels = toy(20)
    given = {"model": perceptron(), "images": images, "labels": labels, "epochs": 2, "batch": 5} | change
    with pytest.raises(error, match=said):
        train(**given)
