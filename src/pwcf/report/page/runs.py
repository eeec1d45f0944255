"""The runs of a page: what they are called, which of them share a panel, and their colours."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pwcf.analysis import RunLabel, RunsLike, by_topic, data_names, list_runs, metric_name, run_labels
from pwcf.analysis.masks import needs_recording
from pwcf.evaluation import Run
from pwcf.problems import MaxLoss
from pwcf.report.style import is_ours
from pwcf.runs import RecordedRun, RunError, RunLike, load_run, recorded

TONES = 8
"""colours of a page; beyond them lines are dashed too, in two ways"""


@dataclass(frozen=True)
class PageRun:
    """A run with what a page calls it."""

    name: str
    series: str
    """its name among the runs about the same question"""
    run: RecordedRun
    path: Path | None
    """its folder; None of one in memory"""
    data: str
    """what its data is called: the same for runs that share samples, different for all others"""

    @property
    def targeted(self) -> bool:
        return self.run.header.settings.targeted

    @property
    def bounds(self) -> tuple[float, float]:
        lower, upper = self.run.header.settings.bounds
        return lower, upper

    @property
    def max_loss(self) -> bool:
        return isinstance(self.run.problem, MaxLoss)


NumberedRuns = list[tuple[int, PageRun]]
"""runs with their places on the page"""


def load_runs(runs: RunsLike) -> list[PageRun]:
    """Load runs; adversarial points of folders stay on disk until the gallery has chosen some."""
    listed = [needs_recording(recorded(_without_points(each)), "page") for each in list_runs(runs)]
    if not listed:
        raise RunError("runs: expected at least one run or folder, found none")
    data = data_names({str(i): run for i, run in enumerate(listed)}).values()
    folders = [run.folder.resolve().name if run.folder else f"run {i}" for i, run in enumerate(listed, 1)]
    labels = run_labels(listed, folders)
    if isinstance(runs, Mapping):
        labels = [RunLabel(name, name) for name in runs]
    return [PageRun(*label, run, run.folder, of) for label, run, of in zip(labels, listed, data, strict=True)]


def _without_points(run: RunLike) -> Run:
    return run if isinstance(run, Run) else load_run(run, tensors=False)


def several_data_sets(runs: Sequence[PageRun]) -> bool:
    """Whether a page has to say which data a run is about."""
    return len({each.data for each in runs}) > 1


def images_of(runs: Sequence[PageRun]) -> int:
    """How many images the runs are about. One that has several labels, as wanted classes, is several samples."""
    most: Counter[str] = Counter()
    for each in runs:
        rows = each.run.rows
        # The same image with the same label twice in one run is two images of the data.
        seen = Counter(zip(rows["image"].to_pylist(), rows["label"].to_pylist(), strict=True))
        for (image, _), count in seen.items():
            most[image] = max(most[image], count)
    return sum(most.values())


def panel_groups(runs: Sequence[PageRun]) -> dict[tuple[str, str, bool], NumberedRuns]:
    """Runs that share a panel (``analysis.by_topic``), by metric, data where there are several, and if targeted."""
    several = several_data_sets(runs)
    grouped: dict[tuple[str, str, bool], NumberedRuns] = {}
    for names in by_topic({str(i): each.run for i, each in enumerate(runs)}).values():
        members = [(int(name), runs[int(name)]) for name in names]
        first = members[0][1]
        grouped[metric_name(first.run), first.data if several else "", first.targeted] = members
    return grouped


def names_among(runs: Sequence[PageRun]) -> list[str]:
    """Short names, without the question, where these tell the runs apart."""
    seen = Counter(each.series for each in runs)
    return [each.series if seen[each.series] == 1 else each.name for each in runs]


def tones(runs: Sequence[PageRun]) -> list[int]:
    """Numbers of colours: one series has the same in all plots, two series of a plot never. Our own method is first."""
    found = [0] * len(runs)
    seen: dict[str, int] = {}
    for members in panel_groups(runs).values():
        series = sorted(dict.fromkeys(each.series for _, each in members), key=lambda name: not is_ours(name))
        taken: dict[int, str] = {}
        for name in series:
            if name in seen:
                taken.setdefault(seen[name], name)
        for name in series:
            if name not in taken.values():
                fresh = next((i for i in range(TONES) if i not in taken and i not in seen.values()), None)
                free = next(i for i in range(len(series)) if i not in taken) if fresh is None else fresh
                taken[free] = name
        now = {name: i for i, name in taken.items()}
        seen = now | seen
        for i, each in members:
            found[i] = now[each.series]
    return found


def json_number(value: Any) -> Any:
    """A number, or lists of them, for JSON: infinity is "inf", since an infinite radius is not an unknown one."""
    if isinstance(value, list):
        return [json_number(one) for one in value]
    return "inf" if isinstance(value, float) and math.isinf(value) else value


def embedded_json(content: Any) -> str:
    """JSON inside a script element: no character that could end it, in whatever text a run contains."""
    text = json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
