"""The content of a cell's file: a header and a row for every sample."""

from __future__ import annotations

import platform
from dataclasses import dataclass

import torch
from torch import Tensor

from pwcf._common.status import Status
from pwcf.evaluation import Run
from pwcf.records.cell import Cell

SCHEMA = 1
"""Of the files. Another number is another meaning: such files are not read."""


class RecordError(Exception):
    """A file that cannot be used, in a sentence: which file, which field, what was expected."""


@dataclass(frozen=True)
class Made:
    """How a cell came about. Of no influence on what it means, so it need not be as asked."""

    about: str
    """the attack: implementation and settings"""
    pwcf: str
    torch: str
    python: str
    threads: int
    batch: int
    seconds: float
    cpu_seconds: float
    warnings: tuple[str, ...]

    @classmethod
    def here(
        cls, about: str, version: str, batch: int, seconds: float, cpu_seconds: float, warnings: tuple[str, ...]
    ) -> Made:
        """By this process, with this version of pwcf."""
        machine = str(torch.__version__), platform.python_version(), torch.get_num_threads()
        return cls(about, version, *machine, batch, seconds, cpu_seconds, warnings)


@dataclass(frozen=True)
class Header:
    """What a file says before its rows."""

    cell: Cell
    images: int
    """how many were asked of the zoo"""
    seed: int
    data: str
    """digest of the images, labels and weights: cells of one net with another digest are about something else"""
    made: Made


@dataclass(frozen=True)
class Record:
    """A cell's answers, one for each of n samples."""

    header: Header
    status: tuple[Status, ...]
    adversarial: Tensor
    """(n,) bool, verified"""
    radius: Tensor
    """(n,) float64; inf where nothing was found, 0 where the net is wrong as it is"""
    forward: Tensor
    """(n,) int64"""
    backward: Tensor
    """(n,) int64"""
    stationarity: Tensor
    """(n,) float64; NaN where there is nothing to judge"""
    attack: tuple[str, ...]
    """(n,) who found the point"""

    @property
    def cell(self) -> Cell:
        return self.header.cell

    @property
    def right(self) -> Tensor:
        """(n,) bool: classified correctly as they are."""
        wrong = (Status.ALREADY_MISCLASSIFIED, Status.NONFINITE)
        return torch.tensor([status not in wrong for status in self.status], dtype=torch.bool)

    @property
    def passes(self) -> Tensor:
        """(n,) what the budget counts."""
        return self.forward + self.backward


def record_of(header: Header, run: Run) -> Record:
    """What an evaluation found, checked against the budget: beyond it nothing is comparable."""
    spent = int(run.passes.total.max()) if len(run.status) else 0
    if spent > header.cell.budget:
        raise RecordError(f"{header.cell}: {spent} passes were spent on a sample, more than the budget")
    return Record(
        header,
        tuple(run.status),
        run.adversarial.cpu(),
        run.radius.double().cpu(),
        run.passes.forward.cpu(),
        run.passes.backward.cpu(),
        run.evidence.stationarity.double().cpu(),
        tuple(run.attack),
    )


def check_asked(record: Record, place: str, images: int, seed: int, data: str | None = None) -> None:
    """Whether a file is about what is asked now; ``data`` where the net has been loaded. RecordError if not."""
    header = record.header
    asked = {"images": (header.images, images), "seed": (header.seed, seed)}
    if data is not None:
        asked["data"] = header.data, data  # type: ignore[assignment]
    for field, (found, expected) in asked.items():
        if found != expected:
            meaning = " (the zoo gives other images, labels or weights than then)" if field == "data" else ""
            raise RecordError(f"{place}: field {field} is {found!r}, asked is {expected!r}{meaning}")
