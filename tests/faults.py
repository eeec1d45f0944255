"""Faults by family: what is tried, and whether pwcf holds. ``tests/laws/test_faults.py`` and ``benchmarks/faults.py``
run them.

A trial says in a sentence what went wrong, or None where pwcf held: bad input is one line that names what is wrong,
damage is noticed, what lies where an output goes is kept.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import pwcf
from pwcf._common.errors import UserError
from pwcf.cli import main
from pwcf.cli.main import TRACEBACK
from runfolders import SAID, Place

Trial = Callable[[], str | None]
LONGEST = 1500
HUGE = "9" * 5000


# ---- the command line ------------------------------------------------------------------------------------------------

_COUNT = ("0", "-1", "abc", "1.5", "", HUGE, "nan", "inf", "1e3", "0x10", "None", "1,2")
OPTIONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("budget", "limit", "resize", "crop", "threads", "batch", "chunk", "restarts"), _COUNT),
    "workers": _COUNT[:6],
    "seed": ("abc", "1.5", "", HUGE, "nan", "1e3", str(2**63), str(-(2**63) - 1)),
    "tol": ("0", "-1", "abc", "", HUGE, "nan", "inf", "1/0", "1e400", "1/", "-inf"),
    "eps": ("0.1,x", "abc", "", "nan", "inf", "1/0", "-1"),
    "metric": ("", "nonsense", "l", "l0.5", "l-1", "lnan", "l 2", "net.py:nothing", "nothing.py:d", ":", "a:b",
               "os:sep", "l2:", "\x1b[2J", "x" * 5000, "x" * 300),
    "question": ("", "max", "max-loss", "MIN-RADIUS", "\x1b[2J"),
    "loss": ("", "x", "CE"),
    "stop": ("", "x", "never"),
    "engine": ("", "x", "spark"),
    "tracker": ("", "x", "wandb"),
    "attacks": ("", "nonsense", "lmn,nonsense", ",", "net.py:nothing", "nothing.py:a", ":", "os:sep",
                "lmn;fab", "x" * 5000),
    "device": ("", ",", "gpu", "cuda:99", "meta", "cpu,cuda:99", "-1", "cuda:x", "cpu:99:1"),
    "bounds": ("", "1,0", "0", "0,1,2", "a,b", "nan,1", "0,inf", "1,1", "0.4,0.6"),
    "mean": ("", "0.5", "a", "nan", "0,0"),
    "std": ("", "0.5", "a", "0"),
    "model": ("", "nothing", "net.py", "net.py:", ":net", "net.py:nothing", "nothing.py:net", "os:sep", "os:getcwd",
              "zoo:", "zoo:nothing", "timm:", "hf:", "torchvision:", "robustbench:", "nothing.pt", "nothing.onnx",
              "nothing.pt2", "data.npz", "/dev/null", ".", "..:net", "a b:c", "a\0b.py:net", "x" * 5000),
    "data": ("", "nothing.npz", "net.py", ".", "/dev/null", "/dev/zero", "nothing.pt", "zoo:", "zoo:nothing",
             "torchvision:", "hf:", "nothing/", "a\0b.npz", "x" * 5000, "x" * 300, "pipe.npz", "empty.npz", "text.npz",
             "page.npz"),
    "weights": ("nothing.pt", "data.npz", "net.py", ".", "/dev/zero", "a\0b.pt", "pipe.npz", "text.npz"),
    "labels": ("nothing.csv", "net.py"),
    "out": ("net.py", "/proc/nothing", "a\0b", "net.py/out", "/dev/null"),
    "address": ("127.0.0.1:1",),
    "nonsense": ("1",),
}  # fmt: skip
COMMANDS: tuple[tuple[str, ...], ...] = (
    *((command, path) for command in ("show", "verify", "compare", "report", "table")
      for path in ("nothing", "net.py", "data.npz", "/dev/null", "pipe.npz", "a\0b")),
    *(("export", "nothing", name) for name in ("a.csv", "a.xls", "a", "a.npz")),
    *(("figure", kind, "nothing", "-o", name) for kind in ("accuracy", "nonsense") for name in ("a.pdf", "a.xls", "a")),
    *(("run", "--model", "net.py:net", "--data", "pictures", "--out", "out", "--labels", name)
      for name in ("pipe.csv", "/dev/zero", "/dev/null", ".", "nothing.csv", "net.py")),
    *((command, f"grid{number}") for command in ("show", "report") for number in range(9)),
    *(("bench", "--model", "net.py:net", "--data", "data.npz", "--metric", "l2", "--out", f"grid{number}")
      for number in range(9)),
    ("show",), ("verify",), ("report",), ("export",), ("figure",), ("nonsense",), ("run", "nothing.toml"), ("run", "."),
    ("run", "pipe.npz"), ("run", "data.npz"), ("run", "--metric"), ("train",), ("bench", "nothing.toml"),
    ("train", "--model", "net.py:net", "--data", "data.npz", "--out", "a.pt"),
    ("train", "--model", "net.py:net", "--data", "data.npz", "--out", "a.safetensors", "--epochs", "0"),
    ("train", "--model", "net.py:net", "--data", "data.npz", "--out", "a.safetensors", "--metric", "l2"),
    ("train", "--model", "net.py:net", "--data", "data.npz", "--out", "a.safetensors", "--metric", "l2", "--eps", "x"),
    ("train", "--model", "net.py:net", "--data", "nothing.npz", "--out", "a.safetensors"),
    ("train", "--model", "nothing", "--data", "data.npz", "--out", "a.safetensors"),
)  # fmt: skip


GRIDS = (
    "", "{", "[]", '{"schema": 1, "cells": 5}', '{"schema": 1, "nets": {"net": 5}}', '{"schema": 99}',
    '{"schema": 1, "cells": {"../unharmed": {}}}', '{"schema": 1, "cells": {"/tmp": {}}}',
    '{"schema": 1, "cells": {"a": 1}}',
)  # fmt: skip
"""contents of a benchmark's grid.json"""


