"""``pwcf.minimize`` against PyGRANSO 1.2.0: 5 problem families, 100 instances each, n from 2 to 3000.

Both solvers run in this one process, with the same torch threads, the same starts, the same torch functions
(see ``solver_families.py``), the same tolerance and the same iteration limit, in float64. PyGRANSO solves
one instance after the other, as it is made to; ``pwcf.minimize`` gets all instances of a family as one batch.

Full BFGS is used by PyGRANSO up to n = 1000 and limited memory (20 pairs) above: in a trial on two instances
with n = 784, limited memory took more than twice the time and stopped at the iteration limit, while full
BFGS converged, so the option is chosen in its favour (``--full-bfgs-up-to``). It gets
a wall-clock cap per instance; how many instances hit it is reported. Its point is the best one it found that
is feasible to tolerance. Objective and violation of both sides are computed here, from the points returned.

The peers need an environment of their own, because PyGRANSO is AGPL-3 (measured, not used) and its declared
dependencies would replace torch::

    python -m venv .venv-peers
    . .venv-peers/bin/activate
    pip install torch==2.13.0 numpy scipy matplotlib osqp
    pip install --no-deps pygranso==1.2.0
    pip install -e .
    python benchmarks/solver_vs_pygranso.py --out docs/benchmarks

Two imports that PyGRANSO needs and current packages lack (``Inf`` in NumPy 2, ``gurobipy``) are supplied at
run time by ``peers/pygranso_runner.py``. ``--only-peer`` runs PyGRANSO alone. ``--reuse-peer FILE`` reads
its results from an earlier ``solver_vs_pygranso_peer.jsonl``: for debugging, and marked as such in the table.
"""

from __future__ import annotations

import argparse
import csv
import json
import platform
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, TextIO

import torch
from peers import pygranso_runner as granso
from solver_families import FAMILIES, Family
from torch import Tensor

STEM = "solver_vs_pygranso"
EQUAL = 1e-4
"""Two objectives are equal if they differ by at most this, relative to the larger magnitude."""


@dataclass(frozen=True)
class Outcome:
    """One solver on all instances of one family; NaN where an instance failed."""

    solver: str
    objective: Tensor
    violation: Tensor
    seconds: float
    cpu_seconds: float
    """Processor time of this process: less disturbed by other load than wall time."""
    iterations: Tensor
    evaluations: Tensor
    endings: dict[str, int]
    capped: int = 0
    failed: int = 0
    each: list[float] = field(default_factory=list)
    """Wall seconds of each instance, where instances are run one by one."""


def solve_ours(family: Family, args: argparse.Namespace, test: str = "bundle") -> Outcome:
    """The one place that calls ``pwcf.minimize``: all instances of a family in one batch.

    The comparison uses the default stopping test, which goes on until it can honestly claim or finds nothing
    more. The published test, which is PyGRANSO's, is timed beside it.
    """
    import pwcf

    limits: dict[str, Any] = {"max_iterations": args.max_iterations, "test": test}
    limits["feasibility"] = args.violation_tol
    if args.budget is not None:
        limits["budget"] = args.budget
    constraints = [pwcf.ineq(constraint) for constraint in family.constraints]
    began, began_cpu = time.perf_counter(), time.process_time()
    sol = pwcf.minimize(family.objective, family.starts.clone(), constraints=constraints, tol=args.tol, **limits)
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - began_cpu
    x = sol.x.detach()
    return Outcome(
        solver="pwcf",
        objective=family.value(x),
        violation=family.violation(x),
        seconds=seconds,
        cpu_seconds=cpu_seconds,
        iterations=torch.as_tensor(sol.iterations).double().expand(family.instances),
        evaluations=torch.as_tensor(sol.evaluations).double().expand(family.instances),
        endings=dict(Counter(getattr(status, "name", str(status)).lower() for status in sol.status)),
        failed=int((~torch.isfinite(x).all(1)).sum()),
    )


