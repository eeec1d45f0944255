"""Files of arrays, npz and safetensors: read slice by slice, and never unpickled."""

from __future__ import annotations

import lzma
import math
import shutil
import tempfile
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import safetensors
from torch import Tensor

from pwcf._common.text import one_line
from pwcf.data.arrays import ArraySource, MappedArray, choose_names
from pwcf.data.checks import check_file
from pwcf.data.source import DataError

# npz


# What stands before a member's bytes: a fixed part, then a name and an extra part whose lengths it gives here.
FIXED, NAME_LENGTH, EXTRA_LENGTH = 30, slice(26, 28), slice(28, 30)
ENCRYPTED = 0x1
COPIED_AT_ONCE = 2**20


def open_npz(path: Path, bounds: tuple[float, float]) -> ArraySource:
    """NumPy's npz file, a zip of arrays: mapped where it is stored, unpacked to a temporary file where compressed."""
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

    def mapped(self, file: Path | IO[bytes], offset: int) -> MappedArray:
        order = "F" if self.fortran else "C"
        return MappedArray(np.memmap(file, self.dtype, "r", offset, self.shape, order))  # type: ignore[call-overload]


def _map(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> MappedArray:
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


def _unpacked(path: Path, info: zipfile.ZipInfo, header: _Header, packed: IO[bytes]) -> MappedArray:
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


# safetensors


@dataclass(frozen=True)
class SafetensorsArray:
    """An array of a safetensors file."""

    part: Any  # what get_slice gives; the library names no type for it
    shape: tuple[int, ...]
    dtype: str

    def rows(self, start: int, stop: int) -> Tensor:
        # A copy: the library hands out memory that later slices share, so writing to one would change the data.
        rows: Tensor = self.part[start:stop].clone()
        return rows


def open_safetensors(path: Path, bounds: tuple[float, float]) -> ArraySource:
    """A safetensors file."""
    check_file(path)
    try:
        file: Any = safetensors.safe_open(path, framework="pt")
        images, labels = choose_names(path.name, file.keys())
        return ArraySource(path.name, _tensor(file, images), _tensor(file, labels), bounds)
    except (safetensors.SafetensorError, OSError) as error:
        raise DataError(
            f"{path}: no safetensors file, or one that was cut short or damaged ({one_line(error)}); "
            "copy or download it again"
        ) from error


def _tensor(file: Any, name: str) -> SafetensorsArray:
    part = file.get_slice(name)
    shape = tuple(part.get_shape())
    # No rows are enough to know their dtype; a single number has no rows to leave out.
    dtype = (part[0:0] if shape else file.get_tensor(name)).dtype
    return SafetensorsArray(part, shape, str(dtype).removeprefix("torch."))
