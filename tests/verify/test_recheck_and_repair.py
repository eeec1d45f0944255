"""The recheck of answers and their repair: what is not an answer does not pass for one."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pwcf.models import Classifier, CountedClassifier
from pwcf.problems import MaxLoss, MinRadius
from pwcf.verify import outwards, recheck, to_boundary, to_grid


def _sum_above(level: float) -> CountedClassifier:
    """Class 1 where the entries of x sum to more than ``level``."""
    return CountedClassifier(Classifier(lambda x: x.flatten(1).sum(1) - level), 3)


IMAGES = torch.full((3, 2, 2), 0.25)
LABELS = torch.zeros(3, dtype=torch.int64)


def test_only_true_answers_count() -> None:
    points = IMAGES.clone()
    points[0] += 0.1  # wrong class, as wanted
    points[1] += torch.tensor([[2.0, 0.0], [0.0, 0.0]])  # wrong class, out of bounds
    points[2] += 0.001  # not far enough
    model = _sum_above(1.2)
    checked = recheck(model, MinRadius("l2"), IMAGES, LABELS, points)
    assert checked.adversarial.tolist() == [True, False, False]
    torch.testing.assert_close(checked.distance, (points - IMAGES).double().flatten(1).norm(dim=1))
    assert checked.distance.dtype == torch.float64
    assert model.passes.forward.tolist() == [1, 1, 1]


def test_a_point_beyond_eps_is_no_answer() -> None:
    points = IMAGES + torch.tensor([0.1, 0.2, 0.2]).view(3, 1, 1)
    problem = MaxLoss("linf", eps=torch.tensor([0.1001, 0.1, 0.2001]))
    assert recheck(_sum_above(1.2), problem, IMAGES, LABELS, points).adversarial.tolist() == [True, False, True]


def test_targeted_answers_must_have_the_wanted_class() -> None:
    points = IMAGES + torch.tensor([0.1, 0.0, 0.1]).view(3, 1, 1)
    wanted = torch.tensor([1, 1, 0])
    checked = recheck(_sum_above(1.2), MinRadius("l2", targeted=True), IMAGES, wanted, points)
    assert checked.adversarial.tolist() == [True, False, False]


def test_nan_logits_are_no_answer() -> None:
    model = CountedClassifier(Classifier(lambda x: x.flatten(1)[:, :2] * torch.nan), 3)
    assert not recheck(model, MinRadius("l2"), IMAGES, LABELS, IMAGES).adversarial.any()


def test_points_of_another_shape_or_dtype_are_named() -> None:
    with pytest.raises(ValueError, match="points: expected shape"):
        recheck(_sum_above(1), MinRadius("l2"), IMAGES, LABELS, IMAGES.double())


def test_bisection_ends_at_the_boundary_and_never_beyond() -> None:
    def wrong(x: Tensor) -> Tensor:
        return x.flatten(1).sum(1) > 1.2

    points = IMAGES + 0.5
    found = to_boundary(wrong, IMAGES, points, torch.tensor([True, True, False]), halvings=20)
    assert wrong(found).all()
    torch.testing.assert_close(found[:2].flatten(1).sum(1), torch.full((2,), 1.2), rtol=1e-5, atol=0)
    assert torch.equal(found[2], points[2])


def test_the_grid_is_that_of_8_bit_images_and_moves_away_from_the_image() -> None:
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (5, 3, 4), generator=generator) / 255
    points = (images + 0.1 * torch.randn(5, 3, 4, generator=generator)).clamp(0, 1)
    points[0, 0, 0] = images[0, 0, 0]
    grid = to_grid(images, points, (0.0, 1.0))
    torch.testing.assert_close(grid * 255, (grid * 255).round(), rtol=0, atol=1e-4)
    assert ((grid - images).abs() >= (points - images).abs() - 1e-6).all()
    assert ((grid - points).abs() <= 1 / 255).all()
    assert grid[0, 0, 0] == images[0, 0, 0]
    torch.testing.assert_close(to_grid(images, grid, (0.0, 1.0)), grid)


def test_points_that_just_fail_are_moved_out() -> None:
    images = torch.zeros(3, 2, dtype=torch.float64)
    points = torch.tensor([[1.1, 0.0], [0.9999, 0.0], [0.5, 0.0]], dtype=torch.float64)
    box = torch.full_like(images, -2), torch.full_like(images, 2)
    moved, hit = outwards(lambda x: x[:, 0] > 1, images, points, box)
    assert hit.tolist() == [True, True, False]
    torch.testing.assert_close(moved[:, 0], torch.tensor([1.1, 0.9999 * 1.0003, 0.5], dtype=torch.float64))
