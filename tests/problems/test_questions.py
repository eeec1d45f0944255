"""The two questions: what they say, what they allow, and what counts as misclassified."""

from __future__ import annotations

import math

import pytest
import torch

from pwcf.metrics import lp
from pwcf.problems import MaxLoss, MinRadius, is_wrong


def test_questions_say_what_they_ask() -> None:
    assert str(MinRadius("linf")) == "min-radius, linf"
    assert str(MinRadius(lp(1.5), targeted=True)) == "min-radius, l1.5, targeted"
    assert str(MaxLoss("l2", eps=0.5, loss="ce")) == "max-loss, l2 ≤ 0.5, ce"
    assert MinRadius("l2") == MinRadius(lp(2))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"eps": -1.0}, "eps: expected finite values >= 0"),
        ({"eps": math.nan}, "eps: expected finite values >= 0"),
        ({"eps": "8/255"}, r"eps: expected a number or a tensor \(n,\), found '8/255'"),
        ({"eps": torch.ones(2, 2)}, "eps: expected finite values"),
        ({"eps": 1.0, "loss": "hinge"}, "loss: expected one of"),
        ({"eps": 1.0, "metric": "l0.5"}, "metric: expected"),
    ],
)
def test_wrong_questions_are_named(arguments: dict[str, object], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        MaxLoss(**({"metric": "l2"} | arguments))  # type: ignore[arg-type]


def test_eps_per_sample() -> None:
    problem = MaxLoss("l2", eps=torch.tensor([0.1, 0.2, 0.3]))
    assert problem.allows(torch.tensor([0.15, 0.15, 0.3 * (1 + 1e-9)], dtype=torch.float64)).tolist() == [
        False,
        True,
        True,
    ]
    with pytest.raises(ValueError, match="eps: expected a number or 4 values, one per sample, found 3"):
        problem.radii(4)


def test_a_tie_is_not_a_mistake() -> None:
    logits = torch.tensor([[1.0, 1.0], [1.0, 2.0], [2.0, 1.0]])
    labels = torch.zeros(3, dtype=torch.int64)
    assert is_wrong(logits, labels, targeted=False).tolist() == [False, True, False]
    assert is_wrong(logits, labels, targeted=True).tolist() == [False, False, True]
