"""How far ``converged`` can be trusted: the default call, and for every claim a much longer search::

    python benchmarks/reliability.py --results out/reliability --out docs/benchmarks

A claim is false where a new search (``stop="budget"``, ten times the passes that the sample used and at least 20,000,
another seed) lowers the radius by more than 1 %. *Before* is the mean radius with 2000 passes and ``stop="budget"``.
Constants were fitted on the nets in FITTED; the others are told apart. One JSON file a net and norm; those that exist
are read, not computed again.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from pathlib import Path
from typing import Any

import torch
from rivals import nets

import pwcf

NORMS = ("linf", "l2", "l1")
NETS = (
    "cifar10_cnn_a_adv", "cifar10_cnn_a_adv4", "cifar10_kw_l2_36", "mnist_kw_linf01", "mnist_fc_256x2",
    "fmnist_kw_linf01",
)  # fmt: skip
FITTED = ("cifar10_cnn_a_adv4", "mnist_kw_linf01", "fmnist_kw_linf01")
LONGER, AT_LEAST = 10, 20_000
STEM = "reliability"


def measure(task: nets.Task, norm: str) -> dict[str, Any]:
    """The default call on all images, and longer searches on those that converged."""
    problem, x, y = pwcf.MinRadius(norm), task.images, task.labels
    run = pwcf.evaluate(task.net, x, y, problem)
    before = pwcf.evaluate(task.net, x, y, problem, budget=2000, stop="budget")
    converged = torch.tensor([status is pwcf.Status.CONVERGED for status in run.status])
    budgets = (LONGER * run.passes.total).clamp(min=AT_LEAST)
    budgets = 10_000 * torch.ceil(budgets / 10_000).long()  # samples of like budgets together
    gain = torch.full_like(run.radius, math.nan)
    for budget in budgets[converged].unique().tolist():
        rows = (converged & (budgets == budget)).nonzero().squeeze(1)
        longer = pwcf.evaluate(task.net, x[rows], y[rows], problem, budget=budget, stop="budget", seed=1)
        gain[rows] = 1 - longer.radius / run.radius[rows]
    return {
        "net": task.name, "norm": norm, "images": len(x), "converged": int(converged.sum()),
        "false": int((gain > 0.01).sum()), "by 10 %": int((gain > 0.1).sum()),
        "largest gain": float(gain[converged].max()) if converged.any() else math.nan,
        "passes": float(run.passes.total.double().mean()), "radius": float(run.radius.mean()),
        "before": float(before.radius.mean()),
    }  # fmt: skip


def report(lines: list[dict[str, Any]]) -> str:
    heads = list(lines[0])
    text = [(__doc__ or "").split("\n", 1)[0].rstrip(":"), "", "| " + " | ".join(heads) + " | |"]
    text += ["|" + "---|" * (len(heads) + 1)]
    for line in lines:
        cells = [f"{value:.5g}" if isinstance(value, float) else str(value) for value in line.values()]
        text.append("| " + " | ".join(cells) + " | " + ("fitted" if line["net"] in FITTED else "") + " |")
    for name, some in (("all", lines), ("not fitted", [line for line in lines if line["net"] not in FITTED])):
        if some:
            images, claims, false = (sum(line[key] for line in some) for key in ("images", "converged", "false"))
            text += [
                "",
                f"{name}: converged {claims} of {images} ({claims / images:.0%}), false {false}, "
                f"by more than 10 % {sum(r['by 10 %'] for r in some)}; passes "
                f"{sum(r['passes'] * r['images'] for r in some) / images:.0f} in the mean; mean radius no larger than "
                f"before on {sum(r['radius'] <= r['before'] for r in some)} of {len(some)} pairs.",
            ]
    return "# Reliability of `converged`\n\n" + "\n".join(text) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--nets", nargs="+", default=NETS)
    parser.add_argument("--norms", nargs="+", default=NORMS)
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--results", type=Path, default=Path("out/reliability"))
    parser.add_argument("--out", type=Path, default=None, help="folder for the table")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # samples without a point count as not converged
    args.results.mkdir(parents=True, exist_ok=True)
    lines = []
    for norm in args.norms:
        for net in args.nets:
            path = args.results / f"{net}.{norm}.{args.images}.json"
            if not path.exists():
                path.write_text(json.dumps(measure(nets.load(net, args.images), norm)))
            lines.append(json.loads(path.read_text()))
            print(lines[-1], flush=True)
    text = report(lines)
    print(text)
    if args.out is not None:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / f"{STEM}.md").write_text(text)


if __name__ == "__main__":
    main()
