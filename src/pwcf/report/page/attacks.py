"""Who found what: a table of attacks, and who breaks samples that others do not."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from pwcf.analysis import Agreement, agreement_of, agreement_within, attacks_name, found_in, metric_name, quantiles_of
from pwcf.problems import MaxLoss
from pwcf.report.page.gallery import Named


def contributions(each: Named) -> list[dict[str, Any]]:
    """A line for every attack of a run."""
    found = found_in(each.run)
    best = Counter(name for name, broken in zip(each.run.attack, found.tolist(), strict=True) if broken)
    lines = []
    for one in each.run.contributions:
        asked = int(one.asked.sum())
        lines.append({
            "name": one.name,
            "about": one.about,
            "black_box": one.black_box,
            "asked": asked,
            "found": int(one.found.sum()),
            "best": best[one.name],
            "passes": float(one.passes[one.asked].double().mean()) if asked else None,
            "seconds": one.seconds,
        })  # fmt: skip
    return lines


def agreements(runs: Sequence[Named]) -> list[dict[str, Any]]:
    """Between the attacks of one run, and between runs of one model that differ in their attacks."""
    made = []
    for i, each in enumerate(runs):
        if len(each.run.contributions) < 2 or isinstance(each.run.problem, MaxLoss):
            continue
        eps = quantiles_of(each.run, (0.5,))[0.5]
        if math.isfinite(eps):
            told = agreement_within(each.run, eps)
            made.append({"runs": [i], "title": each.name, "eps": eps, "within": True, **_told(told)})
    for members in _rivals(runs):
        within: float | None = None
        if not isinstance(runs[members[0]].run.problem, MaxLoss):
            within = min(quantiles_of(runs[i].run, (0.5,))[0.5] for i in members)
            if not math.isfinite(within):
                continue
        told = agreement_of({runs[i].name: runs[i].run for i in members}, within)
        if told.samples:
            title = f"{metric_name(runs[members[0]].run)}: runs of one model with different attacks"
            made.append({"runs": members, "title": title, "eps": within, "within": False, **_told(told)})
    return made


def _rivals(runs: Sequence[Named]) -> list[list[int]]:
    grouped: dict[tuple[object, ...], list[int]] = {}
    for i, each in enumerate(runs):
        header = each.run.header
        key = (header.model.fingerprint, header.settings.metric, header.settings.eps, header.settings.targeted)
        grouped.setdefault(key, []).append(i)
    return [each for each in grouped.values() if len({attacks_name(runs[i].run) for i in each}) > 1]


def _told(agreement: Agreement) -> dict[str, Any]:
    return {
        "names": agreement.names,
        "samples": agreement.samples,
        "counts": agreement.counts.tolist(),
        "alone": agreement.alone.tolist(),
        "union": agreement.union,
        "only_first": agreement.only_first.tolist(),
        "union_curve": [list(pair) for pair in agreement.union_curve()],
    }
