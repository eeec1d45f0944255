"""Weak-Wolfe line search by bracketing, one trial per row and tick."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

# Armijo: a share of the promised decrease; Wolfe: the slope must have risen to half. GRANSO's constants.
ARMIJO = 1e-4
WOLFE = 0.5
# Halvings before a direction is given up: 2^-25 of a unit step moves nothing in practice.
MAX_HALVINGS = 25
# Doublings: enough to run 1e12 along a line, where an unbounded objective is recognised.
MAX_DOUBLINGS = 40


class Verdict(NamedTuple):
    """Outcome of one trial: accept it, give the direction up, or try ``t`` in [t_low, t_high]."""

    accept: Tensor
    failed: Tensor
    t: Tensor
    t_low: Tensor
    t_high: Tensor


def judge(armijo: Tensor, wolfe: Tensor, t: Tensor, t_low: Tensor, t_high: Tensor, trials: Tensor) -> Verdict:
    """Bracketing for weak Wolfe points: shrink from above on Armijo failure, from below on Wolfe failure."""
    accept = armijo & wolfe
    t_high = torch.where(armijo, t_high, t)
    t_low = torch.where(armijo & ~wolfe, t, t_low)
    bracketed = torch.isfinite(t_high)
    new_t = torch.where(bracketed, 0.5 * (t_low + t_high), 2 * t_low)
    limit = torch.where(bracketed, MAX_HALVINGS, MAX_DOUBLINGS)
    failed = ~accept & (trials >= limit)
    # A point that satisfies Armijo is progress even if no Wolfe point was found beside it.
    accept = accept | (failed & armijo)
    return Verdict(accept, failed & ~armijo, new_t, t_low, t_high)
