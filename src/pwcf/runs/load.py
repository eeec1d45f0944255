"""A run from its folder: the object that ``evaluate`` returns, the rows beside it, and the images it was about."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from pwcf._common.status import Status
from pwcf.data import DataError
from pwcf.evaluation import Contribution, Run
from pwcf.metrics import Custom, Metric, as_metric
from pwcf.models import Passes
from pwcf.problems import MaxLoss, MinRadius, Problem
from pwcf.runs.figures import warnings_of
from pwcf.runs.folder import RunFolder
from pwcf.runs.header import Header, header_from
from pwcf.runs.resolve import open_source
from pwcf.runs.settings import RunError, Settings
from pwcf.runs.shard import digest, tensors_of
from pwcf.verify import AnswerEvidence

if TYPE_CHECKING:
    import pandas
    import pyarrow


@dataclass(frozen=True)
class RecordedRun(Run):
    """A run that was recorded."""

    header: Header
    rows: pyarrow.Table
    """every column of every sample"""
    index: Tensor
    """(n,) the samples' places in the data: all of them, unless the run was stopped"""

    def to_pandas(self) -> pandas.DataFrame:
        """Every column of every sample."""
        return self.rows.to_pandas()

    def select(self, rows: Tensor) -> RecordedRun:
        """The answers about some of the samples (m,), by their places."""
        places = self if len(self.x_adv) else replace(self, x_adv=self.x_adv.new_zeros((len(self.index), 0)))
        chosen = Run.select(places, rows)
        assert isinstance(chosen, RecordedRun)
        x_adv = chosen.x_adv if len(self.x_adv) else self.x_adv
        return replace(chosen, x_adv=x_adv, rows=self.rows.take(rows.numpy()), index=self.index[rows])

    @property
    def complete(self) -> bool:
        return len(self.index) == self.header.samples


def load_run(path: str | os.PathLike[str], *, tensors: bool = True) -> RecordedRun:
    """Load a run from its folder, as far as it has come.

    Args:
        path: its folder.
        tensors: False leaves the adversarial points on disk: ``x_adv`` is then empty.

    Returns:
        What ``pwcf.evaluate`` returned when it was recorded, with header and rows.
    """
    folder = RunFolder(path)
    header = header_from(folder.header(), str(folder.path))
    table = folder.rows()

    def column(name: str, absent: float = np.nan) -> Tensor:
        if name not in table.column_names:  # an older schema
            return torch.full((len(table),), absent, dtype=torch.float64)
        return torch.from_numpy(table[name].to_numpy().copy())

    points = [each["x_adv"] for each in tensors_of(folder, header, table)] if tensors else []
    x_adv = torch.cat(points) if points else torch.zeros((0, *header.shape))
    contributions = [
        Contribution(
            each.name, each.about, each.black_box, column(f"radius:{each.name}"), column(f"passes:{each.name}", 0),
            float(column(f"seconds:{each.name}", 0.0).sum()),
        )
        for each in header.attacks
    ]  # fmt: skip
    evidence = AnswerEvidence(column("stationarity"), column("violation"), column("shrink"), column("excess"))
    return RecordedRun(
        _problem(header.settings),
        column("radius"),
        column("adversarial"),
        x_adv,
        [Status(value) for value in table["status"].to_pylist()],
        evidence,
        Passes(column("forward"), column("backward")),
        Passes(column("metric_forward"), column("metric_backward")),
        table["attack"].to_pylist(),
        float(column("seconds").sum()),
        warnings_of(header, table),
        contributions,
        torch.zeros(len(table), 0),  # logits are not kept on disk
        torch.zeros(len(table), 0),
        header,
        table,
        column("index"),
    )


def _problem(settings: Settings) -> Problem:
    metric = _metric(settings.metric)
    if settings.eps is None:
        return MinRadius(metric, targeted=settings.targeted)
    return MaxLoss(metric, settings.eps, settings.loss, targeted=settings.targeted)


def _metric(name: str) -> Metric:
    """By name; a run can be read where its metric cannot be made, for want of weights or of the user's own code."""
    try:
        return as_metric(name)
    except (ValueError, ImportError, FileNotFoundError):

        def unknown(reference: Tensor, candidate: Tensor) -> Tensor:
            raise RunError(f"metric {name}: cannot be measured here; what the run recorded of it is in its rows")

        unknown.__name__ = name
        return Custom(unknown)


def original_images(run: RecordedRun, data: str | None = None) -> Tensor:
    """Read the images of a run again: they are not in its folder. Every image is checked against its digest.

    Args:
        run: as ``pwcf.load_run`` gives it.
        data: where the data are now, if not where they were.

    Returns:
        (n, ...) the images in the order of the run's rows.

    Raises:
        RunError: they cannot be opened, or an image is not the one that was attacked.
    """
    settings = run.header.settings if data is None else replace(run.header.settings, data=data)
    source = open_source(settings)
    images: list[Tensor] = []
    try:
        for first, last in _stretches(run.index.tolist(), settings.chunk):
            images += source.read(first, last)[0]
    except DataError as error:
        raise RunError(str(error)) from error
    if not images:
        return torch.zeros((0, *run.header.shape))
    for index, image, known in zip(run.index.tolist(), images, run.rows["image"].to_pylist(), strict=True):
        if digest(image) != known:
            raise RunError(f"{settings.data}: sample {index} is not the image that was attacked; give data=, its place")
    return torch.stack(images)


def _stretches(indices: list[int], longest: int) -> list[tuple[int, int]]:
    """(first, last + 1) of neighbours that can be read at once."""
    found: list[tuple[int, int]] = []
    for index in indices:
        if found and index == found[-1][1] and index - found[-1][0] < longest:
            found[-1] = found[-1][0], index + 1
        else:
            found.append((index, index + 1))
    return found
