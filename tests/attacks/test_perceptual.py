"""LPA, Fast-LPA and PPGD: their parts against what is known exactly, and what every attack promises."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

from pwcf import Classifier, MaxLoss, MinRadius, evaluate
from pwcf.attacks import Task
from pwcf.attacks.perceptual import FastLpa, Lpa, Ppgd, lpa
from pwcf.attacks.perceptual.ppgd import Jacobian, conjugate_gradients, steepest
from pwcf.attacks.perceptual.shared import NOISE, FeatureMetric, into_ball, starts_of
from pwcf.metrics import FeatureDistance, Features, Metric, as_metric, perceptual
from pwcf.models import CountedClassifier
from pwcf.problems import Problem, is_wrong

SHAPE, ROWS, CLASSES = (2, 5, 6), 6, 4
AnyAttack = Lpa | FastLpa | Ppgd
# As published; and LPA with half of its steps, for time.
FULL = pytest.mark.parametrize("attack", [Lpa(), FastLpa(), Ppgd()], ids=lambda attack: attack.name)
ALL = pytest.mark.parametrize("attack", [Lpa(steps=10), FastLpa(), Ppgd()], ids=lambda attack: attack.name)


def features(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(2, 6, 3, padding=1), nn.Softplus(), nn.Conv2d(6, 8, 3, 2, 1), nn.Softplus())


def pd(p: int = 2, squared: bool = False) -> FeatureDistance:
    """Distances of up to about 1 within the box; the radii of ``linear()`` are 0.017 to 0.063."""
    return FeatureDistance(Features(features(), ("1", "3"), 0.5, 0.1), "pd-small", p, squared)


def linear(classes: int = CLASSES, seed: int = 1) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(SHAPE), classes))


def samples(net: nn.Module, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    images = 0.3 + 0.4 * torch.rand(ROWS, *SHAPE, generator=torch.Generator().manual_seed(2))
    net.to(dtype)
    with torch.no_grad():
        return images.to(dtype), net(images.to(dtype)).argmax(1)


def task_of(
    net: nn.Module, metric: Metric | str, eps: float, budget: int = 500, dtype: torch.dtype = torch.float32,
    targeted: bool = False, rows: slice = slice(None), frozen: Tensor | None = None,
    bounds: tuple[float, float] = (0.0, 1.0), batch: int = ROWS,
) -> Task:  # fmt: skip
    images, labels = (part[rows] for part in samples(net, dtype))
    labels = (labels + 1) % CLASSES if targeted else labels
    problem = MaxLoss(metric, eps, targeted=targeted)
    counted = CountedClassifier(Classifier(net, bounds), ROWS, batch)
    lower, upper = (torch.full_like(images, side) for side in bounds)
    if frozen is not None:
        lower, upper = torch.where(frozen, images, lower), torch.where(frozen, images, upper)
    numbers = torch.arange(ROWS)[rows]
    return Task(counted, problem, images, labels, numbers, lower, upper, problem.radii(len(images)), budget, 0)


def answers(task: Task, points: Tensor) -> Tensor:
    """(n,) misclassified within eps, as they are."""
    assert task.eps is not None
    near = task.problem.metric.distance64(task.images, points) <= task.eps * (1 + 1e-6)
    return near & is_wrong(task.model.classifier(points), task.labels, task.problem.targeted)


@FULL
@pytest.mark.parametrize(("loss", "dtype"), [("margin", torch.float32), ("ce", torch.float64), ("dlr", torch.float32)])
def test_what_is_near_is_found_and_what_is_far_is_not(attack: AnyAttack, loss: str, dtype: torch.dtype) -> None:
    net = linear()
    images, labels = samples(net, dtype)
    run = evaluate(net, images, labels, MaxLoss(pd(), 0.2, loss), attacks=attack, budget=400)
    assert run.adversarial.all()
    assert run.x_adv.dtype == dtype
    assert (run.radius <= 0.2 * (1 + 1e-6)).all()
    assert (run.passes.total <= 400).all()
    assert (run.metric_passes.total > 0).all()
    assert not evaluate(net, images, labels, MaxLoss(pd(), 0.015, loss), attacks=attack, budget=100).adversarial.any()


@pytest.mark.parametrize("attack", [Lpa(steps=10), Ppgd()], ids=lambda attack: attack.name)
@pytest.mark.parametrize("eps", [0.03, 0.2])
def test_points_of_the_projected_ones_are_within_eps_and_answers_are_kept(attack: AnyAttack, eps: float) -> None:
    net = linear()
    task = task_of(net, pd(), eps)
    points = attack(task).points
    assert (task.problem.metric.distance64(task.images, points) <= eps * (1 + 1e-6)).all()
    found = answers(task, points)
    assert found.all() if eps == 0.2 else 2 <= found.sum() < ROWS


@ALL
@pytest.mark.parametrize("budget", [25, 26, 91])
def test_passes_stay_within_the_budget(attack: AnyAttack, budget: int) -> None:
    task = task_of(linear(), pd(), 1e-3, budget)  # nothing is found, so all of it is used
    attack(task)
    total = task.model.passes.total
    assert (total <= budget).all()
    most = {"lpa": 100, "fast-lpa": 40, "ppgd": 10}[attack.name]
    assert (total >= min(0.75 * budget, most)).all()  # five searches share 26 passes: two steps each


@cache
def radii() -> Tensor:
    net = linear()
    return evaluate(net, *samples(net), MinRadius(pd()), attacks="lmn", budget=80).radius


@ALL
def test_min_radius(attack: AnyAttack) -> None:
    net = linear()
    task = task_of(net, pd(), 0.0, budget=25)
    attack(replace(task, problem=MinRadius(pd()), eps=None))
    assert (task.model.passes.total <= 25).all()
    images, labels = samples(net)
    best = radii()
    # PPGD takes ten passes a round and has plenty of rounds with these.
    budget = 100 if isinstance(attack, Ppgd) else 250
    found = evaluate(net, images, labels, MinRadius(pd()), attacks=attack, budget=budget)
    assert found.adversarial.all()
    assert (found.radius / best).median() < 1.3


@ALL
def test_a_sample_has_the_same_answer_alone(attack: AnyAttack) -> None:
    net = linear()
    for eps in (0.03, 0.2):  # some broken, and all; Newton's steps fail, or not
        together = attack(task_of(net, pd(), eps, dtype=torch.float64, batch=4)).points  # fewer than there are rows
        for i in (0, 3):
            alone = attack(task_of(net, pd(), eps, dtype=torch.float64, rows=slice(i, i + 1))).points
            torch.testing.assert_close(alone[0], together[i], rtol=0, atol=1e-7)


@ALL
def test_masked_entries_stay(attack: AnyAttack) -> None:
    net = linear()
    images, labels = samples(net)
    mask = torch.zeros(SHAPE, dtype=torch.bool)
    mask[1] = True
    run = evaluate(net, images, labels, MaxLoss(pd(), 0.3), attacks=attack, budget=400, mask=mask)
    assert run.adversarial.all()
    assert torch.equal(run.x_adv[:, 0], images[:, 0])
    task = task_of(net, pd(), 0.05, frozen=~mask)
    points = attack(task).points
    assert torch.equal(points[:, 0], images[:, 0])
    assert not torch.equal(points[:, 1], images[:, 1])


@ALL
def test_targeted(attack: AnyAttack) -> None:
    task = task_of(linear(), pd(), 0.4, targeted=True)
    points = attack(task).points
    assert (task.model.classifier(points).argmax(1) == task.labels).all()


@ALL
def test_rows_leave_as_soon_as_they_are_broken(attack: AnyAttack) -> None:
    task = task_of(linear(), pd(), 0.2)
    points = attack(task).points
    assert answers(task, points).all()
    assert (task.model.passes.total <= 6).all()
    assert (task.model.passes.total % 2 == 0).all()  # each look is a value and a gradient


class Undefined(nn.Module):
    """A model with no answer further than this from given points: first steps lead there."""

    def __init__(self, net: nn.Module, images: Tensor, reach: float) -> None:
        super().__init__()
        self.net, self.images, self.reach = net, images, reach

    def forward(self, x: Tensor) -> Tensor:
        gone = torch.cdist(x.flatten(1), self.images.flatten(1)).amin(1) > self.reach
        logits: Tensor = self.net(x)
        return torch.where(gone.unsqueeze(1), torch.nan, logits)


@ALL
def test_where_the_model_says_nothing_the_search_goes_on(attack: AnyAttack) -> None:
    images, _ = samples(linear())
    net = Undefined(linear(), images, 0.4)
    task = task_of(net, pd(), 0.5)
    asked: list[Tensor] = []
    net.register_forward_hook(lambda module, inputs, logits: asked.append(torch.isnan(logits).any(1)))
    points = attack(task).points
    assert torch.cat(asked).sum() >= ROWS  # they were there,
    assert points.isfinite().all()
    assert answers(task, points).sum() >= ROWS - 1  # and came back


@ALL
@pytest.mark.parametrize("slope", [0.0, 1e-30, 1e6])
def test_any_size_of_gradient(attack: AnyAttack, slope: float) -> None:
    net = linear()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter *= slope
    task = task_of(net, pd(), 0.2)
    points = attack(task).points
    assert points.isfinite().all()
    assert ((points >= 0) & (points <= 1)).all()
    assert answers(task, points).all() == (slope > 0)


def test_fast_lpa_hands_over_raw_points() -> None:
    """As published it goes on after an answer, and ends wherever the slopes of loss and distance have led."""
    task, other = (task_of(linear(), pd(), 0.2) for _ in range(2))
    raw, kept = FastLpa().raw(task), FastLpa()(other).points
    assert (task.model.passes.total == 40).all()
    assert (task.problem.metric.distance64(task.images, raw) > 0.2).all()
    assert (other.model.passes.total < 40).all()
    assert answers(other, kept).all()


def test_passes_of_the_metric_are_counted() -> None:
    task = task_of(linear(), pd(), 0.1)
    FastLpa(steps=7).raw(task)
    # The images once; at each step the point, both ways, and the one that tells the steepness.
    assert task.model.metric_passes.forward.tolist() == [1 + 2 * 7] * ROWS
    assert task.model.metric_passes.backward.tolist() == [7] * ROWS


def test_the_steps_of_the_lagrangian_shrink_from_eps() -> None:
    """In l2 the steepness is 1, and steps are what they should be: eps * 0.1^(i / steps), in every search anew."""
    eps, visited = 1e-3, []
    net = linear(seed=5)
    task = task_of(net, "l2", eps, dtype=torch.float64)
    start = starts_of(task)
    net.register_forward_pre_hook(lambda module, inputs: visited.append(inputs[0].detach().clone()))
    Lpa(steps=3, searches=2)(task)
    assert len(visited) == 6
    torch.testing.assert_close(visited[0], start)
    lengths = [(b - a).flatten(1).norm(dim=1) for a, b in pairwise(visited)]
    for length, power in zip(lengths, (0, 1 / 3, 2 / 3, 0, 1 / 3), strict=True):
        torch.testing.assert_close(length, torch.full_like(length, eps * 0.1**power), rtol=1e-5, atol=0)


def test_lambda_grows_where_a_search_ends_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    lambdas: list[Tensor] = []
    step = lpa._Descent.step

    def watched(self: lpa._Descent, rows: Tensor, lam: Tensor, share: float, keep: bool) -> tuple[Tensor, Tensor]:
        lambdas.append(lam.clone())
        return step(self, rows, lam, share, keep)

    monkeypatch.setattr(lpa._Descent, "step", watched)
    net = linear()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.zero_()  # nothing moves but what is outside
    task = task_of(net, "l2", 0.0)
    eps = torch.where(torch.arange(ROWS) < 3, 1e-6, 1.0).double()  # the noise alone is about 0.08
    Lpa(steps=2, searches=3)(replace(task, eps=eps))
    outside, inside = torch.stack(lambdas)[:, 0], torch.stack(lambdas)[:, 5]
    torch.testing.assert_close(outside, torch.tensor([0.01, 0.01, 0.1, 0.1, 1.0, 1.0]))
    assert (inside == 0.01).all()


@pytest.mark.parametrize("metric", ["l2", "linf", "l1"])
def test_any_metric_will_do_for_the_lagrangian(metric: str) -> None:
    net = linear(seed=3)
    images, labels = samples(net)
    W, b = net[1].weight.detach(), net[1].bias.detach()  # type: ignore[operator, union-attr]
    f = images.flatten(1) @ W.T + b
    q = {"l2": 2.0, "linf": 1.0, "l1": math.inf}[metric]
    size = torch.linalg.vector_norm(W[labels].unsqueeze(1) - W.unsqueeze(0), ord=q, dim=2)
    exact = ((f.gather(1, labels[:, None]) - f) / size).scatter(1, labels[:, None], math.inf).amin(1).double()
    near = evaluate(net, images, labels, MaxLoss(metric, 3 * exact), attacks=Lpa(), budget=400)
    assert near.adversarial.all()
    assert not evaluate(net, images, labels, MaxLoss(metric, 0.95 * exact), attacks=Lpa(), budget=400).adversarial.any()


@ALL
def test_a_squared_distance_is_measured_by_its_root(attack: AnyAttack) -> None:
    net = linear()
    plain = attack(task_of(net, pd(), 0.04, dtype=torch.float64)).points
    squared = attack(task_of(net, pd(squared=True), 0.04**2, dtype=torch.float64)).points
    torch.testing.assert_close(squared, plain, rtol=0, atol=1e-7)


@pytest.mark.parametrize("eps", [0.02, 0.3])
def test_projection_draws_in_what_is_outside_and_nothing_else(eps: float) -> None:
    task = task_of(linear(), pd(), eps, dtype=torch.float64)
    noise = torch.randn(task.images.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    points = (task.images + 0.2 * noise).clamp(0, 1)
    points[0] = task.images[0] + 1e-4
    found = into_ball(task, FeatureMetric(task), points, torch.arange(ROWS))
    distance = task.problem.metric.distance64(task.images, found)
    assert torch.equal(found[0], points[0])
    assert (task.problem.metric.distance64(task.images, points)[1:] > eps).all()
    assert (distance <= eps).all()
    assert ((found >= 0) & (found <= 1)).all()
    # With an eps below the overshoot Newton's steps fail: then the point is on the way from where it began.
    way, moved = (points - task.images).flatten(1)[1:], (found - task.images).flatten(1)[1:]
    along = nn.functional.cosine_similarity(way, moved)
    if eps < 0.1:
        assert (along > 1 - 1e-9).any()
        straight = along > 1 - 1e-9
        assert (distance[1:][straight] > 0.9 * eps).all()
    else:
        assert (along < 1 - 1e-6).all()


def test_projection_without_a_slope_goes_back_to_the_image() -> None:
    metric = as_metric(lambda x, y: (x - y).flatten(1).norm(dim=1).sign())  # 1 wherever it is not 0
    task = task_of(linear(), metric, 0.5)
    found = into_ball(task, FeatureMetric(task), task.images + 0.1, torch.arange(ROWS))
    assert torch.equal(found, task.images)


def test_conjugate_gradients_solve_every_row() -> None:
    n = 8
    generator = torch.Generator().manual_seed(4)
    R = torch.randn(3, n, n, generator=generator, dtype=torch.float64)
    A = R @ R.mT + torch.eye(n, dtype=torch.float64)
    g = torch.randn(3, n, generator=generator, dtype=torch.float64)
    g[1] = 0
    v = conjugate_gradients(lambda p: torch.einsum("bij,bj->bi", A, p), g, n)
    torch.testing.assert_close(v, torch.linalg.solve(A, g), rtol=1e-6, atol=1e-8)
    assert not v[1].any()


def test_the_steepest_step_is_that_of_the_explicit_jacobian() -> None:
    task = task_of(linear(), pd(), 0.1, dtype=torch.float64)
    metric, rows = FeatureMetric(task), torch.arange(3)
    x = task.images[:3]
    g = torch.randn(x.shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    length = torch.tensor([1e-3, 2e-3, 3e-3], dtype=torch.float64)
    step = steepest(Jacobian(metric, x, rows, torch.ones_like(x, dtype=torch.bool), 1.0), g, length, 200).flatten(1)
    for i in range(3):
        J = torch.autograd.functional.jacobian(lambda z: pd().features(z.view(1, *SHAPE))[0], x[i].flatten())
        v = torch.linalg.solve(J.T @ J, g[i].flatten())
        assert nn.functional.cosine_similarity(v, step[i], dim=0) > 0.98
        torch.testing.assert_close((J @ step[i]).norm(), length[i], rtol=0.05, atol=0)


def test_starts_are_near_and_each_sample_has_its_own() -> None:
    for bounds in ((0.0, 1.0), (-3.0, 5.0)):
        task = task_of(linear(), pd(), 0.1, bounds=bounds)
        noise = (starts_of(task) - task.images) / (bounds[1] - bounds[0])
        assert 0.8 * NOISE < noise.std() < 1.2 * NOISE
        assert (noise[0] - noise[1]).abs().max() > NOISE
        assert torch.equal(starts_of(task), starts_of(task))


@pytest.mark.parametrize("metric", [pd(p=1), as_metric("l2"), as_metric(lambda x, y: (x - y).flatten(1).norm(dim=1))])
def test_ppgd_says_what_it_needs(metric: Metric) -> None:
    problem: Problem = MaxLoss(metric, 0.1)
    reason = Ppgd().unsupported_reason(problem, 3)
    assert reason is not None
    assert metric.name in reason
    with pytest.raises(ValueError, match="needs a Euclidean distance between features"):
        Ppgd()(task_of(linear(), metric, 0.1))
    assert Lpa().unsupported_reason(problem, 3) is None
    assert Ppgd().unsupported_reason(MaxLoss(pd(squared=True), 0.1), 3) is None


def test_settings_are_checked_and_told() -> None:
    for wrong in ({"loss": "hinge"}, {"steps": 0}, {"steps": 2.5}):
        for attack in (Lpa, FastLpa, Ppgd):
            with pytest.raises(ValueError, match=next(iter(wrong))):
                attack(**wrong)  # type: ignore[arg-type]
    assert "20 steps" in Lpa().about
    assert Lpa().unsupported_reason(MaxLoss("l0", 3.0), 3) is not None
    assert FastLpa().unsupported_reason(MaxLoss("l0", 3.0), 3) is not None


@cache
def vectors() -> tuple[nn.Module, Metric, Tensor, Tensor, Tensor]:
    """A model of one logit, a metric, images, labels, radii."""
    torch.manual_seed(0)
    metric = perceptual(nn.Sequential(nn.Linear(12, 20), nn.Tanh(), nn.Linear(20, 9), nn.Tanh()), mean=0.5, std=0.1)
    net, images = nn.Linear(12, 1), torch.rand(5, 12)
    labels = (net(images).squeeze(1) > 0).long()
    return net, metric, images, labels, evaluate(net, images, labels, MinRadius(metric), budget=80).radius


@ALL
def test_vectors_and_two_classes(attack: AnyAttack) -> None:
    net, metric, images, labels, radius = vectors()
    run = evaluate(net, images, labels, MaxLoss(metric, 0.8), attacks=attack, budget=300)
    assert (radius <= 0.8).sum() == 4
    assert torch.equal(run.adversarial, radius <= 0.8)
