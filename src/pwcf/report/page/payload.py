"""Runs as one document for the page: every number is made here, the page only shows them."""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from pwcf._common.status import Status
from pwcf.analysis import RunsLike, cross_metric, eps_text, metric_name, model_name, question_name
from pwcf.report.page import headline, panels
from pwcf.report.page.gallery import SAMPLES, Gallery, are_images, make_gallery, note_on, order_of
from pwcf.report.page.runs import PageRun, images_of, json_number, load_runs, several_data_sets, tones
from pwcf.runs import Header
from pwcf.runs.originals import OriginalImages
from pwcf.runs.summary import earlier_text, json_safe, question_of


@dataclass(frozen=True)
class Payload:
    """What a page shows."""

    content: dict[str, Any]
    remarks: list[str]
    """what is missing, and why"""


def payload_of(
    runs: RunsLike,
    *,
    title: str | None = None,
    data: str | None = None,
    gallery: int | None = None,
    eps: panels.Asked | None = None,
    room: Callable[[dict[str, Any]], int] | None = None,
) -> Payload:
    """What a page about these runs shows; see ``write_page``.

    Args:
        runs, title, data, gallery, eps: as for ``write_page``.
        room: from the content without samples, how many bytes these may take.
    """
    loaded = load_runs(runs)
    originals, order = OriginalImages(data), order_of(loaded)
    made = make_gallery(loaded, order, SAMPLES if gallery is None else gallery, originals)
    asked = eps or {}
    content = _content(loaded, title, asked, originals.remarks)
    if room is not None:
        made = made.within(order, room(json_safe(_filled(content, loaded, asked, None))))
    return Payload(json_safe(_filled(content, loaded, asked, made)), originals.remarks)


def _content(runs: Sequence[PageRun], title: str | None, eps: panels.Asked, remarks: list[str]) -> dict[str, Any]:
    """All but the gallery."""
    return {
        "title": title or _title(runs),
        "made": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "by": f"pwcf {version('pwcf')}",
        "runs": [
            {
                "name": each.name,
                "series": each.series,
                "tone": tone,
                "question": each.run.header.settings.question,
                "metric": metric_name(each.run),
                "asked": question_name(each.run),
                "model": model_name(each.run),
                "eps": each.run.header.settings.eps,
                "targeted": each.targeted,
                "complete": each.run.complete,
                "pictures": are_images(each.run.header.shape),
                "note": note_on(each.run.header.shape),
                "warnings": each.run.warnings,
                "overview": headline.overview(each),
                "attacks": panels.contributions(each),
                "provenance": provenance(each),
            }
            for each, tone in zip(runs, tones(runs), strict=True)
        ],
        "cards": headline.cards(runs),
        "sweeps": panels.sweep_panels(runs, eps),
        "classes": panels.class_panels(runs, eps),
        "curves": panels.curve_panels(runs),
        "sparsity": panels.sparsity_panels(runs),
        "passes": panels.passes_panel(runs),
        "gain": panels.gain_panel(runs),
        "statuses": panels.statuses(runs),
        "agreements": panels.agreements(runs),
        "cross": _cross(runs),
        "tables": panels.registry_tables(runs),
        "images": images_of(runs),
        "remarks": remarks,
        "status_sentences": {status.value: status.sentence for status in Status},
    }


def _filled(
    content: dict[str, Any], runs: Sequence[PageRun], eps: panels.Asked, gallery: Gallery | None
) -> dict[str, Any]:
    """The content with a gallery, and with the samples that panels name."""
    shown = gallery or Gallery([], [{} for _ in runs], {}, 0)
    return {
        **content,
        "runs": [{**run, "rows": rows} for run, rows in zip(content["runs"], shown.rows, strict=True)],
        "radii": panels.radius_panels(runs, shown.number, eps),
        "samples": shown.samples,
        "shown": len(shown.samples),
        "total": shown.total,
    }


def _title(runs: Sequence[PageRun]) -> str:
    models = list(dict.fromkeys(model_name(each.run) for each in runs))
    if len(models) > 3:
        return f"Robustness of {len(models)} models"
    return f"Robustness of {' and '.join([', '.join(models[:-1]), models[-1]] if len(models) > 1 else models)}"


def _cross(runs: Sequence[PageRun]) -> list[dict[str, Any]]:
    """For each set of data with more than one model and more than one metric; targeted runs for themselves."""
    tables = []
    several = several_data_sets(runs)
    for data, targeted in dict.fromkeys((each.data, each.targeted) for each in runs):
        found = cross_metric({each.name: each.run for each in runs if (each.data, each.targeted) == (data, targeted)})
        if len(found.models) > 1 and len(found.metrics) > 1:
            tables.append({
                "data": ", ".join(filter(None, (data if several else "", "targeted" if targeted else ""))),
                "models": found.models,
                "metrics": found.metrics,
                "median": json_number(found.median.tolist()),
                "relative": json_number(found.relative().tolist()),
            })  # fmt: skip
    return tables


def provenance(each: PageRun) -> dict[str, Any]:
    """Where a run comes from: the question, model, data, packages and machine, and the command to do it again."""
    header = each.run.header
    made = header.made
    packages = made.get("packages", {})
    pairs = {
        "folder": each.path.resolve().name if each.path else "none, the run was in memory",
        "question": question_of(header),
        "model": header.model.about,
        "model digest": header.model.fingerprint,
        "data": header.data.about,
        "data digest": header.data.fingerprint,
        "samples": f"{len(each.run.status)} of {header.samples}",
        "input shape": " x ".join(map(str, header.shape)),
        "distance measured by": header.metric,
        "budget": f"{header.budget} passes a sample",
        "continued from": earlier_text(header),
        "seed": str(header.settings.seed),
        "created": str(made.get("created", "")),
        "packages": ", ".join(f"{name} {version}" for name, version in packages.items()),
        "Python": str(made.get("python", "")),
        "machine": ", ".join(str(made[name]) for name in ("system", "processor") if made.get(name)),
        "cores, threads": f"{made.get('cores', '?')}, {made.get('threads', '?')}",
    }
    return {
        "pairs": [[name, value] for name, value in pairs.items() if value],
        "attacks": [[one.name, one.about] for one in header.attacks],
        "settings": [[name, _value(value)] for name, value in vars(header.settings).items()],
        "command": command_of(header),
    }


def command_of(header: Header) -> str:
    """The command that was given, as it may be given again; of a run from Python the call."""
    if header.saved:
        return call_of(header)
    words = ["pwcf", "run"]
    for name, value in header.asked.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(option)
        elif value is not None and value is not False:
            words += [option, shlex.quote(_value(value))]
    return " ".join(words)


def call_of(header: Header) -> str:
    """The call of ``evaluate`` whose answers these are."""
    asked = header.settings
    words = [
        repr(asked.metric),
        *([f"eps={eps_text(asked.eps)}, loss={asked.loss!r}"] if asked.eps is not None else []),
    ]
    words += ["targeted=True"] if asked.targeted else []
    question = "MinRadius" if asked.eps is None else "MaxLoss"
    given = f"attacks={asked.attacks}, budget={asked.budget}, stop={asked.stop!r}, seed={asked.seed}"
    return f"pwcf.evaluate(model, images, labels, pwcf.{question}({', '.join(words)}), {given})"


def _value(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ",".join(str(one) for one in value)
    return "" if value is None else str(value)
