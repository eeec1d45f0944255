"""A CSV file with the label of every image."""

from __future__ import annotations

import csv
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pwcf.data.source import DataError
from pwcf.data.wording import one_line

COLUMNS = ("file", "label")
LARGEST = 2**63 - 1


@dataclass(frozen=True)
class Row:
    """One sample's line."""

    line: int
    name: str
    label: str


@dataclass(frozen=True)
class Table:
    """Labels by file, in the order of the file."""

    names: list[str]
    labels: list[int]
    lines: list[int]
    classes: list[str] | None


def read_table(path: Path) -> Table:
    """Raise, with the line's number, wherever it has a hole or says something twice."""
    try:
        # Spreadsheets put a mark before UTF-8, which would become part of the first column's name.
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(_rows(path.name, csv.reader(file, strict=True)))
    except FileNotFoundError:
        raise DataError(f"labels: {path}: no such file; check the name") from None
    except UnicodeDecodeError as error:
        raise DataError(f"labels: {path}: expected UTF-8 text ({one_line(error)}); save it as UTF-8") from error
    except (OSError, csv.Error) as error:
        raise DataError(f"labels: {path}: cannot be read as CSV: {one_line(error)}; check the file") from error
    if not rows:
        raise DataError(f"{path.name}: expected a line for every image, found the header alone; add the lines")
    _check_twice(path.name, rows)
    numbers = [_number(path.name, index, row) for index, row in enumerate(rows)]
    names, lines = [row.name for row in rows], [row.line for row in rows]
    labels = [number for number in numbers if number is not None]
    if len(labels) == len(rows):
        return Table(names, labels, lines, None)
    if labels:
        other = numbers.index(None)
        raise DataError(
            f"{_place(path.name, other, rows[other])}: expected an integer as on other lines, found "
            f"{rows[other].label!r}; give integers throughout or class names throughout"
        )
    classes = sorted({row.label for row in rows})
    index = {name: i for i, name in enumerate(classes)}
    return Table(names, [index[row.label] for row in rows], lines, classes)


def _rows(where: str, lines: Iterator[list[str]]) -> Iterator[Row]:
    header = [name.strip() for name in next(lines, [])]
    if any(header.count(name) != 1 for name in COLUMNS):
        found = ",".join(header)
        hint = "separate the columns by commas" if ";" in found or "\t" in found else "make it the first line"
        raise DataError(f"{where}, line 1: expected a header with columns file,label, found {found[:80]!r}; {hint}")
    blank = None
    for index, fields in enumerate(lines):
        line: int = lines.line_num  # type: ignore[attr-defined]
        if not any(field.strip() for field in fields):
            blank = blank or line  # fine at the end of the file, where editors leave them
            continue
        if blank is not None:
            raise DataError(f"{where}, line {blank}: expected a file and its label, found an empty line; remove it")
        if len(fields) != len(header):
            raise DataError(
                f"{where}, line {line} (sample {index}): expected {len(header)} columns as in the header, found "
                f"{len(fields)}; fill the hole, or put a name with a comma in quotes"
            )
        name, label = (fields[header.index(column)].strip() for column in COLUMNS)
        for column, value in zip(COLUMNS, (name, label), strict=True):
            if not value:
                known = name or "no file"
                raise DataError(
                    f"{where}, line {line} (sample {index}, {known}): column {column} is empty; fill it in or remove "
                    "the line"
                )
        yield Row(line, _relative(where, line, index, name), label)


def _relative(where: str, line: int, index: int, name: str) -> str:
    """The name as it is found in the folder: with forward slashes, without detours."""
    plain = posixpath.normpath(name.replace("\\", "/"))
    if plain.startswith(("/", "../")) or re.match(r"[A-Za-z]:/", plain):
        raise DataError(
            f"{where}, line {line} (sample {index}): expected a file name relative to the folder of images, "
            f"found {name!r}; leave out the path to the folder"
        )
    return plain


def _check_twice(where: str, rows: list[Row]) -> None:
    first: dict[str, int] = {}
    for index, row in enumerate(rows):
        if row.name in first:
            raise DataError(
                f"{_place(where, index, row)}: expected every file once, found it on line {first[row.name]} already; "
                "remove one of the lines"
            )
        first[row.name] = row.line


def _number(where: str, index: int, row: Row) -> int | None:
    """The label as a class number, None where it is a name."""
    if re.fullmatch(r"[+-]?[0-9]+", row.label):
        number = int(row.label)
        if 0 <= number <= LARGEST:
            return number
        raise DataError(f"{_place(where, index, row)}: expected a label >= 0, found {row.label}; count classes from 0")
    try:
        float(row.label)
    except ValueError:
        return None
    # 1.5, 3.0, nan: a number gone wrong in a spreadsheet or data frame, not the name of a class.
    raise DataError(
        f"{_place(where, index, row)}: expected an integer or a class name, found {row.label}; write class numbers "
        "without decimals"
    )


def _place(where: str, index: int, row: Row) -> str:
    return f"{where}, line {row.line} (sample {index}, {row.name})"
