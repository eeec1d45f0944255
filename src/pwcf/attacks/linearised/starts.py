"""Which target classes a stage takes, and landmarks: places to start that no gradient points to.

A landmark is a plain image, of another class than the sample. Networks with masked gradients have local minima around
an image that lead nowhere near its nearest boundary, and some are flat there (dead ReLUs: a third to a half of the
eights that a standard MNIST network classifies correctly were not broken at all). But hardly any network gives one
class to the dark, the bright, the grey and the inverted image. On the way to one of them lies a boundary, another one
than noise leads to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, get_args

import torch
from torch import Tensor

from pwcf._common.rows import bisect
from pwcf.attacks.base import ANY

Landmark = Literal["dark", "bright", "grey", "inverted"]
LANDMARKS: tuple[Landmark, ...] = get_args(Landmark)
# A boundary may be close to the landmark; there is no slope beyond it.
HALVINGS = 8


class TargetTable:
    """The smallest radius found for each image and target. Columns are an image's targets; one of them may be ANY."""

    def __init__(self, targets: Tensor, centre: Tensor) -> None:
        n, k = targets.shape
        self.targets = targets
        """(n, k)"""
        self.radius = torch.full((n, k), torch.inf, dtype=centre.dtype, device=centre.device)
        """inf where nothing was found"""
        self.points = centre.unsqueeze(1).repeat(1, k, 1)
        """(n, k, entries) the images where nothing was found"""

    def best(self) -> tuple[Tensor, Tensor]:
        """(n,) radii and (n, entries) points over all targets."""
        radius, column = self.radius.min(1)
        return radius, self.points[torch.arange(len(column)), column]

    def store(self, image: Tensor, column: Tensor, radius: Tensor, points: Tensor, reached: Tensor) -> None:
        """Keep what is better of rows (r,). A class that ANY has reached gets the point, if it has a column."""
        free = self.targets[image, column] == ANY
        match = self.targets[image] == reached.unsqueeze(1)
        column = torch.where(free & match.any(1), match.long().argmax(1), column)
        for some in (~free, free):  # one row at most for each place
            better = (some & (radius < self.radius[image, column])).nonzero().squeeze(1)
            place = image[better], column[better]
            self.radius[place], self.points[place] = radius[better], points[better]

    def nearest(self, images: Tensor, count: int) -> Tensor:
        """(m, count) columns, the best ones first."""
        return self.radius[images].argsort(dim=1, stable=True)[:, :count]

    def in_turn(self, images: Tensor, count: int, number: int) -> Tensor:
        """(m, count) columns for restart ``number``: the best, ANY, and others in turn.

        The order after the first look is not to be trusted: its local minima may be half as far again. So the last
        place goes to the next best class in every second restart, and to all further classes in turn in the others.
        """
        radius = self.radius[images]
        if radius.shape[1] <= count or count == 1:
            return self.nearest(images, count)
        anyone = self.targets[images] == ANY
        order = radius.masked_fill(anyone, torch.nan).argsort(dim=1, stable=True)  # NaN is last
        turn = count - 2 if number % 2 else count - 1 + (number // 2 - 1) % (order.shape[1] - count)
        return torch.cat([order[:, : count - 2], order[:, -1:], order[:, turn : turn + 1]], 1)


def landmark_passes(names: Sequence[Landmark]) -> int:
    """The most forward passes that an image needs to look for these landmarks."""
    return len(names) + HALVINGS if names else 0


def landmark(name: Landmark, centre: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """The landmark (m, n) of images (m, n) in their boxes. Entries that must not change have boxes of one point."""
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
    """Points just beyond the boundary, on the way from the images (m, n) to the first landmark that is misclassified.

    Args:
        is_wrong: points (k, n) and their rows (k,) -> (k,) bool.
        centre: (m, n) the images.
        landmarks: each (m, n), tried in turn.

    Returns:
        (m,) whether a landmark is misclassified, and (m, n) the points; the images where none is.
    """
    everyone = torch.arange(len(centre), device=centre.device)
    far, found = centre.clone(), torch.zeros_like(everyone, dtype=torch.bool)
    for there in landmarks:
        left = everyone[~found]
        new = left[is_wrong(there[left], left)]
        far[new], found[new] = there[new], True
    rows = everyone[found]

    def is_right(share: Tensor) -> Tensor:
        return ~is_wrong(torch.lerp(centre[rows], far[rows], share.unsqueeze(1)), rows)

    start, end = torch.zeros_like(far[rows, 0]), torch.ones_like(far[rows, 0])
    _, outside = bisect(is_right, start, end, HALVINGS if len(rows) else 0)
    far[rows] = torch.lerp(centre[rows], far[rows], outside.unsqueeze(1))
    return found, far
