"""A report into its file: one HTML page with everything in it, which may load nothing and run nothing else."""

from __future__ import annotations

import base64
import hashlib
import html
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from pwcf._common import atomic
from pwcf.analysis import RunsLike
from pwcf.evaluation import Run
from pwcf.report.page.payload import payload_of
from pwcf.report.page.runs import embedded_json
from pwcf.runs import RunError

PAGE_BYTES = 10_000_000
"""of a file, at most, unless it is larger without any sample"""
SPARE = 2_000
"""of these for what is not known before samples are chosen"""
STYLES = ("colours.css", "style.css", "plots.css", "gallery.css", "print.css")
FIRST = "theme.js"
"""before anything is painted"""
SCRIPTS = ("elements.js", "tables.js", "words.js", "axes.js", "figures.js", "curves.js", "spreads.js", "bars.js",
           "sections.js", "samples.js", "gallery.js", "detail.js", "main.js")  # fmt: skip


@dataclass(frozen=True)
class Page:
    """What was written."""

    path: Path
    bytes: int
    samples: int
    """in the gallery"""
    total: int
    """samples of the runs"""
    images: int
    """of these samples: one with several labels, as wanted classes, is several samples"""
    remarks: list[str]
    """what could not be shown, and why"""


def write_page(
    runs: RunsLike,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    data: str | None = None,
    gallery: int | None = None,
    eps: Mapping[str, Sequence[float]] | None = None,
) -> Page:
    """Write one HTML file about runs, which needs nothing else to be looked at; whole or not at all.

    Args:
        runs: in memory, loaded, or the paths of their folders; one, several, or by name.
        path: of the file.
        title: of the page; default: the models' names.
        data: another place of the data; default: where each run found it. Images are known by their digests.
        gallery: samples shown at most; default: 500. Fewer if the file would be larger than 10 MB.
        eps: by metric, "" for every metric: where robust accuracy is told; default: ``analysis.usual_eps_of``.

    Returns:
        The path, its size, how many samples it shows, and remarks on what could not be shown.
    """
    to = Path(path)
    if not to.parent.is_dir():
        raise RunError(f"{to}: expected its folder to exist")
    if gallery is not None and gallery < 0:
        raise RunError(f"gallery: expected a number of samples >= 0, found {gallery}")
    payload = payload_of(runs, title=title, data=data, gallery=gallery, eps=eps, room=_room)
    text = _encoded(payload.content)
    atomic.write(to, lambda place: place.write_bytes(text))
    shown, total, images = (payload.content[name] for name in ("shown", "total", "images"))
    return Page(to, len(text), shown, total, images, payload.remarks)


def report_run(run: Run, path: str | os.PathLike[str], *, title: str | None = None, gallery: int | None = None) -> Path:
    """Write the page of one run; see ``Run.report``."""
    return write_page(run, path, title=title, gallery=gallery).path


def _room(content: dict[str, Any]) -> int:
    """Bytes that are left for samples on a page with this content; a little is kept for the numbers of samples."""
    return PAGE_BYTES - len(_encoded(content)) - SPARE


def _encoded(content: dict[str, Any]) -> bytes:
    # Names of files may have bytes that are no text.
    return render(content).encode(errors="replace")


def render(content: dict[str, Any]) -> str:
    """The text of a page."""
    style = "\n".join(_asset(name) for name in STYLES)
    first = _asset(FIRST)
    # One scope for all files, which is nobody else's.
    script = "(() => {\n'use strict';\n" + "\n".join(_asset(name) for name in SCRIPTS) + "\n})();"
    policy = "; ".join((
        "default-src 'none'", "img-src data:", f"style-src {_hash(style)}",
        f"script-src {_hash(first)} {_hash(script)}", "base-uri 'none'", "form-action 'none'",
    ))  # fmt: skip
    parts = {
        "policy": html.escape(policy),
        "title": html.escape(content["title"]),
        "style": style,
        "first": first,
        "script": script,
        "plain": _plain(content),
        "payload": embedded_json(content),
    }
    # Split once: what is put in is not looked at again, whatever it contains.
    pieces = _asset("page.html").split("{{")
    text = [pieces[0]]
    for piece in pieces[1:]:
        name, _, rest = piece.partition("}}")
        text += [parts[name.strip()], rest]
    return "".join(text)


def _plain(content: dict[str, Any]) -> str:
    """The headline for browsers that run no scripts."""
    lines = []
    for card in content["cards"]:
        lines.append(f"<h2>{html.escape(card['title'])}</h2><ul>")
        for each in card["runs"]:
            name = content["runs"][each["run"]]["name"]
            sentences = " ".join([each["sentence"], *each["evidence"]])
            lines.append(f"<li><strong>{html.escape(name)}</strong>: {html.escape(sentences)}</li>")
        lines.append("</ul>")
    return "".join(lines)


def _asset(name: str) -> str:
    return files("pwcf.report.page").joinpath("assets", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
