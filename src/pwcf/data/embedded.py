"""The images that come with the package."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from pwcf import zoo
from pwcf.data.arrays import ArraySource
from pwcf.data.source import DataError

PREFIX, NAME = "zoo", "fashion-mnist"


@dataclass(frozen=True)
class Held:
    """An array in memory: there are 160 kilobytes of it."""

    array: Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    @property
    def kind(self) -> str:
        return str(self.array.dtype).removeprefix("torch.")

    def piece(self, start: int, stop: int) -> Tensor:
        return self.array[start:stop].clone()


def open_embedded(name: str, bounds: tuple[float, float]) -> ArraySource:
    if name != NAME:
        raise DataError(f"{PREFIX}:{name}: expected {PREFIX}:{NAME}, the only images of the zoo, found {name!r}")
    images, labels = zoo.stored_images()
    source = ArraySource(f"{PREFIX}:{NAME}", Held(images), Held(labels), bounds)
    source.classes = list(zoo.CLASSES)
    return source
