"""Files: the checksums they are identified by."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

# Records name files of weights by these digits: enough to tell them apart, few enough to read.
CHECKSUM_DIGITS = 12


def file_checksum(path: str | os.PathLike[str]) -> str:
    """The first digits of a file's SHA-256, by which records name the file."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:CHECKSUM_DIGITS]
