"""Robust accuracy, passes and time of ``"lmn"`` against APGD, AutoAttack, MALT, PMA and Frank-Wolfe.

Over the first 100 correctly classified images of five networks, at the usual eps; only verified points within eps
count. The time is compared with that of two implementations of APGD (margin loss, 5 restarts x 100): they and ours take
turns in one process, on one thread, and the least of ``--repeats`` wall times counts. MALT, PMA and Frank-Wolfe are
those of pwcf's registry with 2000 passes. AutoAttack's standard ensemble takes hours: its accuracy and passes are read
from the files of ``rivals.accuracies`` if they are there. Needs the peers' environment (see ``rivals``)::

    PYTHONPATH=benchmarks python -m rivals.accuracies --rivals autoattack --out results/maxloss
    PYTHONPATH=benchmarks python benchmarks/maxloss.py --results results/maxloss --out docs/benchmarks

Every question and attack leaves a file in the folder of results, and what is there is not computed again.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import torch
from rivals import checking, nets, records
from rivals.accuracies import EPS, file_of
from rivals.counting import Counted
from rivals.maximum_loss import RIVALS

import pwcf

APGD = ("apgd", "apgd_original")
TIMED = ("lmn", *APGD)
"""Run in turn: one time says nothing without the others'."""
OURS = {"lmn": "lmn", "malt": "MALT", "pma": "PMA", "fw": "FW"}
TODAY = ("malt", "pma", "fw")
BUDGET = 2000
STEM = "maxloss"


@dataclass(frozen=True)
class Result:
    robust_accuracy: float
    passes: float
    seconds: float

    @classmethod
    def read(cls, path: Path) -> Result | None:
        """From a file of this benchmark, or of ``rivals.accuracies``."""
        if not path.exists():
            return None
        row = next(csv.DictReader(line for line in path.read_text("utf-8").splitlines() if not line.startswith("#")))
        if "passes" not in row:
            row["passes"] = str(float(row["forward"]) + float(row["backward"]))
            row["seconds"] = row["seconds_total"]
        return cls(*(float(row[field.name]) for field in fields(cls)))

    def write(self, path: Path, comment: str) -> None:
        names = [field.name for field in fields(self)]
        records.write(path, [comment], names, [[f"{getattr(self, name):.6g}" for name in names]])


def ours(task: nets.Task, norm: str, eps: float, name: str) -> Result:
    began = time.perf_counter()
    run = pwcf.evaluate(task.net, task.images, task.labels, pwcf.MaxLoss(norm, eps), attacks=name, budget=BUDGET)
    seconds = time.perf_counter() - began
    broken = checking.broken(task.net, task.images, task.labels, run.x_adv, norm, eps)
    if not torch.equal(broken, run.adversarial):
        raise AssertionError("the rivals' check and ours disagree")
    return Result(run.robust_accuracy, float(run.passes.total.double().mean()), seconds)


def rival(task: nets.Task, norm: str, eps: float, name: str) -> Result:
    model = Counted(task.net)
    torch.manual_seed(0)
    began = time.perf_counter()
    points = RIVALS[name](norm, eps).attack(model, task.images.clone(), task.labels.clone())
    seconds = time.perf_counter() - began
    broken = checking.broken(task.net, task.images, task.labels, points, norm, eps)
    passes = (model.forward_rows + model.backward_rows) / len(task.images)
    return Result(float((~broken).double().mean()), passes, seconds)


def in_turn(task: nets.Task, norm: str, eps: float, names: tuple[str, ...], repeats: int) -> dict[str, Result]:
    """Accuracy and passes are the same every time; the least time is the one that least disturbed."""
    results: dict[str, Result] = {}
    for _ in range(repeats):
        for name in names:
            result = (ours if name in OURS else rival)(task, norm, eps, name)
            if name not in results or result.seconds < results[name].seconds:
                results[name] = result
    return results


def compute(args: argparse.Namespace) -> None:
    """What is missing."""
    warm: set[str] = set()

    def answer(task: nets.Task, norm: str, eps: float, names: tuple[str, ...], repeats: int) -> None:
        if task.name not in warm:  # first calls are slow
            pwcf.evaluate(task.net, task.images[:4], task.labels[:4], pwcf.MinRadius("l2"), budget=50)
            warm.add(task.name)
        for name, result in in_turn(task, norm, eps, names, repeats).items():
            comment = f"{task.name} {norm} eps {eps:.6g} {name}, {args.images} images, least of {repeats} times"
            result.write(file_of(args.results, task.name, norm, eps, name), comment)
            print(comment, result, flush=True)

    for net in args.nets:
        task: nets.Task | None = None
        for norm, eps in EPS[nets.DATASETS[net]]:
            groups = [(TIMED, args.repeats), *(((name,), 1) for name in TODAY)]
            for names, repeats in groups:
                wanted = any(name in args.attacks for name in names)
                if wanted and not all(file_of(args.results, net, norm, eps, name).exists() for name in names):
                    task = task or nets.load(net, args.images)
                    answer(task, norm, eps, names, repeats)


