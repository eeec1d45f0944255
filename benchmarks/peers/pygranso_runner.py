"""Run PyGRANSO 1.2.0 as published, one problem at a time.

PyGRANSO is AGPL-3: it is installed from PyPI into a venv of its own and only measured here. Two things in
its import chain do not exist beside current packages, and are supplied at run time:

- ``numpy.core.numeric.Inf``, removed in NumPy 2;
- ``gurobipy``, imported unconditionally although only the OSQP branch is used (an empty module suffices).
"""

from __future__ import annotations

import contextlib
import io
import sys
import time
import types
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import torch
from torch import Tensor

Scalar = Callable[[Tensor], Tensor]
"""A function of one point: (n,) -> ()."""

TERMINATION = {
    0: "stationary",
    1: "small relative decrease",
    2: "target value",
    3: "halted by user",
    4: "iteration limit",
    5: "time limit",
    6: "line search failed, feasible",
    7: "line search failed, infeasible",
    8: "no bracket",
    9: "no descent direction",
    11: "function error",
    12: "QP error",
    13: "unknown error",
}
"""PyGRANSO's documented termination codes."""


@dataclass(frozen=True)
class GransoConfig:
    """The PyGRANSO options this benchmark sets; everything else stays at its default."""

    tol: float = 1e-4
    violation_tol: float = 1e-6
    max_iterations: int = 1000
    seconds: float = 60.0
    memory: int = 0
    """L-BFGS pairs; 0 is full BFGS."""
    evaldist: float = 1e-4
    """Gradients from within this distance enter its stationarity test; 1e-4 is its default."""


@dataclass(frozen=True)
class GransoResult:
    """One run. ``x`` is None if nothing was returned; ``error`` then says why."""

    x: Tensor | None
    seconds: float
    cpu_seconds: float
    iterations: int
    evaluations: int
    code: int | None
    stationarity: float
    point: str
    """Which of PyGRANSO's points is reported: best, most_feasible or final."""
    error: str | None


def version() -> str:
    return metadata.version("pygranso")


def load() -> tuple[Callable[..., Any], type]:
    """Import PyGRANSO beside NumPy 2 and without Gurobi; returns ``(pygranso, pygransoStruct)``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import numpy.core.numeric as numeric

        if "Inf" not in vars(numeric):
            numeric.Inf = float("inf")  # type: ignore[attr-defined]
        if "gurobipy" not in sys.modules:
            try:
                import gurobipy  # noqa: F401
            except ImportError:
                stub = types.ModuleType("gurobipy")
                stub.GRB = types.SimpleNamespace()  # type: ignore[attr-defined]
                sys.modules["gurobipy"] = stub
        from pygranso.pygranso import pygranso
        from pygranso.pygransoStruct import pygransoStruct
    return pygranso, pygransoStruct


def run(objective: Scalar, constraints: Sequence[Scalar], x0: Tensor, config: GransoConfig) -> GransoResult:
    """Minimise ``objective`` subject to every ``constraint <= 0``, from ``x0`` of shape (n,).

    PyGRANSO calls ``sys.exit`` on set-up errors and prints tracebacks: both are caught and kept in
    ``error``. The point reported is its best one that is feasible to tolerance, if it has one.
    """
    pygranso, struct = load()
    n = x0.numel()
    options = struct()
    options.x0 = x0.detach().clone().reshape(n, 1)
    options.torch_device = torch.device("cpu")
    options.double_precision = True
    options.opt_tol = config.tol
    options.viol_ineq_tol = config.violation_tol
    options.viol_eq_tol = config.violation_tol
    options.maxit = config.max_iterations
    options.maxclocktime = config.seconds
    options.limited_mem_size = config.memory
    options.evaldist = config.evaldist
    options.print_level = 0
    options.quadprog_info_msg = False
    options.prescaling_info_msg = False

    def combined(variables: Any) -> list[Any]:
        x = variables.x
        inequalities = struct()
        for index, constraint in enumerate(constraints):
            setattr(inequalities, f"c{index + 1}", constraint(x))
        return [objective(x), inequalities, None]

    printed = io.StringIO()
    solution: Any = None
    error: str | None = None
    began, began_cpu = time.perf_counter(), time.process_time()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(printed):
            warnings.simplefilter("ignore")
            solution = pygranso(var_spec={"x": [n]}, combined_fn=combined, user_opts=options)
    except (Exception, SystemExit) as problem:  # SystemExit: PyGRANSO's way to report set-up errors
        error = f"{type(problem).__name__}: {problem}"
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - began_cpu
    lines = [line.strip() for line in printed.getvalue().splitlines() if line.strip()]
    if "Traceback" in printed.getvalue() or (solution is not None and hasattr(solution, "error")):
        error = f"{error or 'caught by PyGRANSO'} | {lines[-1][:200]}"  # other lines are OSQP's notices
    if solution is None:
        return GransoResult(None, seconds, cpu_seconds, 0, 0, None, float("nan"), "none", error)
    point = next(name for name in ("best", "most_feasible", "final") if hasattr(solution, name))
    return GransoResult(
        x=getattr(solution, point).x.detach().reshape(n).clone(),
        seconds=seconds,
        cpu_seconds=cpu_seconds,
        iterations=int(solution.iters),
        evaluations=int(solution.fn_evals),
        code=int(solution.termination_code),
        stationarity=float(solution.stat_value),
        point=point,
        error=error,
    )
