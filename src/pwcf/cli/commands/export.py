"""``pwcf export``: a run in other tools' formats."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pwcf.cli.console import CommandError

FORMATS = {
    "csv": "rows as CSV",
    "parquet": "rows as Parquet",
    "json": "the result as RobustBench writes it",
    "safetensors": "adversarial points, labels and indices",
    "npz": "the same for NumPy",
    "png": "a folder of 8-bit pictures of the points",
}
Run = Annotated[Path, typer.Argument(help="Folder of a run.", metavar="RUN")]
To = Annotated[Path, typer.Argument(help="File (or for png folder) to write.", metavar="TO")]
Format = Annotated[
    str | None,
    typer.Option(help="; ".join(f"{name}: {what}" for name, what in FORMATS.items()) + ". Default: by TO's ending."),
]
Force = Annotated[bool, typer.Option("--force", help="Write over a file that exists.")]


def add_to(app: typer.Typer) -> None:
    app.command("export", help="Export rows, the result, or the adversarial points.")(_command)


def _command(run: Run, to: To, format: Format = None, force: Force = False) -> None:
    kind = format or to.suffix.lstrip(".").lower()
    if kind not in FORMATS:
        raise CommandError(
            f"--format: expected one of {', '.join(FORMATS)} (or TO with such an ending), found {kind!r}"
        )
    if to.exists() and not force:
        raise CommandError(f"{to}: exists already; --force writes over it")
    from pwcf.runs.exports import export

    count = export(run, to, kind)
    typer.echo(f"{to}: {count} samples")
