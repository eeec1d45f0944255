"""Settings of a run from a TOML or YAML file."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from pwcf.cli.errors import CommandError

ENDINGS = (".toml", ".yaml", ".yml")


def read_config(path: Path) -> dict[str, Any]:
    """Names and values of one file, as they are written there."""
    if path.suffix not in ENDINGS:
        raise CommandError(f"{path}: expected a file that ends in {', '.join(ENDINGS)}")
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CommandError(f"{path}: expected UTF-8 ({error})") from error
    content = _toml(path, text) if path.suffix == ".toml" else _yaml(path, text)
    if not isinstance(content, dict):
        raise CommandError(f'{path}: expected names and values, such as metric = "l2"; found {type(content).__name__}')
    return content


def _toml(path: Path, text: str) -> Any:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CommandError(f"{path}: no TOML: {error}") from error


def _yaml(path: Path, text: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise CommandError(f"{path}: no YAML: {' '.join(str(error).split())}") from error
