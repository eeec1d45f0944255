"""PyGRANSO's published examples with ``pwcf.minimize`` and with PyGRANSO 1.2.0, side by side in one run.

The problems are those of ``examples/solver``: both solvers get the same functions, data and starts, in float64.
``pwcf.minimize`` runs with its defaults, PyGRANSO with the options of its published example, except that it never has
fewer than the 1000 iterations that ours has; both accept a violation of 1e-6 (the RNN 1e-4, as published). Objective
and violation are computed here, from the points returned.
The regularisation path of logistic regression is 16 problems: one batch here, one after the other with PyGRANSO.

Published example, and what is different here:

- eigenvalue optimisation: random matrices in place of a file of them;
- dictionary learning: a Bernoulli share of 0.3, as in the paper;
- feasibility: also with the second inequality as stated, y <= exp(-x) - 3, where its code has + 3;
- trace and robust PCA: also with larger matrices;
- logistic regression: random data in place of Iris;
- orthogonal RNN: 100 images of Fashion-MNIST at 14 x 14 and 16 hidden units, in place of MNIST at 28 x 28 and 30.

PyGRANSO needs an environment of its own; see ``solver_vs_pygranso.py``, then::

    python benchmarks/pygranso_examples.py --out docs/benchmarks
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import importlib
import io
import platform
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from peers import pygranso_runner as granso
from torch import Tensor, nn

import pwcf
from pwcf.solvers.constraints import Constraint

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "solver"))

STEM = "pygranso_examples"
EQUAL = 1e-4
"""Two objectives are equal if they differ by at most this, relative to the larger magnitude."""

Problem = tuple[Callable[..., Tensor], Any, list[Constraint]]
"""Objective, start and constraints, as ``pwcf.minimize`` takes them."""


@dataclass(frozen=True)
class Example:
    """One example; ``options`` are those its PyGRANSO version sets, ``published`` the value printed there."""

    title: str
    module: str
    sizes: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    ours: dict[str, Any] = field(default_factory=dict)
    """Settings of ``pwcf.minimize`` other than its defaults; the title tells them."""
    published: float | None = None
    feasibility: float = 1e-6

    def of_pygranso(self) -> Example:
        """What PyGRANSO's answer depends on."""
        return replace(self, title="", ours={}, published=None)

    def problem(self) -> Problem:
        return importlib.import_module(self.module).problem(**self.sizes)


EXAMPLES = [
    Example("Rosenbrock", "rosenbrock", published=0.08578643763),
    Example("eigenvalue optimisation", "eigenvalues"),
    Example("dictionary learning", "dictionary"),
    Example("feasibility, as coded there", "feasibility", sizes={"offset": -3.0}, published=0.0),
    Example("feasibility, as stated there", "feasibility"),
    Example("sphere", "sphere", options={"mu0": 0.1, "opt_tol": 1e-6}, published=-24.2859220401),
    Example("trace, d = 1", "trace", options={"maxit": 3000}, published=-3.0432483064),
    Example("trace, n = 20, d = 3", "trace", sizes={"n": 20, "d": 3}, options={"maxit": 3000}),
    Example("robust PCA", "robust_pca", options={"opt_tol": 1e-6}, published=0.33375284367),
    Example(
        "robust PCA, 8 x 10", "robust_pca", sizes={"rows": 8, "columns": 10, "eta": 0.35}, options={"opt_tol": 1e-6}
    ),
    Example("generalised LASSO", "generalized_lasso", published=5.07795525617),
    Example("logistic regression, 16 C", "logistic_regression", options={"opt_tol": 1e-6}),
    Example("orthogonal RNN", "orthogonal_rnn", options={"opt_tol": 1e-3}, feasibility=1e-4),
    Example(
        "orthogonal RNN, full BFGS",
        "orthogonal_rnn",
        options={"opt_tol": 1e-3},
        ours={"hessian": "bfgs"},
        feasibility=1e-4,
    ),
]


@dataclass(frozen=True)
class Outcome:
    """One solver on all problems of one example; NaN where it failed."""

    objective: Tensor
    """(problems,)"""
    violation: Tensor
    """(problems,)"""
    seconds: float
    """Processor time of this process: less disturbed by other load than wall time."""
    evaluations: int
    endings: dict[str, int]


# ---- one problem, whatever its variables are --------------------------------------------------------


def singles(problem: Problem) -> list[Problem]:
    """The rows of a batch as problems of their own; other problems are single already."""
    objective, start, constraints = problem
    if not isinstance(start, Tensor) or start.dim() == 1:
        return [problem]
    rows = torch.arange(len(start)).split(1)

    def one(row: Tensor) -> Problem:
        return (lambda x: objective(x[None], row).squeeze(0)), start[int(row)], constraints

    return [one(row) for row in rows]


