"""What options mean: an eps asks max-loss, several are told by one min-radius run; help and doctor say what to type."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import pwcf
from pwcf.attacks import PRESETS, resolve_attacks
from pwcf.cli import main
from pwcf.cli.commands.doctor import EXTRAS
from pwcf.runs import RunFolder, header_from, settings_from
from pwcf.runs.settings import BUDGET_HELP
from runfolders import SAID, Place, told

NEEDED = {"model": "m", "data": "d", "out": "o"}
LEVELS = [2 / 255, 4 / 255, 8 / 255]


@pytest.mark.parametrize("eps", ["8/255", "0.5", 0.5, ["8/255"]])
def test_an_eps_asks_max_loss(eps: object) -> None:
    settings = settings_from({**NEEDED, "eps": eps})
    assert settings == settings_from({**NEEDED, "eps": eps, "question": "max-loss"})
    assert settings.eps in (8 / 255, 0.5)


@pytest.mark.parametrize("eps", ["8/255,2/255,4/255", ["2/255", "4/255,8/255"], LEVELS])
def test_several_eps_ask_for_one_min_radius_run(eps: object) -> None:
    settings = settings_from({**NEEDED, "eps": eps})
    assert (settings.question, settings.eps, settings.accuracy_at) == ("min-radius", None, LEVELS)
    assert settings_from({**NEEDED, "eps": "0.1", "question": "min-radius"}).accuracy_at == [0.1]


def test_robust_accuracies_are_told_and_may_be_asked_later(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert place.run("out", eps="0.05,0.1", **SAID) == 0
    radius = pwcf.load_run(place.path / "out").radius
    share = {eps: float((radius > eps).double().mean()) for eps in (0.05, 0.1, 0.2)}
    assert 0 < share[0.2] < share[0.05] < 1
    said = " ".join(capsys.readouterr().out.split())
    assert f"robust accuracy {share[0.05]:.1%} at 0.05, {share[0.1]:.1%} at 0.1 (l" in said
    for words, expected in ([], (0.05, 0.1)), (["--eps", "0.2"], (0.2,)):
        assert main(["show", str(place.path / "out"), "--json", *words]) == 0
        shown = told(capsys.readouterr().out)
        assert (tuple(shown["eps"]), shown["robust_at"]) == (expected, [share[eps] for eps in expected])
    # Other levels are no other run: nothing is searched again, and the folder tells the new ones.
    before = [path.read_bytes() for path in sorted((place.path / "out").glob("rows-*"))]
    assert place.run("out", eps="0.1,0.2", **SAID) == 0
    assert before == [path.read_bytes() for path in sorted((place.path / "out").glob("rows-*"))]
    header = header_from(RunFolder(place.path / "out").header(), "out")
    assert (header.settings.accuracy_at, header.earlier) == ([0.1, 0.2], ())
    assert place.run("out", **SAID) == 0
    assert f"{share[0.2]:.1%} at 0.2" in " ".join(capsys.readouterr().out.split())


def test_show_says_where_there_are_no_radii(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert place.run("runs/eps", eps="0.05", **SAID) == 0
    assert main(["show", str(place.path / "runs"), "--eps", "0.1"]) == 2
    assert "expected min-radius runs" in capsys.readouterr().err
    assert main(["show", str(place.path / "runs"), "--eps", "a"]) == 2
    assert place.run("runs/radius", **SAID) == 0
    capsys.readouterr()
    assert main(["show", str(place.path / "runs"), "--eps", "0.1,8/255"]) == 0
    assert {"8/255", "0.1"} <= set(capsys.readouterr().out.splitlines()[1].split())


def test_the_help_tells_the_budgets_that_attacks_have() -> None:
    def budget(attack: str, problem: pwcf.MinRadius | pwcf.MaxLoss) -> int:
        return resolve_attacks([attack], problem, 3, "converged").budgets[0]

    radius, loss = pwcf.MinRadius("l2"), pwcf.MaxLoss("l2", 0.1)
    assert f"{budget('lmn', radius)} for lmn in min-radius" in BUDGET_HELP
    assert f"; {budget('lmn', loss)} for every other" in BUDGET_HELP
    assert {budget("lmn", loss), budget("fab", radius), budget("apgd", loss)} == {2000}
    assert {preset.budget for preset in PRESETS.values()} != {2000}


def test_the_doctor_names_the_extra_of_every_package(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    for package, (extra, _) in EXTRAS.items():
        packages = " ".join(project["optional-dependencies"][extra]) if extra else package
        assert package in packages
    monkeypatch.setattr("pwcf.cli.commands.doctor.installed_version", lambda name: None)
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    assert all(f"pip install 'pwcf[{extra}]'" in said for extra, _ in EXTRAS.values() if extra)


@pytest.mark.parametrize("words", [["attacks"], ["zoo", "--json"], ["run", "--help"]])
def test_a_reader_that_leaves_ends_a_command_quietly(words: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-m", "pwcf.cli", *words], stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "--budget", "1e4"], "'--budget': expected an integer, found '1e4' (pwcf run --help)"),
        (["run", "--attack", "apgd"], "No such option: --attack (Possible options: --attacks"),
        (["show"], "Missing argument 'RUN...'. (pwcf show --help)"),
        (["shw"], "Did you mean 'show'? (pwcf --help)"),
    ],
)
def test_a_slip_is_answered_with_what_was_expected_and_where_it_is_explained(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert said in capsys.readouterr().err


def test_python_runs_the_package_as_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "pwcf", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout.split()[0], done.stderr) == (0, "pwcf", "")


def test_output_that_cannot_be_written_is_said_in_a_line() -> None:
    command = [sys.executable, "-m", "pwcf.cli", "zoo", "--json"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
        unheard = subprocess.run([*command[:3], "nonsense"], stdout=subprocess.PIPE, stderr=full, text=True)
    assert done.returncode == 2
    assert done.stderr == "pwcf: standard output cannot be written to: the disk is full; free some space\n"
    assert unheard.returncode == 2
    closed = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", *command], stderr=subprocess.PIPE, text=True)
    assert (closed.returncode, closed.stderr) == (0, "")
