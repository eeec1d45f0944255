"""The cells of a benchmark, one after the other."""

from __future__ import annotations

import sys
import time
import traceback
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pwcf
from pwcf.attacks import AttackLike, CannotAnswer
from pwcf.cli.bench_lines import duration, outcome, shortened
from pwcf.cli.bench_zoo import Loaded, Zoo
from pwcf.cli.errors import CommandError
from pwcf.records import Cell, Header, Made, Record, RecordError, check_asked, read, record_of, write, write_text


@dataclass
class Work:
    """What is to be measured and what has been."""

    zoo: Zoo
    attacks: Mapping[str, AttackLike]
    cells: Sequence[Cell]
    out: Path
    images: int
    seed: int
    batch: int
    overwrite: bool
    done: dict[Cell, Record] = field(default_factory=dict)
    skipped: set[Cell] = field(default_factory=set)
    failures: dict[str, str] = field(default_factory=dict)
    failed: set[Cell] = field(default_factory=set)
    told: set[str] = field(default_factory=set)
    others: dict[Path, Record] = field(default_factory=dict)
    """cells in the folder that are not asked now, but come into the tables"""

    @property
    def nets(self) -> list[str]:
        return list(dict.fromkeys(cell.net for cell in self.cells))

    @property
    def left(self) -> list[Cell]:
        over = self.done.keys() | self.skipped | self.failed
        return [cell for cell in self.cells if cell not in over]

    def state(self) -> str:
        return f"{len(self.done)} of {len(self.cells) - len(self.skipped)} cells are complete in {self.out}"

    def begin(self) -> None:
        """See what there is already, before anything is measured: files that do not fit end the command."""
        planned = {cell.file_name: cell for cell in self.cells}
        for path in sorted(self._folder.glob("*.csv")):
            cell = planned.get(path.name)
            try:
                record = read(path)
                if cell is None:
                    self.others[path] = record
                else:
                    self._take(cell, record)
            except RecordError as error:
                if cell is None or not self.overwrite:
                    remedy = "choose another --out, or remove the file" + (
                        "" if cell is None else ", or say --overwrite"
                    )
                    raise CommandError(f"{error}; {remedy}") from None
                print(f"measured again: {error}", flush=True)
        if self.done:
            print(f"{self.state()}; {len(self.left)} left", flush=True)

    def go_on(self) -> None:
        """Measure what is left."""
        for net in self.nets:
            loaded = self._load(net) if self._left_of(net) else None
            if loaded is None:
                continue
            for cell in self._left_of(net):
                if not self._found_meanwhile(cell, loaded.data):
                    self._measure(cell, loaded)

    def end(self) -> int:
        """Say what failed; the exit code."""
        for place, reason in self.failures.items():
            print(f"failed: {place}: {reason}", file=sys.stderr)
        if self.failures:
            print(f"{self.state()}; details of failures are in {self.out / 'failures'}", file=sys.stderr)
        return 1 if self.failures else 0

    def _left_of(self, net: str) -> list[Cell]:
        return [cell for cell in self.left if cell.net == net]

    @property
    def _folder(self) -> Path:
        return self.out / "cells"

    def _take(self, cell: Cell, record: Record, data: str | None = None) -> None:
        place = str(self._folder / cell.file_name)
        if record.cell != cell:
            raise RecordError(f"{place}: its fields say that it is {record.cell}, its name that it is {cell}")
        check_asked(record, place, self.images, self.seed, data)
        self.done[cell] = record

    def _found_meanwhile(self, cell: Cell, data: str) -> bool:
        """Whether another process has measured it."""
        path = self._folder / cell.file_name
        if not path.exists():
            return False
        try:
            self._take(cell, read(path), data)
        except RecordError:
            return False  # as it was at the beginning: to be measured again
        return True

    def _load(self, net: str) -> Loaded | None:
        """The net, which must be what its finished cells are about."""
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                loaded = self.zoo.load(net, self.images)
            self._tell([str(warning.message) for warning in caught])
            self._check_data(net, loaded.data)
        except Exception as error:
            cells = self._left_of(net)
            self.failed.update(cells)
            self._fail(f"{net} ({len(cells)} cells)", f"net {net}", error)
            return None
        return loaded

    def _check_data(self, net: str, data: str) -> None:
        """Whether all that is known of a net is of this one; what is not is measured again, if that is allowed."""
        for path, other in self.others.items():
            if other.cell.net == net and (other.header.images, other.header.seed) == (self.images, self.seed):
                self._check_other(path, other, data)
        for cell, record in list(self.done.items()):
            if cell.net != net:
                continue
            try:
                self._take(cell, record, data)
            except RecordError as error:
                if not self.overwrite:
                    raise RecordError(f"{error}; choose another --out, or say --overwrite") from None
                print(f"measured again: {error}", flush=True)
                del self.done[cell]

    def _check_other(self, path: Path, other: Record, data: str) -> None:
        try:
            check_asked(other, str(path), self.images, self.seed, data)
        except RecordError as error:
            raise RecordError(f"{error}; choose another --out, or remove the file") from None

    def _measure(self, cell: Cell, loaded: Loaded) -> None:
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                record = self._record(cell, loaded, caught)
            path = write(record, self._folder)
        except CannotAnswer as error:
            self.skipped.add(cell)
            # Why, once for all budgets and questions with the same reason.
            self._tell([f"{cell.attack} skipped: {str(error).split(': ', 2)[-1]}"])
        except Exception as error:
            self._fail_cell(cell, error)
        else:
            self.done[cell] = record
            self._failure_file(path.stem).unlink(missing_ok=True)
            number = f"[{len(self.done)}/{len(self.cells) - len(self.skipped)}]"
            print(f"{number} {cell}: {outcome(record)}; {self._remaining()}", flush=True)
            for sentence in record.header.made.warnings:
                print(f"    warning: {shortened(sentence)}", flush=True)

    def _record(self, cell: Cell, loaded: Loaded, caught: list[warnings.WarningMessage]) -> Record:
        began, began_cpu = time.perf_counter(), time.process_time()
        run = pwcf.evaluate(
            loaded.model,
            loaded.images,
            loaded.labels,
            cell.problem,
            attacks=[self.attacks[cell.attack]],
            budget=cell.budget,
            seed=self.seed,
            batch=self.batch,
        )
        times = round(time.perf_counter() - began, 3), round(time.process_time() - began_cpu, 3)
        sentences = tuple(dict.fromkeys(str(warning.message) for warning in caught))
        text = "; ".join(part.about for part in run.contributions)
        made = Made.here(text, pwcf.__version__, self.batch, *times, sentences)
        return record_of(Header(cell, self.images, self.seed, loaded.data, made), run)

    def _fail_cell(self, cell: Cell, error: Exception) -> None:
        self.failed.add(cell)
        self._fail(str(cell), Path(cell.file_name).stem, error)

    def _fail(self, place: str, stem: str, error: Exception) -> None:
        self.failures[place] = f"{type(error).__name__}: {error}"
        print(f"{place} failed: {shortened(self.failures[place])}; the others go on", flush=True)
        write_text(self._failure_file(stem), "".join(traceback.format_exception(error)))

    def _failure_file(self, stem: str) -> Path:
        return self.out / "failures" / f"{stem.replace('/', '%2F')}.txt"

    def _tell(self, sentences: Sequence[str]) -> None:
        """Each once."""
        for sentence in sentences:
            if sentence not in self.told:
                self.told.add(sentence)
                print(shortened(sentence), flush=True)

    def _remaining(self) -> str:
        """How many cells are left and for how long, by what a pass took; the same attack's if that is known."""
        cells = self.left
        if not cells:
            return "none left"
        seconds = 0.0
        for cell in cells:
            same = [done for done in self.done if done.attack == cell.attack]
            like = [done for done in same if done.net == cell.net] or same or list(self.done)
            spent = sum(self.done[done].header.made.seconds for done in like)
            seconds += spent / sum(done.budget for done in like) * cell.budget
        return f"{len(cells)} left, about {duration(seconds)}"
