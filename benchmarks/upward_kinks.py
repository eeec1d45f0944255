"""How often ``pwcf.minimize`` says converged where an upward kink hides the way down.

Where a function has a kink that points upwards, like -|x| at 0, the gradients of its sides may cancel although one
side leads down. Such a point is Clarke stationary, but no local minimum; Nesterov's second nonsmooth
Chebyshev-Rosenbrock function has 2^(n - 1) - 1 of them. The families of this file, seven with bounds and four with
constraints, are full of upward kinks; their instances are random, with 2 to 5 variables. Each is solved from 17 starts
in one batch, in float64, with default settings; with odd seeds the starts are rounded to halves, where kinks meet::

    python benchmarks/upward_kinks.py --out docs/benchmarks

A claim, a row that says converged, is *false* if a probe of ``literature_probes.py`` finds a point within about 1 %
that lowers the objective by more than 3e-4: a step of the linearised problem, 200 random directions, or a local
random search. Some of these points are local minima with a lower one beside them: there the local search gains
nothing within .1 %, less than 3e-5. These are counted by themselves, too. Needs scipy (``pip install pwcf[test]``).
"""

from __future__ import annotations

import argparse
import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from known_optima import heading, percent, table, write_csv
from literature_probes import (
    FEASIBLE,
    GAIN,
    RADIUS,
    ROUNDING,
    Unfolded,
    linearised_gain,
    local_search_gain,
    random_gain,
)
from torch import Tensor
from torch.nn.functional import leaky_relu

import pwcf
from pwcf.testproblems import TestProblem

STEM = "upward_kinks"
TOL = 1e-4
AT_BEST = 1e-3
CLOSER = 0.1
"""Of the radius and of the gain, where local minima are told from other points."""
BOX = (-4.0, 4.0)
SPREAD = 1.5
"""The first start is 0, the entries of the others are at most this far from it."""
PROBES: dict[str, Callable[[TestProblem, Tensor], float]] = {
    "linearised": linearised_gain,
    "random": random_gain,
    "local_search": local_search_gain,
}

Line = dict[str, Any]
Function = Callable[[Tensor], Tensor]


# ---- the families ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Draw:
    """Random numbers of one instance."""

    generator: torch.Generator

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self.generator, dtype=torch.float64)

    def uniform(self, low: float, high: float) -> float:
        return low + (high - low) * float(torch.rand((), generator=self.generator, dtype=torch.float64))


def made(
    n: int, objective: Function, *constraints: pwcf.Constraint, bounds: tuple[float, float] | None = None
) -> TestProblem:
    """A test problem whose optimum nobody knows."""
    start = torch.zeros(n, dtype=torch.float64)
    return TestProblem(STEM, n, objective, constraints, bounds, math.nan, False, "made at random", start, SPREAD)


