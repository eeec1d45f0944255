"""Summaries of runs as commands show them, and the runs that paths on a command line stand for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from pwcf._common.text import first_few, parse_fraction
from pwcf._common.usual_eps import eps_for
from pwcf._common.wording import (
    class_text,
    clean_text,
    eps_text,
    gain_text,
    largest_loss_text,
    nearest_text,
    number_text,
    radius_text,
    robust_text,
    share_text,
    status_text,
    sweep_text,
)
from pwcf.cli.console import CommandError, console, safe, table
from pwcf.runs import Header, RunFolder, RunSummary, find_runs, header_from, summarize
from pwcf.runs.summary import COLUMNS, earlier_text

# Of which a summary gives the names.
CLASSES = 4
Runs = Annotated[list[Path], typer.Argument(help="Folders of runs, or of benchmarks.", metavar="RUN...")]


def all_runs(paths: Sequence[Path]) -> list[Path]:
    """The runs that paths on a command line stand for."""
    return [run for path in paths for run in find_runs(path)]


def parse_eps(text: str | None) -> dict[str, list[float]]:
    """The eps of ``--eps`` by metric, "" for all of them: ``0.1,8/255``, or ``l1=12,linf=8/255``."""
    found: dict[str, list[float]] = {}
    for part in text.split(",") if text else []:
        metric, equals, value = part.rpartition("=")
        number = parse_fraction(value)
        if not 0 <= number < math.inf or (equals and not metric.strip()):
            raise CommandError(f"--eps: expected numbers or fractions like 8/255, or l1=12; found {part.strip()!r}")
        found.setdefault(metric.strip(), []).append(number)
    return found


def summary_of(path: Path, eps: Mapping[str, Sequence[float]] | None = None) -> tuple[Header, RunSummary]:
    """The header of a run's folder, and the summary of what is there so far.

    Args:
        path: of the folder.
        eps: by metric, at which a min-radius run tells its robust accuracy; default: the usual ones.
    """
    folder = RunFolder(path)
    header = header_from(folder.header(), str(path))
    return header, summarize(header, folder.rows(list(COLUMNS)), eps_for(eps or {}, header.settings.metric) or None)


def print_summary(header: Header, summary: RunSummary) -> None:
    """Print a summary for a person."""
    out, targeted = console(), header.settings.targeted
    whole = f"{summary.samples} samples"
    if summary.done < summary.samples:
        whole = f"{summary.done} of {summary.samples} samples so far (run its command again to go on)"
    drawn = f" of every class in turn (seed {header.settings.seed})" if header.settings.order == "balanced" else ""
    lines = [
        ["question", summary.question],
        ["model", f"{header.model.spec} ({header.model.fingerprint[:12]})"],
        ["data", f"{header.data.spec} ({header.data.fingerprint[:12]})"],
        ["samples", f"{whole}{drawn}, {clean_text(summary.clean_accuracy, targeted)}"],
        ["found and verified", f"{summary.found} of {summary.attacked} attacked"],
    ]
    if header.classes:
        lines.insert(3, ["classes", first_few((f"{i} {name}" for i, name in enumerate(header.classes)), CLASSES)])
    if header.earlier:
        lines.append(["continued from", earlier_text(header)])
    if summary.robust_accuracy is not None:
        lines.append([robust_text(targeted), share_text(summary.robust_accuracy)])
    elif summary.attacked:
        lines.append(["radius", radius_text(summary.radius, summary.found, summary.attacked)])
    if summary.robust_at:
        told = sweep_text(summary.robust_at, summary.eps, header.settings.metric)
        lines.append([robust_text(targeted), told])
    if summary.near:
        lines.append(["not broken", nearest_text(summary.near)])
    if summary.largest_loss:
        told = largest_loss_text(summary.largest_loss, header.settings.loss, targeted)
        lines.append(["" if summary.near else "not broken", told])
    if summary.gain is not None:
        lines.append(["evidence", gain_text(summary.gain)])
    if worst_and_best := summary.extremes:
        worst, best = (class_text(some, summary.robust_accuracy is not None, targeted) for some in worst_and_best)
        lines.append(["by class", f"worst {worst}; best {best}"])
    lines.append(["status", status_text(summary.status, targeted)])
    lines.append(["found by", ", ".join(f"{name} {count}" for name, count in summary.best.items()) or "nobody"])
    passes = f"{summary.passes:.0f} passes per attacked sample, " if summary.attacked else ""
    lines.append(["cost", f"{passes}{summary.seconds:.1f} s of work"])
    if summary.attacked and summary.metric_passes:
        lines.append(["distance", f"{summary.metric_passes:.0f} passes of its network per attacked sample"])
    shown = table(["", ""], lines)
    shown.show_header = False
    shown.columns[0].style, shown.columns[1].justify = "bold", "left"
    out.print(shown)
    for sentence in summary.warnings:
        out.print(f"[yellow]warning[/yellow] {safe(sentence)}")


def print_classes(header: Header, summary: RunSummary) -> None:
    """Print a line for every class of a run."""
    asked = header.settings
    max_loss = summary.robust_accuracy is not None
    last = ["robust accuracy"] if max_loss else ["median radius", *(f"at {eps_text(eps)}" for eps in summary.eps)]
    lines = []
    for each in summary.classes:
        radii = [number_text(each.median), *map(share_text, each.robust_at)]
        values = [share_text(each.robust_accuracy)] if max_loss else radii
        found = f"{each.found} of {each.attacked}"
        lines.append([each.name, str(each.samples), share_text(each.clean_accuracy), found, *values])
    heads = [
        "wanted class" if asked.targeted else "class",
        "samples",
        "not yet" if asked.targeted else "clean",
        "found",
    ]
    console().print(table([*heads, *last], lines))
    if summary.robust_at:
        console().print(f"at ...: robust accuracy within this {asked.metric} eps, upper bounds")
