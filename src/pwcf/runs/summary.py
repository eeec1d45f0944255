"""The summary of a run from its rows alone, without loading a network library: it is to be seen at once."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pwcf._common import statistics
from pwcf._common.usual_eps import usual_eps
from pwcf._common.wording import question_text
from pwcf.runs.header import Header

if TYPE_CHECKING:
    import pyarrow

COLUMNS = (
    "index", "adversarial", "radius", "status", "attack", "gain", "forward", "backward", "metric_forward",
    "metric_backward", "seconds", "warnings", "budget", "revision", "nearest", "agreement", "searches", "loss",
    "label",
)  # fmt: skip
"""of a run's rows, which a summary needs"""
SENTENCES = "\n"
"""between the warnings of a chunk"""
_SOME = re.compile(r"\b(\d+) of (\d+)\b")


@dataclass(frozen=True)
class RunSummary:
    """What one wants to know of a run first. ``pwcf._common.statistics`` says what each number means."""

    question: str
    samples: int
    """of the whole run"""
    done: int
    clean_accuracy: float
    robust_accuracy: float | None
    """max-loss, of the samples that are done"""
    attacked: int
    found: int
    converged: int | None
    """min-radius"""
    radius: dict[str, float]
    """min-radius: mean, least and largest of those found, median of all that were attacked; empty if none was found"""
    status: dict[str, int]
    best: dict[str, int]
    """by whom the best points were found"""
    passes: float
    """mean of attacked samples"""
    metric_passes: float
    gain: float | None
    """median of those found: the share of the radius that a much longer search is likely to gain at most"""
    near: dict[str, float]
    """max-loss: how near the search came to what it did not break, in eps (``statistics.nearest_seen``)"""
    largest_loss: dict[str, float]
    """max-loss: how far the search drove the loss of what it did not break (``statistics.largest_loss``)"""
    seconds: float
    warnings: list[str]
    eps: list[float]
    """of ``robust_at``; in max-loss that of the question"""
    robust_at: list[float]
    """min-radius: robust accuracy of the samples that are done at each of ``eps``, upper bounds"""
    classes: list[statistics.ClassStatistics]
    """those that have samples, by label; of targeted runs the wanted classes"""

    @property
    def extremes(self) -> tuple[list[statistics.ClassStatistics], list[statistics.ClassStatistics]] | None:
        """The least and the most robust classes (``statistics.extremes``)."""
        return statistics.extremes(self.classes, self.robust_accuracy is not None)

    def to_json(self) -> dict[str, Any]:
        content: dict[str, Any] = json_safe(asdict(self))
        return content


def summarize(header: Header, rows: pyarrow.Table, eps: Sequence[float] | None = None) -> RunSummary:
    """The summary of what is there so far.

    Args:
        header: of the run.
        rows: at least its ``COLUMNS``.
        eps: at which a min-radius run tells its robust accuracy; default: those it was asked for, or ``usual_eps``.
    """
    import pyarrow

    status = rows["status"].to_pylist()
    adversarial, radius = rows["adversarial"].to_numpy(zero_copy_only=False), rows["radius"].to_numpy()
    found = statistics.found(status, adversarial)
    max_loss = header.settings.eps is not None
    passes = rows["forward"].to_numpy() + rows["backward"].to_numpy()
    own = rows["metric_forward"].to_numpy() + rows["metric_backward"].to_numpy()
    asked = [header.settings.eps] if header.settings.eps is not None else eps or header.settings.accuracy_at
    if not asked:
        attacked = statistics.attacked(status)
        asked = usual_eps(header.settings.metric, header.shape, header.settings.bounds, [radius[attacked]])
    radii = {} if max_loss else statistics.radius_figures(status, adversarial, radius)
    return RunSummary(
        question=question_of(header),
        samples=header.samples,
        done=len(rows),
        clean_accuracy=statistics.clean_accuracy(status),
        robust_accuracy=statistics.robust_accuracy(status, adversarial) if max_loss else None,
        attacked=int(statistics.attacked(status).sum()),
        found=int(found.sum()),
        converged=None if max_loss else int(statistics.converged(status).sum()),
        radius=radii,
        status=dict(Counter(status).most_common()),
        best=dict(Counter(rows["attack"].filter(pyarrow.array(found)).to_pylist()).most_common()),
        passes=statistics.mean_passes(status, passes),
        metric_passes=statistics.mean_passes(status, own),
        gain=statistics.median(rows["gain"].to_numpy()[found]) if radii and "gain" in rows.column_names else None,
        near=_near(header, rows, status, adversarial),
        largest_loss=_largest_loss(header, rows, status, adversarial),
        seconds=float(rows["seconds"].to_numpy().sum()),
        warnings=warnings_of(header, rows),
        eps=list(asked),
        robust_at=[] if max_loss else [statistics.robust_accuracy_at(status, radius, each) for each in asked],
        classes=statistics.by_class(
            status, adversarial, radius, rows["label"].to_numpy(),
            names=header.classes, max_loss=max_loss, eps=asked,
        ),
    )  # fmt: skip


