"""Runs as one document for the page: every number is made here, the page only shows them."""

from __future__ import annotations

import datetime
import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pwcf._common.status import Status
from pwcf.analysis import cross_metric, data_names, model_name
from pwcf.report.page import attacks, headline, panels
from pwcf.report.page.gallery import SAMPLES, Named, gallery_of
from pwcf.report.page.infinity import sent
from pwcf.report.page.labels import labels_of, question_of
from pwcf.report.page.originals import Originals
from pwcf.report.page.pictures import are_images, note_on
from pwcf.report.page.provenance import provenance
from pwcf.runs import RunError, load_run
from pwcf.runs.figures import plain


@dataclass(frozen=True)
class Payload:
    content: dict[str, Any]
    remarks: list[str]
    """what is missing, and why"""


def payload_of(
    folders: Sequence[str | os.PathLike[str]],
    *,
    title: str | None = None,
    data: str | None = None,
    gallery: int | None = None,
) -> Payload:
    """See ``write_page``."""
    if not folders:
        raise RunError("runs: expected at least one folder, found none")
    # Points stay on disk until the gallery has chosen some: a large run does not fit into memory.
    loaded = [load_run(folder, tensors=False) for folder in folders]
    about = data_names({str(i): run for i, run in enumerate(loaded)}).values()
    labels = labels_of(loaded, [Path(folder).resolve().name for folder in folders])
    runs = [
        Named(*label, run, Path(folder), of)
        for label, run, folder, of in zip(labels, loaded, folders, about, strict=True)
    ]
    originals = Originals(data)
    shown = gallery_of(runs, SAMPLES if gallery is None else gallery, originals)
    remarks = list(originals.remarks)
    content = {
        "title": title or _title(runs),
        "made": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "by": f"pwcf {version('pwcf')}",
        "runs": [
            {
                "name": each.name,
                "series": each.series,
                "tone": tone,
                "question": each.run.header.settings.question,
                "metric": each.run.problem.metric.name,
                "asked": question_of(each.run),
                "model": model_name(each.run),
                "eps": each.run.header.settings.eps,
                "targeted": each.run.problem.targeted,
                "complete": each.run.complete,
                "pictures": are_images(each.run.header.shape),
                "note": note_on(each.run.header.shape),
                "warnings": each.run.warnings,
                "overview": headline.overview(each),
                "attacks": attacks.contributions(each),
                "provenance": provenance(each),
                "rows": rows,
            }
            for each, tone, rows in zip(runs, tones(runs), shown.rows, strict=True)
        ],
        "cards": headline.cards(runs),
        "curves": panels.curve_panels(runs),
        "radii": panels.radius_panels(runs, shown.number),
        "sparsity": panels.sparsity_panels(runs),
        "passes": panels.passes_panel(runs),
        "stationarity": panels.stationarity_panel(runs),
        "statuses": panels.statuses(runs),
        "agreements": attacks.agreements(runs),
        "cross": _cross(runs),
        "samples": shown.samples,
        "shown": len(shown.samples),
        "total": shown.total,
        "remarks": remarks,
        "status_sentences": {status.value: status.sentence for status in Status},
    }
    return Payload(plain(content), remarks)


ALIKE = 8
"""colours; beyond them lines are dashed too, in two ways"""


def tones(runs: Sequence[Named]) -> list[int]:
    """Numbers of colours: whoever is called the same looks the same in all plots, and nobody else of a plot does."""
    found = [0] * len(runs)
    seen: dict[str, int] = {}
    for members in panels.comparable(runs).values():
        series = list(dict.fromkeys(each.series for _, each in members))
        taken: dict[int, str] = {}
        for name in series:
            if name in seen:
                taken.setdefault(seen[name], name)
        for name in series:
            if name not in taken.values():
                fresh = next((i for i in range(ALIKE) if i not in taken and i not in seen.values()), None)
                free = next(i for i in range(len(series)) if i not in taken) if fresh is None else fresh
                taken[free] = name
        now = {name: i for i, name in taken.items()}
        seen = now | seen
        for i, each in members:
            found[i] = now[each.series]
    return found


def _title(runs: Sequence[Named]) -> str:
    models = list(dict.fromkeys(model_name(each.run) for each in runs))
    if len(models) > 3:
        return f"Robustness of {len(models)} models"
    return f"Robustness of {' and '.join([', '.join(models[:-1]), models[-1]] if len(models) > 1 else models)}"


def _cross(runs: Sequence[Named]) -> list[dict[str, Any]]:
    """For each set of data with more than one model and more than one metric; targeted runs for themselves."""
    tables = []
    several = len({each.data for each in runs}) > 1
    for data, targeted in dict.fromkeys((each.data, each.targeted) for each in runs):
        found = cross_metric({each.name: each.run for each in runs if (each.data, each.targeted) == (data, targeted)})
        if len(found.models) > 1 and len(found.metrics) > 1:
            tables.append({
                "data": ", ".join(filter(None, (data if several else "", "targeted" if targeted else ""))),
                "models": found.models,
                "metrics": found.metrics,
                "median": sent(found.median.tolist()),
                "relative": sent(found.relative().tolist()),
            })  # fmt: skip
    return tables
