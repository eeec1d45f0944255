"""The records of one net and norm: what can be compared sample by sample."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from pwcf.analysis import best, filled_mean, largest_finite, local_optimality
from pwcf.records import Record, RecordError

OURS = "lmn"


@dataclass(frozen=True)
class Group:
    """All cells of one net and norm; attacks by name, ours first."""

    net: str
    norm: str
    radius_cells: dict[tuple[str, int], Record]
    """min-radius, by attack and budget"""
    loss_cells: dict[tuple[float, str, int], Record]
    """max-loss, by eps, attack and budget"""
    right: Tensor
    """(n,) bool: right as they are, in every cell"""

    @property
    def budgets(self) -> list[int]:
        """Of the min-radius cells, rising."""
        return sorted({budget for _, budget in self.radius_cells})

    @property
    def attacks(self) -> list[str]:
        """With min-radius cells."""
        return list(dict.fromkeys(attack for attack, _ in self.radius_cells))

    def radii(self, budget: int) -> dict[str, Tensor]:
        """(n,) of every attack that has this budget's cell."""
        return {attack: cell.radius for (attack, at), cell in self.radius_cells.items() if at == budget}

    @cached_property
    def best(self) -> Tensor:
        """d*: (n,) the least radius over all attacks at the largest budget."""
        return best(list(self.radii(self.budgets[-1]).values()))

    @cached_property
    def eps_max(self) -> float:
        """The largest finite d*; NaN where nobody found a point."""
        return largest_finite(self.best, self.right)

    def xi(self, radius: Tensor) -> float:
        return local_optimality(radius, self.best, self.right)

    @cached_property
    def worst(self) -> float:
        """The largest radius that any attack found at any budget; NaN where nobody found a point."""
        found = [largest_finite(cell.radius, self.right) for cell in self.radius_cells.values()]
        return max((radius for radius in found if radius == radius), default=float("nan"))

    def fair_mean(self, radius: Tensor) -> float:
        """A sample without a point counts as the worst radius: to find only what is near is no merit."""
        return filled_mean(radius, self.right, self.worst)


def groups_of(records: Iterable[Record]) -> list[Group]:
    """Records sorted into groups, in the order in which nets and norms come first."""
    found: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        found.setdefault((record.cell.net, record.cell.norm), []).append(record)
    return [_group(net, norm, members) for (net, norm), members in found.items()]


def _group(net: str, norm: str, members: list[Record]) -> Group:
    first = members[0]
    for record in members[1:]:
        for field in ("data", "images", "seed"):
            values = getattr(first.header, field), getattr(record.header, field)
            if values[0] != values[1]:
                raise RecordError(
                    f"{record.cell.file_name}: field {field} is {values[1]!r}, but {values[0]!r} in "
                    f"{first.cell.file_name}: they are not about the same, remove one of them"
                )
    members = sorted(members, key=lambda record: _order(record.cell.attack, record.cell.budget))
    radius_cells = {(r.cell.attack, r.cell.budget): r for r in members if r.cell.eps is None}
    loss_cells = {(r.cell.eps, r.cell.attack, r.cell.budget): r for r in members if r.cell.eps is not None}
    right = torch.stack([record.right for record in members]).all(0)
    return Group(net, norm, radius_cells, loss_cells, right)


def _order(attack: str, budget: int) -> tuple[bool, str, int]:
    return attack != OURS, attack, budget
