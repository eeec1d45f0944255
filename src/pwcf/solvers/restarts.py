"""Two-stage restarts: k iterations from R starts, then only the best of them goes on (paper, "two-stage")."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Restarts:
    """Further starts beside x0. The paper uses R = 10 starts and k = 20 to 50 iterations.

    ``points`` (R, b, ...) are R further starts of every row; see ``noisy_starts``.
    """

    points: Tensor
    iterations: int = 20


def noisy_starts(x0: Tensor, count: int, radius: float, seed: int = 0) -> Tensor:
    """(count, b, ...): x0 plus uniform noise in [-radius, radius]. minimize() projects onto its bounds."""
    generator = torch.Generator(device=x0.device).manual_seed(seed)
    noise = torch.rand((count, *x0.shape), generator=generator, dtype=x0.dtype, device=x0.device)
    return x0 + radius * (2 * noise - 1)


def select_start(objective: Tensor, violation: Tensor, feasibility: float) -> Tensor:
    """The paper's selection: the feasible one with the least objective, else the least violating. (R, b) -> (b,)"""
    feasible = violation <= feasibility
    cost = torch.where(feasible, objective, torch.inf)
    by_objective = torch.where(cost.isnan(), torch.inf, cost).argmin(0)
    by_violation = torch.where(violation.isnan(), torch.inf, violation).argmin(0)
    return torch.where(feasible.any(0), by_objective, by_violation)
