"""``pwcf show``: the figures of a run, or of all runs of a benchmark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from pwcf.cli.console import Json, console, print_json, table
from pwcf.runs import Figures, Header, RunFolder, figures_of, find_runs, header_from
from pwcf.runs.figures import COLUMNS

Runs = Annotated[list[Path], typer.Argument(help="Folders of runs, or of benchmarks.", metavar="RUN...")]


def add_to(app: typer.Typer) -> None:
    app.command("show", help="Show what a run, or every run of a benchmark, has found so far.")(_command)


def _command(runs: Runs, json: Json = False) -> None:
    found = {path: {run: figures(run) for run in find_runs(path)} for path in runs}
    if json:
        told = [{"run": str(run), **each.to_json()} for some in found.values() for run, (_, each) in some.items()]
        print_json(told[0] if len(told) == 1 else told)
        return
    for path, some in found.items():
        console().print(f"[bold]{escape(str(path))}[/bold]")
        if list(some) == [path]:
            print_figures(*some[path])
        else:
            _print_runs(path, some)


def all_runs(paths: Sequence[Path]) -> list[Path]:
    """The runs that paths on a command line stand for."""
    return [run for path in paths for run in find_runs(path)]


def figures(path: Path) -> tuple[Header, Figures]:
    folder = RunFolder(path)
    header = header_from(folder.header(), str(path))
    return header, figures_of(header, folder.rows(list(COLUMNS)))


def _print_runs(path: Path, runs: Mapping[Path, tuple[Header, Figures]]) -> None:
    """A line for each, with the mean radius, or the robust accuracy within an eps."""
    lines = []
    for run, (_, each) in runs.items():
        mean = f"{each.radius['mean']:.4g}" if each.radius else "none"
        done = str(each.done) if each.done == each.samples else f"{each.done} of {each.samples}"
        lines.append([
            str(run.relative_to(path)), done, f"{each.clean_accuracy:.1%}", f"{each.found} of {each.attacked}",
            mean if each.robust_accuracy is None else f"{each.robust_accuracy:.1%}", f"{each.passes:.0f}",
            f"{each.seconds:.1f}",
        ])  # fmt: skip
    heads = ["run", "samples", "clean", "found", "result", "passes", "s"]
    out = console()
    out.print(table(heads, lines))
    out.print("\nresult: mean radius of those found; where an eps was asked, robust accuracy.")


def print_figures(header: Header, figures: Figures) -> None:
    """For a person."""
    out = console()
    whole = f"{figures.samples} samples"
    if figures.done < figures.samples:
        whole = f"{figures.done} of {figures.samples} samples so far (run its command again to go on)"
    lines = [
        ["question", figures.question],
        ["model", f"{header.model.spec} ({header.model.fingerprint[:12]})"],
        ["data", f"{header.data.spec} ({header.data.fingerprint[:12]})"],
        ["samples", f"{whole}, clean accuracy {figures.clean_accuracy:.1%}"],
        ["found and verified", f"{figures.found} of {figures.attacked} attacked"],
    ]
    if figures.robust_accuracy is not None:
        lines.append(["robust accuracy", f"{figures.robust_accuracy:.1%}"])
    if figures.radius:
        lines.append(["radius", ", ".join(f"{name} {value:.4g}" for name, value in figures.radius.items())])
    if figures.stationarity is not None:
        left = f"{figures.stationarity:.2%}"
        lines.append(["evidence", f"{left} of the radius could go if linear models held (median)"])
    lines.append(["status", ", ".join(f"{name} {count}" for name, count in figures.status.items())])
    lines.append(["found by", ", ".join(f"{name} {count}" for name, count in figures.best.items()) or "nobody"])
    lines.append(["cost", f"{figures.passes:.0f} passes per attacked sample, {figures.seconds:.1f} s of work"])
    if figures.metric_passes:
        lines.append(["distance", f"{figures.metric_passes:.0f} passes of its network per attacked sample"])
    shown = table(["", ""], lines)
    shown.show_header = False
    shown.columns[0].style, shown.columns[1].justify = "bold", "left"
    out.print(shown)
    for sentence in figures.warnings:
        out.print(f"[yellow]warning[/yellow] {escape(sentence)}")
