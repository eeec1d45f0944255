"""Warnings that follow from the question or from the answers, in sentences a user can act on."""

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

# Images whose distances are measured together.
PIECE = 256
# Steps of 8-bit images, by which an eps is often told.
LEVELS = 255


def diagnose(
    problem: Problem,
    contributions: Sequence[Contribution],
    diagnostics: Mapping[str, Diagnostics],
    contradicted: Tensor,
) -> list[str]:
    """Sentences about contributions and diagnostics of n samples each; none if nothing looks wrong.

    ``contradicted`` (n,): the only points of these were misclassified in the search, and not when they were verified.
    """
    asked = torch.stack([each.asked for each in contributions]).any(0)
    sentences = _black_box_beats_white_box(problem, contributions)
    for name, each in diagnostics.items():
        if each.unbracketed is not None:
            sentences += _unbracketed(name, each.unbracketed, int(asked.sum()))
        if each.still_helping is not None:
            sentences += _still_helping(name, each.still_helping, asked)
    sentences += _changed_its_answer(int(contradicted.sum()), int(asked.sum()))
    if not isinstance(problem, MaxLoss):
        sentences += _nowhere(contributions, asked, contradicted)
    return sentences


def warnings_about_eps(
    problem: Problem, images: Tensor, box: tuple[Tensor, Tensor], bounds: tuple[float, float]
) -> list[str]:
    """A sentence where eps allows any change of images (n, ...) in their box, each side (n, ...).

    It needs the most distant point of a box, which is a corner in every l_p. Other metrics are not looked at.
    """
    if not isinstance(problem, MaxLoss) or problem.metric.exponent is None or not len(images):
        return []
    count, eps = 0, problem.radii(len(images))
    for x, lower, upper, most in zip(*(torch.split(each, PIECE) for each in (images, *box, eps)), strict=True):
        farthest = problem.metric.distance64(x, torch.where(x - lower > upper - x, lower, upper)).cpu()
        count += int(((farthest <= most) & (farthest > 0)).sum())
    if not count:
        return []
    value, (low, high) = float(eps.max()), bounds
    steps = high - low == 1 and value == int(value) and 1 <= value <= LEVELS
    hint = f" Did you mean {value:.0f}/{LEVELS}?" if steps else ""
    return [
        f"eps: for {count} of {len(images)} samples the ball of {problem.metric.name} {value:g} contains every image "
        f"within the bounds ({low:g}, {high:g}): any change is allowed.{hint}"
    ]


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


def _changed_its_answer(count: int, samples: int) -> list[str]:
    if count == 0:
        return []
    return [
        f"The model changed its answer on {count} of {samples} samples: it misclassified the nearest point in the "
        "search and not when the point was verified. Does it have a limit on queries, or is it random? These points "
        "are returned in x_adv with status 'contradicted' and do not count as found."
    ]


def _nowhere(contributions: Sequence[Contribution], asked: Tensor, contradicted: Tensor) -> list[str]:
    """That no attack finds any misclassified point at all is a sign of a mistake, not of robustness."""
    count = int((asked & ~contradicted & torch.isinf(_least(contributions))).sum())
    if count == 0:
        return []
    return [
        f"No misclassified point at any distance was found for {count} of {int(asked.sum())} samples. Hardly any model "
        "is constant: raise the budget, or add attacks such as 'square'."
    ]


def _least(contributions: Sequence[Contribution]) -> Tensor:
    """(n,) the least radius of all; inf where none of them has one."""
    return torch.stack([torch.where(each.asked, each.radius, torch.inf) for each in contributions]).amin(0)
