"""NumPy's npz files: a zip of arrays. They are mapped, not loaded, and never unpickled."""

from __future__ import annotations

import lzma
import math
import mmap
import shutil
import tempfile
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from pwcf.data.arrays import ArraySource, choose_names
from pwcf.data.files import check_file
from pwcf.data.source import DataError
from pwcf.data.wording import one_line

# What stands before a member's bytes: a fixed part, then a name and an extra part whose lengths it gives here.
FIXED, NAME_LENGTH, EXTRA_LENGTH = 30, slice(26, 28), slice(28, 30)
ENCRYPTED = 0x1
COPIED_AT_ONCE = 2**20


@dataclass(frozen=True)
class Mapped:
    """An array whose pages the system brings in and drops as they are needed."""

    array: np.memmap[Any, np.dtype[Any]]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    @property
    def kind(self) -> str:
        return self.array.dtype.name

    def piece(self, start: int, stop: int) -> Tensor:
        # In this machine's byte order and in C order, however it is stored: torch knows nothing else.
        native = self.array.dtype.newbyteorder("=")
        copied = torch.from_numpy(np.array(self.array[start:stop], dtype=native, order="C"))
        if hasattr(mmap, "MADV_DONTNEED"):  # pages that were read would else count as this process's memory
            self.array._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]
        return copied


def open_npz(path: Path, bounds: tuple[float, float]) -> ArraySource:
    check_file(path)
    try:
        with zipfile.ZipFile(path) as archive:
            # np.savez adds the ending.
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            images, labels = choose_names(path.name, members)
            return ArraySource(
                path.name, _map(path, archive, members[images]), _map(path, archive, members[labels]), bounds
            )
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError) as error:
        raise DataError(
            f"{path}: no npz file, or one that was cut short or damaged ({one_line(error)}); copy or download it again"
        ) from error
    except (OSError, NotImplementedError) as error:
        raise DataError(f"{path}: cannot be read: {one_line(error)}; check the file") from error


@dataclass(frozen=True)
class _Header:
    """What stands before the numbers of an npy file."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    length: int

    def mapped(self, file: Path | IO[bytes], offset: int) -> Mapped:
        order = "F" if self.fortran else "C"
        return Mapped(np.memmap(file, self.dtype, "r", offset, self.shape, order))  # type: ignore[call-overload]


def _map(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Mapped:
    if info.flag_bits & ENCRYPTED:
        raise DataError(f"{path}: array {info.filename} is encrypted; save it without a password")
    with archive.open(info) as packed:
        header = _header(path, info, packed)
        if info.compress_type == zipfile.ZIP_STORED:
            return header.mapped(path, _start(path, info) + header.length)
        return _unpacked(path, info, header, packed)


def _header(path: Path, info: zipfile.ZipInfo, file: IO[bytes]) -> _Header:
    try:
        version = np.lib.format.read_magic(file)
        # A third version exists, for columns with names, which are no images.
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        shape, fortran, dtype = read(file)
    except (ValueError, KeyError) as error:
        raise DataError(
            f"{path}: {info.filename} is no NumPy array ({one_line(error)}); save the file with np.savez"
        ) from error
    if dtype.hasobject:
        raise DataError(
            f"{path}: {info.filename} holds Python objects, which only pickle can load and pickle runs code; "
            "save it as an array of numbers"
        )
    length = file.tell()
    if math.prod(shape) * dtype.itemsize != info.file_size - length:
        raise DataError(
            f"{path}: {info.filename}: expected {math.prod(shape) * dtype.itemsize} bytes for shape {shape} of "
            f"{dtype}, found {info.file_size - length}; the file is damaged, copy or download it again"
        )
    if math.prod(shape) == 0:
        # An empty array cannot be mapped; there is nothing it could be good for either.
        raise DataError(f"{path.name}: {info.filename}: expected at least one sample, found shape {shape}")
    return _Header(shape, fortran, dtype, length)


def _start(path: Path, info: zipfile.ZipInfo) -> int:
    """Where in the file the member's bytes begin. Its own header says so; the zip's directory does not."""
    with path.open("rb") as file:
        file.seek(info.header_offset)
        local = file.read(FIXED)
    name, extra = (int.from_bytes(local[part], "little") for part in (NAME_LENGTH, EXTRA_LENGTH))
    start = info.header_offset + FIXED + name + extra
    # A page mapped beyond the end of a file does not raise when it is read: it kills the process.
    if start + info.file_size > path.stat().st_size:
        raise DataError(f"{path}: {info.filename} was cut short or damaged; copy or download it again")
    return start


def _unpacked(path: Path, info: zipfile.ZipInfo, header: _Header, packed: IO[bytes]) -> Mapped:
    """The array in a temporary file, which goes when the mapping does: it never has a name that could stay behind."""
    try:
        with tempfile.TemporaryFile(prefix="pwcf-") as whole:
            shutil.copyfileobj(packed, whole, COPIED_AT_ONCE)
            whole.flush()
            return header.mapped(whole, 0)
    except OSError as error:
        raise DataError(
            f"{path}: {info.filename} needs {info.file_size / 2**20:.0f} MiB in {tempfile.gettempdir()} to unpack: "
            f"{one_line(error.strerror or error)}; set TMPDIR to a larger disk, or save with np.savez, uncompressed"
        ) from error
