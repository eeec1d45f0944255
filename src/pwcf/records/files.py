"""Cells as CSV files with one commented line of JSON before the columns. A file that exists is complete."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeVar

import torch

from pwcf._common.atomic import write_whole
from pwcf._common.status import Status
from pwcf.records.cell import Cell
from pwcf.records.record import SCHEMA, Header, Made, Record, RecordError

COLUMNS = (
    "sample",
    "status",
    "clean_correct",
    "adversarial",
    "radius",
    "forward",
    "backward",
    "stationarity",
    "attack",
)

T = TypeVar("T")


def write_text(path: Path, text: str) -> None:
    """Whole or not at all, whenever the process or the machine dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, lambda place: place.write_bytes(text.encode("utf-8")))


def write(record: Record, folder: Path) -> Path:
    """The record's file."""
    header = record.header
    head = {
        "schema": SCHEMA,
        "question": header.cell.question,
        **asdict(header.cell),
        "images": header.images,
        "samples": len(record.status),
        "seed": header.seed,
        "data": header.data,
        "made": asdict(header.made),
    }
    text = io.StringIO()
    # One line, whatever the strings in it hold: JSON escapes line ends.
    text.write(f"# {json.dumps(head, allow_nan=False)}\n")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    right = record.right
    for i, status in enumerate(record.status):
        # repr of a float reads back as the same float.
        writer.writerow(
            (
                i,
                status.value,
                int(right[i]),
                int(record.adversarial[i]),
                repr(record.radius[i].item()),
                int(record.forward[i]),
                int(record.backward[i]),
                repr(record.stationarity[i].item()),
                record.attack[i],
            )
        )
    path = folder / header.cell.file_name
    write_text(path, text.getvalue())
    return path


def read(path: Path) -> Record:
    """The record of a file; RecordError, with the file's name, where it is none."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"{path}: cannot be read: {error}") from error
    first, _, rest = text.partition("\n")
    try:
        head = json.loads(first.removeprefix("# ")) if first.startswith("# ") else None
    except ValueError:
        head = None
    if not isinstance(head, dict):
        raise RecordError(f"{path}: expected a first line '# {{...}}' of JSON, found {first[:60]!r}")
    if head.get("schema") != SCHEMA:
        raise RecordError(f"{path}: field schema is {head.get('schema')!r}, this version of pwcf reads {SCHEMA}")
    header = _header(path, head)
    rows = list(csv.DictReader(io.StringIO(rest)))
    samples = _field(path, head, "samples", int)
    if len(rows) != samples:
        raise RecordError(f"{path}: expected {samples} rows (field samples), found {len(rows)}")
    return _record(path, header, rows)


def read_folder(folder: Path) -> dict[Path, Record]:
    """Every cell in a folder, by its file; nothing where there is no folder."""
    return {path: read(path) for path in sorted(folder.glob("*.csv"))}


def _header(path: Path, head: Mapping[str, Any]) -> Header:
    eps = head.get("eps")
    cell = Cell(
        _field(path, head, "net", str),
        _field(path, head, "norm", str),
        None if eps is None else _field(path, head, "eps", float),
        _field(path, head, "attack", str),
        _field(path, head, "budget", int),
    )
    made = _field(path, head, "made", dict)
    missing = [field.name for field in fields(Made) if field.name not in made]
    if missing:
        raise RecordError(f"{path}: field made.{missing[0]} is missing")
    known = {field.name: made[field.name] for field in fields(Made)} | {"warnings": tuple(made["warnings"])}
    images, seed = _field(path, head, "images", int), _field(path, head, "seed", int)
    return Header(cell, images, seed, _field(path, head, "data", str), Made(**known))


def _field(path: Path, values: Mapping[str, Any], name: str, kind: Callable[[Any], T]) -> T:
    """A value of a line, as what it should be."""
    if name not in values or values[name] is None:
        raise RecordError(f"{path}: field {name} is missing")
    try:
        return kind(values[name])
    except (TypeError, ValueError):
        raise RecordError(f"{path}: field {name} is {values[name]!r}, which is no {kind.__name__}") from None


def _record(path: Path, header: Header, rows: list[dict[str, Any]]) -> Record:
    def column(name: str, kind: Callable[[Any], T]) -> list[T]:
        return [_field(path, row, name, kind) for row in rows]

    if column("sample", int) != list(range(len(rows))):
        raise RecordError(f"{path}: column sample: expected 0, 1, 2, ...")
    radius = column("radius", float)
    if any(math.isnan(value) or value < 0 for value in radius):
        raise RecordError(f"{path}: column radius: expected numbers >= 0 or inf")
    return Record(
        header,
        tuple(column("status", Status)),
        torch.tensor(column("adversarial", int), dtype=torch.bool),
        torch.tensor(radius, dtype=torch.float64),
        torch.tensor(column("forward", int), dtype=torch.int64),
        torch.tensor(column("backward", int), dtype=torch.int64),
        torch.tensor(column("stationarity", float), dtype=torch.float64),
        tuple(column("attack", str)),
    )
