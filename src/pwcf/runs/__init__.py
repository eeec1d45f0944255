"""Runs that survive: settings, a folder of records written as samples finish, resume, engines.

What reads a folder needs no network library; so nothing is imported here that does, and ``load_run`` and what executes
runs is loaded when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pwcf.runs.errors import RunError
from pwcf.runs.folder import RunFolder
from pwcf.runs.header import Header, header_from
from pwcf.runs.settings import Settings, settings_from
from pwcf.runs.summary import RunSummary, summarize

if TYPE_CHECKING:
    from pwcf.runs.execution import Listener, Prepared, execute, prepare
    from pwcf.runs.load import RecordedRun, load_run

__all__ = [
    "Header",
    "Listener",
    "Prepared",
    "RecordedRun",
    "RunError",
    "RunFolder",
    "RunSummary",
    "Settings",
    "execute",
    "header_from",
    "load_run",
    "prepare",
    "settings_from",
    "summarize",
]

_LATER = {
    "Listener": "execution",
    "Prepared": "execution",
    "execute": "execution",
    "prepare": "execution",
    "RecordedRun": "load",
    "load_run": "load",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)
