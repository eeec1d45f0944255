"""Short names of runs: no longer than it takes to tell them apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pwcf.analysis import attacks_name, data_name, data_names, eps_text, metric_name, model_name
from pwcf.runs import RecordedRun


class Label(NamedTuple):
    name: str
    """among all runs"""
    series: str
    """among those about the same question"""


def labels_of(runs: Sequence[RecordedRun], folders: Sequence[str]) -> list[Label]:
    """``folders``: names that are used where nothing else differs."""
    losses = {run.header.settings.loss for run in runs if run.header.settings.eps is not None}
    first = [(model_name(run), question_of(run, named=len(losses) > 1)) for run in runs]
    differs = [len({pair[i] for pair in first}) > 1 for i in (0, 1)]
    series = [[model] if differs[0] or not differs[1] else [] for model, _ in first]
    questions = [question if differs[1] or len(runs) == 1 else "" for _, question in first]
    data = list(data_names({str(i): run for i, run in enumerate(runs)}).values())
    # A run's own file where the set is called after another's.
    data = [name if name.endswith(own := data_name(run)) else own for name, run in zip(data, runs, strict=True)]
    for texts in ([attacks_name(run) for run in runs], data, *([part(run) for run in runs] for part in _FURTHER)):
        if _distinct(series, questions):
            break
        if len(set(texts)) > 1:
            series = [[*have, text] for have, text in zip(series, texts, strict=True)]
    if not _distinct(series, questions):
        series = [[*have, folder] for have, folder in zip(series, folders, strict=True)]
    if not _distinct(series, questions):
        series = [[*have, str(i)] for i, have in enumerate(series, 1)]
    return [
        Label(" · ".join([*have, question] if question else have), " · ".join(have) or model)
        for have, question, (model, _) in zip(series, questions, first, strict=True)
    ]


_FURTHER: tuple[Callable[[RecordedRun], str], ...] = (
    lambda run: f"budget {run.header.budget}",
    lambda run: f"seed {run.header.settings.seed}",
    lambda run: f"model {run.header.model.fingerprint[:6]}",
)


def _distinct(series: Sequence[Sequence[str]], questions: Sequence[str]) -> bool:
    pairs = [(tuple(have), question) for have, question in zip(series, questions, strict=True)]
    return len(set(pairs)) == len(pairs)


def question_of(run: RecordedRun, *, named: bool = False) -> str:
    """``named``: with its loss even if that is the usual one."""
    settings = run.header.settings
    words = metric_name(run)
    if settings.eps is not None:
        words += f" ≤ {eps_text(settings.eps)}" + (
            "" if settings.loss == "margin" and not named else f", {settings.loss}"
        )
    return words + (", targeted" if settings.targeted else "")


def percent(share: float, digits: int = 1) -> str:
    """As on the rest of the page."""
    return f"{100 * share:.{digits}f} %"


def names_among(labels: Sequence[Label]) -> list[str]:
    """Short ones where these tell apart."""
    seen = Counter(label.series for label in labels)
    return [label.series if seen[label.series] == 1 else label.name for label in labels]
