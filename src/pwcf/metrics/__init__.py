"""Distances between inputs: l_p by name or number, or any function of two batches."""

from __future__ import annotations

import re

from pwcf.metrics.l0 import L0
from pwcf.metrics.lp import Lp, lp
from pwcf.metrics.metric import Custom, Distance, Metric
from pwcf.metrics.within import measured, within

__all__ = ["L0", "Custom", "Distance", "Lp", "Metric", "as_metric", "lp", "measured", "within"]


def as_metric(metric: str | Metric | Distance) -> Metric:
    """A metric from its name ("l0", "l1", "l1.5", "linf"), from a function, or as it is."""
    if isinstance(metric, Metric):
        return metric
    if isinstance(metric, str):
        if metric.strip().lower() == "l0":
            return L0()
        match = re.fullmatch(r"l(\d+(?:\.\d+)?|inf)", metric.strip().lower())
        if match is None or float(match[1]) < 1:
            raise ValueError(
                f'metric: expected "l0", "linf" or "l" and a number >= 1 such as "l1", "l1.5" or "l2", or a function '
                f"d(reference, candidate), found {metric!r}"
            )
        return lp(float(match[1]))
    if callable(metric):
        return Custom(metric)
    raise TypeError(f"metric: expected a name, a metric or a function, found {type(metric).__name__}")
