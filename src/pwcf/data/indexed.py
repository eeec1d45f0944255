"""Pictures that a library hands out one by one, under numbers."""

from __future__ import annotations

import hashlib
import json
import operator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from pwcf.data import checks
from pwcf.data.arrays import as_inputs
from pwcf.data.pictures import GREY, Frame, as_pixels, pillow_for, unreadable
from pwcf.data.source import DataError
from pwcf.data.wording import sample, size

# Grey or colour is asked of this many pictures, spread over the set: one alone may be the exception.
ASKED = 16


class Items(Protocol):
    """What is known of a library's set."""

    def __len__(self) -> int: ...

    def item(self, index: int) -> tuple[Any, Any]:
        """The picture and its label."""

    def label(self, index: int) -> Any:
        """The label alone, where that is cheaper."""


@dataclass(frozen=True)
class Description:
    """What tells this set from others: its name, which part of it, which version."""

    name: str
    split: str
    revision: str


class IndexedSource:
    """A Source of such pictures. Only those of the piece that is read are decoded."""

    names = None

    def __init__(self, described: Description, items: Items, classes: list[str] | None, frame: Frame) -> None:
        self.classes = classes
        self._items, self._described, self._frame = items, described, frame
        self._where = f"{described.name} ({described.split})"
        if len(items) == 0:
            raise DataError(f"{self._where}: expected at least one sample, found none; choose another split")
        self._channels = 1 if self._all_grey() else 3
        self._shape = self._pixels(0).shape
        steps = f", {frame.about}" if frame.about else ""
        version = f", version {described.revision}" if described.revision else ""
        self.about = f"{self._where}: {len(self)} images, shape {size(self._shape)}{steps}{version}"

    def __len__(self) -> int:
        return len(self._items)

    def read(self, start: int, stop: int) -> tuple[Tensor, Tensor]:
        checks.check_piece(self._where, start, stop, len(self))
        pixels = np.empty((stop - start, *self._shape), dtype=np.uint8)
        labels = []
        for row, index in enumerate(range(start, stop)):
            picture, label = self._item(index)
            one = self._pixels(index, picture)
            if one.shape != self._shape:
                raise DataError(
                    f"{self._where}: images differ in size: sample 0 has shape {size(self._shape)}, sample {index} "
                    f"{size(one.shape)}; give resize and crop to bring them to one size"
                )
            pixels[row] = one
            labels.append(self._number(index, label))
        tensor = torch.tensor(labels, dtype=torch.int64)
        checks.check_labels(self._where, tensor, start)
        return as_inputs(torch.from_numpy(pixels)), tensor

    def fingerprint(self, count: int) -> str:
        """Over what the set is called and its labels: the library answers for the pictures of a version."""
        checks.check_count(self._where, count, len(self))
        named = self._described
        what = [named.name, named.split, named.revision, self._frame.resize, self._frame.crop, self._shape]
        digest = hashlib.sha256(json.dumps(what).encode() + b"\n")
        for index in range(count):
            digest.update(f"{self._number(index, self._items.label(index))}\n".encode())
        return digest.hexdigest()

    def close(self) -> None:
        """Nothing of ours is open."""

    def _all_grey(self) -> bool:
        count = min(len(self), ASKED)
        # The last index too, as sets are often sorted.
        spread = {round(i * (len(self) - 1) / max(1, count - 1)) for i in range(count)}
        return all(self._item(index)[0].mode in GREY for index in sorted(spread))

    def _item(self, index: int) -> tuple[Any, Any]:
        where = f"{self._where}: {sample(index)}"
        try:
            picture, label = self._items.item(index)
        except MemoryError:
            raise
        except Exception as error:  # whatever the library, or its decoder, does on a damaged file
            raise unreadable(where, error) from error
        if not isinstance(picture, pillow_for(where).Image):
            raise DataError(
                f"{where}: expected a picture (PIL.Image), found {type(picture).__name__}; this set is not one of "
                "images with a class each"
            )
        return picture, label

    def _pixels(self, index: int, picture: Any = None) -> np.ndarray[Any, np.dtype[np.uint8]]:
        where = f"{self._where}: {sample(index)}"
        picture = self._item(index)[0] if picture is None else picture
        if self._channels == 1 and picture.mode not in GREY:
            raise DataError(
                f"{where}: expected a grey image like those looked at before, found mode {picture.mode}; export the "
                "set to a folder of images"
            )
        try:
            return as_pixels(where, picture, self._channels, self._frame)
        except (DataError, MemoryError):
            raise
        except Exception as error:
            raise unreadable(where, error) from error

    def _number(self, index: int, label: Any) -> int:
        try:
            return operator.index(label)
        except TypeError:
            raise DataError(
                f"{self._where}: {sample(index)}: expected an integer label, found {label!r}; choose a set with one "
                "class number per image"
            ) from None
