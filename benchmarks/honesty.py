"""Does a row that says "converged" deserve it? Convex families of random instances with known optima.

Every row of a batch is an instance with data of its own; its optimum is a closed form or the answer of an LP
solver (scipy's HiGHS). Each family is solved with the default test at tol 1e-4, and with the published test
at tol 1e-2 and 1e-4. A claim is *false* if the true relative excess (F - f*) / |f*| is above 1 %, or the
total violation above 1e-5; both are computed here, from the points returned::

    python benchmarks/honesty.py --out docs/benchmarks

Needs scipy (``pip install pwcf[test]``).
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from known_optima import endings, heading, percent, table, total_violation, write_csv
from scipy.optimize import linprog
from torch import Tensor

import pwcf
from pwcf.solvers import Constraint

STEM = "honesty"
EXCESS, VIOLATION = 1e-2, 1e-5
RUNS = (("bundle", 1e-4), ("published", 1e-2), ("published", 1e-4))


@dataclass(frozen=True)
class Family:
    """b random instances; functions take (x, rows) and pick the data of their rows."""

    objective: Callable[[Tensor, Tensor], Tensor]
    constraints: tuple[Constraint, ...]
    starts: Tensor
    optimum: Tensor


class Draw:
    """Random float64 data, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self.generator, dtype=torch.float64)

    def uniform(self, *shape: int, low: float = -1.0, high: float = 1.0) -> Tensor:
        unit = torch.rand(*shape, generator=self.generator, dtype=torch.float64)
        return low + (high - low) * unit


def dual(p: float) -> float:
    return 1.0 if p == math.inf else math.inf if p == 1 else p / (p - 1)


def solve_lp(**arguments: Any) -> float:
    result = linprog(method="highs", **arguments)
    if result.status != 0:
        raise RuntimeError(f"HiGHS: {result.message}")
    return float(result.fun)


# ---- the distance from a point to a linear classifier ---------------------------------------------


@dataclass(frozen=True)
class Classifier:
    """Points a, weights w and offsets beta, with the margin w'a + beta between 0.5 and 2."""

    point: Tensor
    weight: Tensor
    offset: Tensor
    margin: Tensor

    @classmethod
    def draw(cls, b: int, n: int, draw: Draw) -> Classifier:
        point, weight, margin = draw.normal(b, n), draw.normal(b, n), draw.uniform(b, low=0.5, high=2.0)
        return cls(point, weight, margin - (weight * point).sum(-1), margin)

    def radius(self, p: float) -> Tensor:
        return self.margin / torch.linalg.vector_norm(self.weight, dual(p), dim=-1)

    def decision(self, x: Tensor, rows: Tensor) -> Tensor:
        n = self.point.shape[1]
        return (self.weight[rows] * x[:, :n]).sum(-1) + self.offset[rows]


def direct(p: float) -> Callable[[int, int, Draw], Family]:
    """||x - a||_p s.t. w'x + beta <= 0."""

    def make(b: int, n: int, draw: Draw) -> Family:
        data = Classifier.draw(b, n, draw)

        def objective(x: Tensor, rows: Tensor) -> Tensor:
            distance: Tensor = torch.linalg.vector_norm(x - data.point[rows], p, dim=-1)
            return distance

        starts = data.point + draw.uniform(b, n)
        return Family(objective, (pwcf.ineq(data.decision),), starts, data.radius(p))

    return make


def slack(p: float) -> Callable[[int, int, Draw], Family]:
    """The same with t, one for p = inf and n for p = 1: 1't s.t. |x - a| <= t, folded, w'x + beta <= 0."""

    def make(b: int, n: int, draw: Draw) -> Family:
        data = Classifier.draw(b, n, draw)
        k = 1 if p == math.inf else n

        def objective(x: Tensor, rows: Tensor) -> Tensor:
            return x[:, n:].sum(-1)

        def distance(x: Tensor, rows: Tensor) -> Tensor:
            return (x[:, :n] - data.point[rows]).abs() - x[:, n:]

        constraints = (pwcf.ineq(data.decision), pwcf.ineq(distance, fold=True))
        starts = torch.cat([data.point + draw.uniform(b, n), draw.uniform(b, k, low=0.5, high=1.5)], 1)
        return Family(objective, constraints, starts, data.radius(p))

    return make


# ---- others ---------------------------------------------------------------------------------------


