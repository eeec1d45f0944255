"""safetensors files, read slice by slice."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
from torch import Tensor

from pwcf.data.arrays import ArraySource, choose_names
from pwcf.data.files import check_file
from pwcf.data.source import DataError
from pwcf.data.wording import one_line


@dataclass(frozen=True)
class Sliced:
    """An array of a safetensors file."""

    part: Any  # what get_slice gives; the library names no type for it
    shape: tuple[int, ...]
    kind: str

    def piece(self, start: int, stop: int) -> Tensor:
        # A copy: the library hands out memory that later slices share, so writing to one would change the data.
        rows: Tensor = self.part[start:stop].clone()
        return rows


def open_safetensors(path: Path, bounds: tuple[float, float]) -> ArraySource:
    check_file(path)
    try:
        file: Any = safetensors.safe_open(path, framework="pt")
        images, labels = choose_names(path.name, file.keys())
        return ArraySource(path.name, _sliced(file, images), _sliced(file, labels), bounds)
    except (safetensors.SafetensorError, OSError) as error:
        raise DataError(
            f"{path}: no safetensors file, or one that was cut short or damaged ({one_line(error)}); "
            "copy or download it again"
        ) from error


def _sliced(file: Any, name: str) -> Sliced:
    part = file.get_slice(name)
    shape = tuple(part.get_shape())
    # No rows are enough to know their dtype; a single number has no rows to leave out.
    kind = (part[0:0] if shape else file.get_tensor(name)).dtype
    return Sliced(part, shape, str(kind).removeprefix("torch."))
