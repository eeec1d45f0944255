"""One cell of a benchmark: what is asked, of which net, by which attack, at which budget."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from pwcf.problems import MaxLoss, MinRadius, Problem

MIN_RADIUS, MAX_LOSS = "min-radius", "max-loss"


@dataclass(frozen=True)
class Cell:
    """A net, a question, an attack and a budget."""

    net: str
    norm: str
    eps: float | None
    """None: the least radius is asked; a number: the worst loss within it"""
    attack: str
    budget: int
    """forward + backward passes per sample"""

    @property
    def question(self) -> str:
        return MIN_RADIUS if self.eps is None else MAX_LOSS

    @property
    def problem(self) -> Problem:
        return MinRadius(self.norm) if self.eps is None else MaxLoss(self.norm, self.eps)

    @property
    def file_name(self) -> str:
        """Different cells have different names: a net's name may hold dots and slashes, so these are escaped."""
        # repr: two eps that differ at all are two files.
        asked = self.norm if self.eps is None else f"{self.norm}_{self.eps!r}"
        net, attack = (quote(name, safe="").replace(".", "%2E") for name in (self.net, self.attack))
        return f"{net}.{asked}.{attack}.{self.budget}.csv"

    def __str__(self) -> str:
        within = "" if self.eps is None else f" within {self.eps:.6g}"
        return f"{self.net} {self.norm}{within} {self.attack} {self.budget}"
