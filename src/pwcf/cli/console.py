"""What commands print: tables and words for people, JSON for machines, one sentence where something is wrong."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from pwcf._common.errors import UserError
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
        made.add_column(head, justify="right" if i else "left", overflow="fold")
    for line in lines:
        made.add_row(*(_escaped(cell) for cell in line))
    return made


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)
