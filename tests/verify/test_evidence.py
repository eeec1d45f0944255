"""Evidence of answers: a bound on the excess where the model is linear, and no claim where a point is bad."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pwcf import Classifier, MinRadius, Status, evaluate
from pwcf.metrics import Lp, distance64
from pwcf.models import CountedClassifier
from pwcf.verify import gather_evidence

F64 = torch.float64
N, ROWS = 12, 16
METRICS = pytest.mark.parametrize("metric", ["l1", "l1.5", "l2", "l4", "linf"])


def _two_classes(seed: int) -> tuple[Classifier, Tensor, Tensor, Tensor, float]:
    """A linear classifier with two classes, images near a face of the box so that it matters, labels, w and b."""
    generator = torch.Generator().manual_seed(seed)
    w = torch.randn(N, generator=generator, dtype=F64)
    images = torch.rand(ROWS, N, generator=generator, dtype=F64)
    b = float(-0.5 * w.sum())
    classifier = Classifier(lambda x: torch.stack([x @ w + b, torch.zeros_like(x[:, 0])], 1))
    return classifier, images, classifier(images).argmax(1), w, b


def _judge(classifier: Classifier, metric: str, images: Tensor, labels: Tensor, points: Tensor, models: int) -> Tensor:
    problem = MinRadius(metric)
    distance = distance64(problem.metric, images, points)
    box = torch.zeros_like(images), torch.ones_like(images)
    everyone = torch.arange(len(images))
    model = CountedClassifier(classifier, len(images))
    found = gather_evidence(model, problem, images, labels, points, distance, box, everyone, models)
    assert (model.passes.total == 2 * models).all()
    assert (found.stationarity <= found.excess + 1e-12).all()
    return found.stationarity


def _on_boundary(images: Tensor, corner: Tensor, w: Tensor, b: float) -> Tensor:
    """Points on the way from the images to corners of the other class, just beyond the boundary."""
    here, there = images @ w + b, corner @ w + b
    share = here / (here - there) * (1 + 1e-9)
    return images + share.unsqueeze(1) * (corner - images)


def _least(metric: Lp, images: Tensor, labels: Tensor, w: Tensor, b: float) -> Tensor:
    """The exact radius by bisection on a scale of the move; of l1 by moving the steepest entries first."""
    sign = torch.where(labels == 0, -1.0, 1.0).to(F64).unsqueeze(1) * w.sign()
    room = torch.where(sign > 0, 1 - images, images)
    need = (images @ w + b).abs()
    if metric.p == 1:
        order = w.abs().argsort(descending=True)
        gain = (w.abs() * room)[:, order].cumsum(1)
        before = gain - (w.abs() * room)[:, order]
        move = ((need.unsqueeze(1) - before).clamp(min=0) / w.abs()[order]).minimum(room[:, order])
        return move.sum(1)
    shape = w.abs().pow(0.0 if metric.p == torch.inf else 1 / (metric.p - 1))
    low, high = torch.zeros(len(images), dtype=F64), torch.full((len(images),), 1e4, dtype=F64)
    for _ in range(200):
        t = 0.5 * (low + high)
        short = (w.abs() * (t.unsqueeze(1) * shape).minimum(room)).sum(1) < need
        low, high = torch.where(short, t, low), torch.where(short, high, t)
    return metric(torch.zeros_like(images), (high.unsqueeze(1) * shape).minimum(room))


@METRICS
@pytest.mark.parametrize("models", [1, 4])
@pytest.mark.parametrize("seed", range(3))
def test_twice_the_stationarity_bounds_the_excess_of_any_point(metric: str, models: int, seed: int) -> None:
    classifier, images, labels, w, b = _two_classes(seed)
    generator = torch.Generator().manual_seed(seed)
    best_corner = torch.where(labels.unsqueeze(1) == 0, (w < 0).to(F64), (w > 0).to(F64))
    # From straight to the best corner to corners that are wrong in a third of the entries.
    for wrong in (0.0, 0.1, 0.3):
        flip = torch.rand(images.shape, generator=generator, dtype=F64) < wrong
        corner = torch.where(flip, 1 - best_corner, best_corner)
        reaches = ((corner @ w + b) * (images @ w + b)) < 0
        points = _on_boundary(images, corner, w, b)[reaches]
        x, y = images[reaches], labels[reaches]
        problem = MinRadius(metric)
        assert isinstance(problem.metric, Lp)
        exact = _least(problem.metric, x, y, w, b)
        excess = 1 - exact / distance64(problem.metric, x, points)
        assert (excess >= -1e-8).all()
        assert (excess > 0.02).any()  # or there is nothing to be seen
        stationarity = _judge(classifier, metric, x, y, points, models)
        assert (2 * stationarity >= excess - 1e-7).all()


@METRICS
def test_the_nearest_point_is_recognised(metric: str) -> None:
    classifier, images, labels, w, b = _two_classes(5)
    problem = MinRadius(metric)
    assert isinstance(problem.metric, Lp)
    exact = _least(problem.metric, images, labels, w, b)
    sign = torch.where(labels == 0, -1.0, 1.0).to(F64).unsqueeze(1) * w.sign()
    room = torch.where(sign > 0, 1 - images, images)
    if metric == "l1":
        order = w.abs().argsort(descending=True)
        before = room[:, order].cumsum(1) - room[:, order]
        move = torch.zeros_like(images)
        move[:, order] = (exact.unsqueeze(1) - before).clamp(min=0).minimum(room[:, order])
    else:
        shape = w.abs().pow(0.0 if metric == "linf" else 1 / (problem.metric.p - 1))
        low, high = torch.zeros(ROWS, dtype=F64), torch.full((ROWS,), 1e4, dtype=F64)
        for _ in range(200):
            t = 0.5 * (low + high)
            short = problem.metric(torch.zeros_like(images), (t.unsqueeze(1) * shape).minimum(room)) < exact
            low, high = torch.where(short, t, low), torch.where(short, high, t)
        move = (high.unsqueeze(1) * shape).minimum(room)
    points = (images + sign * move * (1 + 1e-9)).clamp(0, 1)
    assert (_judge(classifier, metric, images, labels, points, 1) <= 5e-3).double().mean() >= 0.9


def test_entries_that_the_box_holds_do_not_limit_the_multiplier() -> None:
    """In l1 the steepest entries go first and fill their room: the one that decides may be far less steep."""
    generator = torch.Generator().manual_seed(0)
    slope = torch.rand(400, generator=generator, dtype=torch.float64) ** 3
    images = torch.full((1, 400), 0.5, dtype=torch.float64)
    # 160 entries have to go all the way, and half of the next one, which is a fifth as steep as the first.
    steepest = slope.sort(descending=True).values
    excess = 0.5 * steepest[:160].sum() + 0.25 * steepest[160]

    def net(x: Tensor) -> Tensor:
        c = (x - images) @ slope + excess
        return torch.stack([c, torch.zeros_like(c)], 1)

    labels = net(images).argmax(1)
    run = evaluate(net, images, labels, MinRadius("l1"))
    assert labels.item() == 0
    assert run.status[0] is Status.CONVERGED
    assert run.evidence.gain[0] < 1e-3
