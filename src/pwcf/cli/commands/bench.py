"""``pwcf bench``: networks x metrics x attacks x budgets, each cell a run; the same command again goes on."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pwcf._common.text import printable
from pwcf._common.wording import radius_text, share_text
from pwcf.bench.grid import DEFAULTS, SEVERAL, Cell, make_cells, record_grid
from pwcf.cli.console import INTERRUPTED, Json, print_json, user_code
from pwcf.cli.options import read_config, said, with_options

if TYPE_CHECKING:
    from pwcf.bench.execution import Outcome

HELP = """Compare attacks on networks, at equal budgets.

Every combination of network, metric, attack and budget is a cell: a run in a folder of its own in OUT, \
where each sample costs at most BUDGET forward + backward passes, checks included. With an eps for the metric, \
the robust accuracy within it is measured beside the least radius. An attack that does not support a metric is skipped.

The same command again goes on where it stopped. Several commands may share one OUT. \
[bold]pwcf show[/bold], [bold]verify[/bold] and [bold]report[/bold] take OUT or any of its cells.

In a grid file (TOML or YAML) the options stand under the same names, and each network may have settings of its own:

    metric = ["linf", "l2"]

    \\[nets.small]

    model = "nets.py:small"

    data = "digits.npz"

    eps = {linf = "8/255", l2 = 0.5}

Exit codes: 0 all done, 1 some cells failed, 2 it cannot be done as asked, 130 Ctrl-C.
"""
OUT = "bench"
# So much of a sentence is shown on a line; the run's folder has all of it.
SHORT = 160
# These have a form of their own here.
OWN = ("out", "eps")
HELPS = {
    "question": "min-radius: the nearest misclassified point; max-loss: within eps, for metrics that have one",
    "attacks": "attacks or presets (pwcf attacks), or file.py:name; each is a column of its own",
    "budget": "forward + backward passes a sample",
}

GridFile = Annotated[Path | None, typer.Option("--grid", help="TOML or YAML file with nets and any of the options.")]
Out = Annotated[Path, typer.Option("--out", help="The benchmark's folder.")]
Eps = Annotated[
    list[str] | None,
    typer.Option(
        "--eps",
        help="Ask max-loss within this, too: linf=8/255. Default: none, or those of the file's nets. Repeatable.",
        metavar="METRIC=EPS",
        rich_help_panel="The question",
    ),
]
NoReport = Annotated[bool, typer.Option("--no-report", help="Write no page, figures and tables in the end.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress within a cell.")]


def add_to(app: typer.Typer) -> None:
    own = {
        "grid": (GridFile, None), "out": (Out, Path(OUT)), "eps": (Eps, None), "no_report": (NoReport, False),
        "json": (Json, False), "quiet": (Quiet, False),
    }  # fmt: skip
    app.command("bench", help=HELP)(with_options(_command, own, SEVERAL, DEFAULTS, HELPS, without=OWN))


def _command(
    grid: Path | None, out: Path, eps: list[str] | None, no_report: bool, json: bool, quiet: bool, **given: Any
) -> None:
    values = (read_config(grid) if grid is not None else {}) | said(given)

    from pwcf.bench.execution import run_cells
    from pwcf.cli.progress import listeners
    from pwcf.runs.resolve import check_names

    out = out.expanduser()
    cells = make_cells(values, eps or ())
    lines = _Lines(cells, out, as_json=json)
    try:
        # What the user's own code prints is not the result.
        with user_code():
            check_names({cell.metric for cell in cells}, {cell.attack for cell in cells})
            record_grid(cells, out)
            for outcome in run_cells(cells, out, lambda settings: listeners(settings, quiet=quiet or json)):
                lines.add(outcome)
    except KeyboardInterrupt:
        typer.echo(f"pwcf: interrupted; {lines.state()}. The same command goes on", err=True)
        raise typer.Exit(INTERRUPTED) from None
    data = {cell.settings(out).data for cell in cells}
    written = [] if no_report else _report(out, data.pop() if len(data) == 1 else None)
    code = 1 if lines.failed else 0
    if json:
        print_json({"out": str(out), "report": written, "cells": [_as_json(each) for each in lines.outcomes]})
        raise typer.Exit(code)
    lines.end()
    for sentence in written:
        typer.echo(sentence)
    raise typer.Exit(code)


class _Lines:
    """What is told of the cells: a line each while they are worked on, failures again at the end."""

    def __init__(self, cells: list[Cell], out: Path, as_json: bool) -> None:
        self.cells, self.out = cells, out
        # As it is now: while cells are worked on, standard output is taken from the user's own code.
        self.stream = sys.stderr if as_json else sys.stdout
        self.outcomes: list[Outcome] = []
        self._told: set[str] = set()

    @property
    def failed(self) -> list[Outcome]:
        return [each for each in self.outcomes if each.state == "failed"]

    def state(self) -> str:
        done = sum(each.summary is not None for each in self.outcomes)
        skipped = sum(each.state == "skipped" for each in self.outcomes)
        return f"{done} of {len(self.cells) - skipped} cells are complete in {self.out}"

    def add(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        number = f"[{len(self.outcomes)}/{len(self.cells)}] {outcome.cell}"
        if outcome.state == "skipped":
            self._say(f"{number}: skipped, {outcome.reason.partition(': ')[2] or outcome.reason}")
        elif outcome.summary is None:
            self._say(f"{number}: failed, {outcome.reason}; the others go on")
        else:
            there = "there already, " if outcome.state == "kept" else ""
            self._say(f"{number}: {there}{_summary_text(outcome)}{self._left()}")
            for sentence in outcome.summary.warnings:
                if sentence not in self._told:
                    self._told.add(sentence)
                    self._say(f"    warning: {sentence}")

    def end(self) -> None:
        """What failed once more, each reason once for a network's cells, and how many cells there are."""
        reasons: dict[str, list[Outcome]] = {}
        for each in self.failed:
            reasons.setdefault(each.reason, []).append(each)
        for reason, outcomes in reasons.items():
            which = str(outcomes[0].cell) if len(outcomes) == 1 else f"{outcomes[0].cell} and {len(outcomes) - 1} more"
            typer.echo(printable(f"failed: {which}: {reason}"), err=True)
        typer.echo(f"{self.state()}; see them: pwcf show {self.out}")

    def _left(self) -> str:
        """How long the rest takes, by the seconds a pass of the budget has taken so far."""
        rest = self.cells[len(self.outcomes) :]
        done = [each for each in self.outcomes if each.summary is not None]
        spent = sum(each.summary.seconds for each in done if each.summary is not None)
        seconds = spent / sum(each.cell.budget for each in done) * sum(cell.budget for cell in rest)
        if not rest:
            return ""
        shown = f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
        return f"; about {shown if seconds < 5400 else f'{seconds / 3600:.1f} h'} left"

    def _say(self, sentence: str) -> None:
        sentence = printable(sentence)
        sentence = sentence if len(sentence) <= SHORT else sentence[: SHORT - 3] + "..."
        typer.echo(sentence, file=self.stream)


