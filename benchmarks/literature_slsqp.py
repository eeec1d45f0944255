"""SLSQP of scipy on the problems of ``literature.py``, one start at a time, with derivatives by autograd."""

from __future__ import annotations

import csv
import math
import time
import warnings
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from literature_probes import Array, Unfolded, jacobian, judged
from scipy.optimize import minimize
from torch import Tensor

SETTINGS = {"maxiter": 1000, "ftol": 1e-10}
COLUMNS = ("slsqp_form", "slsqp_solved", "slsqp_evaluations", "slsqp_seconds")


def measure_slsqp(unfolded: Unfolded, kind: str, starts: Tensor) -> dict[str, Any]:
    """Its part of a problem's line: the problem as stated if smooth, the epigraph where the pieces are known."""
    if kind == "nonsmooth" and getattr(unfolded.problem, "pieces", None) is None:
        return dict.fromkeys(COLUMNS, "")
    run = slsqp_epigraph if kind == "nonsmooth" else slsqp
    began, answers, evaluations = time.perf_counter(), [], 0
    for start in starts:
        try:
            x, spent = run(unfolded, start)
        except ValueError:  # scipy raises it on some values that are not finite
            x, spent = torch.full_like(start, math.nan), 0
        answers.append(x)
        evaluations += spent
    seconds = time.perf_counter() - began
    *_, solved = judged(unfolded, torch.stack(answers))
    form = "epigraph" if kind == "nonsmooth" else "as stated"
    return dict(zip(COLUMNS, (form, int(solved.sum()), evaluations / len(starts), seconds), strict=True))


def stored_slsqp(path: Path, rows: int, seed: int) -> dict[str, dict[str, Any]]:
    """Its parts of the lines of an earlier run with the same rows and seed, by problem."""
    kinds = dict(zip(COLUMNS, (str, int, float, float), strict=True))
    with path.open(newline="") as file:
        lines = [line for line in csv.DictReader(file) if (line["rows"], line["seed"]) == (str(rows), str(seed))]
    return {
        line["problem"]: {key: kinds[key](line[key]) if line[key] else "" for key in COLUMNS}
        for line in lines
        if COLUMNS[0] in line
    }


def slsqp(unfolded: Unfolded, start: Tensor) -> tuple[Tensor, int]:
    """The answer x (n,) from a start (n,), and the evaluations; the problem as it is stated, columns unfolded."""
    return _run(unfolded.problem.objective, unfolded, start)


def slsqp_epigraph(unfolded: Unfolded, start: Tensor) -> tuple[Tensor, int]:
    """The same for a maximum of smooth pieces: minimise t subject to pieces(x) <= t."""
    pieces: Callable[[Tensor], Tensor] = unfolded.problem.pieces  # type: ignore[attr-defined]

    def columns(x: Tensor) -> Tensor:
        return torch.cat([pieces(x[:, :-1]) - x[:, -1:], unfolded.columns(x[:, :-1])], 1)

    wide = Unfolded(
        unfolded.problem,
        torch.cat([unfolded.low, torch.tensor([-torch.inf], dtype=torch.float64)]),
        torch.cat([unfolded.high, torch.tensor([torch.inf], dtype=torch.float64)]),
        torch.cat([torch.zeros(pieces(start[None]).shape[1], dtype=torch.bool), unfolded.equality]),
    )
    height = unfolded.objective(start[None])
    x, evaluations = _run(lambda x: x[:, -1], wide, torch.cat([start, height]), columns)
    return x[:-1], evaluations


def _run(
    objective: Callable[[Tensor], Tensor],
    unfolded: Unfolded,
    start: Tensor,
    columns: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Tensor, int]:
    columns = columns or unfolded.columns
    equality = unfolded.equality

    def value(x: Array) -> float:
        with torch.no_grad():
            return float(objective(torch.from_numpy(x.copy())[None]))

    def gradient(x: Array) -> Array:
        return jacobian(objective, torch.from_numpy(x.copy())[None])[1][0, 0].numpy()

    @lru_cache(1)  # equalities and inequalities ask at the same x
    def values_at(key: bytes) -> Array:
        with torch.no_grad():
            return columns(torch.from_numpy(np.frombuffer(key).copy())[None])[0].numpy()

    @lru_cache(1)
    def jacobian_at(key: bytes) -> Array:
        return jacobian(columns, torch.from_numpy(np.frombuffer(key).copy())[None])[1][0].numpy()

    def part(chosen: Array, sign: float) -> dict[str, Callable[[Array], Array]]:
        return {
            "fun": lambda x: sign * values_at(x.tobytes())[chosen],
            "jac": lambda x: sign * jacobian_at(x.tobytes())[chosen],
        }

    constraints: list[dict[str, Any]] = []
    if bool(equality.any()):
        constraints.append({"type": "eq", **part(equality.numpy(), 1.0)})
    if bool((~equality).any()):
        constraints.append({"type": "ineq", **part(~equality.numpy(), -1.0)})
    bounds = list(zip(unfolded.low.numpy(), unfolded.high.numpy(), strict=True))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # overflow and steps clipped to the bounds are its own affair
        result = minimize(
            value, start.numpy(), jac=gradient, bounds=bounds, constraints=constraints, method="SLSQP",
            options=SETTINGS,
        )  # fmt: skip
    return torch.from_numpy(np.asarray(result.x, dtype=np.float64)), int(result.nfev)
