"""Settings of runs from the command line and from files. Names, types, defaults and help come from ``Settings``."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from pwcf._common.files import read_file
from pwcf._common.text import brief, one_line
from pwcf.cli.console import CommandError
from pwcf.runs import Settings

ENDINGS = (".toml", ".yaml", ".yml")
PANELS = {
    "what": "What is evaluated",
    "question": "The question",
    "model": "The model",
    "data": "The data",
    "how": "How",
}


def with_options(
    command: Callable[..., None],
    own: Mapping[str, tuple[Any, Any]],
    several: Collection[str] = (),
    defaults: Mapping[str, Any] | None = None,
    helps: Mapping[str, str] | None = None,
    without: Collection[str] = (),
) -> Callable[..., None]:
    """The command with an option for every field of Settings; None: nothing was said.

    Args:
        command: takes the fields as keywords.
        own: its parameters beside these, name -> (annotation, default).
        several: fields of which the option may come more than once, a value each.
        defaults: that the help shows in place of those of Settings.
        helps: texts in place of those of Settings.
        without: fields that are no options.
    """
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [
        inspect.Parameter(name, kind, default=default, annotation=annotation)
        for name, (annotation, default) in own.items()
    ]
    for each in fields(Settings):
        if each.name in without or not each.metadata.get("option", True):
            continue
        plain = str(each.type).removesuffix(" | None")
        shown = (defaults or {}).get(each.name, _default(each))
        repeated = each.name in several
        option = typer.Option(
            *_flags(each.name, plain),
            help=(helps or {}).get(each.name, each.metadata["help"])
            + _default_text(shown)
            + (" Repeatable." if repeated else ""),
            rich_help_panel=PANELS[each.metadata["group"]],
            show_default=False,
            metavar=_metavar(plain, repeated),
            parser=_whole_number if plain == "int" else None,
        )
        annotation: Any = Annotated[_kind(plain, repeated), option]
        parameters.append(inspect.Parameter(each.name, kind, default=None, annotation=annotation))
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    return command


def said(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name, value in given.items() if value is not None and value != []}


def read_config(path: Path) -> dict[str, Any]:
    """Names and values of a TOML or YAML file, as they are written there; - in a name is _."""
    if path.suffix not in ENDINGS:
        raise CommandError(f"{path}: expected a file that ends in {', '.join(ENDINGS)}")
    try:
        text = read_file(path).decode("utf-8")
    except FileNotFoundError:
        raise CommandError(f"{path}: cannot be read: no such file; check the name") from None
    except UnicodeDecodeError as error:
        raise CommandError(f"{path}: expected UTF-8 ({error})") from error
    content = _toml(path, text) if path.suffix == ".toml" else _yaml(path, text)
    if not isinstance(content, dict):
        raise CommandError(f'{path}: expected names and values, such as metric = "l2"; found {type(content).__name__}')
    return {str(name).replace("-", "_"): value for name, value in content.items()}


def _toml(path: Path, text: str) -> Any:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a number of thousands of digits; brackets without end
        raise CommandError(f"{path}: no TOML: {one_line(error)}") from error


def _yaml(path: Path, text: str) -> Any:
    import yaml

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        """Of names and values alone: a name is a text and is there once."""

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            self.flatten_mapping(node)
            names = [self.construct_object(name, deep=True) for name, _ in node.value]
            for place, name in enumerate(names):
                if not isinstance(name, str) or name in names[:place]:
                    expected = "every name once" if isinstance(name, str) else "texts as names"
                    found = f"{brief(name)} twice" if isinstance(name, str) else brief(name)
                    raise yaml.YAMLError(
                        f"line {node.value[place][0].start_mark.line + 1}: expected {expected}, found {found}"
                    )
            return super().construct_mapping(node, deep)

    try:
        return yaml.load(text, Loader)
    except Exception as error:  # of a value that is not what its tag says the library raises anything
        raise CommandError(f"{path}: no YAML: {one_line(error)}") from error


def _flags(name: str, plain: str) -> list[str]:
    flag = "--" + name.replace("_", "-")
    return [f"{flag}/--no-{flag[2:]}"] if plain == "bool" else [flag]


def _metavar(plain: str, repeated: bool) -> str | None:
    if plain == "bool":
        return ""
    if plain.startswith("list"):
        return "NAME" if repeated else "A,B,..."
    if plain == "str" and repeated:
        return "TEXT"
    return {"int": "N", "float": "NUMBER"}.get(plain)


def _kind(plain: str, repeated: bool) -> Any:
    """What the command line takes. Fractions are texts until they are read."""
    if plain.startswith("list"):
        return list[str] | None
    kind = {"str": str, "int": int, "float": str, "bool": bool}[plain]
    return list[kind] | None if repeated else kind | None  # type: ignore[valid-type]


def _whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"expected an integer, found {brief(text)}") from None


def _default(each: Any) -> Any:
    return each.default_factory() if each.default_factory is not MISSING else each.default


def _default_text(default: Any) -> str:
    if default is MISSING:
        return " (needed)"
    if default is None or default is False or default == []:
        return ""
    shown = ",".join(map(str, default)) if isinstance(default, list) else str(default)
    return f" (default: {shown})"
