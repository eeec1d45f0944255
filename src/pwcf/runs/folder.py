"""A run's folder: header.json, rows-A-B.parquet, tensors-A[-R].safetensors, result.json at the end, and a lock.

Shard A is the A-th chunk of samples. Its tensors are written first: rows that exist have their tensors. Many small
files of rows are merged into one of shards A to B, which counts from the moment it appears; the small ones are then
covered by it, whether they could still be removed or not.

Where a run is continued, a shard whose samples are searched again gets tensors of a new revision R, then rows that name
it. What was there counts until these rows appear: a kill leaves the old rows with the old tensors, or the new with the
new.

Every file holds its own SHA-256 (``_common/seal.py``), so that what has changed since it was written is not believed.
Files of rows say which run and which shards they are of, and each row the digest of the file that has its point: an
intact file of another run, or of another shard, is not believed either.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pwcf._common import atomic, seal
from pwcf._common.files import read_file
from pwcf._common.status import Status
from pwcf._common.text import brief, first_line
from pwcf.runs.settings import RunError

if TYPE_CHECKING:
    import pyarrow

HEADER, RESULT, LOCK = "header.json", "result.json", "lock"
# Known here as find_runs gives the runs of a benchmark in the order of its grid, not in that of their names.
GRID = "grid.json"
"""in the folder of a benchmark: which runs it has, in their order"""
# From this schema of the header on, a file of a run without a seal is damaged.
SEALED = 2
# From this schema on, rows say what they are of.
NAMED = 3
POINTS = "points"
"""the column of rows that has the digest of the file with their points"""
# Columns that rows of every version have, without gaps; and what the columns hold, numbers but for these.
_NEEDED = ("index", "label", "adversarial", "radius", "status", "attack", "image")
_TEXTS = ("status", "attack", "image", "warnings", POINTS)
_INTEGERS = ("index", "label", "revision", "budget")
_OF = "of"
"""under which a file of rows has its run and shards"""
# Of the SHA-256 of a file of points, and of a file of tensors in which that stands.
_DIGITS, _HEAD = 16, 4096
_ROWS = re.compile(r"rows-(\d+)-(\d+)\.parquet")
_TENSORS = re.compile(r"tensors-\d+(-\d+)?\.safetensors")
# Shards whose rows are merged into one file: reading thousands of small ones takes seconds.
MERGED = 256
# How often a folder that is being worked in is looked at again for files that were merged meanwhile.
READS = 20


@dataclass(frozen=True)
class RowsFile:
    """Rows of shards ``first`` to ``last``."""

    path: Path
    first: int
    last: int

    def covers(self, other: RowsFile) -> bool:
        return self.first <= other.first and other.last <= self.last and self.path != other.path


class RunFolder:
    """The files of one run."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    @property
    def exists(self) -> bool:
        return (self.path / HEADER).exists()

    @property
    def sealed(self) -> bool:
        """Whether a file of rows or tensors without a seal is damaged: older versions wrote none."""
        return _schema(self._header()) >= SEALED

    @property
    def complete(self) -> bool:
        """Whether all samples of the run are there."""
        return (self.path / RESULT).exists()

    def tidy(self) -> None:
        """Remove what a process left half written when it died. Only for who holds the lock."""
        for path in self.path.glob(".*.partial"):
            name = atomic.unfinished(path)
            if name is not None and (name in (HEADER, RESULT) or _ROWS.fullmatch(name) or _TENSORS.fullmatch(name)):
                path.unlink(missing_ok=True)

    def create(self, header: dict[str, Any]) -> None:
        write_json(self.path / HEADER, header)

    def unfinish(self) -> None:
        """There is more to do."""
        (self.path / RESULT).unlink(missing_ok=True)

    def finish(self, figures: dict[str, Any]) -> None:
        """Counts and times of a run that is complete. They follow from the rows: this is for those who look."""
        write_json(self.path / RESULT, figures)

    def header(self) -> dict[str, Any]:
        """The content of header.json."""
        path = self.path / HEADER
        if not path.exists():
            many = "; it is the folder of a benchmark: name one of its runs" if (self.path / GRID).exists() else ""
            raise RunError(f"{self.path}: no run there (no {HEADER}){many}")
        return read_json(path)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """For one process at a time. The system takes the lock back from a process that dies."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            # No link is followed: what it points to would be overwritten.
            handle = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
        except OSError as error:
            raise RunError(f"{self.path}: cannot be written to ({error.strerror}); choose another --out") from error
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise RunError(f"{self.path / LOCK}: expected a file, found another kind; remove it")
            _lock(handle, self.path)
            os.truncate(handle, 0)
            os.pwrite(handle, str(os.getpid()).encode(), 0)
            yield
        except OSError as error:
            raise RunError(f"{self.path}: {error.strerror or error}") from error
        finally:
            os.close(handle)

    def rows_files(self) -> list[RowsFile]:
        """In the order of their samples, without what is covered by others."""
        return self._sorted_files()[0]

    def _sorted_files(self) -> tuple[list[RowsFile], list[RowsFile]]:
        """Files that count, and files that are covered by others."""
        found = []
        for path in self.path.glob("rows-*.parquet"):
            if match := _ROWS.fullmatch(path.name):
                found.append(RowsFile(path, int(match[1]), int(match[2])))
        found.sort(key=lambda each: (each.first, -each.last))
        kept: list[RowsFile] = []
        covered: list[RowsFile] = []
        for each in found:
            (covered if kept and kept[-1].covers(each) else kept).append(each)
        return kept, covered

    def tensors_file(self, number: int, revision: int = 0) -> Path:
        return self.path / f"tensors-{number:06d}{f'-{revision}' if revision else ''}.safetensors"

    def done(self) -> set[int]:
        """Shards whose rows are there."""
        return {number for each in self.rows_files() for number in range(each.first, each.last + 1)}

    def drop(self, number: int, size: int) -> None:
        """Forget the rows of a shard, of ``size`` samples each, for it is to be worked on again."""
        self.separate(number, size)
        self._rows_file(number, number).unlink(missing_ok=True)

    def separate(self, number: int, size: int) -> None:
        """Give the rows of a shard, of ``size`` samples each, a file of their own, so that they can be replaced."""
        import pyarrow

        for each in self.rows_files():
            if each.first <= number <= each.last and each.first < each.last:
                rows = self.read_rows(each.path)
                # By their samples: a shard whose samples were limited has fewer rows until it is continued.
                shards = rows["index"].to_numpy() // size
                parts = [(each.first, number - 1), (number, number), (number + 1, each.last)]
                # All of them are covered by the file until that is gone.
                for first, last in parts:
                    if first <= last:
                        self.write_rows(first, last, rows.filter(pyarrow.array((shards >= first) & (shards <= last))))
                each.path.unlink()

    def _rows_file(self, first: int, last: int) -> Path:
        return self.path / f"rows-{first:06d}-{last:06d}.parquet"

    def write_rows(self, first: int, last: int, table: pyarrow.Table) -> None:
        content = rows_as_bytes(table, _of(self._header(), first, last))
        atomic.write(self._rows_file(first, last), lambda place: place.write_bytes(content))

    def read_rows(self, path: Path, columns: list[str] | None = None) -> pyarrow.Table:
        """One file of rows.

        Raises:
            FileNotFoundError: it is not there.
            RunError: it is not as it was written.
        """
        import pyarrow
        import pyarrow.parquet

        content = self.read_intact(path, at_end=True)
        try:
            with pyarrow.parquet.ParquetFile(pyarrow.BufferReader(content), page_checksum_verification=True) as file:
                _check_kinds(path, file.schema_arrow)
                names = [name for name in (*_NEEDED, "revision", POINTS) if name in file.schema_arrow.names]
                checked = file.read(names)
                _check_values(path, checked)
                self._check_origin(path, file.schema_arrow.metadata or {}, checked)
                return file.read(columns).replace_schema_metadata(None)
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            raise RunError(damaged(path, first_line(error))) from error

    def _check_origin(self, path: Path, marks: dict[bytes, bytes], rows: pyarrow.Table) -> None:
        """Raise a RunError where rows are of another run or shard than their file's place, or their points are."""
        import pyarrow.compute

        header, match = self._header(), _ROWS.fullmatch(path.name)
        of, newer = marks.get(_OF.encode()), _schema(header) >= NAMED
        if match and (of != _of(header, int(match[1]), int(match[2])).encode() if of else newer):
            raise RunError(damaged(path, "its rows are of another run, or of other samples than its name says"))
        if POINTS not in rows.column_names or rows[POINTS].null_count:
            if newer:
                raise RunError(damaged(path, "its rows do not say which file has their points"))
            if POINTS not in rows.column_names:
                return
        shards = pyarrow.compute.divide(rows["index"], header["settings"]["chunk"])
        files = rows.append_column("shard", shards).group_by("shard")
        for each in files.aggregate([("revision", "max"), (POINTS, "min"), (POINTS, "max")]).to_pylist():
            named = each[f"{POINTS}_min"]
            if named is None:
                continue
            if named != each[f"{POINTS}_max"]:
                raise RunError(damaged(path, f"rows of shard {each['shard']} name several files of points"))
            points = self.tensors_file(each["shard"], each["revision_max"])
            try:
                found = points_digest(read_file(points, _HEAD))
            except FileNotFoundError:
                continue  # replaced just now, or gone: who reads points says so
            if named != found:
                reason = "its SHA-256 is missing" if found is None else "its points are not those of the rows"
                raise RunError(damaged(points, reason))

    def _header(self) -> dict[str, Any]:
        """The content of header.json; empty where there is none yet."""
        return read_json(self.path / HEADER) if self.exists else {}

    def read_intact(self, path: Path, *, at_end: bool = False) -> bytes:
        """The content of a file of rows or tensors, which is as it was written; ``at_end``: see ``_common/seal.py``."""
        content = read_file(path)
        intact = seal.is_intact(content, at_end=at_end)
        if intact is False:
            raise RunError(damaged(path, "its content does not match its own SHA-256"))
        if intact is None and self.sealed:
            raise RunError(damaged(path, "its SHA-256 is missing"))
        return content

    def rows(self, columns: list[str] | None = None) -> pyarrow.Table:
        """Of all shards that are there, in the order of their samples."""
        import pyarrow

        for _ in range(READS):
            files = self.rows_files()
            if not files:
                raise RunError(f"{self.path}: the run has no finished samples yet; run its command again")
            try:
                parts = [self.read_rows(each.path, columns) for each in files]
            except FileNotFoundError:  # merged just now, by the process at work there
                continue
            return pyarrow.concat_tables(parts, promote_options="default")
        raise RunError(f"{self.path}: files of rows come and go too fast to be read; try again")

    def merge(self) -> None:
        """Neighbouring small files into one."""
        import pyarrow

        for each in self._sorted_files()[1]:
            each.path.unlink(missing_ok=True)
        group: list[RowsFile] = []
        for following in (*self.rows_files(), None):
            if following is not None and (not group or _joins(group, following)):
                group.append(following)
                continue
            if len(group) > 1:
                table = pyarrow.concat_tables([self.read_rows(one.path) for one in group], promote_options="default")
                self.write_rows(group[0].first, group[-1].last, table)
                for one in group:
                    one.path.unlink(missing_ok=True)
            group = [following] if following is not None else []


