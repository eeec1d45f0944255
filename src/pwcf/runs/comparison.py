"""Runs side by side on the samples they share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pwcf._common import statistics
from pwcf.runs.header import Header
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
    notes: list[str]


def compare_runs(headers: Sequence[Header], tables: Sequence[pyarrow.Table]) -> RunComparison:
    """Compare runs on the samples that all of them have, known by image and label, whatever file they came from.

    For two runs sample by sample see ``pwcf.analysis.compare_radii``.

    Args:
        headers: of the runs.
        tables: their rows, in the same order.

    Returns:
        A dictionary of statistics for each run. ``mean_radius`` and ``median_radius`` are over the samples that every
        run attacked and broke, ``best`` and ``alone`` count samples (``alone``: ``statistics.broken_alone``).
    """
    places = [sample_places(rows) for rows in tables]
    shared = [key for key in places[0] if all(key in each for each in places)]
    chosen = [np.array([each[key] for key in shared], dtype=np.int64) for each in places]
    columns = [{name: rows[name].to_numpy(zero_copy_only=False)[some] for name in
                ("radius", "adversarial", "status", "forward", "backward", "seconds")}
               for rows, some in zip(tables, chosen, strict=True)]  # fmt: skip
    radius = np.stack([each["radius"] for each in columns]) if shared else np.zeros((len(tables), 0))
    broken = np.stack([each["adversarial"].astype(bool) for each in columns]) if shared else radius.astype(bool)
    attacked = [statistics.attacked(each["status"]) for each in columns]
    by_all = np.stack(attacked).all(0) if shared else np.zeros(0, dtype=bool)
    everywhere = broken.all(0) & by_all
    alone = statistics.broken_alone(broken, by_all)
    least = radius.min(0) if len(tables) and shared else radius
    runs = []
    for i, (header, each) in enumerate(zip(headers, columns, strict=True)):
        r, passes = radius[i][everywhere], each["forward"] + each["backward"]
        status, max_loss = each["status"], header.settings.eps is not None
        runs.append({
            "question": question_of(header),
            "samples": len(tables[i]),
            "clean_accuracy": statistics.clean_accuracy(status),
            "robust_accuracy": statistics.robust_accuracy(status, broken[i]) if max_loss and shared else None,
            "mean_radius": float(r.mean()) if len(r) and not max_loss else None,
            "median_radius": statistics.quantile(np.sort(r), 0.5) if len(r) and not max_loss else None,
            "best": int((broken[i] & attacked[i] & (radius[i] <= least * (1 + SAME))).sum()) if shared else 0,
            "alone": alone[i],
            "passes": statistics.mean_passes(status, passes),
            "seconds": float(each["seconds"].sum()),
        })  # fmt: skip
    return RunComparison(runs, len(shared), _notes(headers, len(shared)))


def sample_places(rows: pyarrow.Table) -> dict[tuple[str, int, int], int]:
    """Where each sample is: by its image, its label, and the how manieth of these it is."""
    seen: Counter[tuple[str, int]] = Counter()
    found = {}
    for i, key in enumerate(zip(rows["image"].to_pylist(), rows["label"].to_pylist(), strict=True)):
        found[*key, seen[key]] = i
        seen[key] += 1
    return found


def _notes(headers: Sequence[Header], shared: int) -> list[str]:
    notes = []
    if shared == 0:
        notes.append("the runs share no sample: nothing can be compared")
    if len({question_of(header) for header in headers}) > 1:
        notes.append("the questions differ: radii and accuracies of different ones are no match")
    if len({header.model.fingerprint for header in headers}) > 1:
        notes.append("the models differ: a smaller radius may be the model's doing")
    return notes