def command_lines(place: Place) -> dict[str, Trial]:
    """Bad words on the command line, in a folder with net.py, data.npz, pipes, files that are no arrays, bad grids."""
    for name in ("pipe.npz", "pipe.csv"):
        os.mkfifo(place.path / name)
    (place.path / "pictures").mkdir()
    for number, content in enumerate(GRIDS):
        (place.path / f"grid{number}").mkdir()
        (place.path / f"grid{number}" / "grid.json").write_text(content)
    for name, content in {"empty": "", "text": "hello there", "page": "<!doctype html>"}.items():
        (place.path / f"{name}.npz").write_text(content)
    trials: dict[str, Trial] = {}
    for option, values in OPTIONS.items():
        for value in values:
            words = {
                "model": "net.py:net",
                "data": "data.npz",
                "out": "out",
                "budget": "60",
                "limit": "2",
                option: value,
            }
            if option == "address":
                words["engine"] = "ray"
            line = [word for name, one in words.items() for word in (f"--{name}", one)]
            trials[f"run --{option} {value[:40]!r}"] = lambda line=line: _refused(place, ["run", *line])
    for words in COMMANDS:
        trials[" ".join(words)] = lambda words=words: _refused(place, list(words))
    return trials


def _refused(place: Place, words: list[str]) -> str | None:
    before, said, out = Path.cwd(), io.StringIO(), io.StringIO()
    os.chdir(place.path)
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(out):
            code = main(words)
    except BaseException as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    finally:
        os.chdir(before)
        shutil.rmtree(place.path / "out", ignore_errors=True)
    lines = said.getvalue()
    helped = code == 2 and not lines and "Usage" in out.getvalue()
    one_line = lines.startswith("pwcf: ") and lines.count("\n") == 1 and len(lines) < LONGEST and "\x1b" not in lines
    if code != 2 or not (helped or one_line) or TRACEBACK in lines:
        return f"exit {code}, said {lines[:300]!r}"
    return None


# ---- Python ----------------------------------------------------------------------------------------------------------


def _net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 4))


