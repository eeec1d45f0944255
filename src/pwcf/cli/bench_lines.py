"""What a benchmark says while it works: one line each."""

from __future__ import annotations

from pwcf.analysis import robust_accuracy, spread
from pwcf.records import Record

# So much of a sentence is shown; the files have all of it.
SHORT = 160


def outcome(record: Record) -> str:
    right, passes = record.right, record.passes
    spent = float(passes[right].double().mean()) if bool(right.any()) else 0.0
    cost = f"{spent:.0f} passes, {record.header.made.seconds:.1f} s"
    if record.cell.eps is not None:
        return f"robust accuracy {robust_accuracy(record.adversarial, right):.1%}, {cost}"
    s = spread(record.radius, right)
    found = "" if s.found == s.right else f" ({s.found} of {s.right} found)"
    return f"mean radius {s.mean:.5g}{found}, {cost}"


def shortened(sentence: str) -> str:
    sentence = " ".join(sentence.split())
    return sentence if len(sentence) <= SHORT else sentence[: SHORT - 3] + "..."


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
