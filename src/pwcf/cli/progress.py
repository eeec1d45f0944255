"""What one sees of a run while it works: a bar on a terminal, lines in a log, curves in TensorBoard."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from pwcf._common import statistics
from pwcf._common.progress import under_way
from pwcf._common.wording import number_text, share_text
from pwcf.runs import Listener, RunError, RunFolder, Settings
from pwcf.runs.header import Header
from pwcf.runs.shard import Shard
from pwcf.runs.summary import question_of


def listeners(settings: Settings, quiet: bool) -> list[Listener]:
    """A bar on a terminal, a line now and then elsewhere; a tracker where one was asked for."""
    heard: list[Listener] = []
    if not quiet:
        heard.append(Bar() if sys.stderr.isatty() else Lines())
    if settings.tracker == "tensorboard":
        heard.append(TensorBoard())
    return heard


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


class Meter:
    """How far a run is: what is recorded, and of the samples under way how much of their cost is spent."""

    def __init__(self, header: Header, folder: RunFolder, todo: int) -> None:
        self.total, self.before = header.samples, header.samples - todo
        self.max_loss, self.tally = header.settings.eps is not None, _tally_of(folder)
        self.recorded, self.passes, self.done, self.began = 0, 0, 0.0, time.monotonic()
        self.question, there = question_of(header), self.tally.samples
        again = f", {there - self.before} of them are searched again" if there > self.before else ""
        self.opening = f"{there} of {self.total} samples are there already{again}; going on" if there and todo else ""

    def add(self, shard: Shard) -> None:
        """Samples that are recorded."""
        self.tally.add(shard.columns)
        self.recorded += len(shard.columns["status"])
        self.passes += int(np.asarray(shard.columns["forward"]).sum() + np.asarray(shard.columns["backward"]).sum())

    def look(self) -> None:
        """Look at what is under way."""
        self.elapsed = time.monotonic() - self.began
        evaluations = under_way()
        shares = [
            1.0 if finished else passes / self._cost(passes, each.budget)
            for each in evaluations
            for passes, finished in zip(each.passes, each.finished, strict=True)
        ]
        spent = [passes for each in evaluations for passes in each.passes]
        # Never less than before: what is answered and not yet recorded is under way no longer.
        self.done = min(max(self.done, self.recorded + sum(shares)), self.total - self.before)
        self.converged = self.tally.converged + sum(each.converged for each in evaluations)
        unit = "" if self.tally.samples else " passes"  # which the figures of recorded samples name
        self.working = f"{len(shares)} under way at {sum(spent) / len(spent):.0f}{unit}" if spent else ""

    def _cost(self, passes: int, budget: int) -> float:
        """Passes that a sample with so many may need: what those before it did; the first ones their budget.

        One that has spent about as much is likely to be hard, and to need a part of the rest of its budget.
        """
        mean = self.passes / self.recorded if self.recorded else budget
        return max(mean, passes + (budget - passes) / 4, 1.0)

    def times(self) -> str:
        """``0:31 elapsed, 1.2 samples/s, 0:53 left``; at most so long where no sample is recorded."""
        told = [f"{_clock(self.elapsed)} elapsed"]
        if self.done > 0 and self.elapsed > 0:
            rate = self.done / self.elapsed
            told.append(f"{rate:.1f} samples/s" if rate >= 1 else f"{1 / rate:.1f} s/sample")
            most = "" if self.recorded else "at most "
            told.append(f"{most}{_clock((self.total - self.before - self.done) / rate)} left")
        return ", ".join(told)

    def figures(self) -> str:
        """Of the samples that are recorded, and converged searches under way too. Max-loss has no converged ones."""
        told = []
        if self.tally.samples:
            name, value = self.tally.figure(self.max_loss)
            shown = share_text(value) if self.max_loss else number_text(value)
            told = [f"found {self.tally.found}/{self.tally.attacked}", f"{name} {shown}"]
            told.append(f"{self.tally.passes:.0f} passes")
        if not self.max_loss:
            told.insert(min(1, len(told)), f"converged {self.converged}")
        return "; ".join(filter(None, (", ".join(told), self.working)))


def _clock(seconds: float) -> str:
    """``0:31``, ``12:05`` or ``3:02:10``."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute}:{second:02d}"


class Bar:
    """Two lines on a terminal, made anew several times a second by a thread of their own."""

    def begin(self, header: Header, folder: RunFolder, todo: int) -> None:
        self.meter = Meter(header, folder, todo)
        out = Console(stderr=True, highlight=False)
        if self.meter.opening:
            out.print(self.meter.opening)
        self.live = Live(console=out, get_renderable=self._lines, refresh_per_second=4)
        self.live.start()

    def add(self, shard: Shard) -> None:
        self.meter.add(shard)
        self.live.refresh()

    def end(self) -> None:
        self.live.stop()

    def _lines(self) -> Group:
        self.meter.look()
        meter, line = self.meter, Table.grid(padding=(0, 1), expand=True)
        for ratio in (None, 1, None, None):
            line.add_column(ratio=ratio, no_wrap=True)
        bar = ProgressBar(meter.total, meter.before + meter.done)
        count = f"{meter.before + meter.recorded}/{meter.total}"
        line.add_row(Text(meter.question), bar, Text(count), Text(meter.times()))
        return Group(line, Text(meter.figures(), no_wrap=True, overflow="ellipsis"))


FIRST, MOST = 10.0, 300.0
"""seconds until the first line of a log, and between two at most"""


class Lines:
    """A plain line now and then, for logs and pipes: after ten seconds, then seldomer the longer a run works."""

    def begin(self, header: Header, folder: RunFolder, todo: int) -> None:
        self.meter, self._ended = Meter(header, folder, todo), threading.Event()
        if self.meter.opening:
            self._say(self.meter.opening)
        self._thread = threading.Thread(target=self._now_and_then, daemon=True)
        self._thread.start()

    def add(self, shard: Shard) -> None:
        self.meter.add(shard)

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def _now_and_then(self) -> None:
        while not self._ended.wait(min(max(FIRST, (time.monotonic() - self.meter.began) / 2), MOST)):
            self.meter.look()
            count = f"{self.meter.before + self.meter.recorded} of {self.meter.total} samples"
            self._say(f"{count}, {self.meter.times()}; {self.meter.figures()}")

    def _say(self, sentence: str) -> None:
        with contextlib.suppress(OSError):  # a log that nobody reads any longer
            print(f"pwcf: {sentence}", file=sys.stderr, flush=True)


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
