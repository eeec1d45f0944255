"""Runs on disk: the same answers as evaluate(), however often they are interrupted, and errors that say what to do."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
import torch

import pwcf
from pwcf.cli import main
from pwcf.runs import RunError, RunFolder, settings_from
from runfolders import Place, answers, make_place, told


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path, 24)


def rows_of(path: Path) -> list[Path]:
    return sorted(path.glob("rows-*.parquet"))


# What a run records


def test_a_recorded_run_is_what_evaluate_returns(place: Place) -> None:
    assert place.run("out", metric="l2", budget=80) == 0
    run = pwcf.load_run(place.path / "out")
    data = np.load(place.path / "data.npz")
    images, labels = torch.from_numpy(data["images"]), torch.from_numpy(data["labels"])
    net = run_module(place).net()
    torch.set_num_threads(1)
    direct = pwcf.evaluate(net, images, labels, pwcf.MinRadius("l2"), budget=80)
    assert run.complete
    assert torch.equal(run.radius, direct.radius)
    assert torch.equal(run.x_adv, direct.x_adv)
    assert torch.equal(run.adversarial, direct.adversarial)
    assert run.status == direct.status
    assert run.attack == direct.attack
    assert torch.equal(run.passes.total, direct.passes.total)
    for name, values in vars(direct.evidence).items():
        assert torch.equal(getattr(run.evidence, name).nan_to_num(-1), values.nan_to_num(-1)), name
    assert run.problem == direct.problem
    assert [each.about for each in run.contributions] == [each.about for each in direct.contributions]
    assert run.summary().splitlines()[0] == direct.summary().splitlines()[0]
    assert list(direct.to_pandas()["radius"]) == list(run.to_pandas()["radius"])


def run_module(place: Place):
    import importlib.util

    spec = importlib.util.spec_from_file_location("net_of_test", place.path / "net.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_rows_tell_what_happened_to_each_sample(place: Place) -> None:
    assert place.run("out", "--attacks", "lmn", "--attacks", "fab", metric="linf", budget=300) == 0
    rows = pwcf.load_run(place.path / "out").to_pandas()
    data = np.load(place.path / "data.npz")
    assert rows["index"].tolist() == list(range(24))
    assert rows["label"].tolist() == data["labels"].tolist()
    wrong = rows["clean_label"] != rows["label"]
    assert wrong.tolist() == [i % 7 == 0 for i in range(24)]
    assert (rows["adversarial_label"] != rows["label"]).all()
    found = rows[~wrong]
    assert np.allclose(found["linf"], found["radius"], rtol=1e-6)
    assert np.allclose(found["sparsity"], found["l1"] / found["l2"])
    assert (found["loss"] > 0).all()
    assert (found["l0"] >= 1).all()
    assert set(found["attack"]) <= {"lmn", "fab"}
    assert (found[["radius:pwcf", "radius:fab"]].min(axis=1) >= found["radius"] * (1 - 1e-9)).all()
    assert (rows["seconds"] > 0).all()


def test_the_header_tells_what_was_asked_of_what(place: Place) -> None:
    assert place.run("out", metric="l2", question="max-loss", eps="8/255", budget=80, limit=10) == 0
    header = json.loads((place.path / "out" / "header.json").read_text())
    assert header["schema"] == 1
    assert header["asked"]["eps"] == "8/255"
    assert header["settings"]["eps"] == pytest.approx(8 / 255)
    assert header["settings"]["loss"] == "margin"
    assert header["samples"] == 10
    assert header["shape"] == [1, 6, 6]
    assert len(header["model"]["fingerprint"]) == len(header["data"]["fingerprint"]) == 64
    assert (
        header["made"]["packages"]["torch"] == torch.__version__.partition("+")[0]
        or "torch" in header["made"]["packages"]
    )
    assert header["attacks"][0]["name"] == "lmn"
    result = json.loads((place.path / "out" / "result.json").read_text())
    assert result["done"] == 10
    assert result["seconds"] > 0


def test_restarts_are_other_searches_and_the_best_counts(place: Place) -> None:
    assert place.run("one", metric="l1", budget=80) == 0
    assert place.run("three", metric="l1", budget=80, restarts=3) == 0
    one, three = (pwcf.load_run(place.path / name) for name in ("one", "three"))
    assert [each.name for each in three.contributions] == ["lmn", "lmn#2", "lmn#3"]
    assert (three.radius <= one.radius * (1 + 1e-4)).all()
    assert int(three.passes.total.max()) <= 240
    assert int(three.passes.total.max()) > int(one.passes.total.max())


@pytest.mark.filterwarnings("ignore:No misclassified point")  # the spy finds none
def test_a_restart_has_a_seed_of_its_own() -> None:
    from pwcf.attacks import Function
    from pwcf.runs.worker import Reseeded

    seeds = []

    class Spy(Function):
        def __call__(self, task):
            seeds.append(task.seed)
            return task.images

    spy = Spy(lambda model, images, labels: images, name="spy")
    attacks = [spy, Reseeded(spy, 2), Reseeded(spy, 3)]
    images = torch.rand(2, 4)
    pwcf.evaluate(lambda x: x[:, :2], images, images[:, :2].argmax(1), pwcf.MinRadius("l2"), attacks=attacks, seed=40)
    assert seeds == [40, 41, 42]


def test_a_file_says_what_a_command_line_says(place: Place) -> None:
    words = {"metric": "l2", "question": "max-loss", "eps": "1/10", "budget": 80, "limit": 12}
    assert place.run("words", **words) == 0
    lines = [f"{name} = {json.dumps(value)}" for name, value in words.items()]
    lines += [f'model = "{place.path}/net.py:net"', f'data = "{place.path}/data.npz"', "threads = 1"]
    (place.path / "run.toml").write_text("\n".join(lines))
    (place.path / "run.yaml").write_text("\n".join(line.replace(" = ", ": ") for line in lines))
    for name in ("run.toml", "run.yaml"):
        out = str(place.path / name.replace(".", "-"))
        assert main(["run", str(place.path / name), "--out", out]) == 0
        assert answers(Path(out)) == answers(place.path / "words")
    # The command line wins.
    assert main(["run", str(place.path / "run.toml"), "--out", str(place.path / "o3"), "--limit", "3"]) == 0
    assert len(pwcf.load_run(place.path / "o3").radius) == 3


# Going on


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
    [({"metric": "l1"}, "metric was 'l2', now 'l1'"), ({"budget": 90}, "budget was 80, now 90"), ({"seed": 1}, "seed")],
)
def test_another_question_is_refused(place: Place, capsys: pytest.CaptureFixture[str], change, named: str) -> None:
    said = {"metric": "l2", "budget": 80}
    assert place.run("out", **said) == 0
    before = answers(place.path / "out")
    assert place.run("out", **(said | change)) == 2
    assert named in capsys.readouterr().err
    assert answers(place.path / "out") == before


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


def test_several_devices_share_the_work_and_find_the_same(place: Place) -> None:
    assert place.run("one", metric="l2", budget=80, chunk=4) == 0
    assert place.run("two", metric="l2", budget=80, chunk=4, device="cpu,cpu") == 0
    assert answers(place.path / "one") == answers(place.path / "two")


def test_many_small_files_of_rows_become_one(place: Place) -> None:
    assert place.run("out", metric="l2", budget=60, chunk=2) == 0
    assert [path.name for path in rows_of(place.path / "out")] == ["rows-000000-000011.parquet"]
    folder = RunFolder(place.path / "out")
    # As after a crash between writing the large file and removing the small ones: nothing counts twice.
    table = folder.rows()
    folder.write_rows(3, 3, table.slice(6, 2))
    assert len(folder.rows()) == 24
    assert folder.done() == set(range(12))


# Damage


def ruined(place: Place, capsys: pytest.CaptureFixture[str], *more: str, **said: object) -> str:
    """What a command says that must fail, on one line."""
    code = place.run("out", *more, **said)
    captured = capsys.readouterr()
    assert code == 2, captured
    assert captured.err.startswith("pwcf: ")
    assert captured.err.count("\n") == 1
    return captured.err


SAID = {"metric": "l2", "budget": 60, "chunk": 8}


def test_a_truncated_file_of_rows_is_named_and_redone_once_removed(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    assert place.run("out", **SAID) == 0
    before = answers(place.path / "out")
    (path,) = rows_of(place.path / "out")
    path.write_bytes(path.read_bytes()[:-100])
    assert "remove this file and run the same command again" in ruined(place, capsys, **SAID)
    assert main(["show", str(place.path / "out")]) == 2
    path.unlink()
    assert place.run("out", **SAID) == 0
    assert answers(place.path / "out") == before


def test_a_truncated_file_of_tensors_is_named_and_redone_once_removed(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    assert place.run("out", **SAID) == 0
    before = answers(place.path / "out")
    path = RunFolder(place.path / "out").tensors_file(1)
    path.write_bytes(path.read_bytes()[:-100])
    assert str(path) in ruined(place, capsys, **SAID)
    path.unlink()
    assert place.run("out", **SAID) == 0
    assert answers(place.path / "out") == before


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"schema": 99}', '{"schema": 1}'])
def test_an_unreadable_header_is_an_error_that_loses_nothing(
    place: Place, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    assert place.run("out", **SAID) == 0
    path = place.path / "out" / "header.json"
    right, before = path.read_text(), answers(place.path / "out")
    path.write_text(content)
    ruined(place, capsys, **SAID)
    with pytest.raises(RunError):
        pwcf.load_run(place.path / "out")
    path.write_text(right)
    assert answers(place.path / "out") == before


def test_a_folder_of_something_else_is_left_alone(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    (place.path / "out").mkdir()
    (place.path / "out" / "thesis.tex").write_text("")
    assert "thesis.tex" in ruined(place, capsys, **SAID)
    assert sorted(path.name for path in (place.path / "out").iterdir()) == ["thesis.tex"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 400 kB of its own, where the system lets us mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(disk)]
    try:
        mounted = subprocess.run(words, capture_output=True).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("no file system can be mounted here")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_full_disk_is_told_and_what_was_there_is_kept(
    place: Place, small_disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = SAID | {"chunk": 3}
    assert place.run("whole", **said) == 0
    out = "disk/out"
    filler = small_disk / "filler"
    filler.write_bytes(b"0" * 330_000)
    code = place.run(out, **said)
    err = capsys.readouterr().err
    assert code == 2
    assert "the disk is full; free some space and run the same command again" in err
    assert err.count("\n") == 1
    done = RunFolder(place.path / out).done()
    assert 0 < len(done) < 8
    assert not list((place.path / out).glob(".*partial"))
    filler.unlink()
    assert place.run(out, **said) == 0
    assert answers(place.path / out) == answers(place.path / "whole")


def test_a_folder_that_cannot_be_written_to_is_told(
    place: Place, small_disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert place.run("disk/out", **SAID) == 0
    before = answers(small_disk / "out")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    capsys.readouterr()
    for out in ("disk/out", "disk/new"):
        assert place.run(out, **SAID) == 2
        said = capsys.readouterr().err
        assert "choose another" in said
        assert said.count("\n") == 1
    assert answers(small_disk / "out") == before
    assert main(["show", str(small_disk / "out")]) == 0


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ({"metric": "l3.x"}, "metric: expected"),
        ({"metric": "no.module:function"}, "metric: expected a name, or module:function"),
        ({"attacks": "magic"}, "attacks: expected names"),
        ({"question": "why"}, "question: expected one of"),
        ({"question": "max-loss"}, "eps: expected a number"),
        ({"eps": "0.1"}, "eps: expected none"),
        ({"eps": "a/b", "question": "max-loss"}, "eps: expected a number, or a fraction"),
        ({"loss": "hinge", "question": "max-loss", "eps": "1"}, "loss: expected"),
        ({"budget": "10"}, "budget: expected"),
        ({"limit": "0"}, "limit: expected an integer > 0"),
        ({"data": "nowhere.npz"}, "nowhere.npz"),
        ({"model": "nowhere.py:net"}, "nowhere.py"),
        ({"device": "cuda:7"}, "device"),
    ],
)
def test_wrong_words_are_named(place: Place, capsys: pytest.CaptureFixture[str], said, named: str) -> None:
    assert named in ruined(place, capsys, **({"metric": "l2", "budget": 60} | said))


def test_a_model_that_does_not_fit_the_data_is_told(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(place.path / "data.npz", images=np.zeros((4, 3, 5, 5), np.float32), labels=np.zeros(4, np.int64))
    assert "shape (3, 5, 5)" in ruined(place, capsys, **SAID)


def test_pixels_that_are_no_numbers_are_told_with_their_sample(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    data = dict(np.load(place.path / "data.npz"))
    data["images"][17, 0, 2, 2] = np.nan
    np.savez(place.path / "data.npz", **data)
    assert "17" in ruined(place, capsys, **SAID)
    # What came before it is there.
    assert len(pwcf.load_run(place.path / "out").radius) == 16


def test_unknown_names_in_a_file_are_told(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    (place.path / "run.toml").write_text('modell = "x"\n')
    assert main(["run", str(place.path / "run.toml")]) == 2
    assert "modell" in capsys.readouterr().err
    with pytest.raises(RunError, match="attacks"):
        settings_from({"model": "m", "data": "d", "out": "o", "attacks": []})


# Reading runs


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = make_place(tmp_path_factory.mktemp("runs"), 20)
    assert place.run("few", metric="l2", budget=60) == 0
    assert place.run("many", metric="l2", budget=400) == 0
    assert place.run("eps", metric="linf", question="max-loss", eps="0.02", budget=100) == 0
    return place


def test_show_tells_the_figures(two_runs: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "--json", str(two_runs.path / "many")]) == 0
    shown = told(capsys.readouterr().out)
    run = pwcf.load_run(two_runs.path / "many")
    attacked = run.radius > 0
    assert shown["samples"] == shown["done"] == 20
    assert shown["clean_accuracy"] == pytest.approx(run.clean_accuracy)
    assert shown["radius"]["mean"] == pytest.approx(float(run.radius[attacked].mean()))
    assert main(["show", "--json", str(two_runs.path / "eps")]) == 0
    robust = pwcf.load_run(two_runs.path / "eps").robust_accuracy
    assert 0 < robust < 1
    assert told(capsys.readouterr().out)["robust_accuracy"] == pytest.approx(robust)
    assert main(["show", str(two_runs.path / "many")]) == 0
    assert "found and verified" in capsys.readouterr().out


def test_verify_holds_and_notices_what_was_changed(
    two_runs: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from safetensors.torch import load_file, save_file

    for name in ("many", "eps"):
        assert main(["verify", "--json", str(two_runs.path / name)]) == 0
        shown = told(capsys.readouterr().out)
        assert shown["hold"] == shown["checked"] > 0
    shutil.copytree(two_runs.path / "many", tmp_path / "changed")
    path = tmp_path / "changed" / "tensors-000000.safetensors"
    tensors = load_file(path)
    data = np.load(two_runs.path / "data.npz")
    tensors["x_adv"][5] = torch.from_numpy(data["images"][5])  # not adversarial
    tensors["x_adv"][6] = tensors["x_adv"][6] + 0.3 * (tensors["x_adv"][6] - torch.from_numpy(data["images"][6]))
    save_file(tensors, path)
    assert main(["verify", "--json", str(tmp_path / "changed")]) == 1
    failed = told(capsys.readouterr().out)["failed"]
    assert [each["index"] for each in failed] == [5, 6]
    # Another model: most points are no longer what they were.
    other = tmp_path / "net.py"
    other.write_text((two_runs.path / "net.py").read_text().replace("(0)", "(9)"))
    assert main(["verify", str(two_runs.path / "many"), "--model", f"{other}:net"]) == 1
    assert "another model" in capsys.readouterr().out


def test_compare_tells_who_is_nearer(two_runs: Place, capsys: pytest.CaptureFixture[str]) -> None:
    few, many, eps = (str(two_runs.path / name) for name in ("few", "many", "eps"))
    assert main(["compare", few, many, "--json"]) == 0
    shown = told(capsys.readouterr().out)
    assert shown["shared"] == 20
    assert shown["notes"] == []
    a, b = (pwcf.load_run(path).radius for path in (few, many))
    both = (a > 0) & torch.isfinite(a) & torch.isfinite(b)
    assert shown["runs"]["few"]["mean_radius"] == pytest.approx(float(a[both].mean()))
    assert shown["runs"]["many"]["mean_radius"] == pytest.approx(float(b[both].mean()))
    assert shown["runs"]["many"]["best"] == int((b[both] <= a[both] * (1 + 1e-6)).sum())
    assert main(["compare", few, eps]) == 0
    assert "questions differ" in capsys.readouterr().out


def test_exports_hold_what_the_run_holds(two_runs: Place, tmp_path: Path) -> None:
    from PIL import Image
    from safetensors.torch import load_file

    run = pwcf.load_run(two_runs.path / "many")
    for ending in ("csv", "parquet", "json", "safetensors", "npz"):
        assert main(["export", str(two_runs.path / "many"), str(tmp_path / f"x.{ending}")]) == 0
    assert pyarrow.parquet.read_table(tmp_path / "x.parquet")["radius"].to_pylist() == run.radius.tolist()
    lines = (tmp_path / "x.csv").read_text().splitlines()
    assert len(lines) == 21
    assert lines[0].startswith('"index","label"')
    content = json.loads((tmp_path / "x.json").read_text())
    assert float(content["clean_acc"]) == pytest.approx(100 * run.clean_accuracy, abs=0.01)
    assert torch.equal(load_file(tmp_path / "x.safetensors")["x_adv"], run.x_adv)
    assert np.array_equal(np.load(tmp_path / "x.npz")["x_adv"], run.x_adv.numpy())
    assert main(["export", str(two_runs.path / "many"), str(tmp_path / "pictures"), "--format", "png"]) == 0
    pictures = sorted((tmp_path / "pictures").glob("*.png"))
    assert len(pictures) == int(run.adversarial.sum())
    first = np.asarray(Image.open(pictures[0]))
    assert np.abs(first / 255 - run.x_adv[0, 0].numpy()).max() <= 0.5 / 255 + 1e-6
    assert main(["export", str(two_runs.path / "many"), str(tmp_path / "x.csv")]) == 2  # exists
    assert main(["export", str(two_runs.path / "many"), str(tmp_path / "x.xls")]) == 2


def test_what_there_is_can_be_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["attacks", "--json"]) == 0
    shown = told(capsys.readouterr().out)
    assert {"lmn", "apgd", "fab"} <= set(shown["attacks"])
    assert "standard" in shown["presets"]
    assert main(["metrics", "--json"]) == 0
    names = [each["name"] for each in json.loads(capsys.readouterr().out)]
    assert "ssim" in names
    assert main(["attacks"]) == main(["metrics"]) == 0


def test_the_doctor_looks_and_tests(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    shown = told(capsys.readouterr().out)
    assert shown["self_test"]["ok"] is True
    assert shown["torch"] == torch.__version__


def test_reading_a_run_needs_no_torch(two_runs: Place) -> None:
    """``pwcf show`` is to answer at once."""
    code = (
        "import sys; from pwcf.cli import main; code = main(['show', sys.argv[1]]); "
        "sys.exit(code or ('torch' in sys.modules) * 9)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(two_runs.path / "many")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == f"pwcf {pwcf.__version__}"
    assert main(["run", "--help"]) == 0
    shown = capsys.readouterr().out
    for name in ("--model", "--eps", "--attacks", "--restarts", "--engine"):
        assert name in shown
    assert main(["nonsense"]) == 2


def test_a_run_of_schema_1_loads(capsys: pytest.CaptureFixture[str]) -> None:
    """Its folder was written when schema 1 was new, and stays: whatever comes later must read it."""
    path = Path(__file__).parent / "data" / "run-schema-1"
    run = pwcf.load_run(path)
    assert run.complete
    assert run.x_adv.shape == (5, 1, 6, 6)
    assert run.adversarial.all()
    assert run.status[0] is pwcf.Status.ALREADY_MISCLASSIFIED
    assert (run.radius[1:] > 0).all()
    assert torch.allclose(run.radius[1:], torch.tensor(run.to_pandas()["l2"][1:].to_numpy()))
    assert run.problem == pwcf.MinRadius("l2")
    assert main(["show", str(path)]) == 0
    assert "min-radius, l2" in capsys.readouterr().out


# Damaged models and data, through the command


@pytest.fixture
def pictures(place: Place) -> Path:
    """A folder of eight images and labels.csv, as --data and --labels."""
    from PIL import Image

    folder = place.path / "pictures"
    folder.mkdir()
    data = np.load(place.path / "data.npz")
    lines = ["file,label"]
    for i in range(8):
        Image.fromarray((255 * data["images"][i, 0]).round().astype(np.uint8)).save(folder / f"{i}.png")
        lines.append(f"{i}.png,{data['labels'][i]}")
    (place.path / "labels.csv").write_text("\n".join(lines) + "\n")
    return folder


def test_a_folder_of_images_with_labels_is_data(place: Place, pictures: Path) -> None:
    said = {"metric": "l2", "budget": 60, "data": pictures, "labels": place.path / "labels.csv"}
    assert place.run("out", **said) == 0
    rows = pwcf.load_run(place.path / "out").to_pandas()
    assert rows["label"].tolist() == np.load(place.path / "data.npz")["labels"][:8].tolist()


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (lambda folder, labels: (folder / "3.png").unlink(), "3.png"),
        (lambda folder, labels: (folder / "3.png").write_bytes(b"\x89PNG no more"), "3.png"),
        (lambda folder, labels: labels.write_text(labels.read_text().replace("2.png,", "2.png,\n#")), "labels.csv"),
        (lambda folder, labels: labels.write_text("file,label\n0.png,\n"), "labels.csv"),
        (lambda folder, labels: labels.unlink(), "labels.csv"),
    ],
)
def test_damaged_images_and_labels_are_named(
    place: Place, pictures: Path, capsys: pytest.CaptureFixture[str], damage, named: str
) -> None:
    damage(pictures, place.path / "labels.csv")
    said = {"metric": "l2", "budget": 60, "data": pictures, "labels": place.path / "labels.csv"}
    assert named in ruined(place, capsys, **said)


class Malicious:
    """Unpickled it would leave a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self):
        return (Path.touch, (self.marker,))


