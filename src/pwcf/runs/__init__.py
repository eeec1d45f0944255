"""Runs on disk: settings, a folder that is written as samples finish, resume, engines.

Reading a folder's figures needs no network library. So nothing that needs one is imported here: ``load_run`` and what
executes runs are loaded when they are asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pwcf.runs.folder import RunFolder, find_runs
from pwcf.runs.header import Header, header_from
from pwcf.runs.settings import RunError, Settings, settings_from
from pwcf.runs.summary import RunSummary, summarize

if TYPE_CHECKING:
    from pwcf.runs.execution import Listener, Prepared, execute, prepare
    from pwcf.runs.load import RecordedRun, load_run
    from pwcf.runs.originals import original_images
    from pwcf.runs.saving import RunLike, recorded

__all__ = [
    "Header",
    "Listener",
    "Prepared",
    "RecordedRun",
    "RunError",
    "RunFolder",
    "RunLike",
    "RunSummary",
    "Settings",
    "execute",
    "find_runs",
    "header_from",
    "load_run",
    "original_images",
    "prepare",
    "recorded",
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
    "original_images": "originals",
    "RunLike": "saving",
    "recorded": "saving",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)
