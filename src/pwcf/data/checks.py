"""Mistakes in data that can be seen without a model, each said in one line."""

from __future__ import annotations

import math
import stat
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from pwcf._common.files import kind_of_file
from pwcf._common.text import one_line
from pwcf.data.source import DataError

# Names of dtypes, which NumPy and torch agree on.
EIGHT_BIT = "uint8"
IMAGE_DTYPES = (EIGHT_BIT, "float16", "bfloat16", "float32", "float64")
LABEL_DTYPES = ("uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
# Floats above this that fit into a byte are far more likely 8-bit values than images slightly out of bounds.
LIKELY_8_BIT_ABOVE = 2.0


def sample_name(index: int, names: Sequence[str] | None = None) -> str:
    """How errors refer to a sample."""
    return f"sample {index}" if names is None else f"sample {index} ({names[index]})"


def check_file(path: Path) -> None:
    """Raise where a file is missing, empty, or what a failed download leaves behind."""
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):  # a pipe would never end, a device neither
            raise DataError(f"{path}: expected a file, found {kind_of_file(mode)}; name a regular file")
        with path.open("rb") as file:
            head = file.read(256)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; check the name") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {one_line(error.strerror or error)}; check the file") from error
    if not head:
        raise DataError(f"{path}: expected {path.suffix} data, found an empty file; copy or download it again")
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if text.startswith((b"<!doctype", b"<html", b"<?xml", b"<head")):
        raise DataError(f"{path}: expected {path.suffix} data, found a web page (HTML); download the file itself")
    if text.startswith(b"version https://git-lfs"):
        raise DataError(f"{path}: expected {path.suffix} data, found a Git LFS pointer; fetch it with: git lfs pull")


def check_bounds(bounds: Sequence[float]) -> tuple[float, float]:
    """Smallest and largest pixel as floats, checked."""
    try:
        lower, upper = map(float, bounds)
    except (TypeError, ValueError):
        raise DataError(f"bounds: expected two numbers, lowest and highest pixel, found {bounds!r}") from None
    if not (math.isfinite(lower) and math.isfinite(upper) and lower < upper):
        raise DataError(f"bounds: expected finite numbers, lowest < highest, found ({lower:g}, {upper:g})")
    return lower, upper


def check_eight_bit(where: str, bounds: tuple[float, float]) -> None:
    """Raise unless bounds are 0 to 1, as 8-bit pixels become: with others the model would see the wrong images."""
    if bounds != (0.0, 1.0):
        raise DataError(
            f"{where}: 8-bit images become values 0 to 1, found bounds ({bounds[0]:g}, {bounds[1]:g}); let the model "
            "normalise (mean, std) and keep bounds 0 to 1, or give the images as floats in an npz file"
        )


def check_layout(
    where: str, images: tuple[int, ...], image_dtype: str, labels: tuple[int, ...], label_dtype: str
) -> None:
    """Raise where shapes and dtypes cannot be those of n images (n, ...) and n labels (n,)."""
    if image_dtype not in IMAGE_DTYPES:
        raise DataError(
            f"{where}: images: expected {', '.join(IMAGE_DTYPES)}, found {image_dtype}; store them as one of these"
        )
    if len(images) < 2:
        raise DataError(f"{where}: images: expected shape (n, ...), found {images}; stack one row per sample")
    if label_dtype not in LABEL_DTYPES:
        raise DataError(f"{where}: labels: expected integers, found {label_dtype}; store class numbers as int64")
    if len(labels) != 1:
        hint = "take the argmax of one-hot rows" if len(labels) == 2 and labels[1] > 1 else "flatten them"
        raise DataError(f"{where}: labels: expected shape (n,), found {labels}; {hint}")
    if images[0] != labels[0]:
        raise DataError(
            f"{where}: expected as many labels as images, found {images[0]} images and {labels[0]} labels; "
            "store one label per image"
        )
    if images[0] == 0:
        raise DataError(f"{where}: expected at least one sample, found none; give a set that is not empty")
    if math.prod(images) == 0:
        raise DataError(f"{where}: images: expected at least one entry each, found shape {images}")
    # Wider than deep: (n, 64, 1, 1) are features, (n, 2, 3, 3) tiny images, both rightly channels first.
    if len(images) == 4 and images[3] in (1, 3) and images[1] not in (1, 3) and images[2] > images[3]:
        raise DataError(
            f"{where}: images: expected channels first (n, channels, height, width), found shape {images}, which "
            "looks like channels last; store images.transpose(0, 3, 1, 2)"
        )


def check_pixels(
    where: str, images: Tensor, bounds: tuple[float, float], start: int, names: Sequence[str] | None = None
) -> None:
    """Raise where a pixel is not finite or outside bounds. ``start``: the number of the first of these images."""
    if images.numel() == 0:
        return
    # As float32, like the pixels: 0.3 stored as float32 is no pixel above 0.3.
    lower, upper = torch.tensor(bounds, dtype=images.dtype)
    low, high = torch.aminmax(images)
    if bool((low >= lower) & (high <= upper)):  # false of NaN, which aminmax passes on
        return
    rows = images.flatten(1)
    finite = torch.isfinite(rows)
    if not bool(finite.all()):
        row = int((~finite).any(1).nonzero()[0, 0])
        value = rows[row][~finite[row]][0].item()
        raise DataError(
            f"{where}: {sample_name(start + row, names)}: expected finite pixels, found {value}; "
            "repair this sample or leave it out"
        )
    row = int(((rows < lower) | (rows > upper)).any(1).nonzero()[0, 0])
    hint = "give bounds that hold all pixels, or images before normalisation"
    if float(low) >= 0 and LIKELY_8_BIT_ABOVE < float(high) <= 255 and bounds[1] <= LIKELY_8_BIT_ABOVE:
        hint = "these look like 8-bit values 0 to 255: divide by 255 or store them as uint8"
    raise DataError(
        f"{where}: {sample_name(start + row, names)}: expected pixels within bounds ({bounds[0]:g}, {bounds[1]:g}), "
        f"found {float(rows[row].min()):g} to {float(rows[row].max()):g}; {hint}"
    )


def check_labels(where: str, labels: Tensor, start: int, names: Sequence[str] | None = None) -> None:
    """Raise where one is negative, which is how collections mark samples whose label is withheld."""
    if bool((labels < 0).any()):
        row = int((labels < 0).nonzero()[0, 0])
        raise DataError(
            f"{where}: {sample_name(start + row, names)}: expected a label >= 0, found {int(labels[row])}; give every "
            "sample a class number from 0, or choose a split that has its labels"
        )


def check_range(where: str, start: int, stop: int, length: int) -> None:
    """Raise unless samples start to stop - 1 exist."""
    if not 0 <= start <= stop <= length:
        raise DataError(f"{where}: read: expected 0 <= start <= stop <= {length}, found start {start}, stop {stop}")


def check_count(where: str, count: int, length: int) -> None:
    """Raise unless there are that many samples, and at least one."""
    if not 1 <= count <= length:
        raise DataError(
            f"{where}: count: expected 1 to {length}, the number of samples, found {count}; ask for fewer samples"
        )