Row = dict[str, Result]


def questions(args: argparse.Namespace) -> Iterator[tuple[str, str, float, Row]]:
    for net in args.nets:
        for norm, eps in EPS[nets.DATASETS[net]]:
            found = {
                name: result
                for name in (*TIMED, "autoattack", *TODAY)
                if (result := Result.read(file_of(args.results, net, norm, eps, name))) is not None
            }
            if set(TIMED) <= set(found):
                yield net, norm, eps, found


def table(rows: list[tuple[str, str, float, Row]]) -> list[str]:
    names = {"lmn": "lmn", "apgd": "APGD adv-lib", "apgd_original": "APGD original", "autoattack": "AutoAttack"}
    names |= {name: OURS[name] for name in TODAY}

    def lines(title: str, columns: tuple[str, ...], say: Callable[[Result], str]) -> list[str]:
        head = ["", f"## {title}", "", "| net | norm | eps | " + " | ".join(names[name] for name in columns) + " |"]
        head.append("|---" * (3 + len(columns)) + "|")
        for net, norm, eps, row in rows:
            cells = " | ".join(say(row[name]) if name in row else "" for name in columns)
            head.append(f"| {net} | {norm} | {eps:.4g} | {cells} |")
        return head

    return [
        *lines("Robust accuracy", tuple(names), lambda result: f"{result.robust_accuracy:.2f}"),
        *lines("Passes per image", tuple(names), lambda result: f"{result.passes:.0f}"),
        *lines("Seconds", TIMED, lambda result: f"{result.seconds:.1f}"),
    ]


def summary(rows: list[Row]) -> str:
    def no_higher(row: Row, *others: str) -> bool:
        return all(row["lmn"].robust_accuracy <= row[other].robust_accuracy for other in others)

    def least_apgd(row: Row) -> float:
        return min(row[name].seconds for name in APGD)

    cases = len(rows)
    faster = sum(row["lmn"].seconds <= least_apgd(row) for row in rows)
    seconds = {name: sum(row[name].seconds for row in rows) for name in TIMED}
    text = (
        f"Robust accuracy no higher than either APGD's on {sum(no_higher(row, *APGD) for row in rows)} of {cases}, in "
        f"no more wall time than the faster of them on {faster} of {cases}; {seconds['lmn']:.0f} s in all against "
        f"{seconds[APGD[0]]:.0f} s and {seconds[APGD[1]]:.0f} s."
    )
    known = [row for row in rows if "autoattack" in row]
    tenth = sum(row["lmn"].passes <= 0.1 * row["autoattack"].passes for row in known)
    if known:
        text += (
            f" No higher than AutoAttack's on {sum(no_higher(row, 'autoattack') for row in known)} of {len(known)}, in "
            f"a tenth of its passes on {tenth} of {len(known)}."
        )
    counts = []
    for name in TODAY:
        known = [row for row in rows if name in row]
        counts.append(f"{OURS[name]}'s on {sum(no_higher(row, name) for row in known)} of {len(known)}")
    return text + f" No higher than {', '.join(counts)}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", nargs="+", choices=nets.DATASETS, default=list(nets.DATASETS), metavar="NET")
    parser.add_argument("--attacks", nargs="*", choices=(*TIMED, *TODAY), default=(*TIMED, *TODAY), metavar="ATTACK")
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=2, help="of the attacks whose time is compared")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--results", type=Path, required=True, help="a file for every question and attack")
    parser.add_argument("--out", type=Path, default=None, help="where the table goes; default: it is printed")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    compute(args)
    rows = list(questions(args))
    lines = table(rows)
    times = "one wall time each" if args.repeats == 1 else f"the least of {args.repeats} wall times each"
    head = (
        f"First {args.images} correctly classified images of each network, {args.threads} thread(s). lmn and both "
        f"APGDs took turns in one process, {times}. MALT, PMA and FW are pwcf's own with {BUDGET} passes. "
        f"AutoAttack's results are from `python -m rivals.accuracies`. Made by `python benchmarks/{STEM}.py`."
    )
    text = "\n".join(["# Max-loss", "", head, "", summary([row for *_, row in rows]), *lines, ""])
    if args.out is None:
        print(text)
    else:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / f"{STEM}.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
