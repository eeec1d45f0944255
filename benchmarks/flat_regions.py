"""How many images have an answer at all on a net that is flat around some of them.

A standard fully connected MNIST net (784-256-256-10, ReLU): around many of its eights hidden units are dead and slopes
lead far out and fade. The first 100 eights that it knows and the first 100 of its other digits; ``"lmn"`` and its
rivals at their published settings, verified points only. Needs the peers' environment (see ``rivals``)::

    PYTHONPATH=src:benchmarks python benchmarks/flat_regions.py --out docs/benchmarks
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch
from realdata import find_zoo, first_correct
from rivals import checking
from rivals.counting import Counted
from rivals.minimum_norm import RIVALS
from torch import Tensor, nn

import pwcf

NET, DATASET, DIGIT, IMAGES = "mnist_fc_256x2", "mnist", 8, 100
STEM = "flat_regions"
BUDGETS = (500, 2000)


def lines_of(norm: str, net: nn.Module, images: Tensor, labels: Tensor) -> list[str]:
    """One line of the table for every attack."""
    eights, table = labels == DIGIT, []

    def add(name: str, points: Tensor, passes: float, seconds: float) -> None:
        radius = checking.radii(net, images, labels, points, norm)
        cells = []
        for group in (eights, ~eights):
            found = radius[group].isfinite()
            cells += [f"{int(found.sum())} of {len(found)}", f"{radius[group].median():.4g}"]
        table.append(f"| {norm} | {name} | {' | '.join(cells)} | {passes:.0f} | {seconds / len(images):.2f} |")
        print(table[-1], flush=True)

    for budget in BUDGETS:
        began = time.process_time()
        run = pwcf.evaluate(net, images, labels, pwcf.MinRadius(norm), budget=budget)
        passes = float(run.passes.total.double().mean())
        add(f"pwcf {budget}", run.x_adv, passes, time.process_time() - began)
    for name, rival in RIVALS.items():
        if norm in rival.norms:
            model = Counted(net)
            torch.manual_seed(0)
            began = time.process_time()
            points = rival.build(norm, DATASET, None).attack(model, images.clone(), labels.clone())
            passes = (model.forward_rows + model.backward_rows) / len(images)
            add(name, points, passes, time.process_time() - began)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    zoo = find_zoo()
    if zoo is None:
        raise SystemExit("no zoo.py in the folder of real networks: name that folder in PWCF_REALDATA")
    net = zoo.load_net(NET)
    images, labels, _ = first_correct(zoo, net, DATASET, 20 * IMAGES)
    chosen = torch.cat([(labels == DIGIT).nonzero()[:IMAGES], (labels != DIGIT).nonzero()[:IMAGES]]).squeeze(1)
    head = [
        "# Flat regions",
        "",
        f"Net {NET}, the first {IMAGES} correctly classified eights and the first {IMAGES} other digits; verified "
        f"points only; medians count images without an answer as infinite. Made by `python benchmarks/{STEM}.py`; "
        f"torch {torch.__version__}, {args.threads} thread(s).",
        "",
        "| norm | attack | eights found | median | others found | median | passes | CPU s an image |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines = [line for norm in ("linf", "l2", "l1") for line in lines_of(norm, net, images[chosen], labels[chosen])]
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / f"{STEM}.md").write_text("\n".join([*head, *lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
