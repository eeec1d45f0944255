"""What all figures share: their size and type on a page, panels, notes, legends, and how they are saved."""

from __future__ import annotations

import math
import os
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

import torch
from torch import Tensor

from pwcf._common.atomic import write_whole
from pwcf.evaluation import Run
from pwcf.problems import MinRadius
from pwcf.report.style import GREY, PlotStyle

if TYPE_CHECKING:
    import numpy
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

P = ParamSpec("P")

# Inches: a column and the full width of a two-column page. Drawn at the size they are printed, type stays legible.
COLUMN, PAGE = 3.4, 6.9
ROW = 1.75
"""height of a panel"""
ABREAST = 3
"""panels beside each other at most"""
SMALL = 7
"""points; nothing is smaller"""
BINS = 6, 24
"""of histograms: at least and at most"""
FORMATS = ("pdf", "png", "svg")
# From here on a linear axis shows one bar and a tail.
LONG_TAIL = 8

STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "legend.fontsize": SMALL,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.2,
    "legend.frameon": False,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "figure.dpi": 150,
}

NOTES = "notes"
"""marks texts under a panel"""
WHERE = ("backend", "interactive", "toolbar", "webagg", "savefig")
"""beginnings of settings that do not say what is drawn"""


class NothingToShow(ValueError):
    """The runs have nothing of what a figure or table shows; the sentence says what is missing."""


def drawn(function: Callable[P, Figure]) -> Callable[P, Figure]:
    """Decorate a figure function: it draws in the style of all figures, whatever the caller's settings.

    Where matplotlib is missing an error says so in one sentence.

    Args:
        function: returns a ``matplotlib.figure.Figure``.

    Returns:
        The same function, in the common style.
    """

    @wraps(function)
    def styled(*args: P.args, **kwargs: P.kwargs) -> Figure:
        try:
            import matplotlib
        except ImportError as error:
            raise ImportError(
                "figures: matplotlib is not installed; get it by pip install 'pwcf[plots]'", name="matplotlib"
            ) from error
        # Whatever a notebook has set, the same figure; how and where it is shown remains the notebook's affair.
        usual: dict[Any, Any] = {
            name: value for name, value in matplotlib.rcParamsDefault.items() if not name.startswith(WHERE)
        }
        with matplotlib.rc_context({**usual, **STYLE}):
            figure = function(*args, **kwargs)
            _make_room(figure)
            return figure

    return styled


def _make_room(figure: Figure) -> None:
    """Panels keep their size, however many notes and names stand below them: the figure grows."""
    lines: dict[int, int] = {}
    for axis in figure.axes:
        place = axis.get_subplotspec()
        for text in axis.texts:
            if text.get_gid() == NOTES and place is not None:
                row = place.rowspan.start
                lines[row] = max(lines.get(row, 0), 1 + text.get_text().count("\n"))
    names = [len(legend.get_texts()) / legend._ncols for legend in figure.legends]  # type: ignore[attr-defined]
    more = 0.125 * sum(lines.values()) + 0.16 * sum(math.ceil(rows) for rows in names)
    figure.set_figheight(figure.get_figheight() + more)


def sheet(rows: int, columns: int, width: float | None = None, height: float = ROW) -> tuple[Figure, list[list[Axes]]]:
    """A figure with panels; one panel takes a column of the page, more take its width."""
    from matplotlib.figure import Figure

    wide = width if width is not None else COLUMN if columns == 1 else PAGE
    figure = Figure(figsize=(wide, height * rows), layout="constrained")
    # A little air between panels whose notes differ in length.
    figure.get_layout_engine().set(w_pad=0.05, h_pad=0.05)  # type: ignore[union-attr, call-arg]
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis in axes.flat:
        axis.grid(True)
    return figure, [list(row) for row in axes]


def panels(count: int, abreast: int = ABREAST, height: float = ROW) -> tuple[Figure, list[Axes]]:
    """A figure with ``count`` panels in rows, as even as possible; places that are left over are empty."""
    rows = math.ceil(count / abreast)
    columns = math.ceil(count / rows)
    figure, axes = sheet(rows, columns, height=height)
    listed = [axis for row in axes for axis in row]
    for axis in listed[count:]:
        axis.set_visible(False)
    return figure, listed[:count]


