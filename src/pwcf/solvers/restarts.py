"""Two-stage restarts: k iterations from R starts, then only the best of them goes on (paper, "two-stage")."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pwcf.solvers.host import Array
from pwcf.solvers.loop import Limits, Log, Queue, Solver, run
from pwcf.solvers.oracle import Oracle
from pwcf.solvers.state import SolverRows
from pwcf.solvers.variables import checked_leaf, leaves, rebuild, trainable


@dataclass(frozen=True)
class Restarts:
    """Further starts beside x0. The paper uses R = 10 starts and k = 20 to 50 iterations.

    Attributes:
        points: R further starts of every row, (R, b, ...) or, of one problem, (R, ...); where x0 is a structure or a
            module, of its form. See ``noisy_starts``.
        iterations: k, the iterations from every start before the best one is chosen.
    """

    points: Any
    iterations: int = 20


def noisy_starts(x0: Any, count: int, radius: float, seed: int = 0) -> Any:
    """Starts around x0 with uniform noise in [-radius, radius]; ``minimize`` projects them onto its bounds.

    Args:
        x0: the first start of every row, (b, ...) or any other form that ``minimize`` takes.
        count: how many further starts.
        radius: the largest change of an entry.
        seed: of the noise; the global generator is left alone.

    Returns:
        (count, b, ...), in the dtype and on the device of x0; of a structure or a module the same for every tensor.
    """
    x0 = trainable(x0)
    tensors = [checked_leaf(label, leaf) for label, leaf in leaves(x0, "x0")]
    generators = {t.device: torch.Generator(device=t.device).manual_seed(seed) for t in tensors}

    def around(x: Tensor) -> Tensor:
        noise = torch.rand((count, *x.shape), generator=generators[x.device], dtype=x.dtype, device=x.device)
        return x + radius * (2 * noise - 1)

    return rebuild(x0, map(around, tensors))


def select_start(objective: Array, violation: Array, feasibility: float) -> Array:
    """The paper's selection, (R, b) -> (b,): the feasible start with the least objective, else the least violating."""
    feasible = violation <= feasibility
    by_objective = np.where(feasible & ~np.isnan(objective), objective, np.inf).argmin(0)
    by_violation = np.where(np.isnan(violation), np.inf, violation).argmin(0)
    chosen: Array = np.where(feasible.any(0), by_objective, by_violation)
    return chosen


def run_first_stage(
    solver: Solver, oracle: Oracle, x0: Tensor, restarts: Restarts, limits: Limits, feasibility: float
) -> tuple[SolverRows, Array]:
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
    further = oracle.unit.from_user(points.to(x0).reshape(-1, b, x0.shape[1]))
    starts = torch.cat([x0.unsqueeze(0), further])
    R = starts.shape[0]
    users = torch.arange(b, device=x0.device).repeat(R)
    if limits.budget is not None and (limits.budget < R).any():
        raise ValueError(
            f"budget: {int(limits.budget.min())} evaluations are too few for {R} starts; expected at least {R}"
        )
    share = None if limits.budget is None else np.tile(np.maximum(limits.budget // (2 * R), 1), R)
    target = None if limits.target is None else np.tile(limits.target, R)
    few = min(restarts.iterations, limits.max_iterations)
    first = replace(limits, max_iterations=few, budget=share, target=target)
    queue = Queue(solver, starts.reshape(R * b, -1), users, None)
    rows = run(solver, oracle, queue, first, Log(keep_state=True))
    objective, violation, evaluations = (
        table.reshape(R, b) for table in (rows.best_values[:, 0], rows.best_violation, rows.evaluations)
    )
    chosen = select_start(objective, violation, feasibility)
    spent = evaluations.sum(0) - evaluations[chosen, np.arange(b)]
    best = rows.select(chosen * b + np.arange(b))
    best.resume()
    return best, spent
