"""Mean radius at small budgets: ``"lmn"`` against every min-radius attack that pwcf can run, on real networks::

    python benchmarks/small_budgets.py --results out/small_budgets --out docs/benchmarks

All attacks go through ``evaluate``, which takes its checks, repairs and evidence from the same budget, and count by
verified points only. A mean is inf where an attack has no point for some sample. One CSV file a net, norm and budget;
those that exist are read, not computed again.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from pathlib import Path

import torch
from rivals import nets

import pwcf

OURS = "lmn"
RIVALS = {
    "linf": ("fmn", "fab", "fab-t", "apgd", "pdpgd"),
    "l2": ("fmn", "fab", "fab-t", "apgd", "ddn", "alma", "pdgd"),
    "l1": ("fmn", "fab", "fab-t", "apgd", "alma", "pdpgd"),
}
BUDGETS = (50, 100, 200)
STEM = "small_budgets"


def run(task: nets.Task, norm: str, budget: int, path: Path) -> None:
    rows = []
    for attack in (OURS, *RIVALS[norm]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # samples without a point are counted below
            answer = pwcf.evaluate(
                task.net, task.images, task.labels, pwcf.MinRadius(norm), attacks=[attack], budget=budget
            )
        found = torch.isfinite(answer.radius)
        mean = answer.radius.double().mean().item()
        print(f"{task.name} {norm} {budget} {attack}: {mean:.4g}, {int(found.sum())} of {len(found)}", flush=True)
        rows.append((attack, f"{mean:.9g}", int(found.sum()), f"{answer.passes.total.double().mean():.1f}"))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("attack", "radius", "found", "passes"), *rows])


def table(results: Path, names: list[str], budgets: list[int]) -> list[str]:
    lines = [
        "| net | norm | " + " | ".join(f"lmn {b} | best rival {b}" for b in budgets) + " |",
        "|---|---|" + "---|---|" * len(budgets),
    ]
    good = dict.fromkeys(budgets, 0)
    for net in names:
        for norm in RIVALS:
            cells = []
            for budget in budgets:
                with (results / f"{net}.{norm}.{budget}.csv").open(encoding="utf-8") as file:
                    radius = {row["attack"]: float(row["radius"]) for row in csv.DictReader(file)}
                ours = radius.pop(OURS)
                best = min(radius, key=radius.__getitem__)
                good[budget] += ours <= radius[best]
                cells += [f"**{ours:.4g}**" if ours <= radius[best] else f"{ours:.4g}", f"{radius[best]:.4g} ({best})"]
            lines.append(f"| {net} | {norm} | " + " | ".join(cells) + " |")
    pairs = len(names) * len(RIVALS)
    counts = ", ".join(f"at {budget} passes {count} of {pairs}" for budget, count in good.items())
    return [*lines, "", f"No larger than the best rival's (bold): {counts}."]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", nargs="+", choices=nets.DATASETS, default=list(nets.DATASETS), metavar="NET")
    parser.add_argument("--budgets", nargs="+", type=int, default=list(BUDGETS))
    parser.add_argument("--images", type=int, default=24)
    parser.add_argument("--results", type=Path, required=True, help="where the CSV files are")
    parser.add_argument("--out", type=Path, required=True, help="where the table goes")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for name in args.nets:
        task = None
        for norm in RIVALS:
            for budget in args.budgets:
                path = args.results / f"{name}.{norm}.{budget}.csv"
                if not path.exists():
                    task = task or nets.load(name, args.images)
                    run(task, norm, budget, path)
    head = [
        "# Small budgets",
        "",
        f"Mean radius over the first {args.images} correctly classified test images of each net, verified points only; "
        "inf where an attack has no point for some sample. Budgets are passes a sample, those of `evaluate` for checks "
        "and evidence (25) included, for every attack alike. The schedules were fitted on other nets "
        "(cifar10_cnn_a_adv, cifar10_sri_resnet_a, mnist_kw_linf01, mnist_fc_256x2). Made by "
        f"`python benchmarks/small_budgets.py`; torch {torch.__version__}.",
        "",
    ]
    text = [*head, *table(args.results, args.nets, args.budgets), ""]
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / f"{STEM}.md").write_text("\n".join(text), encoding="utf-8")
    print("\n".join(text))


if __name__ == "__main__":
    main()
