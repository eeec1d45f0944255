"""What one sees of a run while it works: a line on a terminal, curves in TensorBoard."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from pwcf._common import statistics
from pwcf._common.wording import share_text
from pwcf.runs import Listener, RunError, RunFolder, Settings
from pwcf.runs.header import Header
from pwcf.runs.shard import Shard
from pwcf.runs.summary import question_of


def listeners(settings: Settings, quiet: bool) -> list[Listener]:
    """A progress line where somebody looks at one; a tracker where one was asked for."""
    heard: list[Listener] = []
    if sys.stderr.isatty() and not quiet:
        heard.append(Line())
    if settings.tracker == "tensorboard":
        heard.append(TensorBoard())
    return heard


WIDE = 140
"""columns that a terminal needs for the whole line"""
TALLIED = ("status", "adversarial", "radius", "forward", "backward")
"""columns of a shard that the statistics need, beside index"""


class Tally:
    """The statistics so far, of all samples that are recorded."""

    def __init__(self) -> None:
        self.columns: dict[str, list[Any]] = {name: [] for name in TALLIED}
        self._places: dict[int, int] = {}

    def add(self, columns: Mapping[str, Any]) -> None:
        """Samples that are new, or were searched again: these take the place of what was known of them."""
        added = {name: np.asarray(columns[name]).tolist() for name in TALLIED}
        for i, index in enumerate(np.asarray(columns["index"]).tolist()):
            place = self._places.setdefault(index, len(self._places))
            for name, values in self.columns.items():
                if place == len(values):
                    values.append(added[name][i])
                else:
                    values[place] = added[name][i]

    @property
    def samples(self) -> int:
        return len(self.columns["status"])

    @property
    def attacked(self) -> int:
        return int(statistics.attacked(self.columns["status"]).sum())

    @property
    def found(self) -> int:
        return int(statistics.found(self.columns["status"], self.columns["adversarial"]).sum())

    @property
    def converged(self) -> int:
        return int(statistics.converged(self.columns["status"]).sum())

    @property
    def passes(self) -> float:
        """Mean of attacked samples; 0 while there is none."""
        if not self.attacked:
            return 0.0
        passes = np.asarray(self.columns["forward"]) + np.asarray(self.columns["backward"])
        return statistics.mean_passes(self.columns["status"], passes)

    def figure(self, max_loss: bool) -> tuple[str, float]:
        """Robust accuracy so far, or the mean radius; 0 while there is none."""
        status, adversarial = self.columns["status"], self.columns["adversarial"]
        if max_loss:
            return "robust accuracy", statistics.robust_accuracy(status, adversarial) if self.samples else 1.0
        radius = np.asarray(self.columns["radius"])
        return "mean radius", statistics.mean_radius(status, adversarial, radius) if self.found else 0.0


class Line:
    """Samples, found, converged, the figure so far, passes a sample, time left."""

    def begin(self, header: Header, folder: RunFolder, todo: int) -> None:
        self.max_loss, self.tally = header.settings.eps is not None, _tally_of(folder)
        out = Console(stderr=True)
        wide = [TextColumn("{task.description}"), BarColumn()] if out.width >= WIDE else []
        times = [TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn()]
        figures = TextColumn("{task.fields[figures]}")
        self.bar = Progress(*wide, MofNCompleteColumn(), figures, *(times if wide else times[2:]), console=out)
        there, before = self.tally.samples, header.samples - todo
        if there:
            again = f", {there - before} of them are searched again" if there > before else ""
            self.bar.console.print(f"{there} of {header.samples} samples are there already{again}; going on")
        shown = self.figures() if there else ""
        self.task = self.bar.add_task(question_of(header), total=header.samples, completed=before, figures=shown)
        self.bar.start()

    def add(self, shard: Shard) -> None:
        self.tally.add(shard.columns)
        self.bar.update(self.task, advance=len(shard.columns["status"]), figures=self.figures())

    def end(self) -> None:
        self.bar.stop()

    def figures(self) -> str:
        """What the line says of the samples that are recorded. Max-loss has no converged searches."""
        name, value = self.tally.figure(self.max_loss)
        shown = share_text(value) if self.max_loss else f"{value:.4g}"
        converged = "" if self.max_loss else f"converged {self.tally.converged}, "
        found = f"found {self.tally.found}/{self.tally.attacked}"
        return f"{found}, {converged}{name} {shown}, {self.tally.passes:.0f} passes"


class TensorBoard:
    """Curves over samples, in OUT/tensorboard."""

    def begin(self, header: Header, folder: RunFolder, todo: int) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise RunError(f"tracker: tensorboard is missing: pip install 'pwcf[tensorboard]' ({error})") from error
        self.max_loss, self.tally = header.settings.eps is not None, _tally_of(folder)
        self.writer = SummaryWriter(str(folder.path / "tensorboard"))
        self.writer.add_text("question", question_of(header))

    def add(self, shard: Shard) -> None:
        self.tally.add(shard.columns)
        name, value = self.tally.figure(self.max_loss)
        step = self.tally.samples
        self.writer.add_scalar(name.replace(" ", "_"), value, step)
        self.writer.add_scalar("found", self.tally.found / max(self.tally.attacked, 1), step)
        if not self.max_loss:
            self.writer.add_scalar("converged", self.tally.converged / max(self.tally.attacked, 1), step)
        self.writer.add_scalar("passes", self.tally.passes, step)
        radius = np.asarray(shard.columns["radius"])
        if (finite := radius[np.isfinite(radius) & (radius > 0)]).size:
            self.writer.add_histogram("radius", finite, step)

    def end(self) -> None:
        self.writer.close()


def _tally_of(folder: RunFolder) -> Tally:
    """Of what a folder has already."""
    tally = Tally()
    if folder.rows_files():
        rows = folder.rows(["index", *TALLIED])
        tally.add({name: rows[name] for name in rows.column_names})
    return tally