def peer_config(family: Family, args: argparse.Namespace) -> granso.GransoConfig:
    return granso.GransoConfig(
        tol=args.tol,
        violation_tol=args.violation_tol,
        max_iterations=args.max_iterations,
        seconds=args.peer_seconds,
        memory=0 if family.n <= args.full_bfgs_up_to else args.memory,
        evaldist=args.evaldist,
    )


def solve_peer(family: Family, args: argparse.Namespace, log: TextIO) -> Outcome:
    """PyGRANSO on one instance after the other; every result is appended to ``log`` as it comes."""
    config = peer_config(family, args)
    records: list[dict[str, Any]] = []
    for row in range(family.instances):
        objective, constraints = family.single(row)
        result = granso.run(objective, constraints, family.starts[row], config)
        value = violation = float("nan")
        if result.x is not None:
            with torch.no_grad():
                value = float(objective(result.x))
                values = torch.stack([constraint(result.x) for constraint in constraints])
                violation = float(values.amax().clamp_min(0))  # NaN stays NaN
        record = {key: entry for key, entry in asdict(result).items() if key != "x"}
        record |= {"family": family.name, "row": row, "objective": value, "violation": violation}
        records.append(record)
        log.write(json.dumps(record) + "\n")
        log.flush()
        if (row + 1) % args.progress == 0 or row + 1 == family.instances:
            spent = sum(entry["seconds"] for entry in records)
            print(f"  pygranso {family.name} {row + 1}/{family.instances}: {spent:.1f} s so far", flush=True)
    return peer_outcome(records)


def peer_outcome(records: list[dict[str, Any]]) -> Outcome:
    def column(key: str) -> Tensor:
        return torch.tensor([record[key] for record in records], dtype=torch.float64)

    endings = Counter(granso.TERMINATION.get(record["code"], "raised") for record in records)
    return Outcome(
        solver="pygranso",
        objective=column("objective"),
        violation=column("violation"),
        seconds=float(column("seconds").sum()),
        cpu_seconds=float(column("cpu_seconds").sum()),
        iterations=column("iterations"),
        evaluations=column("evaluations"),
        endings=dict(endings),
        capped=sum(record["code"] == 5 for record in records),
        failed=sum(record["code"] is None or record["code"] >= 11 for record in records),
        each=[record["seconds"] for record in records],
    )


def settings(args: argparse.Namespace) -> dict[str, Any]:
    """What a stored peer result depends on; written as the first line of its file."""
    names = ("instances", "seed", "tol", "violation_tol", "max_iterations", "peer_seconds")
    chosen = {name: getattr(args, name) for name in (*names, "memory", "full_bfgs_up_to", "evaldist", "threads")}
    return chosen | {"pygranso": granso.version(), "torch": torch.__version__}


def read_peer(path: Path, args: argparse.Namespace) -> dict[str, Outcome]:
    header, *lines = path.read_text().splitlines()
    if json.loads(header) != settings(args):
        raise SystemExit(f"{path} was made with {header}, this run has {json.dumps(settings(args))}")
    groups: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        record = json.loads(line)
        groups.setdefault(record["family"], []).append(record)
    return {name: peer_outcome(records) for name, records in groups.items() if len(records) == args.instances}


def feasible(outcome: Outcome, accept: float) -> Tensor:
    """(instances,) bool; the factor allows for the rounding of a batched against a single evaluation."""
    return (outcome.violation <= accept * (1 + 1e-6)) & torch.isfinite(outcome.objective)


def relative(ours: Outcome, peer: Outcome) -> Tensor:
    """(instances,) (ours - theirs) / the larger magnitude: negative where ours is better."""
    scale = torch.maximum(ours.objective.abs(), peer.objective.abs()).clamp_min(1e-300)
    return (ours.objective - peer.objective) / scale