IMAGES, LABELS = torch.full((3, 1, 6, 6), 0.5), torch.tensor([0, 1, 2])
CALLS: dict[str, tuple[Any, ...]] = {
    "model": (None, 3, "net", lambda: 0, lambda x: None, lambda x: x, lambda x: {"logits": x}, lambda x: (x, x),
              lambda x: _net()(x.mul_(1)),
              lambda x: x.flatten(1).long(), lambda x: x.sum(), lambda x: x.flatten(1)[:1], _net().double(),
              _net().to("meta"), nn.Linear(7, 3), lambda x: [1.0], lambda x: x @ torch.ones(5, 5)),
    "images": (None, 3, [1.0], "x", IMAGES.numpy()[0, 0, 0], IMAGES[0, 0, 0], IMAGES.long(), IMAGES.bool(),
               IMAGES.half(), IMAGES.bfloat16(), IMAGES.double(), IMAGES.to(torch.complex64), IMAGES * 255, IMAGES - 1,
               IMAGES * torch.nan, IMAGES / 0, IMAGES[:, :0], IMAGES[:2], IMAGES[:, :, :3],
               IMAGES.to("meta"), IMAGES.to_sparse()),
    "labels": (None, 3, [0.5, 1, 2], "x", LABELS.numpy()[:2], LABELS.float(), LABELS.bool(), LABELS[:2], LABELS[None],
               LABELS - 1, LABELS + 2, LABELS * 2**40, torch.eye(3, 4).long()),
    "problem": (None, "l2", 3, pwcf.MinRadius),
    "attacks": ("", "nonsense", [], [None], 3, ["lmn", "nonsense"], {}, lambda: 0, object()),
    "budget": (0, -1, 1, 49, 60.0, "60", True, [], [60, 60], [0], float("nan"), 10**30),
    "stop": ("", "never", None, 3, True),
    "seed": (None, 1.5, "0", True, 2**63, -(2**63) - 1),
    "bounds": (3, (1, 0), (0,), (0, 1, 2), "01", ("a", "b"), (float("nan"), 1), (0, float("inf")), (0.6, 1)),
    "mask": (3, "x", torch.ones(3), torch.ones(5, 5).bool(), [True], IMAGES),
    "batch": (0, -1, 1.5, "x", True),
    "tol": (0, -1, float("nan"), float("inf"), None, "x", True),
}  # fmt: skip
QUESTIONS: dict[str, Callable[[], object]] = {
    **{f"MinRadius({value!r})": lambda value=value: pwcf.MinRadius(value) for value in
       ("", "x", "l0.5", "lnan", None, 3, [], "l-1", object())},
    "MinRadius of one batch": lambda: pwcf.MinRadius(lambda a: a),
    "MinRadius of none": lambda: pwcf.MinRadius(lambda: 0),
    **{f"a metric that {what}": lambda metric=metric: pwcf.evaluate(
        _net(), IMAGES, _net()(IMAGES).argmax(1), pwcf.MinRadius(metric), budget=60
    ) for what, metric in {
        "changes the candidate": lambda a, b: b.sub_(a).flatten(1).norm(dim=1),
        "changes the reference": lambda a, b: a.sub_(b).flatten(1).norm(dim=1),
        "returns one number": lambda a, b: (a - b).norm(),
        "returns a tuple": lambda a, b: ((a - b).flatten(1).norm(dim=1),),
        "returns integers": lambda a, b: (a - b).abs().flatten(1).sum(1).long(),
        "returns NumPy's arrays": lambda a, b: (a - b).detach().numpy().reshape(len(a), -1).sum(1),
        "has no gradient": lambda a, b: (a - b).detach().flatten(1).norm(dim=1),
        "is negative": lambda a, b: -(a - b).flatten(1).norm(dim=1),
    }.items()},
    **{f"eps={value!r}": lambda value=value: pwcf.MaxLoss("l2", value) for value in
       (-1, float("nan"), float("inf"), "x", None, True, [], torch.tensor([-1.0]), torch.tensor([torch.nan]))},
    **{f"loss={value!r}": lambda value=value: pwcf.MaxLoss("l2", 1.0, value) for value in ("", "x", 3, None)},
    **{f"Classifier(bounds={value!r})": lambda value=value: pwcf.Classifier(_net(), value) for value in
       (3, (1, 0), "x", (0,), (0, float("inf")))},
    "mean alone": lambda: pwcf.Classifier(_net(), mean=0.5),
    "std 0": lambda: pwcf.Classifier(_net(), mean=0.5, std=0.0),
}  # fmt: skip
MINIMIZED: dict[str, dict[str, Any]] = {
    "x0": {"None": None, "text": "x", "integers": torch.ones(2, 3).long()},
    "objective": {"None": None, "text": "x", "a sum": lambda x: x.sum(), "none": lambda x: None},
    "constraints": {"number": 3, "function": lambda x: x, "text": "x"},
    "bounds": {"number": 3, "one": (1,), "crossed": (1, 0), "NaN": (torch.nan, 1), "text": "ab"},
    "tol": {"0": 0, "negative": -1, "text": "x", "NaN": float("nan")},
    "max_iterations": {"-1": -1, "text": "x", "half": 1.5},
}  # fmt: skip
_NAMED = re.compile(r"^[a-zA-Z_]\w*[\w, .()\[\]'#<>-]*: ")


