"""A folder of images, labelled by class folders or by a CSV file."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pwcf._common.errors import UserError
from pwcf._common.files import ReadError, read_file
from pwcf._common.optional import import_optional
from pwcf._common.text import first_few, format_shape, one_line
from pwcf.data import checks
from pwcf.data.arrays import PIECE_BYTES, as_inputs
from pwcf.data.checks import sample_name
from pwcf.data.images import ImageHeader, ResizeCrop, read_header, to_pixels, with_open_image
from pwcf.data.source import DataError

# torchvision's list: what counts as an image there counts here.
IMAGE_ENDINGS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
# Classes that a sentence names.
SHOWN = 10
# Names of splits. Taken for classes, every image would get a label that means nothing.
SPLIT_NAMES = {"train", "test", "val", "valid", "validation"}
# Bytes of a file's digest: kept for every file of the set.
_DIGEST = 8


@dataclass(frozen=True)
class _LabelledFiles:
    """The image files, by names relative to the folder and with forward slashes, and their labels."""

    names: list[str]
    labels: list[int]
    classes: list[str] | None
    as_told: bool = False
    """whether the order of the classes was told; else it is that of their names"""


class FolderSource:
    """A Source of image files, each decoded when it is read.

    A file that is not as it was when its fingerprint was taken is an error: its image is not one of that set of data.
    """

    def __init__(self, root: Path, listing: _LabelledFiles, transform: ResizeCrop) -> None:
        self.names, self.classes = listing.names, listing.classes
        self._root, self._labels, self._transform = root, listing.labels, transform
        self._digests: dict[int, bytes] = {}
        self._shape = _common_shape(root, listing.names, transform)
        # With the version: how Pillow resizes has changed before.
        made = import_optional("PIL", root.name, "images", error=DataError)
        steps = f", {transform.about} (Pillow {made.__version__})" if transform.about else ""
        kind, self.remarks = "images", tuple[str, ...]()
        if listing.classes is not None:
            numbered = first_few((f"{i} {name}" for i, name in enumerate(listing.classes)), SHOWN)
            how = "as told" if listing.as_told else "by name"
            kind = f"images of {len(listing.classes)} classes, numbered {how} ({numbered})"
            if not listing.as_told:
                self.remarks = (
                    f"classes: numbered by name, {numbered}; if the model has another order, tell it with --classes",
                )
        self.about = f"{root.name}: {len(self)} {kind}, shape {format_shape(self._shape)}{steps}"

    def __len__(self) -> int:
        return len(self._labels)

    def labels(self, index: Sequence[int]) -> list[int]:
        return [self._labels[i] for i in index]

    def read(self, start: int, stop: int) -> tuple[Tensor, Tensor]:
        checks.check_range(self._root.name, start, stop, len(self))
        channels = self._shape[0]
        pixels = np.empty((stop - start, *self._shape), dtype=np.uint8)
        for row, index in enumerate(range(start, stop)):
            one = with_open_image(
                self._at(index),
                self._content(index),
                lambda where, image: to_pixels(where, image, channels, self._transform),
            )
            if one.shape != self._shape:
                raise DataError(
                    f"{self._at(index)}: expected shape {format_shape(self._shape)}, found {format_shape(one.shape)} "
                    "(turned by its EXIF data, or changed since); give resize and crop, or open it again"
                )
            pixels[row] = one
        return as_inputs(torch.from_numpy(pixels)), torch.tensor(self._labels[start:stop], dtype=torch.int64)

    def fingerprint(self, count: int) -> str:
        """Over names, labels and the files themselves, and over what is done to them."""
        checks.check_count(self._root.name, count, len(self))
        digest = hashlib.sha256(
            json.dumps([self._transform.resize, self._transform.crop, self._shape]).encode() + b"\n"
        )
        for index in range(count):
            name, label = self.names[index], self._labels[index]
            path = self._root / name
            try:
                # With the size in front, no file can pass for another file and a bit of the next.
                digest.update(json.dumps([name, path.stat().st_size, label]).encode() + b"\n")
                own = hashlib.blake2b(digest_size=_DIGEST)
                with path.open("rb") as file:
                    while piece := file.read(PIECE_BYTES):
                        digest.update(piece)
                        own.update(piece)
            except OSError as error:
                raise DataError(f"{self._at(index)}: {one_line(error.strerror or error)}; check the file") from error
            self._digests[index] = own.digest()
        return digest.hexdigest()

    def _content(self, index: int) -> bytes:
        """Of a file, as it was when the fingerprint was taken."""
        try:
            content = read_file(self._root / self.names[index])
        except FileNotFoundError as error:
            raise DataError(f"{self._at(index)}: {one_line(error.strerror)}; check the file") from error
        except UserError as error:
            raise DataError(f"{self._at(index)}: {error}") from error
        known = self._digests.get(index)
        if known is not None and hashlib.blake2b(content, digest_size=_DIGEST).digest() != known:
            raise DataError(
                f"{self._at(index)}: was changed while the data were read; restore it and run the same command again"
            )
        return content

    def close(self) -> None:
        """Nothing stays open between two pieces."""

    def _at(self, index: int) -> str:
        return f"{self._root.name}: {sample_name(index, self.names)}"


def open_folder(
    root: Path, labels: Path | None, classes: str | None, transform: ResizeCrop, bounds: tuple[float, float]
) -> FolderSource:
    """A folder of images, labelled by the CSV file ``labels``, or without one by its class folders.

    ``classes``: their names in the order of their numbers, with commas between, or a file with one a line.
    """
    told = None if classes is None else _class_names(classes)
    checks.check_eight_bit(root.name, bounds)
    try:
        # Sorted by parts, so that the images of a class stay together.
        found = sorted(_images(root, ()), key=lambda name: name.split("/"))
    except OSError as error:
        raise DataError(f"{root}: cannot be listed: {one_line(error)}; check its permissions") from error
    listing = _by_table(root, found, labels, told) if labels is not None else _by_folders(root, found, told)
    return FolderSource(root, listing, transform)


def _images(folder: Path, parents: tuple[Path, ...], inside: str = "") -> Iterator[str]:
    """Relative names of all images below, through links as well, which large sets are often made of."""
    here = folder.resolve()
    if here in parents:  # a link to a folder it is in: without end
        return
    for path in folder.iterdir():
        if path.name.startswith("."):  # a system's own notes, among them ._x.png, which is no image
            continue
        if path.is_dir():
            yield from _images(path, (*parents, here), f"{inside}{path.name}/")
        elif path.name.lower().endswith(IMAGE_ENDINGS):
            yield inside + path.name


def _class_names(classes: str) -> list[str]:
    """As they were told, in a text or a file."""
    path = Path(classes).expanduser()
    names, where = [name.strip() for name in classes.split(",")], "classes"
    if os.path.isfile(path):  # of a long list of names, too: that is no file
        where = f"classes: {path.name}"
        try:
            names = [line.strip() for line in read_file(path).decode("utf-8-sig").splitlines()]
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"{where}: cannot be read as text ({one_line(error)}); check the file") from error
        while names and not names[-1]:  # fine at the end of the file, where editors leave them
            names.pop()
    elif len(names) == 1:
        raise DataError(f"classes: expected names, a,b,c, or a file with one a line, found {classes!r}, no such file")
    if not names or "" in names or len(set(names)) < len(names):
        strange = next((name for name in names if not name or names.count(name) > 1), None)
        found = "none" if strange is None else f"{strange!r} twice" if strange else "an empty one"
        raise DataError(f"{where}: expected every class name once, in the order of the numbers, found {found}")
    return names


def _numbers(where: str, names: set[str], told: list[str] | None) -> dict[str, int]:
    """The number of every class, and of none that ``told`` leaves out."""
    ordered = sorted(names) if told is None else told
    if missing := sorted(names - set(ordered)):
        raise DataError(
            f"classes: expected all class names of {where}, in the order of their numbers, found none of "
            f"{first_few(missing)}; add them"
        )
    return {name: number for number, name in enumerate(ordered)}


def _by_folders(root: Path, found: list[str], told: list[str] | None) -> _LabelledFiles:
    loose = [name for name in found if "/" not in name]
    folders = sorted(path.name for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))
    tables = sorted(path.name for path in root.glob("*.csv"))
    hint = f"labels ({tables[0]}?)" if tables else "labels, a CSV file with columns file,label"
    if not found:
        raise DataError(f"{root}: expected images ({', '.join(IMAGE_ENDINGS)}), found none; check the folder's name")
    if loose:
        beside = f" beside class folders ({first_few(folders)})" if folders else ""
        raise DataError(
            f"{root}: expected a folder for each class, found images without one{beside}: {first_few(loose)}; "
            f"give {hint}, or move them into class folders"
        )
    if SPLIT_NAMES.issuperset(name.lower() for name in folders):
        raise DataError(
            f"{root}: expected a folder for each class, found those of splits: {first_few(folders)}; give one of them, "
            f"such as {root.name}/{folders[0]}"
        )
    filled = {name.partition("/")[0] for name in found}
    if empty := [name for name in folders if name not in filled]:
        raise DataError(
            f"{root}: class folders without images: {first_few(empty)}; they would shift the numbers of the classes, "
            "so remove or fill them"
        )
    index = _numbers(root.name, set(folders), told)
    labels = [index[name.partition("/")[0]] for name in found]
    return _LabelledFiles(found, labels, list(index), as_told=told is not None)


def _by_table(root: Path, found: list[str], path: Path, told: list[str] | None) -> _LabelledFiles:
    table = _read_table(path, told)
    missing = [i for i, name in enumerate(table.names) if not (root / name).is_file()]
    if missing:
        first = missing[0]
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        raise DataError(
            f"{path.name}, line {table.lines[first]} ({sample_name(first, table.names)}): no such image "
            f"in {root}{more}; add the file or remove the line"
        )
    listed = set(table.names)
    if unlisted := [name for name in found if name not in listed]:
        raise DataError(
            f"{path.name}: expected a line for every image in {root.name}, found {len(unlisted)} without: "
            f"{first_few(unlisted)}; add lines or move the files away"
        )
    return _LabelledFiles(table.names, table.labels, table.classes, as_told=told is not None)


def _common_shape(root: Path, names: list[str], transform: ResizeCrop) -> tuple[int, int, int]:
    """(channels, height, width) that all images have after the transform.

    The header of every file is read now, so that an image that does not fit is found before a run begins.
    """
    grey = True
    first: tuple[ImageHeader, tuple[int, int]] | None = None
    for index, name in enumerate(names):
        where = f"{root.name}: {sample_name(index, names)}"
        header = with_open_image(where, root / name, read_header)
        grey = grey and header.grey
        final = transform.final_size(where, header.height, header.width)
        first = first or (header, final)
        if final != first[1]:
            after = (
                f" after {transform.about}: {format_shape(first[1])} and {format_shape(final)}"
                if transform.about
                else ""
            )
            raise DataError(
                f"{root.name}: images differ in size: {names[0]} is {first[0].height}x{first[0].width}, {name} is "
                f"{header.height}x{header.width} (height x width){after}; give resize and crop to bring them "
                "to one size"
            )
    if first is None:
        raise DataError(f"{root}: expected at least one image, found none; check the folder's name")
    return (1 if grey else 3, *first[1])


# The CSV file with the label of every image


COLUMNS = ("file", "label")
LARGEST = 2**63 - 1
DIGITS = len(str(LARGEST))


@dataclass(frozen=True)
class _LabelRow:
    """One sample's line."""

    line: int
    name: str
    label: str


