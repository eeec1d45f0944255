"""``pwcf show``: the figures of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from pwcf.cli.console import Json, console, print_json, table
from pwcf.runs import Figures, Header, RunFolder, figures_of, header_from
from pwcf.runs.figures import COLUMNS

Runs = Annotated[list[Path], typer.Argument(help="Folders of runs.", metavar="RUN...")]


def add_to(app: typer.Typer) -> None:
    app.command("show", help="Show what a run found so far.")(_command)


def _command(runs: Runs, json: Json = False) -> None:
    read = [figures(path) for path in runs]
    if json:
        told = [{"run": str(path), **each.to_json()} for path, (_, each) in zip(runs, read, strict=True)]
        print_json(told[0] if len(told) == 1 else told)
        return
    for path, (header, each) in zip(runs, read, strict=True):
        console().print(f"[bold]{escape(str(path))}[/bold]")
        print_figures(header, each)


def figures(path: Path) -> tuple[Header, Figures]:
    folder = RunFolder(path)
    header = header_from(folder.header(), str(path))
    return header, figures_of(header, folder.rows(list(COLUMNS)))


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
