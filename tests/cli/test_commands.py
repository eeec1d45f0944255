"""Commands that read runs, and those that list what there is."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
import torch

import pwcf
from pwcf.cli import main
from runfolders import SAID, Place, make_place, replace_points, told


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = make_place(tmp_path_factory.mktemp("runs"), 20)
    assert place.run("few", metric="l2", budget=60) == 0
    assert place.run("many", metric="l2", budget=400) == 0
    assert place.run("eps", metric="linf", question="max-loss", eps="0.02", budget=100) == 0
    return place


def test_show_tells_robust_accuracy_at_usual_and_given_eps(two_runs: Place, capsys: pytest.CaptureFixture[str]) -> None:
    run = pwcf.load_run(two_runs.path / "many")
    assert main(["show", "--json", str(two_runs.path / "many")]) == 0
    summary = told(capsys.readouterr().out)
    assert summary["robust_at"] == [run.robust_accuracy_at(eps) for eps in summary["eps"]]
    assert len(summary["eps"]) >= 2
    assert sum(each["samples"] for each in summary["classes"]) == len(run.status)
    assert main(["show", str(two_runs.path / "many"), "--eps", "0.25,1/2", "--classes"]) == 0
    shown = capsys.readouterr().out
    share = f"{run.robust_accuracy_at(0.25):.1%} at 0.25, {run.robust_accuracy_at(0.5):.1%} at 0.5"
    assert share in " ".join(shown.split())
    assert "upper bounds" in shown
    lines = [line.split() for line in shown.splitlines()]
    assert sum(line[:1] == ["class"] and len(line) > 5 for line in lines) == 1 + len(summary["classes"])
    assert main(["show", str(two_runs.path / "many"), "--eps", "much"]) == 2
    assert "--eps: expected numbers or fractions" in capsys.readouterr().err


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
    from safetensors.torch import load_file

    for name in ("many", "eps"):
        assert main(["verify", "--trust", "--json", str(two_runs.path / name)]) == 0
        shown = told(capsys.readouterr().out)
        assert shown["hold"] == shown["checked"] > 0
    shutil.copytree(two_runs.path / "many", tmp_path / "changed")
    tensors = load_file(tmp_path / "changed" / "tensors-000000.safetensors")
    data = np.load(two_runs.path / "data.npz")
    tensors["x_adv"][5] = torch.from_numpy(data["images"][5])  # not adversarial
    tensors["x_adv"][6] = tensors["x_adv"][6] + 0.3 * (tensors["x_adv"][6] - torch.from_numpy(data["images"][6]))
    replace_points(tmp_path / "changed", 0, tensors["x_adv"])
    assert main(["verify", "--trust", "--json", str(tmp_path / "changed")]) == 1
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


@pytest.mark.parametrize(("load", "threads", "said"), [(7.25, 4, True), (7.25, 1, False), (0.5, 4, False)])
def test_the_doctor_knows_a_busy_machine(
    load: float, threads: int, said: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (load, 0.0, 0.0), raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr("torch.get_num_threads", lambda: threads)
    assert main(["doctor"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert ("a load of 7.2 on 2 cores: 4 threads would wait" in text and "--threads 1" in text) is said


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


def test_verify_looks_at_labels_and_at_samples_that_were_wrong_as_they_are(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    assert place.run("out", **SAID) == 0
    data = dict(np.load(place.path / "data.npz"))
    data["labels"][7] = (data["labels"][7] + 3) % 4
    np.savez(place.path / "data.npz", **data)
    capsys.readouterr()
    assert main(["verify", "--trust", "--json", str(place.path / "out")]) == 1
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


def test_what_models_print_is_not_the_result(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    talkative = (place.path / "net.py").read_text() + "\nprint('hello')\n"
    (place.path / "net.py").write_text(talkative)
    assert place.run("out", "--json", **SAID) == 0
    assert told(capsys.readouterr().out)["done"] == 24
    assert main(["verify", "--trust", "--json", str(place.path / "out")]) == 0
    assert told(capsys.readouterr().out)["hold"] == 24


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
