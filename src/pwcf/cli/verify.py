"""``pwcf verify``: every stored point once more against the model."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from pwcf.cli.console import Json, console, print_json, table

Run = Annotated[Path, typer.Argument(help="Folder of a run.", metavar="RUN")]
Model = Annotated[str | None, typer.Option(help="Another model, or another place of the same one.")]
Weights = Annotated[str | None, typer.Option(help="Its state dict.")]
Data = Annotated[str | None, typer.Option(help="Another place of the data.")]
SHOWN = 20
"""points that do not hold, told one by one"""


def add_to(app: typer.Typer) -> None:
    app.command("verify", help="Check every stored point against the model again. Exit code 1: some do not hold.")(
        _command
    )


def _command(
    run: Run, model: Model = None, weights: Weights = None, data: Data = None, device: str = "cpu", json: Json = False
) -> None:
    from pwcf.runs import RunFolder, header_from
    from pwcf.runs.recheck import recheck_run

    folder = RunFolder(run)
    header = header_from(folder.header(), str(run))
    then = header.settings
    settings = replace(
        then, model=model or then.model, weights=weights or then.weights, data=data or then.data, device=device
    )
    with contextlib.redirect_stdout(sys.stderr):  # what the user's own code prints is not the result
        found = recheck_run(folder, header, settings)
    if json:
        print_json({"run": str(run), "checked": found.checked, "hold": found.hold, "remarks": found.remarks,
                    "failed": [vars(each) for each in found.failed]})  # fmt: skip
    else:
        for remark in found.remarks:
            console().print(f"[yellow]note[/yellow] {escape(remark)}")
        console().print(
            f"{found.hold} of {found.checked} points hold: inside the bounds, misclassified, as far as recorded"
        )
        if found.failed:
            lines = [[str(each.index), each.what] for each in found.failed[:SHOWN]]
            shown = table(["sample", "what is wrong"], lines)
            shown.columns[1].justify = "left"
            console().print(shown)
            if len(found.failed) > SHOWN:
                console().print(f"... and {len(found.failed) - SHOWN} more (--json has all)")
    raise typer.Exit(1 if found.failed else 0)
