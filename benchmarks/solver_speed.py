"""What ``pwcf.minimize`` costs on problems whose functions cost next to nothing: time and operations.

*Alone*: HS71 (4 variables, 2 constraints, bounds) from its standard start, one row, beside SciPy's SLSQP on the same
functions written in NumPy, with exact gradients. *Batch*: GRANSO's constrained Rosenbrock from random starts in one
batch. Times are process times on one thread, the least of the repeats, and the median of them.

*Operations*: what the dispatcher of torch runs beside the user's functions and their gradients, per evaluation, and
how many of these make the host wait for the device (``item``, ``nonzero``, an index by mask). Counted on HS71, on
Rosenbrock, and on the paper's formulation of a linf radius: a slack, one constraint of a small network and two folds::

    python benchmarks/solver_speed.py --out docs/benchmarks
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from known_optima import endings, heading, table, write_csv
from scipy.optimize import minimize as scipy_minimize
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import pwcf
from pwcf import testproblems
from pwcf.solvers.oracle import Oracle

STEM = "solver_speed"
WAITS = ("aten::_local_scalar_dense", "aten::nonzero", "aten::is_nonzero", "aten::equal")
MS_ALONE, MS_A_ROW = 15.0, 5.0


class OperationCount(TorchDispatchMode):
    """Counts operations and those that wait for the device, except while it is paused."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = self.waits = 0
        self.paused = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not self.paused:
            self.operations += 1
            by_mask = func._schema.name.startswith("aten::index") and any(
                isinstance(index, Tensor) and index.dtype == torch.bool
                for index in (args[1] if len(args) > 1 and isinstance(args[1], (list, tuple)) else ())
            )
            self.waits += by_mask or func._schema.name in WAITS
        return func(*args, **(kwargs or {}))


def counted(solve: Callable[[], pwcf.Solution]) -> tuple[float, float, int]:
    """Operations and waits per evaluation outside ``Oracle.evaluate``, and the evaluations."""
    count, calls, evaluate = OperationCount(), [0], Oracle.evaluate

    def uncounted(self: Oracle, x: Tensor, rows: Tensor) -> Any:
        calls[0] += 1
        count.paused = True
        try:
            return evaluate(self, x, rows)
        finally:
            count.paused = False

    with mock.patch.object(Oracle, "evaluate", uncounted), count:
        solve()
    return count.operations / calls[0], count.waits / calls[0], calls[0]


def timed(solve: Callable[[], Any], repeats: int) -> tuple[float, float]:
    """The least and the median process time, in ms, after one call to warm up."""
    solve()
    times = []
    for _ in range(repeats):
        began = time.process_time()
        solve()
        times.append(1e3 * (time.process_time() - began))
    return min(times), statistics.median(times)


def problem_solver(name: str, rows: int, seed: int) -> Callable[[], pwcf.Solution]:
    problem = testproblems.get(name)
    start = problem.start.double().unsqueeze(0) if rows == 1 else problem.starts(rows, seed)
    return lambda: pwcf.minimize(problem.objective, start, list(problem.constraints), bounds=problem.bounds)


def hs71_by_slsqp() -> Any:
    def objective(x: Any) -> tuple[float, Any]:
        a, b, c, d = x
        s = a + b + c
        return a * d * s + c, np.array([d * s + a * d, a * d, a * d + 1, a * s])

    return scipy_minimize(
        objective,
        np.array([1.0, 5.0, 5.0, 1.0]),
        jac=True,
        method="SLSQP",
        bounds=[(1.0, 5.0)] * 4,
        constraints=[
            {"type": "ineq", "fun": lambda x: x.prod() - 25, "jac": lambda x: x.prod() / x},
            {"type": "eq", "fun": lambda x: x @ x - 40, "jac": lambda x: 2 * x},
        ],
        options={"ftol": 1e-10},
    )