def max_affine(b: int, n: int, draw: Draw) -> Family:
    """max_j (a_j'x + c_j), 2n pieces, c_j >= 1; a convex combination of the a_j is 0, so f* >= 1."""
    m = 2 * n
    matrix, constant = draw.normal(b, m, n), draw.uniform(b, m, low=1.0, high=3.0)
    weights = draw.uniform(b, m, low=0.2, high=1.0)
    matrix[:, -1] = -(weights[:, :-1, None] * matrix[:, :-1]).sum(1) / weights[:, -1:]
    cost = np.append(np.zeros(n), 1.0)
    optimum = [
        solve_lp(
            c=cost, A_ub=np.hstack([A, -np.ones((m, 1))]), b_ub=-c, bounds=[(None, None)] * (n + 1)
        )
        for A, c in zip(matrix.numpy(), constant.numpy(), strict=True)
    ]  # fmt: skip

    def objective(x: Tensor, rows: Tensor) -> Tensor:
        return ((matrix[rows] * x[:, None]).sum(-1) + constant[rows]).amax(-1)

    return Family(objective, (), 2 * draw.normal(b, n), torch.tensor(optimum, dtype=torch.float64))


def least_absolute_deviations(b: int, n: int, draw: Draw) -> Family:
    """||A x - y||_1 with 3n rows of A."""
    m = 3 * n
    matrix, target = draw.normal(b, m, n), draw.normal(b, m)
    cost = np.append(np.zeros(n), np.ones(2 * m))
    free = [(None, None)] * n + [(0, None)] * (2 * m)
    eye = np.eye(m)
    optimum = [
        solve_lp(c=cost, A_eq=np.hstack([A, -eye, eye]), b_eq=y, bounds=free)
        for A, y in zip(matrix.numpy(), target.numpy(), strict=True)
    ]

    def objective(x: Tensor, rows: Tensor) -> Tensor:
        return ((matrix[rows] * x[:, None]).sum(-1) - target[rows]).abs().sum(-1)

    return Family(objective, (), draw.normal(b, n), torch.tensor(optimum, dtype=torch.float64))


def linear_over_ball(p: float) -> Callable[[int, int, Draw], Family]:
    """c'x s.t. ||x||_p <= 1; f* = -||c||_q."""

    def make(b: int, n: int, draw: Draw) -> Family:
        cost = draw.normal(b, n)

        def objective(x: Tensor, rows: Tensor) -> Tensor:
            return (cost[rows] * x).sum(-1)

        def ball(x: Tensor, rows: Tensor) -> Tensor:
            norm: Tensor = torch.linalg.vector_norm(x, p, dim=-1)
            return norm - 1

        optimum = -torch.linalg.vector_norm(cost, dual(p), dim=-1)
        return Family(objective, (pwcf.ineq(ball),), draw.uniform(b, n), optimum)

    return make


def folded_box(b: int, n: int, draw: Draw) -> Family:
    """||x - a||^2 s.t. |x_j| <= 1/2, folded; x* clips a."""
    point = 1.5 * draw.uniform(b, n).sign() * draw.uniform(b, n, low=0.1, high=1.0)

    def objective(x: Tensor, rows: Tensor) -> Tensor:
        return ((x - point[rows]) ** 2).sum(-1)

    def box(x: Tensor, rows: Tensor) -> Tensor:
        return x.abs() - 0.5

    optimum = ((point.abs() - 0.5).clamp(min=0) ** 2).sum(-1)
    return Family(objective, (pwcf.ineq(box, fold=True),), draw.uniform(b, n), optimum)


FAMILIES: dict[str, Callable[[int, int, Draw], Family]] = {
    "classifier linf": direct(math.inf),
    "classifier linf, slack, folded": slack(math.inf),
    "classifier l1": direct(1.0),
    "classifier l1, slack, folded": slack(1.0),
    "classifier l2": direct(2.0),
    "classifier l8": direct(8.0),
    "classifier l1.5": direct(1.5),
    "max of affine functions": max_affine,
    "least absolute deviations": least_absolute_deviations,
    "linear over l1.5 ball": linear_over_ball(1.5),
    "linear over l4 ball": linear_over_ball(4.0),
    "projection on folded box": folded_box,
}


