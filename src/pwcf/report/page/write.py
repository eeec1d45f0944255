"""A report into its file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pwcf._common import atomic
from pwcf.report.page.payload import Payload, payload_of
from pwcf.report.page.render import render
from pwcf.runs import RunError

PAGE_BYTES = 10_000_000
"""of a file, at most, unless it is larger without any sample"""


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
        gallery: samples shown at most; default: 500. Fewer if the file would be larger than 10 MB.
    """
    to = Path(path)
    if not to.parent.is_dir():
        raise RunError(f"{to}: expected its folder to exist")
    if gallery is not None and gallery < 0:
        raise RunError(f"gallery: expected a number of samples >= 0, found {gallery}")
    payload = payload_of(runs, title=title, data=data, gallery=gallery)
    text = _rendered(payload)
    # How well pictures pack is not known before.
    while len(text) >= PAGE_BYTES and (shown := payload.content["shown"]):
        fewer = min(shown - 1, int(0.95 * shown * PAGE_BYTES / len(text)))
        payload = payload_of(runs, title=title, data=data, gallery=fewer)
        text = _rendered(payload)
    atomic.write(to, lambda place: place.write_bytes(text))
    return Page(to, len(text), payload.content["shown"], payload.content["total"], payload.remarks)


def _rendered(payload: Payload) -> bytes:
    # Names of files may have bytes that are no text.
    return render(payload.content).encode(errors="replace")