def paper_solver(rows: int, seed: int, n: int = 64, evaluations: int = 60) -> Callable[[], pwcf.Solution]:
    """min tau s.t. f_y - max_other f <= 0, -tau <= sqrt(n) (x' - x) <= tau, 0 <= x' <= 1, both groups folded."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    W, U, x = draw(n, 32) / n**0.5, draw(32, 10), 0.5 + 0.2 * draw(rows, n).clamp(-2, 2)
    label = torch.tanh(x @ W) @ U
    label = label.argmax(1)

    def condition(z: Tensor, index: Tensor) -> Tensor:
        logits, own = torch.tanh(z[:, :n] @ W) @ U, label[index].unsqueeze(1)
        return logits.gather(1, own).squeeze(1) - logits.scatter(1, own, -torch.inf).amax(1)

    def slack(z: Tensor, index: Tensor) -> Tensor:
        move, tau = n**0.5 * (z[:, :n] - x[index]), z[:, n:]
        return torch.cat([move - tau, -move - tau], 1)

    def box(z: Tensor) -> Tensor:
        return torch.cat([-z[:, :n], z[:, :n] - 1], 1)

    start = x + 0.05 * draw(rows, n)
    start = torch.cat([start, n**0.5 * (start - x).abs().amax(1, keepdim=True)], 1)
    least = torch.cat([torch.full((n,), -torch.inf), torch.zeros(1)])
    constraints = [pwcf.ineq(condition), pwcf.ineq(slack, fold=True), pwcf.ineq(box, fold=True)]
    return lambda: pwcf.minimize(lambda z: z[:, n], start, constraints, bounds=(least, None), budget=evaluations)


def report(lines: list[dict[str, Any]], slsqp: tuple[float, float], args: argparse.Namespace) -> str:
    alone = lines[0]
    text = heading("Speed of `pwcf.minimize` where functions cost nothing", seed=args.seed, repeats=args.repeats)
    text += [
        "Process time on one thread, the least and the median of the repeats. Operations and waits of the host per "
        "evaluation of all rows, without the user's functions and their gradients.",
        "",
        *table(lines),
        "",
        f"Targets: HS71 alone at most {MS_ALONE:g} ms, Rosenbrock at most {MS_A_ROW:g} ms a row. "
        f"SLSQP takes {slsqp[0]:.2f} ms for HS71 (median {slsqp[1]:.2f} ms): `minimize` takes "
        f"{alone['ms'] / slsqp[0]:.1f} times as long for one row.",
        "",
    ]
    return "\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=256, help="rows of a batch")
    parser.add_argument("--repeats", type=int, default=30, help="of one row; a batch is repeated a tenth as often")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=None, help="folder for the table; default: it is only printed")
    args = parser.parse_args()
    torch.set_num_threads(1)
    few = max(1, args.repeats // 10)
    cases = [
        ("hs71", 1, problem_solver("hs71", 1, args.seed), args.repeats),
        ("granso_rosenbrock", args.rows, problem_solver("granso_rosenbrock", args.rows, args.seed), few),
        ("linf radius, folded", 32, paper_solver(32, args.seed), few),
    ]
    lines = []
    for name, rows, solve, repeats in cases:
        least, median = timed(solve, repeats)
        operations, waits, calls = counted(solve)
        line = {"problem": name, "rows": rows, "ms": least, "median_ms": median, "ms_a_row": least / rows}
        line |= {"evaluations": calls, "operations": operations, "waits": waits, "endings": endings(solve())}
        lines.append(line)
        print(
            ", ".join(f"{key} {value:.4g}" if isinstance(value, float) else str(value) for key, value in line.items())
        )
    text = report(lines, timed(hs71_by_slsqp, args.repeats), args)
    if args.out is not None:
        args.out.mkdir(parents=True, exist_ok=True)
        write_csv(args.out / f"{STEM}.csv", lines)
        (args.out / f"{STEM}.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
