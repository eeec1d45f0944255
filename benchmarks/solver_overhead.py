"""What ``pwcf.minimize`` costs beside the user's functions: time on two real networks, memory at n = 150,528.

Time: min ||x - x0||_2 s.t. f_y(x) - max_other f(x) <= 0, 0 <= x <= 1, float32, on CIFAR-10 images that
the net gets right. *Outside* is the share of the wall time of ``minimize`` that is not spent in
``Oracle.evaluate`` (the user's function and its gradients). *Outside, strict* also counts what
``Oracle.evaluate`` itself adds: only the user's function and ``torch.autograd.grad`` are inside. In both, the
check of the functions at the start (forward passes of all and of half the rows) is outside; *less check* is
the first figure with the user's function in this check counted as inside.

Memory: peak resident memory of a fresh process, data of the problem included, for a smooth and for a kinked
objective with one linear constraint per row and bounds::

    python benchmarks/solver_overhead.py --realdata ../shared/realdata --out docs/benchmarks

The networks are not part of this repository: ``--realdata`` or PWCF_REALDATA names a folder with ``zoo.py``.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from known_optima import endings, heading, table, write_csv
from realdata import find_zoo, first_correct
from torch import Tensor

import pwcf
from pwcf.solvers.oracle import Oracle

STEM = "solver_overhead"
SHAPE = (3, 224, 224)
GB = 1e9
GB_TARGET = 6.0


# ---- time -----------------------------------------------------------------------------------------


class Clock:
    """Sums the wall time of wrapped functions."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.calls: dict[str, int] = {}

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                spent = time.perf_counter() - began
                self.seconds[name] = self.seconds.get(name, 0.0) + spent
                self.calls[name] = self.calls.get(name, 0) + 1

        return timed


def measure_time(zoo: Any, name: str, rows: int, evaluations: int, target: float, seed: int) -> dict[str, Any]:
    net = zoo.load_net(name)
    images, labels, _ = first_correct(zoo, net, "cifar10", rows)
    noise = torch.randn(images.shape, generator=torch.Generator().manual_seed(seed))

    def function(x: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        distance = torch.linalg.vector_norm((x - images[index]).flatten(1), dim=1)
        logits, label = net(x), labels[index].unsqueeze(1)
        own = logits.gather(1, label).squeeze(1)
        other = logits.scatter(1, label, -torch.inf).amax(1)
        return distance, own - other

    start = images + 0.01 * noise
    everyone = torch.arange(rows)
    warm = start.clone().requires_grad_(True)  # first calls allocate and choose kernels
    torch.autograd.grad(sum(part.sum() for part in function(warm, everyone)), warm)

    clock = Clock()
    evaluate, within = clock.wrap("evaluate", Oracle.evaluate), [False]

    def evaluate_marked(self: Oracle, x: Tensor, index: Tensor) -> Any:
        within[0] = True
        try:
            return evaluate(self, x, index)
        finally:
            within[0] = False

    forward, check = (clock.wrap(key, function) for key in ("forward", "check"))

    def user(x: Tensor, rows: Tensor) -> Any:
        return forward(x, rows) if within[0] else check(x, rows)

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(Oracle, "evaluate", evaluate_marked))
        stack.enter_context(mock.patch.object(torch.autograd, "grad", clock.wrap("grad", torch.autograd.grad)))
        began = time.perf_counter()
        solution = pwcf.minimize(user, start, [pwcf.ineq()], bounds=(0.0, 1.0), budget=evaluations)
        total = time.perf_counter() - began
    spent = {key: clock.seconds.get(key, 0.0) for key in ("evaluate", "forward", "grad", "check")}
    outside = 1 - spent["evaluate"] / total
    return {
        "network": name,
        "rows": rows,
        "n": images[0].numel(),
        "budget": evaluations,
        "outside": outside,
        "target": target,
        "met": outside <= target,
        "outside_strict": 1 - (spent["forward"] + spent["grad"]) / total,
        "outside_less_check": outside - spent["check"] / total,
        "total_s": total,
        "evaluate_s": spent["evaluate"],
        "forward_s": spent["forward"],
        "gradients_s": spent["grad"],
        "calls": clock.calls.get("evaluate", 0),
        "mean_evaluations": float(solution.evaluations.double().mean()),
        "feasible_rows": int((solution.evidence.violation <= 1e-5).sum()),
        "endings": endings(solution),
    }


