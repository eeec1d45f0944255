"""Runs that go on: the same answers however often they are interrupted, and other settings are refused."""

import json
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from pwcf.cli import main
from pwcf.runs import RunFolder
from runfolders import SAID, Place, answers, make_place, rows_of, ruined, run_module


def test_a_run_that_was_killed_twenty_times_ends_as_one_that_was_not(tmp_path: Path) -> None:
    place = make_place(tmp_path, 300)
    said = {"metric": "l2", "budget": 400, "chunk": 5}
    assert place.run("whole", **said) == 0
    random_moments, kills = random.Random(0), 0
    out = tmp_path / "killed"
    while kills < 20:
        before = len(rows_of(out)) + len(list(out.glob("tensors-*")))
        process = place.start("killed", **said)
        # Once it is at work, so that it is killed there and not while it imports.
        while process.poll() is None and len(rows_of(out)) + len(list(out.glob("tensors-*"))) == before:
            time.sleep(0.005)
        time.sleep(random_moments.uniform(0, 0.25))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL, "it ended before it could be killed: give it more to do"
        kills += 1
    assert len(RunFolder(out).done()) < 60, "nothing was left to go on with"
    assert place.run("killed", **said) == 0
    assert answers(out) == answers(tmp_path / "whole")


def test_going_on_does_not_work_again_on_what_is_there(place: Place) -> None:
    assert place.run("out", metric="l2", budget=80, chunk=8, limit=24) == 0
    before = {path: path.stat().st_mtime_ns for path in (place.path / "out").glob("tensors-*")}
    assert place.run("out", metric="l2", budget=80, chunk=8, limit=24) == 0
    assert {path: path.stat().st_mtime_ns for path in (place.path / "out").glob("tensors-*")} == before


@pytest.mark.parametrize(
    ("change", "named"),
    [({"metric": "l1"}, "metric was 'l2', now 'l1'"), ({"budget": 70}, "budget was 80, now 70"), ({"seed": 1}, "seed")],
)
def test_another_question_is_refused(place: Place, capsys: pytest.CaptureFixture[str], change, named: str) -> None:
    said = {"metric": "l2", "budget": 80}
    assert place.run("out", **said) == 0
    before = answers(place.path / "out")
    assert place.run("out", **(said | change)) == 2
    assert named in capsys.readouterr().err
    assert answers(place.path / "out") == before


@pytest.mark.parametrize(
    ("now", "named"),
    [("0.05", "eps was 8/255, now 0.05"), ("0.031372549", "eps was 0.03137254901960784, now 0.031372549")],
)
def test_another_eps_is_refused_in_the_words_of_papers(
    place: Place, capsys: pytest.CaptureFixture[str], now: str, named: str
) -> None:
    said = {"metric": "linf", "question": "max-loss", "budget": 60, "limit": 4}
    assert place.run("out", eps="8/255", **said) == 0
    assert place.run("out", eps=now, **said) == 2
    assert named in capsys.readouterr().err
    assert main(["export", str(place.path / "out"), str(place.path / "out.json")]) == 0
    assert json.loads((place.path / "out.json").read_text())["eps"] == "8/255"


