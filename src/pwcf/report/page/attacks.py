"""Who found what: a table of attacks, and who breaks samples that others do not."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from pwcf.analysis import Agreement, agreement_of, attacks_name, found_in, metric_name, quantiles_of
from pwcf.problems import MaxLoss
from pwcf.report.page.gallery import Key, Named
from pwcf.runs.comparison import sample_places


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
    """Between runs of one model that differ in their attacks.

    Not between the attacks of one run: a later one is told what earlier ones found and credited only where it
    improves on that, so what it would have broken by itself nobody knows.
    """
    made = []
    several = len({each.data for each in runs}) > 1
    for members in _rivals(runs):
        first = runs[members[0]]
        within: float | None = None
        if not isinstance(first.run.problem, MaxLoss):
            within = min(quantiles_of(runs[i].run, (0.5,))[0.5] for i in members)
            if not math.isfinite(within):
                continue
        told = agreement_of({runs[i].name: runs[i].run for i in members}, within)
        if told.samples:
            what = [
                metric_name(first.run),
                *([first.data] if several else []),
                *(["targeted"] if first.targeted else []),
            ]
            title = f"{', '.join(what)}: runs of one model with different attacks"
            made.append({"runs": members, "title": title, "eps": within, **_told(told)})
    return made


def _rivals(runs: Sequence[Named]) -> list[list[int]]:
    """Runs about one question, model and data that share samples, all of them."""
    grouped: dict[tuple[object, ...], list[tuple[set[Key], list[int]]]] = {}
    for i, each in enumerate(runs):
        header, samples = each.run.header, set(sample_places(each.run.rows))
        key = (header.model.fingerprint, header.settings.metric, header.settings.eps, each.targeted, each.data)
        sets = grouped.setdefault(key, [])
        for shared, members in sets:
            if shared & samples:
                shared &= samples
                members.append(i)
                break
        else:
            sets.append((samples, [i]))
    found = [members for sets in grouped.values() for _, members in sets]
    return [each for each in found if len({attacks_name(runs[i].run) for i in each}) > 1]


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
