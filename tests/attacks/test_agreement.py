"""What independent searches that agree say of a radius."""

from __future__ import annotations

import torch

from pwcf.attacks.agreement import ONE_KIND, Searches, agreement_of

INF, NAN = torch.inf, torch.nan


def test_searches_that_end_at_the_radius_are_counted() -> None:
    ends = torch.tensor([[1.0, 1.019, 1.03, INF, NAN], [2.0, 2.0, 2.0, 2.0, 2.0]])
    far = torch.tensor([[False, True, True, False, False]] * 2)
    found = agreement_of(Searches(ends, far), torch.tensor([1.0, 1.5]))
    assert found.agreement.tolist() == [2, 0]
    assert found.searches.tolist() == [4, 5]


def test_each_search_that_agrees_halves_what_may_be_left() -> None:
    far = torch.tensor([[False, True, False, True, False]])
    gains = [
        agreement_of(Searches(torch.tensor([[1.0] * k + [INF] * (5 - k)]), far), torch.ones(1)).gain.item()
        for k in (2, 3, 4, 5)
    ]
    assert gains == [0.08, 0.04, 0.02, 0.01]


def test_searches_from_one_kind_of_place_prove_little() -> None:
    ends = torch.ones(1, 8)
    for far in (torch.zeros(1, 8).bool(), torch.ones(1, 8).bool()):
        assert agreement_of(Searches(ends, far), torch.ones(1)).gain.item() == ONE_KIND


def test_of_one_search_nothing_is_known() -> None:
    found = agreement_of(Searches(torch.tensor([[1.0, NAN]]), torch.zeros(1, 2).bool()), torch.ones(1))
    assert found.gain.isnan().all()