def python_calls() -> dict[str, Trial]:
    """Bad arguments of ``evaluate``, the questions, ``Classifier`` and ``minimize``."""
    trials: dict[str, Trial] = {}
    good = {"model": _net(), "images": IMAGES, "labels": LABELS, "problem": pwcf.MinRadius("l2"), "budget": 60}
    for name, values in CALLS.items():
        for place, value in enumerate(values):
            said = f"{name}: {type(value).__name__} {place}"
            trials[f"evaluate, {said}"] = lambda given={**good, name: value}: _raises(lambda: pwcf.evaluate(**given))
    trials |= {f"question, {name}": lambda make=make: _raises(make) for name, make in QUESTIONS.items()}
    for name, kinds in MINIMIZED.items():
        for kind, value in kinds.items():
            given = {"objective": lambda x: (x**2).sum(1), "x0": torch.ones(2, 3), name: value}
            trials[f"minimize, {name}: {kind}"] = lambda given=given: _raises(lambda: pwcf.minimize(**given))
    return trials


def _raises(call: Callable[[], object]) -> str | None:
    try:
        call()
    except (TypeError, ValueError, UserError) as error:
        said = str(error)
        if _NAMED.match(said) and len(said) < LONGEST:
            return None
        return f"{type(error).__name__}: {said[:300]}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:300]}"
    return "nothing was raised"


# ---- damage ----------------------------------------------------------------------------------------------------------


