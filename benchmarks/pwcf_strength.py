"""PWCF, the paper's method: radii against FAB and ``"lmn"``, robust accuracy against APGD, every technique on and off.

Every cell (net x question x attack) is a JSON file in ``--out``; a run goes on where the last one ended, and cells that
are there are only read. The page is written from all cells that are there::

    OMP_NUM_THREADS=1 PYTHONPATH=benchmarks python benchmarks/pwcf_strength.py --out results/pwcf --images 20 \\
        --parts radius,margin,ce,largest --page docs/benchmarks/pwcf.md
    OMP_NUM_THREADS=1 PYTHONPATH=benchmarks python benchmarks/pwcf_strength.py --out results/pwcf \\
        --parts techniques,clipping --images 20

Samples are the first test images that the net classifies correctly, points are verified. FAB is untargeted with five
restarts of 100 steps, as in the paper, APGD has five restarts of 100 steps; both have the passes that this takes. The
others have 2000.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import torch
from rivals import nets

import pwcf
from pwcf.attacks import Attack, as_attack
from pwcf.attacks.apgd import Apgd
from pwcf.attacks.fab import Fab
from pwcf.attacks.pwcf import Pwcf

NETS = tuple(nets.DATASETS)
EPS = {"cifar10": {"linf": 4 / 255, "l2": 0.5, "l1": 12.0}, "mnist": {"linf": 0.15, "l2": 1.5, "l1": 10.0}}
EPS["fashion_mnist"] = {"linf": 0.1, "l2": 0.8, "l1": 5.0}
BUDGET, PUBLISHED_FAB, PUBLISHED_APGD = 2000, 10_500, 1200
FULL = Pwcf()
TECHNIQUES: dict[str, Attack] = {
    "default": FULL,
    "no native bounds": replace(FULL, native=False),
    "no rescaling": replace(FULL, rescale=False),
    "native, random starts": replace(FULL, linearise=False),
    "as published": Pwcf.as_published(),
    "published, folds in l1": replace(Pwcf.as_published(), fold=1.0),
    "published, folds in linf": replace(Pwcf.as_published(), fold=math.inf),
    "published, no reformulation": replace(Pwcf.as_published(), reformulate=False),
    "published, no rescaling": replace(Pwcf.as_published(), rescale=False),
    "published, one start": replace(Pwcf.as_published(), starts=1),
}
CLIPPING: dict[str, Attack] = {
    f"{kind}, {loss}{', not clipped' * (not clip)}": replace(attack, loss=loss, clip=clip)
    for kind, attack in (("default", FULL), ("as published", Pwcf.as_published()))
    for loss in ("margin", "ce")
    for clip in (True, False)
}
ABLATIONS = {"techniques": TECHNIQUES, "clipping": CLIPPING}
"""Parts with every setting of PWCF on its own, on min-radius and on max-loss."""


@dataclass(frozen=True)
class Cell:
    """One attack on one question about one net."""

    part: str
    net: str
    metric: str
    attack: str
    make: Callable[[], Attack]
    budget: int = BUDGET

    def path(self, out: Path, images: int) -> Path:
        return out / f"{self.part}.{self.net}.{self.metric}.{self.attack.replace(' ', '_')}.{images}.json"


def cells(part: str, names: tuple[str, ...]) -> Iterator[Cell]:
    """All cells of a part of the page."""
    if part == "radius":
        for net in names:
            for metric in ("linf", "l2", "l1", "l1.5", "l8"):
                for attack in ("pwcf", "lmn"):
                    yield Cell(part, net, metric, attack, lambda attack=attack: as_attack(attack))
                if metric in ("linf", "l2", "l1"):
                    yield Cell(part, net, metric, "fab", lambda: Fab(steps=100, restarts=5), PUBLISHED_FAB)
    elif part in ABLATIONS:
        for net in names:
            for metric in ("linf", "l2", "l1"):
                for name, attack in ABLATIONS[part].items():
                    yield Cell(part, net, metric, name, lambda attack=attack: attack)
    else:
        for net in names:
            for metric in ("linf", "l2", "l1"):
                for attack in ("pwcf", "lmn"):
                    yield Cell(part, net, metric, attack, lambda attack=attack: as_attack(attack))
                yield Cell(part, net, metric, "apgd", lambda: Apgd(steps=100, restarts=5), PUBLISHED_APGD)


@lru_cache(maxsize=1)
def task_of(name: str, images: int) -> nets.Task:
    return nets.load(name, images)


def measure(cell: Cell, images: int) -> dict[str, Any]:
    """The cell's numbers, per sample."""
    task = task_of(cell.net, images)
    if cell.part in ("radius", "techniques"):
        question: pwcf.MinRadius | pwcf.MaxLoss = pwcf.MinRadius(cell.metric)
    else:
        loss = "margin" if cell.part in ("margin", "clipping") else "ce"
        eps = EPS[task.dataset][cell.metric]
        question = pwcf.MaxLoss(cell.metric, eps, loss, clip=cell.part != "largest")
    began = time.process_time()
    run = pwcf.evaluate(
        task.net, task.images, task.labels, question, attacks=cell.make(), budget=cell.budget, stop="budget"
    )
    return {
        "radius": [r if math.isfinite(r) else None for r in run.radius.tolist()],
        "loss": run.loss.tolist(),
        "status": [status.value for status in run.status],
        "stationarity": [None if math.isnan(s) else s for s in run.evidence.stationarity.tolist()],
        "passes": run.passes.total.tolist(),
        "cpu": (time.process_time() - began) / len(task.labels),
    }


