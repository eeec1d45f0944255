"""Summaries of runs as commands show them, and the runs that paths on a command line stand for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from pwcf._common.wording import gain_text, nearest_text, share_text
from pwcf.cli.console import console, safe, table
from pwcf.runs import Header, RunFolder, RunSummary, find_runs, header_from, summarize
from pwcf.runs.summary import COLUMNS, earlier_text

Runs = Annotated[list[Path], typer.Argument(help="Folders of runs, or of benchmarks.", metavar="RUN...")]


def all_runs(paths: Sequence[Path]) -> list[Path]:
    """The runs that paths on a command line stand for."""
    return [run for path in paths for run in find_runs(path)]


def summary_of(path: Path) -> tuple[Header, RunSummary]:
    """The header of a run's folder, and the summary of what is there so far."""
    folder = RunFolder(path)
    header = header_from(folder.header(), str(path))
    return header, summarize(header, folder.rows(list(COLUMNS)))


def print_summary(header: Header, summary: RunSummary) -> None:
    """Print a summary for a person."""
    out = console()
    whole = f"{summary.samples} samples"
    if summary.done < summary.samples:
        whole = f"{summary.done} of {summary.samples} samples so far (run its command again to go on)"
    lines = [
        ["question", summary.question],
        ["model", f"{header.model.spec} ({header.model.fingerprint[:12]})"],
        ["data", f"{header.data.spec} ({header.data.fingerprint[:12]})"],
        ["samples", f"{whole}, clean accuracy {share_text(summary.clean_accuracy)}"],
        ["found and verified", f"{summary.found} of {summary.attacked} attacked"],
    ]
    if header.earlier:
        lines.append(["continued from", earlier_text(header)])
    if summary.robust_accuracy is not None:
        lines.append(["robust accuracy", share_text(summary.robust_accuracy)])
    if summary.near:
        lines.append(["not broken", nearest_text(summary.near)])
    if summary.radius:
        lines.append(["radius", ", ".join(f"{name} {value:.4g}" for name, value in summary.radius.items())])
    if summary.gain is not None:
        lines.append(["evidence", gain_text(summary.gain)])
    lines.append(["status", ", ".join(f"{name} {count}" for name, count in summary.status.items())])
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
