"""Parts of sentences that the errors of many rooms share."""

from __future__ import annotations

import difflib
import math
import reprlib
import unicodedata
from collections.abc import Iterable, Sequence

# Enough to recognise the cause; whole pages of a library's advice would bury what we say ourselves.
LONGEST = 300


def first_line(message: object) -> str:
    """The first line that is not empty, of an error's message or of any text; an empty string if there is none."""
    lines = (line.strip() for line in str(message).splitlines())
    return next((line for line in lines if line), "")


def describe_error(error: BaseException) -> str:
    """Another library's error in one line: its type, and the first line of its message that is not empty."""
    first = first_line(error)
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def one_line(error: object) -> str:
    """The whole message of an error on one line, cut after ``LONGEST`` characters."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def brief(value: object) -> str:
    """A value as errors show it: as Python writes it, long and deep ones cut, whatever their size."""
    return one_line(_BRIEF.repr(value))


class _Brief(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxother, self.maxlong = 4, 120, 120, 60
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = self.maxfrozenset = self.maxdeque = 12

    def repr_int(self, x: int, level: int) -> str:
        digits = int(math.log10(abs(x))) if x else 0
        return super().repr_int(x, level) if digits < 1000 else f"an integer of {digits} digits"


_BRIEF = _Brief()


def printable(text: str) -> str:
    """A text from elsewhere for a terminal: what could steer it, or the direction of writing, is shown as a code."""
    return "".join(
        one if one in "\n\t" or unicodedata.category(one) not in _STEERING else ascii(one)[1:-1] for one in text
    )


# Control characters and those of formatting, which are not seen; halves of characters cannot be printed at all.
_STEERING = ("Cc", "Cf", "Cs")


def csv_cell(value: object) -> object:
    """A cell of a CSV file: texts that a spreadsheet would compute are marked as texts."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def first_few(names: Iterable[str], most: int = 3) -> str:
    """The first names, and how many more there are: ``"a, b, c and 4 more"``."""
    every = list(names)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``"; did you mean a or b?"`` where known names look like this one, else an empty string."""
    close = difflib.get_close_matches(name, list(known), n=3)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def format_shape(shape: Sequence[int]) -> str:
    """A shape as people write it: ``"3x32x32"``."""
    return "x".join(map(str, shape))


def parse_fraction(text: float | str) -> float:
    """A number, or a fraction such as 8/255, as a float; NaN where it is neither."""
    try:
        above, slash, below = str(text).partition("/")
        return float(above) / (float(below) if slash else 1)
    except (ValueError, ZeroDivisionError):
        return math.nan
