"""FAB and FAB-T: exact on linear models, within every budget, each row on its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from oracles.cases import linear_case
from oracles.linear import boxed_radii, exact_radii
from pwcf import Classifier, MaxLoss, MinRadius, evaluate
from pwcf.attacks import Task
from pwcf.attacks.fab import Fab
from pwcf.attacks.fab.geometry import BoundaryPlanes, FlatBox, Plane, onto_plane
from pwcf.attacks.fab.search import FabSchedule
from pwcf.metrics import Lp, as_metric, distance64
from pwcf.models import CountedClassifier
from pwcf.problems import Problem

METRICS = pytest.mark.parametrize("metric", ["l1", "l2", "linf"])
KINDS = pytest.mark.parametrize("targets", [None, 9])


def task_of(
    model: Callable[[Tensor], Tensor], images: Tensor, labels: Tensor, problem: Problem, budget: int, batch: int = 256
) -> Task:
    n = len(images)
    eps = problem.radii(n) if isinstance(problem, MaxLoss) else None
    lower, upper = torch.zeros_like(images), torch.ones_like(images)
    counted = CountedClassifier(Classifier(model), n, batch)
    return Task(counted, problem, images, labels, torch.arange(n), lower, upper, eps, budget, 0)


def radii(task: Task, points: Tensor) -> Tensor:
    """Distances of points that are inside the box and misclassified, inf of the others."""
    with torch.no_grad():
        said = task.model.classifier(points).argmax(1)
    good = (said == task.labels) == task.problem.targeted
    good &= ((points >= task.lower) & (points <= task.upper)).flatten(1).all(1)
    return torch.where(good, distance64(task.problem.metric, task.images, points), torch.inf)


def bent(n: int, classes: int, dtype: torch.dtype = torch.float32) -> nn.Module:
    """A network with boundaries so far from straight that starts matter."""
    torch.manual_seed(3)
    net = nn.Sequential(nn.Flatten(), nn.Linear(n, 30), nn.ReLU(), nn.Linear(30, 30), nn.Tanh(), nn.Linear(30, classes))
    net = net.to(dtype).requires_grad_(False)
    net[1].weight *= 4
    net[3].weight *= 4
    return net


def labelled(net: nn.Module, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    images = torch.rand(shape, dtype=dtype, generator=torch.Generator().manual_seed(4))
    return images, net(images).argmax(1)


# ---- what it finds ------------------------------------------------------------------------------------


@METRICS
@KINDS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_linear_models_are_solved_exactly(metric: str, targets: int | None, dtype: torch.dtype) -> None:
    case = linear_case(20, 5, 12, box_active=False, seed=1)
    images, labels = case.tensors(dtype)
    task = task_of(case.model(dtype), images, labels, MinRadius(metric), 150)
    points = Fab(targets=targets, steps=10, restarts=1)(task).points
    assert points.dtype == dtype
    exact = exact_radii(case.images, case.labels, case.W, case.b, as_metric(metric).p)  # type: ignore[attr-defined]
    ratio = radii(task, points).numpy() / exact
    assert (ratio >= 1 - 1e-5).all()
    assert (ratio <= 1.01).all()


@METRICS
def test_linear_models_with_a_box_that_counts(metric: str) -> None:
    """One target at a time is exact in the box too: the projection onto its plane and the box is."""
    case = linear_case(20, 5, 12, box_active=True, seed=2)
    images, labels = case.tensors()
    task = task_of(case.model(), images, labels, MinRadius(metric), 400)
    exact = exact_radii(case.images, case.labels, case.W, case.b, as_metric(metric).p)  # type: ignore[attr-defined]
    ratio = radii(task, Fab(targets=4, steps=20, restarts=1)(task).points).numpy() / exact
    assert (ratio >= 1 - 1e-9).all()
    assert (ratio <= 1.01).all()


@METRICS
@KINDS
def test_a_wanted_class(metric: str, targets: int | None) -> None:
    case = linear_case(20, 2, 12, box_active=False, seed=3)
    images, labels = case.tensors()
    task = task_of(case.model(), images, 1 - labels, MinRadius(metric, targeted=True), 60)
    p = as_metric(metric).p  # type: ignore[attr-defined]
    exact = [boxed_radii(x, y, case.W, case.b, p)[1 - y] for x, y in zip(case.images, case.labels, strict=True)]
    ratio = radii(task, Fab(targets=targets)(task).points) / torch.tensor(exact)
    assert (ratio >= 1 - 1e-9).all()
    assert (ratio <= 1.01).all()


@KINDS
def test_a_wanted_class_of_many(targets: int | None) -> None:
    """Every row ends in the class that was asked for, though others are nearer."""
    net = bent(12, 6)
    images, labels = labelled(net, (10, 12))
    wanted = net(images).argsort(dim=1)[:, 3]
    task = task_of(net, images, wanted, MinRadius("l2", targeted=True), 300)
    found = radii(task, Fab(targets=targets)(task).points)
    assert torch.isfinite(found).sum() >= 6
    assert (task.model.classifier(images).argmax(1) == labels).all()


@METRICS
@KINDS
def test_restarts_and_targets_only_help(metric: str, targets: int | None) -> None:
    net = bent(12, 10)
    images, labels = labelled(net, (12, 12))
    task = task_of(net, images, labels, MinRadius(metric), 4000)
    once = radii(task, Fab(targets=targets and 1, steps=20, restarts=1)(task).points)
    more = radii(task, Fab(targets=targets and 4, steps=20, restarts=2 if targets else 4)(task).points)
    assert torch.isfinite(more).all()
    assert (more <= 1.001 * once).all()
    assert (more < 0.99 * once).any()


@METRICS
def test_random_restarts_change_the_answer_with_the_seed(metric: str) -> None:
    net = bent(12, 10, torch.float64)
    images, labels = labelled(net, (12, 12), torch.float64)
    task = task_of(net, images, labels, MinRadius(metric), 2000)
    attack = Fab(steps=8, restarts=3)
    assert torch.equal(attack(task).points, attack(task).points)
    assert not torch.equal(attack(task).points, attack(replace(task, seed=1)).points)


def test_the_segment_to_the_image_is_searched_at_the_end() -> None:
    """A step of a linear model ends 5 % beyond the boundary; one is all there is, and still the answer is exact."""
    case = linear_case(20, 5, 12, box_active=False, seed=4)
    images, labels = case.tensors()
    task = task_of(case.model(), images, labels, MinRadius("l2"), 400)
    exact = exact_radii(case.images, case.labels, case.W, case.b, 2.0)
    ratio = radii(task, Fab(steps=1, restarts=1)(task).points).numpy() / exact
    assert (ratio <= 1.001).all()


# ---- budgets ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("targets", [None, 9])
@pytest.mark.parametrize("targeted", [False, True])
def test_no_budget_is_exceeded(targets: int | None, targeted: bool) -> None:
    net = bent(12, 10)
    images, labels = labelled(net, (3, 12))
    labels = (labels + 1) % 10 if targeted else labels
    attacks = (Fab(targets), Fab(targets, steps=7), Fab(targets, restarts=3), Fab(targets, 20, 5))
    for budget in (1, 5, 25, 26, 40, 64, 101, 237):
        for attack in attacks if budget < 101 else attacks[:1]:
            task = task_of(net, images, labels, MinRadius("linf", targeted=targeted), budget)
            attack(task)
            passes = task.model.passes.total
            assert (passes <= budget).all()
            if attack == Fab(targets) and budget >= 25:
                assert (passes >= 0.8 * budget).all()


@pytest.mark.parametrize(
    ("budget", "targets", "classes", "steps", "restarts", "expected"),
    [
        (5100, 1, 9, 100, 5, FabSchedule(5, 1, 100, 9)),  # FAB as published, nine gradients a step
        (100000, 1, 9, 100, 5, FabSchedule(5, 1, 100, 9)),
        (2000, 9, 1, 100, 1, FabSchedule(1, 9, 100, 1)),  # FAB-T as published
        (5010, 1, 9, None, None, FabSchedule(5, 1, 100, 9)),
        (1900, 1, 9, None, None, FabSchedule(2, 1, 94, 9)),
        (500, 1, 9, None, None, FabSchedule(1, 1, 49, 9)),
        (25, 1, 9, None, None, FabSchedule(1, 1, 10, 1)),  # nine gradients for two steps: rather one for ten
        (300, 1, 99, None, None, FabSchedule(1, 1, 10, 28)),
        (4000, 9, 1, None, None, FabSchedule(2, 9, 110, 1)),
        (1000, 9, 1, None, None, FabSchedule(1, 9, 54, 1)),
        (300, 9, 1, None, None, FabSchedule(1, 2, 73, 1)),
        (100, 9, 1, None, None, FabSchedule(1, 1, 47, 1)),
        (700, 9, 1, 100, 3, FabSchedule(1, 3, 100, 1)),  # steps that are asked for are kept, targets are fewer
        (100, 9, 1, 100, 3, FabSchedule(1, 1, 47, 1)),
        (5, 1, 9, None, None, None),
    ],
)
def test_plans(
    budget: int, targets: int, classes: int, steps: int | None, restarts: int | None, expected: FabSchedule | None
) -> None:
    plan = FabSchedule.within(budget, targets, classes, steps, restarts)
    assert plan == expected
    assert plan is None or plan.passes <= budget


def test_what_a_plan_costs_is_what_is_spent() -> None:
    net = bent(12, 10)
    images, labels = labelled(net, (3, 12))
    for attack, plan in ((Fab(None, 6, 2), FabSchedule(2, 1, 6, 9)), (Fab(4, 6, 2), FabSchedule(2, 4, 6, 1))):
        task = task_of(net, images, labels, MinRadius("l2"), 500)
        attack(task)
        assert task.model.passes.total.tolist() == [plan.passes] * 3
        assert int(task.model.passes.backward[0]) == plan.restarts * plan.targets * plan.steps * plan.classes


# ---- max-loss -----------------------------------------------------------------------------------------


@METRICS
@KINDS
def test_max_loss_rows_leave_as_soon_as_they_are_broken(metric: str, targets: int | None) -> None:
    case = linear_case(20, 5, 12, box_active=False, seed=5)
    images, labels = case.tensors()
    exact = torch.from_numpy(exact_radii(case.images, case.labels, case.W, case.b, as_metric(metric).p))  # type: ignore[attr-defined]
    even = torch.arange(12) % 2 == 0
    eps = torch.where(even, 1.06 * exact, 0.98 * exact)
    task = task_of(case.model(), images, labels, MaxLoss(metric, eps), 300)
    broken = radii(task, Fab(targets=targets)(task).points) <= eps
    assert torch.equal(broken, even)
    spent = task.model.passes.total
    # Untargeted the first step is over the boundary and the second look sees it. With targets the first may be wrong.
    assert (spent[even] <= (1 + 2 * 5 if targets is None else 200)).all()
    assert (spent[~even] > 250).all()
    assert (spent <= 300).all()


def test_max_loss_of_rows_that_others_have_broken_costs_one_look() -> None:
    case = linear_case(20, 5, 12, box_active=False, seed=5)
    images, labels = case.tensors()
    known = Fab()(task_of(case.model(), images, labels, MinRadius("l2"), 400)).points
    task = replace(task_of(case.model(), images, labels, MaxLoss("l2", 1.0), 400), known=known)
    assert torch.equal(Fab()(task).points, known)
    assert task.model.passes.total.tolist() == [1] * 12


# ---- rows on their own --------------------------------------------------------------------------------


@METRICS
@KINDS
def test_a_row_has_the_same_answer_whatever_is_beside_it(metric: str, targets: int | None) -> None:
    net = bent(12, 10, torch.float64)
    images, labels = labelled(net, (12, 2, 3, 2), torch.float64)
    attack, problem = Fab(targets=targets and 3, steps=8, restarts=3), MinRadius(metric)
    together = attack(task_of(net, images, labels, problem, 2000)).points
    some = torch.arange(12).flip(0)[1:]
    apart = attack(task_of(net, images[some], labels[some], problem, 2000, batch=5)).points
    torch.testing.assert_close(apart, together[some], rtol=0, atol=1e-7)
    other = attack(replace(task_of(net, images[some], labels[some], problem, 2000), seed=1)).points
    assert not torch.allclose(other, apart, rtol=0, atol=1e-3)  # chance has a say


@KINDS
@pytest.mark.parametrize(
    ("shape", "classes"), [((5, 7), 3), ((5, 1, 3, 11), 4), ((5, 2, 3, 2, 2), 4), ((3, 12), 100), ((3, 12), 2)]
)
def test_shapes_and_numbers_of_classes(targets: int | None, shape: tuple[int, ...], classes: int) -> None:
    net = bent(images_size(shape), classes)
    images, labels = labelled(net, shape)
    for budget in (60, 160):
        task = task_of(net, images, labels, MinRadius("linf"), budget)
        points = Fab(targets=targets)(task).points
        assert points.shape == shape
        assert (task.model.passes.total <= budget).all()
        if classes > 3:
            assert torch.isfinite(radii(task, points)).all()


def images_size(shape: tuple[int, ...]) -> int:
    return int(torch.tensor(shape[1:]).prod())


def test_one_logit_and_no_rows() -> None:
    layer = nn.Linear(6, 1).requires_grad_(False)
    images = torch.rand(8, 6)
    labels = (layer(images).squeeze(1) > 0).long()
    for targets in (None, 9):
        run = evaluate(layer, images, labels, MinRadius("l2"), attacks=[Fab(targets)], budget=200)
        assert run.attack == ["fab"] * 8
        task = task_of(layer, images[:0], labels[:0], MinRadius("l2"), 200)
        assert Fab(targets)(task).points.shape == (0, 6)


@METRICS
@KINDS
def test_masked_entries_stay(metric: str, targets: int | None) -> None:
    """With half of the entries fixed the answer is that of the linear model in the others."""
    case = linear_case(20, 5, 12, box_active=False, seed=6)
    images, labels = case.tensors()
    mask = torch.arange(20) % 2 == 0
    task = task_of(case.model(), images, labels, MinRadius(metric), 400)
    lower, upper = torch.where(mask, task.lower, images), torch.where(mask, task.upper, images)
    task = replace(task, lower=lower, upper=upper)
    points = Fab(targets=targets, steps=15)(task).points
    assert torch.equal(points[:, ~mask], images[:, ~mask])
    # The fixed entries are part of the offset, another one for every image.
    free = mask.numpy()
    exact = []
    for x, y in zip(case.images, case.labels, strict=True):
        offset = case.b + case.W[:, ~free] @ x[~free]
        exact.append(exact_radii(x[None, free], [y], case.W[:, free], offset, as_metric(metric).p)[0])  # type: ignore
    ratio = radii(task, points) / torch.tensor(exact)
    # In half of the entries the box may count, and then the nearest plane need not be the nearest in the box.
    assert (ratio >= 1 - 1e-9).all()
    assert ((ratio <= 1.01) | torch.isinf(ratio)).sum() >= 11


@METRICS
def test_fixed_entries_do_not_make_a_class_near(metric: str) -> None:
    """By its weights class 1 is nearest, but most of them are at entries that must not change."""
    layer = nn.Linear(4, 3, bias=False).requires_grad_(False)
    layer.weight.copy_(torch.tensor([[0.0, 0, 0, 0], [10.0, -10.0, -0.01, 0.01], [0, 0, 1.0, -1.0]]))
    layer.bias = nn.Parameter(torch.tensor([0.2, 0.0, 0.0]), requires_grad=False)
    images = torch.full((1, 4), 0.5)
    task = task_of(layer, images, torch.tensor([0]), MinRadius(metric), 100)
    fixed = torch.tensor([True, True, False, False])
    task = replace(
        task, lower=torch.where(fixed, images, task.lower), upper=torch.where(fixed, images, task.upper)
    )  # fmt: skip
    exact = {"l1": 0.2, "l2": 0.2 / 2**0.5, "linf": 0.1}[metric]
    assert radii(task, Fab(steps=3, restarts=1)(task).points) <= 1.01 * exact


# ---- models that are hard to follow ---------------------------------------------------------------------


@METRICS
@KINDS
@pytest.mark.parametrize("undefined", [1, 5])
def test_undefined_points_are_no_answers_and_no_end(metric: str, targets: int | None, undefined: int) -> None:
    """Logits, one or all, are NaN beyond a level of the first entry; there are answers on this side of it."""
    case = linear_case(20, 5, 12, box_active=False, seed=7)
    layer = case.model()
    images, labels = case.tensors()
    level = images[:, 0].max() + 1e-3

    def model(x: Tensor) -> Tensor:
        return torch.where((x[:, :1] > level) & (torch.arange(5) < undefined), torch.nan, layer(x))

    task = task_of(model, images, labels, MinRadius(metric), 150)
    points = Fab(targets=targets)(task).points
    assert torch.isfinite(points).all()
    found = radii(task, points)
    assert not torch.isnan(model(points)).any()
    assert torch.isfinite(found).sum() >= 8
    assert (task.model.passes.total <= 150).all()


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_an_undefined_point_has_no_plane(value: float) -> None:
    """Not even to classes whose logits are numbers."""
    layer = nn.Linear(4, 3).requires_grad_(False)

    def model(x: Tensor) -> Tensor:
        return torch.where((x[:, :1] > 0.5) & (torch.arange(3) == 2), value, layer(x))

    images = torch.tensor([[0.4], [0.6]]).expand(2, 4).contiguous()
    task = task_of(model, images, torch.tensor([0, 0]), MinRadius("l2"), 100)
    planes, rows = BoundaryPlanes(task), torch.arange(2)
    for _, plane in (planes.of_class(rows, images, torch.tensor([1, 1])), planes.of_nearest(rows, images, 2)):
        assert plane.usable.tolist() == [True, False]
        assert torch.isfinite(plane.g).all()


@METRICS
@KINDS
def test_flat_models(metric: str, targets: int | None) -> None:
    """No slope at the images: runs go on at random places. No slope and no other class: the images come back."""
    images = 0.2 * torch.rand(6, 8)
    labels = torch.zeros(6, dtype=torch.long)

    def steps(x: Tensor) -> Tensor:  # slopes begin where the sum is twice as large as at any image
        rise = (x.sum(1, keepdim=True) - 3.2 * 0.5).clamp(min=0)
        return torch.cat([torch.full_like(rise, 0.5), rise, -rise], 1)

    task = task_of(steps, images, labels, MinRadius(metric), 150)
    points = Fab(targets=targets)(task).points
    assert torch.isfinite(radii(task, points)).all()
    for constant in (lambda x: x[:, :3] * 0 + torch.tensor([1.0, 0, 0]), lambda x: torch.eye(3)[[0] * len(x)]):
        task = task_of(constant, images, labels, MinRadius(metric), 40)
        assert torch.equal(Fab(targets=targets)(task).points, images)
        assert (task.model.passes.total <= 40).all()


@KINDS
def test_classes_that_are_ruled_out(targets: int | None) -> None:
    case = linear_case(20, 5, 12, box_active=False, seed=8)
    layer, (images, labels) = case.model(), case.tensors()
    keep = (labels != 3).nonzero().squeeze(1)

    def model(x: Tensor) -> Tensor:
        return torch.where(torch.arange(5) == 3, -torch.inf, layer(x))

    task = task_of(model, images[keep], labels[keep], MinRadius("l2"), 200)
    assert torch.isfinite(radii(task, Fab(targets=targets)(task).points)).all()


def test_an_image_at_a_tie() -> None:
    """FAB's projection onto a plane through the image is the image: the plane lies a little beyond."""
    layer = nn.Linear(4, 3, bias=False).requires_grad_(False)
    layer.weight.copy_(torch.tensor([[1.0, 0, 0, 0], [0, 1.0, 0, 0], [-1.0, -1.0, 0, 0]]))
    images = torch.full((1, 4), 0.5)
    for targets in (None, 2):
        task = task_of(layer, images, torch.tensor([0]), MinRadius("l2"), 100)
        assert radii(task, Fab(targets)(task).points) < 1e-3
        task = task_of(layer, images, torch.tensor([1]), MinRadius("l2", targeted=True), 100)
        assert radii(task, Fab(targets)(task).points) < 1e-3


