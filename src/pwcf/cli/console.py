"""What commands print: tables and words for people, JSON for machines, one sentence where something is wrong."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pwcf._common.errors import UserError
from pwcf._common.text import printable
from pwcf._common.user_code import kept_alive
from pwcf.runs.summary import json_safe

INTERRUPTED = 130
"""exit code after Ctrl-C, as shells have it"""
Trust = Annotated[bool, typer.Option("--trust", help="Run the code and fetch what the run's folder names.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]


class CommandError(UserError):
    """Wrong input, in a sentence for the person at the keyboard; exit code 2."""


def console() -> Console:
    """Made anew: where standard output is may have changed. Without colour where it is no terminal."""
    return Console(highlight=False, soft_wrap=False)


def print_json(content: Any) -> None:
    """One document."""
    typer.echo(json.dumps(json_safe(content), indent=1))


def table(heads: Sequence[str], lines: Sequence[Sequence[str]], title: str | None = None) -> Table:
    """Numbers to the right: every column but the first."""
    made = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for i, head in enumerate(heads):
        made.add_column(safe(head), justify="right" if i else "left", overflow="fold")
    for line in lines:
        made.add_row(*(safe(cell) for cell in line))
    return made


def safe(text: str) -> str:
    """A text from elsewhere, a name or a warning: no markup, and nothing that steers a terminal."""
    return escape(printable(text))


@contextlib.contextmanager
def user_code() -> Iterator[None]:
    """While the user's own code runs: what it prints is not the result, and it cannot end the command unseen."""
    with contextlib.redirect_stdout(sys.stderr), kept_alive():
        yield
