"""Evidence of radii in distances of features: what could go is bounded, and little is left at the nearest point."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from pwcf import Classifier, MinRadius, Status, evaluate
from pwcf.metrics import FeatureDistance, distance64, perceptual
from pwcf.models import CountedClassifier
from pwcf.verify import LinearModelEvidence, gather_evidence

F64 = torch.float64
N, ROWS = 6, 8
# So near to the boundary that features are linear on the way to it.
MARGIN = 1e-5


class Case:
    """A linear classifier, a small network that measures, and the nearest points under its Jacobian at the images."""

    def __init__(self, p: int = 2) -> None:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(N, 24), nn.Softplus(), nn.Linear(24, 24), nn.Softplus()).double()
        metric = perceptual(net, p=p)
        assert isinstance(metric, FeatureDistance)
        self.metric = metric
        self.w = torch.randn(N, dtype=F64)
        self.images = 0.2 + 0.6 * torch.rand(ROWS, N, dtype=F64)
        self.level = self.images @ self.w - MARGIN * torch.linspace(1, 2, ROWS, dtype=F64)
        self.labels = torch.zeros(ROWS, dtype=torch.int64)

    def model(self, rows: Tensor) -> Classifier:
        """Of samples, each with a boundary of its own."""
        return Classifier(lambda x: torch.stack([x @ self.w - self.level[rows], torch.zeros_like(x[:, 0])], 1))

    def nearest(self, row: int) -> Tensor:
        J = torch.autograd.functional.jacobian(lambda x: self.metric.features(x[None])[0], self.images[row])
        way = torch.linalg.solve(J.T @ J, self.w)
        margin = self.images[row] @ self.w - self.level[row]
        return self.images[row] - 1.000001 * margin * way / (way @ self.w)

    def evidence(self, row: int, point: Tensor) -> LinearModelEvidence:
        image, points = self.images[row : row + 1], point.unsqueeze(0)
        box = torch.zeros_like(image), torch.ones_like(image)
        one, model = torch.tensor([0]), CountedClassifier(self.model(torch.tensor([row])), 1)
        distance = distance64(self.metric, image, points)
        problem = MinRadius(self.metric)
        found = gather_evidence(model, problem, image, self.labels[:1], points, distance, box, one)
        assert int(model.metric_passes.total) > 0
        return found


@pytest.mark.parametrize("row", range(ROWS))
def test_what_is_left_to_gain_is_no_less_than_what_can_be_gained(row: int) -> None:
    case = Case()
    image, nearest = case.images[row], case.nearest(row)
    least = float(distance64(case.metric, image[None], nearest[None]))
    generator = torch.Generator().manual_seed(row)
    for size in (0.01, 0.1, 0.5):
        aside = torch.randn(N, generator=generator, dtype=F64)
        aside -= (aside @ case.w) / (case.w @ case.w) * case.w
        point = nearest + size * (nearest - image).norm() * aside / aside.norm()
        radius = float(distance64(case.metric, image[None], point[None]))
        found = case.evidence(row, point)
        gain = 1 - least / radius
        assert gain > 0
        # The nearest point is within the reach of what is said of all the way to the image.
        assert (nearest - point).norm() <= (point - image).norm()
        assert gain <= float(found.stationarity) + 1e-4
        assert float(found.stationarity) <= 1.1 * gain + 1e-3  # and little more
        if gain > 0.01:
            assert float(found.excess) > 0.01  # not converged


@pytest.mark.parametrize("row", range(ROWS))
def test_little_is_left_at_the_nearest_point(row: int) -> None:
    case = Case()
    found = case.evidence(row, case.nearest(row))
    assert float(found.stationarity) < 0.01
    assert float(found.excess) == pytest.approx(float(found.stationarity))
    # The gradient alone, as for a metric that is known by its values only, does not tell as much.
    box = torch.zeros_like(case.images[:1]), torch.ones_like(case.images[:1])
    points, image = case.nearest(row).unsqueeze(0), case.images[row : row + 1]
    plain = MinRadius(lambda a, b: case.metric(a, b))
    alone = gather_evidence(
        CountedClassifier(case.model(torch.tensor([row])), 1), plain, image, case.labels[:1], points,
        distance64(case.metric, image, points), box, torch.tensor([0]),
    )  # fmt: skip
    assert float(found.stationarity) <= float(alone.stationarity) + 1e-9


@pytest.mark.parametrize("row", [2, 4, 5, 6])
def test_an_entry_at_a_bound_does_not_count(row: int) -> None:
    """Beside the nearest point much is left to gain, but not where the box holds all entries but one.

    In these rows the free entry alone leads nowhere: the way it could go is outwards, or leaves the half-space.
    """
    case = Case()
    image, nearest = case.images[row], case.nearest(row)
    aside = torch.randn(N, generator=torch.Generator().manual_seed(row), dtype=F64)
    aside -= (aside @ case.w) / (case.w @ case.w) * case.w
    point = nearest + 0.3 * (nearest - image).norm() * aside / aside.norm()
    assert float(case.evidence(row, point).stationarity) > 0.01
    images, points = image.unsqueeze(0), point.unsqueeze(0)
    lower, upper = torch.zeros_like(images), torch.ones_like(images)
    held = torch.arange(N) < N - 1
    lower[:, held], upper[:, held] = point[held], point[held]
    tight = gather_evidence(
        CountedClassifier(case.model(torch.tensor([row])), 1), MinRadius(case.metric), images, case.labels[:1], points,
        distance64(case.metric, images, points), (lower, upper), torch.tensor([0]),
    )  # fmt: skip
    assert float(tight.stationarity) < 1e-4


@pytest.mark.parametrize("p", [1, 2])
def test_a_whole_run_says_converged_where_it_is(p: int) -> None:
    case = Case(p)
    row = torch.tensor([0])
    run = evaluate(case.model(row), case.images[:1], case.labels[:1], MinRadius(case.metric))
    assert bool(run.adversarial.all())
    if p == 2:
        least = distance64(case.metric, case.images[:1], case.nearest(0).unsqueeze(0))
        assert float(run.radius / least) < 1.01
        assert run.status == [Status.CONVERGED]


def test_squares_shrink_twice_as_fast() -> None:
    case = Case()
    point = case.nearest(0) + 1e-7 * torch.ones(N, dtype=F64)
    point -= ((point @ case.w - case.level[0]) / (case.w @ case.w)).clamp(min=0) * case.w * 1.000001
    plain = case.evidence(0, point)
    case.metric.squared = True
    twice = min(1.0, 2 * float(plain.stationarity))
    assert float(case.evidence(0, point).stationarity) == pytest.approx(twice, rel=1e-3)
