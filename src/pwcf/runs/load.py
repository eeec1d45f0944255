"""A run from its folder: the object that ``evaluate`` returns, the rows beside it, and the images it was about."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from pwcf._common import statistics
from pwcf._common.status import Status
from pwcf._common.usual_eps import usual_eps
from pwcf.evaluation import Contribution, Run
from pwcf.metrics import Custom, Metric, as_metric
from pwcf.models import Passes
from pwcf.runs.folder import READS, RunFolder
from pwcf.runs.header import Header, header_from
from pwcf.runs.resolve import problem_of
from pwcf.runs.settings import RunError
from pwcf.runs.shard import tensors_of
from pwcf.runs.summary import warnings_of
from pwcf.verify import AnswerEvidence

if TYPE_CHECKING:
    import pandas
    import pyarrow


@dataclass(frozen=True, repr=False)
class RecordedRun(Run):
    """A run with header and rows: of a folder, or as ``Run.save`` would write one."""

    header: Header
    rows: pyarrow.Table
    """every column of every sample"""
    index: Tensor
    """(n,) the samples' places in the data: all of them, unless the run was stopped"""
    folder: Path | None = field(default=None, kw_only=True)
    """where it lies; None in memory"""

    def to_pandas(self) -> pandas.DataFrame:
        """Every column of every sample; ``attacked`` and ``found`` say over which samples statistics are."""
        return self.rows.to_pandas().assign(**self._masks())

    def select(self, rows: Tensor) -> RecordedRun:
        """The answers about some of the samples (m,), by their places."""
        places = self if len(self.x_adv) else replace(self, x_adv=self.x_adv.new_zeros((len(self.index), 0)))
        chosen = Run.select(places, rows)
        assert isinstance(chosen, RecordedRun)
        x_adv = chosen.x_adv if len(self.x_adv) else self.x_adv
        return replace(chosen, x_adv=x_adv, rows=self.rows.take(rows.numpy()), index=self.index[rows])

    def _told_eps(self) -> list[float]:
        asked = self.header.settings
        radii = self.radius.numpy()[statistics.attacked(self._status_values)]
        return asked.accuracy_at or usual_eps(asked.metric, self.header.shape, asked.bounds, [radii])

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
    table, points = _read(folder, header, tensors)

    def column(name: str, absent: float = np.nan) -> Tensor:
        if name not in table.column_names:  # an older schema
            return torch.full((len(table),), absent, dtype=torch.float64)
        return torch.from_numpy(table[name].to_numpy().copy())

    x_adv = torch.cat(points) if points else torch.zeros((0, *header.shape))
    contributions = [
        Contribution(
            each.name, each.about, each.black_box, column(f"radius:{each.name}"), column(f"passes:{each.name}", 0),
            float(column(f"seconds:{each.name}", 0.0).sum()),
        )
        for each in header.attacks
    ]  # fmt: skip
    evidence = AnswerEvidence(
        column("gain"), column("agreement", 0), column("searches", 0), column("stationarity"), column("violation")
    )
    return RecordedRun(
        problem_of(header.settings, _metric(header.settings.metric)),
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
        column("loss"),
        column("nearest"),
        header,
        table,
        column("index"),
        folder=folder.path,
    )


def _read(folder: RunFolder, header: Header, tensors: bool) -> tuple[pyarrow.Table, list[Tensor]]:
    """Rows and the points that belong to them."""
    for _ in range(READS):
        table = folder.rows()
        try:
            return table, [each["x_adv"] for each in tensors_of(folder, header, table)] if tensors else []
        except RunError:
            # The process at work there may have replaced some, with their rows: these are to be read again.
            names = [name for name in ("index", "revision") if name in table.column_names]
            if folder.rows(names).equals(table.select(names)):
                raise
    raise RunError(f"{folder.path}: points are replaced too fast to be read; try again")


def _metric(name: str) -> Metric:
    """By name; a run can be read where its metric cannot be made, for want of weights or of the user's own code."""
    try:
        return as_metric(name)
    except (ValueError, ImportError, FileNotFoundError):

        def unknown(reference: Tensor, candidate: Tensor) -> Tensor:
            raise RunError(f"metric {name}: cannot be measured here; what the run recorded of it is in its rows")

        unknown.__name__ = name
        return Custom(unknown)
