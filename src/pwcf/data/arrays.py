"""Samples in two arrays, images and labels, of which only the rows asked for are read."""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from pwcf._common.text import first_few, format_shape
from pwcf.data import checks
from pwcf.data.source import DataError

IMAGE_NAMES = ("images", "x", "x_test", "data")
LABEL_NAMES = ("labels", "y", "y_test", "targets")
# How much is read at once where the caller does not say: small beside any model, large beside the cost of a call.
PIECE_BYTES = 4 * 2**20
# Arrays of up to so many bytes are copied when they are opened: whatever becomes of their file, the data stay the same.
SMALL = 2**20

Decode = Callable[[bytearray], Tensor]
"""the numbers in some bytes, (entries,)"""


class StoredArray(Protocol):
    """An array of which rows can be read without the rest."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> str:
        """Name of its dtype, the same whatever the file's format."""

    def rows(self, start: int, stop: int) -> Tensor:
        """A copy of these rows as they are stored: writing to it must not change what is read next."""


@dataclass(frozen=True)
class MemoryArray:
    """An array in memory, for sets that are small."""

    array: Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    @property
    def dtype(self) -> str:
        return str(self.array.dtype).removeprefix("torch.")

    def rows(self, start: int, stop: int) -> Tensor:
        return self.array[start:stop].clone()


@dataclass(frozen=True)
class NumpyArray:
    """An array in memory, or mapped from a file that nobody else can write to: a temporary one."""

    array: np.ndarray[Any, np.dtype[Any]]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    @property
    def dtype(self) -> str:
        return self.array.dtype.name

    def rows(self, start: int, stop: int) -> Tensor:
        # In this machine's byte order and in C order, however it is stored: torch knows nothing else.
        native = self.array.dtype.newbyteorder("=")
        copied = torch.from_numpy(np.array(self.array[start:stop], dtype=native, order="C"))
        # Pages that were read would else count as this process's memory.
        if isinstance(self.array, np.memmap) and hasattr(mmap, "MADV_DONTNEED"):
            self.array._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]
        return copied


class FileArray:
    """An array in a user's file, in C order, of which rows are read when they are asked for.

    Read, not mapped: where somebody cuts a mapped file short, the process is killed. A file that has changed since it
    was opened is an error: rows of before and after are not one set of data.
    """

    def __init__(
        self, path: Path, offset: int, shape: tuple[int, ...], dtype: str, itemsize: int, decode: Decode
    ) -> None:
        self.path, self.offset, self.shape, self.dtype, self.decode = path, offset, shape, dtype, decode
        self._row = itemsize * math.prod(shape[1:])
        self._handle = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._handle)
        self._opened = self._state()

    def rows(self, start: int, stop: int) -> Tensor:
        buffer = bytearray(max(0, stop - start) * self._row)
        view, place = memoryview(buffer), self.offset + start * self._row
        read = 0
        while read < len(buffer) and (count := os.preadv(self._handle, [view[read:]], place + read)):
            read += count
        if read < len(buffer) or self._state() != self._opened:
            raise DataError(
                f"{self.path}: was changed or cut short while it was read; restore it and run the same command again"
            )
        return self.decode(buffer).view(stop - start, *self.shape[1:])

    def _state(self) -> tuple[int, int]:
        status = os.fstat(self._handle)
        return status.st_size, status.st_mtime_ns


def choose_names(where: str, found: Iterable[str]) -> tuple[str, str]:
    """Which arrays of the file are the images and the labels."""
    names = sorted(found)
    chosen = []
    for what, wanted in (("images", IMAGE_NAMES), ("labels", LABEL_NAMES)):
        matching = [name for name in wanted if name in names]
        # Of two, taking one would be a guess about what is evaluated.
        if len(matching) != 1:
            raise DataError(
                f"{where}: {what}: expected exactly one array named {', '.join(wanted)}, "
                f"found {first_few(names, 12) or 'no array at all'}; rename the array that holds the {what}"
            )
        chosen.append(matching[0])
    return chosen[0], chosen[1]


def as_inputs(stored: Tensor) -> Tensor:
    """Stored images as float32: 8-bit values become 0 to 1, floats stay what they are."""
    inputs = stored.to(torch.float32)
    return inputs.div_(255) if stored.dtype == torch.uint8 else inputs


class ArraySource:
    """A Source of two stored arrays."""

    names = None
    classes: list[str] | None = None
    remarks: tuple[str, ...] = ()

    def __init__(self, where: str, images: StoredArray, labels: StoredArray, bounds: tuple[float, float]) -> None:
        checks.check_layout(where, images.shape, images.dtype, labels.shape, labels.dtype)
        if images.dtype == checks.EIGHT_BIT:
            checks.check_eight_bit(where, bounds)
        self._where, self._bounds, self._length = where, bounds, images.shape[0]
        self._arrays: tuple[StoredArray, StoredArray] | None = (images, labels)
        self.about = (
            f"{where}: {self._length} samples of shape {format_shape(images.shape[1:])}, stored as {images.dtype}"
        )
        # All labels now: they are few bytes, and a negative one would else end a run halfway.
        for start, stop in _pieces(labels, self._length):
            checks.check_labels(where, labels.rows(start, stop).to(torch.int64), start)

    def __len__(self) -> int:
        return self._length

    def read(self, start: int, stop: int) -> tuple[Tensor, Tensor]:
        stored_images, stored_labels = self._open()
        checks.check_range(self._where, start, stop, self._length)
        images = as_inputs(stored_images.rows(start, stop))
        checks.check_pixels(self._where, images, self._bounds, start)
        return images, stored_labels.rows(start, stop).to(torch.int64)

    def labels(self, index: Sequence[int]) -> list[int]:
        """Of these samples; all labels are few bytes."""
        stored = self._open()[1].rows(0, self._length).tolist()
        return [int(stored[i]) for i in index]

    def fingerprint(self, count: int) -> str:
        """Over what is stored, not how: the same arrays in another format or compression have the same one."""
        checks.check_count(self._where, count, self._length)
        digest = hashlib.sha256()
        for stored in self._open():
            digest.update(json.dumps([stored.dtype, count, *stored.shape[1:]]).encode() + b"\n")
            for start, stop in _pieces(stored, count):
                digest.update(stored.rows(start, stop).flatten().view(torch.uint8).numpy().data)
        return digest.hexdigest()

    def close(self) -> None:
        """Let go of the file, and of what was unpacked of it."""
        self._arrays = None

    def _open(self) -> tuple[StoredArray, StoredArray]:
        if self._arrays is None:
            raise DataError(f"{self._where}: this source was closed; open it again")
        return self._arrays


def _pieces(stored: StoredArray, count: int) -> Iterator[tuple[int, int]]:
    """The first ``count`` rows in pieces of bounded size."""
    # 8 bytes: the widest dtype there is here.
    rows = max(1, PIECE_BYTES // (8 * max(1, math.prod(stored.shape[1:]))))
    return ((start, min(start + rows, count)) for start in range(0, count, rows))
