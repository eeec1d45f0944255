"""The search of lmn against exact radii of linear classifiers, its budget and its independence of the batch."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pwcf import MaxLoss, MinRadius
from pwcf.attacks.base import ANY, resolve_targets
from pwcf.attacks.linearised.schedule import LOOK, stages
from pwcf.metrics import Lp, Norm, as_metric
from pwcf.models import Classifier, CountedClassifier
from pwcf.problems import Problem
from pwcf.verify import recheck
from searches import search_of

ROWS, N, CLASSES = 12, 30, 5
NORMS = pytest.mark.parametrize("norm", ["l1", "l2", "linf"])


def _linear(seed: int = 0) -> tuple[Classifier, Tensor, Tensor, Tensor, Tensor]:
    """Classifier, images about the middle of the box, labels, weights, offsets; small weights keep the box inactive."""
    generator = torch.Generator().manual_seed(seed)
    W = torch.randn(CLASSES, N, generator=generator)
    images = 0.5 + 0.01 * torch.randn(ROWS, N, generator=generator)
    b = 0.02 * torch.randn(CLASSES, generator=generator) - 0.5 * W.sum(1)
    classifier = Classifier(lambda x: x @ W.T + b)
    return classifier, images, classifier(images).argmax(1), W, b


def _points(model: CountedClassifier, problem: Problem, images: Tensor, labels: Tensor, budget: int) -> Tensor:
    return search_of(model, problem, images, labels, budget).run().points


def _exact(metric: Lp, images: Tensor, labels: Tensor, W: Tensor, b: Tensor) -> Tensor:
    """The least distance to one of the half-spaces, by the dual norm, in float64."""
    logits = images.double() @ W.double().T + b.double()
    gap = logits.gather(1, labels[:, None]) - logits
    size = torch.linalg.vector_norm((W[labels].unsqueeze(1) - W.unsqueeze(0)).double(), ord=metric.dual, dim=2)
    return (gap / size).scatter(1, labels[:, None], torch.inf).amin(1)


@NORMS
@pytest.mark.parametrize("budget", [200, 600])
def test_radii_of_linear_classifiers_are_exact(norm: str, budget: int) -> None:
    classifier, images, labels, W, b = _linear()
    problem, model = MinRadius(norm), CountedClassifier(classifier, ROWS)
    points = _points(model, problem, images, labels, budget)
    assert (model.passes.total <= budget).all()
    checked = recheck(model, problem, images, labels, points)
    assert checked.adversarial.all()
    assert isinstance(problem.metric, Lp)
    ratio = checked.distance / _exact(problem.metric, images, labels, W, b)
    assert (ratio >= 1 - 1e-5).all()
    assert (ratio <= 1.02).double().mean() >= 0.9
    assert ratio.median() <= 1.01


class WeightedL2(Norm):
    """|W (x' - x)|_2, a norm that is no l_p. Its nearest point of a half-space is exact where no bound is active."""

    name = "weighted l2"

    def __init__(self, weights: Tensor) -> None:
        self.weights = weights

    def norm(self, move: Tensor) -> Tensor:
        return (self.weights * move).norm(dim=1)

    def dual_norm(self, gradient: Tensor) -> Tensor:
        return (gradient / self.weights).norm(dim=1)

    def nearest_on_halfspace(self, point: Tensor, g: Tensor, h: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
        direction = g / self.weights.square()
        excess = ((g * point).sum(1) - h).clamp(min=0)
        return torch.clamp(point - (excess / (g * direction).sum(1)).unsqueeze(1) * direction, lower, upper)


@pytest.mark.parametrize("budget", [60, 200, 600])
@pytest.mark.parametrize("spread", [10.0, 100.0])
def test_a_norm_without_an_exponent_has_exact_radii(budget: int, spread: float) -> None:
    generator = torch.Generator().manual_seed(4)
    weights = spread ** (torch.rand(N, generator=generator, dtype=torch.float64) - 0.5)
    w = torch.randn(N, generator=generator, dtype=torch.float64)
    images = 0.5 + 0.01 * torch.randn(ROWS, N, generator=generator, dtype=torch.float64)
    classifier = Classifier(lambda x: torch.stack([torch.zeros_like(x[:, 0]), ((x - 0.5) * w).sum(1)], 1))
    labels, metric = classifier(images).argmax(1), WeightedL2(weights)
    model, problem = CountedClassifier(classifier, ROWS), MinRadius(metric)
    points = _points(model, problem, images, labels, budget)
    assert (model.passes.total <= budget).all()
    checked = recheck(model, problem, images, labels, points)
    assert checked.adversarial.all()
    ratio = checked.distance / (((images - 0.5) @ w).abs() / metric.dual_norm(w.unsqueeze(0)))
    assert (ratio >= 1 - 1e-9).all()
    assert (ratio <= 1 + 1e-4).all()


@pytest.mark.parametrize("norm", ["l1", "l1.5", "l2", "l8", "linf"])
def test_few_passes_find_every_sample_of_a_curved_model(norm: str) -> None:
    generator = torch.Generator().manual_seed(3)
    W, U = torch.randn(N, 40, generator=generator), torch.randn(40, CLASSES, generator=generator)
    classifier = Classifier(lambda x: torch.tanh((x - 0.5) @ W) @ U)
    images = torch.rand(ROWS, N, generator=generator)
    labels, problem = classifier(images).argmax(1), MinRadius(norm)

    def radii(budget: int) -> Tensor:
        model = CountedClassifier(classifier, ROWS)
        points = _points(model, problem, images, labels, budget)
        assert (model.passes.total <= budget).all()
        return recheck(model, problem, images, labels, points).distance

    few, many = radii(30), radii(2000)
    assert torch.isfinite(few).all()
    assert few.mean() <= 1.3 * many.mean()


@NORMS
def test_a_sample_has_the_same_answer_in_any_company(norm: str) -> None:
    _, images, labels, W, b = _linear(1)
    classifier, images = Classifier(lambda x: x @ W.double().T + b.double()), images.double()
    problem = MinRadius(norm)

    def radii(rows: Tensor) -> Tensor:
        model = CountedClassifier(classifier, len(rows))
        points = _points(model, problem, images[rows], labels[rows], 600)
        return recheck(model, problem, images[rows], labels[rows], points).distance

    together = radii(torch.arange(ROWS))
    for row in (0, 7):
        torch.testing.assert_close(radii(torch.tensor([row])), together[[row]], rtol=1e-9, atol=0)
    torch.testing.assert_close(radii(torch.arange(ROWS).flip(0)).flip(0), together, rtol=1e-9, atol=0)


@NORMS
def test_targeted_points_have_the_wanted_class(norm: str) -> None:
    classifier, images, labels, _, _ = _linear(2)
    wanted = (labels + 1) % CLASSES
    problem, model = MinRadius(norm, targeted=True), CountedClassifier(classifier, ROWS)
    points = _points(model, problem, images, wanted, 200)
    assert recheck(model, problem, images, wanted, points).adversarial.all()
    assert torch.equal(classifier(points).argmax(1), wanted)


def test_where_nothing_is_found_the_image_comes_back() -> None:
    classifier = Classifier(lambda x: torch.stack([1 + 0 * x[:, 0], 0.1 * x[:, 0]], 1))
    images = torch.rand(3, N, generator=torch.Generator().manual_seed(0))
    model = CountedClassifier(classifier, 3)
    points = _points(model, MinRadius("l2"), images, torch.zeros(3, dtype=torch.int64), 600)
    assert torch.equal(points, images)


@NORMS
@pytest.mark.parametrize("budget", [50, 100, 200, 500, 1000, 2000, 4000])
@pytest.mark.parametrize("classes", [2, 3, 5, 10, 1000])
def test_no_schedule_exceeds_its_budget(norm: str, budget: int, classes: int) -> None:
    plan = stages(as_metric(norm), budget, classes)
    spent = 2 * sum(stage.steps for stage in plan) + LOOK
    assert spent <= budget
    assert spent >= 0.85 * budget - 10
    assert all(stage.targets <= (classes if classes > 4 else classes - 1) for stage in plan)  # all others, and any


def test_rows_without_a_target_aim_at_the_largest_other_logit() -> None:
    logits = torch.tensor([[3.0, 2.0, 1.0], [3.0, 2.0, 1.0], [1.0, 2.0, 3.0]])
    labels, targets = torch.tensor([0, 0, 2]), torch.tensor([ANY, 2, ANY])
    assert resolve_targets(logits, labels, targets).tolist() == [1, 2, 1]


@pytest.mark.parametrize(
    ("classes", "budget", "targeted", "expected"),
    [
        (2, 2000, False, 0),
        (4, 2000, False, 0),
        (5, 1000, False, 1),
        (2, 200, False, 0),
        (10, 50, False, 1),
        (10, 200, False, 1),
        (10, 200, True, 0),
        (10, 1000, False, 1),
        (10, 2000, True, 0),
    ],
)
def test_one_row_of_an_image_aims_at_any_class(classes: int, budget: int, targeted: bool, expected: int) -> None:
    W = torch.randn(classes, N, generator=torch.Generator().manual_seed(0))
    images = torch.rand(4, N, generator=torch.Generator().manual_seed(1))
    labels = (images @ W.T).argmax(1)
    if targeted:
        labels = (labels + 1) % classes
    problem, model = MinRadius("l2", targeted=targeted), CountedClassifier(Classifier(lambda x: x @ W.T), 4)
    search = search_of(model, problem, images, labels, budget)
    points = search.run().points
    assert ((search.table.targets == ANY).sum(1) == expected).all()
    assert (search.table.targets != labels.unsqueeze(1)).all() or targeted
    assert recheck(model, problem, images, labels, points).adversarial.all()


def test_near_classes_with_small_logits_are_found() -> None:
    """60 classes, the nearest one far down in the logits because its weights are long."""
    generator = torch.Generator().manual_seed(3)
    W = 0.3 * torch.randn(60, N, generator=generator)
    b = torch.zeros(60)
    W[17], b[17] = 12 * torch.randn(N, generator=generator), -3.0
    W, centre = W.double(), torch.full((N,), 0.5, dtype=torch.float64)
    images = (centre + 0.01 * torch.randn(6, N, generator=generator)).clamp(0, 1)
    classifier = Classifier(lambda x: (x - centre) @ W.T + b)
    logits = classifier(images)
    labels = logits.argmax(1)
    assert (logits.argsort(dim=1, descending=True)[:, :12] != 17).all()
    model, problem = CountedClassifier(classifier, 6), MinRadius("l2")
    points = _points(model, problem, images, labels, 2000)
    assert (model.passes.total <= 2000).all()
    exact = _exact(problem.metric, images - centre, labels, W, b)  # type: ignore[arg-type]
    assert (recheck(model, problem, images, labels, points).distance <= 1.01 * exact).all()


def test_images_that_are_easily_broken_cost_few_passes() -> None:
    """In max-loss the first row of an image runs before its others begin."""
    generator = torch.Generator().manual_seed(5)
    W = torch.randn(10, N, generator=generator)
    images = torch.rand(ROWS, N, generator=generator)
    labels = (images @ W.T).argmax(1)
    problem, model = MaxLoss("l2", eps=5.0), CountedClassifier(Classifier(lambda x: x @ W.T), ROWS)
    points = _points(model, problem, images, labels, 2000)
    assert (model.logits(points, torch.arange(ROWS)).argmax(1) != labels).all()
    assert (model.passes.total <= 30).all()


def test_every_class_has_its_turn_in_restarts() -> None:
    W = torch.randn(10, N, generator=torch.Generator().manual_seed(6))
    images = torch.rand(2, N, generator=torch.Generator().manual_seed(7))
    labels = (images @ W.T).argmax(1)
    search = search_of(CountedClassifier(Classifier(lambda x: x @ W.T), 2), MinRadius("l2"), images, labels, 2000)
    search.run()
    anyone = (search.table.targets == ANY).long().argmax(1)
    search.table.radius[0, anyone[0]] = 0.0  # as where ANY has reached a class without a column
    best = search.table.radius.scatter(1, anyone.unsqueeze(1), torch.inf).argmin(1)
    seen: set[int] = set()
    for number in range(1, 20):
        columns = search.table.in_turn(torch.arange(2), 3, number)
        assert torch.equal(columns[:, 0], best)
        assert torch.equal(columns[:, 1], anyone)
        assert (columns[:, 2] != anyone).all()
        seen.add(int(columns[1, 2]))
    assert len(seen) == 8  # all but the best and ANY