def to_vector(start: Any) -> Tensor:
    if isinstance(start, nn.Module):
        return nn.utils.parameters_to_vector(start.parameters()).detach().clone()
    return torch.cat([part.flatten() for part in start.values()]) if isinstance(start, dict) else start.clone()


def from_vector(vector: Tensor, start: Any) -> Any:
    if isinstance(start, nn.Module):
        model = copy.deepcopy(start)
        nn.utils.vector_to_parameters(vector, model.parameters())
        return model
    if isinstance(start, dict):
        parts = vector.split([part.numel() for part in start.values()])
        return {name: part.reshape(start[name].shape) for name, part in zip(start, parts, strict=True)}
    return vector


def evaluate(problem: Problem, x: Any) -> tuple[Tensor, list[Tensor]]:
    """The objective and the values of every constraint, folded where the constraint is."""
    objective, _, constraints = problem
    result = objective(x)
    value, *beside = result if isinstance(result, tuple) else (result,)
    columns = []
    for constraint in constraints:
        values = beside.pop(0) if constraint.function is None else constraint.function(x)
        if constraint.fold is not None:
            values = values if constraint.sense == "eq" else values.clamp(min=0)
            values = torch.linalg.vector_norm(values, constraint.fold)
        columns.append(values)
    return value, columns


def measured(problem: Problem, x: Any) -> tuple[float, float]:
    """The objective and the largest violation at a point."""
    with torch.no_grad():
        value, columns = evaluate(problem, x)
    sizes = [
        float((values.abs() if constraint.sense == "eq" else values.clamp(min=0)).max())
        for constraint, values in zip(problem[2], columns, strict=True)
    ]
    return float(value), max(sizes, default=0.0)


# ---- the two solvers --------------------------------------------------------------------------------


def solve_ours(example: Example) -> Outcome:
    objective, start, constraints = problem = example.problem()
    began = time.process_time()
    solution = pwcf.minimize(objective, start, constraints, feasibility=example.feasibility, **example.ours)
    seconds = time.process_time() - began
    rows = singles(problem)
    several = len(rows) > 1
    points = list(solution.x) if several else [from_vector(to_vector(solution.x), start)]
    results = [measured(row, x) for row, x in zip(rows, points, strict=True)]
    statuses = solution.status if several else [solution.status]
    return Outcome(
        *torch.tensor(results, dtype=torch.float64).T,
        seconds,
        int(solution.evaluations.sum()),
        dict(Counter(status.value for status in statuses)),
    )


def solve_pygranso(example: Example, limit: float) -> Outcome:
    results, seconds, evaluations, endings = [], 0.0, 0, Counter[str]()
    for problem in singles(example.problem()):
        began = time.process_time()
        solution = run_pygranso(problem, example, limit)
        seconds += time.process_time() - began
        if solution is None:
            results.append((torch.nan, torch.nan))
            endings["raised"] += 1
            continue
        # Its best point is the one of least objective among those feasible to tolerance.
        point = next(getattr(solution, name) for name in ("best", "most_feasible", "final") if hasattr(solution, name))
        results.append(measured(problem, from_vector(point.x.detach().reshape(-1), problem[1])))
        evaluations += int(solution.fn_evals)
        endings[granso.TERMINATION[int(solution.termination_code)]] += 1
    return Outcome(*torch.tensor(results, dtype=torch.float64).T, seconds, evaluations, dict(endings))


def run_pygranso(problem: Problem, example: Example, limit: float) -> Any:
    """PyGRANSO's answer to one problem, None if it raised an error."""
    pygranso, struct = granso.load()
    _, start, constraints = problem
    options = struct()
    options.x0 = to_vector(start).reshape(-1, 1)
    options.viol_ineq_tol = options.viol_eq_tol = example.feasibility
    options.maxclocktime = limit
    options.torch_device = torch.device("cpu")
    options.print_level = 0
    options.quadprog_info_msg = options.prescaling_info_msg = False
    for name, value in example.options.items():
        setattr(options, name, value)

    named = start if isinstance(start, dict) else {"x": start}
    spec = start if isinstance(start, nn.Module) else {name: list(part.shape) or [1] for name, part in named.items()}

    def combined(given: Any) -> list[Any]:
        x = given
        if isinstance(start, dict):
            x = {name: getattr(given, name).reshape(part.shape) for name, part in start.items()}
        elif isinstance(start, Tensor):
            x = given.x
        groups: dict[str, Any] = {"ineq": None, "eq": None}
        value, columns = evaluate(problem, x)
        for constraint, values in zip(constraints, columns, strict=True):
            group = groups[constraint.sense] = groups[constraint.sense] or struct()
            setattr(group, f"c{len(vars(group)) + 1}", values)
        return [value, groups["ineq"], groups["eq"]]

    printed = io.StringIO()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(printed):
            warnings.simplefilter("ignore")
            return pygranso(var_spec=spec, combined_fn=combined, user_opts=options)
    except (Exception, SystemExit) as error:  # SystemExit: PyGRANSO's way to report set-up errors
        last = [line for line in printed.getvalue().splitlines() if line.strip()][-1:]
        print(f"  PyGRANSO raised {type(error).__name__}: {error} {last}", flush=True)
        return None


