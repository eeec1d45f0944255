"""How robust are four small networks, and in which metric? The main job of pwcf, on what the package brings along.

    make demo

For every network of the zoo (one trained as usual, three adversarially: linf, l2, l1) and 100 Fashion-MNIST images:

1. the distance to the nearest misclassified image in l1, l2 and linf, by three attacks together;
2. robust accuracy within linf 0.1 (max-loss);
3. a report of it all: out/demo/report.html, one file that opens in any browser.

Everything is done by the commands it prints; run folders are in out/demo/runs.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import shlex
import shutil
import time
from pathlib import Path

import torch

from pwcf import analysis, load_run, zoo
from pwcf.cli import main as pwcf

ATTACKS = "standard"
METRICS = ("linf", "l2", "l1")
EPS = 0.1
BUDGET = 900
"""passes a sample for the three attacks together: a quick look; the default is 6000"""
IMAGES = 100


def commands(folder: Path, networks: list[str], images: int) -> dict[str, list[str]]:
    """Command lines by the names of their runs."""
    found = {}
    for network in networks:
        asked = ["run", "--model", f"zoo:{network}", "--data", "zoo:fashion-mnist", "--limit", str(images)]
        asked += ["--attacks", ATTACKS, "--budget", str(BUDGET), "--threads", "1", "--chunk", str(images)]
        for metric in METRICS:
            out = folder / f"{network}-{metric}"
            found[out.name] = [*asked, "--metric", metric, "--out", str(out)]
        out = folder / f"{network}-within"
        loss = ["--question", "max-loss", "--metric", "linf", "--eps", str(EPS)]
        found[out.name] = [*asked, *loss, "--out", str(out)]
    return found


def summary(folder: Path, networks: list[str]) -> list[str]:
    """Median radii, and robust accuracy with its interval."""
    lines = [
        f"{'network':18s}" + "".join(f"{'median ' + metric:>14s}" for metric in METRICS) + "   robust within linf 0.1"
    ]
    for network in networks:
        medians = [analysis.quantiles_of(load_run(folder / f"{network}-{m}", tensors=False))[0.5] for m in METRICS]
        accuracy = analysis.accuracy_of(load_run(folder / f"{network}-within", tensors=False))
        robust = f"{accuracy.robust:6.0%}  ({accuracy.low:.0%} to {accuracy.high:.0%})"
        lines.append(f"{network:18s}" + "".join(f"{median:14.3f}" for median in medians) + f"   {robust}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description="How robust are four small networks, and in which metric?")
    parser.add_argument("--out", type=Path, default=Path("out") / "demo")
    parser.add_argument("--images", type=int, default=IMAGES, help=f"of 200, default {IMAGES}")
    args = parser.parse_args()
    torch.set_num_threads(1)  # small networks: threads would only wait for each other
    began = time.perf_counter()
    runs, networks = args.out / "runs", zoo.names()
    shutil.rmtree(runs, ignore_errors=True)
    asked = commands(runs, networks, args.images)
    for count, words in enumerate(asked.values(), 1):
        print(f"[{count}/{len(asked)}] pwcf {shlex.join(words)}", flush=True)
        with contextlib.redirect_stdout(io.StringIO()):  # its own summary; all of them together come last
            code = pwcf([*words, "--quiet"])
        if code:
            raise SystemExit(code)
    report = args.out / "report.html"
    words = ["report", *(str(runs / name) for name in asked), "-o", str(report)]
    print(f"pwcf report {runs}/* -o {report}", flush=True)
    if code := pwcf(words):
        raise SystemExit(code)
    print("\n" + "\n".join(summary(runs, networks)))
    print(
        f"\n{args.images} images, {BUDGET} passes each for three attacks together; every point was verified. "
        f"{time.perf_counter() - began:.0f} seconds."
    )


if __name__ == "__main__":
    main()
