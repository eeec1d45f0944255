"""CSV files with a commented header, written whole or not at all."""

from __future__ import annotations

import csv
import os
import platform
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path

import torch

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
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    with partial.open("w", newline="", encoding="utf-8") as file:
        for comment in [*comments, versions()]:
            file.write(f"# {comment}\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
    os.replace(partial, path)
