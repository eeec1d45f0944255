"""Whether pwcf holds where something is wrong: kills, damage, bad input, other code, threads, memory, devices.

    python benchmarks/faults.py --out docs/benchmarks

Each family tries faults by the dozen and counts those that hold; what did not is printed. Ten minutes on one core. The
families are those of ``tests/faults.py``, of which the tests run all but the kills and the longest of the devices.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import random
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import torch

TESTS = Path(__file__).parents[1] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "models" / "loading")]

import faults  # noqa: E402
from runfolders import Place, answers, make_place, rows_of  # noqa: E402

HEAD = """\
# Faults

`python benchmarks/faults.py`: faults of every family, and against how many of them pwcf held. That means: a run that is
killed ends with the answers of one that is not, bit for bit; damage is noticed; bad input is refused in one line that
names it; another model is another model; what lies where an output goes is kept; answers are the same in threads, with
little memory and on another device.

| family | what is tried | tried | held |
|---|---|--:|--:|
"""
KILLS = 20
Found = dict[str, str | None]


def kills(place: Place) -> Found:
    """SIGKILL at random moments of one run."""
    said = {"metric": "l2", "budget": 400, "chunk": 5}
    assert place.run("unharmed", "--quiet", **said) == 0
    moments, out, found = random.Random(0), place.path / "killed", dict[str, str | None]()
    while len(found) < KILLS:
        before = len(rows_of(out)) + len(list(out.glob("tensors-*")))
        process = place.start("killed", **said)
        while process.poll() is None and len(rows_of(out)) + len(list(out.glob("tensors-*"))) == before:
            time.sleep(0.005)
        time.sleep(moments.uniform(0, 0.25))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        if process.returncode != -signal.SIGKILL:
            break  # it was done before
        found[f"kill {len(found) + 1}"] = None
    assert place.run("killed", "--quiet", **said) == 0
    same = answers(out) == answers(place.path / "unharmed")
    return found if same else dict.fromkeys(found, "other answers than without kills")


def code_changes(place: Place) -> Found:
    """Values and files that a model computes with, changed one at a time."""
    import test_reached as reached

    usual = reached.made_fingerprint(place.path / "usual")
    found: Found = {}
    for name in reached.SETTINGS:
        changed = reached.made_fingerprint(place.path / "changed", {name: reached.other_value(name)})
        found[name] = None if changed != usual else "the same fingerprint"
    for name in reached.MADE_OF_V:
        one, two = (reached.made_of(place.path / "made", name, value) for value in (1, 2))
        found[f"made of another value: {name}"] = None if one != two else "the same fingerprint"
    for where in reached.BESIDE:
        one, two = (reached.beside(place.path / f"beside{i}", where, f"return {x}") for i, x in enumerate(("x", "-x")))
        found[f"other code in: {where}"] = None if one != two else "the same fingerprint"
    for file, old, new in reached.CHANGES:
        files = {file: reached.FILES[file].replace(old, new)}
        changed = reached.made_fingerprint(place.path / "changed", files=files)
        found[f"{file}: {new}"] = None if changed != usual else "the same fingerprint"
    return found


def tried(make: Callable[[], dict[str, faults.Trial]]) -> Found:
    return {name: trial() for name, trial in make().items()}


def record_keeping() -> str:
    """The share of a run at the default budget that goes into files, in percent."""
    from pwcf.cli import main
    from pwcf.runs import RunFolder, execution
    from pwcf.runs.shard import Shard

    spent = 0.0

    def timed(function: Callable[..., object]) -> Callable[..., object]:
        def call(*given: object, **named: object) -> object:
            nonlocal spent
            began = time.perf_counter()
            result = function(*given, **named)
            spent += time.perf_counter() - began
            return result

        return call

    Shard.write, RunFolder.merge = timed(Shard.write), timed(RunFolder.merge)  # type: ignore[method-assign]
    execution.samples_to_search = timed(execution.samples_to_search)  # type: ignore[assignment]
    with tempfile.TemporaryDirectory() as out:
        began = time.perf_counter()
        words = ["--model", "zoo:fashion-linf", "--data", "zoo:fashion-mnist", "--metric", "l2", "--limit", "64"]
        assert main(["run", *words, "--threads", "1", "--quiet", "--out", f"{out}/run"]) == 0
        whole = time.perf_counter() - began
    return f"{100 * spent / whole:.2f} % of {whole:.0f} s"


def main_program() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="folder of the table")
    parser.add_argument("--without", default="", help="families that are left out, with commas")
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    place = make_place(Path(tempfile.mkdtemp(prefix="faults-")), 24)
    larger = Path(tempfile.mkdtemp(prefix="faults-"))
    families: dict[str, tuple[str, Callable[[], Found]]] = {
        "kills": (
            "SIGKILL at a random moment of one run, which is then resumed",
            lambda: kills(make_place(larger, 300)),
        ),
        "damage": ("kinds of damage to header, rows and points", lambda: tried(lambda: faults.damaged_files(place))),
        "exchanged files": (
            "intact files of another run or shard, headers and rows that say what cannot be, in every command",
            lambda: tried(lambda: faults.exchanged_files(place)),
        ),
        "outputs": (
            "pipes, links, devices, folders in the place of outputs",
            lambda: tried(lambda: faults.outputs(place)),
        ),
        "command line": ("bad values of options, bad commands", lambda: tried(lambda: faults.command_lines(place))),
        "contents": (
            "configurations, lists of labels and headers of arrays that say what cannot be",
            lambda: tried(lambda: faults.contents(place)),
        ),
        "Python": ("bad arguments", lambda: tried(faults.python_calls)),
        "code": ("changes of what a model computes with", lambda: code_changes(place)),
        "ends": (
            "models that call sys.exit and the like, at once or later",
            lambda: tried(lambda: faults.ending_models(place)),
        ),
        "threads": ("evaluations of one model at once", lambda: tried(faults.threads)),
        "memory": ("memory for few rows, from the first call on", lambda: tried(faults.memory)),
        "devices": ("attacks, questions, metrics, training and runs on a simulated accelerator", faults.devices),
    }
    lines, all_held = [], True
    for name, (what, run) in families.items():
        if name in given.without.split(","):
            continue
        with contextlib.redirect_stdout(io.StringIO()):
            found = run()
        failed = {each: said for each, said in found.items() if said is not None}
        lines.append(f"| {name} | {what} | {len(found)} | {len(found) - len(failed)} |")
        print(lines[-1], flush=True)
        for each, said in failed.items():
            all_held = False
            print(f"    {each}: {said}")
    with contextlib.redirect_stdout(io.StringIO()):
        share = record_keeping()
    tail = (
        f"\nRecord keeping with digests: {share} of a run at the default budget (64 images, `zoo:fashion-linf`, l2).\n"
    )
    print(tail)
    if given.out is not None:
        given.out.mkdir(parents=True, exist_ok=True)
        (given.out / "faults.md").write_text(HEAD + "\n".join(lines) + "\n" + tail, "utf-8")
    sys.exit(0 if all_held else 1)


if __name__ == "__main__":
    main_program()
