"""Files that are complete or absent, whenever the process or the machine dies."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Callable
from pathlib import Path

from pwcf._common.errors import UserError
from pwcf._common.files import kind_of_file

# What write_whole calls a file until it is whole. A dot and another ending: nobody reads it. Of older versions: no
# digits, or the process's number.
_PARTIAL = re.compile(r"\.(.+?)(\.[0-9a-f]+)?\.partial")


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
    """``fill`` writes a file at the place it is given; under its name it appears whole.

    Only a file is ever replaced: a device, a pipe, a folder or a link of that name stays, and a WriteError is raised.
    """
    _check_replaceable(path)
    # A name that nobody can guess, and a file that was not there before: else what a link there points to would be
    # written to, and two may work in one folder.
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o666))
    try:
        fill(partial)
        _sync(partial)
        os.replace(partial, path)
    except BaseException:
        _remove(partial)
        raise
    if os.name == "posix":  # the name too must outlive a power cut
        _sync(path.parent)


def unfinished(partial: Path) -> str | None:
    """The name of the file that ``write_whole`` was writing there; None if it is no such partial file."""
    found = _PARTIAL.fullmatch(partial.name)
    return found[1] if found else None


def _check_replaceable(path: Path) -> None:
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        raise WriteError(f"{path}: expected a file, or a place for one, found {kind_of_file(mode)}; name another place")


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
    }.get(error.errno or 0, f"{error.strerror or error}; choose another place")
    return f"{path}: {what}"