@dataclass(frozen=True)
class _LabelTable:
    """Labels by file, in the order of the file."""

    names: list[str]
    labels: list[int]
    lines: list[int]
    classes: list[str] | None


def _read_table(path: Path, told: list[str] | None) -> _LabelTable:
    """Read the CSV file; an error names the line that has a hole or repeats a file. ``told``: the order of classes."""
    try:
        # Spreadsheets put a mark before UTF-8, which would become part of the first column's name.
        text = io.StringIO(read_file(path).decode("utf-8-sig"), newline="")
        rows = list(_label_rows(path.name, csv.reader(text, strict=True)))
    except FileNotFoundError:
        raise DataError(f"labels: {path}: no such file; check the name") from None
    except ReadError as error:
        raise DataError(f"labels: {error}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"labels: {path}: expected UTF-8 text ({one_line(error)}); save it as UTF-8") from error
    except csv.Error as error:
        raise DataError(f"labels: {path}: cannot be read as CSV: {one_line(error)}; check the file") from error
    if not rows:
        raise DataError(f"{path.name}: expected a line for every image, found the header alone; add the lines")
    _check_duplicates(path.name, rows)
    numbers = [_class_number(path.name, index, row) for index, row in enumerate(rows)]
    names, lines = [row.name for row in rows], [row.line for row in rows]
    labels = [number for number in numbers if number is not None]
    if len(labels) == len(rows):
        if told is not None and max(labels) >= len(told):
            raise DataError(f"classes: expected more than {max(labels)} names for {path.name}, found {len(told)}")
        return _LabelTable(names, labels, lines, told)
    if labels:
        other = numbers.index(None)
        raise DataError(
            f"{_at_line(path.name, other, rows[other])}: expected an integer as on other lines, found "
            f"{rows[other].label!r}; give integers throughout or class names throughout"
        )
    index = _numbers(path.name, {row.label for row in rows}, told)
    return _LabelTable(names, [index[row.label] for row in rows], lines, list(index))


def _label_rows(where: str, lines: Iterator[list[str]]) -> Iterator[_LabelRow]:
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
        yield _LabelRow(line, _relative(where, line, index, name), label)


def _relative(where: str, line: int, index: int, name: str) -> str:
    """The name as it is found in the folder: with forward slashes, without detours."""
    plain = posixpath.normpath(name.replace("\\", "/"))
    if plain.startswith(("/", "../")) or re.match(r"[A-Za-z]:/", plain):
        raise DataError(
            f"{where}, line {line} (sample {index}): expected a file name relative to the folder of images, "
            f"found {name!r}; leave out the path to the folder"
        )
    return plain


def _check_duplicates(where: str, rows: list[_LabelRow]) -> None:
    first: dict[str, int] = {}
    for index, row in enumerate(rows):
        if row.name in first:
            raise DataError(
                f"{_at_line(where, index, row)}: expected every file once, found it on line {first[row.name]} already; "
                "remove one of the lines"
            )
        first[row.name] = row.line


def _class_number(where: str, index: int, row: _LabelRow) -> int | None:
    """The label as a class number, None where it is a name."""
    if re.fullmatch(r"[+-]?[0-9]+", row.label):
        number = int(row.label) if len(row.label) <= DIGITS else -1
        if 0 <= number <= LARGEST:
            return number
        found = row.label if len(row.label) <= DIGITS else f"a number of {len(row.label)} digits"
        raise DataError(f"{_at_line(where, index, row)}: expected a label >= 0, found {found}; count classes from 0")
    try:
        float(row.label)
    except ValueError:
        return None
    # 1.5, 3.0, nan: a number gone wrong in a spreadsheet or data frame, not the name of a class.
    raise DataError(
        f"{_at_line(where, index, row)}: expected an integer or a class name, found {row.label}; "
        "write class numbers without decimals"
    )


def _at_line(where: str, index: int, row: _LabelRow) -> str:
    return f"{where}, line {row.line} (sample {index}, {row.name})"