def find_runs(path: str | os.PathLike[str]) -> list[Path]:
    """The run folders that a path stands for.

    Args:
        path: the folder of a run, of a benchmark (``grid.json``), or any folder that has runs somewhere in it.

    Returns:
        That folder itself, or the runs in it that have begun: of a benchmark in the order of its grid.

    Raises:
        RunError: there is no run.
    """
    folder = Path(path)
    if (folder / HEADER).exists():
        return [folder]
    if (folder / GRID).exists():
        found = [folder / name for name in read_grid(folder)["cells"]]
    else:
        found = sorted(each.parent for each in folder.rglob(HEADER)) if folder.is_dir() else []
    if begun := [each for each in found if RunFolder(each).rows_files()]:
        return begun
    raise RunError(f"{folder}: no run there (no {HEADER})")


def read_grid(folder: Path) -> dict[str, Any]:
    """Which runs a benchmark has, and of which networks: all inside its folder."""
    grid = {"nets": {}, "cells": {}, **read_json(folder / GRID)}
    for name in ("nets", "cells"):
        if not isinstance(grid[name], dict) or not all(isinstance(each, dict) for each in grid[name].values()):
            raise RunError(f"{folder / GRID}: damaged ({name}: expected objects); restore it, or choose another --out")
    for cell in map(Path, grid["cells"]):
        if cell.is_absolute() or ".." in cell.parts:
            raise RunError(f"{folder / GRID}: expected runs inside its folder, found {brief(str(cell))}; take it out")
    return grid


