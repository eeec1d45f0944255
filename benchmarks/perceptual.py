"""Questions in perceptual distances: the paper's table with PD, radii against LPA and ALMA, evidence, LPIPS's examples.

    python benchmarks/perceptual.py --results out/perceptual --out docs/benchmarks

Needs the real networks (PWCF_REALDATA, or beside this repository) and adv-lib. Every measurement is a file in the
folder of results: a run that was stopped goes on, and parts may run beside each other. Two hours on one thread; --help
tells parts and nets.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from perception import lpips, maxloss, radius
from perception.cells import Cells
from perception.tasks import NETS

PARTS = ("lpips", "maxloss", "radius")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART")
    parser.add_argument("--nets", nargs="+", choices=NETS, default=list(NETS), metavar="NET")
    parser.add_argument("--losses", nargs="+", choices=maxloss.LOSSES, default=list(maxloss.LOSSES), metavar="LOSS")
    parser.add_argument("--images", type=int, default=200, help="of max-loss")
    parser.add_argument("--radius-images", type=int, default=30)
    parser.add_argument("--longer-images", type=int, default=6, help="that go on ten times longer")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--results", type=Path, required=True, help="folder of measurements")
    parser.add_argument("--out", type=Path, required=True, help="folder of tables")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    cells = Cells(args.results)
    args.out.mkdir(parents=True, exist_ok=True)
    for part in args.parts:
        if part == "lpips":
            lines = lpips.table()
        elif part == "maxloss":
            lines = maxloss.table(cells, args.nets, args.losses, args.images)
        else:
            lines = radius.table(cells, args.nets, args.radius_images)
            lines += radius.evidence(cells, args.nets, args.radius_images, args.longer_images)
        path = args.out / f"perceptual_{part}.md"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