# ---- the page -------------------------------------------------------------------------------------


def read(out: Path, parts: tuple[str, ...], images: int, names: tuple[str, ...]) -> dict[Cell, dict[str, Any]]:
    found = {}
    for part in parts:
        for cell in cells(part, names):
            if (path := cell.path(out, images)).is_file():
                found[cell] = json.loads(path.read_text())
    return found


def said(cell: Cell, result: dict[str, Any]) -> str:
    """What a table says of a cell: mean radius (and how many are missing), robust accuracy, or mean loss."""
    radius = [r for r in result["radius"] if r is not None]
    if cell.part in ("radius", "techniques"):
        missing = len(result["radius"]) - len(radius)
        mean = f"{sum(radius) / len(radius):.4g}" if radius else "–"
        return mean + (f" ({missing} not found)" if missing else "")
    if cell.part == "largest":
        return f"{sum(result['loss']) / len(result['loss']):.4f}"
    return f"{100 * (1 - len(radius) / len(result['radius'])):.0f} %"


TITLES = {
    "radius": "Min-radius: mean verified radius",
    "margin": "Max-loss, margin: robust accuracy",
    "ce": "Max-loss, cross-entropy: robust accuracy",
    "largest": "Largest cross-entropy within eps (`clip=False`): mean",
    "techniques": "Techniques on and off: mean verified radius",
    "clipping": "Clipping on and off: robust accuracy",
}


