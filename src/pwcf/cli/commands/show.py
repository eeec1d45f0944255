"""``pwcf show``: the summary of a run, or of all runs of a benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import typer

from pwcf._common.wording import share_text
from pwcf.cli.console import Json, console, print_json, safe, table
from pwcf.cli.summaries import Runs, print_summary, summary_of
from pwcf.runs import Header, RunSummary, find_runs


def add_to(app: typer.Typer) -> None:
    app.command("show", help="Show what a run, or every run of a benchmark, has found so far.")(_command)


def _command(runs: Runs, json: Json = False) -> None:
    found = {path: {run: summary_of(run) for run in find_runs(path)} for path in runs}
    if json:
        told = [{"run": str(run), **each.to_json()} for some in found.values() for run, (_, each) in some.items()]
        print_json(told[0] if len(told) == 1 else told)
        return
    for path, some in found.items():
        console().print(f"[bold]{safe(str(path))}[/bold]")
        if list(some) == [path]:
            print_summary(*some[path])
        else:
            _print_runs(path, some)


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
