"""A table, as Markdown for people and as CSV for programs."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass

Value = str | int | float
"""floats are rounded to four digits in Markdown, in full in CSV; NaN is nothing to tell"""


@dataclass(frozen=True)
class Table:
    """Rows under columns."""

    columns: tuple[str, ...]
    rows: list[tuple[Value, ...]]

    def markdown(self) -> list[str]:
        numbers = [bool(self.rows) and all(not isinstance(row[i], str) for row in self.rows) for i in self._places]
        rule = ["---:" if number else "---" for number in numbers]
        return [_line(self.columns), _line(rule), *(_line([_short(value) for value in row]) for row in self.rows)]

    def csv(self) -> str:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows([repr(value) if isinstance(value, float) else value for value in row] for row in self.rows)
        return text.getvalue()

    @property
    def _places(self) -> range:
        return range(len(self.columns))


def _line(values: Sequence[str]) -> str:
    return "| " + " | ".join(value.replace("|", "\\|") for value in values) + " |"


def _short(value: Value) -> str:
    return number(value) if isinstance(value, float) else str(value)


def number(value: float) -> str:
    """Four digits; a dash where there is none."""
    return "–" if math.isnan(value) else f"{value:.4g}"
