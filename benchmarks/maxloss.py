"""Robust accuracy and wall time of ``"lmn"`` against APGD (margin loss, 5 restarts x 100), in one run.

Ours and both implementations of APGD take turns on every net and eps, on one thread, over the first 100 correctly
classified images; only verified points within eps count. AutoAttack's standard ensemble takes hours: its accuracy and
passes are read from the files of ``rivals.accuracies`` if they are there. Needs the peers' environment (see
``rivals``)::

    PYTHONPATH=benchmarks python -m rivals.accuracies --rivals autoattack --out results/maxloss
    PYTHONPATH=benchmarks python benchmarks/maxloss.py --autoattack results/maxloss --out docs/benchmarks
"""

from __future__ import annotations

import argparse
import csv
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from rivals import checking, nets
from rivals.accuracies import EPS, file_of
from rivals.counting import Counted
from rivals.maximum_loss import RIVALS

import pwcf

APGD = ("apgd", "apgd_original")
STEM = "maxloss"


@dataclass(frozen=True)
class Result:
    accuracy: float
    seconds: float
    passes: float


def ours(task: nets.Task, norm: str, eps: float, budget: int) -> Result:
    began = time.perf_counter()
    run = pwcf.evaluate(task.net, task.images, task.labels, pwcf.MaxLoss(norm, eps), budget=budget)
    seconds = time.perf_counter() - began
    broken = checking.broken(task.net, task.images, task.labels, run.x_adv, norm, eps)
    if not torch.equal(broken, run.adversarial):
        raise AssertionError("the rivals' check and ours disagree")
    return Result(run.robust_accuracy, seconds, float(run.passes.total.double().mean()))


def rival(task: nets.Task, norm: str, eps: float, name: str) -> Result:
    model = Counted(task.net)
    torch.manual_seed(0)
    began = time.perf_counter()
    points = RIVALS[name](norm, eps).attack(model, task.images.clone(), task.labels.clone())
    seconds = time.perf_counter() - began
    broken = checking.broken(task.net, task.images, task.labels, points, norm, eps)
    passes = (model.forward_rows + model.backward_rows) / len(task.images)
    return Result(float((~broken).double().mean()), seconds, passes)


def stored(folder: Path | None, net: str, norm: str, eps: float) -> Result | None:
    path = None if folder is None else file_of(folder, net, norm, eps, "autoattack")
    if path is None or not path.exists():
        return None
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    row = next(csv.DictReader(lines))
    passes = float(row["forward"]) + float(row["backward"])
    return Result(float(row["robust_accuracy"]), float(row["seconds_total"]), passes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", nargs="+", choices=nets.DATASETS, default=list(nets.DATASETS), metavar="NET")
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--budget", type=int, default=2000, help="ours")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--autoattack", type=Path, default=None, help="files of rivals.accuracies")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    lines = [
        "| net | norm | eps | pwcf | APGD adv-lib | APGD original | AutoAttack | seconds: pwcf, APGD, APGD | "
        "passes: pwcf, APGD, AutoAttack |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    accurate = faster = cases = ensemble = tenth = compared = 0
    total = {"lmn": 0.0, **dict.fromkeys(APGD, 0.0)}
    print("\n".join(lines), flush=True)
    for name in args.nets:
        task = nets.load(name, args.images)
        pwcf.evaluate(
            task.net, task.images[:4], task.labels[:4], pwcf.MinRadius("l2"), budget=50
        )  # first calls are slow
        for norm, eps in EPS[nets.DATASETS[name]]:
            mine = ours(task, norm, eps, args.budget)
            peers = {peer: rival(task, norm, eps, peer) for peer in APGD}
            auto = stored(args.autoattack, name, norm, eps)
            cases += 1
            accurate += mine.accuracy <= min(peer.accuracy for peer in peers.values())
            faster += mine.seconds <= min(peer.seconds for peer in peers.values())
            total["lmn"] += mine.seconds
            for peer in APGD:
                total[peer] += peers[peer].seconds
            if auto is not None:
                compared += 1
                ensemble += mine.accuracy <= auto.accuracy
                tenth += mine.passes <= 0.1 * auto.passes
            first, second = (peers[peer] for peer in APGD)
            lines.append(
                f"| {name} | {norm} | {eps:.4g} | {mine.accuracy:.2f} | {first.accuracy:.2f} | {second.accuracy:.2f} | "
                f"{'' if auto is None else f'{auto.accuracy:.2f}'} | "
                f"{mine.seconds:.1f}, {first.seconds:.1f}, {second.seconds:.1f} | "
                f"{mine.passes:.0f}, {first.passes:.0f}, {'' if auto is None else f'{auto.passes:.0f}'} |"
            )
            print(lines[-1], flush=True)
    lines += [
        "",
        f"Robust accuracy no higher than either APGD's on {accurate} of {cases}, in no more wall time than the faster "
        f"of them on {faster} of {cases}; {total['lmn']:.0f} s in all against {total[APGD[0]]:.0f} s and "
        f"{total[APGD[1]]:.0f} s. No higher than AutoAttack's on {ensemble} of {compared}, in a tenth of its passes on "
        f"{tenth} of {compared}.",
    ]
    print("\n".join(lines[-2:]))
    head = (
        f"First {args.images} correctly classified images, one run, {args.threads} thread(s), AutoAttack's results "
        f"from `python -m rivals.accuracies`. Made by `python benchmarks/{STEM}.py`."
    )
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / f"{STEM}.md").write_text("\n".join(["# Max-loss", "", head, "", *lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
