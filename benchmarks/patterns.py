"""Do solutions of different attacks, losses and metrics differ in pattern, and do they break more together than alone?

Two studies on the networks of the embedded zoo and its 200 images (paper, "Different combinations of l, d, and the
solvers prefer different patterns"):

1. Patterns, on the network without adversarial training, where every attack succeeds: soft sparsity ||d||_1 / ||d||_2
   of the points found by every metric x loss x attack (max-loss) and metric x attack (min-radius); between any two of
   one metric the Kolmogorov-Smirnov distance of these distributions and the median cosine of the perturbations.
2. Union, on every network, within the eps of the zoo's table, in each metric: how many samples each attack breaks, how
   many it breaks alone, and how many all break together. Every attack searches by itself, with the same budget.

    python benchmarks/patterns.py --out docs/benchmarks      # about 20 minutes on one core

Runs are kept in out/patterns, and it goes on where it stopped; ``pwcf report`` shows them.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import time
from itertools import combinations
from pathlib import Path

import torch

from pwcf import analysis, load_run, zoo
from pwcf.cli import main as pwcf
from pwcf.report import figures
from pwcf.report.table_format import Table
from pwcf.runs import RecordedRun
from pwcf.runs.load import original_images

STEM = "patterns"
METRICS = ("l1", "l2", "linf")
# Named after what they maximise; "lmn" and "square" use the margin.
LOSSES = ("apgd-ce", "apgd-margin", "apgd-dlr", "pwcf-ce", "pwcf-margin", "lmn", "square")
SHOWN = ("apgd-ce", "apgd-margin", "pwcf-ce", "lmn", "square")
"""in the figure, which has room for so many"""
RADII = ("fab", "pwcf", "lmn", "fmn")
BUDGET = 400


class Study:
    """Runs by name, made when they are first asked for."""

    def __init__(self, folder: Path, images: int) -> None:
        self.folder, self.images = folder, images

    def run(self, network: str, metric: str, attack: str, eps: float | None) -> RecordedRun:
        out = self.folder / f"{network}-{metric}-{attack}{'' if eps is None else f'-within-{eps:g}'}"
        words = ["run", "--model", f"zoo:{network}", "--data", "zoo:fashion-mnist", "--limit", str(self.images)]
        words += ["--metric", metric, "--attacks", attack, "--budget", str(BUDGET), "--threads", "1"]
        words += ["--chunk", str(self.images), "--out", str(out), "--quiet"]
        if eps is not None:
            words += [
                "--question",
                "max-loss",
                "--eps",
                str(eps),
                "--loss",
                "ce" if attack.endswith("-ce") else "margin",
            ]
        began = time.perf_counter()
        with contextlib.redirect_stdout(io.StringIO()):
            code = pwcf(words)
        if code:
            raise SystemExit(f"patterns: {out.name} ended with {code}")
        print(f"{out.name}: {time.perf_counter() - began:.1f} s", flush=True)
        return load_run(out)


def pattern_runs(study: Study, network: str, eps: dict[str, float]) -> dict[str, dict[str, RecordedRun]]:
    """By metric, then by what was asked."""
    found = {}
    for metric in METRICS:
        found[metric] = {f"max-loss {a}": study.run(network, metric, a, eps[metric]) for a in LOSSES}
        found[metric] |= {f"min-radius {a}": study.run(network, metric, a, None) for a in RADII}
    return found


def sparsity_rows(runs: dict[str, dict[str, RecordedRun]]) -> Table:
    rows = [
        (metric, row.name, row.found, row.low, row.median, row.high)
        for metric, of in runs.items()
        for row in analysis.sparsity_table(of)
    ]
    return Table(("metric", "question and attack", "points", "first quartile", "median", "third quartile"), rows)


def difference_rows(runs: dict[str, dict[str, RecordedRun]]) -> Table:
    """Of each metric the pairs, summed up, and the two farthest apart."""
    rows = []
    for metric, of in runs.items():
        for question in ("max-loss", "min-radius"):
            some = {name: run for name, run in of.items() if name.startswith(question)}
            images = original_images(next(iter(some.values())))
            pairs = {(a, b): analysis.pattern_difference(some[a], some[b], images) for a, b in combinations(some, 2)}
            apart = torch.tensor([each.distance for each in pairs.values()])
            cosine = torch.tensor([each.cosine for each in pairs.values()])
            (a, b), most = max(pairs.items(), key=lambda item: item[1].distance)
            farthest = f"{a.removeprefix(question + ' ')} and {b.removeprefix(question + ' ')}"
            rows.append((
                metric, question, len(pairs), float(apart.median()), most.distance, farthest, float(cosine.median()),
            ))  # fmt: skip
    return Table(
        ("metric", "question", "pairs", "median KS", "largest KS", "between", "median cosine"),
        rows,
    )


def metric_rows(runs: dict[str, dict[str, RecordedRun]]) -> Table:
    """The same attack in two metrics."""
    rows = []
    for name in runs[METRICS[0]]:
        for a, b in combinations(METRICS, 2):
            found = analysis.pattern_difference(runs[a][name], runs[b][name])
            rows.append((name, f"{a}, {b}", found.samples, found.distance, found.sparser))
    return Table(("question and attack", "metrics", "samples", "KS", "first is sparser"), rows)


def union_rows(study: Study, eps: dict[str, float]) -> tuple[Table, dict[str, analysis.Agreement]]:
    rows, found = [], {}
    for network in zoo.names():
        for metric in METRICS:
            runs = {attack: study.run(network, metric, attack, eps[metric]) for attack in LOSSES}
            each = analysis.agreement_of(runs)
            found[f"{network}, {metric}"] = each
            best = int(each.counts.max())
            alone = ", ".join(
                f"{name} {count}" for name, count in zip(each.names, each.alone.tolist(), strict=True) if count
            )
            rows.append((
                network, f"{metric} {eps[metric]:g}", each.samples,
                *(int(count) for count in each.counts), each.union, each.union - best, alone or "–",
            ))  # fmt: skip
    heads = ("network", "within", "attacked", *LOSSES, "together", "more than the best one", "broken by one alone")
    return Table(heads, rows), found


def all_metrics_rows(agreements: dict[str, analysis.Agreement]) -> Table:
    """Samples that some attack breaks within the eps of some metric."""
    rows = []
    for network in zoo.names():
        broken = {metric: agreements[f"{network}, {metric}"].broken.any(0) for metric in METRICS}
        each = analysis.agreement(broken)
        rows.append((network, each.samples, *(int(count) for count in each.counts), each.union,
                     each.union - int(each.counts.max())))  # fmt: skip
    return Table(("network", "attacked", *METRICS, "together", "more than the best one"), rows)


def without_ours(agreements: dict[str, analysis.Agreement]) -> Table:
    """The paper's case: no attack among them is the best of all."""
    rows = []
    for name, each in agreements.items():
        others = analysis.agreement({
            attack: broken for attack, broken in zip(each.names, each.broken, strict=True) if attack != "lmn"
        })  # fmt: skip
        best = int(others.counts.argmax())
        rows.append((name, others.samples, others.names[best], int(others.counts[best]), others.union,
                     others.union - int(others.counts[best])))  # fmt: skip
    return Table(("network, metric", "attacked", "best", "it breaks", "together", "more than the best one"), rows)


