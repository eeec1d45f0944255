"""What the rest of the package sees of a data set, and the one error of everything that is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from pwcf._common.errors import UserError


class DataError(UserError):
    """What is wrong with the data, in one line that says what to do."""


class Source(Protocol):
    """Inputs and labels, read piece by piece: the whole set never sits in memory."""

    # Properties, as nobody has to be able to set them.
    @property
    def about(self) -> str:
        """One line for the record; never a path of this machine."""

    @property
    def names(self) -> Sequence[str] | None:
        """File names of the samples, where there are any."""

    @property
    def classes(self) -> list[str] | None:
        """Class names, where known."""

    @property
    def remarks(self) -> Sequence[str]:
        """What was decided about the data that a user should know, in sentences."""

    def __len__(self) -> int:
        """How many samples there are."""

    def labels(self, index: Sequence[int]) -> list[int]:
        """The labels of some samples, without their images."""

    def fingerprint(self, count: int) -> str:
        """SHA-256 in hex of what the first ``count`` samples are."""

    def read(self, start: int, stop: int) -> tuple[Tensor, Tensor]:
        """Images (b, ...) as float32 and labels (b,) as int64 of samples start to stop - 1, checked."""
