"""Write all figures, and all tables too, that runs have something for into a folder: ``pwcf figure all``."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from pwcf._common.errors import UserError
from pwcf.analysis import RunsLike, gather
from pwcf.analysis.masks import needs_recording
from pwcf.report.figures import NothingToShow, save
from pwcf.report.registry import FIGURES, TABLES, Choices
from pwcf.runs import RecordedRun


@dataclass(frozen=True)
class WrittenFiles:
    """What was written, and what was not."""

    files: list[Path]
    left_out: dict[str, str]
    """kinds for which there was nothing, with the reason"""


def write_figures(
    runs: RunsLike,
    folder: str | os.PathLike[str],
    choices: Choices | None = None,
    *,
    search_again: bool = False,
) -> WrittenFiles:
    """Write every kind of figure as PDF and PNG, and every kind of table as LaTeX and Markdown.

    Args:
        runs: in memory, loaded, or paths of folders, by name or listed; figures that compare samples are drawn for
            each model on its own.
        folder: made if it is not there; files of the same names are replaced.
        choices: eps, sample and so on.
        search_again: also what needs searches done once more, which takes as long as they took.

    Returns:
        The files that were written, and for each kind that was left out the reason.
    """
    choices = choices or Choices()
    place = Path(folder)
    files: list[Path] = []
    left_out: dict[str, str] = {}
    named = _recorded(runs)
    for name, kind in FIGURES.items():
        if kind.searches and not search_again:
            left_out[f"figure {name}"] = "it searches again; ask for it by itself"
            continue
        parts = kind.groups(named)
        if not parts:
            left_out[f"figure {name}"] = "no runs that belong together"
        for part, members in parts.items():
            try:
                figure = kind.draw(members, choices)
            except (NothingToShow, UserError) as reason:
                left_out[f"figure {_file(name, part)}"] = str(reason)
                continue
            files += [save(figure, place / f"{_file(name, part)}.{ending}") for ending in ("pdf", "png")]
    for name, table_kind in TABLES.items():
        parts = table_kind.groups(named)
        if not parts:
            left_out[f"table {name}"] = "no runs that belong together"
        for part, members in parts.items():
            try:
                table = table_kind.make(members, choices)
            except NothingToShow as reason:
                left_out[f"table {_file(name, part)}"] = str(reason)
                continue
            stem = place / f"table-{_file(name, part)}"
            files += [table.save(stem.with_name(f"{stem.name}.{ending}")) for ending in ("tex", "md")]
    return WrittenFiles(files, left_out)


def _recorded(runs: RunsLike) -> dict[str, RecordedRun]:
    return {name: needs_recording(run, "write_figures") for name, run in gather(runs).items()}


def _file(name: str, part: str) -> str:
    """A name that every system takes."""
    return re.sub(r"[^\w.+-]+", "_", f"{name}-{part}" if part else name)
