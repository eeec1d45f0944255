"""What is done because a run's folder says so: it may come from anybody, so nothing is run or fetched unasked.

A header names a model, data, a metric and attacks. Names of the user's own Python are code, names of libraries may be
fetched from the network, and a file that is no regular one may be a pipe that never ends.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection
from pathlib import Path

from pwcf._common.user_code import is_named_code
from pwcf.runs.settings import RunError, Settings

# Models that are data: reading them runs nothing.
_PROGRAMS = (".pt2", ".onnx")
_SHIPPED = "zoo:"


def check_trusted(settings: Settings, place: str, given: Collection[str], how: str) -> None:
    """Raise a RunError where code would be run or something fetched that only the folder names.

    Args:
        settings: of the run's header.
        place: its folder.
        given: which of model, data, metric and attacks somebody has asked for, or that are not used.
        how: to say that the folder is trusted.
    """
    named = {
        "model": [] if _is_program(settings.model) else [settings.model],
        "data": [] if is_safe_data(settings.data) else [settings.data],
        "metric": [settings.metric] if is_named_code(settings.metric) else [],
        "attacks": [name for name in settings.attacks if is_named_code(name)],
    }
    unsafe = {what: names for what, names in named.items() if names and what not in given}
    if unsafe:
        told = ", ".join(f"{what} {name!r}" for what, names in unsafe.items() for name in names)
        raise RunError(
            f"{place}: its header names {told}, which may run code, go to the network or wait for ever; {how} if you "
            "trust this folder"
        )


def check_named(saved: bool, place: str, given: Collection[str]) -> None:
    """Raise a RunError where a run needs its model, and nobody has named one of a run that was saved from Python."""
    if saved and "model" not in given:
        raise RunError(f"{place}: was saved from Python (Run.save), which does not name its model; give it: --model")


def is_safe_data(spec: str) -> bool:
    """Whether data may be opened that only a folder names: a regular file of this machine, or what comes with pwcf."""
    if spec.startswith(_SHIPPED):
        return True
    try:
        status = os.stat(Path(spec).expanduser())
    except (OSError, ValueError, RuntimeError):
        return ":" not in spec  # nothing is there, which whoever opens it says
    # Files of the system under /proc are regular ones, of length 0, and may never end.
    return stat.S_ISREG(status.st_mode) and status.st_size > 0


def _is_program(spec: str) -> bool:
    return spec.startswith(_SHIPPED) or (Path(spec).suffix.lower() in _PROGRAMS and not is_named_code(spec))
