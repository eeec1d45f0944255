"""The search for distances that offer nothing but their gradient, against radii that are known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from pwcf import Classifier, MaxLoss, MinRadius, evaluate
from pwcf.attacks import Answer, Attack, Task
from pwcf.attacks.linearised.general_metric import PAIRS, Curvature, GeneralMetricRule, HessianStore, degrees
from pwcf.attacks.linearised.rules import Iterate, StepSchedule
from pwcf.attacks.linearised.schedule import (
    CLOSE_SCHEDULE,
    GENERAL_SCHEDULE,
    LONG_MEMORY,
    REPEATS,
    Phase,
    Stage,
    plan_for,
)
from pwcf.attacks.lmn.attack import LmnSearch
from pwcf.solvers import LimitedBFGS

F64 = torch.float64
N, ROWS, CONDITION = 40, 6, 1e4
Metric = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Named(Attack):
    """An attack from a function of a task."""

    function: Callable[[Task], Answer]
    name: str = "named"

    def __call__(self, task: Task) -> Answer:
        return self.function(task)


class Ellipsoid:
    """d = |A (x - x')|_2 with a linear classifier of two classes: the radius is known where the box does not matter."""

    def __init__(self, squared: bool = False) -> None:
        generator = torch.Generator().manual_seed(0)
        turn, _ = torch.linalg.qr(torch.randn(N, N, generator=generator, dtype=F64))
        self.A = torch.logspace(0, -torch.log10(torch.tensor(CONDITION)).item() / 2, N, dtype=F64).unsqueeze(1) * turn
        self.w = torch.randn(N, generator=generator, dtype=F64)
        self.images = 0.5 + 0.001 * torch.randn(ROWS, N, generator=generator, dtype=F64)
        self.squared = squared
        self.classifier = Classifier(lambda x: torch.stack([torch.zeros_like(x[:, 0]), self.score(x)], 1))
        self.labels = self.classifier(self.images).argmax(1)

    def score(self, x: Tensor) -> Tensor:
        return ((x - 0.5) * self.w.to(x)).sum(1)

    def __call__(self, reference: Tensor, candidate: Tensor) -> Tensor:
        # Products and sums row by row: a matrix product may round a row otherwise in another batch.
        square = (self.A.to(candidate) * (candidate - reference).unsqueeze(1)).sum(2).square().sum(1)
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

    def distance(z: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        asked.append(rows)
        move = z - x[rows]
        return move.norm(dim=1), torch.nn.functional.normalize(move)

    def at(point: Tensor, best: Tensor) -> Iterate:
        c, (radius, slope) = (g * (point - x)).sum(1) + 0.1, distance(point, torch.arange(2))
        box = torch.zeros(1, 3, dtype=F64), torch.ones(1, 3, dtype=F64)
        return Iterate(
            x, point, x, c, g, c < 0, radius, slope, torch.ones(2, dtype=F64), best, point, *box, distance
        )  # fmt: skip

    rule, schedule, nothing = (
        GeneralMetricRule(4),
        StepSchedule(0.7, 0.7, 0.0, 0.0),
        torch.full((2,), torch.inf, dtype=F64),
    )
    aside = x + torch.tensor([[0.0, 0.0, 0.2]], dtype=F64)
    at_once = at(aside, nothing)
    asked.clear()
    found, _ = rule(at_once, schedule, 0.0, LimitedBFGS.empty(2, 3, PAIRS, x))
    assert not asked
    assert ((found - aside) @ torch.tensor([0.0, 0.0, 1.0], dtype=F64) == 0).all()
    assert ((g * (found - x)).sum(1) + 0.1 < 0).all()
    # The second row has been at the boundary: it alone goes on, four steps in all.
    one = at(aside, torch.tensor([torch.inf, 1.0], dtype=F64))
    asked.clear()
    both, memory = rule(one, schedule, 0.0, LimitedBFGS.empty(2, 3, PAIRS, x))
    assert [rows.tolist() for rows in asked] == [[1], [1], [1]]
    assert torch.equal(both[0], found[0])
    assert both[1, 2] < 0.55
    assert memory.H.count.tolist() == [0, 3]
    assert torch.equal(memory.x[0], aside[0])


def test_a_row_is_the_same_whatever_is_beside_it() -> None:
    case = Ellipsoid()
    # Linear models from afar fall short of the boundary: the farther a row begins, the more steps it takes to be there.
    images = torch.lerp(torch.full_like(case.images, 0.5), case.images, torch.logspace(-1, 2, ROWS, dtype=F64)[:, None])
    images = images.clamp(0, 1)

    def classifier(x: Tensor) -> Tensor:
        score = case.score(x)
        return torch.stack([torch.zeros_like(score), score + 100 * score.pow(3)], 1)

    labels = classifier(images).argmax(1)
    together = evaluate(classifier, images, labels, MinRadius(case), budget=150)
    for i in range(ROWS):
        alone = evaluate(classifier, images[i : i + 1], labels[i : i + 1], MinRadius(case), budget=150)
        torch.testing.assert_close(alone.x_adv[0], together.x_adv[i], rtol=0, atol=1e-9)


def test_rows_begin_with_what_the_nearest_row_of_their_image_has_learnt() -> None:
    n = 3
    images = torch.zeros(2, n)
    H = LimitedBFGS.empty(4, n, PAIRS, images)
    steps = torch.eye(n)[[0, 1, 2, 0]]
    everyone = torch.arange(4)
    H.update(everyone, steps, torch.tensor([[1.0], [2.0], [3.0], [4.0]]) * steps)
    memory = Curvature.begin(H, steps, steps)[torch.tensor([3, 2, 1])]  # one row has left
    store = HessianStore(images)
    store.save(torch.tensor([1, 0, 0]), torch.tensor([5.0, 2.0, 1.0]), memory)
    known = store.load(torch.tensor([0, 1, 0]), PAIRS)
    assert known.gamma.tolist() == [0.5, 0.25, 0.5]
    known.update(torch.tensor([0]), steps[:1], steps[:1])
    assert store.load(torch.tensor([0]), PAIRS).count.tolist() == [1]  # rows have copies


def test_a_memory_of_another_size_begins_anew_and_is_not_kept() -> None:
    images = torch.zeros(2, 3)
    store = HessianStore(images)
    long = store.load(torch.tensor([0, 1]), 2 * PAIRS)
    assert long.memory == 2 * PAIRS
    assert long.count.tolist() == [0, 0]
    step = torch.eye(3)[:2]
    long.update(torch.arange(2), step, step)
    store.save(torch.arange(2), torch.ones(2), Curvature.begin(long, step, step))
    assert store.load(torch.tensor([0, 1]), PAIRS).count.tolist() == [0, 0]


def test_polish_settles_in_the_minimum() -> None:
    """Close to the boundary it ends nearer than steps with a margin do."""
    case = Ellipsoid()
    found = []
    for schedule in (GENERAL_SCHEDULE, CLOSE_SCHEDULE):
        polish = Phase(GeneralMetricRule(REPEATS, LONG_MEMORY), schedule, 60)

        def attack(task: Task, polish: Phase = polish) -> Answer:
            start = Stage(1, "image", plan_for(task.problem.metric).first(20))
            return LmnSearch(task).run([start, Stage(1, "best", (polish,))])

        run = evaluate(case.classifier, case.images, case.labels, MinRadius(case), attacks=Named(attack), budget=600)
        found.append((run.radius / case.exact - 1).max())
    wide, close = found
    assert close < 2e-3
    assert wide > 1.5 * close


def test_degrees_of_norms_and_squares() -> None:
    assert degrees(torch.tensor([1.0, 1.0, 0.0]), torch.tensor([0.5, 0.25, 0.0])).tolist() == [1.0, 2.0, 1.0]


def test_restarts_begin_as_far_away_as_the_metric_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise as long in l2 as the nearest point may be many times as far away in a metric that hardly sees some ways."""
    problem = Ellipsoid()
    start, shares = LmnSearch._start, []

    def watched(self: LmnSearch, stage: Stage, *args: Any) -> Tensor:
        where = start(self, stage, *args)
        if stage.is_restart:
            radius, image = self.table.best()[0], args[2]
            near = ~self.began_far[image] & torch.isfinite(radius[image])
            shares.append((problem(self.centre[image], where) / radius[image])[near])
        return where

    monkeypatch.setattr(LmnSearch, "_start", watched)
    evaluate(problem.classifier, problem.images, problem.labels, MinRadius(problem), budget=1200, stop="budget")
    share = torch.cat(shares)
    assert len(share) >= ROWS
    torch.testing.assert_close(share.unique(), share.unique().clamp(0.45, 1.05))
