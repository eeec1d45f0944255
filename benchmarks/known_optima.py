"""``pwcf.minimize`` with default settings on the first 62 problems of ``pwcf.testproblems``, whose optima are known.

The problems are the ones of ``KNOWN``; ``benchmarks/literature.py`` runs all others.

Each problem is solved from random starts, all in one batch, in float64. Objective and violation are computed
here, from the points returned. A row *reaches* the optimum if (f - f*) / max(1, |f*|) is at most 1e-4 and its
total violation (folded constraints folded) at most 1e-6. On a problem that is not convex a single start may
end in another local minimum, so groups of 10 consecutive starts are judged by their best feasible row
as well. A *false claim* is a row of a convex problem that says converged with a relative error above 1e-2,
or with a violation above 1e-6::

    python benchmarks/known_optima.py --out docs/benchmarks

The table is written after every problem; ``--resume`` keeps the lines of an earlier run with the same rows
and seed.
"""

from __future__ import annotations

import argparse
import csv
import os
import platform
import shlex
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import pwcf
from pwcf.solvers import Constraint
from pwcf.solvers.folding import fold, violations

STEM = "known_optima"
REACHED, FEASIBLE, FALSE = 1e-4, 1e-6, 1e-2
ROUNDING = 1 + 1e-6
"""Room for the rounding of a batched against a single evaluation."""
GROUP = 10
TOL = 1e-4
SHARE = 0.95
# Names, not all of the package: the table stays comparable when problems are added.
_NAMES = """
maxq mxhilb chained_lq chained_cb3_i chained_cb3_ii active_faces brown_2 chained_mifflin_2 chained_crescent_i
chained_crescent_ii cb2 wolfe rosen_suzuki granso_rosenbrock maxq_l1_ball mxhilb_corner chained_lq_folded
chained_lq_equal chained_cb3_i_pairs chained_cb3_ii_pairs active_faces_l1_sphere chained_crescent_ii_corner mad1
mad2 mad4 projection_l1_ball projection_lp_ball projection_linf_ball projection_simplex projection_polyhedron
linear_lp_ball linear_l1_ball linear_linf_ball classifier_linf classifier_l1 classifier_l2 classifier_linf_slack hs6
hs7 hs10 hs12 hs21 hs26 hs28 hs35 hs39 hs40 hs42 hs43 hs48 hs51 hs71 hs76 hs100 hs113 max_eigenvalue spectral_norm
lasso_box least_absolute_deviations max_affine linf_regression linf_regression_slack
"""
KNOWN = tuple(_NAMES.split())


# ---- for all benchmarks of this folder ------------------------------------------------------------


def command() -> str:
    """The command that was given, with only the last part of absolute paths."""
    words = [Path(sys.argv[0]).name, *sys.argv[1:]]
    words = [Path(word).name if os.path.isabs(word) else word for word in words]
    return "python benchmarks/" + shlex.join(words)


def heading(title: str, **settings: Any) -> list[str]:
    """The first lines of a report: the command, then the settings."""
    settings = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "pwcf": pwcf.__version__,
        **settings,
    }
    line = "Settings: " + ", ".join(f"{key} {value}" for key, value in settings.items()) + "."
    return [f"    {command()}", "", f"# {title}", "", line, ""]


def cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def table(lines: Sequence[dict[str, Any]]) -> list[str]:
    """A Markdown table of dictionaries with the same keys."""
    if not lines:
        return ["(nothing yet)"]
    header = [key.replace("_", " ") for key in lines[0]]
    body = [[cell(value) for value in line.values()] for line in lines]
    return ["| " + " | ".join(line) + " |" for line in [header, ["---"] * len(header), *body]]