def _summary_text(outcome: Outcome) -> str:
    summary = outcome.summary
    assert summary is not None
    cost = f"{summary.passes:.0f} passes, {summary.seconds:.1f} s"
    if summary.robust_accuracy is not None:
        return f"robust accuracy {share_text(summary.robust_accuracy)}, {cost}"
    if not summary.radius:
        return f"{radius_text({}, 0, summary.attacked)}, {cost}"
    found = "" if summary.found == summary.attacked else f" of {summary.attacked} attacked"
    return f"mean radius {summary.radius['mean']:.5g} over {summary.found} found{found}, {cost}"


def _as_json(outcome: Outcome) -> dict[str, Any]:
    figures = {} if outcome.summary is None else outcome.summary.to_json()
    return {"run": str(outcome.path), "state": outcome.state, "reason": outcome.reason, **figures}


def _report(out: Path, data: str | None) -> list[str]:
    """Page, figures and tables of all runs in the folder; sentences that say where they are.

    ``data``: those of all cells, which were asked for: other kinds than files, too, are opened for the gallery.
    """
    from pwcf.runs import RunError, find_runs

    try:
        runs = find_runs(out)
    except RunError:
        return ["no report: no cell has finished samples"]

    from pwcf.analysis import name_runs
    from pwcf.report import write_figures, write_page
    from pwcf.runs import load_run

    page = write_page(runs, out / "report.html", data=data)
    told = [f"report: {page.path}"]
    try:
        written = write_figures(name_runs(load_run(path) for path in runs), out / "report")
    except ImportError as error:
        return [*told, f"no figures: {error}"]
    except ValueError as error:  # the cells are done, and are told of all the same
        return [*told, f"no figures: {error}"]
    return [*told, f"figures and tables: {len(written.files)} files in {out / 'report'}"]
