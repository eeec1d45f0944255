"""``pwcf``: one file per command. Commands import what they need when they run: ``pwcf show`` answers at once."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

import pwcf
from pwcf.cli import bench_command, compare, doctor, export, listing, run, show, verify
from pwcf.cli.errors import CommandError
from pwcf.runs import RunError

app = typer.Typer(
    name="pwcf",
    help="How robust is a classifier really?",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (run, show, verify, compare, export, listing, doctor, bench_command):
    module.add_to(app)


@app.callback()
def _front(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and end.", is_eager=True, callback=lambda v: _version(v)),
    ] = False,
) -> None:
    """How robust is a classifier really?"""


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"pwcf {pwcf.__version__}")
        raise typer.Exit


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line (default: the process's own) and return the exit code.

    0: done. 1: done, and something is wrong (points that do not hold, a failed check). 2: it cannot be done as asked.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        app(words)
    except (CommandError, RunError) as error:
        print(f"pwcf: {error}", file=sys.stderr)
        return 2
    except SystemExit as end:  # how the library ends a command, a good one too
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0
