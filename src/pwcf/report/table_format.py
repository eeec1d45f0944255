"""A table, as Markdown for people, as CSV for programs and as LaTeX for papers."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pwcf._common import atomic
from pwcf._common.text import csv_cell

Value = str | int | float
"""floats have four digits in Markdown and LaTeX, all of them in CSV; NaN is shown as a dash"""


@dataclass(frozen=True)
class Table:
    """Rows under columns."""

    columns: tuple[str, ...]
    rows: list[tuple[Value, ...]]

    @classmethod
    def of(cls, records: Iterable[object], columns: Mapping[str, str]) -> Table:
        """A row for every record.

        Args:
            records: dataclass objects, as analyses return them; None is shown as a dash.
            columns: the head of every column, and the attribute that it shows.

        Returns:
            The table, rows in the order of the records.
        """
        found = ([getattr(record, name) for name in columns.values()] for record in records)
        return cls(tuple(columns), [tuple("–" if value is None else value for value in row) for row in found])

    def markdown(self) -> list[str]:
        rule = ["---:" if number else "---" for number in self._numbers]
        return [_line(self.columns), _line(rule), *(_line([_short(value) for value in row]) for row in self.rows)]

    def csv(self) -> str:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(map(csv_cell, self.columns))
        for row in self.rows:
            writer.writerow([repr(value) if isinstance(value, float) else csv_cell(value) for value in row])
        return text.getvalue()

    def latex(self, caption: str = "", label: str = "") -> str:
        """For ``\\usepackage{booktabs}``; with a caption a table that floats."""
        columns = "".join("r" if number else "l" for number in self._numbers)
        lines = [
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            _row([escaped(column) for column in self.columns]),
            r"\midrule",
            *(_row([_latex(value) for value in row]) for row in self.rows),
            r"\bottomrule",
            r"\end{tabular}",
        ]
        if caption or label:
            head = [rf"\caption{{{escaped(caption)}}}"] if caption else []
            head += [rf"\label{{{label}}}"] if label else []
            lines = [r"\begin{table}", r"\centering", *head, *lines, r"\end{table}"]
        return "\n".join(lines) + "\n"

    def text(self, ending: str) -> str:
        """The whole of a file with this ending: .tex, .csv or, for any other, Markdown."""
        if ending == ".tex":
            return self.latex()
        return self.csv() if ending == ".csv" else "\n".join(self.markdown()) + "\n"

    def save(self, path: Path) -> Path:
        """Write LaTeX, CSV or Markdown, by the ending of the name; whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        content = self.text(path.suffix.lower()).encode()
        atomic.write_whole(path, lambda place: place.write_bytes(content))
        return path

    @property
    def _numbers(self) -> list[bool]:
        """Which columns have nothing but numbers."""
        places = range(len(self.columns))
        return [bool(self.rows) and all(not isinstance(row[i], str) for row in self.rows) for i in places]


def _line(values: Sequence[str]) -> str:
    return "| " + " | ".join(value.replace("|", "\\|") for value in values) + " |"


def _short(value: Value) -> str:
    return number(value) if isinstance(value, float) else str(value)


def number(value: float) -> str:
    """Four digits; a dash where there is none."""
    return "–" if math.isnan(value) else f"{value:.4g}"


# What LaTeX takes for commands, and signs that its usual fonts lack. A [ after the end of a row would be its argument.
_SIGNS = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", "[": "{[}", "–": "--", "—": "---", "−": "$-$", "·": r"$\cdot$", "∞": r"$\infty$",
    "±": r"$\pm$", "≤": r"$\leq$", "≥": r"$\geq$", "×": r"$\times$", "→": r"$\to$", "…": r"\ldots{}", "\u00a0": "~",
    "\n": " ", "\t": " ", "\r": " ",
}  # fmt: skip


def escaped(text: str) -> str:
    """As it is, in LaTeX."""
    # Sign by sign: what one replacement brings in must not be replaced by the next.
    return "".join(_SIGNS.get(sign, sign) for sign in text)


def _row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _latex(value: Value) -> str:
    if isinstance(value, str):
        return escaped(value)
    if isinstance(value, float) and math.isnan(value):
        return "--"
    if isinstance(value, float) and math.isinf(value):
        return r"$\infty$" if value > 0 else r"$-\infty$"
    digits, _, exponent = _short(value).partition("e")
    if exponent:
        return rf"${digits} \cdot 10^{{{int(exponent)}}}$"
    return f"${digits}$" if digits.startswith("-") else digits
