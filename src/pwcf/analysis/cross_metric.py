"""Trained on one metric, evaluated on others: models by rows, metrics by columns."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from pwcf.analysis.data_sets import topics
from pwcf.analysis.of_runs import NamedRuns, model_name
from pwcf.analysis.radii import quantiles_of
from pwcf.evaluation import Run
from pwcf.problems import MinRadius
from pwcf.runs import RecordedRun


@dataclass(frozen=True)
class CrossMetric:
    """Median radii."""

    models: list[str]
    metrics: list[str]
    median: Tensor
    """(models, metrics) over all attacked samples; NaN where there is no run, inf where most samples stand"""

    def relative(self, to: int = 0) -> Tensor:
        """(models, metrics) divided by one model's: what training bought, and where it bought nothing."""
        return self.median / self.median[to : to + 1]


def cross_metric(runs: NamedRuns) -> CrossMetric:
    """Of all min-radius runs among these; robustness in one metric says little of another.

    Data have columns of their own where there are several, and so have targeted runs.
    Of several runs of one model in one metric that with the smallest median counts. Models are called by their own
    names where the runs are recorded, else by the runs'.
    """
    chosen: dict[tuple[str, str], float] = {}
    names: dict[str, str] = {}
    columns = topics(runs)
    for name, run in runs.items():
        if isinstance(run.problem, MinRadius):
            key = (_model(name, run, names), columns[name])
            found = quantiles_of(run, (0.5,))[0.5]
            # A run that attacked nothing says nothing.
            if key not in chosen or found < chosen[key] or math.isnan(chosen[key]):
                chosen[key] = found
    models = list(dict.fromkeys(model for model, _ in chosen))
    metrics = list(dict.fromkeys(metric for _, metric in chosen))
    median = torch.full((len(models), len(metrics)), torch.nan, dtype=torch.float64)
    for (model, metric), value in chosen.items():
        median[models.index(model), metrics.index(metric)] = value
    return CrossMetric(models, metrics, median)


def _model(name: str, run: Run, names: dict[str, str]) -> str:
    """Models are the same if their content is, not if they are called the same; ``names`` has those seen so far."""
    if not isinstance(run, RecordedRun):
        return name
    content = run.header.model.fingerprint
    if content not in names:
        again = [known for known in names.values() if known.partition(" (")[0] == model_name(run)]
        names[content] = f"{model_name(run)} ({len(again) + 1})" if again else model_name(run)
    return names[content]
