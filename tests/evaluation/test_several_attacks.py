"""Several attacks on one question: attribution, what later ones get, presets, budgets, attacks that fail."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from pwcf import MaxLoss, MinRadius, Run, evaluate
from pwcf.attacks import Answer, Attack, Function, Task
from pwcf.attacks.external import available

ROWS, N = 8, 6


def model(x: Tensor) -> Tensor:
    """Class 1 where the first entry exceeds .6, class 2 where the second does."""
    return torch.stack([torch.full_like(x[:, 0], 0.6), x[:, 0], x[:, 1]], 1)


def samples() -> tuple[Tensor, Tensor]:
    x = torch.full((ROWS, N), 0.5, dtype=torch.float64)
    return x, torch.zeros(ROWS, dtype=torch.int64)


@dataclass(frozen=True)
class Move(Attack):
    """Moves one entry by as much as the sample's turn says."""

    name: str
    entry: int
    moves: tuple[float, ...]
    black_box: bool = False

    def __call__(self, task: Task) -> Answer:
        points = task.images.clone()
        for i, sample in enumerate(task.samples.tolist()):
            points[i, self.entry] += self.moves[sample % len(self.moves)]
        return Answer(points)


def quiet(attacks: object, problem: MinRadius | MaxLoss, **more: object) -> tuple[Run, list[str]]:
    """The run, and the warnings it gave."""
    x, labels = samples()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = evaluate(model, x, labels, problem, attacks=attacks, **more)  # type: ignore[arg-type]
    assert [str(each.message) for each in caught] == run.warnings
    return run, run.warnings


def test_the_nearest_point_counts_and_is_attributed() -> None:
    # Both go to the boundary at .1; the second also moves another entry by half of that.
    def sideways(task_model: object, images: Tensor, labels: Tensor) -> Tensor:
        points = images.clone()
        points[:, 0] += 0.1001
        points[::2, 3] += 0.05
        return points

    run, _ = quiet([sideways, Move("straight", 1, (0.1001, 0.0))], MinRadius("l2"))
    assert run.attack == ["straight", "sideways"] * (ROWS // 2)
    by_name = {each.name: each for each in run.contributions}
    assert list(by_name) == ["sideways", "straight"]
    assert torch.equal(run.radius, torch.minimum(by_name["sideways"].radius, by_name["straight"].radius))
    assert by_name["straight"].radius[1::2].isinf().all()
    assert by_name["straight"].found.tolist() == [True, False] * (ROWS // 2)
    assert "sideways" in run.summary()
    assert "straight" in run.summary()


def test_max_loss_gives_later_attacks_only_what_is_unbroken() -> None:
    asked: list[list[int]] = []

    class Listening(Attack):
        name = "listening"

        def __call__(self, task: Task) -> Answer:
            asked.append(task.samples.tolist())
            return Answer(task.images)

    run, _ = quiet([Move("half", 0, (0.15, 0.0)), Listening()], MaxLoss("linf", 0.2))
    assert asked == [[1, 3, 5, 7]]
    assert run.robust_accuracy == 0.5
    assert run.contributions[1].asked.tolist() == [False, True] * (ROWS // 2)
    assert run.contributions[1].passes[::2].sum() == 0


def test_min_radius_tells_later_attacks_what_is_known() -> None:
    told = []

    class Listening(Attack):
        name = "listening"

        def __call__(self, task: Task) -> Answer:
            assert task.known is not None
            told.append((task.known - task.images).abs().amax(1))
            return Answer(task.images)

    quiet([Move("half", 0, (0.15, 0.0)), Listening()], MinRadius("linf"))
    assert (told[0][::2] - 0.1).abs().max() < 1e-3
    assert (told[0][1::2] == 0).all()


def test_lmn_goes_on_from_what_is_known() -> None:
    """A region it does not see by itself: a strip where the slope leads away from it."""

    def strip(x: Tensor) -> Tensor:
        inside = (x[:, 0] > 0.58) & (x[:, 0] < 0.5801)
        return torch.stack([torch.zeros_like(x[:, 0]), torch.where(inside, 0.1, -x[:, 0])], 1)

    x, labels = samples()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = evaluate(strip, x, labels, MinRadius("l2"), attacks=[Move("half", 0, (0.08005,)), "lmn"], budget=1000)
    assert (run.contributions[1].radius <= 0.0801).all()


def test_budgets_hold_for_all_together() -> None:
    run, _ = quiet(["lmn", Move("half", 0, (0.15, 0.0))], MinRadius("l2"), budget=400)
    assert (run.passes.total <= 400).all()
    assert (sum(each.passes for each in run.contributions) <= run.passes.total).all()
    run, _ = quiet(["lmn", Move("half", 0, (0.15, 0.0))], MinRadius("l2"), stop="budget")
    assert run.passes.total.max() > 2000 - 200  # each has as much as one alone


def test_an_attack_that_fails_does_not_lose_the_answers_of_others() -> None:
    class Broken(Attack):
        name = "broken"

        def __call__(self, task: Task) -> Answer:
            raise ZeroDivisionError("no good")

    run, said = quiet([Broken(), Move("half", 0, (0.15,))], MinRadius("l2"))
    assert run.adversarial.all()
    assert said == ["The attack broken failed, the others went on. ZeroDivisionError: no good"]
    assert run.contributions[0].found.sum() == 0

    def broken_too(model: object, images: Tensor, labels: Tensor) -> Tensor:
        raise ZeroDivisionError("no good either")

    for attacks in (Broken(), [Broken(), Function(broken_too)]):
        with pytest.raises(Exception, match="no good"):
            quiet(attacks, MaxLoss("l2", 0.1))


def test_what_an_attack_was_told_is_not_its_own() -> None:
    """A white box that only hands back what it is told has found nothing, whoever is asked first."""
    black = Move("black", 0, (0.15,), black_box=True)

    class Parrot(Attack):
        name = "parrot"

        def __call__(self, task: Task) -> Answer:
            return Answer(task.images if task.known is None else task.known)

    for attacks in ([black, Parrot()], [Parrot(), black]):
        run, said = quiet(attacks, MinRadius("linf"))
        by_name = {each.name: each for each in run.contributions}
        assert run.adversarial.all()
        assert by_name["black"].found.all()
        assert not by_name["parrot"].found.any()
        assert "black found a nearer point than every white-box attack on 8 of 8 samples" in said[0]


def test_a_function_may_have_a_name() -> None:
    class Named:
        name = "named"

        def __call__(self, model: object, images: Tensor, labels: Tensor) -> Tensor:
            points = images.clone()
            points[:, 0] += 0.15
            return points

    run, _ = quiet(Named(), MinRadius("linf"))
    assert run.adversarial.all()


def test_no_images_are_no_reason_to_decline() -> None:
    x, labels = samples()
    if available():
        assert len(evaluate(model, x[:0], labels[:0], MinRadius("l2"), attacks="alma").radius) == 0


@pytest.mark.parametrize("preset", ["fast", "standard", "paper"])
@pytest.mark.parametrize("problem", [MinRadius("l2"), MaxLoss("l2", 0.11)])
def test_presets_find_what_there_is(preset: str, problem: MinRadius | MaxLoss) -> None:
    run, _ = quiet(preset, problem, budget=1200)
    assert run.adversarial.all()
    assert (run.radius <= 0.11).all()
    assert (run.passes.total <= 1200).all()
