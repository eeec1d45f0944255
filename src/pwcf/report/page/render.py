"""The page's text: one file with everything in it, which may load nothing and run nothing else."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from importlib.resources import files
from typing import Any

STYLES = ("colours.css", "style.css", "plots.css", "gallery.css", "print.css")
FIRST = "theme.js"
"""before anything is painted"""
SCRIPTS = ("elements.js", "tables.js", "axes.js", "figures.js", "curves.js", "spreads.js", "bars.js",
           "sections.js", "samples.js", "gallery.js", "detail.js", "main.js")  # fmt: skip


def render(content: dict[str, Any]) -> str:
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
        "payload": embedded(content),
    }
    # Split once: what is put in is not looked at again, whatever it contains.
    pieces = _asset("page.html").split("{{")
    text = [pieces[0]]
    for piece in pieces[1:]:
        name, _, rest = piece.partition("}}")
        text += [parts[name.strip()], rest]
    return "".join(text)


def embedded(content: dict[str, Any]) -> str:
    """JSON inside a script element: no character that could end it, in whatever text a run contains."""
    text = json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _plain(content: dict[str, Any]) -> str:
    """The headline for browsers that run no scripts."""
    lines = []
    for card in content["cards"]:
        lines.append(f"<h2>{html.escape(card['title'])}</h2><ul>")
        for each in card["runs"]:
            name = content["runs"][each["run"]]["name"]
            told = " ".join([each["sentence"], *each["evidence"]])
            lines.append(f"<li><strong>{html.escape(name)}</strong>: {html.escape(told)}</li>")
        lines.append("</ul>")
    return "".join(lines)


def _asset(name: str) -> str:
    return files("pwcf.report.page").joinpath("assets", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
