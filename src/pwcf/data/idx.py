"""IDX files, the format of MNIST and its relatives: images in one file, labels in another beside it."""

from __future__ import annotations

import gzip
import math
import re
import tempfile
import zlib
from pathlib import Path
from typing import IO

import numpy as np
import torch
from torch import Tensor

from pwcf._common.text import one_line
from pwcf.data.array_files import COPIED_AT_ONCE
from pwcf.data.arrays import SMALL, ArraySource, FileArray, NumpyArray, StoredArray
from pwcf.data.checks import check_file
from pwcf.data.source import DataError

# Two zero bytes, the type of the numbers and how many sizes follow, each four bytes with the highest first.
EIGHT_BIT, SIZE_BYTES = 8, 4
# What gzip makes of a byte at best (deflate's limit is 1032), and some room.
LARGEST_GZIP_RATIO = 1100
# train-images-idx3-ubyte.gz; some copies have t10k-images.idx3-ubyte. With a fourth size, the channels, idx4.
NAME = re.compile(r"(?P<before>.*)images(?P<mark>[-.])idx[34]-ubyte(\.gz)?", re.IGNORECASE)


def is_idx(path: Path) -> bool:
    """Whether the name is one of IDX images."""
    return NAME.fullmatch(path.name) is not None


def open_idx(path: Path, bounds: tuple[float, float]) -> ArraySource:
    """A file of images, with the file of their labels beside it."""
    check_file(path)
    images = _open(path, "images", (3, 4))
    labels = _open(_labels_beside(path), "labels", (1,))
    return ArraySource(path.name, images, labels, bounds)


def _labels_beside(path: Path) -> Path:
    """train-labels-idx1-ubyte for train-images-idx3-ubyte; packed or not, whatever the images are."""
    match = NAME.fullmatch(path.name)
    assert match is not None
    plain = f"{match['before']}labels{match['mark']}idx1-ubyte"
    # Of both the one that is packed as the images are: they came together.
    endings = (".gz", "") if path.name.lower().endswith(".gz") else ("", ".gz")
    for ending in endings:
        if (found := path.with_name(plain + ending)).is_file():
            check_file(found)
            return found
    raise DataError(
        f"{path}: expected its labels beside it in {plain} or {plain}.gz, found neither; put the file there"
    )


def _open(path: Path, what: str, dimensions: tuple[int, ...]) -> StoredArray:
    try:
        with path.open("rb") as file:
            if path.name.lower().endswith(".gz"):
                return _unpacked(path, what, dimensions, file)
            shape = _shape(path, what, dimensions, file)
            start = file.tell()
            _check_length(path, what, shape, file.seek(0, 2) - start)
            if math.prod(shape) > SMALL:
                return FileArray(path, start, _with_channels(shape), "uint8", 1, _decode)
            file.seek(start)
            content = file.read(math.prod(shape))
            _check_length(path, what, shape, len(content))
            return NumpyArray(np.frombuffer(content, np.uint8).reshape(_with_channels(shape)))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            f"{path}: no gzip file, or one that was cut short or damaged ({one_line(error)}); copy or download it again"
        ) from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {one_line(error.strerror or error)}; check the file") from error


def _unpacked(path: Path, what: str, dimensions: tuple[int, ...], file: IO[bytes]) -> NumpyArray:
    """The array in a temporary file, which goes when the mapping does: it never has a name that could stay behind.

    Its header is read first: no more than it declares is unpacked, and nothing that the file cannot hold.
    """
    packed_size = file.seek(0, 2)
    file.seek(0)
    with gzip.open(file) as packed:
        shape = _shape(path, what, dimensions, packed)
        if (declared := math.prod(shape)) > LARGEST_GZIP_RATIO * packed_size:
            raise DataError(
                f"{path}: expected {declared} bytes for {what} of shape {shape}, found {packed_size} packed ones, "
                "which cannot hold them; the file is damaged, copy or download it again"
            )
        try:
            with tempfile.TemporaryFile(prefix="pwcf-") as whole:
                found = 0
                # One byte more than declared: whether there is more is all that need be known.
                while found <= declared and (some := packed.read(min(COPIED_AT_ONCE, declared + 1 - found))):
                    found += whole.write(some)
                whole.flush()
                _check_length(path, what, shape, found)
                return NumpyArray(np.memmap(whole, np.uint8, "r", 0, _with_channels(shape)))
        except gzip.BadGzipFile:
            raise
        except OSError as error:
            raise DataError(
                f"{path}: cannot be unpacked into {tempfile.gettempdir()}: {one_line(error.strerror or error)}; "
                "set TMPDIR to a larger disk, or unpack the file"
            ) from error


def _shape(path: Path, what: str, dimensions: tuple[int, ...], file: IO[bytes] | gzip.GzipFile) -> tuple[int, ...]:
    """The sizes in the header, at least one sample; the file is behind it then."""
    magic = file.read(4)
    expected = " or ".join(f"0000{EIGHT_BIT:02x}{count:02x}" for count in dimensions)
    if len(magic) < 4 or magic[:3] != bytes((0, 0, EIGHT_BIT)) or magic[3] not in dimensions:
        raise DataError(
            f"{path}: expected 8-bit {what} in IDX format, magic number {expected}, found {magic.hex() or 'nothing'}; "
            "is this the right file?"
        )
    sizes = file.read(SIZE_BYTES * magic[3])
    if len(sizes) < SIZE_BYTES * magic[3]:
        raise DataError(
            f"{path}: expected a header of {4 + SIZE_BYTES * magic[3]} bytes, found {4 + len(sizes)}; the file is "
            "damaged, copy or download it again"
        )
    shape = tuple(int.from_bytes(sizes[i : i + SIZE_BYTES], "big") for i in range(0, len(sizes), SIZE_BYTES))
    if math.prod(shape) == 0:
        # An empty array cannot be mapped; there is nothing it could be good for either.
        raise DataError(f"{path.name}: expected at least one sample, found shape {shape}")
    return shape


def _check_length(path: Path, what: str, shape: tuple[int, ...], found: int) -> None:
    if found != (declared := math.prod(shape)):
        counted = found if found < declared else f"{declared + 1} or more"
        raise DataError(
            f"{path}: expected {declared} bytes for {what} of shape {shape}, found {counted}; the file is damaged, "
            "copy or download it again"
        )


def _with_channels(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Images without channels get one."""
    return (shape[0], 1, *shape[1:]) if len(shape) == 3 else shape


def _decode(content: bytearray) -> Tensor:
    return torch.from_numpy(np.frombuffer(content, np.uint8))
