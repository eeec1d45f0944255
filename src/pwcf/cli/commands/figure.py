"""``pwcf figure`` and ``pwcf table``: figures and tables of runs, for papers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pwcf._common.text import printable
from pwcf.cli.console import CommandError, Trust, console, table
from pwcf.cli.summaries import all_runs, parse_eps

if TYPE_CHECKING:
    from pwcf.analysis import Trace
    from pwcf.report.registry import Choices
    from pwcf.runs import RecordedRun

ALL = "all"
FIGURE_ENDINGS = ("pdf", "png", "svg")
TABLE_ENDINGS = ("tex", "md", "csv")
TOGETHER = 16
"""samples that are searched again at once: between these the progress moves"""

Kind = Annotated[str | None, typer.Argument(metavar="KIND", help="What to make; --list tells the kinds.")]
Runs = Annotated[list[Path] | None, typer.Argument(help="Folders of runs.", metavar="RUN...")]
Out = Annotated[
    Path | None,
    typer.Option("-o", "--out", help="File to write, .pdf, .png or .svg; of all: a folder. It is written over."),
]
TableOut = Annotated[
    Path | None,
    typer.Option("-o", "--out", help="File to write, .tex, .md or .csv. It is written over. Default: print Markdown."),
]
Eps = Annotated[
    str | None,
    typer.Option(
        help="radii, sweep, classes, agreement: numbers or fractions with commas, 0.1,8/255, or by metric, "
        "l1=12,linf=8/255. Default of radii: those of max-loss runs; of sweep: those that papers use."
    ),
]
Sample = Annotated[
    int | None,
    typer.Option(
        help="perturbations, trajectories: a sample by its place in the data. Default: the first that serves."
    ),
]
Samples = Annotated[int, typer.Option(min=1, help="best-found: so many attacked samples are searched again.")]
By = Annotated[str, typer.Option(help="termination: passes or seconds.")]
Budget = Annotated[int | None, typer.Option(min=1, help="best-found: passes, drawn as a line.")]
Data = Annotated[
    str | None, typer.Option(help="perturbations, magnitudes: where the data are now, if they have moved.")
]
List = Annotated[bool, typer.Option("--list", help="List the kinds, a line each.")]


def add_to(app: typer.Typer) -> None:
    app.command("figure", help="Draw a figure of runs: PDF, PNG or SVG. pwcf figure --list tells the kinds.")(_figure)
    app.command("table", help="Make a table of runs: LaTeX, Markdown or CSV. pwcf table --list tells the kinds.")(
        _table
    )


def _figure(
    kind: Kind = None,
    runs: Runs = None,
    out: Out = None,
    eps: Eps = None,
    sample: Sample = None,
    samples: Samples = 50,
    by: By = "passes",
    budget: Budget = None,
    data: Data = None,
    trust: Trust = False,
    list_kinds: List = False,
) -> None:
    from pwcf.report.figures import save
    from pwcf.report.registry import FIGURES, Choices

    about = {name: each.about for name, each in FIGURES.items()}
    if list_kinds:
        _print_kinds({**about, ALL: "every kind that applies, but those that search again, and every table"})
        return
    name = _known(kind, [*about, ALL])
    _check_out(out, name)
    assert out is not None
    choices = Choices(parse_eps(eps), sample, samples, by, budget, data, partial(_search_again, trust=trust))
    named = _named(runs or [], needed=name != "loss-clipping")
    if name == ALL:
        _write_all(named, out, choices)
        return
    try:
        save(FIGURES[name].draw(named, choices), out)
    except (ValueError, ImportError, OSError) as error:
        raise CommandError(str(error)) from error
    typer.echo(str(out))


def _table(
    kind: Kind = None,
    runs: Runs = None,
    out: TableOut = None,
    eps: Eps = None,
    list_kinds: List = False,
) -> None:
    from pwcf.report.registry import TABLES, Choices

    about = {name: each.about for name, each in TABLES.items()}
    if list_kinds:
        _print_kinds(about)
        return
    name = _known(kind, list(about))
    _check_ending(out, TABLE_ENDINGS)
    try:
        made = TABLES[name].make(_named(runs or []), Choices(parse_eps(eps)))
        if out is None:
            typer.echo(printable("\n".join(made.markdown())))
            return
        made.save(out)
    except (ValueError, OSError) as error:
        raise CommandError(str(error)) from error
    typer.echo(str(out))


def _write_all(named: dict[str, RecordedRun], out: Path, choices: Choices) -> None:
    from pwcf.report import write_figures

    try:
        written = write_figures(named, out, choices)
    except (ValueError, ImportError, OSError) as error:
        raise CommandError(str(error)) from error
    typer.echo(f"{out}: {len(written.files)} files")
    for name, reason in written.left_out.items():
        typer.echo(printable(f"left out: {name} ({reason})"))


def _known(kind: str | None, kinds: Sequence[str]) -> str:
    if kind is None or kind not in kinds:
        found = "nothing" if kind is None else repr(kind)
        raise CommandError(f"KIND: expected one of {', '.join(kinds)}; found {found}")
    return kind


def _check_out(out: Path | None, kind: str) -> None:
    if out is None:
        raise CommandError("-o: expected " + ("a folder" if kind == ALL else "a file") + " to write, found nothing")
    if kind != ALL:
        _check_ending(out, FIGURE_ENDINGS)
    elif out.exists() and not out.is_dir():
        raise CommandError(f"-o: expected a folder, {out} is a file")


def _check_ending(out: Path | None, endings: Sequence[str]) -> None:
    if out is not None and out.suffix.lower().lstrip(".") not in endings:
        raise CommandError(f"-o: expected a file that ends in .{', .'.join(endings)}; found {out}")


def _named(paths: Sequence[Path], needed: bool = True) -> dict[str, RecordedRun]:
    from pwcf.analysis import name_runs
    from pwcf.runs import load_run

    if needed and not paths:
        raise CommandError("RUN...: expected folders of runs, found none")
    return name_runs(load_run(path) for path in all_runs(paths))


def _print_kinds(about: dict[str, str]) -> None:
    shown = table(["kind", "what it shows"], [[name, text] for name, text in about.items()])
    shown.columns[1].justify = "left"
    console().print(shown)


def _search_again(run: RecordedRun, samples: Sequence[int], trust: bool) -> dict[str, list[Trace]]:
    """``analysis.retrace``, said before and watched where somebody looks."""
    from rich.console import Console
    from rich.progress import Progress

    from pwcf.analysis import attacks_name, retrace

    what = f"{len(samples)} sample(s), {attacks_name(run)}, {run.header.budget} passes each"
    typer.echo(f"searching again: {what}", err=True)
    found: dict[str, list[Trace]] = {}
    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task("searching again", total=len(samples))
        for first in range(0, len(samples), TOGETHER):
            some = samples[first : first + TOGETHER]
            for name, traces in retrace(run, some, trust=trust).items():
                found.setdefault(name, []).extend(traces)
            progress.advance(task, len(some))
    return found
