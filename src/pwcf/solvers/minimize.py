"""``minimize``: b independent problems  min f(x)  s.t.  c(x) <= 0, h(x) = 0, lo <= x <= hi  in one batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from pwcf._common.progress import Advance, progress_bar
from pwcf._common.status import Status
from pwcf.solvers.bfgs_sqp import BfgsSqp
from pwcf.solvers.bounds import make_bounds
from pwcf.solvers.constraints import Constraint
from pwcf.solvers.hessian import SHORT
from pwcf.solvers.loop import Limits, Log, Queue, run
from pwcf.solvers.oracle import Oracle
from pwcf.solvers.restarts import Restarts, run_first_stage
from pwcf.solvers.solution import Evidence, Solution, SolverState, Trajectory
from pwcf.solvers.state import CODE, STATUSES, SolverProblem, SolverRows, SolverSettings

# Full BFGS handles kinks better than L-BFGS, and up to here its n x n matrix costs little.
FULL_BFGS_UP_TO = 200
# Pairs of L-BFGS in float64, up to where their memory is no concern.
LONG_MEMORY, LONG_MEMORY_UP_TO = 20, 20_000
# Up to here the bundle can hold the cuts that even a vertex needs.
CERTIFIABLE_UP_TO = 60


def minimize(
    objective: Callable[..., Any],
    x0: Tensor,
    constraints: Sequence[Constraint] = (),
    *,
    bounds: tuple[Any, Any] | None = None,
    tol: float = 1e-4,
    feasibility: float | None = None,
    max_iterations: int = 1000,
    budget: int | Tensor | None = None,
    slots: int | None = None,
    hessian: str = "auto",
    memory: int | None = None,
    mu0: float = 0.7,
    test: str = "bundle",
    restarts: Restarts | None = None,
    state: SolverState | None = None,
    keep_state: bool = False,
    trajectory: bool = False,
    progress: bool = False,
) -> Solution:
    """Solve b independent problems whose functions need be differentiable only almost everywhere.

    Args:
        objective: (b, ...) -> (b,), or with ``constraints`` made without a function, -> (f, c_1, ...). It is
            called with the active rows only; if it takes a second argument ``rows`` it gets their indices.
        x0: (b, ...) starts, float32 or float64; projected onto the bounds.
        constraints: made with ``pwcf.ineq`` and ``pwcf.eq``.
        bounds: (lo, hi), numbers or tensors that broadcast to x0, None for an open side. Kept exactly by
            projection: prefer them to a folded box.
        tol: relative excess of the objective at which a row counts as converged. 1e-4 is two digits more than
            the published default, at little cost where the quasi-Newton phase converges fast.
        feasibility: total violation, in your units, up to which a point counts as feasible. Default 1e-6
            in float64, 1e-5 in float32 (a sum of a few hundred rounding errors).
        max_iterations: directions per row; 1000 is far beyond what a well-posed problem needs.
        budget: evaluations per row, a number or (b,).
        slots: rows solved at once; the others wait. Default: all.
        hessian: "bfgs", "lbfgs" or "auto": full BFGS up to n = 200, limited memory beyond.
        memory: pairs kept by L-BFGS, each two vectors per row. Default 20 in float64 up to n = 20,000: near a solution
            they save many iterations. 6 otherwise: with networks as functions and few evaluations fewer pairs reached
            feasibility sooner, and cost less memory traffic.
        mu0: initial weight of the objective in the penalty function; below 1 because scaled constraints
            must win at first, not much below because steering can only lower it.
        test: "bundle", a test on the problem as stated, or "published", the paper's test on the length of the
            augmented dual's step (for comparison: it is wrong on many problems).
        restarts: two-stage restarts from further starts.
        state: continue exactly from a ``Solution.state`` (of a call with ``keep_state=True``).
        keep_state: return the state of all rows, for a later ``state=``.
        trajectory: record objective, violation, stationarity, mu and step per iteration.
        progress: show a progress bar (needs tqdm).

    Returns:
        The best point of every row, x (b, ...) in the dtype of x0, with objective (b,), status, evidence, iterations
        (b,) and evaluations (b,). A row ends as CONVERGED, STALLED, INFEASIBLE, MAX_ITERATIONS, BUDGET, UNBOUNDED or
        NONFINITE, which ``pwcf.Status`` explains. A row that fails gets a status and raises no error.
    """
    x0, shape = _check_x0(x0)
    b, n = x0.shape
    box = make_bounds(bounds, x0, shape)
    for name, value, least in (("tol", tol, 0.0), ("mu0", mu0, 0.0)):
        if not isinstance(value, (int, float)) or not value > least:
            raise ValueError(f"{name}: expected a number > 0, found {value!r}")
    _check_count("max_iterations", max_iterations, 0)
    if memory is not None:
        _check_count("memory", memory, 1)
    if slots is not None:
        _check_count("slots", slots, 1)
    _check_choice("hessian", hessian, ("auto", "bfgs", "lbfgs"))
    _check_choice("test", test, ("bundle", "published"))
    if feasibility is None:
        feasibility = 1e-6 if x0.dtype == torch.float64 else 1e-5
    for i, constraint in enumerate(constraints):
        if not isinstance(constraint, Constraint):
            raise TypeError(
                f"constraints[{i}]: expected pwcf.ineq(...) or pwcf.eq(...), found {type(constraint).__name__}"
            )
    if not isinstance(feasibility, (int, float)) or not feasibility > 0:
        raise ValueError(f"feasibility: expected a number > 0, found {feasibility!r}")
    if restarts is not None and state is not None:
        raise ValueError("state: cannot be combined with restarts; continue the saved rows without them")
    spending = _check_budget(budget, b, x0.device)
    oracle = Oracle(objective, constraints, shape, b)
    if b == 0:
        return _nothing(x0, shape)
    first = min(slots or b, b)
    everyone = torch.arange(b, device=x0.device)
    oracle.prepare(x0[:first], everyone[:first], box)
    if memory is None:
        memory = LONG_MEMORY if x0.dtype == torch.float64 and n <= LONG_MEMORY_UP_TO else SHORT
    single = x0.dtype != torch.float64
    settings = _settings(n, oracle.p, single, tol, feasibility, hessian, memory, mu0, test)
    solver = BfgsSqp.for_problem(SolverProblem(oracle, box, settings))
    log = Log(keep_state=keep_state, trajectory=trajectory)
    limits = Limits(max_iterations, spending, slots or b)
    with progress_bar(progress, "minimize", b, "row") as advance:
        log.on_end = None if advance is None else _counted(advance)
        saved: SolverRows | None
        if restarts is not None:
            saved, spent = run_first_stage(solver, oracle, x0, restarts, limits, feasibility)
            spending = None if spending is None else spending - spent
            limits = Limits(max_iterations, spending, slots or b)
        else:
            saved, spent = _resume(state, b, n), torch.zeros(b, dtype=torch.int64, device=x0.device)
        rows = run(solver, oracle, Queue(solver, x0, everyone, saved), limits, log)
    return _solution(rows, shape, spent, log)


def _settings(
    n: int, p: int, single: bool, tol: float, feasibility: float, hessian: str, memory: int, mu0: float, test: str
) -> SolverSettings:
    if hessian == "auto":
        hessian = "bfgs" if n <= FULL_BFGS_UP_TO else "lbfgs"
    # To show that a kink with n faces is a minimum takes n + 1 cuts that carry weight; the store holds twice
    # as many, so that none of them is lost while others are tried. Where n is too large for that the
    # bundle is a fallback that must be cheap in time, and beyond n = 20,000 in memory too. In single precision its
    # few cuts are not known well enough to be worth a step: with networks as functions it took three times the time
    # for nothing.
    certifiable = n <= CERTIFIABLE_UP_TO
    if certifiable:
        cuts, columns = 2 * n + 40, max(n + 20, 40)
    else:
        cuts, columns = (20 if n <= 20_000 else 10), 16
    columns = min(columns if p == 0 else 2 * columns, cuts * (1 + p))
    return SolverSettings(
        tol=tol, feasibility=feasibility, hessian=hessian, memory=memory, cuts=cuts, columns=columns, mu0=mu0,
        test=test, window=10, certifiable=certifiable, bundles=certifiable or not single,
    )  # fmt: skip


def _resume(state: SolverState | None, b: int, n: int) -> SolverRows | None:
    if state is None:
        return None
    rows = state.rows
    if rows.x.shape != (b, n):
        raise ValueError(f"state: holds {tuple(rows.x.shape)} (rows, n), expected {(b, n)} as x0")
    if rows.cuts.gradients.numel() == 0 and n > 0:
        raise ValueError("state: was made without keep_state=True")
    rows = rows.select(torch.arange(b, device=rows.x.device))
    rows.resume()
    return rows


def _solution(rows: SolverRows, shape: torch.Size, spent: Tensor, log: Log) -> Solution:
    b = rows.count
    return Solution(
        x=rows.best_x.reshape(b, *shape),
        objective=rows.best_values[:, 0],
        status=[STATUSES[code] for code in rows.status.tolist()],
        evidence=Evidence(rows.gap, rows.best_violation, rows.stationarity),
        iterations=rows.iterations,
        evaluations=rows.evaluations + spent,
        trajectory=_trajectory(log, b) if log.trajectory else None,
        state=SolverState(rows) if log.keep_state else None,
    )


def _trajectory(log: Log, b: int) -> Trajectory:
    columns = [torch.cat(column) for column in zip(*log.entries, strict=True)]
    if not columns:
        return Trajectory(*(torch.zeros(b, 0, dtype=torch.float64) for _ in range(5)))
    ids, iteration = columns[0], columns[1] - 1
    length = int(iteration.max()) + 1
    tables = []
    for column in columns[2:]:
        table = torch.full((b, length), torch.nan, dtype=torch.float64, device=ids.device)
        table[ids, iteration] = column
        tables.append(table)
    return Trajectory(*tables)


def _nothing(x0: Tensor, shape: torch.Size) -> Solution:
    empty = torch.zeros(0, dtype=torch.float64, device=x0.device)
    count = torch.zeros(0, dtype=torch.int64, device=x0.device)
    return Solution(x0.reshape(0, *shape), empty, [], Evidence(empty, empty, empty), count, count)


# ---- checking arguments ---------------------------------------------------------------------------


def _check_x0(x0: Tensor) -> tuple[Tensor, torch.Size]:
    if not isinstance(x0, Tensor):
        raise TypeError(f"x0: expected a tensor (b, ...), found {type(x0).__name__}")
    if x0.dtype not in (torch.float32, torch.float64):
        raise TypeError(f"x0: expected float32 or float64, found {x0.dtype}")
    if x0.dim() < 2:
        raise ValueError(f"x0: expected (b, ...) with at least two axes, found shape {tuple(x0.shape)}")
    if x0.shape[0] and x0[0].numel() == 0:
        raise ValueError(f"x0: expected at least one entry per row, found shape {tuple(x0.shape)}")
    shape = x0.shape[1:]
    return x0.detach().reshape(x0.shape[0], -1 if x0.shape[0] else x0[:0].flatten(1).shape[1]).clone(), shape


def _check_budget(budget: int | Tensor | None, b: int, device: torch.device) -> Tensor | None:
    if budget is None:
        return None
    if isinstance(budget, Tensor):
        if budget.shape != (b,) or budget.is_floating_point():
            raise ValueError(
                f"budget: expected a number or an integer tensor ({b},), found {budget.dtype} {tuple(budget.shape)}"
            )
        if bool((budget < 1).any()):
            raise ValueError(f"budget: expected whole numbers >= 1, found {int(budget.min())}")
        return budget.to(device=device, dtype=torch.int64)
    _check_count("budget", budget, 1)
    return torch.full((b,), budget, dtype=torch.int64, device=device)


def _counted(advance: Advance) -> Callable[[Tensor], None]:
    """Make a callback that reports ended rows, by their status codes, to a progress bar."""
    converged = 0

    def ended(codes: Tensor) -> None:
        nonlocal converged
        converged += int((codes == CODE[Status.CONVERGED]).sum())
        advance(codes.numel(), converged=converged)

    return ended


def _check_count(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name}: expected a whole number >= {least}, found {value!r}")


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name}: expected one of {', '.join(map(repr, choices))}, found {value!r}")
