"""AttackBench's yardstick: how near is an attack to all attacks together?

    d*_i = min over attacks of the radius of sample i,   eps_max = max of the finite d*_i
    A    = area under robust accuracy over eps, from 0 to eps_max;   A* = the same of d*
    xi   = 1 - (A - A*) / (clean accuracy · eps_max - A*)

1: as good as all together; 0: it breaks nothing. Samples without a point count in full, as robust up to eps_max.
(Cinà, Rony, Pintor, Demetrio, Demontis, Biggio, Ben Ayed, Roli: AttackBench, 2024.)
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def best(radii: Sequence[Tensor]) -> Tensor:
    """(n,) the pointwise least of several attacks' radii (n,) each; inf where no one found a point."""
    if not radii:
        raise ValueError("radii: expected those of at least one attack, found none")
    return torch.stack([radius.double() for radius in radii]).amin(0)


def largest_finite(radius: Tensor, right: Tensor) -> float:
    """eps_max of best radii (n,); NaN where nobody found a point."""
    values = radius[right & torch.isfinite(radius)]
    return float(values.max()) if len(values) else float("nan")


def area(radius: Tensor, right: Tensor, eps_max: float) -> float:
    """Under robust accuracy over eps up to eps_max: the mean of min(radius, eps_max), samples (n,) that are wrong 0."""
    return float(torch.where(right, radius.double().clamp(max=eps_max), 0.0).mean())


def local_optimality(radius: Tensor, best: Tensor, right: Tensor) -> float:
    """xi of an attack's radii (n,) against the best of all attacks (n,).

    NaN where it says nothing: no one found a point, or all best radii are the same, eps_max.
    """
    eps_max = largest_finite(best, right)
    clean = float(right.double().mean())
    least = area(best, right, eps_max)
    # Both are sums of the same terms: a difference of rounding is none.
    room = clean * eps_max - least
    if not room > 1e-12 * eps_max:
        return float("nan")
    return 1 - (area(radius, right, eps_max) - least) / room
