"""A report into its file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pwcf.report.page.payload import payload_of
from pwcf.report.page.render import render
from pwcf.runs import RunError, atomic


@dataclass(frozen=True)
class Page:
    """What was written."""

    path: Path
    bytes: int
    samples: int
    """in the gallery"""
    total: int
    """samples of the runs"""
    remarks: list[str]
    """what could not be shown, and why"""


def write_page(
    runs: Sequence[str | os.PathLike[str]],
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    data: str | None = None,
    gallery: int | None = None,
) -> Page:
    """One HTML file about runs, which needs nothing else to be looked at. Written whole or not at all.

    Args:
        runs: their folders.
        path: of the file.
        title: of the page; default: the models' names.
        data: another place of the data; default: where each run found it. Images are known by their digests.
        gallery: samples shown at most; default: 500, or as many as keep the file small.
    """
    to = Path(path)
    if not to.parent.is_dir():
        raise RunError(f"{to}: expected its folder to exist")
    if gallery is not None and gallery < 0:
        raise RunError(f"gallery: expected a number of samples >= 0, found {gallery}")
    payload = payload_of(runs, title=title, data=data, gallery=gallery)
    # Names of files may have bytes that are no text.
    text = render(payload.content).encode(errors="replace")
    atomic.write(to, lambda place: place.write_bytes(text))
    return Page(to, len(text), payload.content["shown"], payload.content["total"], payload.remarks)
