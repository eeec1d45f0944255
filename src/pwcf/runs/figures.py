"""The figures of a run from its rows alone, without loading a network library: they are to be seen at once."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pwcf.runs.header import Header

if TYPE_CHECKING:
    import pyarrow

COLUMNS = (
    "index", "adversarial", "radius", "status", "attack", "stationarity", "forward", "backward", "metric_forward",
    "metric_backward", "seconds", "warnings",
)  # fmt: skip
SENTENCES = "\n"
"""between the warnings of a chunk"""
_SOME = re.compile(r"\b(\d+) of (\d+)\b")
# Statuses of samples that were not attacked: the model is wrong as it is, or gives no logits.
WRONG, UNDEFINED = "already-misclassified", "nonfinite"


@dataclass(frozen=True)
class Figures:
    """What one wants to know first."""

    question: str
    samples: int
    """of the whole run"""
    done: int
    clean_accuracy: float
    robust_accuracy: float | None
    """max-loss, of the samples that are done"""
    attacked: int
    found: int
    radius: dict[str, float]
    """mean, median, least, largest of those found"""
    status: dict[str, int]
    best: dict[str, int]
    """by whom the best points were found"""
    passes: float
    """mean of attacked samples"""
    metric_passes: float
    stationarity: float | None
    """median of those found: the share of the radius that could still go"""
    seconds: float
    warnings: list[str]

    def to_json(self) -> dict[str, Any]:
        content: dict[str, Any] = plain(vars(self))
        return content


def figures_of(header: Header, rows: pyarrow.Table) -> Figures:
    import pyarrow

    status = np.asarray(rows["status"].to_pylist(), dtype=object)
    adversarial, radius = rows["adversarial"].to_numpy(), rows["radius"].to_numpy()
    defined = status != UNDEFINED
    attacked = defined & (status != WRONG)
    found = adversarial & attacked
    passes = rows["forward"].to_numpy() + rows["backward"].to_numpy()
    own = rows["metric_forward"].to_numpy() + rows["metric_backward"].to_numpy()
    r = radius[found]
    several = {"mean": r.mean, "median": lambda: np.median(r), "least": r.min, "largest": r.max}
    return Figures(
        question_of(header),
        header.samples,
        len(rows),
        float(attacked.mean()),
        None if header.settings.eps is None else float((~adversarial & defined).mean()),
        int(attacked.sum()),
        int(found.sum()),
        {name: float(value()) for name, value in several.items()} if len(r) else {},
        dict(Counter(status.tolist()).most_common()),
        dict(Counter(rows["attack"].filter(pyarrow.array(found)).to_pylist()).most_common()),
        float(passes[attacked].mean()) if attacked.any() else 0.0,
        float(own[attacked].mean()) if attacked.any() else 0.0,
        float(np.median(rows["stationarity"].to_numpy()[found])) if len(r) and header.settings.eps is None else None,
        float(rows["seconds"].to_numpy().sum()),
        warnings_of(header, rows),
    )


def warnings_of(header: Header, rows: pyarrow.Table) -> list[str]:
    """What chunks have said, each sentence once: what it says of some of many samples is added up."""
    import pyarrow

    first = rows["index"].to_numpy() % header.settings.chunk == 0
    counts: dict[str, list[int]] = {}
    for text in rows["warnings"].filter(pyarrow.array(first)).to_pylist():
        for sentence in filter(None, text.split(SENTENCES)):
            found = [int(number) for pair in _SOME.findall(sentence) for number in pair]
            key = _SOME.sub("{} of {}", sentence.replace("{", "{{").replace("}", "}}"))
            counts[key] = [a + b for a, b in zip(counts.get(key, [0] * len(found)), found, strict=True)]
    return [key.format(*numbers) for key, numbers in counts.items()]


def plain(value: Any) -> Any:
    """For JSON, which knows neither NaN nor infinity: null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return value


def question_of(header: Header) -> str:
    """As one says it."""
    asked = header.settings
    within = "" if asked.eps is None else f" within {asked.eps:.6g}, {asked.loss}"
    return f"{asked.question}, {asked.metric}{within}" + (", targeted" if asked.targeted else "")