def check_unused(place: Path, mark: str, kind: str) -> None:
    """Raise a RunError where a folder holds somebody's other files: files, but not ``mark``.

    Args:
        place: the folder, which need not be there.
        mark: the file by which a folder of this kind is known.
        kind: "run" or "benchmark".
    """
    if not place.is_dir() or (place / mark).exists():
        return
    names = sorted(path.name for path in place.iterdir() if path.name != LOCK and not path.name.endswith(".partial"))
    if names:
        raise RunError(
            f"{place}: expected an empty folder or an earlier {kind}, found {', '.join(names[:3])}; "
            "choose another --out"
        )


def read_json(path: Path) -> dict[str, Any]:
    """A file that holds one JSON object."""
    restore = "restore it, or remove the folder and start anew"
    try:
        content = read_file(path)
        read = json.loads(content.decode("utf-8"))
    except (FileNotFoundError, ValueError, RecursionError) as error:
        raise RunError(f"{path}: cannot be read as JSON ({first_line(error)}); {restore}") from None
    if not isinstance(read, dict):
        raise RunError(f"{path}: expected a JSON object, found {type(read).__name__}; {restore}")
    intact = seal.is_intact(content) if seal.NAME in read else None
    if intact is False or (intact is None and _schema(read) >= SEALED):
        raise RunError(f"{path}: damaged or edited (its content does not match its own SHA-256); {restore}")
    return read


