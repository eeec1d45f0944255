"""Files of a run that are not as they were written: every command says so, and none believes them."""

import os
import shutil
from pathlib import Path

import pytest

import pwcf
from faults import DAMAGE, FILES
from pwcf._common.errors import UserError
from pwcf.cli import main
from pwcf.runs import RunFolder
from runfolders import SAID, Place, make_place


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = make_place(tmp_path_factory.mktemp("damage"), 24)
    assert place.run("out", **SAID) == 0
    return place


@pytest.mark.parametrize("file", FILES[1:])
def test_every_command_that_reads_a_file_notices(
    recorded: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str
) -> None:
    shutil.copytree(recorded.path / "out", tmp_path / "out")
    path, out = tmp_path / "out" / file, str(tmp_path / "out")
    path.write_bytes(DAMAGE["bit 4 at 0.500"](path.read_bytes()))
    resume = recorded.words("", **SAID)
    resume[2] = out
    commands = [
        resume,
        ["verify", out, "--model", f"{recorded.path}/net.py:net"],
        ["report", out, "-o", str(tmp_path / "page.html")],
        ["export", out, str(tmp_path / "points.npz")],
    ]
    for words in [*commands, *([["show", out], ["compare", out]] if file.startswith("rows") else [])]:
        code, said = main(words), capsys.readouterr()
        # A report is made of what is intact, and says what is missing and why.
        assert code == (0 if words[0] == "report" and file.startswith("tensors") else 2), words
        assert f"{path}:damaged" in "".join((said.out + said.err).split())


def test_a_file_without_its_seal_is_damaged(recorded: Place, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    shutil.copytree(recorded.path / "out", tmp_path / "out")
    path = RunFolder(tmp_path / "out").tensors_file(1)
    save_file(load_file(path), path)
    with pytest.raises(UserError, match="SHA-256 is missing"):
        pwcf.load_run(tmp_path / "out")


@pytest.mark.parametrize("file", FILES)
def test_a_file_that_may_not_be_read_is_not_called_damaged(
    recorded: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    shutil.copytree(recorded.path / "out", tmp_path / "out")
    opened = os.open

    def refused(path: os.PathLike[str], flags: int, mode: int = 0o777, **more: int) -> int:
        if str(path).endswith(file):
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, flags, mode, **more)

    monkeypatch.setattr(os, "open", refused)  # the tests may run as root, to whom nothing is forbidden
    with pytest.raises(UserError, match="no permission to read it") as found:
        pwcf.load_run(tmp_path / "out")
    assert "remove" not in str(found.value)
