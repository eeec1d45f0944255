"""Attacks of other people: counted, stopped, watched, kept apart; adv-lib itself where it is installed."""

from __future__ import annotations

import copy
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy
import pytest
import torch
from torch import Tensor, nn

from pwcf import Classifier, MaxLoss, MinRadius, evaluate
from pwcf.attacks import Attack, Task
from pwcf.attacks.external import AdvLib, Function, TrackedModel, available, from_foolbox, from_torchattacks
from pwcf.attacks.external import adapters as adapters_module
from pwcf.attacks.external.adv_lib import (
    _METHODS,
    ABOUT_A_TARGET,
    ALMA_FIRST,
    first_step,
    with_first_step_that_ends,
)
from pwcf.metrics import as_metric
from pwcf.metrics.l0 import L0
from pwcf.models import CountedClassifier
from pwcf.problems import Problem

ROWS, SHAPE, CLASSES = 6, (2, 3, 4), 5
BOUNDS = pytest.mark.parametrize("bounds", [(0.0, 1.0), (-2.0, 3.0)])


class Net:
    """Two layers; it counts the rows it is called with, and the rows of its backward passes."""

    def __init__(
        self, bounds: tuple[float, float] = (0.0, 1.0), shape: tuple[int, ...] = SHAPE, classes: int = CLASSES
    ):
        generator = torch.Generator().manual_seed(0)
        entries = torch.Size(shape).numel()
        self.first = torch.randn(entries, 16, generator=generator) / entries**0.5
        self.last = torch.randn(16, classes, generator=generator)
        self.bounds, self.shape, self.forward, self.backward, self.largest = bounds, shape, 0, 0, 0
        self.nan_above: float | None = None

    def __call__(self, x: Tensor) -> Tensor:
        lower, upper = self.bounds
        assert torch.isfinite(x).all()
        assert x.shape[1:] == self.shape
        assert (x >= lower).all()
        assert (x <= upper).all()
        self.forward += x.shape[0]
        self.largest = max(self.largest, x.shape[0])
        u = (x.flatten(1) - lower) / (upper - lower)
        logits = torch.relu((u - 0.4) @ self.first.to(x)) @ self.last.to(x)
        if self.nan_above is not None:
            logits = torch.where((u.amax(1) > self.nan_above).unsqueeze(1), torch.nan, logits)
        if logits.requires_grad:
            logits.register_hook(self._count)
        return logits

    def _count(self, gradient: Tensor) -> None:
        self.backward += gradient.shape[0]

    def task(
        self,
        problem: Problem | None = None,
        budget: int = 100,
        rows: int = ROWS,
        batch: int = 256,
        mask: Tensor | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> Task:
        lower, upper = self.bounds
        problem = MinRadius("l2") if problem is None else problem
        u = 0.2 + 0.6 * torch.rand(rows, *self.shape, generator=torch.Generator().manual_seed(1))
        images = (lower + (upper - lower) * u).to(dtype)
        labels = self(images).argmax(1)
        if problem.targeted:
            labels = (labels + 1) % self.last.shape[1]
        low, high = torch.full_like(images, lower), torch.full_like(images, upper)
        if mask is not None:
            low, high = torch.where(mask, low, images), torch.where(mask, high, images)
        eps = problem.radii(rows) if isinstance(problem, MaxLoss) else None
        self.forward = self.largest = 0
        # The samples' numbers in the whole evaluation are not their places in the task.
        numbers = torch.arange(rows).flip(0) + 2
        counted = CountedClassifier(Classifier(self, self.bounds), rows + 3, batch)
        return Task(counted, problem, images, labels, numbers, low, high, eps, budget, 7)

    def wrong(self, task: Task, points: Tensor) -> Tensor:
        return (self(points).argmax(1) == task.labels) == task.problem.targeted


def ascent(model: nn.Module, images: Tensor, labels: Tensor, steps: int | None = 30, size: float = 0.02) -> Tensor:
    """Steps along the sign of the gradient of the loss, like everybody's; None: without end."""
    x, step = images.clone(), 0
    while steps is None or step < steps:
        x = x.detach().requires_grad_(True)
        loss = nn.functional.cross_entropy(model(x), labels, reduction="sum")
        (gradient,) = torch.autograd.grad(loss, x)
        x = (x + size * gradient.sign()).clamp(0, 1)
        step += 1
    return x.detach()


def spent(task: Task) -> Tensor:
    return task.model.passes.total[task.samples]


def run(call: Callable[..., Tensor], task: Task, name: str | None = None) -> Tensor:
    return Function(call, name)(task).points


@BOUNDS
@pytest.mark.parametrize("problem", [MinRadius("linf"), MaxLoss("linf", 0.2)], ids=str)
def test_an_attack_that_knows_nothing_of_us_answers(bounds: tuple[float, float], problem: Problem) -> None:
    if isinstance(problem, MaxLoss):
        problem = MaxLoss("linf", 0.2 * (bounds[1] - bounds[0]))
    net = Net(bounds)
    task = net.task(problem)
    points = run(ascent, task)
    forward, backward = net.forward, net.backward
    assert net.wrong(task, points).all()
    assert task.model.passes.forward.sum() == forward
    assert task.model.passes.backward.sum() == backward > 0
    assert task.model.passes.total[:2].sum() == 0  # numbers that nobody has
    if isinstance(problem, MaxLoss):
        assert (problem.metric(task.images, points) <= problem.radii(ROWS) * 1.00001).all()
        assert (spent(task) < 2 * 30).all()  # all are broken long before the end
    else:
        assert (spent(task) <= 2 * 30 + 1).all()


def test_it_is_an_attack_for_evaluate() -> None:
    net = Net()
    attack = Function(ascent, about="signs")
    assert isinstance(attack, Attack)
    assert (attack.name, attack.about, attack.black_box) == ("ascent", "signs", False)
    assert Function(lambda model, x, y: x).name == "lambda"
    task = net.task()
    result = evaluate(net, task.images, task.labels, MinRadius("l2"), attacks=[attack], budget=200)
    assert result.adversarial.all()
    assert result.attack == ["ascent"] * ROWS
    with pytest.raises(TypeError, match="call: expected a function"):
        Function(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("budget", [25, 26, 90])
def test_the_budget_ends_it_and_what_was_seen_is_the_answer(budget: int) -> None:
    net = Net()
    task = net.task(budget=budget)

    def endless(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        while True:
            try:
                return ascent(model, images, labels, None, 0.05)
            except Exception:  # an attack's code may do that; it must not keep us
                raise AssertionError("the end was taken for a failure") from None

    points = run(endless, task)
    assert (spent(task) == budget // 2 * 2).all()  # a step whose gradient is not affordable is not begun
    assert net.wrong(task, points).all()


def test_forward_passes_alone_are_worth_one() -> None:
    net = Net()
    task = net.task(budget=31)

    def walk(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        with torch.no_grad():
            for t in range(1000):
                model(torch.lerp(images, 1 - images, t / 30).requires_grad_(True))
        return images

    points = run(walk, task)
    assert (spent(task) == 31).all()
    assert task.model.passes.backward.sum() == 0
    assert net.wrong(task, points).any()


def test_many_backward_passes_after_one_forward_pass_end_too() -> None:
    net = Net()
    task = net.task(budget=28)  # four times six passes, and of the fifth time four

    def jacobians(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        while True:
            x = images.clone().requires_grad_(True)
            logits = model(x)
            for k in range(CLASSES):
                torch.autograd.grad(logits[:, k].sum(), x, retain_graph=True)

    run(jacobians, task)
    assert (spent(task) == 28).all()
    assert net.forward + net.backward == 28 * ROWS


def test_the_nearest_point_seen_counts_not_the_last_one() -> None:
    net = Net()
    far = (net.task().images < 0.5).float()

    def there_and_far_away(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        with torch.no_grad():
            for t in torch.linspace(0, 1, 21):
                model(torch.lerp(images, far, t))
        return far

    task = net.task()
    points = run(there_and_far_away, task)
    wrong = torch.stack([net.wrong(task, torch.lerp(task.images, far, t)) for t in torch.linspace(0, 1, 21)])
    assert wrong[-1].any()
    first = wrong.double().argmax(0) / 20
    expected = first.float() * (far - task.images).flatten(1).norm(dim=1)
    found = wrong.any(0)
    torch.testing.assert_close((points - task.images).flatten(1).norm(dim=1)[found], expected[found])
    assert (spent(task) <= 22).all()


def test_a_point_that_was_not_shown_is_looked_at_if_there_is_a_pass_for_it() -> None:
    net = Net()
    good = run(ascent, net.task(budget=60))
    bad = net.task().images + 0.001

    def shows_good_returns_bad(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        model(good)
        return bad

    def shows_bad_returns_good(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        model(bad)
        return good

    for budget in (1, 2):  # no matter whether there is one left: what was seen to be wrong counts
        task = net.task(budget=budget)
        assert torch.equal(run(shows_good_returns_bad, task), good)
        assert (spent(task) == budget).all()
    for budget in (1, 2):
        task = net.task(budget=budget)
        assert torch.equal(run(shows_bad_returns_good, task), good)
        assert (spent(task) == budget).all()


def test_what_it_returns_must_be_points() -> None:
    task = Net().task()
    with pytest.raises(ValueError, match=r"attack odd: expected points of shape \(6, 2, 3, 4\), found \(6, 24\)"):
        run(lambda model, x, y: x.flatten(1), task, "odd")
    with pytest.raises(ValueError, match="found NoneType"):
        run(lambda model, x, y: None, task, "odd")


def test_its_failure_is_named() -> None:
    def fails(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        raise IndexError("no such class")

    with pytest.raises(RuntimeError, match="attack fails failed: IndexError: no such class"):
        run(fails, Net().task())


def test_nan_points_become_what_was_seen_and_else_the_image() -> None:
    net = Net()
    good = run(ascent, net.task(budget=60))

    def spoiled(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        shown = images.clone()
        shown[:3] = good[:3]
        model(shown)
        points = good.clone()
        points[2:5, 0, 0, 0] = torch.nan
        return points

    task = net.task()
    points = run(spoiled, task)
    assert torch.equal(points[:3], good[:3])
    assert torch.equal(points[3:5], task.images[3:5])
    assert torch.equal(points[5], good[5])


def test_undefined_logits_and_gradients_do_not_reach_it() -> None:
    net = Net()
    task = net.task(budget=200)
    net.nan_above = 0.85
    seen: list[Tensor] = []

    def looking(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        x = torch.lerp(images, torch.ones_like(images), 0.5).requires_grad_(True)
        logits = model(x)
        (gradient,) = torch.autograd.grad(logits.square().sum(), x)
        seen.extend([logits.detach(), gradient])
        assert torch.equal(logits.argmax(1), labels)  # undefined is not adversarial
        assert torch.isfinite(model(torch.full_like(images, torch.nan))).all()
        return ascent(model, images, labels)

    points = run(looking, task)
    assert all(torch.isfinite(tensor).all() for tensor in seen)
    assert torch.isfinite(points).all()
    found = (points != task.images).flatten(1).any(1)
    assert found.any()
    assert net.wrong(task, points)[found].all()
    assert torch.isfinite(net(points)[found]).all()


def test_undefined_gradients_are_zero() -> None:
    net = Net()
    steep = CountedClassifier(Classifier(lambda x: net(x) + (0 * x[:, :1, 0, 0]).sqrt()), ROWS + 3)  # inf times 0
    task = Task(**{**vars(net.task()), "model": steep})

    def asks(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        x = images.requires_grad_(True)
        (gradient,) = torch.autograd.grad(model(x)[:, 0].sum(), x)
        assert (gradient[:, 0, 0, 0] == 0).all()
        assert torch.isfinite(gradient).all()
        assert gradient.abs().max() > 0
        return images.detach()

    run(asks, task)


def test_a_model_without_gradients_has_zero_ones() -> None:
    net = Net()
    blind = CountedClassifier(Classifier(lambda x: net(x).detach()), ROWS + 3)
    task = Task(**{**vars(net.task()), "model": blind})

    def asks(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        x = images.requires_grad_(True)
        (gradient,) = torch.autograd.grad(model(x).sum(), x)
        assert gradient.abs().max() == 0
        return images.detach()

    assert torch.equal(run(asks, task), task.images)
    assert blind.passes.backward.sum() == 0


@BOUNDS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_entries_that_are_not_changed_come_back_exactly(bounds: tuple[float, float], dtype: torch.dtype) -> None:
    net = Net(bounds)
    task = net.task(MinRadius(L0()), dtype=dtype)

    def corner(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        assert images.min() >= 0
        assert images.max() <= 1
        images = images.float()  # some attacks know nothing else
        images[:, 0, 0] = images[:, 0, 0].round()
        assert model(images).dtype == torch.float32
        return images

    points = run(corner, task)
    assert points.dtype == dtype
    assert torch.equal(points[:, 1], task.images[:, 1])
    assert torch.equal(points[:, 0, 1:], task.images[:, 0, 1:])
    expected = torch.where(task.images[:, 0, 0] > sum(bounds) / 2, *(torch.tensor(side) for side in bounds[::-1]))
    torch.testing.assert_close(points[:, 0, 0], expected.to(dtype))


def test_entries_that_must_not_change_have_no_gradient_and_stay() -> None:
    net = Net()
    mask = torch.zeros(SHAPE, dtype=torch.bool)
    mask[0] = True
    task = net.task(mask=mask)

    def heedless(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        for start in (images, 1 - images):
            x = start.clone().requires_grad_(True)
            (gradient,) = torch.autograd.grad(model(x)[:, 0].sum(), x)
            assert gradient[:, 1].abs().max() == 0
            assert gradient[:, 0].abs().max() > 0
        return 1 - images

    points = run(heedless, task)
    assert torch.equal(points[:, 1], task.images[:, 1])
    torch.testing.assert_close(points[:, 0], 1 - task.images[:, 0])


def test_rows_of_some_samples_and_several_of_one_are_told_apart() -> None:
    net = Net()
    good = run(ascent, net.task(budget=60))
    task = net.task()

    def picky(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        model(good[[4, 1]])
        rows = torch.stack([images[2], torch.lerp(images[2], good[2], 1.05), good[2], good[5], images[2]])
        model(rows.requires_grad_(True))[0].sum().backward()
        return images

    points = run(picky, task)
    for row in (1, 2, 4, 5):
        assert torch.equal(points[row], good[row])  # of two the nearer one
    for row in (0, 3):
        assert torch.equal(points[row], task.images[row])
    assert task.model.passes.forward[task.samples].tolist() == [0, 1, 4, 0, 1, 1]
    assert task.model.passes.backward[task.samples].tolist() == [0, 0, 4, 0, 0, 1]


def test_a_sample_that_fills_many_rows_has_its_budget_too() -> None:
    net = Net()
    task = net.task(budget=25)

    def stacks(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        while True:
            model(images[:1].expand(10, *SHAPE))

    run(stacks, task)
    assert spent(task).tolist() == [20, 0, 0, 0, 0, 0]


def test_calls_are_split_to_the_batch_of_the_model() -> None:
    net = Net()
    together, apart = (run(ascent, net.task(batch=batch)) for batch in (256, 4))
    assert net.largest == 4
    torch.testing.assert_close(apart, together)


def test_flattened_calls_and_a_targeted_question() -> None:
    net = Net()
    task = net.task(MinRadius("l2", targeted=True))

    def flat(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        return ascent(lambda x: -model(x), images.flatten(1), labels, 40).view_as(images)  # type: ignore[arg-type]

    def downhill(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        x = images.flatten(1)
        for _ in range(40):
            x = x.detach().requires_grad_(True)
            (gradient,) = torch.autograd.grad(nn.functional.cross_entropy(model(x), labels, reduction="sum"), x)
            x = (x - 0.03 * gradient.sign()).clamp(0, 1)
        return x.detach().view_as(images)

    assert net.wrong(task, run(downhill, task)).all()
    assert torch.isfinite(run(flat, net.task(MinRadius("l2", targeted=True)))).all()


def test_the_model_looks_like_one() -> None:
    task = Net().task(dtype=torch.float64)

    def nosy(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        assert isinstance(model, TrackedModel)
        assert not model.training
        assert model.eval() is model
        parameter = next(model.parameters())
        assert (parameter.device, parameter.dtype) == (images.device, images.dtype)
        assert not parameter.requires_grad
        assert len(list(model.parameters())) == 1
        assert model.task is task
        return images

    run(nosy, task)


def test_it_is_kept_apart(capsys: pytest.CaptureFixture[str]) -> None:
    drawn = []

    def noisy(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        print("Attack mode is changed")
        drawn.append((torch.rand(1).item(), random.random(), numpy.random.rand()))
        labels[:] = 0
        return images.add_(0.1).clamp_(0, 1)

    task = Net().task()
    before = task.images.clone(), task.labels.clone()
    states = torch.get_rng_state(), random.getstate(), numpy.random.get_state()[1].tolist()  # type: ignore[union-attr]
    run(noisy, task)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert (random.getstate(), numpy.random.get_state()[1].tolist()) == states[1:]  # type: ignore[union-attr]
    assert capsys.readouterr().out == ""
    assert torch.equal(task.images, before[0])
    assert torch.equal(task.labels, before[1])
    for seed in (torch.manual_seed, random.seed, numpy.random.seed):
        seed(5)  # whatever the caller's state is, the task's seed decides, and nothing else
    run(noisy, task)
    assert drawn[1] == drawn[0]
    run(noisy, Task(**{**vars(task), "seed": -8}))
    assert all(other != first for other, first in zip(drawn[2], drawn[0], strict=True))


def test_it_sees_gradients_though_the_caller_has_none() -> None:
    net = Net()
    with torch.no_grad():
        task = net.task()
        assert net.wrong(task, run(ascent, task)).all()


def test_points_at_eps_count_though_rounded_beyond_it() -> None:
    net = Net()
    eps = 0.0077  # 129184.56 units in the last place of 0.5: rounded up
    task = net.task(MaxLoss("linf", eps))

    tracked = TrackedModel(task)
    point = (task.images + eps * torch.where(torch.rand_like(task.images) > 0.5, 1.0, -1.0)).clamp(0, 1)
    beyond = as_metric("linf")(task.images.double(), point.double()) > eps * (1 + 1e-6)
    assert beyond.any()  # otherwise this shows nothing
    tracked._remember(point, torch.eye(CLASSES)[(task.labels + 1) % CLASSES], tracked._everyone)
    assert tracked.found.all()
    fresh = TrackedModel(task)
    fresh._remember(task.images + 1.01 * eps, torch.eye(CLASSES)[(task.labels + 1) % CLASSES], fresh._everyone)
    assert not fresh.found.any()


def test_one_entry_is_the_least_that_can_be_counted() -> None:
    """adv-lib's FMN fails where all samples have come down to one entry and it may go on."""
    images = torch.full((3, 4), 0.4)
    model = CountedClassifier(Classifier(lambda x: torch.stack([0 * x[:, 0], x[:, 0] - 0.5], 1)), 3)
    labels, everyone = torch.zeros(3, dtype=torch.int64), torch.arange(3)
    box = torch.zeros_like(images), torch.ones_like(images)
    task = Task(model, MinRadius(L0()), images, labels, everyone, *box, None, 50, 0)

    def endless(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        model(torch.ones_like(images))  # four entries: more can be gained
        while True:
            model(torch.cat([torch.ones_like(images[:, :1]), images[:, 1:]], 1))

    points = run(endless, task)
    assert L0()(images, points).tolist() == [1.0] * 3
    assert model.passes.total.tolist() == [2] * 3


def test_no_samples() -> None:
    task = Net().task(rows=1).select(torch.arange(0))
    assert run(ascent, task).shape == (0, *SHAPE)


# ---- Foolbox and torchattacks, by stand-ins with their signatures -------------------------------------


@pytest.fixture
def foolbox(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, object, int]]:
    """A module like Foolbox; what its model was asked: (criterion, epsilons, samples)."""
    module = ModuleType("foolbox")
    module.PyTorchModel = lambda model, bounds, device: SimpleNamespace(model=model, bounds=bounds)
    module.Misclassification = lambda labels: ("wrong", labels)
    module.criteria = SimpleNamespace(TargetedMisclassification=lambda labels: ("targeted", labels))
    monkeypatch.setitem(sys.modules, "foolbox", module)
    monkeypatch.setattr(adapters_module.metadata, "version", lambda name: "3.3")
    return []


def test_foolbox(foolbox: list[tuple[str, object, int]]) -> None:
    class Signs:
        def __call__(self, model: SimpleNamespace, images: Tensor, criterion: tuple[str, Tensor], epsilons: object):  # type: ignore[no-untyped-def]
            assert model.bounds == (0, 1)
            foolbox.append((criterion[0], epsilons, len(images)))
            points = ascent(model.model, images, criterion[1])
            if epsilons is None:
                return points, points, None
            clipped = [torch.clamp(points, images - eps, images + eps) for eps in epsilons]  # type: ignore[attr-defined]
            return [points] * len(clipped), clipped, None

    attack = from_foolbox(Signs())
    assert (attack.name, attack.about) == ("Signs", "foolbox 3.3 Signs")
    net = Net((-2.0, 3.0))
    task = net.task()
    assert net.wrong(task, attack(task).points).all()
    eps = torch.tensor([1.0, 2.0, 1.0, 1.0, 2.0, 1.0], dtype=torch.float64)
    task = net.task(MaxLoss("linf", eps))
    points = attack(task).points
    assert net.wrong(task, points).all()
    assert (as_metric("linf")(task.images, points) <= eps * 1.00001).all()
    attack(net.task(MinRadius("l2", targeted=True)))
    from_foolbox(Signs(), epsilons=[0.5, 1.0])(net.task())
    assert foolbox == [
        ("wrong", None, ROWS),
        ("wrong", [0.2], 4),
        ("wrong", [0.4], 2),
        ("targeted", None, ROWS),
        ("wrong", [0.1, 0.2], ROWS),
    ]


def test_torchattacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchattacks", ModuleType("torchattacks"))
    monkeypatch.setattr(adapters_module.metadata, "version", lambda name: "3.5")
    modes = []

    class Signs:
        def __init__(self, model: nn.Module) -> None:
            self.model, self.device, self.targeted = model, next(model.parameters()).device, False

        def set_mode_targeted_by_label(self, quiet: bool) -> None:
            self.targeted = quiet

        def __call__(self, images: Tensor, labels: Tensor) -> Tensor:
            modes.append(self.targeted)
            return ascent(self.model, images.to(self.device), labels)

    attack = from_torchattacks(Signs)
    assert (attack.name, attack.about) == ("torchattacks", "torchattacks 3.5")
    net = Net()
    task = net.task()
    assert net.wrong(task, attack(task).points).all()
    attack(net.task(MinRadius("l2", targeted=True)))
    assert modes == [False, True]


@pytest.mark.parametrize(("adapter", "package"), [(from_foolbox, "foolbox"), (from_torchattacks, "torchattacks")])
def test_a_package_that_is_missing_is_named(
    adapter: Callable[..., Function], package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=f"pip install {package}"):
        adapter(lambda model: model)


# ---- adv-lib ----------------------------------------------------------------------------------------


FAKE = """
import torch, visdom, warnings
warnings.warn("old", DeprecationWarning)
from torchvision import models
from torchvision.models import *

CALLS = []

def init_lr_finder(inputs, grad, distance_function, target_distance):
    raise AssertionError("the search that may never end")

def _method(name):
    def attack(model, inputs, labels, **settings):
        CALLS.append((name, settings, inputs.dtype))
        steps = settings.get("steps") or settings.get("num_steps")
        sign = -1 if settings.get("targeted") else 1
        x = inputs
        for _ in range(steps):
            x = x.detach().requires_grad_(True)
            loss = torch.nn.functional.cross_entropy(model(x), labels, reduction="sum")
            x = (x + sign * 0.03 * torch.autograd.grad(loss, x)[0].sign()).clamp(0, 1)
        return x.detach()
    return attack

ddn, fmn, pdgd, pdpgd, sigma_zero = (_method(n) for n in ("ddn", "fmn", "pdgd", "pdpgd", "sigma_zero"))

def alma(model, inputs, labels, *, num_steps=1000, init_lr_distance=None, **settings):
    if init_lr_distance is not None:
        move = lambda x: (x - inputs).flatten(1).norm(dim=1)
        init_lr_finder(inputs, torch.zeros_like(inputs), move, init_lr_distance)
    return _method("alma")(model, inputs, labels, num_steps=num_steps, init_lr_distance=init_lr_distance, **settings)
"""


@pytest.fixture
def fake_adv_lib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], ModuleType]]:
    """adv-lib 9.9 in a place where neither visdom nor torchvision works."""
    (tmp_path / "adv_lib" / "attacks").mkdir(parents=True)
    (tmp_path / "adv_lib" / "__init__.py").write_text("")
    (tmp_path / "adv_lib" / "attacks" / "__init__.py").write_text(FAKE, "utf-8")
    (tmp_path / "visdom.py").write_text("raise ImportError('no visdom')")
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "__init__.py").write_text("import torchvision.part\nraise RuntimeError('no nms')")
    (tmp_path / "torchvision" / "part.py").write_text("")
    (tmp_path / "adv_lib-9.9.dist-info").mkdir()
    (tmp_path / "adv_lib-9.9.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: adv-lib\nVersion: 9.9\n")
    roots = ("adv_lib", "visdom", "torchvision")
    before = {name: module for name, module in sys.modules.items() if name.split(".")[0] in roots}
    for name in before:
        del sys.modules[name]
    monkeypatch.syspath_prepend(tmp_path)
    yield lambda: sys.modules["adv_lib.attacks"]
    for name in [name for name in sys.modules if name.split(".")[0] in roots]:
        del sys.modules[name]
    sys.modules.update(before)


NORMS = [(name, norm) for name, method in _METHODS.items() for norm in method.norms]


def metric_of(norm: str) -> MinRadius:
    return MinRadius(L0() if norm == "l0" else norm)


@pytest.mark.parametrize(("name", "norm"), NORMS)
def test_adv_lib_is_imported_when_it_is_called(name: str, norm: str, fake_adv_lib: Callable[[], ModuleType]) -> None:
    net = Net()
    attack = AdvLib(name)
    assert attack.unsupported_reason(metric_of(norm), 10) is None
    assert attack.about.startswith(f"adv-lib 9.9 {name}, as many steps")
    assert "adv_lib" not in sys.modules
    task = net.task(metric_of(norm), budget=51, dtype=torch.float64)
    points = attack(task).points
    assert net.wrong(task, points).all()
    assert (spent(task) >= 50).all()
    left_over = [module for module in sys.modules if module.split(".")[0] in ("visdom", "torchvision")]
    assert left_over == []
    ((called, settings, dtype),) = fake_adv_lib().CALLS
    assert called == name.replace("-", "_")
    assert dtype == torch.float32
    assert settings.get("steps", settings.get("num_steps")) == 25


def test_adv_lib_is_called_as_published(fake_adv_lib: Callable[[], ModuleType]) -> None:
    net = Net()
    budget = 2200
    for name, norm in NORMS:
        AdvLib(name, steps=1000)(net.task(MaxLoss(metric_of(norm).metric, 1e9), budget=budget))
    shared = {"targeted": False}
    assert [(name, settings) for name, settings, _ in fake_adv_lib().CALLS] == [
        ("ddn", {**shared, "steps": 1000, "levels": None}),
        ("fmn", {**shared, "norm": 0, "steps": 1000, "α_init": 1.0}),
        ("fmn", {**shared, "norm": 1, "steps": 1000, "α_init": 1.0}),
        ("fmn", {**shared, "norm": 2, "steps": 1000, "α_init": 1.0}),
        ("fmn", {**shared, "norm": torch.inf, "steps": 1000, "α_init": 10.0}),
        ("alma", {**shared, "num_steps": 1000, "distance": "l1", "init_lr_distance": 0.5, "α": 0.9}),
        ("alma", {**shared, "num_steps": 1000, "distance": "l2", "init_lr_distance": 0.1, "α": 0.9}),
        ("pdgd", {**shared, "num_steps": 1000}),
        ("pdpgd", {**shared, "norm": 1, "num_steps": 1000}),
        ("pdpgd", {**shared, "norm": 2, "num_steps": 1000}),
        ("pdpgd", {**shared, "norm": torch.inf, "num_steps": 1000}),
        ("sigma_zero", {"num_steps": 1000}),
    ]


def test_adv_lib_with_fewer_passes_than_steps_and_with_a_target(fake_adv_lib: Callable[[], ModuleType]) -> None:
    net = Net()
    task = net.task(MinRadius("l2", targeted=True), budget=80)
    points = AdvLib("alma", steps=1000)(task).points
    assert net.wrong(task, points).all()
    ((_, settings, _),) = fake_adv_lib().CALLS
    assert (settings["num_steps"], settings["targeted"], settings["α"]) == (40, True, 0.5)
    assert AdvLib("fmn", steps=1000).about.startswith("adv-lib 9.9 fmn, 1000 steps")


@pytest.mark.parametrize(
    ("name", "problem", "classes", "reason"),
    [
        ("ddn", MinRadius("l1"), 10, "ddn is there for l2, not for l1"),
        ("fmn", MinRadius("l1.5"), 10, "fmn is there for l0, l1, l2, linf, not for l1.5"),
        ("alma", MinRadius("l2"), 2, "the loss of alma needs 3 classes, the model has 2"),
        ("alma", MinRadius("l2", targeted=True), 3, "the loss of alma with a target needs 4 classes"),
        ("sigma-zero", MinRadius(L0(), targeted=True), 10, "sigma-zero takes no target"),
    ],
)
def test_adv_lib_says_why_not(
    name: str, problem: Problem, classes: int, reason: str, fake_adv_lib: Callable[[], ModuleType]
) -> None:
    assert reason in str(AdvLib(name).unsupported_reason(problem, classes))
    if name != "alma":
        with pytest.raises(ValueError, match=f"attack {name}: {reason}"):
            AdvLib(name)(Net().task(problem))


def test_adv_lib_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pwcf.attacks.external.adv_lib.available", lambda: False)
    attack = AdvLib("ddn")
    assert (
        attack.unsupported_reason(MinRadius("l2"), 10) == "adv-lib is not installed: pip install --no-deps adv-lib tqdm"
    )
    with pytest.raises(ImportError, match="pip install --no-deps adv-lib"):
        attack(Net().task())


@pytest.mark.parametrize("arguments", [{"name": "pgd"}, {"name": "fmn", "steps": 1}, {"name": "fmn", "steps": 2.5}])
def test_adv_lib_is_asked_for_what_there_is(arguments: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="expected"):
        AdvLib(**arguments)  # type: ignore[arg-type]


@pytest.mark.skipif(not available(), reason="adv-lib is not installed")
@pytest.mark.parametrize(("name", "norm"), NORMS)
@pytest.mark.parametrize(("shape", "rows"), [((2, 3, 4), 5), ((9,), 1)])
def test_the_real_adv_lib(name: str, norm: str, shape: tuple[int, ...], rows: int) -> None:
    net = Net(shape=shape)
    task = net.task(metric_of(norm), budget=300, rows=rows)
    points = AdvLib(name)(task).points
    assert torch.isfinite(points).all()
    assert (spent(task) <= 300).all()
    found = (points != task.images).flatten(1).any(1)
    assert found.double().mean() >= 0.5
    assert net.wrong(task, points)[found].all()


# ---- parts ------------------------------------------------------------------------------------------


def test_first_steps_go_as_far_as_told_or_half_as_far_as_the_box_allows() -> None:
    inputs = torch.tensor([[0.5, 0.5], [0.0, 1.0], [0.95, 0.5], [0.5, 0.5]])
    gradient = torch.tensor([[1e-4, -1e-4], [1.0, -1.0], [-3.0, 0.0], [10.0, 10.0]])

    def distance(x: Tensor) -> Tensor:
        return (x - inputs).abs().sum(1)

    step = first_step(inputs, gradient, distance, 0.2)
    moved = distance((inputs - step.unsqueeze(1) * gradient).clamp(0, 1))
    torch.testing.assert_close(moved, torch.tensor([0.2, 0.0, 0.025, 0.2]), rtol=1e-4, atol=1e-6)
    assert step[1] == pytest.approx(0.1)


def test_the_search_is_replaced_in_a_copy() -> None:
    names: dict[str, object] = {}
    exec("def init_lr_finder(): return 'theirs'\ndef alma(a, b=2, *, c=3): return init_lr_finder, a, b, c", names)
    theirs: Callable[..., tuple[object, ...]] = names["alma"]  # type: ignore[assignment]
    assert with_first_step_that_ends(theirs)(1) == (first_step, 1, 2, 3)
    assert theirs(1)[0] is names["init_lr_finder"]
    assert with_first_step_that_ends(run) is run


def test_alma_takes_any_distance_with_a_slope(fake_adv_lib: Callable[[], ModuleType]) -> None:
    net = Net()

    def weighted(a: Tensor, b: Tensor) -> Tensor:
        return (2 * (a - b)).flatten(1).norm(dim=1)

    task = net.task(MinRadius(weighted), budget=60)
    assert AdvLib("alma").unsupported_reason(task.problem, 10) is None
    assert net.wrong(task, AdvLib("alma")(task).points).all()
    ((_, settings, _),) = fake_adv_lib().CALLS
    assert (settings["distance"], settings["init_lr_distance"]) == (ABOUT_A_TARGET, None)
    assert AdvLib("fmn").unsupported_reason(task.problem, 10) == "fmn is there for l0, l1, l2, linf, not for weighted"
    assert "alma is there for l1, l2 and distances without a norm, not for linf" in str(
        AdvLib("alma").unsupported_reason(MinRadius("linf"), 10)
    )


@pytest.mark.skipif(not available(), reason="adv-lib is not installed")
def test_alma_in_a_distance_of_ours_is_alma_in_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same steps, whether its distance comes from its own table or from us."""
    net = Net()

    def euclid(a: Tensor, b: Tensor) -> Tensor:
        return (a - b).flatten(1).norm(dim=1)

    monkeypatch.setitem(ALMA_FIRST, "euclid", ALMA_FIRST["l2"])
    ours, theirs = (AdvLib("alma")(net.task(MinRadius(metric), budget=200)).points for metric in (euclid, "l2"))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-4)


def test_l0_counts_entries() -> None:
    a = torch.rand(3, 2, 4)
    b = a.clone()
    b[1, 0, 0] += 1e-6
    b[2] += 0.5
    metric = L0()
    assert metric(a, b).tolist() == [0.0, 1.0, 8.0]
    assert metric(a, b).dtype == torch.float32
    assert metric.name == "l0"
    assert not metric.differentiable
    assert L0() == metric


def test_copies_of_the_model_count_too() -> None:
    def copies(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        other = copy.deepcopy(model)
        for _ in range(500):
            other(images)
        return images

    x = torch.rand(3, 4)
    net = nn.Linear(4, 3)
    with pytest.warns(UserWarning, match="No misclassified point"):
        run = evaluate(net, x, net(x).argmax(1), MinRadius("l2"), attacks=copies, budget=100)
    assert (run.passes.total > 50).all()
    assert (run.passes.total <= 100).all()
