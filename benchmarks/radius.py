"""Mean radius of ``"lmn"`` against the minimum-norm rivals, on real robust networks, verified points only.

The rivals' radii come from ``rivals.radii`` (see there), one CSV file each; ours are written beside them in the same
form. Both are resumed by the files that exist::

    PYTHONPATH=benchmarks python -m rivals.radii --out results/radii                  # needs the peers' environment
    PYTHONPATH=benchmarks python -m rivals.radii --out results/radii --budgets 200
    python benchmarks/radius.py --results results/radii --out docs/benchmarks

Local optimality is AttackBench's: d* is the least radius of a sample over all attacks at full budget, A the mean of
min(radius, max d*), and xi = 1 - (A - A*) / (max d* - A*). Robustness is asked of the first 100 images that the net
classifies correctly.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from rivals import nets, records
from torch import Tensor

import pwcf

NORMS = ("linf", "l2", "l1")
BUDGETS = (200, 2000)
COLUMNS = ("sample", "test_index", "radius", "forward", "backward", "seconds_total", "cpu_seconds")
OURS = "lmn"
STEM = "radius"


def run(task: nets.Task, norm: str, budget: int, path: Path) -> None:
    began, began_cpu = time.perf_counter(), time.process_time()
    answer = pwcf.evaluate(task.net, task.images, task.labels, pwcf.MinRadius(norm), budget=budget, stop="budget")
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - began_cpu
    print(
        f"{task.name} {norm} {OURS} {budget}: mean {answer.radius.mean():.5f}, "
        f"{answer.passes.total.double().mean():.0f} passes, {seconds:.1f} s",
        flush=True,
    )
    times = (f"{seconds:.2f}", f"{cpu_seconds:.2f}")
    rows = []
    for i in range(len(task.labels)):
        passes = int(answer.passes.forward[i]), int(answer.passes.backward[i])
        rows.append((i, int(task.test_index[i]), f"{answer.radius[i].item():.9g}", *passes, *times))
    records.write(path, [f"{task.name} {norm} {OURS} {budget}"], COLUMNS, rows)


class Radii:
    """All radii of one net and norm: (rival, label) -> (n,)."""

    def __init__(self, results: Path, net: str, norm: str, images: int) -> None:
        self.of: dict[tuple[str, str], Tensor] = {}
        self.passes: dict[tuple[str, str], float] = {}
        self.seconds: dict[tuple[str, str], float] = {}
        for path in sorted(results.glob(f"{net}.{norm}.*.csv")):
            _, _, rival, label, _ = path.name.split(".")
            lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
            rows = list(csv.DictReader(lines))
            if len(rows) != images:
                print(f"left out, {len(rows)} images instead of {images}: {path.name}")
                continue
            key = rival, label
            self.of[key] = torch.tensor([float(row["radius"]) for row in rows], dtype=torch.float64)
            self.passes[key] = sum(float(row["forward"]) + float(row["backward"]) for row in rows) / len(rows)
            self.seconds[key] = float(rows[0]["cpu_seconds"]) / len(rows)
        full = [r for (rival, label), r in self.of.items() if label == ("2000" if rival == OURS else "published")]
        self.best = torch.stack(full or [torch.zeros(images)]).amin(0)

    def mean(self, key: tuple[str, str]) -> float:
        return float(self.of[key].mean())

    def rivals(self, label: str) -> dict[str, float]:
        """Mean radius of every rival under this label."""
        return {rival: self.mean((rival, at)) for rival, at in self.of if at == label and rival != OURS}

    def together(self) -> float:
        """Mean of the pointwise least radius of all rivals at their published settings."""
        return float(torch.stack([r for (rival, at), r in self.of.items() if at == "published"]).amin(0).mean())

    def xi(self, key: tuple[str, str]) -> float:
        largest = self.best[torch.isfinite(self.best)].max()
        least = self.best.clamp(max=largest).mean()
        area = self.of[key].clamp(max=largest).mean()
        return float(1 - (area - least) / (largest - least))


def table(cells: Sequence[Radii], names: Sequence[tuple[str, str]]) -> list[str]:
    lines = [
        "| net | norm | pwcf 2000 | best single rival | all rivals together | pwcf 200 | best rival at 200 | xi | "
        "CPU s an image: pwcf, best rival |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    single = together = small = optimal = counted = counted_small = 0
    for (net, norm), radii in zip(names, cells, strict=True):
        ours, ours_small = (OURS, "2000"), (OURS, "200")
        published, at_200 = radii.rivals("published"), radii.rivals("200")
        if ours not in radii.of or not published:
            continue
        best = min(published, key=published.__getitem__)
        mean, least = radii.mean(ours), radii.together()
        counted += 1
        single += mean < published[best]
        together += mean < least
        optimal += radii.xi(ours) >= 0.99
        cell_small, cell_rival = "", ""
        if ours_small in radii.of and at_200:
            best_small = min(at_200, key=at_200.__getitem__)
            counted_small += 1
            small += radii.mean(ours_small) <= at_200[best_small]
            cell_small = _marked(radii.mean(ours_small), radii.mean(ours_small) <= at_200[best_small])
            cell_rival = f"{at_200[best_small]:.4g} ({best_small})"
        times = f"{radii.seconds[ours]:.2f}, {radii.seconds[best, 'published']:.2f}"
        lines.append(
            f"| {net} | {norm} | {_marked(mean, mean < least)} | {published[best]:.4g} ({best}) | {least:.4g} | "
            f"{cell_small} | {cell_rival} | {radii.xi(ours):.3f} | {times} |"
        )
    lines += [
        "",
        f"At 2000 passes below all rivals together (bold) on {together} of {counted}, below the best single rival on "
        f"{single} of {counted}, xi >= .99 on {optimal} of {counted}. At 200 passes no larger than the best single "
        f"rival's (bold) on {small} of {counted_small}.",
    ]
    return lines


def _marked(value: float, good: bool) -> str:
    return f"**{value:.4g}**" if good else f"{value:.4g}"


def everything(cells: Sequence[Radii], names: Sequence[tuple[str, str]]) -> list[str]:
    lines = [
        "| net | norm | attack | setting | mean radius | xi | passes | CPU s an image |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (net, norm), radii in zip(names, cells, strict=True):
        for key in sorted(radii.of, key=lambda key: radii.mean(key)):
            lines.append(
                f"| {net} | {norm} | {key[0]} | {key[1]} | {radii.mean(key):.5g} | {radii.xi(key):.3f} | "
                f"{radii.passes[key]:.0f} | {radii.seconds[key]:.2f} |"
            )
    return lines


def plot(cells: Sequence[Radii], names: Sequence[tuple[str, str]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    order = sorted({net for net, _ in names}, key=[net for net, _ in names].index)
    figure, axes = plt.subplots(len(order), len(NORMS), figsize=(12, 2.6 * len(order)), squeeze=False)
    rivals = sorted({rival for radii in cells for rival, _ in radii.of if rival != OURS})
    colours = {rival: f"C{i + 1}" for i, rival in enumerate(rivals)} | {OURS: "black"}
    for (net, norm), radii in zip(names, cells, strict=True):
        axis = axes[order.index(net)][NORMS.index(norm)]
        for rival, colour in colours.items():
            points = sorted((radii.passes[key], radii.mean(key)) for key in radii.of if key[0] == rival)
            points = [point for point in points if point[1] < float("inf")]
            if points:
                width = 2.2 if rival == OURS else 1
                axis.plot(*zip(*points, strict=True), "o-", ms=3, color=colour, lw=width, label=rival)
        low = float(radii.best.mean())
        if low > 0:
            # All of ours, and the rivals that are about as good.
            ours = [radii.mean(key) for key in radii.of if key[0] == OURS]
            largest = max(mean for mean in ours if mean < float("inf"))
            axis.set_ylim(0.98 * low, max(1.35 * low, 1.1 * largest))
        axis.set_xscale("log")
        axis.set_xticks([100, 200, 500, 1000, 2000, 5000], ["100", "200", "500", "1000", "2000", "5000"])
        axis.minorticks_off()
        axis.set_title(f"{net}, {norm}", fontsize=9)
        axis.tick_params(labelsize=8)
    for axis in axes[-1]:
        axis.set_xlabel("forward + backward passes a sample")
    for row in axes:
        row[0].set_ylabel("mean radius")
    handles, labels = axes[0][0].get_legend_handles_labels()
    for axis in axes.flat:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            if label not in labels:
                handles.append(handle)
                labels.append(label)
    figure.legend(handles, labels, loc="upper center", ncol=len(labels), fontsize=9, frameon=False)
    figure.tight_layout(rect=(0, 0, 1, 0.97))
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", nargs="+", choices=nets.DATASETS, default=list(nets.DATASETS), metavar="NET")
    parser.add_argument("--norms", nargs="+", choices=NORMS, default=list(NORMS))
    parser.add_argument("--budgets", nargs="+", type=int, default=list(BUDGETS))
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--results", type=Path, required=True, help="CSV files of rivals.radii; ours are added")
    parser.add_argument("--out", type=Path, required=True, help="where table and plot go")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    for budget in args.budgets:
        for name in args.nets:
            task = None
            for norm in args.norms:
                path = args.results / f"{name}.{norm}.{OURS}.{budget}.csv"
                if not path.exists():
                    task = task or nets.load(name, args.images)
                    run(task, norm, budget, path)
    names = [(net, norm) for net in args.nets for norm in args.norms]
    cells = [Radii(args.results, net, norm, args.images) for net, norm in names]
    args.out.mkdir(parents=True, exist_ok=True)
    summary = table(cells, names)
    print("\n".join(summary))
    head = [
        "# Radii",
        "",
        f"First {args.images} correctly classified test images of each net, verified points only. Made by "
        f"`python benchmarks/radius.py`; torch {torch.__version__}, {args.threads} thread(s).",
        "",
    ]
    text = [*head, *summary, "", "## Every attack", "", *everything(cells, names), ""]
    (args.out / f"{STEM}.md").write_text("\n".join(text), encoding="utf-8")
    plot(cells, names, args.out / f"{STEM}.png")


if __name__ == "__main__":
    main()