def _near(header: Header, rows: pyarrow.Table, status: list[str], adversarial: Any) -> dict[str, float]:
    eps, names = header.settings.eps, ("nearest", "agreement", "searches")
    if eps is None or not set(names) <= set(rows.column_names):
        return {}
    nearest, agreement, searches = (rows[name].to_numpy() for name in names)
    return statistics.nearest_seen(status, adversarial, nearest, eps, agreement, searches)


def _largest_loss(header: Header, rows: pyarrow.Table, status: list[str], adversarial: Any) -> dict[str, float]:
    if header.settings.eps is None or "loss" not in rows.column_names:
        return {}
    return statistics.largest_loss(status, adversarial, rows["loss"].to_numpy(), header.settings.targeted)


def warnings_of(header: Header, rows: pyarrow.Table) -> list[str]:
    """The warnings of all chunks, each sentence once; numbers in "3 of 20 samples" are added up.

    Numbers of samples that were not searched with the run's last budget are told apart, with theirs: a larger budget
    may have answered what they count. Before them, what cannot be checked of an older folder.
    """
    budgets, texts = row_numbers(rows, "budget", header.first_budget), rows["warnings"].to_pylist()
    # One row of each evaluation speaks for all of them.
    evaluations = np.stack([rows["index"].to_numpy() // header.settings.chunk, row_numbers(rows, "revision", 0)])
    counts: dict[str, list[int]] = {}
    for place in np.unique(evaluations, axis=1, return_index=True)[1].tolist():
        for sentence in filter(None, texts[place].split(SENTENCES)):
            found = [int(number) for pair in _SOME.findall(sentence) for number in pair]
            key = _SOME.sub("{} of {}", sentence.replace("{", "{{").replace("}", "}}"))
            if found and budgets[place] < header.budget:
                key = f"With a budget of {budgets[place]}: {key}"
            counts[key] = [a + b for a, b in zip(counts.get(key, [0] * len(found)), found, strict=True)]
    older = [] if header.unchecked is None else [header.unchecked]
    return older + [key.format(*numbers) for key, numbers in counts.items()]


def row_numbers(rows: pyarrow.Table, name: str, absent: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """A column (n,) of integers; ``absent`` where older rows do not have it."""
    if name not in rows.column_names:
        return np.full(len(rows), absent, dtype=np.int64)
    return np.asarray(rows[name].fill_null(absent).to_numpy(), dtype=np.int64)


def earlier_text(header: Header) -> str:
    """What a continued run was before, as terminal and page show it: ``10 of 10 samples with a budget of 300``."""
    return ", then ".join(
        f"{stage.done} of {stage.samples} samples with a budget of {stage.budget}" for stage in header.earlier
    )


def question_of(header: Header) -> str:
    """The question of a run, as the terminal shows it: ``max-loss, linf ≤ 8/255, margin``."""
    asked = header.settings
    return f"{asked.question}, {question_text(asked.metric, asked.eps, asked.loss, asked.targeted)}"


def json_safe(value: Any) -> Any:
    """A value for JSON, which knows neither NaN nor infinity: null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(name): json_safe(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_safe(one) for one in value]
    return value