def _flipped(place: float, bit: int) -> Callable[[bytes], bytes]:
    def damage(content: bytes) -> bytes:
        at = int(place * (len(content) - 1))
        return content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]

    return damage


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    **{f"bit {i % 8} at {i / 40:.3f}": _flipped(i / 40, i % 8) for i in range(41)},
    "cut short by a byte": lambda content: content[:-1],
    "cut in half": lambda content: content[: len(content) // 2],
    "empty": lambda content: b"",
    "a byte more": lambda content: content + b"\0",
    "zeros at its end": lambda content: content[:-64] + bytes(64),
    "zeros in the middle": lambda content: content[: len(content) // 2] + bytes(64) + content[len(content) // 2 + 64 :],
    "only zeros": lambda content: bytes(len(content)),
    "twice": lambda content: 2 * content,
    "text": lambda content: b"<html>not found</html>",
    "without its first byte": lambda content: content[1:],
    "another byte order": lambda content: content[::-1],
}
FILES = ("header.json", "rows-000000-000002.parquet", "tensors-000001.safetensors")


def damaged_files(place: Place) -> dict[str, Trial]:
    """Every damage to every kind of file of a run."""
    assert place.run("whole", "--quiet", **SAID) == 0
    return {
        f"{file}: {name}": lambda file=file, damage=damage: _noticed(place.path, file, damage)
        for file in FILES
        for name, damage in DAMAGE.items()
    }


def _noticed(place: Path, file: str, damage: Callable[[bytes], bytes]) -> str | None:
    whole = (place / "whole" / file).read_bytes()
    shutil.copytree(place / "whole", place / "damaged")
    try:
        (place / "damaged" / file).write_bytes(damage(whole))
        pwcf.load_run(place / "damaged")
    except UserError:
        return None
    finally:
        shutil.rmtree(place / "damaged")
    return "not noticed"


def header_with(changes: dict[str, Any]) -> Callable[[Path, Path], None]:
    """A header with a seal, and with other values in it."""

    def damage(out: Path, other: Path) -> None:
        from pwcf.runs.folder import read_json, write_json

        header = read_json(out / "header.json")
        for name, value in changes.items():
            inner = isinstance(value, dict) and isinstance(header.get(name), dict)
            header[name] = header[name] | value if inner else value
        write_json(out / "header.json", header)

    return damage


HEADERS: dict[str, dict[str, Any]] = {
    **{f"{name} {value!r}": {"settings": {name: value}} for name, values in {
        "chunk": (0, -1, "8", None, 2**60, True), "metric": (7, None, ["l2"]), "eps": ("x", True), "budget": ("60",),
        "bounds": (["a", "b"], [1, 0], "01", [0]), "attacks": ([5], [], [None]), "device": (5,), "seed": ("0",),
        "targeted": ("no", 1), "question": (0, "x"), "model": (5, None), "threads": ("1",),
    }.items() for value in values},
    **{f"{name} {str(value)[:40]}": {name: value} for name, values in {
        "samples": (-1, 0, "x", None), "shape": ([-1, "a"], [10**9] * 3, 5, [1.5]), "classes": ([1, None], 5),
        "attacks": ([{"name": 5, "about": [], "black_box": "x"}], [{}], "lmn", None), "made": ([1], None),
        "budget": ("x", None), "schema": (4, 0, "3", None, True, 10**400), "settings": ([], None),
        "model": (5, {"spec": 5}),
        "earlier": ([{"samples": "a", "budget": 1, "done": 2, "data": "", "made": {}}], [5]), "run": (5, "another"),
    }.items() for value in values},
}  # fmt: skip


def _points_of_another(out: Path, other: Path) -> None:
    shutil.copy(other / FILES[2], out / FILES[2])


def _rows_of_another(out: Path, other: Path) -> None:
    shutil.copy(other / FILES[1], out / FILES[1])


def _both_of_another(out: Path, other: Path) -> None:
    for file in out.glob("[rt]*-*"):
        shutil.copy(other / file.name, file)


def _header_of_another(out: Path, other: Path) -> None:
    shutil.copy(other / FILES[0], out / FILES[0])


def _points_of_two(out: Path, other: Path) -> None:
    """The samples of one shard with the points of another."""
    from safetensors.torch import load_file

    from pwcf.runs import RunFolder
    from pwcf.runs.shard import write_tensors

    folder = RunFolder(out)
    one, two = (load_file(folder.tensors_file(number)) for number in (1, 2))
    write_tensors(folder.tensors_file(1), {"x_adv": two["x_adv"], "index": one["index"]})


def _rows_under_another_name(out: Path, other: Path) -> None:
    from pwcf.runs import RunFolder

    RunFolder(out).separate(1, 8)
    shutil.copy(out / "rows-000000-000000.parquet", out / "rows-000001-000001.parquet")


def rows_with(change: Callable[[Any], Any]) -> Callable[[Path, Path], None]:
    """Rows that somebody has changed and sealed again."""

    def damage(out: Path, other: Path) -> None:
        from pwcf.runs import RunFolder

        folder = RunFolder(out)
        for each in folder.rows_files():
            folder.write_rows(each.first, each.last, change(folder.read_rows(each.path)))

    return damage


def _second(name: str, value: Any) -> Callable[[Any], Any]:
    """Another value in the second row."""

    def change(table: Any) -> Any:
        import pyarrow

        values = table[name].to_pylist()
        values[1] = value
        return table.set_column(table.column_names.index(name), name, pyarrow.array(values))

    return change


def _twice(table: Any) -> Any:
    import pyarrow

    return pyarrow.concat_tables([table, table])


ROWS: dict[str, Callable[[Any], Any]] = {
    "all rows twice": _twice,
    "no rows": lambda table: table.slice(0, 0),
    "rows in another order": lambda table: table.take(list(range(len(table)))[::-1]),
    **{f"rows without {name}": lambda table, name=name: table.drop_columns([name]) for name in
       ("index", "label", "adversarial", "radius", "status", "attack", "image")},
    **{f"rows with {name} {value!r}": _second(name, value) for name, value in
       (("radius", None), ("radius", -1.0), ("status", None), ("status", "\x1b[2J"), ("label", None), ("index", -5))},
    "rows with texts for radii": lambda table: table.set_column(
        table.column_names.index("radius"), "radius", table["status"]
    ),
}  # fmt: skip
EXCHANGES: dict[str, Callable[[Path, Path], None]] = {
    "points of another run": _points_of_another,
    "rows of another run": _rows_of_another,
    "rows and points of another run": _both_of_another,
    "header of another run": _header_of_another,
    "points of two shards": _points_of_two,
    "rows under another name": _rows_under_another_name,
    **{name: rows_with(change) for name, change in ROWS.items()},
}
"""what is done to a folder, given another whose files are intact"""


def exchanged_files(place: Place) -> dict[str, Trial]:
    """Intact files that belong elsewhere, and headers that say what cannot be: every command refuses."""
    assert place.run("one", "--quiet", **SAID) == 0
    assert place.run("other", "--quiet", **{**SAID, "metric": "linf"}) == 0
    resume = place.words("mixed", **SAID)
    commands = [
        resume, ["verify", "mixed", "--model", "net.py:net"], ["show", "mixed"], ["compare", "mixed"],
        ["report", "mixed", "-o", "page.html"], ["export", "mixed", "points.npz"],
    ]  # fmt: skip
    trials: dict[str, Trial] = {}
    for name, change in EXCHANGES.items():
        for words in commands:
            trials[f"{words[0]}, {name}"] = lambda words=words, change=change: _refuses_mixed(place, words, change)
    for name, changes in HEADERS.items():
        change = header_with(changes)
        for words in commands[2:5:2]:
            trials[f"{words[0]}, header: {name}"] = lambda words=words, change=change: _refuses_mixed(
                place, words, change
            )
    return trials


def _refuses_mixed(place: Place, words: list[str], change: Callable[[Path, Path], None]) -> str | None:
    mixed = place.path / "mixed"
    shutil.copytree(place.path / "one", mixed)
    try:
        change(mixed, place.path / "other")
        return _refused(place, words)
    finally:
        shutil.rmtree(mixed)


# ---- outputs ---------------------------------------------------------------------------------------------------------

TARGETS = ("a pipe", "a link", "a dead link", "a link to a device", "a folder")
OUTPUTS: dict[str, tuple[str, ...]] = {
    **{f"export {ending}": ("export", "whole", f"to.{ending}", "--force") for ending in
       ("csv", "parquet", "json", "safetensors", "npz")},
    "report": ("report", "whole", "-o", "to.html"),
    "table": ("table", "overview", "whole", "-o", "to.md"),
    "figure": ("figure", "accuracy", "whole", "-o", "to.svg"),
    "train": ("train", "--model", "net.py:net", "--data", "data.npz", "--epochs", "1", "--out", "to.safetensors",
              "--force", "--quiet"),
}  # fmt: skip


def outputs(place: Place) -> dict[str, Trial]:
    """Every command that writes a file, where something else lies there. After ``damaged_files``."""
    return {
        f"{name} over {kind}": lambda words=words, kind=kind: _kept(place, list(words), kind)
        for name, words in OUTPUTS.items()
        for kind in TARGETS
    }


def _kept(place: Place, words: list[str], kind: str) -> str | None:
    (name,) = (word for word in words if word.startswith("to."))
    path, precious = place.path / name, place.path / "precious"
    precious.write_text("ten years")
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a folder":
        path.mkdir()
    else:
        path.symlink_to({"a link": precious, "a dead link": "nothing", "a link to a device": "/dev/null"}[kind])
    before = os.lstat(path)
    try:
        wrong = _refused(place, words)
        if wrong is None and (os.lstat(path).st_ino != before.st_ino or precious.read_text() != "ten years"):
            wrong = "it was replaced or written to"
        return wrong
    finally:
        path.rmdir() if kind == "a folder" else path.unlink()


# ---- what files say --------------------------------------------------------------------------------------------------

_SETTINGS = "model = 'net.py:net'\ndata = 'data.npz'\nmetric = 'l2'\nout = 'out'\n"
CONFIGS: dict[str, tuple[str, ...]] = {
    "toml": (
        "budget = 60\nbudget = 70", "[model]\nx = 1", "budget = 1979-05-27", "budget = [60]", "budget = {a = 1}",
        f"budget = {HUGE}", "budget = inf", "a = " + 5000 * "[" + 5000 * "]", 3000 * "a." + "b = 1", '"\\u001b[2J" = 1',
        'eps = "\\u0000"', "attacks = ['lmn', 5]", "attacks = []", "bounds = [0]", "bounds = ['0', 'x']", "seed = true",
        "targeted = 'no'", "config = 'more.toml'", 10**5 * "x" + " = 1", "\ufeffa", "a = 'x",
    ),
    "yaml": (
        "!!python/object/apply:os.system ['touch trace']", "&a [*a, *a]", "a: &a {b: *a}", "<<: 5", "- 1\n- 2",
        "--- 1\n--- 2", "%YAML 9.9\n--- {}", "? [1, 2]\n: 3", "? {a: 1}\n: 3", "budget: 0o7777777777777777777777",
        "budget: 1:30:00:99", "a: !!binary 'x'", "\t- x", "model: !!null x", 3000 * "{", "a: !!timestamp 99999-99-99",
        "a: !!bool x", "a: !!int x", "a: !!float x", "budget: 2024-01-01", "2024-01-01: 3", "!!set {a, b}",
        "!!omap [a: 1]", "a: *nothing", "true: 1", "1.5: 1", ".nan: 1", "a: !nothing 1", "a: \x01",
    ),
}  # fmt: skip
LABELS_OF: tuple[str, ...] = (
    "", "1.png,0", "file,label\n1.png", "file,label\nnothing.png,0", "file,label\n../net.py,0",
    "file,label\n/etc/passwd,0", "file,label\n1.png,0\n1.png,1", "file,label\n1\0.png,0", f"file,label\n1.png,{HUGE}",
    f"file,label\n1.png,-{HUGE}", "file,label\n1.png,-1", "file,label\n1.png,0.5", "file,label\n1.png,nan",
    'file,label\n"1.png,0', "file,label\n" + 200000 * "x" + ",0", "file,label\n\x1b[2J.png,0", "file,label\n1.png,0,5",
)  # fmt: skip
_SHAPE = "{{'descr': {}, 'fortran_order': False, 'shape': {}}}"
ARRAYS: tuple[str, ...] = (
    _SHAPE.format("'<f4'", (-24, 1, 6, 6)), _SHAPE.format("'<f4'", (24, 10**10, 6, 6)), _SHAPE.format("'<f4'", "'x'"),
    _SHAPE.format("'|O'", (24,)), _SHAPE.format("'<U9'", (24,)), _SHAPE.format("'<c8'", (24, 1, 6, 6)),
    _SHAPE.format("'<i4,<f4'", (24,)), _SHAPE.format("'<M8[s]'", (24,)), _SHAPE.format("'nothing'", (24,)),
    _SHAPE.format("__import__('os').system('touch trace')", (24,)), 3000 * "(", 3000 * "[" + 3000 * "]", "", "{}", "5",
    "'", "\0", "1" + 3000 * "+1",
)  # fmt: skip
"""headers of NumPy's arrays"""


def contents(place: Place) -> dict[str, Trial]:
    """Configurations, lists of labels and headers of arrays that say what cannot be."""
    trials: dict[str, Trial] = {}
    options = ["--model", "net.py:net", "--metric", "l2", "--budget", "60", "--quiet", "--out", "out"]

    def trial(name: str, words: list[str]) -> None:
        def refused() -> str | None:
            wrong = _refused(place, words)
            return "it was run" if (place.path / "trace").exists() else wrong

        trials[name] = refused

    for ending, texts in CONFIGS.items():
        for number, text in enumerate(texts):
            file = place.path / f"strange{number}.{ending}"
            file.write_text((_SETTINGS if ending == "toml" else "") + text, "utf-8")
            trial(f"{ending}: {text[:40]!r}", ["run", file.name])
    (place.path / "labelled").mkdir()
    (place.path / "labelled" / "1.png").write_bytes(b"")
    for number, text in enumerate(LABELS_OF):
        (place.path / f"strange{number}.csv").write_text(text, "utf-8")
        trial(f"labels: {text[:40]!r}", ["run", "--data", "labelled", "--labels", f"strange{number}.csv", *options])
    for number, text in enumerate(ARRAYS):
        header = text.encode() + b"\n"
        with zipfile.ZipFile(place.path / f"strange{number}.npz", "w") as archive:
            archive.writestr("images.npy", b"\x93NUMPY\x01\0" + struct.pack("<H", len(header)) + header)
            archive.writestr("labels.npy", b"")
        trial(f"array: {text[:40]!r} {number}", ["run", "--data", f"strange{number}.npz", *options])
    return trials


# ---- models that end what calls them ---------------------------------------------------------------------------------

ENDS: dict[str, str] = {
    "sys.exit(0)": "import sys; sys.exit(0)",
    "sys.exit of a text": "import sys; sys.exit('bye \\x1b[2J')",
    "an end of the command": "import typer; raise typer.Exit(0)",
    "an end of a generator": "raise GeneratorExit",
    "an end of an iterator": "raise StopIteration",
    "a lost pipe": "raise BrokenPipeError",
    "a full disk": "raise OSError(28, 'No space left on device', '/x')",
    "no memory": "raise MemoryError",
    "another kind of error": "raise BaseException('odd')",
    "endless recursion": "return f(x)",
    "an error that steers a terminal": "raise ValueError('\\x1b[2J\\nline')",
    "fewer logits": "return m(x)[:-1]",
}
ENDING = """
import net
m, calls = net.net(), []
def f(x):
    calls.append(1)
    if len(calls) >= {at}:
        {what}
    return m(x)
"""


def ending_models(place: Place) -> dict[str, Trial]:
    """Models that end the process, or try to, at their first calls and later: a line, and no result."""

    def refused(what: str, at: int) -> str | None:
        (place.path / "ending.py").write_text(ENDING.format(what=what, at=at))
        options = ("--data", "data.npz", "--metric", "l2", "--budget", "60", "--chunk", "8", "--quiet", "--out", "out")
        return _refused(place, ["run", "--model", "ending.py:f", *options])

    return {
        f"{name} at call {at}": lambda what=what, at=at: refused(what, at)
        for name, what in ENDS.items()
        for at in (1, 2, 4, 30)
    }


# ---- threads and memory ----------------------------------------------------------------------------------------------


def threads(count: int = 4) -> dict[str, Trial]:
    """Several evaluations of one model at once: each finds what it finds alone, and the model is given back."""
    from concurrent.futures import ThreadPoolExecutor

    def together(problem: Any) -> str | None:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(36), nn.Dropout(0.5), nn.Linear(36, 4)).train()
        images = torch.rand(6, 1, 6, 6, generator=torch.Generator().manual_seed(1))
        labels = net.eval()(images).argmax(1)
        alone = pwcf.evaluate(net, images, labels, problem, budget=100)
        state = {name: value.clone() for name, value in net.train().state_dict().items()}

        def one(start: int) -> Tensor:
            return pwcf.evaluate(net, images[start:], labels[start:], problem, budget=100).radius

        with ThreadPoolExecutor(count) as pool:
            found = list(pool.map(one, range(count)))
        if not all(torch.allclose(each, alone.radius[i:], rtol=1e-4) for i, each in enumerate(found)):
            return "other answers than alone"
        if not all(torch.equal(value, state[name]) for name, value in net.state_dict().items()):
            return "buffers have changed"
        if not all(module.training for module in net.modules()):
            return "the model is not in train mode again"
        return None if all(each.requires_grad for each in net.parameters()) else "parameters want no gradients"

    problems = {"min-radius l2": pwcf.MinRadius("l2"), "min-radius linf": pwcf.MinRadius("linf"),
                "max-loss l2": pwcf.MaxLoss("l2", 0.5), "max-loss linf": pwcf.MaxLoss("linf", 0.05)}  # fmt: skip
    return {f"{count} threads, {name}": lambda problem=problem: together(problem) for name, problem in problems.items()}


