"""``pwcf show``: the summary of a run, or of all runs of a benchmark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from pwcf._common.wording import share_text
from pwcf.cli.console import Json, console, print_json, table
from pwcf.runs import Header, RunFolder, RunSummary, find_runs, header_from, summarize
from pwcf.runs.summary import COLUMNS

Runs = Annotated[list[Path], typer.Argument(help="Folders of runs, or of benchmarks.", metavar="RUN...")]


def add_to(app: typer.Typer) -> None:
    app.command("show", help="Show what a run, or every run of a benchmark, has found so far.")(_command)


def _command(runs: Runs, json: Json = False) -> None:
    found = {path: {run: summary_of(run) for run in find_runs(path)} for path in runs}
    if json:
        told = [{"run": str(run), **each.to_json()} for some in found.values() for run, (_, each) in some.items()]
        print_json(told[0] if len(told) == 1 else told)
        return
    for path, some in found.items():
        console().print(f"[bold]{escape(str(path))}[/bold]")
        if list(some) == [path]:
            print_summary(*some[path])
        else:
            _print_runs(path, some)


def all_runs(paths: Sequence[Path]) -> list[Path]:
    """The runs that paths on a command line stand for."""
    return [run for path in paths for run in find_runs(path)]


def summary_of(path: Path) -> tuple[Header, RunSummary]:
    folder = RunFolder(path)
    header = header_from(folder.header(), str(path))
    return header, summarize(header, folder.rows(list(COLUMNS)))


def _print_runs(path: Path, runs: Mapping[Path, tuple[Header, RunSummary]]) -> None:
    """A line for each, with the mean radius, or the robust accuracy within an eps."""
    lines = []
    for run, (_, each) in runs.items():
        mean = f"{each.radius['mean']:.4g}" if each.radius else "none"
        done = str(each.done) if each.done == each.samples else f"{each.done} of {each.samples}"
        lines.append([
            str(run.relative_to(path)), done, share_text(each.clean_accuracy), f"{each.found} of {each.attacked}",
            mean if each.robust_accuracy is None else share_text(each.robust_accuracy),
            f"{each.passes:.0f}" if each.attacked else "", f"{each.seconds:.1f}",
        ])  # fmt: skip
    heads = ["run", "samples", "clean", "found", "result", "passes", "s"]
    out = console()
    out.print(table(heads, lines))
    out.print("\nresult: mean radius of those found; where an eps was asked, robust accuracy.")


def print_summary(header: Header, summary: RunSummary) -> None:
    """For a person."""
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
    if summary.robust_accuracy is not None:
        lines.append(["robust accuracy", share_text(summary.robust_accuracy)])
    if summary.radius:
        lines.append(["radius", ", ".join(f"{name} {value:.4g}" for name, value in summary.radius.items())])
    if summary.stationarity is not None:
        left = f"{summary.stationarity:.2%}"
        lines.append(["evidence", f"{left} of the radius could go if linear models held (median)"])
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
        out.print(f"[yellow]warning[/yellow] {escape(sentence)}")