def page(tables: dict[str, Table], images: int) -> str:
    text = [
        "# Patterns of solutions, and what they break together",
        "",
        f"The embedded zoo, its first {images} images, {BUDGET} passes a sample for each attack by itself. Made by "
        "`python benchmarks/patterns.py --out docs/benchmarks`.",
        "",
    ]
    for title, table in tables.items():
        text += [f"## {title}", "", *table.markdown(), ""]
        if title in PICTURES:
            text += [f"![{title}]({PICTURES[title]})", ""]
    return "\n".join(text)


PICTURES = {
    "Sparsity of what attacks find on fashion-standard": f"{STEM}_sparsity.png",
    "What attacks break alone and together": f"{STEM}_union.png",
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Patterns of solutions, and what they break together.")
    parser.add_argument("--out", type=Path, default=Path("out") / "patterns")
    parser.add_argument("--runs", type=Path, default=Path("out") / "patterns" / "runs")
    parser.add_argument("--images", type=int, default=200)
    args = parser.parse_args()
    torch.set_num_threads(1)
    study = Study(args.runs, args.images)
    card = zoo.card("fashion-standard")
    runs = pattern_runs(study, card.name, card.eps)
    union, agreements = union_rows(study, card.eps)
    tables = {
        "Sparsity of what attacks find on fashion-standard": sparsity_rows(runs),
        "Attacks of one metric against each other": difference_rows(runs),
        "One attack in two metrics": metric_rows(runs),
        "What attacks break alone and together": union,
        "The same without pwcf": without_ours(agreements),
        "What is broken in any of three metrics": all_metrics_rows(agreements),
    }
    args.out.mkdir(parents=True, exist_ok=True)
    shown = {f"{metric} {attack}": of[f"max-loss {attack}"] for metric, of in runs.items() for attack in SHOWN}
    figures.save(figures.sparsity(shown), args.out / PICTURES["Sparsity of what attacks find on fashion-standard"])
    most = max(agreements, key=lambda name: agreements[name].union - int(agreements[name].counts.max()))
    figures.save(figures.agreement(agreements[most]), args.out / PICTURES["What attacks break alone and together"])
    text = page(tables, args.images)
    (args.out / f"{STEM}.md").write_text(text, "utf-8")
    print(text)


if __name__ == "__main__":
    main()
