"""The headline of a page: the numbers that one quotes, with their evidence, as sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pwcf._common import statistics
from pwcf._common.wording import gain_text, largest_loss_text, nearest_text, radius_text, share_text
from pwcf.analysis import (
    accuracy_of,
    attacked_in,
    converged_in,
    defined_in,
    eps_text,
    found_in,
    metric_name,
    quantiles_of,
    question_title,
)
from pwcf.report.page.runs import PageRun, json_number, several_data_sets
from pwcf.runs.summary import summarize


def cards(runs: Sequence[PageRun]) -> list[dict[str, Any]]:
    """One for every question and metric: its runs, each with a number and sentences."""
    grouped: dict[tuple[str, str], dict[str, Any]] = {}
    several = several_data_sets(runs)
    for i, each in enumerate(runs):
        title, about = question_title(each.run), "robust accuracy" if each.max_loss else "median radius"
        data = each.data if several else ""
        card = grouped.setdefault((title, data), {"title": title, "about": about, "data": data, "runs": []})
        card["runs"].append({"run": i, **(_accuracy(each) if each.max_loss else _radius(each))})
    # Cards about one data set together, radii before accuracies.
    sets = list(dict.fromkeys(each.data for each in runs))
    return sorted(
        grouped.values(),
        key=lambda card: (sets.index(card["data"]) if several else 0, card["about"] != "median radius"),
    )


def overview(each: PageRun) -> dict[str, Any]:
    """A line of the table of all runs: the numbers of ``pwcf show``."""
    summary = summarize(each.run.header, each.run.rows)
    return {
        "samples": summary.done,
        "of": summary.samples,
        "clean": summary.clean_accuracy,
        "attacked": summary.attacked,
        "found": summary.found,
        "converged": summary.converged,
        "passes": summary.passes,
        "seconds": summary.seconds,
        "robust": summary.robust_accuracy,
        "median": None if each.max_loss else json_number(quantiles_of(each.run, (0.5,))[0.5]),
        "mean": summary.radius.get("mean"),
    }


def _point(each: PageRun) -> str:
    """What an adversarial point is."""
    return "point classified as wanted" if each.targeted else "misclassified point"


def _radius(each: PageRun) -> dict[str, Any]:
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
    converged, number = int(converged_in(run).sum()), int(found.sum())
    if not number:
        whom = "the one attacked sample" if attacked == 1 else f"any of the {attacked} attacked samples"
        sentence = f"No {_point(each)} was found for {whom}."
    elif attacked == 1:
        sentence = f"The one attacked sample has a {_point(each)} at {metric} distance {median:.4g}."
    elif math.isinf(median):
        sentence = f"For most of the {attacked} attacked samples no {_point(each)} was found."
    else:
        upper = f"{high:.4g}" if math.isfinite(high) else "beyond what was found"
        sentence = (
            f"Half of the {attacked} attacked samples have a {_point(each)} within {metric} distance "
            f"{median:.4g} (quartiles {low:.4g} to {upper})."
        )
    evidence = [f"A verified point was found for {number} of {_samples(attacked, 'attacked ')}{_violation(each)}."]
    if number:
        left, radii = number - converged, summarize(run.header, run.rows).radius
        evidence.append(f"Radius: {radius_text(radii, number, attacked)}.")
        evidence.append(f"{_searches(converged)} converged; {_open(each, left) if left else 'none is left open'}.")
    return {
        "value": json_number(median), "low": json_number(low), "high": json_number(high), "sentence": sentence,
        "evidence": [*evidence, *_idle(each)],
    }  # fmt: skip


def _open(each: PageRun, left: int) -> str:
    """Of searches that found a point and did not converge."""
    run = each.run
    gain = statistics.median(run.evidence.gain[found_in(run) & ~converged_in(run)].double().cpu().numpy())
    those = "1 did not: that radius is an upper bound" if left == 1 else f"{left} did not: those are upper bounds"
    return f"{those}; {gain_text(gain)}"


def _accuracy(each: PageRun) -> dict[str, Any]:
    run = each.run
    accuracy = accuracy_of(run)
    attacked, broken = int(attacked_in(run).sum()), int(found_in(run).sum())
    metric, eps = metric_name(run), eps_text(accuracy.eps)
    does = "withstand every attack" if not each.targeted else "are not classified as wanted by any attack"
    sentence = (
        f"{share_text(accuracy.robust)} of {_samples(accuracy.samples)} {does} within {metric} {eps} "
        f"(95% interval {share_text(accuracy.low)} to {share_text(accuracy.high)}, for samples like these)."
    )
    evidence = [f"{broken} of {_samples(attacked, 'attacked ')} {'was' if broken == 1 else 'were'} broken"]
    evidence[0] += f"{', each' if broken > 1 else ''} by a verified point{_violation(each)}." if broken else "."
    if accuracy.unsettled:
        stand = "1 stands because no attack broke it" if accuracy.unsettled == 1 else (
            f"{accuracy.unsettled} stand because no attack broke them"
        )  # fmt: skip
        evidence.append(f"{stand}, which is no proof: a stronger one may.")
        if near := run.nearest_seen():
            evidence.append(f"The {nearest_text(near)}.")
        if seen := run.largest_loss():
            asked = run.header.settings
            evidence.append(f"The {largest_loss_text(seen, asked.loss, asked.targeted)}.")
    return {
        "value": accuracy.robust, "low": accuracy.low, "high": accuracy.high, "sentence": sentence,
        "evidence": [*evidence, *_idle(each)],
    }  # fmt: skip


def _searches(count: int) -> str:
    return f"{count} search" if count == 1 else f"{count} searches"


def _samples(count: int, kind: str = "") -> str:
    return f"{count} {kind}sample" if count == 1 else f"{count} {kind}samples"


def _violation(each: PageRun) -> str:
    """How far points are from being what they should be: verified ones are, so 0 unless a file was changed."""
    found = found_in(each.run)
    values = each.run.evidence.violation[found]
    if not len(values):
        return ""
    return f", with violation {float(values.nan_to_num(0).max()):.3g} (how far it is outside the bounds or beyond eps)"


def _idle(each: PageRun) -> list[str]:
    """Samples that were not attacked."""
    run = each.run
    n, undefined = len(run.status), int((~defined_in(run)).sum())
    wrong = n - int(attacked_in(run).sum()) - undefined
    clean = "not yet of the wanted class" if each.targeted else "clean accuracy"
    sentences = []
    if wrong:
        what = "of the wanted class" if each.targeted else "misclassified"
        counted = ("counts" if wrong == 1 else "count") + " as broken"
        consequence = counted if each.max_loss else f"{_are(wrong)} not among these radii"
        as_it_is = "as it is" if wrong == 1 else "as they are"
        sentences.append(f"{wrong} of {_samples(n)} {_are(wrong)} {what} {as_it_is} and {consequence}")
    if undefined:
        whose = "it" if undefined == 1 else "them"
        consequence = "not robust" if each.max_loss else "not among these radii"
        sentences.append(
            f"For {undefined} of {_samples(n)} the model gives no finite logits: nothing was attacked there, and the "
            f"page counts {whose} as {consequence}"
        )
    if sentences:
        sentences[-1] += f"; {clean}: {share_text(run.clean_accuracy)}"
    if not run.complete:
        sentences.append(f"Not complete: {n} of {run.header.samples} samples so far")
    return [f"{sentence}." for sentence in sentences]


def _are(count: int) -> str:
    return "is" if count == 1 else "are"