def memory() -> dict[str, Trial]:
    """Memory for so many rows and no more, from the first call on."""

    def short(rows: int, problem: Any) -> str | None:
        net = _net()

        def greedy(x: Tensor) -> Tensor:
            if len(x) > rows:
                raise torch.OutOfMemoryError("out of memory")
            logits: Tensor = net(x)
            return logits

        images = torch.rand(8, 1, 6, 6, generator=torch.Generator().manual_seed(1))
        labels = net(images).argmax(1)
        few = pwcf.evaluate(greedy, images, labels, problem, budget=100)
        much = pwcf.evaluate(net, images, labels, problem, budget=100)
        return None if torch.allclose(few.radius, much.radius, rtol=1e-3) else "other answers than with more memory"

    return {
        f"{rows} rows, {problem}": lambda rows=rows, problem=problem: short(rows, problem)
        for rows in (1, 2, 3, 5)
        for problem in (pwcf.MinRadius("l2"), pwcf.MaxLoss("linf", 0.1))
    }


def attempt(trials: dict[str, Trial]) -> dict[str, str]:
    """Those that did not hold, and what went wrong."""
    found = {name: trial() for name, trial in trials.items()}
    return {name: what for name, what in found.items() if what is not None}


# ---- devices ---------------------------------------------------------------------------------------------------------


def devices(asked: Sequence[str] = ()) -> dict[str, str | None]:
    """The checks of ``device_checks.py`` by name, all unless some are asked for, in a process of their own."""
    here = Path(__file__).parent
    paths = os.pathsep.join([str(here), str(Path(pwcf.__file__).parents[1])])
    done = subprocess.run(
        [sys.executable, str(here / "device_checks.py"), *asked],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths},
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    found: dict[str, str | None] = json.loads(done.stdout.splitlines()[-1])
    return found