def verdicts(results: dict[Cell, dict[str, Any]]) -> dict[str, str]:
    """For each part what its table comes to, in a sentence."""
    by = {(cell.part, cell.net, cell.metric, cell.attack): result for cell, result in results.items()}

    def pairs(part: str, ours: str, other: str, metrics: tuple[str, ...]) -> list[tuple[float, float]]:
        """Means of both where both are there: radii with inf where one is missing, robust accuracy, or losses."""
        keys = [key for key in by if key[0] == part and key[2] in metrics and key[3] == ours]
        both = [(by[key], by.get((*key[:3], other))) for key in keys]
        return [(value(part, mine), value(part, theirs)) for mine, theirs in both if theirs is not None]

    def value(part: str, result: dict[str, Any]) -> float:
        radius = [math.inf if r is None else r for r in result["radius"]]
        if part == "largest":
            return sum(result["loss"]) / len(radius)
        return sum(map(math.isinf, radius)) / len(radius) if part in ("margin", "ce") else sum(radius) / len(radius)

    def count(compared: list[tuple[float, float]], holds: Callable[[float, float], bool]) -> str:
        return f"{sum(holds(*pair) for pair in compared)} of {len(compared)}"

    radius, here = partial(pairs, "radius", "pwcf"), [key for key in by if key[0] == "radius" and key[3] == "pwcf"]
    sentences = {}
    if here:
        l1_l2 = count(radius("fab", ("l1", "l2")), lambda a, b: a <= b)
        linf = count(radius("fab", ("linf",)), lambda a, b: a <= 1.01 * b)
        others = count(radius("lmn", ("l1.5", "l8")), lambda a, b: a <= 1.03 * b)
        missing = sum(r is None for key in here for r in by[key]["radius"])
        sentences["radius"] = (
            f"pwcf is no larger than FAB on {l1_l2} pairs in l1 and l2, at most 1 % larger on {linf} in linf, and at "
            f"most 3 % larger than lmn on {others} in l1.5 and l8. Samples without a point: {missing}. At most "
            f"{max(by[key]['cpu'] for key in here):.2f} s of CPU an image."
        )
    for part, points in (("margin", 0.01), ("ce", 0.03)):
        if compared := pairs(part, "pwcf", "apgd", ("linf", "l2", "l1")):
            close = count(compared, lambda a, b, most=points: a <= b + most + 1e-9)
            sentences[part] = f"pwcf is at most {points:.2f} above APGD on {close}."
    if compared := pairs("largest", "pwcf", "apgd", ("linf", "l2", "l1")):
        pwcf_, lmn = (
            count(pairs("largest", name, "apgd", ("linf", "l2", "l1")), lambda a, b: a >= b) for name in ("pwcf", "lmn")
        )
        sentences["largest"] = f"No lower than APGD: pwcf on {pwcf_}, lmn on {lmn}."
    return sentences


def page(results: dict[Cell, dict[str, Any]], images: int) -> str:
    lines = ["# PWCF", "", (__doc__ or "").split("::\n\n")[0].strip().split("\n\n")[0], ""]
    lines += [
        "FAB has five restarts of 100 steps (5,030 passes), APGD the same (1,008); the others have 2,000 passes.",
        "",
    ]
    lines += [f"First {images} correctly classified images; CPU is in seconds an image on one shared core.", ""]
    said_of = verdicts(results)
    for part, title in TITLES.items():
        rows: dict[tuple[str, str], dict[str, str]] = {}
        for cell, result in results.items():
            if cell.part == part:
                text = said(cell, result)
                if cell.attack == "pwcf" or part in ABLATIONS:
                    text += f"; {result['cpu']:.2f} s"
                if part in ABLATIONS:
                    text += f", {sum(result['passes']) / len(result['passes']):.0f} passes"
                rows.setdefault((cell.net, cell.metric), {})[cell.attack] = text
        if not rows:
            continue
        names = list(dict.fromkeys(name for row in rows.values() for name in row))
        lines += [f"## {title}", "", *([said_of[part], ""] if part in said_of else [])]
        lines += ["| net | metric | " + " | ".join(names) + " |"]
        lines += ["| --- | --- |" + " --- |" * len(names)]
        for (net, metric), row in rows.items():
            lines.append(f"| {net} | {metric} | " + " | ".join(row.get(name, "") for name in names) + " |")
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--images", type=int, default=20)
    parser.add_argument("--parts", default="radius,margin,ce,largest")
    parser.add_argument("--nets", default=",".join(NETS))
    parser.add_argument("--metrics", default="linf,l2,l1,l1.5,l8")
    parser.add_argument("--attacks", help="only these")
    parser.add_argument("--page", type=Path, help="write the page here")
    args = parser.parse_args()
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    names = tuple(args.nets.split(","))
    for part in args.parts.split(","):
        for cell in cells(part, names):
            path = cell.path(args.out, args.images)
            if path.is_file() or cell.metric not in args.metrics.split(","):
                continue
            if args.attacks is not None and cell.attack not in args.attacks.split(","):
                continue
            result = measure(cell, args.images)
            partial = path.with_suffix(".partial")
            partial.write_text(json.dumps(result))
            partial.replace(path)
            print(part, cell.net, cell.metric, cell.attack, said(cell, result), f"{result['cpu']:.2f} s", flush=True)
    if args.page is not None:
        args.page.write_text(page(read(args.out, tuple(TITLES), args.images, names), args.images))


if __name__ == "__main__":
    main()
