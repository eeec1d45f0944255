"""CSV files with a commented header, written whole or not at all."""

from __future__ import annotations

import csv
import os
import platform
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path

import torch

PACKAGES = ("adv-lib", "pyautoattack", "torch")


def versions() -> str:
    found = ", ".join(f"{name} {metadata.version(name)}" for name in PACKAGES)
    return f"{found}, Python {platform.python_version()}, {torch.get_num_threads()} thread(s)"


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