def legend_below(figure: Figure, handles: Sequence[Any], labels: Sequence[str]) -> None:
    """Draw one legend for all panels, under them, with as many columns as the longest name allows."""
    if len(labels) < 1:
        return
    # About 14 letters of 7 points an inch, and room for the line before them.
    letters = 14 * figure.get_figwidth()
    longest = max(len(re.sub(r"\$.*?\$", "lp", label)) for label in labels)
    columns = max(1, min(len(labels), int(letters // (longest + 6))))
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, handlelength=2.2, columnspacing=1.4)


def line_handle(style: PlotStyle, marker: bool = False, line: bool = True) -> Any:
    from matplotlib.lines import Line2D

    return Line2D(
        [], [], color=style.colour, linestyle=style.line if line else "none", linewidth=style.width,
        marker=style.marker if marker else None, markersize=4,
    )  # fmt: skip


def notes_below(axis: Axes, label: str, notes: Sequence[str]) -> None:
    """The label of the x axis, and under it in small grey type what numbers a reader needs beside the picture."""
    axis.set_xlabel(label)
    if not notes:
        return
    figure = axis.get_figure(root=True)
    assert figure is not None
    columns = axis.get_subplotspec().get_gridspec().ncols  # type: ignore[union-attr]
    letters = int(15.5 * (figure.get_figwidth() / columns - 0.35))
    lines = [line for note in notes for line in textwrap.wrap(note, letters, subsequent_indent="  ")]
    # Hung on the label, wherever the ticks end.
    axis.annotate(
        "\n".join(lines), (0.5, 0), xycoords=axis.xaxis.label, xytext=(0, -2), textcoords="offset points",
        ha="center", va="top", fontsize=SMALL, color=GREY, annotation_clip=False, gid=NOTES,
    )  # fmt: skip


NORM = re.compile(r"(^|· )l(inf|\d+(?:\.\d+)?)(?= · | ≤ |, targeted|,?$)")


def plain(text: str, longest: int = 44) -> str:
    """A name for text in which dollars begin formulas: norms as mathematicians write them, the rest as it is.

    The middle of a very long one is left out.
    """
    if len(text) > longest:
        half = (longest - 1) // 2
        text = f"{text[:half]}…{text[-half:]}"
    return NORM.sub(_norm, text.replace("$", r"\$"))


def in_lines(name: str, longest: int) -> str:
    """A long name in lines, parted where its parts meet; only a part that is too long by itself is shortened."""
    lines = [""]
    for part in re.findall(r".+?(?: · |, |$)", name):
        if lines[-1] and len((lines[-1] + part).rstrip(" ·")) > longest:
            lines.append("")
        lines[-1] += part
    return "\n".join(plain(line.rstrip(" ·"), longest + 3) for line in lines)


def _norm(found: re.Match[str]) -> str:
    return found[1] + (r"$\ell_\infty$" if found[2] == "inf" else rf"$\ell_{{{found[2]}}}$")


def metric_label(name: str) -> str:
    """Name of a metric in a figure: l2 as mathematicians write it, others as they are."""
    return plain(name)


def min_radius_runs(runs: Mapping[str, Run], what: str) -> dict[str, Run]:
    """The min-radius runs among these; ``NothingToShow`` where there is none."""
    if not runs:
        raise NothingToShow(f"{what}: expected runs, found none")
    chosen = {name: run for name, run in runs.items() if isinstance(run.problem, MinRadius)}
    if not chosen:
        raise NothingToShow(f"{what}: expected a run of min-radius, found only max-loss, whose distances are no radii")
    return chosen


def numbers(values: Tensor) -> numpy.ndarray[Any, Any]:
    """A tensor (...) as a float64 array, for matplotlib."""
    return values.detach().cpu().double().numpy()


def long_tailed(values: Tensor) -> bool:
    """Whether values are positive and so uneven that only a logarithmic axis shows them all."""
    return len(values) > 1 and float(values.min()) > 0 and float(values.max()) > LONG_TAIL * float(values.median())


def bins_for(samples: int) -> int:
    """Number of bins of a histogram: twice the root of the number of samples, within ``BINS``."""
    return int(min(max(BINS[0], 2 * math.sqrt(samples)), BINS[1]))


def edges_of(values: Tensor, bins: int = BINS[1], logarithmic: bool = False) -> list[float]:
    """Edges of the bins that all histograms of one figure share."""
    low, high = float(values.min()), float(values.max())
    if logarithmic:
        edges = torch.logspace(math.log10(low), math.log10(high), bins + 1, dtype=torch.float64)
        edges[0], edges[-1] = low, high  # rounding must not lose the ends
        return [float(edge) for edge in edges]
    if high <= low:  # one value: one bar around it
        room = abs(low) / 2 or 0.5
        low, high = low - room, high + room
    return [float(edge) for edge in torch.linspace(low, high, bins + 1, dtype=torch.float64)]


def save(figure: Figure, path: str | os.PathLike[str]) -> Path:
    """Write a figure as PDF, PNG or SVG, by the ending of the name.

    The file is written whole or not at all, text stays text, and the same figure gives the same bytes.

    Args:
        figure: any of matplotlib's.
        path: ends in .pdf, .png (300 dpi) or .svg; its folder is made if it is not there.

    Returns:
        The path.
    """
    import matplotlib

    path = Path(path)
    kind = path.suffix.lstrip(".").lower()
    if kind not in FORMATS:
        raise ValueError(f"{path}: expected a name that ends in {', '.join(FORMATS)}")
    dates = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}
    # Type 42: journals refuse type 3 fonts.
    settings: dict[Any, Any] = {"pdf.fonttype": 42, "svg.fonttype": "none", "svg.hashsalt": "pwcf"}
    path.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(settings):
        write_whole(
            path,
            lambda place: figure.savefig(place, format=kind, dpi=300, metadata=dates.get(kind, {})),
        )
    return path
