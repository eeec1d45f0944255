"""Colours, lines and markers of every plot: one name looks the same wherever it is drawn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

Style = Literal["-", "--", ":"]

# Okabe and Ito's colours, told apart by everyone; yellow is left out, too faint for lines.
BLACK = "#000000"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
BLUE, VERMILION, GREEN, PINK, SKY, ORANGE = COLOURS
GREY = "#555555"
STYLES: tuple[Style, ...] = ("-", "--", ":")
MARKERS = "osD^vPX"


class Look(NamedTuple):
    """How one attack or run is drawn, the same in every panel."""

    colour: str
    style: Style
    marker: str
    width: float
    order: float


def looks_of(names: Iterable[str], ours: str | None = None, colours: Sequence[str] = COLOURS) -> dict[str, Look]:
    """No two names have both colour and style in common while there are few enough; ours is thick and black."""
    listed = list(dict.fromkeys(names))
    looks = {}
    for i, name in enumerate(name for name in listed if name != ours):
        style = STYLES[i // len(colours) % len(STYLES)]
        looks[name] = Look(colours[i % len(colours)], style, MARKERS[i % len(MARKERS)], 1.3, 2 + i / 100)
    # In front of all: drawn last, but named first.
    return ({ours: Look("black", "-", "o", 2.4, 10)} if ours in listed and ours is not None else {}) | looks
