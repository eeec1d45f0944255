"""Distances between inputs: l_p by name or number, perceptual ones, or any function of two batches."""

from __future__ import annotations

import importlib
import math
import pkgutil
import re

from pwcf.metrics.colour import LabDistance, lab
from pwcf.metrics.l0 import L0
from pwcf.metrics.l1 import L1
from pwcf.metrics.l2 import L2
from pwcf.metrics.linf import Linf
from pwcf.metrics.lp import Lp
from pwcf.metrics.metric import (
    NAMED,
    Custom,
    Distance,
    HasDualNorm,
    HasHalfspaceStep,
    HasProjection,
    HasSlackForm,
    HasSteepest,
    Metric,
    Norm,
    dual_norm,
    register,
)
from pwcf.metrics.perceptual import FeatureDistance, Features, lpips, perceptual
from pwcf.metrics.reference import ReferenceDistance, distance64, shrink_to_eps
from pwcf.metrics.structural import StructuralDistance, ms_ssim, ssim

__all__ = [
    "L0",
    "L1",
    "L2",
    "NAMED",
    "Custom",
    "Distance",
    "FeatureDistance",
    "Features",
    "HasDualNorm",
    "HasHalfspaceStep",
    "HasProjection",
    "HasSlackForm",
    "HasSteepest",
    "LabDistance",
    "Linf",
    "Lp",
    "Metric",
    "Norm",
    "ReferenceDistance",
    "StructuralDistance",
    "as_metric",
    "distance64",
    "dual_norm",
    "lab",
    "lp",
    "lpips",
    "ms_ssim",
    "perceptual",
    "register",
    "shrink_to_eps",
    "ssim",
]  # fmt: skip

# Every file of this folder may register metrics: a new one is found here without being named.
for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")


def lp(p: float) -> Lp:
    """Make the l_p distance.

    Args:
        p: a number >= 1; ``float("inf")`` is allowed.

    Returns:
        The metric |candidate - reference|_p of two batches (b, ...) -> (b,). l1, l2 and linf have exact projections;
        every p has a dual norm, a half-space step and a steepest direction.
    """
    if isinstance(p, bool) or not isinstance(p, (int, float)) or not p >= 1:
        raise ValueError(f"p: expected a number >= 1 or inf, found {p!r}")
    special = {1.0: L1, 2.0: L2, math.inf: Linf}
    return special[p]() if p in special else Lp(float(p))


def as_metric(metric: str | Metric | Distance) -> Metric:
    """Turn a name or a function into a metric.

    Args:
        metric: a name such as "l1", "l1.5", "linf", "lpips" or "pd"; a function d(reference, candidate) of two
            batches (b, ...) -> (b,), differentiable almost everywhere; or a metric, which is returned unchanged.

    Returns:
        The metric: two batches (b, ...) -> (b,).
    """
    if isinstance(metric, Metric):
        return metric
    if isinstance(metric, str):
        name = metric.strip().lower()
        if name in NAMED:
            return NAMED[name]()
        match = re.fullmatch(r"l(\d+(?:\.\d+)?|inf)", name)
        if match is None or float(match[1]) < 1:
            raise ValueError(
                f'metric: expected "linf", "l" and a number >= 1 such as "l1", "l1.5" or "l2", one of '
                f"{', '.join(NAMED)}, or a function d(reference, candidate), found {metric!r}"
            )
        return lp(float(match[1]))
    if callable(metric):
        return Custom(metric)
    raise TypeError(f"metric: expected a name, a metric or a function, found {type(metric).__name__}")
