"""A folder of images, labelled by class folders or by a CSV file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pwcf.data import checks
from pwcf.data.arrays import PIECE_BYTES, as_inputs
from pwcf.data.extras import library
from pwcf.data.pictures import Frame, Look, as_pixels, look_at, with_picture
from pwcf.data.source import DataError
from pwcf.data.table import read_table
from pwcf.data.wording import a_few, one_line, sample, size

# torchvision's list: what counts as an image there counts here.
ENDINGS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
# Names of splits. Taken for classes, every image would get a label that means nothing.
SPLITS = {"train", "test", "val", "valid", "validation"}


@dataclass(frozen=True)
class Listing:
    """Which files there are, with slashes and relative to the folder, and what they show."""

    names: list[str]
    labels: list[int]
    classes: list[str] | None


class FolderSource:
    """A Source of image files. Each is decoded when it is read."""

    def __init__(self, root: Path, listing: Listing, frame: Frame) -> None:
        self.names, self.classes = listing.names, listing.classes
        self._root, self._labels, self._frame = root, listing.labels, frame
        self._shape = _common_shape(root, listing.names, frame)
        # With the version: how Pillow resizes has changed before.
        made = library("PIL", root.name, "images")
        steps = f", {frame.about} (Pillow {made.__version__})" if frame.about else ""
        kind = "images" if listing.classes is None else f"images of {len(listing.classes)} classes"
        self.about = f"{root.name}: {len(self)} {kind}, shape {size(self._shape)}{steps}"

    def __len__(self) -> int:
        return len(self._labels)

    def read(self, start: int, stop: int) -> tuple[Tensor, Tensor]:
        checks.check_piece(self._root.name, start, stop, len(self))
        channels = self._shape[0]
        pixels = np.empty((stop - start, *self._shape), dtype=np.uint8)
        for row, index in enumerate(range(start, stop)):
            one = with_picture(
                self._at(index),
                self._root / self.names[index],
                lambda where, image: as_pixels(where, image, channels, self._frame),
            )
            if one.shape != self._shape:
                raise DataError(
                    f"{self._at(index)}: expected shape {size(self._shape)}, found {size(one.shape)} (turned by its "
                    "EXIF data, or changed since); give resize and crop, or open it again"
                )
            pixels[row] = one
        return as_inputs(torch.from_numpy(pixels)), torch.tensor(self._labels[start:stop], dtype=torch.int64)

    def fingerprint(self, count: int) -> str:
        """Over names, labels and the files themselves, and over what is done to them."""
        checks.check_count(self._root.name, count, len(self))
        digest = hashlib.sha256(json.dumps([self._frame.resize, self._frame.crop, self._shape]).encode() + b"\n")
        for index in range(count):
            name, label = self.names[index], self._labels[index]
            path = self._root / name
            try:
                # With the size in front, no file can pass for another file and a bit of the next.
                digest.update(json.dumps([name, path.stat().st_size, label]).encode() + b"\n")
                with path.open("rb") as file:
                    while piece := file.read(PIECE_BYTES):
                        digest.update(piece)
            except OSError as error:
                raise DataError(f"{self._at(index)}: {one_line(error.strerror or error)}; check the file") from error
        return digest.hexdigest()

    def close(self) -> None:
        """Nothing stays open between two pieces."""

    def _at(self, index: int) -> str:
        return f"{self._root.name}: {sample(index, self.names)}"


def open_folder(root: Path, labels: Path | None, frame: Frame, bounds: tuple[float, float]) -> FolderSource:
    checks.check_eight_bit(root.name, bounds)
    try:
        # Sorted by parts, so that the images of a class stay together.
        found = sorted(_images(root, ()), key=lambda name: name.split("/"))
    except OSError as error:
        raise DataError(f"{root}: cannot be listed: {one_line(error)}; check its permissions") from error
    listing = _by_table(root, found, labels) if labels is not None else _by_folders(root, found)
    return FolderSource(root, listing, frame)


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
        elif path.name.lower().endswith(ENDINGS):
            yield inside + path.name


def _by_folders(root: Path, found: list[str]) -> Listing:
    loose = [name for name in found if "/" not in name]
    folders = sorted(path.name for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))
    tables = sorted(path.name for path in root.glob("*.csv"))
    hint = f"labels ({tables[0]}?)" if tables else "labels, a CSV file with columns file,label"
    if not found:
        raise DataError(f"{root}: expected images ({', '.join(ENDINGS)}), found none; check the folder's name")
    if loose:
        beside = f" beside class folders ({a_few(folders)})" if folders else ""
        raise DataError(
            f"{root}: expected a folder for each class, found images without one{beside}: {a_few(loose)}; give {hint}, "
            "or move them into class folders"
        )
    if SPLITS.issuperset(name.lower() for name in folders):
        raise DataError(
            f"{root}: expected a folder for each class, found those of splits: {a_few(folders)}; give one of them, "
            f"such as {root.name}/{folders[0]}"
        )
    filled = {name.partition("/")[0] for name in found}
    if empty := [name for name in folders if name not in filled]:
        raise DataError(
            f"{root}: class folders without images: {a_few(empty)}; they would shift the numbers of the classes, "
            "so remove or fill them"
        )
    index = {name: i for i, name in enumerate(folders)}
    return Listing(found, [index[name.partition("/")[0]] for name in found], folders)


def _by_table(root: Path, found: list[str], path: Path) -> Listing:
    table = read_table(path)
    missing = [i for i, name in enumerate(table.names) if not (root / name).is_file()]
    if missing:
        first = missing[0]
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        raise DataError(
            f"{path.name}, line {table.lines[first]} ({sample(first, table.names)}): no such image in {root}{more}; "
            "add the file or remove the line"
        )
    listed = set(table.names)
    if unlisted := [name for name in found if name not in listed]:
        raise DataError(
            f"{path.name}: expected a line for every image in {root.name}, found {len(unlisted)} without: "
            f"{a_few(unlisted)}; add lines or move the files away"
        )
    return Listing(table.names, table.labels, table.classes)


def _common_shape(root: Path, names: list[str], frame: Frame) -> tuple[int, int, int]:
    """Every file is looked at before a run begins: not after hours, at the one image that does not fit."""
    grey = True
    first: tuple[Look, tuple[int, int]] | None = None
    for index, name in enumerate(names):
        where = f"{root.name}: {sample(index, names)}"
        look = with_picture(where, root / name, look_at)
        grey = grey and look.grey
        final = frame.size(where, look.height, look.width)
        first = first or (look, final)
        if final != first[1]:
            after = f" after {frame.about}: {size(first[1])} and {size(final)}" if frame.about else ""
            raise DataError(
                f"{root.name}: images differ in size: {names[0]} is {first[0].height}x{first[0].width}, {name} is "
                f"{look.height}x{look.width} (height x width){after}; give resize and crop to bring them to one size"
            )
    if first is None:
        raise DataError(f"{root}: expected at least one image, found none; check the folder's name")
    return (1 if grey else 3, *first[1])