def describe(family: Family, outcome: Outcome, accept: list[float]) -> dict[str, Any]:
    """The columns of one solver; objectives over its points feasible at the loosest level."""
    good = feasible(outcome, max(accept))
    values = outcome.objective[good]
    finite = outcome.violation[torch.isfinite(outcome.violation)]
    nan = float("nan")
    row: dict[str, Any] = {
        "mean_objective": float(values.mean()) if len(values) else nan,
        "median_objective": float(values.median()) if len(values) else nan,
        "median_gap": nan,
        "max_violation": float(finite.max()) if len(finite) else nan,
        "seconds": outcome.seconds,
        "cpu_seconds": outcome.cpu_seconds,
        "median_iterations": float(outcome.iterations.median()),
        "median_evaluations": float(outcome.evaluations.median()),
        "capped": outcome.capped,
        "failed": outcome.failed,
        "endings": "; ".join(f"{name} {count}" for name, count in sorted(outcome.endings.items())),
    }
    if family.optimum is not None and len(values):
        best = family.optimum[good]
        row["median_gap"] = float(((values - best) / best.abs().clamp_min(1e-300)).median())
    for level in accept:
        row[f"feasible_{level:g}"] = int(feasible(outcome, level).sum())
    return row


def compare(ours: Outcome, peer: Outcome, accept: list[float]) -> dict[str, Any]:
    """Counts at each feasibility level; only instances where both points are feasible are compared."""
    row: dict[str, Any] = {"speed_ratio": peer.cpu_seconds / ours.cpu_seconds}
    for level in accept:
        mine, theirs = feasible(ours, level), feasible(peer, level)
        both, difference = mine & theirs, relative(ours, peer)
        row |= {
            f"better_{level:g}": int((both & (difference < -EQUAL)).sum()),
            f"equal_{level:g}": int((both & (difference.abs() <= EQUAL)).sum()),
            f"worse_{level:g}": int((both & (difference > EQUAL)).sum()),
            f"only_ours_{level:g}": int((mine & ~theirs).sum()),
            f"only_peer_{level:g}": int((theirs & ~mine).sum()),
            f"neither_{level:g}": int((~mine & ~theirs).sum()),
        }
    return row


def summarise(family: Family, ours: Outcome | None, peer: Outcome, accept: list[float]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "family": family.name,
        "n": family.n,
        "constraints": len(family.constraints),
        "instances": family.instances,
    }
    for outcome in (ours, peer):
        if outcome is not None:
            columns = describe(family, outcome, accept)
            row |= {f"{outcome.solver}_{key}": value for key, value in columns.items()}
    return row | (compare(ours, peer, accept) if ours is not None else {})


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def table(header: list[str], body: list[list[Any]]) -> list[str]:
    def cell(value: Any) -> str:
        return f"{value:.4g}" if isinstance(value, float) else str(value)

    lines = [" | ".join(map(cell, line)) for line in [header, ["---"] * len(header), *body]]
    return [f"| {line} |" for line in lines]


