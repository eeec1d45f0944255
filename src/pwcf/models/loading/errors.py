"""What goes wrong while a model is loaded: one exception, one line, with what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ModelError(Exception):
    """A model that cannot be had as it was asked for."""


def said(error: BaseException) -> str:
    """Another library's error in one line: its type and the first line that says something."""
    lines = (line.strip() for line in str(error).splitlines())
    first = next((line for line in lines if line), "")
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def a_few(names: Iterable[str], most: int = 3) -> str:
    """The first names and how many more there are."""
    every = list(names)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more


def meant(name: str, known: Iterable[str]) -> str:
    """'; did you mean ...?' where something known looks like it, else nothing."""
    close = difflib.get_close_matches(name, list(known), n=3)
    return f"; did you mean {' or '.join(close)}?" if close else ""
