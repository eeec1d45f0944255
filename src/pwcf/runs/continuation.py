"""What is left to do in a run's folder, and how answers that are there and new ones become one record.

A run is continued with more samples or a larger budget. Samples that are not there are searched; with a larger budget
also those whose search neither converged nor found what was asked for. Of two answers to a sample the better one stays.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from pwcf._common import statistics
from pwcf.runs.folder import RunFolder
from pwcf.runs.header import Header
from pwcf.runs.settings import RunError
from pwcf.runs.shard import RecordedShard, Shard, check_tensors, read_tensors, recorded_shards
from pwcf.runs.summary import row_numbers

if TYPE_CHECKING:
    import pyarrow

# What two searches of a sample cost, they cost together.
_ADDED = ("forward", "backward", "metric_forward", "metric_backward", "seconds")
_ADDED_BY_ATTACK = ("passes:", "seconds:")
# What tells of the last search of a sample, whichever answer stays.
_OF_THE_LAST = ("budget", "revision", "warnings")
# What a search says of all points at about its radius, not of its own point alone.
_EVIDENCE = ("status", "gain", "agreement", "searches")


@dataclass(frozen=True)
class Todo:
    """Samples of one shard that are to be searched."""

    number: int
    revision: int
    """of the shard, once they are"""
    index: list[int]


def samples_to_search(folder: RunFolder, header: Header) -> list[Todo]:
    """What a run lacks, shard by shard; shards whose tensors are gone are worked on again. Files are checked.

    Raises:
        RunError: a file has other samples than its name says, or is damaged.
    """
    size = header.settings.chunk
    todo = {number: Todo(number, 0, _samples(header, number)) for number in range(header.chunks)}
    for each in folder.rows_files():
        rows = folder.read_rows(each.path, ["index", "status", "budget", "revision"])
        shards = list(recorded_shards(rows, size))
        if [shard.number for shard in shards] != list(range(each.first, each.last + 1)) or not all(
            _is_of_a_stage(header, shard) for shard in shards
        ):
            first, last = each.first * size, min((each.last + 1) * size, header.samples)
            raise RunError(
                f"{each.path}: expected samples {first} to {last - 1}, found others; remove this file and run the same "
                "command again: its samples are redone"
            )
        # Without a larger budget nothing is searched again.
        short = row_numbers(rows, "budget", header.first_budget) < header.budget
        again = statistics.unsettled(rows["status"].to_pylist()) & short
        unsettled = set(rows["index"].to_numpy()[again].tolist())
        for shard in shards:
            if not check_tensors(folder, shard):
                folder.drop(shard.number, size)  # it will have rows of its own again
                continue
            for revision in range(shard.revision):  # left by a process that died before it could remove them
                folder.tensors_file(shard.number, revision).unlink(missing_ok=True)
            there = set(shard.index) - unsettled
            left = [index for index in todo[shard.number].index if index not in there]
            todo[shard.number] = Todo(shard.number, shard.revision + 1, left)
    return [each for each in todo.values() if each.index]


def _samples(header: Header, number: int) -> list[int]:
    start = number * header.settings.chunk
    return list(range(start, min(start + header.settings.chunk, header.samples)))


def _is_of_a_stage(header: Header, shard: RecordedShard) -> bool:
    """Whether a shard has all its samples: those of the run, or those of one of its stages that had fewer."""
    whole = _samples(header, shard.number)
    counts = {header.samples, *(stage.samples for stage in header.earlier)}
    start = shard.number * header.settings.chunk
    return shard.index == whole[: len(shard.index)] and start + len(shard.index) in {
        min(start + header.settings.chunk, count) for count in counts
    }


def combine(folder: RunFolder, header: Header, new: Shard) -> tuple[Shard, Shard]:
    """Join what a shard has in the folder with a new evaluation of some of its samples.

    Rows and points of other samples stay as they are.

    Args:
        folder: of the run; the rows of the shard get a file of their own there.
        header: of the run.
        new: samples that the shard did not have, or that were searched again.

    Returns:
        The whole shard; and of it the samples of ``new`` alone.
    """
    import pyarrow

    size = header.settings.chunk
    folder.separate(new.number, size)
    (file,) = [each for each in folder.rows_files() if each.first <= new.number <= each.last]
    table, added = folder.read_rows(file.path), new.table()
    (recorded,) = recorded_shards(table, size)
    rows: dict[int, dict[str, Any]] = {row["index"]: row for row in table.to_pylist()}
    points = dict(zip(recorded.index, read_tensors(folder, recorded)["x_adv"], strict=True))
    for row, point in zip(added.to_pylist(), new.x_adv, strict=True):
        index = row["index"]
        before = rows.get(index)
        if before is None or not _is_better(before, row):
            points[index] = point
        rows[index] = row if before is None else _joined(before, row)
    order = sorted(rows)
    schema = pyarrow.unify_schemas([table.schema, added.schema])
    whole = pyarrow.Table.from_pylist([rows[index] for index in order], schema=schema)
    searched = set(added["index"].to_pylist())
    places = [place for place, index in enumerate(order) if index in searched]
    x_adv = torch.stack([points[index] for index in order])
    return (
        Shard(new.number, _columns(whole), x_adv, new.revision),
        Shard(new.number, _columns(whole.take(places)), x_adv[places], new.revision),
    )


def _columns(table: pyarrow.Table) -> dict[str, Any]:
    return {name: table[name] for name in table.column_names}


def _is_better(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether the answer that was there is the better one: its point is nearer, or a miss came nearer to one."""
    return _nearness(old) < _nearness(new)


def _nearness(row: Mapping[str, Any]) -> tuple[float, float]:
    nearest = row.get("nearest")
    return row["radius"], math.inf if nearest is None else nearest


def _joined(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """One row of two searches of the same sample: the better answer, and the cost of both."""
    row = dict(old if _is_better(old, new) else new)
    # The last search says that hardly anything is nearer than (1 - gain) of its radius. That holds for a point a little
    # nearer than its own as well, and searches end a rounding apart. Where the old point refutes it, or nothing is said
    # (NaN), the old evidence stays.
    if old["radius"] >= (1 - new["gain"]) * new["radius"]:
        row |= {name: new[name] for name in _EVIDENCE}
    for name, value in new.items():
        before = old.get(name)
        if name in _OF_THE_LAST or before is None:
            row[name] = value
        elif name in _ADDED or name.startswith(_ADDED_BY_ATTACK):
            row[name] = before + value
        elif name.startswith("radius:"):  # NaN where the attack was not asked
            row[name] = min((each for each in (before, value) if not math.isnan(each)), default=math.nan)
    return row