def write_markdown(path: Path, rows: list[dict[str, Any]], args: argparse.Namespace, note: str) -> None:
    solvers = [name for name in ("pwcf", "pygranso") if f"{name}_seconds" in rows[0]]
    paired = len(solvers) == 2
    info = settings(args) | {"python": platform.python_version(), "osqp": metadata.version("osqp")}
    lines = ["# `pwcf.minimize` against PyGRANSO", "", note, ""]
    lines += ["Settings: " + ", ".join(f"{key} {value}" for key, value in info.items()) + ".", ""]
    lines += ["## Time", "", "Ratios are of processor seconds, which other work on the machine disturbs less.", ""]
    kinds = [(name, kind) for kind in ("cpu_seconds", "seconds") for name in solvers]
    header = ["family", "n", "constraints"]
    header += [f"{name} {'processor s' if kind == 'cpu_seconds' else 's'}" for name, kind in kinds]
    body = []
    for row in rows:
        line = [row["family"], row["n"], row["constraints"], *(row[f"{name}_{kind}"] for name, kind in kinds)]
        body.append(line + ([row["speed_ratio"]] if paired else []))
    totals = [sum(row[f"{name}_{kind}"] for row in rows) for name, kind in kinds]
    body.append(["total", "", "", *totals, *([totals[1] / totals[0]] if paired else [])])
    lines += [*table(header + (["ratio"] if paired else []), body), ""]
    if paired:
        lines += ["## Objective, instance by instance", ""]
        lines += [f"Only instances where both points are feasible; equal: within {EQUAL:g} relative.", ""]
        words = ["better", "equal", "worse", "only_ours", "only_peer", "neither"]
        header = ["family", "violation at most", *(word.replace("_", " ") for word in words)]
        body = [
            [row["family"], f"{level:g}", *(row[f"{word}_{level:g}"] for word in words)]
            for row in rows
            for level in args.accept
        ]
        lines += [*table(header, body), ""]
    lines += ["## Each solver", ""]
    lines += [
        f"Objectives over the points with violation at most {max(args.accept):g}; gap: median of "
        "(objective - optimum) / |optimum| where the optimum is known (negative: within the violation).",
        "",
    ]
    keys = ["mean_objective", "median_objective", "median_gap", "max_violation"]
    keys += [f"feasible_{level:g}" for level in args.accept]
    keys += ["cpu_seconds", "median_iterations", "median_evaluations", "capped", "failed", "endings"]
    header = ["family", "solver", *(key.replace("_", " ") for key in keys)]
    body = [[row["family"], name, *(row[f"{name}_{key}"] for key in keys)] for row in rows for name in solvers]
    path.write_text("\n".join([*lines, *table(header, body)]) + "\n")


