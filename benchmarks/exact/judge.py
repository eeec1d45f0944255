"""An answer against an exact one: the line of a table, and every sample that misses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from torch import Tensor

import pwcf

WITHIN, FALSE = 0.01, 0.02
ROUNDING = 1e-6
"""Relative; an answer this little below the exact radius is the rounding of the oracle or of the sums."""

KEY = ("part", "case", "metric", "n", "classes", "dtype")
"""What names a line; a sample that misses carries it too."""


@dataclass(frozen=True)
class Line:
    """One family of samples. Numbers that make no sense for a part stay empty."""

    part: str
    case: str
    metric: str
    n: int
    classes: int
    dtype: str
    rows: int
    found: int
    """samples with an adversarial point"""
    good: int
    """samples that pass what the part asks"""
    value: float | str = ""
    """mean radius, or robust accuracy for max-loss"""
    below: int | str = ""
    """samples with a radius that cannot be"""
    median_excess: float | str = ""
    worst_excess: float | str = ""
    claims: int | str = ""
    """samples that say converged"""
    false_claims: int | str = ""
    """of them those more than 2 % above the exact radius"""
    passes: float | str = ""
    most_passes: int | str = ""
    seconds: float | str = ""
    missed: tuple[dict[str, Any], ...] = field(default=(), repr=False)

    @property
    def row(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "missed"}


def timing(run: Any, seconds: float) -> dict[str, Any]:
    total = (run.passes.forward + run.passes.backward).double()
    return {"passes": float(total.mean()), "most_passes": int(total.max()), "seconds": round(seconds, 2)}


def against_exact(
    run: Any, lower: Sequence[float], upper: Sequence[float], about: dict[str, Any], seconds: float
) -> Line:
    """``lower`` <= exact radius <= ``upper``; they differ by the oracle's own tolerance."""
    low, high = (torch.as_tensor(side, dtype=torch.float64) for side in (lower, upper))
    radius: Tensor = run.radius.double().cpu()
    excess = radius / high - 1
    claims = torch.tensor([status is pwcf.Status.CONVERGED for status in run.status])
    below = ~(radius >= low * (1 - ROUNDING))  # not <, so that NaN counts
    beyond = ~(excess <= WITHIN)
    false = claims & ~(excess <= FALSE)
    missed = tuple(
        {name: about[name] for name in KEY}
        | {"row": i, "exact": float(high[i]), "radius": float(radius[i]), "excess": float(excess[i])}
        | {"status": run.status[i].value, "why": _why(bool(below[i]), bool(beyond[i]), bool(false[i]))}
        for i in torch.nonzero(below | beyond | false).flatten().tolist()
    )
    return Line(
        **about,
        rows=len(radius),
        found=int(run.adversarial.sum()),
        good=int((~beyond & ~below).sum()),
        value=float(radius.mean()),
        below=int(below.sum()),
        median_excess=float(excess.median()),
        worst_excess=float(excess.max()) if len(radius) else math.nan,
        claims=int(claims.sum()),
        false_claims=int(false.sum()),
        **timing(run, seconds),
        missed=missed,
    )


def _why(below: bool, beyond: bool, false: bool) -> str:
    words = (("below exact", below), ("beyond 1 %", beyond), ("claims, beyond 2 %", false))
    return ", ".join(word for word, true in words if true)
