"""The search for distances that offer nothing but their gradient, against radii that are known."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from pwcf import Classifier, MaxLoss, MinRadius, evaluate
from pwcf.attacks.linearised.curved import PAIRS, Curvature, CurvedRule, Learnt, degrees
from pwcf.attacks.linearised.rules import Iterate, Pace
from pwcf.solvers import LimitedBFGS

F64 = torch.float64
N, ROWS, CONDITION = 40, 6, 1e4
Metric = Callable[[Tensor, Tensor], Tensor]


class Ellipsoid:
    """d = |A (x - x')|_2 with a linear classifier of two classes: the radius is known where the box does not matter."""

    def __init__(self, squared: bool = False) -> None:
        generator = torch.Generator().manual_seed(0)
        turn, _ = torch.linalg.qr(torch.randn(N, N, generator=generator, dtype=F64))
        self.A = torch.logspace(0, -torch.log10(torch.tensor(CONDITION)).item() / 2, N, dtype=F64).unsqueeze(1) * turn
        self.w = torch.randn(N, generator=generator, dtype=F64)
        self.images = 0.5 + 0.001 * torch.randn(ROWS, N, generator=generator, dtype=F64)
        self.squared = squared
        self.classifier = Classifier(lambda x: torch.stack([torch.zeros_like(x[:, 0]), (x - 0.5) @ self.w.to(x)], 1))
        self.labels = self.classifier(self.images).argmax(1)

    def __call__(self, reference: Tensor, candidate: Tensor) -> Tensor:
        square = ((candidate - reference) @ self.A.to(candidate).T).square().sum(1)
        return square if self.squared else square.sqrt()

    @property
    def exact(self) -> Tensor:
        margin = ((self.images - 0.5) @ self.w).abs()
        length = torch.linalg.solve(self.A.T @ self.A, self.w) @ self.w
        radius = margin / length.sqrt()
        return radius.square() if self.squared else radius


@pytest.mark.parametrize("squared", [False, True])
def test_the_exact_radius_of_a_badly_conditioned_metric(squared: bool) -> None:
    case = Ellipsoid(squared)
    run = evaluate(case.classifier, case.images, case.labels, MinRadius(case), budget=600)
    ratio = run.radius / case.exact
    assert (ratio > 1 - 1e-6).all()
    assert (ratio < 1.01).all(), ratio


@pytest.mark.parametrize("squared", [False, True])
def test_max_loss_finds_what_min_radius_finds(squared: bool) -> None:
    case = Ellipsoid(squared)
    inside, outside = (
        evaluate(case.classifier, case.images, case.labels, MaxLoss(case, share * case.exact), budget=600)
        for share in (0.95, 1.05)
    )
    assert outside.adversarial.all()
    assert not inside.adversarial.any()
    # Nobody is given up whose radius only takes long to fall.
    assert (inside.passes.total > 400).all()


def test_a_first_step_goes_to_the_boundary_and_not_inwards() -> None:
    x = torch.full((2, 3), 0.5, dtype=F64)
    g = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], dtype=F64)
    asked: list[Tensor] = []

    def distance(z: Tensor) -> tuple[Tensor, Tensor]:
        asked.append(z)
        move = z - x
        return move.norm(dim=1), torch.nn.functional.normalize(move)

    def at(point: Tensor, best: Tensor) -> Iterate:
        c, (radius, slope) = (g * (point - x)).sum(1) + 0.1, distance(point)
        box = torch.zeros(1, 3, dtype=F64), torch.ones(1, 3, dtype=F64)
        return Iterate(
            x, point, x, c, g, c < 0, radius, slope, torch.ones(2, dtype=F64), best, *box, distance
        )  # fmt: skip

    rule, pace, nothing = CurvedRule(4), Pace(0.7, 0.7, 0.0, 0.0), torch.full((2,), torch.inf, dtype=F64)
    aside = x + torch.tensor([[0.0, 0.0, 0.2]], dtype=F64)
    asked.clear()
    found, _ = rule(at(aside, nothing), pace, 0.0, LimitedBFGS.empty(2, 3, PAIRS, x))
    assert len(asked) == 1
    assert ((found - aside) @ torch.tensor([0.0, 0.0, 1.0], dtype=F64) == 0).all()
    assert ((g * (found - x)).sum(1) + 0.1 < 0).all()
    asked.clear()
    found, _ = rule(at(aside, torch.ones(2, dtype=F64)), pace, 0.0, LimitedBFGS.empty(2, 3, PAIRS, x))
    assert len(asked) == 4
    assert (found[:, 2] < 0.55).all()


def test_rows_begin_with_what_the_nearest_row_of_their_image_has_learnt() -> None:
    n = 3
    images = torch.zeros(2, n)
    H = LimitedBFGS.empty(4, n, PAIRS, images)
    steps = torch.eye(n)[[0, 1, 2, 0]]
    everyone = torch.arange(4)
    H.update(everyone, steps, torch.tensor([[1.0], [2.0], [3.0], [4.0]]) * steps)
    memory = Curvature.begin(H, steps, steps)[torch.tensor([3, 2, 1])]  # one row has left
    learnt = Learnt(images)
    learnt.keep(torch.tensor([1, 0, 0]), torch.tensor([5.0, 2.0, 1.0]), memory)
    known = learnt.of(torch.tensor([0, 1, 0]))
    assert known.gamma.tolist() == [0.5, 0.25, 0.5]
    known.update(torch.tensor([0]), steps[:1], steps[:1])
    assert learnt.of(torch.tensor([0])).count.tolist() == [1]  # rows have copies


def test_degrees_of_norms_and_squares() -> None:
    assert degrees(torch.tensor([1.0, 1.0, 0.0]), torch.tensor([0.5, 0.25, 0.0])).tolist() == [1.0, 2.0, 1.0]
