"""Places to begin that no gradient points to: on the way from an image to a plain image of another class.

Nets with masked gradients have local minima around an image that lead nowhere near its nearest boundary, and some are
flat there (ReLUs that die: of the eights that a standard MNIST net knows, every third was not broken at all). But
hardly any net gives one class to the dark, the bright, the grey and the inverted image: on the way to one of them lies
a boundary, another than those that noise leads to.
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
    """Forward passes for each image that looks for these."""
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
    is_wrong: Callable[[Tensor], Tensor], centre: Tensor, landmarks: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """(m,) whether a landmark (m, n) is of another class, (m, n) points just beyond the boundary towards the first."""
    far, found = centre.clone(), torch.zeros_like(centre[:, 0], dtype=torch.bool)
    for there in landmarks:
        new = (is_wrong(there) & ~found).nonzero().squeeze(1)
        far[new], found[new] = there[new], True
    inside, outside = torch.zeros_like(far[:, 0]), torch.ones_like(far[:, 0])
    for _ in range(HALVINGS):
        middle = 0.5 * (inside + outside)
        wrong = is_wrong(torch.lerp(centre, far, middle.unsqueeze(1)))
        inside, outside = torch.where(wrong, inside, middle), torch.where(wrong, middle, outside)
    return found, torch.lerp(centre, far, outside.unsqueeze(1))
