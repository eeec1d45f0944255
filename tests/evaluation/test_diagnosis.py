"""What answers say of themselves: sentences where something looks wrong, and none where nothing does."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import Tensor

from pwcf import MaxLoss, MinRadius, evaluate
from pwcf.evaluation.diagnosis import diagnose
from pwcf.evaluation.run import Contribution

ROWS, N = 8, 6


def samples() -> tuple[Tensor, Tensor]:
    x = torch.full((ROWS, N), 0.5, dtype=torch.float64)
    return x, torch.zeros(ROWS, dtype=torch.int64)


def contribution(name: str, radius: list[float], black_box: bool = False) -> Contribution:
    values = torch.tensor(radius, dtype=torch.float64)
    return Contribution(name, "", black_box, values, torch.zeros(len(radius), dtype=torch.int64), 0.0)


INF, NAN = float("inf"), float("nan")
NOBODY = torch.tensor(False)


def test_a_black_box_that_is_better_is_told() -> None:
    white = contribution("white", [0.3, 0.3, INF, NAN])
    for radius, told in (([0.3, 0.3, INF, 0.1], False), ([0.3, 0.2, INF, NAN], True), ([NAN, NAN, 0.5, NAN], True)):
        said = diagnose(MaxLoss("l2", 1.0), [white, contribution("square", radius, True)], {}, NOBODY)
        assert bool(said) == told
        if told:
            assert "square found a nearer point than every white-box attack on 1 of 3 samples" in said[0]


def test_min_radius_without_any_point_is_told() -> None:
    said = diagnose(MinRadius("l2"), [contribution("white", [0.3, INF, NAN])], {}, NOBODY)
    assert len(said) == 1
    assert "No misclassified point at any distance was found for 1 of 2 samples" in said[0]
    assert diagnose(MaxLoss("l2", 1.0), [contribution("white", [0.3, INF, NAN])], {}, NOBODY) == []


def test_a_radius_search_that_ends_nowhere_is_told() -> None:
    def always_right(x: Tensor) -> Tensor:
        return torch.stack([1 + x[:, 0], -x[:, 0]], 1)

    x, labels = samples()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = evaluate(always_right, x, labels, MinRadius("l2"), attacks=["apgd"], budget=500)
    assert any("radius search of apgd found nothing on 8 of 8 samples" in sentence for sentence in run.warnings)


def test_restarts_that_still_help_are_told() -> None:
    """A sum of waves has many local minima."""
    torch.manual_seed(1)
    w, phase = 12 * torch.randn(20, 30, dtype=torch.float64), 6.28 * torch.rand(30, dtype=torch.float64)

    def rough(x: Tensor) -> Tensor:
        level = 3 * torch.sin(x @ w + phase).mean(1) - 1.2
        return torch.stack([torch.zeros_like(level), level], 1)

    x = torch.rand(40, 20, dtype=torch.float64)
    x = x[rough(x).argmax(1) == 0][:20]
    labels = torch.zeros(20, dtype=torch.int64)
    with pytest.warns(UserWarning, match="The later restarts of lmn still found clearly nearer points"):
        evaluate(rough, x, labels, MinRadius("l1"), budget=750)


def linear(x: Tensor) -> Tensor:
    return torch.stack([x.sum(1) - 2, 2 - x.sum(1)], 1)


@pytest.mark.parametrize("metric", ["linf", "l2", "l1", "l1.5"])
@pytest.mark.parametrize("eps", [8, 1, 3.5])
def test_a_ball_that_holds_the_whole_box_is_told(metric: str, eps: float) -> None:
    x, y = samples()
    holds = eps > 0.5 * N ** (0 if metric == "linf" else 1 / float(metric[1:]))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = evaluate(linear, x, y, MaxLoss(metric, eps), budget=60)
    said = [str(each.message) for each in caught if str(each.message).startswith("eps:")]
    assert said == [sentence for sentence in run.warnings if sentence.startswith("eps:")]
    assert bool(said) == holds
    if holds:
        assert f"for {ROWS} of {ROWS} samples the ball of {metric} {eps:g} contains every image" in said[0]
        assert ("Did you mean" in said[0]) == (eps in (8, 1))
        assert eps != 8 or said[0].endswith("Did you mean 8/255?")


def test_the_box_is_what_bounds_mask_and_sample_allow() -> None:
    x, y = samples()
    x[0], free = 0.0, torch.zeros(N, dtype=torch.bool)
    free[0] = True
    eps = torch.full((ROWS,), 0.6)
    eps[1] = 0.4
    with pytest.warns(UserWarning, match=rf"for {ROWS - 2} of {ROWS} samples the ball of linf 0\.6 "):
        evaluate(linear, x, y, MaxLoss("linf", eps), budget=60, mask=free)
    said = evaluate(linear, x, y, MaxLoss("linf", 8), budget=60, bounds=(0, 255)).warnings
    assert not [each for each in said if each.startswith("eps:")]
