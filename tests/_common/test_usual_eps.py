"""At which eps robust accuracy is told."""

import math

import pytest

from pwcf._common.usual_eps import eps_for, usual_eps

GREY, COLOUR, LARGE = (1, 28, 28), (3, 32, 32), (3, 224, 224)
UNIT = (0.0, 1.0)
INF = math.inf


def spread(low: float, high: float) -> list[float]:
    return [low + (high - low) * i / 20 for i in range(21)]


def test_images_are_asked_what_papers_ask() -> None:
    assert usual_eps("linf", COLOUR, UNIT, [spread(0, 0.05)]) == [k / 255 for k in (1, 2, 4, 8)]
    assert usual_eps("linf", GREY, UNIT, [spread(0, 0.4)]) == [0.1, 0.2, 0.3]
    assert usual_eps("l2", COLOUR, UNIT, [spread(0, 2)]) == [0.25, 0.5, 1]
    assert usual_eps("l2", LARGE, UNIT, [spread(0, 4)]) != usual_eps("l2", COLOUR, UNIT, [spread(0, 4)])


def test_one_of_several_models_is_enough_for_an_eps_to_tell_something() -> None:
    weak, strong = spread(0, 0.01), spread(0, 0.4)
    assert usual_eps("linf", GREY, UNIT, [weak, strong]) == [0.1, 0.2, 0.3]


def test_where_usual_eps_break_all_or_nothing_round_ones_near_the_quartiles_are_added() -> None:
    found = usual_eps("linf", GREY, UNIT, [spread(0.002, 0.03)])
    assert found[-3:] == [0.1, 0.2, 0.3]  # papers are compared at these, whatever they say of this model
    added = found[:-3]
    assert added
    assert all(0.002 < eps < 0.03 for eps in added)
    assert all(f"{eps:.10g}".strip("0.")[0] in "125" for eps in added)
    # Quartiles beyond all that was found are left out.
    assert usual_eps("mine", GREY, UNIT, [[0.0052, 0.0051, INF, INF]]) == [0.005]


@pytest.mark.parametrize(
    ("metric", "shape", "bounds"),
    [("mine", COLOUR, UNIT), ("l2", (12,), UNIT), ("l2", (5, 8, 8), UNIT), ("l2", COLOUR, (-1.0, 1.0))],
)
def test_what_papers_do_not_ask_is_asked_by_the_radii_alone(metric, shape, bounds) -> None:
    assert usual_eps(metric, shape, bounds, [spread(0.9, 4.2)]) == [2, 5]
    assert usual_eps(metric, shape, bounds, [[INF, INF]]) == []
    assert usual_eps(metric, shape, bounds, []) == []


def test_zero_radii_have_no_round_number() -> None:
    assert usual_eps("mine", COLOUR, UNIT, [[0.0, 0.0, 0.0, 0.0]]) == []


def test_a_persons_own_eps_are_those_of_the_metric_and_of_all() -> None:
    asked = {"": [0.5, 0.1], "l2": [2.0, 0.5], "linf": [8 / 255]}
    assert eps_for(asked, "l2") == [0.1, 0.5, 2.0]
    assert eps_for(asked, "l1") == [0.1, 0.5]
    assert eps_for({"l2": [1.0]}, "linf") == []
