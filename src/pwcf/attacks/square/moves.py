"""What a norm's version of the method does to the points of all rows: one window each, tried and taken back."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor

from pwcf.attacks.square.windows import Grid


class Moves(ABC):
    """The best points so far, and one change of each that is being tried.

    ``draw`` makes windows for some queries to come; then ``propose`` (number of the query since) and ``settle`` in
    turn. ``keep`` lets rows go, after ``settle``.
    """

    grid: Grid
    points: Tensor
    """(m, channels, entries) the start; then what is tried, and after ``settle`` the best"""
    least: int
    """least side of a window"""

    @abstractmethod
    def draw(self, sides: tuple[int, int], queries: int) -> None: ...

    @abstractmethod
    def propose(self, query: int) -> None: ...

    @abstractmethod
    def settle(self, better: Tensor) -> None:
        """Rows (m,) bool that keep what was tried; the others are as before."""

    @abstractmethod
    def keep(self, rows: Tensor) -> None:
        """Only these rows (k,) go on."""