def test_a_malicious_pickle_is_refused_and_not_run(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    path, marker = place.path / "weights.pt", place.path / "owned"
    torch.save({"0.weight": Malicious(marker)}, path)
    assert "weights.pt" in ruined(place, capsys, weights=path, **SAID)
    assert "weights.pt" in ruined(place, capsys, model=path, **SAID)
    assert not marker.exists()
    torch.load(path, weights_only=False)
    assert marker.exists(), "the file is harmless, and the test proves nothing"


def test_curves_of_a_run_in_tensorboard(place: Place) -> None:
    pytest.importorskip("tensorboard")
    assert place.run("out", tracker="tensorboard", **SAID) == 0
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(place.path / "out" / "tensorboard"))
    events.Reload()
    run = pwcf.load_run(place.path / "out")
    last = events.Scalars("mean_radius")[-1]
    assert last.step == 24
    assert last.value == pytest.approx(float(run.radius[run.radius > 0].mean()), rel=1e-5)
    assert place.run("out", tracker="tensorboard", **SAID) == 0  # a folder of curves is no stranger


# What a hostile reader found


def test_a_folder_in_which_a_process_died_at_once_can_be_used(place: Place) -> None:
    (place.path / "out").mkdir()
    for name in (".header.json.partial", ".rows-000009-000009.parquet.partial"):
        (place.path / "out" / name).write_text("{")
    assert place.run("out", **SAID) == 0
    assert not list((place.path / "out").glob(".*partial"))


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


