"""Files that are complete or absent, whenever the process or the machine dies."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

from pwcf._common.errors import UserError


class WriteError(UserError):
    """A file could not be written: why, and what to do."""


def write(path: Path, fill: Callable[[Path], object]) -> None:
    """``write_whole``, with a sentence that says what to do where the system refuses."""
    try:
        write_whole(path, fill)
    except OSError as error:
        raise WriteError(_sentence(path, error)) from error


def write_text(path: Path, text: str) -> None:
    """Write a text file, as UTF-8; the folder is made if it is not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, lambda place: place.write_bytes(text.encode("utf-8")))


def write_whole(path: Path, fill: Callable[[Path], object]) -> None:
    """``fill`` writes a file at the place it is given; under its name it appears whole."""
    # With the process's number: two may work in one folder. A dot and another ending: nobody reads it.
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        fill(partial)
        _sync(partial)
        os.replace(partial, path)
    except BaseException:
        _remove(partial)
        raise
    if os.name == "posix":  # the name too must outlive a power cut
        _sync(path.parent)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return  # what kept it from being written may keep it from being removed; nobody reads it


def _sentence(path: Path, error: OSError) -> str:
    what = {
        errno.ENOSPC: "the disk is full; free some space and run the same command again: what is finished is kept",
        errno.EDQUOT: "the quota is used up; free some space and run the same command again: what is finished is kept",
        errno.EROFS: "read-only: it cannot be written to; choose another place",
        errno.EACCES: "no permission to write there; choose another place",
        errno.EPERM: "no permission to write there; choose another place",
    }.get(error.errno or 0, str(error))
    return f"{path}: {what}"
