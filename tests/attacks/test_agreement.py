"""What independent searches that agree say of a radius."""

from __future__ import annotations

import pytest
import torch

from pwcf.attacks.agreement import FAR, FEW, HALF_LIFE, HALF_LIFE_LINF, HOP, MISLED, NEAR, Searches, agreement_of
from pwcf.metrics import L1, L2, Linf, Metric

INF, NAN = torch.inf, torch.nan


def _gain(ends: list[float], began: list[int], metric: Metric | None = None) -> float:
    searches = Searches(torch.tensor([ends]), torch.tensor([began]))
    return float(agreement_of(searches, torch.tensor([1.0]), metric or L2()).gain)


def test_searches_that_end_at_the_radius_are_counted() -> None:
    ends = torch.tensor([[1.0, 1.019, 1.03, INF, NAN], [2.0, 2.0, 2.0, 2.0, 2.0]])
    began = torch.tensor([[NEAR, FAR, FAR, NEAR, NEAR]] * 2)
    found = agreement_of(Searches(ends, began), torch.tensor([1.0, 1.5]), L2())
    assert found.agreement.tolist() == [2, 0]
    assert found.searches.tolist() == [4, 5]


def test_hops_fall_back_to_the_point_they_began_at_and_are_not_counted() -> None:
    began = torch.tensor([[NEAR, FAR, HOP, HOP]])
    found = agreement_of(Searches(torch.ones(1, 4), began), torch.ones(1), L2())
    assert (found.agreement.item(), found.searches.item()) == (2, 2)


def test_each_search_that_agrees_halves_what_may_be_left() -> None:
    gains = [_gain([1.0] * k + [INF] * (5 - k), [NEAR, NEAR, FAR, NEAR, FAR]) for k in (2, 3, 4, 5)]
    assert gains == [0.08, 0.04, 0.02, 0.01]


def test_in_linf_one_more_must_agree() -> None:
    began = [NEAR, NEAR, FAR, NEAR, FAR, NEAR]
    assert _gain([1.0] * 6, began, Linf()) == _gain([1.0] * 5, began[:5], L2())


def test_in_l1_more_of_them_must_have_begun_near_the_image() -> None:
    ends, began = [1.0] * 5, [NEAR, NEAR, NEAR, FAR, FAR]
    assert _gain(ends, began, L2()) == _gain(ends, [NEAR] * 4 + [FAR], L1()) == 0.01
    assert _gain(ends, began, L1()) > 0.05


def test_searches_from_far_away_prove_little_by_themselves() -> None:
    assert _gain([INF, *[1.0] * 5], [NEAR] + [FAR] * 5) > 0.05
    assert _gain([1.0] * 6, [NEAR] + [FAR] * 5) > 0.05


@pytest.mark.parametrize("later", [0, 6, 20])
def test_searches_in_a_row_that_find_nothing_nearer_halve_what_may_be_left(later: int) -> None:
    """Whatever they are; the radius was reached by the third of these, up to 1 %."""
    ends, began = [INF, 1.02, 1.005, *[1.0] * (FEW - 1)], [NEAR, FAR, FAR, *[FAR] * (FEW - 1)]
    for metric, half_life in ((L2(), HALF_LIFE), (L1(), HALF_LIFE), (Linf(), HALF_LIFE_LINF)):
        gain = _gain(ends + [3.0] * later, began + [HOP] * later, metric)
        assert gain == pytest.approx(MISLED * 2 ** (-(FEW - 1 + later) / half_life))


def test_where_hardly_any_search_agrees_more_of_them_prove_nothing() -> None:
    ends, began = [INF] + [1.0] * (FEW - 1) + [3.0] * 40, [NEAR] + [FAR] * (FEW - 1) + [HOP] * 40
    assert _gain(ends, began) >= MISLED


def test_of_one_search_nothing_is_known() -> None:
    assert torch.tensor(_gain([1.0, NAN, 1.0], [NEAR, NEAR, HOP])).isnan()
