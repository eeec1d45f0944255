"""Images that gradients lead nowhere from, and what max-loss may conclude about them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import pwcf
from pwcf.attacks.linearised.schedule import stages
from pwcf.attacks.linearised.starts import HALVINGS, LANDMARKS, boundary_points, landmark, landmark_passes
from pwcf.models import Classifier, CountedClassifier
from searches import search_of

N, ROWS, CLASSES = 64, 6, 12
# The mean of an image at which classes change, and up to which there is a slope.
CHANGE, SLOPE = 0.1, 0.35
# ``evaluate`` warns of the flat regions.
pytestmark = pytest.mark.filterwarnings("ignore:.*gradient")


def flat(x: Tensor) -> Tensor:
    """Class 1 from a mean of ``CHANGE`` downwards; from ``SLOPE`` upwards all logits are constant."""
    rising = torch.relu(SLOPE - x.mean(1)) / (SLOPE - CHANGE)
    return 3 * torch.stack([torch.ones_like(rising), rising * rising, torch.zeros_like(rising)], 1)


def images() -> tuple[Tensor, Tensor]:
    noise = torch.rand(ROWS, N, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return (0.8 + 0.1 * (noise - 0.5)).clamp(0, 1), torch.zeros(ROWS, dtype=torch.long)


def exact_linf(x: Tensor) -> Tensor:
    return x.mean(1) - CHANGE


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_answers_beyond_a_flat_region(norm: str) -> None:
    x, labels = images()
    run = pwcf.evaluate(flat, x, labels, pwcf.MinRadius(norm), budget=2000)
    shift = exact_linf(x)
    exact = {"l1": shift * N, "l2": shift * N**0.5, "linf": shift}[norm]
    assert (run.passes.total <= 2000).all()
    assert run.adversarial.all()
    assert (run.radius <= 1.01 * exact).all()
    assert (run.radius >= exact * (1 - 1e-9)).all()


def test_max_loss_waits_for_the_landmarks() -> None:
    x, labels = images()
    eps = 1.05 * exact_linf(x) * N**0.5
    assert pwcf.evaluate(flat, x, labels, pwcf.MaxLoss("l2", eps), budget=2000).adversarial.all()
    assert pwcf.evaluate(flat, x, labels, pwcf.MaxLoss("l2", 0.9 * eps), budget=2000).robust_accuracy == 1


def test_masked_entries_stay_on_the_way_to_a_landmark() -> None:
    x, labels = images()
    mask = torch.ones(N, dtype=torch.bool)
    mask[: N // 16] = False
    run = pwcf.evaluate(flat, x, labels, pwcf.MinRadius("l2"), budget=2000, mask=mask)
    assert run.adversarial.all()
    assert torch.equal(run.x_adv[:, ~mask], x[:, ~mask])


@pytest.mark.parametrize("name", LANDMARKS)
def test_landmarks_keep_to_the_box(name: str) -> None:
    x, _ = images()
    lower, upper = torch.zeros_like(x), torch.ones_like(x)
    lower[:, 0] = upper[:, 0] = x[:, 0]
    there = landmark(name, x, lower, upper)  # type: ignore[arg-type]
    assert ((there >= lower) & (there <= upper)).all()


def test_points_are_just_beyond_the_first_boundary() -> None:
    x, _ = images()
    counted = []

    def is_wrong(z: Tensor, rows: Tensor) -> Tensor:
        assert len(rows) == len(z)
        counted.append(len(z))
        return z.mean(1) < CHANGE

    found, points = boundary_points(is_wrong, x, [torch.ones_like(x), torch.zeros_like(x)])
    assert len(counted) == 2 + HALVINGS == landmark_passes(("bright", "dark"))
    assert found.all()
    assert (points.mean(1) < CHANGE).all()
    back = x.mean(1) * 0.5**HALVINGS
    assert (points.mean(1) + 1.01 * back >= CHANGE).all()
    found, points = boundary_points(is_wrong, x, [torch.ones_like(x)])
    assert not found.any()
    assert torch.equal(points, x)
    assert len(counted) == 2 + HALVINGS + 1  # nothing to bisect


def test_far_images_leave_out_most_classes_but_not_the_first_restart() -> None:
    generator = torch.Generator().manual_seed(1)
    W = torch.randn(CLASSES, N, generator=generator, dtype=torch.float64)
    x = torch.rand(ROWS, N, generator=generator, dtype=torch.float64)
    labels = (x @ W.T).argmax(1)
    model = CountedClassifier(Classifier(lambda z: z @ W.T), ROWS)
    search_of(model, pwcf.MaxLoss("l2", 1e-3), x, labels, 2000).run()
    first, restart = stages(pwcf.MinRadius("l2").metric, 2000, CLASSES)[:2]
    likeliest = 4 * first.steps // first.targets
    looks = 1 + 2 * 60  # logits, and the linear models that choose among many classes
    assert (model.passes.total > 2 * likeliest + 1.8 * restart.steps - landmark_passes(LANDMARKS)).all()
    assert (model.passes.total <= looks + 2 * (likeliest + restart.steps)).all()


def test_images_with_a_row_that_failed_are_not_given_up_at_once() -> None:
    x, labels = images()
    search = search_of(CountedClassifier(Classifier(flat), ROWS), pwcf.MaxLoss("l2", 0.1), x, labels, 2000)
    search.begin(2)
    search.table.radius[:] = 5.0
    assert search._is_beyond(2.0).all()
    assert not search._is_beyond(60.0).any()
    search.doubtful[0] = True
    assert search._is_beyond(2.0).tolist() == [False] + [True] * (ROWS - 1)
    plan = stages(pwcf.MinRadius("l2").metric, 2000, 3)
    search.table.radius[:] = torch.inf
    search.stage(plan[0], 0)
    assert search.doubtful.all()
    assert not search._is_beyond(0.0).any()


def test_undefined_landmarks_do_not_displace_answers() -> None:
    """Logits of +inf on bright images, nearer than any answer: what is undefined is none, and none is lost for it."""
    x, labels = images()

    def model(z: Tensor) -> Tensor:
        logits = torch.stack([z.mean(1), 0.6 + 0 * z.mean(1), z[:, 0] - 2], 1)
        logits[:, 2] = torch.where(z.mean(1) > 0.9, torch.inf, logits[:, 2])
        return logits

    run = pwcf.evaluate(model, x, labels, pwcf.MinRadius("l2"), budget=2000)
    exact = (x.mean(1) - 0.6) * N**0.5
    assert run.adversarial.all()
    assert (run.radius <= 1.01 * exact).all()
    assert (run.radius >= exact * (1 - 1e-9)).all()


@pytest.mark.parametrize(("classes", "first"), [(2, 3), (3, 2), (10, 1)])
def test_nobody_is_given_up_before_three_restarted_rows(classes: int, first: int) -> None:
    limits = [stage.hopeless for stage in stages(pwcf.MinRadius("l2").metric, 2000, classes) if stage.is_restart]
    assert all(limit == float("inf") for limit in limits[: first - 1])
    assert limits[first - 1] < 10
    assert limits == sorted(limits, reverse=True)
