"""``pwcf run``: evaluate a model on a data set into a folder; the same command again goes on where it stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pwcf._common.text import printable
from pwcf.cli.console import INTERRUPTED, Json, print_json, user_code
from pwcf.cli.options import read_config, said, with_options
from pwcf.cli.summaries import print_summary
from pwcf.runs import RunFolder, header_from, settings_from

HELP = """Evaluate a model on a data set, into a folder.

The same command again goes on where it stopped, however it ended, and ends with the same answers. \
All options may stand in a TOML or YAML file under the same names ([bold]pwcf run config.toml[/bold]); \
those of the command line win. With a larger --limit or --budget a run is continued: what is there is kept.
"""
Config = Annotated[Path | None, typer.Argument(help="TOML or YAML file with any of the options below.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress; the summary alone.")]


def add_to(app: typer.Typer) -> None:
    own = {"config": (Config, None), "json": (Json, False), "quiet": (Quiet, False)}
    app.command("run", help=HELP)(with_options(_command, own))


def _command(config: Path | None, json: bool, quiet: bool, **given: Any) -> None:
    asked = (read_config(config) if config is not None else {}) | said(given)
    settings = settings_from(asked)

    from pwcf.cli.progress import listeners
    from pwcf.runs import execute, prepare

    try:
        # What the user's own code prints is not the result.
        with user_code():
            prepared = prepare(settings, asked)
            for sentence in [] if quiet or json else prepared.remarks:
                typer.echo(f"note: {printable(sentence)}", err=True)
            summary = execute(prepared, listeners(settings, quiet=quiet or json))
    except KeyboardInterrupt:
        typer.echo("pwcf: interrupted; the same command goes on where it stopped", err=True)
        raise typer.Exit(INTERRUPTED) from None
    out = Path(prepared.settings.out)
    if json:
        print_json({"out": str(out), **summary.to_json()})
        return
    # Of the folder: a continued run has a history that was not asked for.
    print_summary(header_from(RunFolder(out).header(), str(out)), summary)
    typer.echo(f"\nRecorded in {out}. See it again: pwcf show {out}")