# ---- the page ---------------------------------------------------------------------------------------


def verdict(ours: Outcome, peer: Outcome, feasibility: float) -> str:
    """How many problems ours is better on, equal or worse; a point that is not feasible loses."""

    def values(outcome: Outcome) -> Tensor:
        good = outcome.violation <= feasibility * (1 + 1e-6)
        return torch.where(good, outcome.objective, torch.inf)

    a, b = values(ours), values(peer)
    room = EQUAL * torch.maximum(ours.objective.abs(), peer.objective.abs()).nan_to_num()
    better, worse = a < b - room, a > b + room
    counts = {"better": better.sum(), "equal": (~better & ~worse).sum(), "worse": worse.sum()}
    words = {word: int(count) for word, count in counts.items() if count}
    return next(iter(words)) if len(a) == 1 else ", ".join(f"{count} {word}" for word, count in words.items())


def page(rows: list[tuple[Example, Outcome, Outcome]], args: argparse.Namespace) -> str:
    versions = {"pygranso": granso.version(), "osqp": metadata.version("osqp"), "torch": torch.__version__}
    settings = versions | {"python": platform.python_version(), "threads": args.threads}
    settings |= {"PyGRANSO's cap in s": args.seconds}
    lines = [
        "# PyGRANSO's published examples",
        "",
        "Both solvers on the problems of `examples/solver`, in one run and one process, with the same functions, data",
        "and starts (`benchmarks/pygranso_examples.py`, which tells what differs from the published examples).",
        "`pwcf.minimize` has its defaults where the title says nothing else, PyGRANSO the options of its example and",
        "at least 1000 iterations, as ours. Where an example is several problems, objective and evaluations are sums.",
        f"Violation: of the worst constraint. Equal: within {EQUAL:g} relative; a point that is not feasible loses.",
        "Published: the value printed in PyGRANSO's example, where its data are the same.",
        "",
        "Settings: " + ", ".join(f"{name} {value}" for name, value in settings.items()) + ".",
        "",
        "| example | solver | objective | violation | processor s | evaluations | ending | pwcf is | published |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for example, ours, peer in rows:
        for solver, outcome in (("pwcf", ours), ("PyGRANSO", peer)):
            several = len(outcome.objective) > 1
            endings = ", ".join(
                f"{count} {name}" if several else name for name, count in sorted(outcome.endings.items())
            )
            first = solver == "pwcf"
            cells = [
                example.title if first else "",
                solver,
                f"{float(outcome.objective.sum()):.8g}",
                f"{float(outcome.violation.max()):.1e}",
                f"{outcome.seconds:.2f}",
                str(outcome.evaluations),
                endings,
                verdict(ours, peer, example.feasibility) if first else "",
                f"{example.published:.8g}" if first and example.published is not None else "",
            ]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--only", nargs="+", default=None, help="modules of examples/solver; default all")
    parser.add_argument("--threads", type=int, default=1, help="torch threads, the same for both")
    parser.add_argument("--seconds", type=float, default=300.0, help="PyGRANSO's cap per problem")
    parser.add_argument("--out", type=Path, default=None, help=f"folder for {STEM}.md; default: print only")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    solve_ours(EXAMPLES[0])  # imports and first calls stay outside the clock
    solve_pygranso(EXAMPLES[0], args.seconds)
    rows: list[tuple[Example, Outcome, Outcome]] = []
    for example in EXAMPLES:
        if args.only is None or example.module in args.only:
            ours = solve_ours(example)
            print(f"{example.title}: pwcf {ours}", flush=True)
            # PyGRANSO's answer does not depend on our settings.
            known = [row[2] for row in rows if row[0].of_pygranso() == example.of_pygranso()]
            peer = known[0] if known else solve_pygranso(example, args.seconds)
            print(f"{example.title}: PyGRANSO {peer}", flush=True)
            rows.append((example, ours, peer))
    text = page(rows, args)
    print(text)
    if args.out is not None:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / f"{STEM}.md").write_text(text)


if __name__ == "__main__":
    main()