def chain(x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """(rows, n - 1): x_{i+1} - a_i |x_i| + b_i."""
    return x[:, 1:] - a * x[:, :-1].abs() + b


def nesterov_chain(n: int, draw: Draw) -> TestProblem:
    """w |x_1 - 1| + sum_i |x_{i+1} - a_i |x_i| + b_i|, a_i >= 1, b_i >= .2, w in [.1, .5]: Nesterov's second function
    with random numbers."""
    a, b, w = 1 + draw.normal(n - 1).abs(), 0.2 + draw.normal(n - 1).abs(), draw.uniform(0.1, 0.5)

    def objective(x: Tensor) -> Tensor:
        return w * (x[:, 0] - 1).abs() + chain(x, a, b).abs().sum(-1)

    return made(n, objective, bounds=BOX)


def nested(n: int, draw: Draw) -> Function:
    """(rows, n) -> (rows, n + 1): W x + 1.5 U |V x| - c with random W, U, V and c."""
    W, V, U, c = draw.normal(n + 1, n), draw.normal(n, n), 1.5 * draw.normal(n + 1, n), draw.normal(n + 1)

    def residual(x: Tensor) -> Tensor:
        return x @ W.T + (x @ V.T).abs() @ U.T - c

    return residual


def nested_l1(n: int, draw: Draw) -> TestProblem:
    """|W x + 1.5 U |V x| - c|_1 + .2 |x|_1, n + 1 residuals."""
    residual = nested(n, draw)

    def objective(x: Tensor) -> Tensor:
        return residual(x).abs().sum(-1) + 0.2 * x.abs().sum(-1)

    return made(n, objective, bounds=BOX)


def nested_linf(n: int, draw: Draw) -> TestProblem:
    """|W x + 1.5 U |V x| - c|_inf + .2 |x|_inf, n + 1 residuals."""
    residual = nested(n, draw)

    def objective(x: Tensor) -> Tensor:
        return residual(x).abs().amax(-1) + 0.2 * x.abs().amax(-1)

    return made(n, objective, bounds=BOX)


def abs_of_min(n: int, draw: Draw) -> TestProblem:
    """sum_i |min_k (V_k x + c_k)_i| + .1 |x|_1, k = 1, 2, 3."""
    V, c = draw.normal(3, n, n), draw.normal(3, n)

    def objective(x: Tensor) -> Tensor:
        least = (torch.einsum("kij,bj->bki", V, x) + c).amin(1)
        return least.abs().sum(-1) + 0.1 * x.abs().sum(-1)

    return made(n, objective, bounds=BOX)


def curved_chain(n: int, draw: Draw) -> TestProblem:
    """.3 (x_1 - 1)^2 + sum_i |x_{i+1} - a_i |x_i| + b_i + x_i^2 / 2|, a_i >= 1, b_i >= 0."""
    a, b = 1 + draw.normal(n - 1).abs(), draw.normal(n - 1).abs()

    def objective(x: Tensor) -> Tensor:
        return 0.3 * (x[:, 0] - 1) ** 2 + (chain(x, a, b) + 0.5 * x[:, :-1] ** 2).abs().sum(-1)

    return made(n, objective, bounds=BOX)


def network_l1(n: int, draw: Draw) -> TestProblem:
    """|W_2 leaky_relu(W_1 x + c_1) + c_2|_1, slope .1, 2n hidden units, n + 1 outputs: the input that a network maps
    to a given output."""
    W1, c1, W2, c2 = draw.normal(2 * n, n), 0.5 * draw.normal(2 * n), draw.normal(n + 1, 2 * n), draw.normal(n + 1)

    def objective(x: Tensor) -> Tensor:
        return (leaky_relu(x @ W1.T + c1, 0.1) @ W2.T + c2).abs().sum(-1)

    return made(n, objective, bounds=BOX)


def hat_chain(n: int, draw: Draw) -> TestProblem:
    """.25 |x_1 - 1| + sum_i |x_{i+1} - 2 min(x_i, (1 - x_i) / 2) + .3|: nothing but n and the starts is random."""

    def objective(x: Tensor) -> Tensor:
        hat = torch.minimum(x[:, :-1], 0.5 * (1 - x[:, :-1]))
        return 0.25 * (x[:, 0] - 1).abs() + (x[:, 1:] - 2 * hat + 0.3).abs().sum(-1)

    return made(n, objective, bounds=BOX)


def on_chain(n: int, draw: Draw) -> TestProblem:
    """|x_1 - 1| subject to x_{i+1} = a_i |x_i| - b_i, a_i >= 1, b_i >= 0."""
    a, b = 1 + draw.normal(n - 1).abs(), 0.5 * draw.normal(n - 1).abs()

    def objective(x: Tensor) -> Tensor:
        return (x[:, 0] - 1).abs()

    return made(n, objective, pwcf.eq(lambda x: chain(x, a, b)))


def below_chain(n: int, draw: Draw) -> TestProblem:
    """|x - t|_2^2 subject to x_{i+1} <= a_i |x_i| - b_i, a_i >= 1, b_i >= 0, t random."""
    a, b, t = 1 + draw.normal(n - 1).abs(), 0.5 * draw.normal(n - 1).abs(), 2 * draw.normal(n)

    def objective(x: Tensor) -> Tensor:
        return ((x - t) ** 2).sum(-1)

    return made(n, objective, pwcf.ineq(lambda x: chain(x, a, b)))


def either_or(n: int, draw: Draw) -> TestProblem:
    """|x - t|_1 subject to min(x_{i+1} - a_i x_i, x_i - b_i) <= 0, a_i >= 1, b_i >= 0, t random: of two inequalities
    one must hold."""
    a, b, t = 1 + draw.normal(n - 1).abs(), 0.5 * draw.normal(n - 1).abs(), 2 * draw.normal(n)

    def objective(x: Tensor) -> Tensor:
        return (x - t).abs().sum(-1)

    def either(x: Tensor) -> Tensor:
        return torch.minimum(x[:, 1:] - a * x[:, :-1], x[:, :-1] - b)

    return made(n, objective, pwcf.ineq(either), bounds=BOX)


def outside_l1_ball(n: int, draw: Draw) -> TestProblem:
    """x_1 subject to |x|_1 >= 1 and |x|_inf <= 2: nothing but n and the starts is random."""

    def objective(x: Tensor) -> Tensor:
        return x[:, 0]

    outside = pwcf.ineq(lambda x: 1 - x.abs().sum(-1))
    return made(n, objective, outside, pwcf.ineq(lambda x: x.abs().amax(-1) - 2))


PIECEWISE = (nesterov_chain, nested_l1, nested_linf, abs_of_min, curved_chain, network_l1, hat_chain)
CONSTRAINED = (on_chain, below_chain, either_or, outside_l1_ball)
FAMILIES = {make.__name__: make for make in (*PIECEWISE, *CONSTRAINED)}


def formula(family: str) -> str:
    """What a family minimises, in one line."""
    return " ".join((FAMILIES[family].__doc__ or "").split())


def instance(family: str, seed: int) -> TestProblem:
    """An instance of a family. n is the same for two seeds, so that starts of either kind meet every n."""
    sizes = (2, 3, 4, 5) if FAMILIES[family] in PIECEWISE else (2, 3, 4)
    draw = Draw(torch.Generator().manual_seed(seed))
    return FAMILIES[family](sizes[seed // 2 % len(sizes)], draw)


def starts_of(unfolded: Unfolded, rows: int, seed: int) -> Tensor:
    """(rows, n): 0 and random points around it; with an odd seed rounded to halves."""
    starts = unfolded.starts(rows, 1000 + seed)
    return unfolded.clip((2 * starts).round() / 2) if seed % 2 else starts


# ---- one family -----------------------------------------------------------------------------------


def solve(problem: TestProblem, family: str, rows: int, seed: int) -> tuple[list[Line], float]:
    """The rows of one instance, and the seconds that ``minimize`` took."""
    unfolded = Unfolded.of(problem)
    starts = starts_of(unfolded, rows, seed)
    common: Line = {"family": family, "n": problem.n, "seed": seed}
    began = time.perf_counter()
    try:
        solution = pwcf.minimize(problem.objective, starts, problem.constraints, bounds=problem.bounds, tol=TOL)
    except Exception as error:  # a failure is a result too
        nothing: Line = {"claim": False, "feasible": False, "at_best": False, "evaluations": math.nan}
        status = {"status": f"raised {type(error).__name__}"}
        return [common | {"row": i} | status | nothing for i in range(rows)], time.perf_counter() - began
    seconds = time.perf_counter() - began
    objective, violation = unfolded.objective(solution.x), unfolded.violation(solution.x)
    feasible = violation <= FEASIBLE * ROUNDING
    best = float(torch.where(feasible & objective.isfinite(), objective, torch.inf).min())
    lines: list[Line] = []
    for i, x in enumerate(solution.x):
        line = common | {
            "row": i,
            "status": solution.status[i].value,
            "claim": bool(solution.converged[i]),
            "feasible": bool(feasible[i]),
            "at_best": bool(feasible[i]) and float(objective[i]) - best <= AT_BEST * max(1.0, abs(best)),
            "objective": float(objective[i]),
            "best": best,
            "evaluations": int(solution.evaluations[i]),
            "point": " ".join(f"{entry:.4g}" for entry in x.tolist()),
        }
        if line["claim"]:
            line |= {f"{name}_gain": probe(problem, x) for name, probe in PROBES.items()}
        if is_false(line, *PROBES):
            line["closer_gain"] = local_search_gain(problem, x, within=CLOSER * RADIUS)
        lines.append(line)
    return lines, seconds


def is_false(row: Line, *probes: str) -> bool:
    """Whether one of the probes found that the claim of a row is false."""
    return row["claim"] and any(row[f"{name}_gain"] > GAIN for name in probes)


def is_local_minimum(row: Line) -> bool:
    """Whether a false claim is one only because of a lower minimum beside it."""
    return is_false(row, *PROBES) and row["closer_gain"] <= CLOSER * GAIN


def counted(family: str, instances: int, rows: list[Line], seconds: float) -> Line:
    """The line of a family, or of all."""
    statuses = Counter(row["status"] for row in rows)
    return {
        "family": family,
        "instances": instances,
        "rows": len(rows),
        "claims": sum(row["claim"] for row in rows),
        "false_claims": sum(is_false(row, *PROBES) for row in rows),
        **{f"false_by_{name}": sum(is_false(row, name) for row in rows) for name in PROBES},
        "false_at_local_minima": sum(is_local_minimum(row) for row in rows),
        "infeasible_claims": sum(row["claim"] and not row["feasible"] for row in rows),
        "at_best": sum(row["at_best"] for row in rows),
        "evaluations": sum(row["evaluations"] for row in rows) / len(rows),
        "seconds": seconds,
        "endings": "; ".join(f"{name} {count}" for name, count in sorted(statuses.items())),
    }


def measure(family: str, seeds: range, rows: int) -> tuple[Line, list[Line]]:
    """The line of a family, and one for each row of its instances."""
    lines: list[Line] = []
    seconds = 0.0
    for seed in seeds:
        its_rows, its_seconds = solve(instance(family, seed), family, rows, seed)
        lines += its_rows
        seconds += its_seconds
    return counted(family, len(seeds), lines, seconds), lines


def with_total(lines: list[Line], rows: list[Line]) -> list[Line]:
    """The lines of the families, and that of all of them."""
    instances, seconds = (sum(line[key] for line in lines) for key in ("instances", "seconds"))
    return [*lines, counted("total", instances, rows, seconds)] if lines else []


# ---- the report -----------------------------------------------------------------------------------


def report(lines: list[Line], rows: list[Line], families: list[str], args: argparse.Namespace) -> str:
    text = heading(
        "`pwcf.minimize` at kinks that point upwards", seeds=args.seeds, rows=args.rows, seed=args.seed,
        dtype="float64", tol=TOL, LP="scipy HiGHS",
    )  # fmt: skip
    if len(lines) < len(families):
        text += [f"**Not complete:** {len(lines)} of {len(families)} families.", ""]
    text += [
        "Gradients of the sides of such a kink may cancel where one side leads down. Every family has "
        f"{args.seeds} instances of {args.rows} rows; the starts of those with odd seeds are rounded to halves. Claim: "
        f"the row says converged. False: a point within about 1 % lowers f by more than {GAIN:g} max(1, |f|) and is "
        f"no less feasible (up to {FEASIBLE:g}); found by a step of the linearised problem, by 200 random directions, "
        "by a local random search, or, in the column *false claims*, by one of them. False at local minima: those of "
        f"them where a local search within .1 % gains at most {CLOSER * GAIN:g}, a lower minimum being beside the "
        f"point. Infeasible: with a total violation above {FEASIBLE:g}. At best: feasible, and f within {AT_BEST:g} "
        "max(1, |f|) of the least f of all feasible rows of the instance; other rows may be at local minima. "
        "Evaluations: mean of a row. Seconds: of `minimize`, without the probes.",
        "",
    ]
    shown = [line | {"at_best": percent(line["at_best"], line["rows"])} for line in with_total(lines, rows)]
    text += [*table(shown), "", "## False claims", ""]
    keys = (
        "family",
        "n",
        "seed",
        "row",
        "objective",
        "best",
        *(f"{name}_gain" for name in PROBES),
        "closer_gain",
        "point",
    )
    false = [{key: row[key] for key in keys} for row in rows if is_false(row, *PROBES)]
    text += [*(table(false) if false else ["None."]), "", "## Families", ""]
    text += [f"- `{family}`: {formula(family)}" for family in families]
    text += [
        "",
        f"Those without a constraint, and `either_or`, have bounds {BOX[0]:g} and {BOX[1]:g}. |x| of a vector is "
        "taken entry by entry; capital letters are matrices. Random numbers are normal, in absolute value where a "
        "sign is asked for; w is uniform.",
    ]
    return "\n".join(text) + "\n"


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--families", default=None, help="names with commas between them; default: all")
    parser.add_argument("--seeds", type=int, default=12, help="instances of every family")
    parser.add_argument("--rows", type=int, default=17, help="starts of every instance")
    parser.add_argument("--seed", type=int, default=0, help="of the first instance; the next has the next number")
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks"))
    args = parser.parse_args(argv)
    if min(args.seeds, args.rows) < 1:
        parser.error("--seeds and --rows must be at least 1")
    families = args.families.split(",") if args.families else list(FAMILIES)
    unknown = sorted(set(families) - set(FAMILIES))
    if unknown:
        parser.error(f"--families: no family named {', '.join(unknown)}; there are {', '.join(FAMILIES)}")
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    lines: list[Line] = []
    rows: list[Line] = []
    text = ""
    for family in families:
        line, its_rows = measure(family, range(args.seed, args.seed + args.seeds), args.rows)
        lines.append(line)
        rows += its_rows
        print(
            f"{family}: {line['claims']} of {line['rows']} claimed, {line['false_claims']} false, "
            f"{line['at_best']} at best, {line['seconds']:.1f} s, {line['endings']}",
            flush=True,
        )
        write_csv(args.out / f"{STEM}.csv", with_total(lines, rows))
        text = report(lines, rows, families, args)
        (args.out / f"{STEM}.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
