"""``pwcf run``: evaluate a model on a data set into a folder; the same command again goes on where it stopped."""

from __future__ import annotations

import contextlib
import inspect
import sys
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from pwcf.cli.config import read_config
from pwcf.cli.console import Json, print_json
from pwcf.runs import Settings, settings_from

HELP = """Evaluate a model on a data set, into a folder.

The same command again goes on where it stopped, however it ended, and ends with the same answers. \
All options may stand in a TOML or YAML file under the same names ([bold]pwcf run config.toml[/bold]); \
those of the command line win.
"""
INTERRUPTED = 130
"""what shells say after Ctrl-C"""
PANELS = {
    "what": "What is evaluated",
    "question": "The question",
    "model": "The model",
    "data": "The data",
    "how": "How",
}


def add_to(app: typer.Typer) -> None:
    command = _command
    command.__signature__ = _signature()  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in _signature().parameters.values()}
    app.command("run", help=HELP)(command)


def _command(config: Path | None, json: bool, quiet: bool, **given: Any) -> None:
    asked = read_config(config) if config is not None else {}
    said = {name: value for name, value in given.items() if value is not None and value != []}
    asked = {name.replace("-", "_"): value for name, value in asked.items()} | said
    settings = settings_from(asked)

    from pwcf.cli.progress import listeners
    from pwcf.runs import execute, header_from, prepare, summarize
    from pwcf.runs.summary import COLUMNS

    try:
        # What the user's own code prints is not the result.
        with contextlib.redirect_stdout(sys.stderr):
            folder = execute(prepare(settings, asked), listeners(settings, quiet=quiet or json))
    except KeyboardInterrupt:
        typer.echo("pwcf: interrupted; the same command goes on where it stopped", err=True)
        raise typer.Exit(INTERRUPTED) from None
    header = header_from(folder.header(), str(folder.path))
    summary = summarize(header, folder.rows(list(COLUMNS)))
    if json:
        print_json({"out": str(folder.path), **summary.to_json()})
        return
    from pwcf.cli.show import print_summary

    print_summary(header, summary)
    typer.echo(f"\nRecorded in {folder.path}. See it again: pwcf show {folder.path}")


def _signature() -> inspect.Signature:
    """From the fields of Settings: one source for names, types, defaults and help."""
    optional = inspect.Parameter.POSITIONAL_OR_KEYWORD
    config = Annotated[Path | None, typer.Argument(help="TOML or YAML file with any of the options below.")]
    quiet = Annotated[bool, typer.Option("--quiet", help="No progress; the summary alone.")]
    parameters = [
        inspect.Parameter("config", optional, default=None, annotation=config),
        inspect.Parameter("json", optional, default=False, annotation=Json),
        inspect.Parameter("quiet", optional, default=False, annotation=quiet),
    ]
    for each in fields(Settings):
        option = typer.Option(
            *_flags(each.name, str(each.type)),
            help=each.metadata["help"] + _default(each),
            rich_help_panel=PANELS[each.metadata["group"]],
            show_default=False,
            metavar=_metavar(str(each.type)),
        )
        parameters.append(
            inspect.Parameter(each.name, optional, default=None, annotation=Annotated[_kind(each.type), option])
        )
    return inspect.Signature(parameters)


def _flags(name: str, kind: str) -> list[str]:
    flag = "--" + name.replace("_", "-")
    return [f"{flag}/--no-{flag[2:]}"] if kind == "bool" else [flag]


def _metavar(kind: str) -> str | None:
    if kind == "bool":
        return ""
    return "A,B,..." if kind.startswith("list") else {"int": "N", "float": "NUMBER"}.get(kind.removesuffix(" | None"))


def _kind(kind: Any) -> Any:
    """What the command line takes; None: nothing was said. Fractions are texts until they are read."""
    plain = str(kind).removesuffix(" | None")
    if plain.startswith("list"):
        return list[str] | None
    return {"str": str, "int": int, "float": str, "bool": bool}[plain] | None


def _default(each: Any) -> str:
    default = each.default_factory() if each.default_factory is not MISSING else each.default
    if default is MISSING:
        return " (needed)"
    if default is None or default is False or default == []:
        return ""
    shown = ",".join(map(str, default)) if isinstance(default, list) else str(default)
    return f" (default: {shown})"
