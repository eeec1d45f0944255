"""What the panels of a page show, as numbers: curves, distributions, shares, and who breaks what."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pwcf._common import statistics
from pwcf._common.statistics import FEWEST, extremes
from pwcf._common.usual_eps import eps_for
from pwcf._common.wording import class_text
from pwcf.analysis import (
    Agreement,
    Curve,
    accuracy_of,
    agreement_of,
    attacked_in,
    attacks_name,
    comparable_groups,
    curve_of,
    curve_panel,
    different_samples,
    easiest,
    eps_sweep,
    eps_text,
    found_in,
    hardest,
    metric_name,
    quantiles_of,
    question_title,
    robustness_by_class,
    sparsity_of,
    termination_of,
    usual_eps_of,
)
from pwcf.analysis.naming import asked_eps
from pwcf.report.page.gallery import Key
from pwcf.report.page.runs import (
    NumberedRuns,
    PageRun,
    json_number,
    names_among,
    panel_groups,
    several_data_sets,
)
from pwcf.report.registry import page_tables
from pwcf.runs import RecordedRun
from pwcf.runs.comparison import sample_places

BINS = (12, 48)
"""of a distribution, fewest and most: the fewer samples the fewer"""
STEPS = 800
"""of a curve: more than a screen has pixels for"""
QUARTILES = (0.25, 0.5, 0.75)
FIRST = 6
"""hardest and easiest samples that are named"""
Asked = Mapping[str, Sequence[float]]
"""eps that a person asked for, by metric; "" for every metric"""


def panel_eps(metric: str, members: NumberedRuns, asked: Asked) -> list[float]:
    """The eps of a panel: those that a person asked for, or the usual ones and those of its max-loss runs."""
    return eps_for(asked, metric) or usual_eps_of(each.run for _, each in members)


def sweep_panels(runs: Sequence[PageRun], asked: Asked) -> list[dict[str, Any]]:
    """Robust accuracy at a few eps, a table for every metric; a max-loss run answers for its own alone."""
    panels = []
    for (metric, data, targeted), members in panel_groups(runs).items():
        swept = {
            i: eps_sweep(each.run, None if each.max_loss else panel_eps(metric, members, asked)) for i, each in members
        }
        eps = sorted({point.eps for points in swept.values() for point in points})
        if not eps:
            continue
        rows = []
        for i, points in sorted(swept.items(), key=lambda item: runs[item[0]].max_loss):
            cells = {point.eps: {**vars(point), "at": eps_text(point.eps)} for point in points}
            rows.append({"run": i, "clean": runs[i].run.clean_accuracy, "cells": [cells.get(one) for one in eps]})
        panels.append({
            "metric": metric, "data": data, "targeted": targeted, "eps": [eps_text(one) for one in eps], "rows": rows,
            "different": different_samples([each.run for _, each in members]),
        })  # fmt: skip
    return panels


def class_panels(runs: Sequence[PageRun], asked: Asked) -> list[dict[str, Any]]:
    """Robustness class by class, a table for every question; none where all classes have only few samples."""
    grouped: dict[tuple[str, str], dict[str, Any]] = {}
    several = several_data_sets(runs)
    for (metric, _, _), members in panel_groups(runs).items():
        eps = panel_eps(metric, members, asked)
        for i, each in members:
            classes = robustness_by_class(each.run, eps=eps)
            if len(classes) < 2 or max(one.samples for one in classes) < FEWEST:
                continue
            title, data = question_title(each.run), each.data if several else ""
            made = grouped.setdefault((title, data), {
                "title": title, "data": data, "targeted": each.targeted, "max_loss": each.max_loss, "metric": metric,
                "eps": [] if each.max_loss else [eps_text(one) for one in eps], "runs": [],
            })  # fmt: skip
            ends = extremes(classes, each.max_loss)
            made["runs"].append({
                "run": i,
                "classes": [{**vars(one), "median": json_number(one.median)} for one in classes],
                "worst": class_text(ends[0], each.max_loss, each.targeted) if ends else None,
                "best": class_text(ends[1], each.max_loss, each.targeted) if ends else None,
            })  # fmt: skip
    return sorted(grouped.values(), key=lambda panel: panel["max_loss"])


def curve_panels(runs: Sequence[PageRun]) -> list[dict[str, Any]]:
    """Robust accuracy over eps for every metric; max-loss runs are single points of it."""
    panels = []
    for (metric, data, targeted), members in panel_groups(runs).items():
        curves = {i: curve_of(each.run) for i, each in members if not each.max_loss}
        points = [_point(i, each) for i, each in members if each.max_loss]
        if not curves:
            continue
        asked = [each for _, each in members if not each.max_loss]
        named = {name: each.run for name, each in zip(names_among(asked), asked, strict=True)}
        shown = curve_panel(named | {each.name: each.run for _, each in members if each.max_loss})
        panels.append({
            "metric": metric,
            "data": data,
            "targeted": targeted,
            "reach": shown.end,
            "beyond": shown.beyond,
            "curves": [{"run": i, **_thinned(curve)} for i, curve in curves.items()],
            "points": points,
            "crossings": [vars(crossing) for crossing in shown.crossings],
            "more": shown.more,
        })  # fmt: skip
    return panels


def _point(i: int, each: PageRun) -> dict[str, Any]:
    accuracy = accuracy_of(each.run)
    return {"run": i, **vars(accuracy), "at": eps_text(accuracy.eps)}


def _thinned(curve: Curve) -> dict[str, list[float]]:
    kept = torch.arange(len(curve.eps))
    if len(kept) > STEPS:
        kept = torch.linspace(0, len(kept) - 1, STEPS).round().long()
    return {"eps": curve.eps[kept].tolist(), "accuracy": curve.accuracy[kept].tolist()}


def radius_panels(runs: Sequence[PageRun], number: dict[Key, int], eps_asked: Asked) -> list[dict[str, Any]]:
    """How radii are spread, what usual eps say of them, and the easiest and hardest samples."""
    panels = []
    for (metric, data, targeted), members in panel_groups(runs).items():
        asked = [(i, each) for i, each in members if not each.max_loss]
        panel = _distributions(metric, data, asked, lambda each: each.run.radius, found_in, targeted=targeted)
        if panel is None:
            continue
        panel["marks"] = [{"name": eps_text(eps), "eps": eps} for eps in panel_eps(metric, members, eps_asked)]
        for row, (_, each) in zip(panel["rows"], asked, strict=True):
            # Those without a point count: most may have none.
            row["quartiles"] = json_number(list(quantiles_of(each.run, QUARTILES).values()))
            row["easiest"] = _numbers(each, easiest(each.run, FIRST), number)
            row["hardest"] = _numbers(each, hardest(each.run, FIRST), number)
        panels.append(panel)
    return panels


def _numbers(each: PageRun, places: list[int], number: dict[Key, int]) -> list[dict[str, Any]]:
    """Samples by the numbers they have on the page; those that are not shown by their index alone."""
    keys = {where: key for key, where in sample_places(each.run.rows).items()}
    return [
        {
            "sample": number.get(keys[where]),
            "index": int(each.run.index[where]),
            "radius": float(each.run.radius[where]),
        }
        for where in places
    ]


def sparsity_panels(runs: Sequence[PageRun]) -> list[dict[str, Any]]:
    """Soft sparsity of perturbations, a panel for every metric."""
    made = []
    for (metric, data, targeted), members in panel_groups(runs).items():
        panel = _distributions(
            metric,
            data,
            members,
            lambda each: sparsity_of(each.run),
            found_in,
            targeted=targeted,
        )
        if panel is not None:
            entries = {math.prod(each.run.header.shape) for _, each in members}
            panel["most"] = math.sqrt(max(entries))
            made.append(panel)
    return made


def passes_panel(runs: Sequence[PageRun]) -> dict[str, Any] | None:
    """Distribution of the passes that attacked samples took."""
    return _distributions("passes", "", list(enumerate(runs)), lambda each: each.run.passes.total, attacked_in)


def gain_panel(runs: Sequence[PageRun]) -> dict[str, Any] | None:
    """Distribution of the share of the radius that a much longer search is likely to gain, on a logarithmic axis."""
    asked = [(i, each) for i, each in enumerate(runs) if not each.max_loss]
    return _distributions(
        "gain",
        "",
        asked,
        lambda each: each.run.evidence.gain,
        found_in,
        log=True,
    )


FLOOR = 1e-4
"""A gain below this is as good as none; a logarithm needs an end."""


def statuses(runs: Sequence[PageRun]) -> list[dict[str, int]]:
    """How the searches of attacked samples ended, run by run."""
    return [termination_of(each.run).status for each in runs]


def _distributions(
    name: str,
    data: str,
    members: NumberedRuns,
    values_of: Callable[[PageRun], Tensor],
    among: Callable[[RecordedRun], Tensor],
    *,
    log: bool = False,
    targeted: bool = False,
) -> dict[str, Any] | None:
    """Histograms of several runs over the same bins; None where nobody has a value."""
    values = []
    for _, each in members:
        chosen = values_of(each).double().cpu()[among(each.run)]
        values.append(chosen[torch.isfinite(chosen)])
    if not members or not any(len(each) for each in values):
        return None
    low, high = (FLOOR, 1.0) if log else (0.0, _reach(values))
    bins = int(np.clip(3 * max(map(len, values)) ** 0.5, *BINS))
    edges = np.geomspace(low, high, bins + 1) if log else np.linspace(low, high, bins + 1)
    rows = []
    for (i, _), some in zip(members, values, strict=True):
        # What is beyond the end is counted in the last bin.
        counts = np.histogram(some.clamp(low, high).numpy(), edges)[0]
        quartiles = statistics.quantiles(some.numpy(), QUARTILES) if len(some) else []
        rows.append({
            "run": i,
            "bins": counts.tolist(),
            "quartiles": quartiles,
            "count": len(some),
            "beyond": int((some > high).sum()),
            "mean": float(some.mean()) if len(some) else None,
        })  # fmt: skip
    return {"name": name, "data": data, "targeted": targeted, "low": low, "high": high, "log": log, "rows": rows}


def _reach(values: Sequence[Tensor]) -> float:
    """Where an axis ends: at the largest value, unless a few are far out."""
    together = torch.cat([each.double() for each in values]) if values else torch.zeros(0)
    if not len(together):
        return 1.0
    return min(float(together.max()), 2 * statistics.quantiles(together.numpy(), (0.95,))[0]) * 1.02 or 1.0


def registry_tables(runs: Sequence[PageRun]) -> list[dict[str, Any]]:
    """The tables of the registry that a page shows, as they are."""
    return [
        {"name": name, "about": about, "columns": table.columns, "rows": [json_number(list(row)) for row in table.rows]}
        for name, (about, table) in page_tables({each.name: each.run for each in runs}).items()
    ]


def contributions(each: PageRun) -> list[dict[str, Any]]:
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


def agreements(runs: Sequence[PageRun]) -> list[dict[str, Any]]:
    """Agreement between runs of one model that differ in their attacks.

    Not between the attacks of one run: a later one starts from what earlier ones found and credited only where it
    improves on that, so what it would have broken by itself nobody knows.
    """
    made = []
    several = several_data_sets(runs)
    for members in _with_different_attacks(runs):
        first = runs[members[0]]
        within: float | None = None
        if not first.max_loss:
            within = min(quantiles_of(runs[i].run, (0.5,))[0.5] for i in members)
            if not math.isfinite(within):
                continue
        found = agreement_of({runs[i].name: runs[i].run for i in members}, within)
        if found.samples:
            what = [
                metric_name(first.run),
                *([first.data] if several else []),
                *(["targeted"] if first.targeted else []),
            ]
            title = f"{', '.join(what)}: runs of one model with different attacks"
            made.append({"runs": members, "title": title, "eps": within, **_agreement(found)})
    return made


def _with_different_attacks(runs: Sequence[PageRun]) -> list[list[int]]:
    """Comparable runs of one eps that differ in their attacks and share samples, by their places on the page."""
    numbered = {str(i): each.run for i, each in enumerate(runs)}
    groups = comparable_groups(numbered, asked_eps)
    found = [
        members
        for parts in groups.values()
        for group in parts
        for members in _sharing_samples(runs, [int(name) for name in group])
    ]
    return [each for each in found if len({attacks_name(runs[i].run) for i in each}) > 1]


def _sharing_samples(runs: Sequence[PageRun], places: Sequence[int]) -> list[list[int]]:
    """Parts of a group in which there are samples that all runs have."""
    parts: list[tuple[set[Key], list[int]]] = []
    for i in places:
        samples = set(sample_places(runs[i].run.rows))
        for shared, members in parts:
            if shared & samples:
                shared &= samples
                members.append(i)
                break
        else:
            parts.append((samples, [i]))
    return [members for _, members in parts]


def _agreement(agreement: Agreement) -> dict[str, Any]:
    return {
        "names": agreement.names,
        "samples": agreement.samples,
        "counts": agreement.counts.tolist(),
        "alone": agreement.alone.tolist(),
        "union": agreement.union,
        "only_first": agreement.only_first.tolist(),
        "union_curve": [list(pair) for pair in agreement.union_curve()],
    }