def test_another_model_or_data_is_refused(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert place.run("out", metric="l2", budget=80) == 0
    place.model(seed=5)
    assert place.run("out", metric="l2", budget=80) == 2
    assert "model was" in capsys.readouterr().err
    place.model(seed=0)
    data = dict(np.load(place.path / "data.npz"))
    data["images"][3, 0, 0, 0] += 1e-3
    np.savez(place.path / "data.npz", **data)
    assert place.run("out", metric="l2", budget=80) == 2
    assert "data was" in capsys.readouterr().err


def test_only_one_process_works_in_a_folder(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert place.run("out", metric="l2", budget=80, limit=4) == 0
    with RunFolder(place.path / "out").locked():
        process = place.start("out", metric="l2", budget=80, limit=4)
        _, said = process.communicate()
    assert process.returncode == 2
    assert f"another process (number {os.getpid()}) works in this folder" in said
    assert place.run("out", metric="l2", budget=80, limit=4) == 0


def test_a_first_try_that_failed_does_not_bind_the_second(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert "budget: expected" in ruined(place, capsys, metric="l2", budget=10)
    assert place.run("out", metric="l2", budget=60) == 0


def test_another_distance_under_the_same_name_is_refused(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place.path)
    monkeypatch.setattr(sys, "path", [str(place.path), *sys.path])
    code = "def d(a, b):\n    return {} * (a - b).flatten(1).norm(dim=1)\n"
    said = SAID | {"metric": "own_distance_of_test:d"}
    (place.path / "own_distance_of_test.py").write_text(code.format(1))
    assert place.run("out", **said) == 0
    assert place.run("out", **said) == 0
    (place.path / "own_distance_of_test.py").write_text(code.format(7))
    monkeypatch.delitem(sys.modules, "own_distance_of_test")
    assert "metric was 'd, code" in ruined(place, capsys, **said)


def test_a_number_that_a_module_keeps_is_part_of_the_model(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    scaled = (
        (place.path / "net.py").read_text()
        + """

class Scaled(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale, self.inner = scale, net()

    def forward(self, x):
        return self.scale * self.inner(x)


def scaled():
    return Scaled({})
"""
    )
    (place.path / "net.py").write_text(scaled.replace("{}", "2.0"))
    said = SAID | {"model": f"{place.path}/net.py:scaled"}
    assert place.run("out", **said) == 0
    (place.path / "net.py").write_text(scaled.replace("{}", "3.0"))
    assert "model was" in ruined(place, capsys, **said)


def test_files_may_move_between_runs(place: Place) -> None:
    from safetensors.torch import save_file

    save_file(run_module(place).net().state_dict(), place.path / "a.safetensors")
    shutil.copy(place.path / "a.safetensors", place.path / "b.safetensors")
    shutil.copy(place.path / "data.npz", place.path / "moved.npz")
    assert place.run("out", weights=place.path / "a.safetensors", **SAID) == 0
    assert place.run("out", weights=place.path / "b.safetensors", data=place.path / "moved.npz", **SAID) == 0


def test_code_one_import_away_is_part_of_a_function(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(place.path), *sys.path])
    code = "def scale():\n    return {}\n"
    (place.path / "scale_of_test.py").write_text(code.format(1))
    (place.path / "plain.py").write_text(
        "import torch\nfrom scale_of_test import scale\n\nW = torch.linspace(-1, 1, 144).view(36, 4)\n\n\n"
        "def model(x):\n    return scale() * x.flatten(1) @ W\n"
    )
    said = SAID | {"model": f"{place.path}/plain.py:model"}
    assert place.run("out", **said) == 0
    (place.path / "scale_of_test.py").write_text(code.format(-1))
    monkeypatch.delitem(sys.modules, "scale_of_test")
    assert "model was" in ruined(place, capsys, **said)


def test_a_run_of_an_earlier_version_whose_model_is_not_known_again_says_why(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    from pwcf.runs.folder import read_json, write_json

    assert place.run("out", **SAID) == 0
    path = place.path / "out" / "header.json"
    header = read_json(path)
    header["model"]["fingerprint"] = "0" * 64
    write_json(path, header)
    assert "earlier version" not in ruined(place, capsys, **SAID)
    write_json(path, header | {"schema": 1})
    assert "begun by an earlier version of pwcf, which saw less of the user's own code" in ruined(place, capsys, **SAID)


@pytest.mark.parametrize("kind", ["npz", "pictures"])
def test_samples_that_have_changed_since_are_named(place: Place, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    arrays = dict(np.load(place.path / "data.npz"))
    said: dict[str, object] = {**SAID, "limit": 20, "chunk": 6}
    if kind == "pictures":
        image = pytest.importorskip("PIL.Image")
        for i, (pixels, label) in enumerate(zip(arrays["images"], arrays["labels"], strict=True)):
            folder = place.path / "pictures" / "abcd"[label]
            folder.mkdir(parents=True, exist_ok=True)
            image.fromarray((255 * pixels[0]).astype(np.uint8)).save(folder / f"{i:02d}.png")
        said |= {"data": place.path / "pictures", "order": "stored", "classes": "a,b,d"}
    assert place.run("out", **said) == 0
    if kind == "pictures":
        names = sorted(path.relative_to(place.path / "pictures") for path in place.path.glob("pictures/*/*.png"))
        for changed in (7, 13):
            image.new("L", (6, 6), 200).save(place.path / "pictures" / names[changed])
        expected = f"changed are sample 7 ({names[7]}), sample 13 ({names[13]})."
    else:
        arrays["images"][[7, 13]] = 0.5
        np.savez(place.path / "data.npz", **arrays)
        expected = "changed are sample 7, sample 13."
    capsys.readouterr()
    assert expected in ruined(place, capsys, **said)
    # Where the changed ones are not recorded yet, it says so.
    RunFolder(place.path / "out").drop(1, 6)
    RunFolder(place.path / "out").drop(2, 6)
    assert "the 8 recorded samples are the same" in ruined(place, capsys, **said)
