"""``minimize``:  min f(x)  s.t.  c(x) <= 0, h(x) = 0, lo <= x <= hi,  one problem or b independent ones in a batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pwcf._common.progress import Advance, progress_bar
from pwcf._common.status import Status
from pwcf.solvers.arguments import (
    check_budget,
    check_choice,
    check_constraints,
    check_count,
    check_positive,
    check_target,
)
from pwcf.solvers.bfgs_sqp import BfgsSqp
from pwcf.solvers.callback import Callback, Watch
from pwcf.solvers.constraints import Constraint
from pwcf.solvers.hessian import SHORT
from pwcf.solvers.host import Array
from pwcf.solvers.loop import Limits, Log, Queue, run
from pwcf.solvers.multipliers import Lagrangian
from pwcf.solvers.oracle import Oracle
from pwcf.solvers.restarts import Restarts, run_first_stage
from pwcf.solvers.solution import Evidence, Solution, SolverState, Trajectory
from pwcf.solvers.state import CODE, STATUSES, SolverProblem, SolverRows, SolverSettings
from pwcf.solvers.units import Units, units
from pwcf.solvers.variables import Variables

# Full BFGS handles kinks better than L-BFGS, and up to here its n x n matrix costs little.
FULL_BFGS_UP_TO = 200
# A problem without a batch axis has one matrix only. With it an orthogonal RNN with 682 entries became feasible, with
# limited memory it did not.
FULL_BFGS_ALONE_UP_TO = 1000
# Pairs of L-BFGS in float64, up to where their memory is no concern.
LONG_MEMORY, LONG_MEMORY_UP_TO = 20, 20_000
# Columns of all functions that the store holds.
MOST_COLUMNS = 20_000
# Up to here the bundle can hold the cuts that even a vertex needs.
ALL_FACES_UP_TO = 60


def minimize(
    objective: Callable[..., Any],
    x0: Any,
    constraints: Sequence[Constraint] = (),
    *,
    batched: bool | None = None,
    bounds: tuple[Any, Any] | None = None,
    tol: float = 1e-4,
    feasibility: float | None = None,
    max_iterations: int = 1000,
    budget: int | Tensor | None = None,
    time_limit: float | None = None,
    target: float | Tensor | None = None,
    callback: Callback | None = None,
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
    """Solve one problem, or b independent ones, whose functions need be differentiable only almost everywhere.

    x0 decides which: a tensor with two or more axes is a batch, its first axis counts problems. Everything else is one
    problem: a tensor (n,) or (), a dict, list or tuple of tensors, a module. ``batched`` overrides this. The functions
    get the variables in the form of x0. For one problem there is no batch axis: the objective returns one value, a
    constraint a tensor of any shape, and the fields of the solution have no batch axis either.

    Args:
        objective: (b, ...) -> (b,), or with ``constraints`` made without a function, -> (f, c_1, ...). It is
            called with the active rows only; if it takes a second argument ``rows`` it gets their indices. For one
            problem: a function of x, of the structure, or of the module, that returns one value.
        x0: starts, float32 or float64, as a tensor (b, ...) or (n,), a NumPy array, a dict, list or tuple of these, or
            an ``nn.Module``, whose parameters that require gradients are the variables. Starts are projected onto the
            bounds. A module has the trial parameters while a function runs, and is itself again afterwards.
        constraints: made with ``pwcf.ineq`` and ``pwcf.eq``.
        batched: True: the first axis of every tensor in x0 counts problems. False: x0 is one problem, such as a matrix
            variable. None: as said above.
        bounds: (lo, hi), numbers or tensors that broadcast to x0, None for an open side; where x0 is a structure or a
            module also of its form, keys that a dict lacks being open. Kept exactly by projection: prefer them to a
            folded box.
        tol: relative excess of the objective at which a row counts as converged. 1e-4 is two digits more than
            the published default, at little cost where the quasi-Newton phase converges fast.
        feasibility: total violation, in your units, up to which a point counts as feasible. Default 1e-6
            in float64, 1e-5 in float32 (a sum of a few hundred rounding errors).
        max_iterations: directions per row; 1000 is far beyond what a well-posed problem needs.
        budget: evaluations per row, a number or (b,).
        time_limit: seconds after which all rows end as TIME_LIMIT. It is looked at between evaluations, and every
            row is evaluated at least once.
        target: a number or (b,): a row ends as TARGET at a feasible point with an objective this low.
        callback: called with a ``pwcf.solvers.Progress`` after every evaluation of the rows in work. It returns None or
            False to go on, True to end all rows, (b,) bools to end some, as STOPPED. Raising StopIteration ends all.
            The first stage of restarts is not shown.
        slots: rows solved at once; the others wait. Default: all.
        hessian: "bfgs", "lbfgs" or "auto": full BFGS up to n = 200, for one problem without a batch axis up to
            n = 1000, limited memory beyond.
        memory: pairs kept by L-BFGS, each two vectors per row. Default 20 in float64 up to n = 20,000: near a solution
            they save many iterations. 6 otherwise: with networks as functions and few evaluations fewer pairs reached
            feasibility sooner, and cost less memory traffic.
        mu0: initial weight of the objective in the penalty function; below 1 because scaled constraints
            must win at first, not much below because steering can only lower it.
        test: "bundle", a test on the problem as stated, or "published", the paper's test on the length of the
            augmented dual's step (for comparison: it is wrong on many problems).
        restarts: two-stage restarts from further starts, for one problem (R, n) or of the form of x0.
        state: continue exactly from a ``Solution.state`` (of a call with ``keep_state=True``).
        keep_state: return the state of all rows, for a later ``state=``.
        trajectory: record objective, violation, stationarity, mu and step per iteration.
        progress: show a progress bar (needs tqdm).

    Returns:
        The best point of every row, x (b, ...) in the dtype of x0, with objective (b,), status, evidence, iterations
        (b,), evaluations (b,) and multipliers; x has the form of x0 (a dict, for a module), and for one problem nothing
        has a batch axis. A row ends as CONVERGED, STALLED, INFEASIBLE, MAX_ITERATIONS, BUDGET, TIME_LIMIT, TARGET,
        STOPPED, UNBOUNDED or NONFINITE, which ``pwcf.Status`` explains. A row that fails gets a status and raises no
        error.
    """
    began = time.monotonic()
    variables = Variables(x0, batched)
    x0 = variables.flat
    b, n = x0.shape
    box = variables.bounds(bounds)
    if feasibility is None:
        feasibility = 1e-6 if x0.dtype == torch.float64 else 1e-5
    for name, value in (("tol", tol), ("mu0", mu0), ("feasibility", feasibility)):
        check_positive(name, value)
    check_count("max_iterations", max_iterations, 0)
    if memory is not None:
        check_count("memory", memory, 1)
    if slots is not None:
        check_count("slots", slots, 1)
    if time_limit is not None:
        check_positive("time_limit", time_limit)
    if callback is not None and not callable(callback):
        raise TypeError(f"callback: expected a function of a pwcf.solvers.Progress, found {type(callback).__name__}")
    check_choice("hessian", hessian, ("auto", "bfgs", "lbfgs"))
    check_choice("test", test, ("bundle", "published"))
    check_constraints(constraints)
    if restarts is not None and state is not None:
        raise ValueError("state: cannot be combined with restarts; continue the saved rows without them")
    spending, goal = check_budget(budget, b), check_target(target, b)
    unit = units(box.project(x0), box) if state is None else Units.kept(state.rows.unit)
    oracle = Oracle(*variables.functions(objective, constraints), variables.shape, b, unit)
    if b == 0:
        return _nothing(variables, constraints)
    x0, box = unit.from_user(x0), unit.bounds(box)
    first = min(slots or b, b)
    everyone = torch.arange(b, device=x0.device)
    oracle.prepare(x0[:first], everyone[:first], box)
    if memory is None:
        memory = LONG_MEMORY if x0.dtype == torch.float64 and n <= LONG_MEMORY_UP_TO else SHORT
    single = x0.dtype != torch.float64
    if hessian == "auto":
        most = FULL_BFGS_ALONE_UP_TO if variables.single else FULL_BFGS_UP_TO
        hessian = "bfgs" if n <= most else "lbfgs"
    settings = _settings(n, oracle.p, single, tol, feasibility, hessian, memory, mu0, test)
    solver = BfgsSqp.for_problem(SolverProblem(oracle, box, settings))
    log = Log(keep_state=keep_state, trajectory=trajectory)
    log.watch = None if callback is None else Watch(callback, variables, variables.flat, began)
    deadline = None if time_limit is None else began + time_limit
    limits = Limits(max_iterations, spending, slots or b, deadline, goal, feasibility)
    with progress_bar(progress, "minimize", b, "row") as advance:
        log.on_end = None if advance is None else _counted(advance)
        saved: SolverRows | None
        if restarts is not None:
            further = replace(restarts, points=variables.starts(restarts.points))
            saved, spent = run_first_stage(solver, oracle, x0, further, limits, feasibility)
            limits = replace(limits, budget=None if spending is None else spending - spent)
        else:
            saved, spent = _resume(state, b, n), np.zeros(b, dtype=np.int64)
        rows = run(solver, oracle, Queue(solver, x0, everyone, saved), limits, log)
    return _solution(rows, variables, spent, log, Lagrangian(solver, variables, rows, limits.slots))


def _settings(
    n: int, p: int, single: bool, tol: float, feasibility: float, hessian: str, memory: int, mu0: float, test: str
) -> SolverSettings:
    # To show that a kink with n faces is a minimum takes n + 1 cuts that carry weight; the store holds twice
    # as many, so that none of them is lost while others are tried. Where n is too large for that the
    # bundle is a fallback that must be cheap in time, and beyond n = 20,000 in memory too. In single precision its
    # few cuts are not known well enough to be worth a step: with networks as functions it took three times the time
    # for nothing.
    all_faces = n <= ALL_FACES_UP_TO
    if all_faces:
        cuts, columns = 2 * n + 40, max(n + 20, 40)
    else:
        cuts, columns = (20 if n <= 20_000 else 10), 16
    # Every cut brings a column of every constraint; of many the last few cuts say enough.
    cuts = max(10, min(cuts, MOST_COLUMNS // (1 + p)))
    columns = min(columns if p == 0 else 2 * columns, cuts * (1 + p))
    return SolverSettings(
        tol=tol, feasibility=feasibility, hessian=hessian, memory=memory, cuts=cuts, columns=columns, mu0=mu0,
        test=test, window=10, all_faces=all_faces, bundles=all_faces or not single, walls=all_faces,
    )  # fmt: skip


def _resume(state: SolverState | None, b: int, n: int) -> SolverRows | None:
    if state is None:
        return None
    rows = state.rows
    if rows.x.shape != (b, n):
        raise ValueError(f"state: holds {tuple(rows.x.shape)} (rows, n), expected {(b, n)} as x0")
    if rows.cuts.gradients.numel() == 0 and n > 0:
        raise ValueError("state: was made without keep_state=True")
    rows = rows.select(np.arange(b))
    rows.resume()
    return rows


def _solution(rows: SolverRows, variables: Variables, spent: Array, log: Log, lagrangian: Lagrangian) -> Solution:
    def one(array: Array) -> Tensor:
        return variables.drop_batch(torch.from_numpy(array.copy()).to(rows.x.device))

    status = [STATUSES[code] for code in rows.status.tolist()]
    trajectory = _trajectory(log, rows.count, rows.x.device) if log.trajectory else None
    if trajectory is not None and variables.single:
        trajectory = Trajectory(*(getattr(trajectory, field.name)[0] for field in fields(trajectory)))
    return Solution(
        x=variables.unflatten(rows.answer),
        objective=one(rows.best_values[:, 0]),
        status=status[0] if variables.single else status,
        evidence=Evidence(one(rows.gap), one(rows.best_violation), one(rows.stationarity)),
        iterations=one(rows.iterations),
        evaluations=one(rows.evaluations + spent),
        trajectory=trajectory,
        state=SolverState(rows) if log.keep_state else None,
        lagrangian=lagrangian,
    )


def _trajectory(log: Log, b: int, device: torch.device) -> Trajectory:
    columns = [np.concatenate(column) for column in zip(*log.entries, strict=True)]
    if not columns:
        return Trajectory(*(torch.zeros(b, 0, dtype=torch.float64, device=device) for _ in range(5)))
    ids, iteration = columns[0], columns[1] - 1
    tables = np.full((5, b, iteration.max() + 1), np.nan)
    tables[:, ids, iteration] = columns[2:]
    return Trajectory(*torch.from_numpy(tables).to(device).unbind(0))


def _nothing(variables: Variables, constraints: Sequence[Constraint]) -> Solution:
    """The solution for a batch without rows."""
    device = variables.flat.device
    empty = torch.zeros(0, dtype=torch.float64, device=device)
    count = torch.zeros(0, dtype=torch.int64, device=device)
    x = variables.unflatten(variables.flat)
    solution = Solution(x, empty, [], Evidence(empty, empty, empty), count, count)
    # Nothing was evaluated, so that nobody knows how many values a constraint has.
    solution.__dict__.update(
        multipliers=[empty for _ in constraints], bound_multipliers=variables.unflatten(variables.flat)
    )
    return solution


def _counted(advance: Advance) -> Callable[[Array], None]:
    """Make a callback that reports ended rows, by their status codes, to a progress bar."""
    converged = 0

    def ended(codes: Array) -> None:
        nonlocal converged
        converged += int((codes == CODE[Status.CONVERGED]).sum())
        advance(len(codes), converged=converged)

    return ended
