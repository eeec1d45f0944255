"""Files of arrays, npz and safetensors: read slice by slice, and never unpickled."""

from __future__ import annotations

import json
import lzma
import math
import shutil
import tempfile
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any, Literal

import numpy as np
import safetensors
import torch
from torch import Tensor

from pwcf._common.text import brief, first_few, one_line
from pwcf.data.arrays import SMALL, ArraySource, FileArray, MemoryArray, NumpyArray, StoredArray, choose_names
from pwcf.data.checks import check_file, check_layout
from pwcf.data.source import DataError

# npz


# What stands before a member's bytes: a fixed part, then a name and an extra part whose lengths it gives here.
FIXED, NAME_LENGTH, EXTRA_LENGTH = 30, slice(26, 28), slice(28, 30)
ENCRYPTED = 0x1
COPIED_AT_ONCE = 2**20
# Of a shape; a product of a few of them is still a number that can be written.
LARGEST_SIDE = 2**62


def open_npz(path: Path, bounds: tuple[float, float]) -> ArraySource:
    """NumPy's npz file, a zip of arrays: mapped where it is stored, unpacked to a temporary file where compressed."""
    check_file(path)
    try:
        with zipfile.ZipFile(path) as archive:
            # np.savez adds the ending.
            names = [info.filename.removesuffix(".npy") for info in archive.infolist()]
            if twice := sorted({name for name in names if names.count(name) > 1}):
                raise DataError(f"{path}: expected every array once, found {first_few(twice)} twice; save it anew")
            members = dict(zip(names, archive.infolist(), strict=True))
            chosen = [members[name] for name in choose_names(path.name, members)]
            # Before anything is unpacked: a small file may unpack to more than the disk holds.
            images, labels = (_read_header(path, archive, info) for info in chosen)
            check_layout(path.name, images.shape, images.dtype.name, labels.shape, labels.dtype.name)
            return ArraySource(
                path.name, _open(path, archive, chosen[0], images), _open(path, archive, chosen[1], labels), bounds
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

    @property
    def size(self) -> int:
        """Bytes of all numbers."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def order(self) -> Literal["C", "F"]:
        return "F" if self.fortran else "C"

    def mapped(self, file: IO[bytes], offset: int) -> NumpyArray:
        return NumpyArray(np.memmap(file, self.dtype, "r", offset, self.shape, self.order))

    def decode(self, content: bytearray) -> Tensor:
        numbers = np.frombuffer(content, self.dtype)
        return torch.from_numpy(numbers.astype(self.dtype.newbyteorder("="), copy=False))


def _read_header(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> _Header:
    if info.flag_bits & ENCRYPTED:
        raise DataError(f"{path}: array {info.filename} is encrypted; save it without a password")
    with archive.open(info) as packed:
        return _header(path, info, packed)


def _open(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo, header: _Header) -> StoredArray:
    """Small arrays are copied; of large ones that are stored as they are, rows are read; others are unpacked."""
    stored = info.compress_type == zipfile.ZIP_STORED
    start = _start(path, info) if stored else 0  # also that the file is as long as it says
    if header.size > SMALL and stored and not header.fortran:
        itemsize = header.dtype.itemsize
        return FileArray(path, start + header.length, header.shape, header.dtype.name, itemsize, header.decode)
    with archive.open(info) as packed:
        packed.read(header.length)
        if header.size > SMALL:
            return _unpacked(path, info, header, packed)
        numbers = np.frombuffer(packed.read(), header.dtype)
        return NumpyArray(numbers.reshape(header.shape, order=header.order))


def _header(path: Path, info: zipfile.ZipInfo, file: IO[bytes]) -> _Header:
    try:
        version = np.lib.format.read_magic(file)
        # A third version exists, for columns with names, which are no images.
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        shape, fortran, dtype = read(file)
    except (ValueError, KeyError, SyntaxError, TokenError, RecursionError, MemoryError) as error:
        raise DataError(
            f"{path}: {info.filename} is no NumPy array ({one_line(error)}); save the file with np.savez"
        ) from error
    if dtype.hasobject:
        raise DataError(
            f"{path}: {info.filename} holds Python objects, which only pickle can load and pickle runs code; "
            "save it as an array of numbers"
        )
    length = file.tell()
    if not all(0 <= side < LARGEST_SIDE for side in shape):
        raise DataError(
            f"{path}: {info.filename}: expected a shape of numbers >= 0, found {brief(shape)}; the file is damaged, "
            "copy or download it again"
        )
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


def _unpacked(path: Path, info: zipfile.ZipInfo, header: _Header, packed: IO[bytes]) -> NumpyArray:
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


def open_safetensors(path: Path, bounds: tuple[float, float]) -> ArraySource:
    """A safetensors file."""
    check_file(path)
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            images, labels = (_tensor(path, file, name) for name in choose_names(path.name, file.keys()))
        return ArraySource(path.name, images, labels, bounds)
    except (safetensors.SafetensorError, OSError) as error:
        raise DataError(
            f"{path}: no safetensors file, or one that was cut short or damaged ({one_line(error)}); "
            "copy or download it again"
        ) from error


def _tensor(path: Path, file: Any, name: str) -> StoredArray:
    """Small ones are copied. The library maps files, so of large ones rows are read here."""
    part = file.get_slice(name)
    shape = tuple(part.get_shape())
    # No rows are enough to know their dtype; a single number has no rows to leave out.
    dtype: torch.dtype = (part[0:0] if shape else file.get_tensor(name)).dtype
    if math.prod(shape) * dtype.itemsize <= SMALL:
        return MemoryArray(file.get_tensor(name).clone())
    with path.open("rb") as raw:  # a length, then names with the places of their bytes, which the library has checked
        length = int.from_bytes(raw.read(8), "little")
        begin, _ = json.loads(raw.read(length))[name]["data_offsets"]

    def decode(content: bytearray) -> Tensor:
        return torch.frombuffer(content, dtype=dtype) if content else torch.zeros(0, dtype=dtype)

    return FileArray(path, 8 + length + begin, shape, str(dtype).removeprefix("torch."), dtype.itemsize, decode)
