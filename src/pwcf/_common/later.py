"""Methods of a class whose work is done in a later room: the package's front says where, and it is imported when used.

A ``Run`` knows nothing of folders and pages; ``run.save`` and ``run.report`` are functions of the rooms that do.
"""

from __future__ import annotations

import importlib
from typing import Any

_PLACES: dict[str, str] = {}


def offer(name: str, place: str) -> None:
    """Say where a function is: ``place`` is ``package.module:function``."""
    _PLACES[name] = place


def call(name: str, *args: Any, **kwargs: Any) -> Any:
    """Call the function that was offered under a name."""
    module, _, function = _PLACES[name].partition(":")
    return getattr(importlib.import_module(module), function)(*args, **kwargs)