def measure(name: str, family: Family, test: str, tol: float) -> dict[str, Any]:
    b = len(family.optimum)
    began = time.perf_counter()
    solution = pwcf.minimize(family.objective, family.starts, family.constraints, tol=tol, test=test)
    seconds = time.perf_counter() - began
    everyone = torch.arange(b)
    with torch.no_grad():
        excess = (family.objective(solution.x, everyone) - family.optimum) / family.optimum.abs()
        violation = total_violation(family.constraints, solution.x, everyone)
    claims = solution.converged
    right = (excess <= EXCESS) & (violation <= VIOLATION)  # NaN is not right
    nan = float("nan")
    claimed = excess[claims]
    return {
        "family": name,
        "variables": family.starts.shape[1],
        "test": test,
        "tol": tol,
        "rows": b,
        "claims": int(claims.sum()),
        "false": int((claims & ~right).sum()),
        "right_points": int(right.sum()),
        "median_excess_of_claims": float(claimed.median()) if len(claimed) else nan,
        "worst_excess_of_claims": float(claimed.max()) if len(claimed) else nan,
        "lowest_excess": float(excess.min()),
        "largest_violation": float(violation.max()),
        "mean_evaluations": float(solution.evaluations.double().mean()),
        "seconds": seconds,
        "endings": endings(solution),
    }


def summary(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    result = []
    for test, tol in RUNS:
        part = [line for line in lines if (line["test"], line["tol"]) == (test, tol)]
        rows, claims, false = (sum(line[key] for line in part) for key in ("rows", "claims", "false"))
        if part:
            result.append(
                {
                    "test": test,
                    "tol": tol,
                    "families": len(part),
                    "rows": rows,
                    "claims": claims,
                    "claims share": percent(claims, rows),
                    "false": false,
                    "false among rows": f"{100 * false / rows:.2f} %",
                    "false among claims": f"{100 * false / claims:.2f} %" if claims else "-",
                    "right points": percent(sum(line["right_points"] for line in part), rows),
                    "seconds": sum(line["seconds"] for line in part),
                }
            )
    return result


def report(lines: list[dict[str, Any]], args: argparse.Namespace) -> str:
    text = heading(
        "Honesty of `converged`", rows=args.rows, n=args.n, seed=args.seed, dtype="float64", LP="scipy HiGHS"
    )
    wanted = len(RUNS) * len(args.families)
    if len(lines) < wanted:
        text += [f"**Not complete:** {len(lines)} of {wanted} runs.", ""]
    text += [
        f"A claim is a row that says converged; it is false if (F - f*) / |f*| > {EXCESS:g} or the violation "
        f"is above {VIOLATION:g}. Right points: rows that are within both, whether they claim or not. "
        "Lowest excess: over all rows (below 0 within the violation).",
        "",
        "## All families",
        "",
        *table(summary(lines)),
        "",
        "## Each family",
        "",
    ]
    shown = [
        {key: line[key] for key in ("family", "variables", "test", "tol")}
        | {"claims": percent(line["claims"], line["rows"]), "false": percent(line["false"], line["rows"])}
        | {"right points": percent(line["right_points"], line["rows"])}
        | {key: line[key] for key in list(line)[list(line).index("median_excess_of_claims") :]}
        for line in lines
    ]
    return "\n".join([*text, *table(shown)]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=100, help="random instances per family")
    parser.add_argument("--n", type=int, default=10, help="dimension; slack forms have n + 1 or 2n variables")
    parser.add_argument("--families", nargs="+", choices=FAMILIES, metavar="NAME", default=list(FAMILIES))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1, help="torch threads")
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks"))
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    args.out.mkdir(parents=True, exist_ok=True)
    lines: list[dict[str, Any]] = []
    text = ""
    for name in args.families:
        # a seed of its own for each family, so that a choice of families does not change the others
        family = FAMILIES[name](args.rows, args.n, Draw(1000 * args.seed + list(FAMILIES).index(name)))
        for test, tol in RUNS:
            line = measure(name, family, test, tol)
            lines.append(line)
            print(
                f"{name}, {test} {tol:g}: {line['claims']} of {line['rows']} claim, {line['false']} falsely, "
                f"{line['right_points']} right, {line['seconds']:.1f} s",
                flush=True,
            )
            write_csv(args.out / f"{STEM}.csv", lines)
            text = report(lines, args)
            (args.out / f"{STEM}.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
