"""The cells of a benchmark worked on one after the other. A cell that cannot be done does not stop the others."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pwcf.bench.grid import Cell
from pwcf.data import DataError
from pwcf.models.loading import ModelError
from pwcf.runs.execution import Listener, execute, prepare
from pwcf.runs.folder import RunFolder
from pwcf.runs.resolve import Loader, UnsupportedError
from pwcf.runs.settings import RunError, Settings
from pwcf.runs.summary import RunSummary

# What fails a cell. Where nothing can be written, on a full disk, the others would fail as well: that ends them all.
FAILURES = (RunError, DataError, ModelError)
State = Literal["measured", "kept", "skipped", "failed"]


@dataclass(frozen=True)
class Outcome:
    """What became of a cell."""

    cell: Cell
    path: Path
    state: State
    """measured now; kept, for it was complete; skipped, for the attack does not support the question; failed"""
    summary: RunSummary | None = None
    reason: str = ""
    """why it was skipped or failed"""


def run_cells(
    cells: Sequence[Cell], out: str | os.PathLike[str], listeners: Callable[[Settings], Sequence[Listener]]
) -> Iterator[Outcome]:
    """Work on what is left of every cell, in order; model and data are opened once for each network.

    Args:
        cells: of ``make_cells``.
        out: the benchmark's folder.
        listeners: who hears of a run with these settings.
    """
    loader = Loader()
    broken: dict[str, str] = {}
    """networks that cannot be loaded, and why"""
    for cell in cells:
        path = Path(out) / cell.folder
        if cell.net in broken:
            yield Outcome(cell, path, "failed", reason=broken[cell.net])
            continue
        settings, complete, before = cell.settings(out), RunFolder(path).complete, _rows(path)
        try:
            loader.model(settings)
            loader.source(settings)
        except FAILURES as error:
            broken[cell.net] = str(error)
            yield Outcome(cell, path, "failed", reason=str(error))
            continue
        try:
            prepared = prepare(settings, {**cell.asked, "out": settings.out}, loader)
            summary = execute(prepared, listeners(prepared.settings))
        except UnsupportedError as error:
            yield Outcome(cell, path, "skipped", reason=str(error))
        except FAILURES as error:
            yield Outcome(cell, path, "failed", reason=str(error))
        else:
            # A complete cell with a damaged file is worked on again: its rows are then other files.
            kept = complete and before == _rows(path)
            yield Outcome(cell, path, "kept" if kept else "measured", summary)


def _rows(path: Path) -> list[tuple[str, int]]:
    """The files of a run's rows, each with when it was written."""
    return sorted((each.name, each.stat().st_mtime_ns) for each in path.glob("rows-*"))
