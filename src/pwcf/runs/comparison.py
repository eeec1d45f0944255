"""Runs side by side on the samples they share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pwcf._common import statistics
from pwcf.runs.header import Header
from pwcf.runs.settings import RunError
from pwcf.runs.summary import question_of

if TYPE_CHECKING:
    import pyarrow

# Radii that differ by less are the same.
SAME = 1e-6


@dataclass(frozen=True)
class RunComparison:
    """Runs side by side."""

    runs: list[dict[str, Any]]
    """statistics of each, on shared samples"""
    shared: int
    attacked: int
    """shared samples that every run attacked"""
    found: int
    """of these, samples that every run found a point for"""
    match: bool
    """whether the runs answer the same question"""
    notes: list[str]


def compare_runs(headers: Sequence[Header], tables: Sequence[pyarrow.Table]) -> RunComparison:
    """Compare runs on the samples that all of them have, known by image and label, whatever file they came from.

    For two runs sample by sample see ``pwcf.analysis.compare_radii``.

    Args:
        headers: of the runs.
        tables: their rows, in the same order.

    Returns:
        A dictionary of statistics for each run. As in summaries, ``mean_radius`` is over samples with a point, here
        those that every run attacked and found one for, and ``median_radius`` over those that every run attacked.
        ``best`` and ``alone`` count samples (``alone``: ``statistics.broken_alone``). Where the runs answer different
        questions their radii are no match: ``best`` and ``alone`` are None, and the radii are over each run's own.
        Of a single run they are None, too.

    Raises:
        RunError: the runs share no sample.
    """
    places = [sample_places(rows) for rows in tables]
    shared = [key for key in places[0] if all(key in each for each in places)]
    if not shared:
        have = ", ".join(f"{header.data.spec!r} {len(rows)}" for header, rows in zip(headers, tables, strict=True))
        raise RunError(
            "compare: expected runs with samples in common (the same image and label), found none, so nothing can be "
            f"compared; samples recorded: {have}"
        )
    chosen = [np.array([each[key] for key in shared], dtype=np.int64) for each in places]
    columns = [{name: rows[name].to_numpy(zero_copy_only=False)[some] for name in
                ("radius", "adversarial", "status", "forward", "backward", "seconds")}
               for rows, some in zip(tables, chosen, strict=True)]  # fmt: skip
    radius = np.stack([each["radius"] for each in columns])
    broken = np.stack([each["adversarial"].astype(bool) for each in columns])
    attacked = [statistics.attacked(each["status"]) for each in columns]
    by_all = np.stack(attacked).all(0)
    everywhere = broken.all(0) & by_all
    alone, least = statistics.broken_alone(broken, by_all), radius.min(0)
    match = len({_asked(header) for header in headers}) == 1
    contest = match and len(headers) > 1
    runs = []
    for i, (header, each) in enumerate(zip(headers, columns, strict=True)):
        status, max_loss = each["status"], header.settings.eps is not None
        some, whole = (everywhere, by_all) if match else (broken[i] & attacked[i], attacked[i])
        runs.append({
            "question": question_of(header),
            "samples": len(tables[i]),
            "found": int((broken[i] & attacked[i]).sum()),
            "attacked": int(attacked[i].sum()),
            "clean_accuracy": statistics.clean_accuracy(status),
            "robust_accuracy": statistics.robust_accuracy(status, broken[i]) if max_loss else None,
            "mean_radius": float(radius[i][some].mean()) if some.any() and not max_loss else None,
            "median_radius": statistics.median(radius[i][whole]) if whole.any() and not max_loss else None,
            "best": int((broken[i] & attacked[i] & (radius[i] <= least * (1 + SAME))).sum()) if contest else None,
            "alone": alone[i] if contest else None,
            "passes": statistics.mean_passes(status, each["forward"] + each["backward"]),
            "seconds": float(each["seconds"].sum()),
        })  # fmt: skip
    return RunComparison(runs, len(shared), int(by_all.sum()), int(everywhere.sum()), match, _notes(headers, match))


def sample_places(rows: pyarrow.Table) -> dict[tuple[str, int, int], int]:
    """Where each sample is: by its image, its label, and the how manieth of these it is."""
    seen: Counter[tuple[str, int]] = Counter()
    found = {}
    for i, key in enumerate(zip(rows["image"].to_pylist(), rows["label"].to_pylist(), strict=True)):
        found[*key, seen[key]] = i
        seen[key] += 1
    return found


def _asked(header: Header) -> tuple[object, ...]:
    """What makes answers a match: the question but for the loss, by which the same points are found."""
    asked = header.settings
    return asked.question, asked.metric, header.metric, asked.eps, asked.targeted


def _notes(headers: Sequence[Header], match: bool) -> list[str]:
    notes = []
    if not match:
        notes.append(
            "the questions differ (metric, eps, min-radius or max-loss, targets): radii and accuracies of different "
            "ones are no match, and nobody is counted as best or alone"
        )
    if len({header.model.fingerprint for header in headers}) > 1:
        notes.append("the models differ: a smaller radius may be the model's doing")
    return notes
