"""Our APGD, FAB-T and Square against AutoAttack's own code at the same settings, on the same images.

    python benchmarks/agreement.py --out docs/benchmarks       # needs the peers of peers.txt and the real networks

Robust accuracy of APGD (CE, DLR and nine targets, 100 steps, one run) and Square (1000 queries, means over seeds),
mean radius of FAB-T (nine targets x 100 steps). Points of either side count only if they are verified.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable
from pathlib import Path

import torch
from pyautoattack.autopgd_base import APGDAttack, APGDAttack_targeted
from pyautoattack.fab_pt import FABAttack_PT
from pyautoattack.square import SquareAttack
from rivals import checking, nets
from torch import Tensor

import pwcf
from pwcf.attacks import Apgd, Attack, Fab, Square

STEM = "agreement"
STEPS, TARGETS, QUERIES = 100, 9, 1000
NETS = ("cifar10_cnn_a_adv4", "mnist_colt_linf01")
EPS = {
    "cifar10_cnn_a_adv4": (("linf", 2 / 255), ("l2", 0.5), ("l1", 12.0)),
    "mnist_colt_linf01": (("linf", 0.2), ("l2", 1.5), ("l1", 10.0)),
}
NAMES = {"l1": "L1", "l2": "L2", "linf": "Linf"}
QUIET = logging.getLogger("agreement")
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False
Theirs = Callable[[int], Tensor]


def peers(task: nets.Task, norm: str, eps: float) -> dict[str, tuple[Attack, Theirs, int]]:
    """Ours, theirs by seed, and how many seeds are averaged."""
    common = {"norm": NAMES[norm], "eps": eps, "device": torch.device("cpu"), "n_restarts": 1}
    large = norm == "l1"  # as published for l1

    def apgd(loss: str) -> Theirs:
        return lambda seed: APGDAttack(
            task.net, n_iter=STEPS, loss=loss, seed=seed, use_largereps=large, logger=QUIET, **common
        ).perturb(task.images, task.labels)

    def apgd_t(seed: int) -> Tensor:
        attack = APGDAttack_targeted(
            task.net, n_iter=STEPS, seed=seed, n_target_classes=TARGETS, use_largereps=large, logger=QUIET, **common
        )
        points: Tensor = attack.perturb(task.images, task.labels)
        return points

    def square(seed: int) -> Tensor:
        attack = SquareAttack(task.net, n_queries=QUERIES - 1, seed=seed, resc_schedule=True, **common)
        points: Tensor = attack.perturb(task.images, task.labels)
        return points

    return {
        "APGD CE": (Apgd(loss="ce", steps=STEPS, restarts=1), apgd("ce"), 2),
        "APGD DLR": (Apgd(loss="dlr", steps=STEPS, restarts=1), apgd("dlr"), 2),
        "APGD-T": (Apgd(loss="dlr", targets=TARGETS, steps=STEPS, restarts=1), apgd_t, 1),
        "Square": (Square(queries=QUERIES), square, 4),
    }


def accuracies(task: nets.Task, norm: str, eps: float) -> list[str]:
    lines = []
    for name, (attack, theirs, seeds) in peers(task, norm, eps).items():
        ours, other = [], []
        for seed in range(seeds):
            run = pwcf.evaluate(
                task.net, task.images, task.labels, pwcf.MaxLoss(norm, eps), attacks=attack, budget=4000, seed=seed
            )
            ours.append(100 * run.robust_accuracy)
            points = theirs(seed)
            broken = checking.broken(task.net, task.images, task.labels, points, norm, eps)
            other.append(100 * float((~broken).double().mean()))
        lines.append(_line(task.name, norm, f"{eps:.4g}", name, ours, other, f"{_mean(ours) - _mean(other):+.1f}"))
    return lines


def radii(task: nets.Task, norm: str) -> str:
    run = pwcf.evaluate(
        task.net,
        task.images,
        task.labels,
        pwcf.MinRadius(norm),
        attacks=Fab(targets=TARGETS, steps=STEPS, restarts=1),
        budget=4000,
    )
    attack = FABAttack_PT(task.net, norm=NAMES[norm], n_iter=STEPS, device=torch.device("cpu"))
    least = torch.full((len(task.labels),), torch.inf, dtype=torch.float64)
    for rank in range(2, TARGETS + 2):
        # Not attack.perturb: that leaves a sample alone once it is broken within an eps, and minimises no further.
        attack.target_class = rank
        points = attack.attack_single_run(task.images, task.labels, is_targeted=True)
        least = torch.minimum(least, checking.radii(task.net, task.images, task.labels, points, norm))
    both = torch.isfinite(least) & torch.isfinite(run.radius)
    ours, other = [float(run.radius[both].mean())], [float(least[both].mean())]
    return _line(task.name, norm, "", "FAB-T, mean radius", ours, other, f"{ours[0] / other[0] - 1:+.1%}")


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _line(net: str, norm: str, eps: str, name: str, ours: list[float], other: list[float], difference: str) -> str:
    def shown(values: list[float]) -> str:
        spread = f" ({min(values):.4g} to {max(values):.4g})" if len(values) > 1 else ""
        return f"{_mean(values):.4g}{spread}"

    line = f"| {net} | {norm} | {eps} | {name} | {shown(ours)} | {shown(other)} | {difference} |"
    print(line, flush=True)
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", nargs="+", choices=NETS, default=list(NETS))
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    lines = [
        "# Agreement with AutoAttack's own code",
        "",
        f"First {args.images} correctly classified images. Robust accuracy in percent (mean over seeds, least to "
        "largest), and mean radius. Made by `python benchmarks/agreement.py`.",
        "",
        "| net | norm | eps | attack | ours | pyautoattack | difference |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in args.nets:
        task = nets.load(name, args.images)
        for norm, eps in EPS[name]:
            lines += [*accuracies(task, norm, eps), radii(task, norm)]
            (args.out / f"{STEM}.md").write_text("\n".join([*lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