# ---- memory ---------------------------------------------------------------------------------------


def peak() -> int:
    """Peak resident memory of this process in bytes."""
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size if sys.platform == "darwin" else 1024 * size


def memory_child(kind: str, rows: int, evaluations: int, seed: int) -> None:
    """Runs in a process of its own and prints one line of JSON."""
    imported = peak()
    generator = torch.Generator().manual_seed(seed)
    x0 = 0.2 + 0.6 * torch.rand(rows, *SHAPE, generator=generator)
    weight = torch.randn(rows, *SHAPE, generator=generator)
    # the half space begins at a distance of 5 from x0
    offset = 5 * weight.flatten(1).norm(dim=1) - (weight * x0).flatten(1).sum(1)
    scale = torch.logspace(-1, 1, x0[0].numel()).reshape(SHAPE)  # so that it takes some iterations

    def objective(x: Tensor, index: Tensor) -> Tensor:
        move = x - x0[index]
        if kind == "smooth":
            return (scale * move**2).flatten(1).sum(1) / 2
        return move.abs().flatten(1).amax(1)

    def decision(x: Tensor, index: Tensor) -> Tensor:
        return (weight[index] * x).flatten(1).sum(1) + offset[index]

    start = (x0 + 0.01 * torch.randn(rows, *SHAPE, generator=generator)).clamp(0, 1)
    data = peak()
    began = time.perf_counter()
    solution = pwcf.minimize(objective, start, [pwcf.ineq(decision)], bounds=(0.0, 1.0), budget=evaluations, tol=1e-12)
    line = {
        "seconds": time.perf_counter() - began,
        "peak": peak(),
        "after_import": imported,
        "after_data": data,
        "mean_evaluations": float(solution.evaluations.double().mean()),
        "endings": endings(solution),
    }
    print(json.dumps(line))


def measure_memory(kind: str, args: argparse.Namespace) -> dict[str, Any]:
    words = [
        "--child",
        kind,
        "--memory-rows",
        args.memory_rows,
        "--memory-evaluations",
        args.memory_evaluations,
    ]
    words += ["--seed", args.seed, "--threads", args.threads]
    done = subprocess.run([sys.executable, __file__, *map(str, words)], stdout=subprocess.PIPE, text=True, check=False)
    n = SHAPE[0] * SHAPE[1] * SHAPE[2]
    line: dict[str, Any] = {"objective": kind, "rows": args.memory_rows, "n": n}
    if done.returncode != 0:
        nan = float("nan")
        keys = ("peak_GB", "target_GB", "met", "peak_less_import_GB", "peak_less_data_GB", "vectors_per_row")
        failed = dict.fromkeys((*keys, "mean_evaluations", "seconds"), nan)
        ending = f"failed, exit code {done.returncode}"
        return line | failed | {"target_GB": GB_TARGET, "met": False, "endings": ending}
    found = json.loads(done.stdout.splitlines()[-1])
    beside = found["peak"] - found["after_data"]
    return line | {
        "peak_GB": found["peak"] / GB,
        "target_GB": GB_TARGET,
        "met": found["peak"] <= GB_TARGET * GB,
        "peak_less_import_GB": (found["peak"] - found["after_import"]) / GB,
        "peak_less_data_GB": beside / GB,
        "vectors_per_row": beside / (4 * n * args.memory_rows),
        "mean_evaluations": found["mean_evaluations"],
        "seconds": found["seconds"],
        "endings": found["endings"],
    }


# ---- report ---------------------------------------------------------------------------------------


