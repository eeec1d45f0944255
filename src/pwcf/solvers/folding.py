"""Constraint folding: many constraints become a single nonsmooth one with the same feasible set.

F(|h_1|, ..., max(c_1, 0), ...) <= 0 with F an l_p norm, p >= 1 (paper, "constraint-folding").
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def violations(values: Tensor, sense: str) -> Tensor:
    """The violation of every column, in the shape of ``values``: max(c, 0) for "ineq", |h| for "eq"."""
    return values.abs() if sense == "eq" else values.clamp(min=0)


def fold(values: Tensor, sense: str, p: float) -> Tensor:
    """Fold the columns of ``values`` (b, k) into (b,): the l_p norm of their violations.

    The gradient at a satisfied point is zero. The largest violation is factored out, so that no p
    overflows and the gradient of the norm at zero is not NaN.
    """
    z = violations(values, sense)
    if p == 1:
        return z.sum(-1)
    largest = z.amax(-1) if z.shape[-1] else z.sum(-1)
    if math.isinf(p):
        return largest
    violated = largest > 0
    size = torch.where(violated, largest, torch.ones_like(largest)).detach()
    power = ((z / size.unsqueeze(-1)) ** p).sum(-1)
    root = torch.where(violated, power, torch.ones_like(power)) ** (1 / p)
    return torch.where(violated, size * root, torch.zeros_like(root))
