"""Parts of sentences that many errors share."""

from __future__ import annotations

from collections.abc import Sequence

# Enough to recognise the cause; whole pages of a library's advice would bury what we say ourselves.
LONGEST = 300


def sample(index: int, names: Sequence[str] | None = None) -> str:
    """How errors call a sample."""
    return f"sample {index}" if names is None else f"sample {index} ({names[index]})"


def one_line(error: object) -> str:
    """What a library said, without line ends and not endlessly."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def a_few(names: Sequence[str], most: int = 3) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def size(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))
