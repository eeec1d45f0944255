"""Files that hold their own SHA-256, so that one changed bit is noticed.

The digits stand in the file, behind a mark. They are those of the whole file with 64 zeros in their place.
"""

from __future__ import annotations

import hashlib

NAME = "seal"
"""under which formats with names and values hold the seal"""
MARK = "sha256:"
UNSEALED = MARK + 64 * "0"
"""what ``NAME`` holds until ``seal`` has put the digits there"""


def seal(content: bytes, *, at_end: bool = False) -> bytes:
    """A file's content with its digits in the place of the zeros.

    Args:
        content: with ``UNSEALED`` in it.
        at_end: the last mark of the file counts, not the first: of formats whose names and values follow the data.
    """
    place = _place(content, at_end)
    assert place is not None
    return content[:place] + _digits(content, place) + content[place + 64 :]


def digits_of(content: bytes, *, at_end: bool = False) -> str | None:
    """The digits that stand in a file's content, or in the part of it that has them; None if there are none."""
    place = _place(content, at_end)
    return None if place is None else content[place : place + 64].decode("ascii", "replace")


def is_intact(content: bytes, *, at_end: bool = False) -> bool | None:
    """Whether a file's content is what was sealed; None if it has no seal."""
    place = _place(content, at_end)
    return None if place is None else content[place : place + 64] == _digits(content, place)


def _place(content: bytes, at_end: bool) -> int | None:
    mark = MARK.encode()
    found = content.rfind(mark) if at_end else content.find(mark)
    place = found + len(mark)
    return None if found < 0 or len(content) < place + 64 else place


def _digits(content: bytes, place: int) -> bytes:
    view, digest = memoryview(content), hashlib.sha256()
    for part in (view[:place], b"0" * 64, view[place + 64 :]):
        digest.update(part)
    return digest.hexdigest().encode()