def write_json(path: Path, content: dict[str, Any]) -> None:
    """The file appears whole or not at all, with a seal."""
    text = json.dumps({seal.NAME: seal.UNSEALED, **content}, indent=1, allow_nan=False) + "\n"
    sealed = seal.seal(text.encode())
    atomic.write(path, lambda place: place.write_bytes(sealed))


def _schema(content: dict[str, Any]) -> int:
    schema = content.get("schema")
    return schema if isinstance(schema, int) else 0


def _check_kinds(path: Path, schema: pyarrow.Schema) -> None:
    """Raise a RunError where a column that everybody reads is missing, or one has values of another kind."""
    from pyarrow import types

    for name in (each for each in _NEEDED if each not in schema.names):
        raise RunError(damaged(path, f"it has no column {name!r}"))
    for each in schema:
        is_text = types.is_string(each.type) or types.is_large_string(each.type)
        fits = {
            "text": is_text,
            "integers": types.is_integer(each.type),
            "numbers": types.is_integer(each.type) or types.is_floating(each.type) or types.is_boolean(each.type),
        }
        kind = "text" if each.name in _TEXTS else "integers" if each.name in _INTEGERS else "numbers"
        if not fits[kind]:
            raise RunError(damaged(path, f"column {each.name!r}: expected {kind}, found {each.type}"))


def _check_values(path: Path, rows: pyarrow.Table) -> None:
    """Raise a RunError where rows say what no search does."""
    for name in _NEEDED:
        if rows[name].null_count:
            raise RunError(damaged(path, f"column {name!r}: {rows[name].null_count} values are missing"))
    index = rows["index"].to_numpy()
    if not len(index) or index[0] < 0 or (index[1:] <= index[:-1]).any():
        raise RunError(damaged(path, "its samples are not numbered upwards"))
    if unknown := set(rows["status"].unique().to_pylist()) - {each.value for each in Status}:
        raise RunError(damaged(path, f"column 'status': found {brief(min(unknown))}, which no search says"))
    if (rows["radius"].to_numpy() < 0).any():
        raise RunError(damaged(path, "column 'radius': found a negative one"))


def _of(header: dict[str, Any], first: int, last: int) -> str:
    """What a file of rows is of: its run, and its shards."""
    return f"{header.get('run', '')} {first}-{last}"


def points_digest(content: bytes) -> str | None:
    """The digits by which rows name a file of points; None if it has no seal.

    Args:
        content: the file, or its beginning.
    """
    digits = seal.digits_of(content)
    return None if digits is None else digits[:_DIGITS]


def rows_as_bytes(table: pyarrow.Table, of: str) -> bytes:
    """The file of some rows, with what they are of, a seal and checksums of its pages."""
    import pyarrow
    import pyarrow.parquet

    stream = pyarrow.BufferOutputStream()
    marked = table.replace_schema_metadata({_OF: of, seal.NAME: seal.UNSEALED})
    pyarrow.parquet.write_table(marked, stream, write_page_checksum=True)
    return seal.seal(stream.getvalue().to_pybytes(), at_end=True)


def damaged(path: Path, reason: str) -> str:
    """The sentence about a file of rows or tensors that cannot be used."""
    return f"{path}: damaged ({reason}); remove this file and run the same command again: its samples are redone"


def _joins(group: list[RowsFile], following: RowsFile) -> bool:
    """Whether it is the next one, and all together are not too many to be held at once."""
    return following.first == group[-1].last + 1 and following.last - group[0].first < MERGED


def _lock(handle: int, path: Path) -> None:
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        owner = os.pread(handle, 32, 0).decode(errors="replace") or "unknown"
        raise RunError(
            f"{path}: another process (number {owner}) works in this folder; wait for it, or choose another --out"
        ) from None
