"""What is known of every network: how it was trained, and how accurate its shipped weights are."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from pwcf.zoo.files import read
from pwcf.zoo.recipes import RECIPES, Recipe

CARDS = "cards.json"


@dataclass(frozen=True)
class Card:
    """One network. Accuracies are shares; those with 200 in their name are on the embedded images."""

    name: str
    recipe: Recipe
    clean_accuracy: float
    """on the 10,000 test images"""
    clean_accuracy_200: float
    robust_accuracy_200: dict[str, float]
    """by ``evaluate`` with MaxLoss at the zoo's eps: metric -> share of all 200"""
    eps: dict[str, float]
    """metric -> eps of these figures"""
    tolerance: float
    """by how much robust accuracies may differ on other machines and versions of torch"""
    made_with: dict[str, str]
    """versions, and the figures' attack"""


def names() -> list[str]:
    """The networks."""
    return list(RECIPES)


def card(name: str) -> Card:
    """What is known of a network."""
    if name not in RECIPES:
        raise ValueError(f"zoo: expected one of {', '.join(RECIPES)}, found {name!r}")
    content = _read()[name]
    return Card(**{**content, "recipe": Recipe(**content["recipe"])})


@cache
def _read() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(read(CARDS))
    return content
