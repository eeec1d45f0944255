"""A folder from a stranger: its header is believed nothing that would run code, go to the network or never end."""

import os
import shutil
from pathlib import Path

import pytest

from pwcf.cli import main
from pwcf.runs.folder import read_json, write_json
from runfolders import SAID, Place, make_place


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = make_place(tmp_path_factory.mktemp("trust"), 8)
    assert place.run("out", **SAID) == 0
    return place


@pytest.fixture
def strange(recorded: Place, tmp_path: Path) -> Path:
    """The folder, which names code that leaves a trace when it is imported."""
    (tmp_path / "evil.py").write_text(
        f"from pathlib import Path\nPath({str(tmp_path / 'trace')!r}).touch()\n"
        + (recorded.path / "net.py").read_text()
        + "\n\ndef d(a, b):\n    return (a - b).flatten(1).norm(dim=1)\n"
    )
    shutil.copytree(recorded.path / "out", tmp_path / "out")
    return tmp_path


def _rename(folder: Path, **settings: str) -> None:
    header = read_json(folder / "header.json")
    write_json(folder / "header.json", header | {"settings": header["settings"] | settings})


def test_verify_runs_no_code_that_only_the_folder_names(
    strange: Path, recorded: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    evil, own = f"{strange}/evil.py", f"{recorded.path}/net.py:net"
    _rename(strange / "out", model=f"{evil}:net")
    assert main(["verify", str(strange / "out")]) == 2
    assert "its header names model" in capsys.readouterr().err
    assert main(["verify", str(strange / "out"), "--model", own]) == 0
    _rename(strange / "out", model=own, metric=f"{evil}:d")
    assert main(["verify", str(strange / "out"), "--model", own]) == 2
    assert "its header names metric" in capsys.readouterr().err
    for command in (["show"], ["compare"], ["report", "-o", str(strange / "page.html")]):
        assert main([*command, str(strange / "out")]) == 0
    assert not (strange / "trace").exists()
    assert main(["verify", str(strange / "out"), "--model", own, "--trust"]) == 0
    assert (strange / "trace").exists()


def test_figures_that_search_again_run_no_code_of_the_folder(strange: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _rename(strange / "out", model=f"{strange}/evil.py:net")
    words = ["figure", "trajectories", str(strange / "out"), "--sample", "1", "-o", str(strange / "a.svg")]
    assert main(words) == 2
    assert "its header names model" in capsys.readouterr().err
    assert not (strange / "trace").exists()


@pytest.mark.parametrize(
    "data", ["hf:somebody/images", "torchvision:CIFAR10", "pipe.npz", "/proc/kmsg", "/dev/zero", "."]
)
def test_a_report_opens_nothing_but_regular_files_unasked(
    strange: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], data: str
) -> None:
    def refused(*given: object, **named: object) -> None:
        raise AssertionError(f"opened {given}")

    monkeypatch.chdir(strange)
    os.mkfifo("pipe.npz")
    _rename(strange / "out", data=data)
    monkeypatch.setattr("pwcf.runs.originals.open_source", refused)
    assert main(["report", "out", "-o", "page.html"]) == 0
    assert "no regular file" in " ".join(capsys.readouterr().out.split())


def test_data_that_never_end_are_refused_on_the_command_line_too(
    recorded: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "pipe.npz")
    assert main(recorded.words("pipe", data=tmp_path / "pipe.npz")) == 2
    assert "expected a file, found a pipe" in capsys.readouterr().err


def test_names_of_a_folder_do_not_steer_the_terminal(
    strange: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    escape = "\x1b]0;title\x07\x1b[31mnet\u202e"
    header = read_json(strange / "out" / "header.json")
    about = {"spec": escape, "about": escape, "fingerprint": "0" * 64}
    write_json(
        strange / "out" / "header.json",
        header | {"settings": header["settings"] | {"model": escape, "data": escape}, "model": about, "data": about},
    )
    for words in (["show"], ["show", "--json"], ["compare"], ["table"], ["report", "-o", str(tmp_path / "page.html")]):
        kind = ["overview"] if words[0] == "table" else []
        assert main([words[0], *kind, str(strange / "out"), *words[1:]]) == 0
        said = "".join(capsys.readouterr())
        assert "\x1b" not in said
        assert "\u202e" not in said