def test_redone_samples_have_the_rows_of_their_points(place: Place) -> None:
    assert place.run("out", **SAID) == 0
    before = answers(place.path / "out")
    folder = RunFolder(place.path / "out")
    # As from a machine that finds other answers: its rows must not outlive its points.
    rows = folder.rows()
    other = rows.set_column(rows.column_names.index("radius"), "radius", [[9.0] * len(rows)])
    folder.write_rows(0, 2, other)
    folder.tensors_file(1).unlink()
    assert place.run("out", **SAID) == 0
    redone = pwcf.load_run(place.path / "out").radius.tolist()
    assert redone[:8] == redone[16:] == [9.0] * 8
    assert repr(redone[8:16])[1:-1] in str(before["radius"])


def test_show_reads_a_folder_that_is_being_worked_in(place: Place) -> None:
    assert place.run("out", **(SAID | {"chunk": 1})) == 0
    folder = RunFolder(place.path / "out")
    rows = folder.rows()
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            for i in range(24):
                folder.write_rows(i, i, rows.slice(i, 1))
            (folder.path / "rows-000000-000023.parquet").unlink(missing_ok=True)
            folder.merge()

    worker = threading.Thread(target=work)
    worker.start()
    try:
        for _ in range(100):
            assert len(folder.rows()) == 24
    finally:
        stop.set()
        worker.join()


