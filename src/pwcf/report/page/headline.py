"""The numbers that one quotes, with their evidence, as sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pwcf.analysis import accuracy_of, attacked_in, converged_in, found_in, metric_name, quantiles_of
from pwcf.problems import MaxLoss
from pwcf.report.page.gallery import Named
from pwcf.report.page.labels import eps_text, percent


def cards(runs: Sequence[Named]) -> list[dict[str, Any]]:
    """One for every question and metric: its runs, each with a number and sentences."""
    grouped: dict[tuple[str, str], dict[str, Any]] = {}
    several = len({each.data for each in runs}) > 1
    for i, each in enumerate(runs):
        title, about = _question(each)
        data = each.data if several else ""
        card = grouped.setdefault((title, data), {"title": title, "about": about, "data": data, "runs": []})
        card["runs"].append({"run": i, **(_accuracy(each) if _asks_loss(each) else _radius(each))})
    # What is told of one set of data together, and radii before accuracies.
    sets = list(dict.fromkeys(each.data for each in runs))
    return sorted(
        grouped.values(),
        key=lambda card: (sets.index(card["data"]) if several else 0, card["about"] != "median radius"),
    )


def overview(each: Named) -> dict[str, Any]:
    """A line of the table of all runs."""
    run = each.run
    attacked, found = attacked_in(run), found_in(run)
    line: dict[str, Any] = {
        "samples": len(run.status),
        "of": run.header.samples,
        "clean": run.clean_accuracy,
        "attacked": int(attacked.sum()),
        "found": int(found.sum()),
        "converged": None if _asks_loss(each) else int(converged_in(run).sum()),
        "passes": float(run.passes.total[attacked].double().mean()) if attacked.any() else None,
        "seconds": run.seconds,
        "robust": accuracy_of(run).robust if _asks_loss(each) else None,
        "median": None if _asks_loss(each) else quantiles_of(run, (0.5,))[0.5],
        "mean": float(run.radius[found].mean()) if not _asks_loss(each) and found.any() else None,
    }
    return line


def _asks_loss(each: Named) -> bool:
    return isinstance(each.run.problem, MaxLoss)


def _question(each: Named) -> tuple[str, str]:
    settings, metric = each.run.header.settings, metric_name(each.run)
    aim = "classified as wanted" if settings.targeted else "misclassified"
    if settings.eps is None:
        return f"Distance to the nearest {aim} point, {metric}", "median radius"
    return f"Accuracy under attack within {metric} {eps_text(settings.eps)}", "robust accuracy"


def _radius(each: Named) -> dict[str, Any]:
    run, metric = each.run, metric_name(each.run)
    attacked, found = int(attacked_in(run).sum()), found_in(run)
    low, median, high = quantiles_of(run, (0.25, 0.5, 0.75)).values()
    if not attacked:
        return {
            "value": None,
            "low": None,
            "high": None,
            "sentence": "No sample was attacked.",
            "evidence": _idle(each),
        }
    if math.isinf(median):
        sentence = f"For most of the {attacked} attacked samples no misclassified point was found."
    else:
        upper = f"{high:.4g}" if math.isfinite(high) else "beyond what was found"
        sentence = (
            f"Half of the {attacked} attacked samples have a misclassified point within {metric} distance "
            f"{median:.4g} (quartiles {low:.4g} to {upper})."
        )
    converged, number = int(converged_in(run).sum()), int(found.sum())
    evidence = [f"A verified point was found for {number} of {attacked} attacked samples{_violation(each)}."]
    if number:
        shrink = float(run.evidence.shrink[found].nanmedian())
        left = number - converged
        open_ones = (
            f"{left} ended before their evidence sufficed: those radii are upper bounds, which a longer search nearby "
            f"might lower (by {percent(shrink, 2)} in the median, by linear models)"
            if left
            else "none is left open"
        )
        evidence.append(f"{_searches(converged)} converged; {open_ones}.")
    return {"value": median, "low": low, "high": high, "sentence": sentence, "evidence": [*evidence, *_idle(each)]}


def _accuracy(each: Named) -> dict[str, Any]:
    run = each.run
    told = accuracy_of(run)
    attacked, broken = int(attacked_in(run).sum()), int(found_in(run).sum())
    metric, eps = metric_name(run), eps_text(told.eps)
    sentence = (
        f"{percent(told.robust)} of {told.samples} samples withstand every attack within {metric} {eps} "
        f"(95 % interval {percent(told.low)} to {percent(told.high)}, for samples like these)."
    )
    evidence = [f"{broken} of {attacked} attacked samples were broken, each by a verified point{_violation(each)}."]
    if told.unsettled:
        evidence.append(f"{told.unsettled} stand because no attack broke them, which is no proof: a stronger one may.")
    return {
        "value": told.robust, "low": told.low, "high": told.high, "sentence": sentence,
        "evidence": [*evidence, *_idle(each)],
    }  # fmt: skip


def _searches(count: int) -> str:
    return f"{count} search" if count == 1 else f"{count} searches"


def _violation(each: Named) -> str:
    """How far points are from being misclassified: verified ones are, so this says 0 unless a file was changed."""
    found = found_in(each.run)
    values = each.run.evidence.violation[found]
    return f", with violation {float(values.nan_to_num(0).max()):.3g}" if len(values) else ""


def _idle(each: Named) -> list[str]:
    """Samples that were not attacked."""
    run = each.run
    idle = len(run.status) - int(attacked_in(run).sum())
    sentences = []
    if idle:
        what = "are of the wanted class" if run.problem.targeted else "are misclassified"
        consequence = "count as broken" if _asks_loss(each) else "are not among these radii"
        sentences.append(
            f"{idle} of {len(run.status)} samples {what} as they are and {consequence}: clean accuracy "
            f"{percent(run.clean_accuracy)}."
        )
    if not run.complete:
        sentences.append(f"Not complete: {len(run.status)} of {run.header.samples} samples so far.")
    return sentences
