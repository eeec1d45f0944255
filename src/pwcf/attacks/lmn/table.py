"""The smallest radius found for each image and target class, and the order in which targets have their turn."""

from __future__ import annotations

import torch
from torch import Tensor

from pwcf.attacks.targets import ANY


class Table:
    """Columns are the targets of an image, one of them may be ANY."""

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
        """Keep of rows (r,) what is better. What ANY has reached counts for that class, if it has a column."""
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

        First looks end in local minima that may be half as far again; ranks are to be doubted. Every second restart
        has the next best class in the last place, the others have all further classes there in turn.
        """
        radius = self.radius[images]
        if radius.shape[1] <= count:
            return self.nearest(images, count)
        anyone = self.targets[images] == ANY
        order = radius.masked_fill(anyone, torch.nan).argsort(dim=1, stable=True)  # NaN is last
        turn = count - 2 if number % 2 else count - 1 + (number // 2 - 1) % (order.shape[1] - count)
        return torch.cat([order[:, : count - 2], order[:, -1:], order[:, turn : turn + 1]], 1)
