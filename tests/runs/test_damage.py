"""Files of a run that are not as they were written: every command says so, and none believes them."""

import os
import shutil
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

import pwcf
from faults import DAMAGE, EXCHANGES, FILES, HEADERS, header_with
from pwcf._common import seal
from pwcf._common.errors import UserError
from pwcf.cli import main
from pwcf.runs import RunFolder
from pwcf.runs.folder import write_json
from runfolders import SAID, Place, answers, make_place


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


# Files that are intact, and belong elsewhere


@pytest.fixture(scope="module")
def another(recorded: Place) -> Place:
    """A second run of the same samples in another metric: every file of it is intact."""
    assert recorded.run("another", **{**SAID, "metric": "linf"}) == 0
    return recorded


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_an_intact_file_of_another_run_or_shard_is_noticed(
    another: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str], exchange: str
) -> None:
    shutil.copytree(another.path / "out", tmp_path / "out")
    EXCHANGES[exchange](tmp_path / "out", another.path / "another")
    out = str(tmp_path / "out")
    resume = another.words("", **SAID)
    resume[2] = out
    for words in (
        resume, ["verify", out, "--model", f"{another.path}/net.py:net"], ["show", out], ["compare", out],
        ["report", out, "-o", str(tmp_path / "page.html")], ["export", out, str(tmp_path / "points.npz")],
    ):  # fmt: skip
        assert main(words) == 2, words
        said = capsys.readouterr().err
        assert "damaged (" in said or (words is resume and "holds another run" in said), words
    with pytest.raises(UserError, match=r"damaged \("):
        pwcf.load_run(out, tensors=False)


def test_what_is_exchanged_is_redone_once_it_is_removed(another: Place, tmp_path: Path) -> None:
    shutil.copytree(another.path / "out", tmp_path / "out")
    EXCHANGES["points of another run"](tmp_path / "out", another.path / "another")
    (tmp_path / "out" / FILES[2]).unlink()
    resume = another.words("", **SAID)
    resume[2] = str(tmp_path / "out")
    assert main(resume) == 0
    assert answers(tmp_path / "out") == answers(another.path / "out")


def test_of_a_folder_of_an_earlier_version_is_said_what_cannot_be_checked(
    recorded: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(recorded.path / "out", tmp_path / "out")
    folder, newer = RunFolder(tmp_path / "out"), answers(tmp_path / "out")
    header, rows = folder.header(), folder.rows().drop(["points"])
    write_json(folder.path / "header.json", {**header, "schema": 2})
    content = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(rows.replace_schema_metadata({"seal": seal.UNSEALED}), content)
    (folder.path / FILES[1]).write_bytes(seal.seal(content.getvalue().to_pybytes(), at_end=True))
    run = pwcf.load_run(folder.path)
    assert [each for each in run.warnings if "earlier version" in each]
    del newer["points"]
    assert answers(folder.path) == newer
    for words in (["show"], ["verify", "--trust"], ["report", "-o", str(tmp_path / "page.html")]):
        assert main([words[0], str(folder.path), *words[1:]]) == 0
        said = capsys.readouterr().out if words[0] != "report" else (tmp_path / "page.html").read_text()
        assert "do not name their files of points" in " ".join(said.split())
    # In a folder of this version rows that say nothing are refused.
    write_json(folder.path / "header.json", header)
    with pytest.raises(UserError, match="of another run, or of other samples"):
        pwcf.load_run(folder.path)


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_that_says_what_cannot_be_is_refused(
    recorded: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    from pwcf.cli.main import TRACEBACK

    shutil.copytree(recorded.path / "out", tmp_path / "out")
    header_with(HEADERS[name])(tmp_path / "out", tmp_path)
    for words in (["show"], ["report", "-o", str(tmp_path / "page.html")]):
        assert main([words[0], str(tmp_path / "out"), *words[1:]]) == 2
        said = capsys.readouterr().err
        assert TRACEBACK not in said, said
        assert said.count("\n") == 1