def report(times: list[dict[str, Any]], memory: list[dict[str, Any]], args: argparse.Namespace) -> str:
    text = heading("Cost of `pwcf.minimize` beside the user's functions", seed=args.seed, dtype="float32")
    if times:
        shown = [
            line
            | {key: f"{100 * line[key]:.1f} %" for key in ("outside", "outside_strict", "outside_less_check")}
            | {"target": f"<= {100 * line['target']:.0f} %"}
            for line in times
        ]
        text += [
            "## Time",
            "",
            "Outside: share of the wall time of `minimize` not spent in `Oracle.evaluate`, that is in the "
            "user's function and its gradients. Strict: not spent in the user's function or "
            "`torch.autograd.grad` themselves. The check of the functions at the start counts as outside in "
            "both; less check: as the first, with the user's function in this check counted as inside.",
            "",
            *table(shown),
            "",
        ]
    if memory:
        shown = [line | {"target_GB": f"<= {line['target_GB']:g}"} for line in memory]
        text += [
            "## Memory",
            "",
            "Peak resident memory of a fresh process (`ru_maxrss`, GB = 10^9 bytes); less import: "
            "without what it was after the imports; less data: without what it was before `minimize`, also "
            "in float32 vectors of n per row.",
            "",
            *table(shown),
            "",
        ]
    return "\n".join(text)


def write(times: list[dict[str, Any]], memory: list[dict[str, Any]], args: argparse.Namespace) -> str:
    lines = [{"case": "time", **line} for line in times] + [{"case": "memory", **line} for line in memory]
    keys = list(dict.fromkeys(key for line in lines for key in line))
    write_csv(args.out / f"{STEM}.csv", [{key: line.get(key, "") for key in keys} for line in lines])
    text = report(times, memory, args)
    (args.out / f"{STEM}.md").write_text(text)
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    cases = ["resnet18", "cnn", "memory"]
    parser.add_argument("--cases", nargs="+", choices=cases, default=cases)
    parser.add_argument("--realdata", type=Path, default=None, help="folder with zoo.py")
    parser.add_argument("--rows", type=int, nargs=2, default=[32, 256], help="rows of resnet18 and of cnn")
    parser.add_argument("--evaluations", type=int, nargs=2, default=[12, 60], help="their budgets")
    parser.add_argument("--memory-rows", type=int, default=64)
    parser.add_argument("--memory-evaluations", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2, help="torch threads")
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks"))
    parser.add_argument("--child", choices=["smooth", "kinked"], default=None, help=argparse.SUPPRESS)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.child is not None:
        memory_child(args.child, args.memory_rows, args.memory_evaluations, args.seed)
        return
    zoo = None if args.cases == ["memory"] else find_zoo(args.realdata)
    if zoo is None and args.cases != ["memory"]:
        raise SystemExit(
            "no zoo.py in the folder of real networks: give it with --realdata or PWCF_REALDATA, or measure "
            "memory alone with --cases memory"
        )
    args.out.mkdir(parents=True, exist_ok=True)
    times: list[dict[str, Any]] = []
    memory: list[dict[str, Any]] = []
    text = ""
    if "memory" in args.cases:
        # first, while this process is small: on Linux a child's ru_maxrss begins with that of its parent
        for kind in ("smooth", "kinked"):
            memory.append(measure_memory(kind, args))
            print(f"memory, {kind}: {memory[-1]['peak_GB']:.2f} GB, target <= {GB_TARGET:g} GB", flush=True)
            text = write(times, memory, args)
    nets = [("resnet18", "cifar10_resnet18_standard_autoattack", 0.05), ("cnn", "cifar10_cnn_a_adv", 0.45)]
    for (case, name, target), rows, evaluations in zip(nets, args.rows, args.evaluations, strict=True):
        if case in args.cases:
            times.append(measure_time(zoo, name, rows, evaluations, target, args.seed))
            print(f"{name}: {times[-1]['outside']:.1%} outside, target <= {target:.0%}", flush=True)
            text = write(times, memory, args)
    print(text)


if __name__ == "__main__":
    main()
