"""What the plots of a page show, as numbers: curves, distributions and shares, one panel for what can be compared."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pwcf.analysis import (
    Curve,
    accuracy_of,
    align,
    attacked_in,
    attacks_name,
    curve_of,
    easiest,
    eps_choices,
    eps_text,
    found_in,
    hardest,
    metric_name,
    quantiles_of,
    radii_of,
    sparsity_of,
    termination_of,
)
from pwcf.problems import MaxLoss
from pwcf.report.page.gallery import Key, Named
from pwcf.report.page.infinity import sent
from pwcf.report.page.labels import Label, names_among
from pwcf.report.page.turns import turns
from pwcf.runs.comparison import sample_places

BINS = (12, 48)
"""of a distribution, fewest and most: the fewer samples the fewer"""
STEPS = 800
"""of a curve: more than a screen has pixels for"""
_QUARTILES = torch.tensor([0.25, 0.5, 0.75], dtype=torch.float64)
FIRST = 6
"""hardest and easiest samples that are named"""
# Where papers ask (CIFAR, ImageNet, MNIST): what an eps of this size would have told is a question readers have.
USUAL_EPS: dict[str, dict[str, float]] = {
    "linf": {"2/255": 2 / 255, "4/255": 4 / 255, "8/255": 8 / 255, "0.1": 0.1, "0.3": 0.3},
    "l2": {"0.5": 0.5, "1.5": 1.5},
    "l1": {"12": 12.0},
    "lpips": {"0.5": 0.5},
    "pd": {"0.5": 0.5},
}
CROSSINGS = 6
"""told of a panel, at most"""

Numbered = list[tuple[int, Named]]
"""runs with their places on the page"""


def comparable(runs: Sequence[Named]) -> dict[tuple[str, str, bool], Numbered]:
    """Runs by metric, by data where there are several, and by whether they are targeted: other questions each."""
    several = len({each.data for each in runs}) > 1
    grouped: dict[tuple[str, str, bool], Numbered] = {}
    for i, each in enumerate(runs):
        key = (metric_name(each.run), each.data if several else "", each.targeted)
        grouped.setdefault(key, []).append((i, each))
    return grouped


def asks_radius(each: Named) -> bool:
    return not isinstance(each.run.problem, MaxLoss)


def curve_panels(runs: Sequence[Named]) -> list[dict[str, Any]]:
    """Robust accuracy over eps for every metric; max-loss runs are single points of it."""
    panels = []
    for (metric, data, targeted), members in comparable(runs).items():
        curves = {i: curve_of(each.run) for i, each in members if asks_radius(each)}
        points = [_point(i, each) for i, each in members if not asks_radius(each)]
        if not curves:
            continue
        reach = _reach([radii_of(each.run) for _, each in members if asks_radius(each)])
        reach = max([reach, *(1.15 * point["eps"] for point in points)])
        panels.append({
            "metric": metric,
            "data": data,
            "targeted": targeted,
            "reach": reach,
            "curves": [{"run": i, **_thinned(curve)} for i, curve in curves.items()],
            "points": points,
            **_crossings([(i, each) for i, each in members if asks_radius(each)]),
        })  # fmt: skip
    return panels


def _point(i: int, each: Named) -> dict[str, Any]:
    told = accuracy_of(each.run)
    return {"run": i, **vars(told), "at": eps_text(told.eps)}


def _crossings(members: Numbered) -> dict[str, Any]:
    """Between models under the same attacks, on the samples they share: what else crosses tells nothing of models."""
    names = names_among([Label(each.name, each.series) for _, each in members])
    found = []
    for (first, (_, a)), (second, (_, b)) in combinations(zip(names, members, strict=True), 2):
        if a.run.header.model.fingerprint == b.run.header.model.fingerprint:
            continue
        if attacks_name(a.run) != attacks_name(b.run):
            continue
        shared = align([a.run, b.run])
        if samples := len(shared[0].status):
            found += turns({first: curve_of(shared[0]), second: curve_of(shared[1])}, samples)
    found.sort(key=lambda each: each.eps)
    return {"crossings": [vars(each) for each in found[:CROSSINGS]], "more": len(found[CROSSINGS:])}


def _thinned(curve: Curve) -> dict[str, list[float]]:
    kept = torch.arange(len(curve.eps))
    if len(kept) > STEPS:
        kept = torch.linspace(0, len(kept) - 1, STEPS).round().long()
    return {"eps": curve.eps[kept].tolist(), "accuracy": curve.accuracy[kept].tolist()}


def radius_panels(runs: Sequence[Named], number: dict[Key, int]) -> list[dict[str, Any]]:
    """How radii are spread, what usual eps would have told, and the ends of the list."""
    panels = []
    for (metric, data, targeted), members in comparable(runs).items():
        asked = [(i, each) for i, each in members if asks_radius(each)]
        panel = _distributions(metric, data, asked, lambda each: each.run.radius, found_in_of, targeted=targeted)
        if panel is None:
            continue
        usual = USUAL_EPS.get(metric, {}) if all(each.bounds == (0.0, 1.0) for _, each in asked) else {}
        asked_for = {eps_text(eps): eps for _, each in members if (eps := each.run.header.settings.eps) is not None}
        known = {round(eps, 9) for eps in usual.values()}
        marks = {**usual, **{text: eps for text, eps in asked_for.items() if round(eps, 9) not in known}}
        panel["marks"] = [{"name": name, "eps": eps} for name, eps in sorted(marks.items(), key=lambda pair: pair[1])]
        for row, (_, each) in zip(panel["rows"], asked, strict=True):
            # Those without a point count: most may have none.
            row["quartiles"] = sent(list(quantiles_of(each.run, (0.25, 0.5, 0.75)).values()))
            row["choices"] = [vars(choice) for choice in eps_choices(each.run, [m["eps"] for m in panel["marks"]])]
            row["easiest"] = _numbers(each, easiest(each.run, FIRST), number)
            row["hardest"] = _numbers(each, hardest(each.run, FIRST), number)
        panels.append(panel)
    return panels


def _numbers(each: Named, places: list[int], number: dict[Key, int]) -> list[dict[str, Any]]:
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


def found_in_of(each: Named) -> Tensor:
    return found_in(each.run)


def attacked_in_of(each: Named) -> Tensor:
    return attacked_in(each.run)


def sparsity_panels(runs: Sequence[Named]) -> list[dict[str, Any]]:
    """Of every metric: how many entries carry the perturbation."""
    made = []
    for (metric, data, targeted), members in comparable(runs).items():
        panel = _distributions(
            metric, data, members, lambda each: sparsity_of(each.run), found_in_of, targeted=targeted
        )
        if panel is not None:
            entries = {math.prod(each.run.header.shape) for _, each in members}
            panel["most"] = math.sqrt(max(entries))
            made.append(panel)
    return made


def passes_panel(runs: Sequence[Named]) -> dict[str, Any] | None:
    return _distributions("passes", "", list(enumerate(runs)), lambda each: each.run.passes.total, attacked_in_of)


def stationarity_panel(runs: Sequence[Named]) -> dict[str, Any] | None:
    """In percent of the radius, by powers of ten."""
    asked = [(i, each) for i, each in enumerate(runs) if asks_radius(each)]
    return _distributions(
        "stationarity", "", asked, lambda each: each.run.evidence.stationarity.clamp(min=FLOOR), found_in_of, log=True
    )


FLOOR = 1e-4
"""Stationarity below this is as good as none; a logarithm needs an end."""


def statuses(runs: Sequence[Named]) -> list[dict[str, int]]:
    """Of attacked samples, run by run."""
    return [termination_of(each.run).status for each in runs]


def _distributions(
    name: str,
    data: str,
    members: Numbered,
    values_of: Callable[[Named], Tensor],
    among: Callable[[Named], Tensor],
    *,
    log: bool = False,
    targeted: bool = False,
) -> dict[str, Any] | None:
    """Histograms of several runs over the same bins; None where nobody has a value."""
    values = []
    for _, each in members:
        chosen = values_of(each).double().cpu()[among(each)]
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
        quartiles = torch.quantile(some, _QUARTILES, interpolation="lower").tolist() if len(some) else []
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
    return float(min(together.max(), 2 * torch.quantile(together, 0.95))) * 1.02 or 1.0
