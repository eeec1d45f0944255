"""``pwcf show``: the summary of a run, or of all runs of a benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Annotated

import typer

from pwcf._common.wording import eps_text, number_text, share_text
from pwcf.cli.console import CommandError, Json, console, print_json, safe, table
from pwcf.cli.summaries import Runs, parse_eps, print_classes, print_summary, summary_of
from pwcf.runs import Header, RunSummary, find_runs

Eps = Annotated[
    str | None,
    typer.Option(
        help="Where min-radius runs tell their robust accuracy: 0.1,8/255, or by metric, l1=12,linf=8/255. "
        "Default: those that the run was asked for, or that papers use.",
        metavar="NUMBER,...",
    ),
]
Classes = Annotated[bool, typer.Option("--classes", help="Also a line for every class.")]


def add_to(app: typer.Typer) -> None:
    app.command("show", help="Show what a run, or every run of a benchmark, has found so far.")(_command)


def _command(runs: Runs, eps: Eps = None, classes: Classes = False, json: Json = False) -> None:
    at = parse_eps(eps)
    found = {path: {run: summary_of(run, at) for run in find_runs(path)} for path in runs}
    if at and not any(summary.robust_at for some in found.values() for _, summary in some.values()):
        raise CommandError("--eps: expected min-radius runs, whose radii tell it; found max-loss alone")
    if json:
        told = [{"run": str(run), **each.to_json()} for some in found.values() for run, (_, each) in some.items()]
        print_json(told[0] if len(told) == 1 else told)
        return
    for path, some in found.items():
        console().print(f"[bold]{safe(str(path))}[/bold]")
        if list(some) == [path]:
            print_summary(*some[path])
        else:
            _print_runs(path, some, bool(at))
        for run, one in some.items() if classes else ():
            console().print("" if run == path else f"\n[bold]{safe(str(run))}[/bold]")
            print_classes(*one)


def _print_runs(path: Path, runs: Mapping[Path, tuple[Header, RunSummary]], asked: bool) -> None:
    """A line for each, with its radii, or the robust accuracy within an eps; those at several eps where ``asked``."""
    shares = {
        run: dict(zip(map(eps_text, each.eps), each.robust_at, strict=False))
        for run, (header, each) in runs.items()
        if asked or header.settings.accuracy_at
    }
    lines, levels = [], list(dict.fromkeys(eps for at in shares.values() for eps in at))
    for run, (header, each) in runs.items():
        at = shares.get(run, {})
        done = str(each.done) if each.done == each.samples else f"{each.done} of {each.samples}"
        result, median = (number_text(each.radius.get(name, inf)) for name in ("mean", "median"))
        if each.robust_accuracy is not None:
            result, median = share_text(each.robust_accuracy), ""
        lines.append([
            str(run.relative_to(path)), done, "–" if header.settings.targeted else share_text(each.clean_accuracy),
            f"{each.found} of {each.attacked}", result, median,
            *(share_text(at[eps]) if eps in at else "" for eps in levels),
            f"{each.passes:.0f}" if each.attacked else "", f"{each.seconds:.1f}",
        ])  # fmt: skip
    within = [f"≤ {eps}" for eps in levels]
    out = console()
    out.print(table(["run", "n", "clean", "found", "result", "median", *within, "passes", "s"], lines))
    out.print(
        "\nn: samples; found: of those attacked; result: mean radius over those found, or robust accuracy where an eps "
        "was asked; median: radius over all attacked, ∞ where fewer than half have a point"
        + ("; ≤ eps: robust accuracy within it, by the radii." if levels else ".")
    )