def write_csv(path: Path, lines: Sequence[dict[str, Any]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(lines[0]) if lines else [])
        writer.writeheader()
        writer.writerows(lines)


def percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "-"


def endings(solution: pwcf.Solution) -> str:
    counts = Counter(status.value for status in solution.status)
    return "; ".join(f"{name} {count}" for name, count in sorted(counts.items()))


def total_violation(constraints: Sequence[Constraint], x: Tensor, *rows: Tensor) -> Tensor:
    """(b,) sum of max(c, 0) and |h| over all columns, a folded constraint counting as its fold."""
    total = x.new_zeros(x.shape[0])
    for constraint in constraints:
        assert constraint.function is not None
        values = constraint.function(x, *rows).reshape(x.shape[0], -1)
        if constraint.fold is None:
            total = total + violations(values, constraint.sense).sum(-1)
        else:
            total = total + fold(values, constraint.sense, constraint.fold)
    return total


# ---- this one -------------------------------------------------------------------------------------


def columns(problem: pwcf.testproblems.TestProblem, x: Tensor) -> str:
    """The number of constraint columns of each constraint, with a mark where it is folded."""
    parts = []
    for constraint in problem.constraints:
        assert constraint.function is not None
        values = constraint.function(x[:1]).reshape(1, -1)
        k, folded = values.shape[1], "" if constraint.fold is None else " folded"
        parts.append(f"{k}{' eq' if constraint.sense == 'eq' else ''}{folded}")
    return " + ".join(parts + (["bounds"] if problem.bounds is not None else [])) or "0"


def measure(problem: pwcf.testproblems.TestProblem, args: argparse.Namespace) -> dict[str, Any]:
    starts = problem.starts(args.rows, seed=args.seed)
    line: dict[str, Any] = {
        "problem": problem.name,
        "n": problem.n,
        "convex": problem.convex,
        "constraints": columns(problem, starts),
        "rows": args.rows,
        "seed": args.seed,
        "rows_reached": 0,
        "groups": "",
        "groups_reached": "",
        "claims": 0,
        "worst_error_of_claims": float("nan"),
        "false_claims": 0,
        "lowest_error": float("nan"),
        "median_error": float("nan"),
        "evaluations": float("nan"),
        "seconds": float("nan"),
        "endings": "",
    }
    began = time.perf_counter()
    try:
        solution = pwcf.minimize(problem.objective, starts, problem.constraints, bounds=problem.bounds, tol=TOL)
    except Exception as error:  # a failure is a result too
        return line | {"endings": f"raised {type(error).__name__}", "seconds": time.perf_counter() - began}
    line["seconds"] = time.perf_counter() - began
    x = solution.x
    with torch.no_grad():
        error = (problem.objective(x) - problem.optimum) / max(1.0, abs(problem.optimum))
        violation = total_violation(problem.constraints, x)
    if problem.bounds is not None:
        low, high = (torch.as_tensor(side, dtype=x.dtype) for side in problem.bounds)
        violation = violation + ((low - x).clamp(min=0) + (x - high).clamp(min=0)).sum(-1)
    feasible = violation <= FEASIBLE * ROUNDING
    reached = feasible & (error <= REACHED)
    claims = solution.converged
    line |= {
        "rows_reached": int(reached.sum()),
        "claims": int(claims.sum()),
        "evaluations": float(solution.evaluations.double().mean()),
        "endings": endings(solution),
    }
    if bool(claims.any()):
        line["worst_error_of_claims"] = float(error[claims].max())
    if bool(feasible.any()):
        line["lowest_error"] = float(error[feasible].min())
        line["median_error"] = float(error[feasible].median())
    if problem.convex:
        # not <=, so that NaN counts as false
        line["false_claims"] = int((claims & ~(feasible & (error <= FALSE))).sum())
    else:
        # rows beyond the last full group belong to none; fewer than 10 rows are one group
        groups = max(args.rows // GROUP, 1)
        members = reached[: groups * GROUP].reshape(groups, -1)
        line |= {"groups": groups, "groups_reached": int(members.any(1).sum())}
    return line


def stored(path: Path, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Lines of an earlier run with the same rows and seed."""
    if not path.exists():
        return []
    kinds: dict[str, Any] = {"convex": lambda text: text == "True"}
    kinds |= dict.fromkeys(("n", "rows", "seed", "rows_reached", "claims", "false_claims"), int)
    numbers = ("worst_error_of_claims", "lowest_error", "median_error", "evaluations", "seconds")
    kinds |= dict.fromkeys(numbers, float)
    kinds |= dict.fromkeys(("groups", "groups_reached"), lambda text: int(text) if text else "")
    with path.open(newline="") as file:
        lines = [{key: kinds.get(key, str)(text) for key, text in line.items()} for line in csv.DictReader(file)]
    return [line for line in lines if (line["rows"], line["seed"]) == (args.rows, args.seed)]


def summary(lines: list[dict[str, Any]]) -> list[str]:
    convex = [line for line in lines if line["convex"]]
    other = [line for line in lines if not line["convex"]]
    good = [line for line in convex if line["rows_reached"] >= SHARE * line["rows"]]
    full = [line for line in other if line["groups_reached"] == line["groups"]]
    missed = [line["problem"] for line in convex if line not in good]
    missed += [line["problem"] for line in other if line not in full]
    false = sum(line["false_claims"] for line in convex)
    return [
        f"- Convex problems where at least {100 * SHARE:.0f} % of the rows reach the optimum: "
        f"{len(good)} of {len(convex)}.",
        f"- Problems not convex where every group of {GROUP} starts reaches it: {len(full)} of {len(other)}.",
        f"- False claims on convex problems: {false} of {sum(line['claims'] for line in convex)} claims "
        f"({sum(line['rows'] for line in convex)} rows).",
        f"- Not among the first two: {', '.join(missed) or 'none'}.",
        f"- Time of all problems: {sum(line['seconds'] for line in lines):.0f} s.",
    ]


def report(lines: list[dict[str, Any]], kept: int, wanted: int, args: argparse.Namespace) -> str:
    text = heading(
        "`pwcf.minimize` on problems with known optima",
        rows=args.rows,
        seed=args.seed,
        dtype="float64",
        tol=TOL,
    )
    if kept:
        text += [f"**Not one run:** {kept} of the lines below were kept from an earlier run.", ""]
    if len(lines) < wanted:
        text += [f"**Not complete:** {len(lines)} of {wanted} problems.", ""]
    text += [
        f"A row reaches the optimum if (f - f*) / max(1, |f*|) <= {REACHED:g} and its violation is at most "
        f"{FEASIBLE:g}. Errors are relative in this sense; a claim is a row that says converged, and a false "
        f"one (counted on convex problems) has an error above {FALSE:g} or a violation above {FEASIBLE:g}. "
        "Lowest and median error: over feasible rows.",
        "",
        *summary(lines),
        "",
    ]
    shown = []
    for line in lines:
        groups = f"{line['groups_reached']} of {line['groups']}" if line["groups"] else ""
        shown.append(
            {key: line[key] for key in ("problem", "n", "convex", "constraints")}
            | {"reached": percent(line["rows_reached"], line["rows"]), "groups reached": groups}
            | {key: line[key] for key in list(line) if key not in _ELSEWHERE}
        )
    return "\n".join([*text, *table(shown)]) + "\n"


_ELSEWHERE = (
    "problem", "n", "convex", "constraints", "rows", "seed", "rows_reached", "groups", "groups_reached"
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=100, help="random starts per problem")
    parser.add_argument("--only", nargs="+", choices=KNOWN, metavar="NAME", default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1, help="torch threads")
    parser.add_argument("--resume", action="store_true", help="keep lines of the same settings in the CSV")
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks"))
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / f"{STEM}.csv"
    problems = [pwcf.testproblems.get(name) for name in KNOWN if args.only is None or name in args.only]
    lines = stored(path, args) if args.resume else []
    kept = {line["problem"] for line in lines}
    wanted = len({problem.name for problem in problems} | kept)
    text = report(lines, len(kept), wanted, args)
    for problem in problems:
        if problem.name in kept:
            continue
        line = measure(problem, args)
        lines.append(line)
        print(
            f"{line['problem']}: {line['rows_reached']} of {line['rows']} rows, {line['false_claims']} false,"
            f" {line['seconds']:.1f} s, {line['endings']}",
            flush=True,
        )
        write_csv(path, lines)
        text = report(lines, len(kept), wanted, args)
        (args.out / f"{STEM}.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
