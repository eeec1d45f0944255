"""CSV files with a commented header, written whole or not at all."""

from __future__ import annotations

import csv
import io
import platform
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path

import torch

from pwcf._common.atomic import write_text

PACKAGES = ("pwcf", "adv-lib", "pyautoattack", "torch")


def versions() -> str:
    found = ", ".join(f"{name} {version}" for name in PACKAGES if (version := _version(name)))
    return f"{found}, Python {platform.python_version()}, {torch.get_num_threads()} thread(s)"


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:  # ours are written where no rival is installed
        return None


def write(path: Path, comments: Sequence[str], columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """``# comment`` lines, the column names, the rows. A file that exists is complete: runs are resumed by it."""
    text = io.StringIO()
    for comment in [*comments, versions()]:
        text.write(f"# {comment}\n")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    write_text(path, text.getvalue())