def plot(path: Path, rows: list[dict[str, Any]], differences: dict[str, Tensor]) -> None:
    """Left: wall time of both. Right: relative difference of the objective, one dot an instance."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    solvers = [name for name in ("pwcf", "pygranso") if f"{name}_seconds" in rows[0]]
    names = [f"{row['family']}\nn = {row['n']}" for row in rows]
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
    width = 0.8 / len(solvers)
    for shift, solver in enumerate(solvers):
        places = [index + (shift - (len(solvers) - 1) / 2) * width for index in range(len(rows))]
        left.bar(places, [row[f"{solver}_seconds"] for row in rows], width, label=solver)
    left.set_yscale("log")
    left.set_xticks(range(len(rows)), names, fontsize=8)
    left.set_ylabel("wall time of all instances, s")
    left.legend()
    for index, row in enumerate(rows):
        values = differences.get(row["family"], torch.empty(0))
        right.scatter(index + 0.5 * (torch.linspace(0, 1, len(values)) - 0.5), values, s=6)
    right.set_xlim(-0.5, len(rows) - 0.5)
    right.set_yscale("symlog", linthresh=1e-6)
    right.axhspan(-EQUAL, EQUAL, color="0.9", zorder=0)
    right.set_xticks(range(len(rows)), names, fontsize=8)
    right.set_ylabel("(pwcf - PyGRANSO) / larger magnitude\nbelow: pwcf better")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--instances", type=int, default=100, help="instances per family")
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1, help="torch threads, the same for both")
    parser.add_argument("--tol", type=float, default=1e-4, help="stationarity tolerance of both")
    parser.add_argument("--violation-tol", type=float, default=1e-6, help="PyGRANSO's violation tolerance")
    parser.add_argument("--accept", type=float, nargs="+", default=[1e-6, 1e-4], help="violations accepted")
    parser.add_argument("--max-iterations", type=int, default=1000, help="iteration limit of both")
    parser.add_argument("--budget", type=int, default=None, help="budget of pwcf.minimize, if any")
    parser.add_argument("--peer-seconds", type=float, default=60.0, help="PyGRANSO's cap per instance")
    parser.add_argument("--full-bfgs-up-to", type=int, default=1000, help="largest n of full BFGS in PyGRANSO")
    parser.add_argument("--memory", type=int, default=20, help="PyGRANSO's L-BFGS pairs above that")
    parser.add_argument("--evaldist", type=float, default=1e-4, help="PyGRANSO's evaldist; 1e-4 is its default")
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks"))
    parser.add_argument("--progress", type=int, default=10, help="a line every so many PyGRANSO instances")
    parser.add_argument("--only-peer", action="store_true", help="run PyGRANSO alone")
    parser.add_argument("--reuse-peer", type=Path, default=None, help="debugging: stored PyGRANSO results")
    return parser.parse_args()


def main() -> None:
    args = parse()
    torch.set_num_threads(args.threads)
    args.out.mkdir(parents=True, exist_ok=True)
    stored = read_peer(args.reuse_peer, args) if args.reuse_peer else None
    granso.load()  # imports stay outside the clock
    stem = f"{STEM}_only_peer" if args.only_peer else STEM
    peer_file = args.out / f"{STEM}_peer.jsonl"
    if stored is not None:
        note = "**Not one run:** PyGRANSO's results were read from an earlier run's file."
    elif args.only_peer:
        note = "PyGRANSO alone."
    else:
        note = "Both solvers timed in one run, in one process, on the same starts."

    rows: list[dict[str, Any]] = []
    differences: dict[str, Tensor] = {}
    log_path = Path("/dev/null") if stored is not None else peer_file
    with log_path.open("w") as log:
        if stored is None:
            log.write(json.dumps(settings(args)) + "\n")
        families = {name: FAMILIES[name](args.instances, args.seed) for name in args.families}
        peers: dict[str, Outcome] = {}
        for name, family in families.items():
            print(f"{family.title}: n = {family.n}, {family.instances} instances", flush=True)
            peers[name] = stored[name] if stored is not None else solve_peer(family, args, log)
            print(f"  pygranso {name}: {peers[name].seconds:.1f} s, {peers[name].endings}", flush=True)
    published: list[list[Any]] = []
    for name, family in families.items():
        ours, peer = None, peers[name]
        if not args.only_peer:
            ours = solve_ours(family, args)
            print(f"  pwcf {name}: {ours.seconds:.1f} s, {ours.endings}", flush=True)
            both = feasible(ours, max(args.accept)) & feasible(peer, max(args.accept))
            differences[name] = relative(ours, peer)[both]
            other = solve_ours(family, args, test="published")
            print(f"  pwcf, published test, {name}: {other.seconds:.1f} s, {other.endings}", flush=True)
            both = feasible(other, max(args.accept)) & feasible(peer, max(args.accept))
            change = relative(other, peer)[both]
            counts = [
                int((change < -EQUAL).sum()),
                int((change.abs() <= EQUAL).sum()),
                int((change > EQUAL).sum()),
            ]
            ratio = peer.cpu_seconds / other.cpu_seconds
            published.append([name, other.cpu_seconds, ratio, *counts, str(other.endings)])
        rows.append(summarise(family, ours, peer, args.accept))
        write_csv(args.out / f"{stem}.csv", rows)
        write_markdown(args.out / f"{stem}.md", rows, args, note)
    if published:
        total = [sum(line[1] for line in published), sum(peer.cpu_seconds for peer in peers.values())]
        published.append(["total", total[0], total[1] / total[0], "", "", "", ""])
        header = ["family", "pwcf processor s", "ratio", "better", "equal", "worse", "endings"]
        lines = ["", "## The published stopping test in place of the default one", ""]
        lines += [
            "It is PyGRANSO's own, at the same tolerance. It says converged where the step is short, true or not.",
            "",
            *table(header, published),
        ]
        with (args.out / f"{stem}.md").open("a") as file:
            file.write("\n".join(lines) + "\n")
    plot(args.out / f"{stem}.png", rows, differences)
    print((args.out / f"{stem}.md").read_text())


if __name__ == "__main__":
    main()