# ---- what others have found -----------------------------------------------------------------------------


@METRICS
@KINDS
def test_the_last_run_goes_on_from_what_is_known(metric: str, targets: int | None) -> None:
    net = bent(12, 10)
    images, labels = labelled(net, (8, 12))
    known = Fab(steps=20, restarts=1)(task_of(net, images, labels, MinRadius(metric), 300)).points
    known = torch.clamp(images + 1.3 * (known - images), 0, 1)
    some = torch.isfinite(radii(task_of(net, images, labels, MinRadius(metric), 60), known))
    some[0] = False  # nobody has found anything for this one
    known = torch.where(some.unsqueeze(1), known, images)
    seen: list[Tensor] = []

    def watched(x: Tensor) -> Tensor:
        seen.append(x.detach())
        return net(x)

    task = replace(task_of(watched, images, labels, MinRadius(metric), 60), known=known)
    found = radii(task, Fab(targets=targets)(task).points)
    assert some.sum() >= 5
    torch.testing.assert_close(seen[1], known)  # one run is all there is budget for
    assert (found[some] <= 0.98 * distance64(task.problem.metric, images, known)[some]).all()
    assert (task.model.passes.total <= 60).all()


def test_known_points_are_the_answer_where_nothing_is_nearer() -> None:
    images, labels = torch.full((2, 4), 0.5), torch.tensor([0, 0])
    known = images + torch.tensor([[0.1], [0.0]])

    def model(x: Tensor) -> Tensor:  # one small place with another class, and no slope anywhere
        hit = ((x - 0.6).abs() < 1e-3).all(1, keepdim=True).to(x) + 0 * x[:, :1]
        return torch.cat([1 - hit, hit], 1)

    task = replace(task_of(model, images, labels, MinRadius("l2"), 50), known=known)
    assert torch.equal(Fab()(task).points[1], images[1])
    assert radii(task, Fab()(task).points)[0] <= 0.2 + 1e-6


