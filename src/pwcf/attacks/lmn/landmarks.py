"""Places to begin that no gradient points to: on the way from an image to a plain image of another class.

Nets with masked gradients have local minima around an image that lead nowhere near its nearest boundary, and some are
flat there (ReLUs that die: of the eights that a standard MNIST net knows, a third to a half were not broken at all).
But hardly any net gives one class to the dark, the bright, the grey and the inverted image: on the way to one of them
lies a boundary, another than those that noise leads to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, get_args

import torch
from torch import Tensor

Landmark = Literal["dark", "bright", "grey", "inverted"]
LANDMARKS: tuple[Landmark, ...] = get_args(Landmark)
# A boundary may be close to the landmark; there is no slope beyond it.
HALVINGS = 8


def passes(names: Sequence[Landmark]) -> int:
    """Forward passes at most for each image that looks for these."""
    return len(names) + HALVINGS if names else 0


def landmark(name: Landmark, centre: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """(m, n) of images (m, n) and their boxes, which have one point only where a mask forbids changes."""
    if name == "dark":
        return lower
    if name == "bright":
        return upper
    if name == "grey":
        return 0.5 * (lower + upper)
    return torch.clamp(lower + upper - centre, lower, upper)  # rounding may leave the box


def boundary_points(
    is_wrong: Callable[[Tensor, Tensor], Tensor], centre: Tensor, landmarks: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """(m,) whether a landmark (m, n) is wrong, (m, n) points just beyond the boundary on the way to the first.

    ``is_wrong`` gets points and the numbers of their rows. (``verify`` bisects by itself: it owes attacks nothing.)
    """
    everyone = torch.arange(len(centre), device=centre.device)
    far, found = centre.clone(), torch.zeros_like(everyone, dtype=torch.bool)
    for there in landmarks:
        left = everyone[~found]
        new = left[is_wrong(there[left], left)]
        far[new], found[new] = there[new], True
    rows = everyone[found]
    inside, outside = torch.zeros_like(far[rows, 0]), torch.ones_like(far[rows, 0])
    for _ in range(HALVINGS if len(rows) else 0):
        middle = 0.5 * (inside + outside)
        wrong = is_wrong(torch.lerp(centre[rows], far[rows], middle.unsqueeze(1)), rows)
        inside, outside = torch.where(wrong, inside, middle), torch.where(wrong, middle, outside)
    far[rows] = torch.lerp(centre[rows], far[rows], outside.unsqueeze(1))
    return found, far
