"""Record answers bit by bit, and compare two records: a change of the code that is to keep the answers can be shown to.

``record`` runs every attack, two presets, ``pwcf.minimize`` and adversarial training on small cases with fixed seeds,
on one thread, and keeps the SHA-256 of the exact bytes of whatever they return. It takes about five minutes of one
core. Every cell is written as it ends: the same command goes on where it was stopped, if code and machine are the
same::

    python benchmarks/answers.py record before.json
    ... change the code ...
    python benchmarks/answers.py record after.json
    python benchmarks/answers.py compare before.json after.json --rename old-name=new-name

``compare`` exits with 1 if an answer of BEFORE is another one in AFTER, or is not there. ``--only PATTERN``, a regular
expression, restricts either command to some cells. Their names look like ``attacks/fab/min-radius l2 fashion-l2``.

Bits are comparable only for the same version of torch on the same kind of processor; ``compare`` says where the two
records differ in that.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import json
import multiprocessing
import os
import platform
import random
import re
import subprocess
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from answer_cells import SEED, cells
from answer_differences import Content, difference

import pwcf

# What bits depend on beside the code.
ENVIRONMENT = ("torch", "numpy", "adv-lib", "python", "processor", "instructions", "threads")
# A record is continued only by the same code in the same environment.
SAME_TO_GO_ON = (*ENVIRONMENT, "code", "tool")


# ---- recording -------------------------------------------------------------------------------------


def answer(name: str) -> Content:
    """The content of a cell. That an attack does not support a problem is an answer, and so is an error."""
    cell = cells()[name]
    torch.set_num_threads(1)
    # The attacks of other libraries draw from global generators.
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)
    began = time.perf_counter()
    content: Content
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about points that were not found
        try:
            content = {"outcome": "answered", **cell.make()}
        except Exception as error:
            declined = isinstance(error, ValueError) and str(error).startswith("attacks:")
            if not declined:
                traceback.print_exc()
            outcome = "declined" if declined else f"error: {type(error).__name__}"
            content = {"outcome": outcome, "fields": {}, "passes": {}}
    place = {"section": cell.section, "attack": cell.attack, "case": cell.case}
    return {**place, **content, "seconds": round(time.perf_counter() - began, 2)}


def header() -> dict[str, Any]:
    package, tool = Path(pwcf.__file__).parent, Path(__file__).resolve()
    try:
        adv_lib = importlib.metadata.version("adv-lib")
    except importlib.metadata.PackageNotFoundError:
        adv_lib = "not installed"
    return {
        "torch": torch.__version__,
        "numpy": np.__version__,
        "adv-lib": adv_lib,
        "python": platform.python_version(),
        "processor": _processor(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "threads": 1,
        "commit": _commit(package),
        "code": _digest_of_files(package, package.rglob("*.py")),
        "tool": _digest_of_files(tool.parent, (tool, tool.with_name("answer_cells.py"))),
    }


def _digest_of_files(folder: Path, paths: Iterable[Path]) -> str:
    """SHA-256 of files and their names."""
    content = hashlib.sha256()
    for path in sorted(paths):
        content.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return content.hexdigest()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def _commit(folder: Path) -> str:
    """The commit that the package is at, with a mark if its files are others."""

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=True).stdout

    try:
        return git("rev-parse", "HEAD").strip() + (", changed" if git("status", "--porcelain", "--", ".") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def record(path: Path, jobs: int, only: str) -> int:
    torch.set_num_threads(1)
    content: dict[str, Any] = {"header": header(), "cells": {}}
    if path.exists():
        content = read(path)
        here, there = header(), content["header"]
        if others := [key for key in SAME_TO_GO_ON if here[key] != there.get(key)]:
            sys.exit(f"{path}: expected a record of this code on this machine, found another {', '.join(others)}; "
                     "choose another file, or remove this one")  # fmt: skip
    wanted = [name for name in cells() if re.search(only, name)]
    todo = [name for name in wanted if name not in content["cells"]]
    print(f"{len(wanted)} cells, {len(wanted) - len(todo)} of them recorded before", flush=True)
    began = time.perf_counter()
    for name, cell in _answers(todo, jobs):
        content["cells"][name] = cell
        write(path, content)
        print(f"{cell['seconds']:6.2f} s  {name}: {_words(cell)}", flush=True)
    outcomes = Counter(content["cells"][name]["outcome"] for name in wanted)
    print(f"{', '.join(f'{n} {what}' for what, n in outcomes.most_common())}; {time.perf_counter() - began:.0f} s")
    return 0


def _answers(names: Sequence[str], jobs: int) -> Iterator[tuple[str, Content]]:
    if jobs == 1:
        yield from ((name, answer(name)) for name in names)
        return
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        yield from zip(names, pool.map(answer, names), strict=True)


def _words(cell: Content) -> str:
    if cell["outcome"] != "answered":
        return str(cell["outcome"])
    for name in ("radius", "objective", "loss"):
        if name in cell:
            return f"{name} " + " ".join(f"{v:.4g}" if isinstance(v, float) else v for v in cell[name])
    return ""


def read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if not {"header", "cells"} <= set(content):
            raise ValueError
    except (OSError, ValueError) as error:
        sys.exit(f"{path}: expected a record of this tool, found {type(error).__name__}; record it again")
    return dict(content)


def write(path: Path, content: Mapping[str, Any]) -> None:
    partial_file = path.with_name(f".{path.name}.{os.getpid()}.partial")
    partial_file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    os.replace(partial_file, path)


# ---- comparing --------------------------------------------------------------------------------------


def compare(before_path: Path, after_path: Path, rename: Mapping[str, str], ignore_passes: bool, only: str) -> int:
    before, after = read(before_path), read(after_path)
    for key in ("commit", "tool", *ENVIRONMENT):
        a, b = (side["header"].get(key) for side in (before, after))
        if a != b:
            why = "" if key == "commit" else "  (differences may come from this)"
            print(f"{key}: {a} -> {b}{why}")
    unknown = set(rename) - {cell["attack"] for cell in before["cells"].values()}
    if unknown:
        sys.exit(f"--rename: no attack of BEFORE is called {', '.join(sorted(unknown))}")
    found = difference(before, after, rename, only)
    for section in found.sections():
        other, spent = ([n for n in side if n.split("/")[0] == section] for side in (found.answers, found.passes))
        total = found.equal[section] + len(other) + len(spent)
        line = f"{section}: {found.equal[section]} of {total} cells are equal"
        line += f", {len(other)} have other answers" if other else ""
        print(line + (f", {len(spent)} have the same answers with other passes" if spent else ""))
    for title, differing in (("other answers", found.answers), ("other passes", found.passes)):
        for name, what in differing.items():
            print(f"  {title}: {name}: {'; '.join(what)}")
    for title, names in (("only before", found.only_before), ("only after", found.only_after)):
        for name in names:
            print(f"  {title}: {name}")
    for side, count in found.one_sided.items():
        print(f"  {side}: in {count} cells")
    clean = found.is_clean(ignore_passes)
    if not (found.equal or found.answers or found.passes):
        print("no cell is in both records")
    print("the answers are the same, bit for bit" if clean else "the records differ")
    return 0 if clean else 1


# ---- the command -----------------------------------------------------------------------------------


def _renaming(words: Sequence[str]) -> dict[str, str]:
    pairs = [tuple(word.split("=")) for word in words]
    if wrong := [word for word, pair in zip(words, pairs, strict=True) if len(pair) != 2 or not all(pair)]:
        sys.exit(f"--rename: expected old=new, found {wrong[0]!r}")
    return {pair[0]: pair[1] for pair in pairs}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record", help="run all cells, and write what they return")
    recording.add_argument("out", type=Path)
    recording.add_argument("--jobs", type=int, default=1, help="processes, each with one thread")
    comparing = commands.add_parser("compare", help="which answers of two records differ")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    comparing.add_argument(
        "--rename", nargs="+", action="extend", default=[], metavar="OLD=NEW", help="attacks that have a new name"
    )
    comparing.add_argument("--ignore-passes", action="store_true", help="other passes are no difference")
    for command in (recording, comparing):
        command.add_argument("--only", default="", metavar="PATTERN", help="cells whose name has a match")
    args = parser.parse_args(arguments)
    if args.command == "record":
        return record(args.out, max(args.jobs, 1), args.only)
    return compare(args.before, args.after, _renaming(args.rename), args.ignore_passes, args.only)


if __name__ == "__main__":
    sys.exit(main())