def test_diagnostics_tell_whether_the_last_restart_helped() -> None:
    net = bent(12, 10)
    images, labels = labelled(net, (12, 12))
    task = task_of(net, images, labels, MinRadius("l1"), 5000)
    once, twice = Fab(steps=10, restarts=1)(task), Fab(steps=10, restarts=2)(task)
    assert once.diagnostics.still_helping is None
    helped = twice.diagnostics.still_helping
    assert helped is not None
    assert helped.any()
    assert (radii(task, twice.points)[helped] < radii(task, once.points)[helped]).all()


# ---- the projection -------------------------------------------------------------------------------------


@METRICS
def test_projections_from_both_sides_end_on_the_plane(metric: str) -> None:
    lp = as_metric(metric)
    assert isinstance(lp, Lp)
    point, g = torch.rand(20, 15, dtype=torch.float64), torch.randn(20, 15, dtype=torch.float64)
    inside = torch.rand(20, 15, dtype=torch.float64)
    plane = Plane(g, (g * inside).sum(1), torch.ones(20, dtype=torch.bool))
    box = FlatBox(torch.zeros_like(point), torch.ones_like(point))
    before = (g * point).sum(1) - plane.h
    assert (before > 0).any()
    assert (before < 0).any()
    on = onto_plane(lp, point, plane, box)
    torch.testing.assert_close((g * on).sum(1), plane.h, rtol=0, atol=1e-9)
    assert ((on >= 0) & (on <= 1)).all()
    assert (distance64(lp, point, on) <= distance64(lp, point, inside) + 1e-12).all()
    least = before.abs() / torch.linalg.vector_norm(g, ord=lp.dual, dim=1)
    assert (distance64(lp, point, on) >= least * (1 - 1e-9)).all()