def test_samples_without_logits_are_not_robust_in_any_command(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    nan = (
        (place.path / "net.py").read_text()
        + """

def sometimes():
    inner = net()
    return lambda x: inner(x) / (x[:, 0, 0, :1] > 0.3)  # 0 / 0 and more
"""
    )
    (place.path / "net.py").write_text(nan)
    said = SAID | {"model": f"{place.path}/net.py:sometimes", "question": "max-loss", "eps": "0.001"}
    assert place.run("out", **said) == 0
    capsys.readouterr()
    assert main(["show", "--json", str(place.path / "out")]) == 0
    shown = told(capsys.readouterr().out)
    assert shown["status"]["nonfinite"] > 0
    assert main(["compare", "--json", str(place.path / "out")]) == 0
    compared = told(capsys.readouterr().out)["runs"]["out"]
    assert compared["robust_accuracy"] == pytest.approx(shown["robust_accuracy"])


def test_verify_looks_at_labels_and_at_samples_that_were_wrong_as_they_are(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    assert place.run("out", **SAID) == 0
    data = dict(np.load(place.path / "data.npz"))
    data["labels"][7] = (data["labels"][7] + 3) % 4
    np.savez(place.path / "data.npz", **data)
    capsys.readouterr()
    assert main(["verify", "--json", str(place.path / "out")]) == 1
    assert [each["index"] for each in told(capsys.readouterr().out)["failed"]] == [7]
    data["labels"][7] = (data["labels"][7] + 1) % 4  # as it was: one that the model gets wrong
    np.savez(place.path / "data.npz", **data)
    right = (
        (place.path / "net.py").read_text()
        + f"""

def right():
    known = torch.tensor({data["labels"].tolist()})
    return lambda x: nn.functional.one_hot(known[:1].expand(len(x)), 4).float() * x.sum() / x.sum()
"""
    )
    (place.path / "right.py").write_text(right)
    assert main(["verify", "--json", str(place.path / "out"), "--model", f"{place.path}/right.py:right"]) == 1
    failed = {each["index"] for each in told(capsys.readouterr().out)["failed"]}
    assert 0 in failed  # wrong for the run's model, right for this one


def test_some_samples_of_a_recorded_run(place: Place) -> None:
    assert place.run("out", **SAID) == 0
    rows = torch.tensor([3, 20])
    whole, bare = pwcf.load_run(place.path / "out"), pwcf.load_run(place.path / "out", tensors=False)
    some = whole.select(rows)
    assert some.to_pandas()["index"].tolist() == some.index.tolist() == [3, 20]
    assert torch.equal(some.x_adv, whole.x_adv[rows])
    assert bare.select(rows).radius.tolist() == some.radius.tolist()


def test_tensors_of_other_samples_are_damage(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    from safetensors.torch import load_file, save_file

    assert place.run("out", **SAID) == 0
    path = RunFolder(place.path / "out").tensors_file(2)
    tensors = load_file(path)
    save_file({name: value[:5].clone() for name, value in tensors.items()}, path)
    assert "found {" in ruined(place, capsys, **SAID)
    save_file({**tensors, "index": tensors["index"].flip(0)}, path)
    with pytest.raises(RunError, match="other tensors or samples"):
        pwcf.load_run(place.path / "out")


def test_what_models_print_is_not_the_result(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    talkative = (place.path / "net.py").read_text() + "\nprint('hello')\n"
    (place.path / "net.py").write_text(talkative)
    assert place.run("out", "--json", **SAID) == 0
    assert told(capsys.readouterr().out)["done"] == 24
    assert main(["verify", "--json", str(place.path / "out")]) == 0
    assert told(capsys.readouterr().out)["hold"] == 24


def test_files_may_move_between_runs(place: Place) -> None:
    from safetensors.torch import save_file

    save_file(run_module(place).net().state_dict(), place.path / "a.safetensors")
    shutil.copy(place.path / "a.safetensors", place.path / "b.safetensors")
    shutil.copy(place.path / "data.npz", place.path / "moved.npz")
    assert place.run("out", weights=place.path / "a.safetensors", **SAID) == 0
    assert place.run("out", weights=place.path / "b.safetensors", data=place.path / "moved.npz", **SAID) == 0


@pytest.mark.parametrize(
    "words",
    [
        ["run", "--budget", "abc"],
        ["run", "--nonsense"],
        ["nonsense"],
        ["show"],
        ["show", "nowhere"],
        ["run", "--device", ",", "--model", "m", "--data", "d", "--out", "o"],
        ["export", "nowhere", "x.csv"],
        ["verify", "nowhere"],
    ],
)
def test_every_error_is_one_line(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    said = capsys.readouterr().err
    assert said.startswith("pwcf: ")
    assert said.count("\n") == 1


def test_homes_are_found(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(place.path))
    monkeypatch.chdir(place.path)
    words = ["run", "--model", "~/net.py:net", "--data", "~/data.npz", "--out", "~/here", "--metric", "l2"]
    assert main([*words, "--budget", "60"]) == 0
    assert pwcf.load_run(place.path / "here").complete


def test_names_are_no_markup(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert place.run("my[l2]run[/q]", **SAID) == 0
    assert main(["show", str(place.path / "my[l2]run[/q]")]) == 0
    assert "my[l2]run[/q]" in capsys.readouterr().out.replace("\n", "")


def test_what_chunks_say_is_said_once(place: Place) -> None:
    from pwcf.runs.summary import warnings_of

    assert place.run("out", **SAID) == 0
    run = pwcf.load_run(place.path / "out")
    said = ["Found for 2 of 8 samples {a}.\nAlways.", "", "Found for 1 of 8 samples {a}.\nOnce."]
    texts = [said[i // 8] for i in range(24)]
    rows = run.rows.set_column(run.rows.column_names.index("warnings"), "warnings", [texts])
    assert warnings_of(run.header, rows) == ["Found for 3 of 16 samples {a}.", "Always.", "Once."]


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
