"""Folders of runs: damage is named, nothing that was recorded is lost."""

import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import pwcf
from pwcf.cli import main
from pwcf.runs import RunError, RunFolder
from runfolders import SAID, Place, answers, rows_of, ruined


def test_many_small_files_of_rows_become_one(place: Place) -> None:
    assert place.run("out", metric="l2", budget=60, chunk=2) == 0
    assert [path.name for path in rows_of(place.path / "out")] == ["rows-000000-000011.parquet"]
    folder = RunFolder(place.path / "out")
    # As after a crash between writing the large file and removing the small ones: nothing counts twice.
    table = folder.rows()
    folder.write_rows(3, 3, table.slice(6, 2))
    assert len(folder.rows()) == 24
    assert folder.done() == set(range(12))


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


def test_a_folder_in_which_a_process_died_at_once_can_be_used(place: Place) -> None:
    (place.path / "out").mkdir()
    for name in (".header.json.partial", ".rows-000009-000009.parquet.7f.partial"):
        (place.path / "out" / name).write_text("{")
    assert place.run("out", **SAID) == 0
    assert not list((place.path / "out").glob(".*partial"))


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


def test_tensors_of_other_samples_are_damage(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """In a folder of an earlier version, whose rows do not name their points."""
    from safetensors.torch import load_file

    from pwcf.runs.shard import write_tensors

    assert place.run("out", **SAID) == 0
    folder = RunFolder(place.path / "out")
    folder.write_rows(0, 2, folder.rows().drop_columns(["points"]))
    folder.create({**folder.header(), "schema": 2})
    path = folder.tensors_file(2)
    tensors = load_file(path)
    write_tensors(path, {name: value[:5].clone() for name, value in tensors.items()})
    assert "other tensors or samples" in ruined(place, capsys, **SAID)
    write_tensors(path, {**tensors, "index": tensors["index"].flip(0)})
    with pytest.raises(RunError, match="other tensors or samples"):
        pwcf.load_run(place.path / "out")


def test_a_lock_that_is_a_link_or_a_pipe_is_left_alone(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    (place.path / "out").mkdir()
    lock, precious = place.path / "out" / "lock", place.path / "thesis.tex"
    precious.write_text("ten years")
    lock.symlink_to(precious)
    assert "choose another --out" in ruined(place, capsys, **SAID)
    assert precious.read_text() == "ten years"
    lock.unlink()
    os.mkfifo(lock)
    assert "expected a file" in ruined(place, capsys, **SAID)


def test_only_our_own_partial_files_are_tidied_away(place: Place) -> None:
    (place.path / "out").mkdir()
    theirs = place.path / "out" / ".thesis.tex.partial"
    theirs.write_text("ten years")
    assert place.run("out", **SAID) == 0
    assert theirs.read_text() == "ten years"


def test_pictures_do_not_follow_links(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert place.run("out", **SAID) == 0
    words = ["export", str(place.path / "out"), str(place.path / "pictures"), "--format", "png", "--force"]
    assert main(words) == 0
    first = sorted((place.path / "pictures").iterdir())[0]
    precious = place.path / "thesis.tex"
    precious.write_text("ten years")
    first.unlink()
    first.symlink_to(precious)
    assert main(words) == 2
    assert "found a symbolic link" in capsys.readouterr().err
    assert precious.read_text() == "ten years"
