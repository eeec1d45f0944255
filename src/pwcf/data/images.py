"""Images become arrays: orientation, channels, resize and crop, all as torchvision's usual steps do them."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pwcf._common.files import kind_of_file
from pwcf._common.optional import import_optional
from pwcf._common.text import one_line
from pwcf.data.source import DataError

GREY = ("1", "L", "LA")
ORIENTATION, QUARTER_TURNS = 0x0112, (5, 6, 7, 8)  # the EXIF tag, and its values for images turned by 90 degrees

T = TypeVar("T")


@dataclass(frozen=True)
class ResizeCrop:
    """The resize and the centre crop that bring every image to one size."""

    resize: int | tuple[int, int] | None = None
    crop: int | None = None

    def __post_init__(self) -> None:
        pair = isinstance(self.resize, tuple) and len(self.resize) == 2
        sides: tuple[object, ...] = self.resize if pair else (self.resize,)  # type: ignore[assignment]
        if self.resize is not None and not all(map(_is_side, sides)):
            raise DataError(
                f"resize: expected pixels of the shorter side, or (height, width), >= 1, found {self.resize!r}"
            )
        if self.crop is not None and not _is_side(self.crop):
            raise DataError(f"crop: expected pixels of a side >= 1, found {self.crop!r}")

    @property
    def about(self) -> str:
        """For the record; empty where nothing is done."""
        steps = []
        if isinstance(self.resize, tuple):
            steps.append(f"resized to {self.resize[0]}x{self.resize[1]}")
        elif self.resize is not None:
            steps.append(f"shorter side resized to {self.resize}")
        if self.crop is not None:
            steps.append(f"centre crop {self.crop}")
        return ", ".join(steps)

    def size_before_crop(self, height: int, width: int) -> tuple[int, int]:
        """Height and width of an image after the resize."""
        if self.resize is None:
            return height, width
        if isinstance(self.resize, tuple):
            return self.resize
        longer = int(self.resize * max(height, width) / min(height, width))  # rounded down, as torchvision does
        return (longer, self.resize) if width <= height else (self.resize, longer)

    def final_size(self, where: str, height: int, width: int) -> tuple[int, int]:
        """Height and width of an image after resize and crop."""
        before = self.size_before_crop(height, width)
        if self.crop is None:
            return before
        if self.crop > min(before):
            raise DataError(
                f"{where}: expected at least {self.crop} pixels a side to crop, found {before[0]}x{before[1]} "
                "(height x width); give a smaller crop or a larger resize"
            )
        return self.crop, self.crop


@dataclass(frozen=True)
class ImageHeader:
    """What is known of an image without decoding it: the size it is shown in, and whether it is grey."""

    height: int
    width: int
    grey: bool


def read_header(where: str, image: Any) -> ImageHeader:
    """The size and colours of an opened image, without decoding it as long as the file allows that."""
    _check_depth(where, image.mode)
    if image.format == "TIFF":  # versions of Pillow differ in whether its size is that before turning it or after
        image = import_optional("PIL.ImageOps", where, "images", error=DataError).exif_transpose(image)
        return ImageHeader(image.height, image.width, image.mode in GREY)
    # Of a PNG without EXIF in front Pillow would decode everything to look for it at the end; read() will see it.
    known = image.format != "PNG" or "exif" in image.info
    width, height = image.size
    if known and image.getexif().get(ORIENTATION) in QUARTER_TURNS:
        width, height = height, width
    return ImageHeader(height, width, image.mode in GREY)


def to_pixels(where: str, image: Any, channels: int, transform: ResizeCrop) -> NDArray[np.uint8]:
    """The pixels of an image, turned as its EXIF data says, resized and cropped: (channels, height, width)."""
    turning = import_optional("PIL.ImageOps", where, "images", error=DataError)
    _check_depth(where, image.mode)
    image = turning.exif_transpose(image)
    # A colour that counts as transparent is alpha too, and conversions would look at it.
    image.info.pop("transparency", None)
    image = image.convert("L" if channels == 1 else "RGB")
    height, width = transform.final_size(where, image.height, image.width)
    if transform.resize is not None:
        before = transform.size_before_crop(image.height, image.width)
        image = image.resize(before[::-1], pillow(where).Resampling.BILINEAR)
    if transform.crop is not None:
        # Python's rounding of halves to even is torchvision's too.
        top, left = round((image.height - height) / 2), round((image.width - width) / 2)
        image = image.crop((left, top, left + width, top + height))
    pixels = np.array(image, dtype=np.uint8).reshape(height, width, channels)
    return pixels.transpose(2, 0, 1)


def with_open_image(where: str, file: Path | bytes, use: Callable[[str, Any], T]) -> T:
    """What ``use`` makes of the opened file, or of its content; an error where that fails."""
    library = pillow(where)  # outside: a missing library is no damaged file
    if isinstance(file, Path) and file.exists() and not file.is_file():  # a pipe would be waited for
        raise DataError(f"{where}: expected a file, found {kind_of_file(file.stat().st_mode)}; take it out")
    try:
        with library.open(io.BytesIO(file) if isinstance(file, bytes) else file) as image:
            return use(where, image)
    except (DataError, MemoryError):
        raise
    # Anything: on damaged files Pillow's decoders fail in a dozen ways.
    except Exception as error:
        raise unreadable_image(where, error) from error


def unreadable_image(where: str, error: Exception) -> DataError:
    """The error for a file that is no image, or a damaged one."""
    return DataError(
        f"{where}: no readable image, or one that was cut short ({one_line(error)}); replace it or take it out"
    )


def pillow(where: str) -> Any:
    """The module PIL.Image, or an error that says what to install."""
    return import_optional("PIL.Image", where, "images", error=DataError)


def _check_depth(where: str, mode: str) -> None:
    # Pillow would clip these to 255 without a word.
    if mode in ("I", "F") or mode.startswith("I;"):
        raise DataError(
            f"{where}: expected 8 bits a channel, found Pillow's mode {mode} (16 or 32 bits); convert it to 8 bits, "
            "or give all images as floats in an npz file"
        )


def _is_side(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
