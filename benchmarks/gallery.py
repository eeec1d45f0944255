"""Every kind of figure of the paper, made on real networks: writes docs/gallery.md with the commands that made them.

    python benchmarks/gallery.py            # everything; runs that are there are kept, so it goes on where it stopped
    python benchmarks/gallery.py --only patterns,sparsity

Runs and images go to out/gallery; the figures to docs/images/gallery. The networks and test sets are not part of this
repository (see realdata.py); of the test sets the first images are taken, whatever the networks say of them.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import shlex
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from pictures.ablations import ABLATIONS
from pictures.items import FIGURES, OUT, Figure, all_runs
from realdata import REPOSITORY, find_zoo

from pwcf.cli import main as pwcf

PICTURES = Path("docs") / "images" / "gallery"
PAGE = Path("docs") / "gallery.md"
DATA = {"cifar10": 100, "fashion_mnist": 1, "imagenet80": 80}


def prepare_images() -> None:
    """The first images of each set, channels first, as pwcf run takes them."""
    zoo = find_zoo()
    if zoo is None:
        raise SystemExit("gallery: the real networks are not here; PWCF_REALDATA names their folder")
    OUT.mkdir(parents=True, exist_ok=True)
    for name, count in DATA.items():
        path = OUT / f"{name}.npz"
        if not path.exists():
            images, labels = zoo.load_images(name, n=count)
            np.savez(path, images=(255 * images).round().to(torch.uint8).numpy(), labels=labels.numpy())
    # Where the perceptual distance finds its network.
    os.environ.setdefault("PWCF_WEIGHTS", str(Path(zoo.__file__).parent / "lpips"))


def finished(name: str, words: Sequence[str]) -> None:
    """A run that is there, or is now."""
    began = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        code = pwcf([*words, "--out", str(OUT / name), "--quiet"])
    if code:
        raise SystemExit(f"gallery: the run {name} ended with {code}")
    print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)


def draw(figure: Figure) -> Path:
    path = PICTURES / f"{figure.name}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    print(f"{path}", flush=True)
    if figure.command[0] == "python":
        next(each for each in ABLATIONS if each.name == figure.name).write(path)
    elif code := pwcf(whole_command(figure)):
        raise SystemExit(f"gallery: the figure {figure.name} ended with {code}")
    return path


def whole_command(figure: Figure) -> list[str]:
    kind, options = list(figure.command[:2]), list(figure.command[2:])
    return [*kind, *(str(OUT / name) for name in figure.runs), *options, "-o", str(PICTURES / f"{figure.name}.png")]


def page(runs: dict[str, list[str]]) -> str:
    lines = [
        "# Gallery",
        "",
        "Every kind of figure in the paper's experiments, made by `pwcf` on real networks, with the command that made "
        "it. [analyses.md](analyses.md) says how to read each, and how to have its numbers. All of them at once: "
        "`python benchmarks/gallery.py` (the networks are not part of this repository).",
        "",
    ]
    for each in FIGURES:
        picture = f"images/gallery/{each.name}.png"
        command = " ".join(each.command) if each.command[0] == "python" else f"pwcf {shlex.join(whole_command(each))}"
        lines += [
            f"## {each.title}",
            "",
            each.says,
            "",
            f"![{each.title}]({picture})",
            "",
            "```text",
            command,
            "```",
            "",
        ]
    lines += ["## The runs", "", "By these commands, with the first images of the test sets in out/gallery:", ""]
    lines += (
        ["```text"] + [f"pwcf {shlex.join(words)} --out {OUT / name}" for name, words in runs.items()] + ["```", ""]
    )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Every kind of figure of the paper, made on real networks.")
    parser.add_argument("--only", help="names of figures, with commas; the page is left as it is")
    parser.add_argument("--runs-only", action="store_true", help="make the runs, draw nothing")
    args = parser.parse_args()
    os.chdir(REPOSITORY)
    torch.set_num_threads(1)
    prepare_images()
    runs = all_runs()
    names = args.only.split(",") if args.only else [each.name for each in FIGURES]
    chosen = [each for each in FIGURES if each.name in names]
    if unknown := set(names) - {each.name for each in chosen}:
        raise SystemExit(
            f"gallery: --only: expected names out of {', '.join(f.name for f in FIGURES)}; found {unknown}"
        )
    for name in dict.fromkeys(name for each in chosen for name in each.runs):
        finished(name, runs[name])
    if args.runs_only:
        return
    for each in chosen:
        draw(each)
    if not args.only:
        PAGE.write_text(page(runs), "utf-8")
        print(PAGE)


if __name__ == "__main__":
    main()
