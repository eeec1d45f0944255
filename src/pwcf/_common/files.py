"""Files: how they are read without trust in what they are, and the checksums they are identified by."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from pathlib import Path

from pwcf._common.errors import UserError

# Records name files of weights by these digits: enough to tell them apart, few enough to read.
CHECKSUM_DIGITS = 12


def file_checksum(path: str | os.PathLike[str]) -> str:
    """The first digits of a file's SHA-256, by which records name the file."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:CHECKSUM_DIGITS]


class ReadError(UserError):
    """A file cannot be read, which says nothing against what is in it: why, and what to do."""


def read_file(path: str | os.PathLike[str], most: int | None = None) -> bytes:
    """The content of a regular file, or its first ``most`` bytes: never waits for a pipe or a device.

    Raises:
        FileNotFoundError: there is nothing.
        ReadError: there is something else, or the system refuses.
    """
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))  # a pipe that nobody writes to: no waiting
        with os.fdopen(handle, "rb") as file:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise ReadError(f"{path}: expected a file, found {kind_of_file(status.st_mode)}; name a regular file")
            # No more than it says to have: files of the system under /proc say 0 and may never end.
            return file.read(status.st_size if most is None else min(most, status.st_size))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ReadError(f"{path}: {_REFUSED.get(error.errno or 0, error.strerror or str(error))}") from error
    except ValueError as error:  # a name with a NUL
        raise ReadError(f"{str(path)!r}: expected the name of a file, found one that cannot be ({error})") from error


_NOT_ALLOWED = "no permission to read it; give yourself the right to (chmod u+r), or ask its owner"
_REFUSED = {
    errno.EACCES: _NOT_ALLOWED,
    errno.EPERM: _NOT_ALLOWED,
    errno.EISDIR: "expected a file, found a folder; name a regular file",
    errno.ENXIO: "expected a file, found a socket; name a regular file",
    errno.EIO: "the disk cannot read it; look at the disk, and restore the file from a copy",
}


def kind_of_file(mode: int) -> str:
    """What a file that is not a regular one is, in words."""
    kinds = {
        stat.S_IFDIR: "a folder",
        stat.S_IFLNK: "a symbolic link",
        stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return kinds.get(stat.S_IFMT(mode), "something else")
