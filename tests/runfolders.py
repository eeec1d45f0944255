"""What the tests of runs share: a small model and data on disk, and ``pwcf`` as a user calls it."""

import importlib.util
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pwcf.cli import main

MODEL = """
import torch
from torch import nn


def net():
    torch.manual_seed({seed})
    made = nn.Sequential(nn.Flatten(), nn.Linear(36, 24), nn.ReLU(), nn.Linear(24, 4))
    with torch.no_grad():
        made[3].weight *= 4
    return made
"""

SAID = {"metric": "l2", "budget": 60, "chunk": 8}
"""options of a run that takes no time"""


@dataclass(frozen=True)
class Place:
    """A folder with net.py and data.npz."""

    path: Path

    def words(self, out: str, *more: str, **said: object) -> list[str]:
        """A command line; ``said`` are options of pwcf run."""
        given = {"model": f"{self.path}/net.py:net", "data": f"{self.path}/data.npz", "threads": 1, **said}
        options = [text for name, value in given.items() for text in (f"--{name.replace('_', '-')}", str(value))]
        return ["run", "--out", str(self.path / out), *options, *more]

    def run(self, out: str, *more: str, **said: object) -> int:
        return main(self.words(out, *more, **said))

    def start(self, out: str, *more: str, **said: object) -> subprocess.Popen[str]:
        """The same in a process of its own."""
        command = [sys.executable, "-m", "pwcf.cli", *self.words(out, *more, **said)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def model(self, seed: int) -> None:
        (self.path / "net.py").write_text(MODEL.format(seed=seed))


def make_place(path: Path, samples: int) -> Place:
    """Labels are the model's own but for every seventh."""
    place = Place(path)
    place.model(0)
    scope: dict[str, object] = {}
    exec(MODEL.format(seed=0), scope)
    images = torch.rand(samples, 1, 6, 6, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        labels = scope["net"]()(images).argmax(1)  # type: ignore[operator]
    labels[::7] = (labels[::7] + 1) % 4
    np.savez(path / "data.npz", images=images.numpy(), labels=labels.numpy())
    return place


def answers(path: Path) -> dict[str, object]:
    """All rows and tensors of a run but the times."""
    from pwcf import load_run

    run = load_run(path)
    rows = run.rows.to_pydict()
    assert rows["index"] == sorted(set(rows["index"]))
    timeless = {name: repr(values) for name, values in rows.items() if not name.startswith("seconds")}
    return {**timeless, "x_adv": run.x_adv.numpy().tobytes()}


def replace_points(path: Path, number: int, x_adv: torch.Tensor) -> None:
    """Other points in place of a shard's, as if they had been recorded."""
    from pwcf.runs import RunFolder
    from pwcf.runs.shard import Shard

    folder, size = RunFolder(path), json.loads((path / "header.json").read_text())["settings"]["chunk"]
    folder.separate(number, size)
    rows = folder.read_rows(path / f"rows-{number:06d}-{number:06d}.parquet")
    Shard(number, {name: rows[name] for name in rows.column_names}, x_adv).write(folder)


def rewrite_rows(path: Path, rows: Any) -> None:
    """Other rows in place of those of a file, as if they had been recorded."""
    from pwcf.runs import RunFolder

    RunFolder(path.parent).write_rows(*map(int, path.stem.split("-")[1:]), rows)


def told(captured: str) -> dict[str, object]:
    content: dict[str, object] = json.loads(captured)
    return content


def rows_of(path: Path) -> list[Path]:
    return sorted(path.glob("rows-*.parquet"))


def run_module(place: Place) -> Any:
    spec = importlib.util.spec_from_file_location("net_of_test", place.path / "net.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ruined(place: Place, capsys: pytest.CaptureFixture[str], *more: str, **said: object) -> str:
    """What a command says that must fail, on one line."""
    code = place.run("out", *more, **said)
    captured = capsys.readouterr()
    assert code == 2, captured
    assert captured.err.startswith("pwcf: "), captured.err
    assert captured.err.count("\n") == 1
    return captured.err
