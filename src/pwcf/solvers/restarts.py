"""Two-stage restarts: k iterations from R starts, then only the best of them goes on (paper, "two-stage")."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pwcf.solvers.loop import Limits, Log, Queue, Solver, run
from pwcf.solvers.oracle import Oracle
from pwcf.solvers.state import SolverRows


@dataclass(frozen=True)
class Restarts:
    """Further starts beside x0. The paper uses R = 10 starts and k = 20 to 50 iterations.

    Attributes:
        points: (R, b, ...) R further starts of every row; see ``noisy_starts``.
        iterations: k, the iterations from every start before the best one is chosen.
    """

    points: Tensor
    iterations: int = 20


def noisy_starts(x0: Tensor, count: int, radius: float, seed: int = 0) -> Tensor:
    """Starts around x0 with uniform noise in [-radius, radius]; ``minimize`` projects them onto its bounds.

    Args:
        x0: (b, ...) the first start of every row.
        count: how many further starts.
        radius: the largest change of an entry.
        seed: of the noise; the global generator is left alone.

    Returns:
        (count, b, ...), in the dtype and on the device of x0.
    """
    generator = torch.Generator(device=x0.device).manual_seed(seed)
    noise = torch.rand((count, *x0.shape), generator=generator, dtype=x0.dtype, device=x0.device)
    return x0 + radius * (2 * noise - 1)


def select_start(objective: Tensor, violation: Tensor, feasibility: float) -> Tensor:
    """The paper's selection, (R, b) -> (b,): the feasible start with the least objective, else the least violating."""
    feasible = violation <= feasibility
    cost = torch.where(feasible, objective, torch.inf)
    by_objective = torch.where(cost.isnan(), torch.inf, cost).argmin(0)
    by_violation = torch.where(violation.isnan(), torch.inf, violation).argmin(0)
    return torch.where(feasible.any(0), by_objective, by_violation)


def run_first_stage(
    solver: Solver, oracle: Oracle, x0: Tensor, restarts: Restarts, limits: Limits, feasibility: float
) -> tuple[SolverRows, Tensor]:
    """k iterations from x0 (b, n) and every further start.

    Returns the states of the best starts, ready to go on, and the evaluations (b,) that the others cost.
    """
    b, shape = x0.shape[0], oracle.shape
    points = restarts.points
    if not isinstance(points, Tensor) or points.dim() < 2 or points.shape[1:] != (b, *shape):
        found = tuple(points.shape) if isinstance(points, Tensor) else type(points).__name__
        raise ValueError(f"restarts.points: expected a tensor of shape (R, {b}, *{tuple(shape)}), found {found}")
    if oracle.whole_batch is not None:
        raise ValueError(
            "objective/constraints: with restarts a function must accept any rows; let it take a second "
            "argument `rows` to pick per-row data"
        )
    starts = torch.cat([x0.unsqueeze(0), points.to(x0).reshape(-1, b, x0.shape[1])])
    R = starts.shape[0]
    users = torch.arange(b, device=x0.device).repeat(R)
    if limits.budget is not None and bool((limits.budget < R).any()):
        raise ValueError(
            f"budget: {int(limits.budget.min())} evaluations are too few for {R} starts; expected at least {R}"
        )
    share = None if limits.budget is None else (limits.budget // (2 * R)).clamp(min=1).repeat(R)
    first = Limits(min(restarts.iterations, limits.max_iterations), share, limits.slots)
    queue = Queue(solver, starts.reshape(R * b, -1), users, None)
    rows = run(solver, oracle, queue, first, Log(keep_state=True))
    table = [t.reshape(R, b) for t in (rows.best_values[:, 0], rows.best_violation, rows.evaluations)]
    chosen = select_start(table[0], table[1], feasibility)
    spent = table[2].sum(0) - table[2].gather(0, chosen.unsqueeze(0)).squeeze(0)
    best = rows.select(chosen * b + torch.arange(b, device=x0.device))
    best.resume()
    return best, spent
