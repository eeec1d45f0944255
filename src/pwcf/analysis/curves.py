"""Whole curves of robust accuracy over eps, and where they cross: one eps cannot tell which model is more robust."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import torch

from pwcf.analysis.accuracy import Curve, robust_accuracy_curve
from pwcf.analysis.of_runs import NamedRuns, attacked_in, needs_radii
from pwcf.evaluation import Run


@dataclass(frozen=True)
class Crossing:
    """From ``eps`` on the order of two curves is the other way round."""

    eps: float
    before: str
    """who is more robust for smaller eps"""
    after: str
    """who is from here on"""
    accuracy: float
    """about where they cross"""


def curve_of(run: Run) -> Curve:
    """Robust accuracy of a min-radius run, for every eps at once."""
    needs_radii(run, "curve")
    return robust_accuracy_curve(run.radius.cpu(), attacked_in(run))


def curves_of(runs: NamedRuns) -> dict[str, Curve]:
    """Of min-radius runs; they must be about one metric, or their eps are not the same thing."""
    metrics = {run.problem.metric.name for run in runs.values()}
    if len(metrics) > 1:
        raise ValueError(f"runs: expected one metric, found {', '.join(sorted(metrics))}; curves of each on their own")
    return {name: curve_of(run) for name, run in runs.items()}


def crossings(curves: Mapping[str, Curve]) -> list[Crossing]:
    """Where two curves change places, in the order of eps. Touching is no crossing."""
    found = []
    for (first, a), (second, b) in combinations(curves.items(), 2):
        eps = torch.unique(torch.cat((a.eps, b.eps)))
        heights = [curve.heights(eps) for curve in (a, b)]
        apart = heights[0] - heights[1]
        # Where they touch nobody is ahead: only places where somebody is are held against each other.
        places = apart.nonzero().squeeze(1)
        signs = apart[places].sign()
        for i in places[1:][signs[1:] != signs[:-1]].tolist():
            before, after = (second, first) if apart[i] > 0 else (first, second)
            found.append(Crossing(float(eps[i]), before, after, float(heights[0][i] + heights[1][i]) / 2))
    return sorted(found, key=lambda crossing: crossing.eps)
