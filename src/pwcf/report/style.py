"""Colours, lines and markers of every plot: one name looks the same wherever it is drawn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from pwcf.analysis.naming import BETWEEN, OURS

LineStyle = Literal["-", "--", ":"]

# Okabe and Ito's colours, told apart by everyone; yellow is left out, too faint for lines.
BLACK = "#000000"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
BLUE, VERMILION, GREEN, PINK, SKY, ORANGE = COLOURS
GREY = "#555555"
LINE_STYLES: tuple[LineStyle, ...] = ("-", "--", ":")
MARKERS = "osD^vPX"


class PlotStyle(NamedTuple):
    """How one attack or run is drawn, the same in every panel."""

    colour: str
    line: LineStyle
    marker: str
    width: float
    order: float
    """what is drawn later lies in front"""


def is_ours(name: str) -> bool:
    """Whether a run or attack of this name is the package's own method."""
    return OURS in name.split(BETWEEN)


def plot_styles(
    names: Iterable[str], colours: Sequence[str] = COLOURS, *, stand_out: bool = False
) -> dict[str, PlotStyle]:
    """A style for every name, our own method first.

    No two names have both colour and line in common while there are few enough.

    Args:
        names: of attacks or runs.
        colours: taken in turn.
        stand_out: our own method is thick, black and in front.
    """
    listed = sorted(dict.fromkeys(names), key=lambda name: not is_ours(name))
    styles: dict[str, PlotStyle] = {}
    for name in listed:
        if stand_out and is_ours(name) and not styles:
            styles[name] = PlotStyle(BLACK, "-", "o", 2.4, 10)
            continue
        i = len(styles) - (stand_out and is_ours(listed[0]))
        line = LINE_STYLES[i // len(colours) % len(LINE_STYLES)]
        styles[name] = PlotStyle(colours[i % len(colours)], line, MARKERS[i % len(MARKERS)], 1.3, 2 + i / 100)
    return styles
