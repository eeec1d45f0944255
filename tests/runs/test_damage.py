"""Files of a run that are not as they were written: every command says so, and none believes them."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import pwcf
from pwcf._common.errors import UserError
from pwcf.cli import main
from pwcf.runs import RunFolder
from runfolders import SAID, Place, make_place

FILES = ("header.json", "rows-000000-000002.parquet", "tensors-000001.safetensors")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = make_place(tmp_path_factory.mktemp("damage"), 24)
    assert place.run("out", **SAID) == 0
    return place


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


@pytest.mark.parametrize("file", FILES)
def test_every_damage_is_noticed(recorded: Place, tmp_path: Path, file: str) -> None:
    shutil.copytree(recorded.path / "out", tmp_path / "out")
    path = tmp_path / "out" / file
    whole = path.read_bytes()
    unnoticed = []
    for name, damage in DAMAGE.items():
        changed = damage(whole)
        assert changed != whole, name
        path.write_bytes(changed)
        try:
            pwcf.load_run(tmp_path / "out")
            unnoticed.append(name)
        except UserError:
            continue
    assert unnoticed == []


@pytest.mark.parametrize("file", FILES[1:])
def test_every_command_that_reads_a_file_notices(
    recorded: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str
) -> None:
    shutil.copytree(recorded.path / "out", tmp_path / "out")
    path, out = tmp_path / "out" / file, str(tmp_path / "out")
    path.write_bytes(_flipped(0.5, 0)(path.read_bytes()))
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