# ---- settings -------------------------------------------------------------------------------------------


def test_what_is_declined_and_what_it_says_of_itself() -> None:
    assert Fab().unsupported_reason(MinRadius("l2"), 10) is None
    assert Fab().unsupported_reason(MinRadius("l1.5"), 10) is None

    def squares(a: Tensor, b: Tensor) -> Tensor:
        return (a - b).flatten(1).square().sum(1)

    said = Fab().unsupported_reason(MinRadius(squares), 10)
    assert said == "fab needs a metric with nearest_on_halfspace; squares offers none."
    task = task_of(nn.Linear(4, 3), torch.rand(2, 4), torch.tensor([0, 1]), MinRadius(squares), 100)
    with pytest.raises(ValueError, match="squares"):
        Fab()(task)
    assert Fab().about.startswith("pwcf's own FAB,")
    assert "9 target" in Fab(targets=9).about
    assert "100 steps, 5 restart" in Fab(steps=100, restarts=5).about


@pytest.mark.parametrize("field", ["targets", "steps", "restarts"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True])
def test_counts_are_checked(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=field):
        Fab(**{field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(("field", "value"), [("alpha_max", 1.5), ("alpha_max", -0.1), ("eta", 0.9), ("beta", 0.0)])
def test_constants_are_checked(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=field):
        Fab(**{field: value})  # type: ignore[arg-type]
