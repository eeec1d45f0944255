"""What the answers themselves say about how far to trust them, in sentences a user can act on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from pwcf.attacks import Diagnostics
from pwcf.evaluation.run import Contribution
from pwcf.problems import MaxLoss, Problem

# A radius that is nearer by less than this is as near.
CLEARLY = 0.99
# Shares of the samples from which on a sentence is worth while: nets differ by less from image to image.
OFTEN, SOMETIMES = 0.2, 0.02


def diagnose(
    problem: Problem, contributions: Sequence[Contribution], diagnostics: Mapping[str, Diagnostics]
) -> list[str]:
    """Sentences about contributions and diagnostics of n samples each; none if nothing looks wrong."""
    asked = torch.stack([each.asked for each in contributions]).any(0)
    sentences = _black_box_beats_white_box(problem, contributions)
    for name, each in diagnostics.items():
        if each.unbracketed is not None:
            sentences += _unbracketed(name, each.unbracketed, int(asked.sum()))
        if each.still_helping is not None:
            sentences += _still_helping(name, each.still_helping, asked)
    if not isinstance(problem, MaxLoss):
        sentences += _nowhere(contributions, asked)
    return sentences


def _black_box_beats_white_box(problem: Problem, contributions: Sequence[Contribution]) -> list[str]:
    white = [each for each in contributions if not each.black_box]
    if not white:
        return []
    # Of samples that a white box was not asked, because they were broken before, nothing is to be learnt.
    compared = torch.stack([each.asked for each in white]).all(0)
    samples, least = int(compared.sum()), _least(white)
    sentences = []
    for each in contributions:
        nearer = int((compared & (each.radius < CLEARLY * least)).sum()) if each.black_box else 0
        if nearer >= (1 if isinstance(problem, MaxLoss) else max(1.0, SOMETIMES * samples)):
            sentences.append(
                f"The black-box attack {each.name} found a nearer point than every white-box attack on {nearer} of "
                f"{samples} samples: gradients mislead here. Raise the budget, give {each.name} more queries, and look "
                "for masked gradients in the model."
            )
    return sentences


def _unbracketed(name: str, unbracketed: Tensor, samples: int) -> list[str]:
    count = int(unbracketed.sum())
    if count == 0:
        return []
    return [
        f"The radius search of {name} found nothing on {count} of {samples} samples even in the largest ball "
        "it tried: their radii are not bracketed by it. Raise the budget or add an attack that minimises the distance."
    ]


def _still_helping(name: str, still_helping: Tensor, asked: Tensor) -> list[str]:
    count, samples = int((still_helping & asked).sum()), int(asked.sum())
    if count <= max(OFTEN * samples, 1):
        return []
    return [
        f"The later restarts of {name} still found clearly nearer points on {count} of {samples} samples: more would "
        "help. Raise the budget."
    ]


def _nowhere(contributions: Sequence[Contribution], asked: Tensor) -> list[str]:
    """That no attack finds any misclassified point at all is a sign of a mistake, not of robustness."""
    count = int((asked & torch.isinf(_least(contributions))).sum())
    if count == 0:
        return []
    return [
        f"No misclassified point at any distance was found for {count} of {int(asked.sum())} samples. Hardly any model "
        "is constant: raise the budget, or add attacks such as 'square'."
    ]


def _least(contributions: Sequence[Contribution]) -> Tensor:
    """(n,) the least radius of all; inf where none of them has one."""
    return torch.stack([torch.where(each.asked, each.radius, torch.inf) for each in contributions]).amin(0)
