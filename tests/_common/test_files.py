"""Files are written whole and read without trust in what they are."""

import os
from pathlib import Path

import pytest

from pwcf._common import atomic, seal
from pwcf._common.files import ReadError, read_file


@pytest.mark.parametrize("kind", ["pipe", "device", "link", "link to a device", "folder", "dead link"])
def test_only_files_are_replaced(tmp_path: Path, kind: str) -> None:
    path, precious = tmp_path / "out.html", tmp_path / "precious"
    precious.write_text("ten years")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        try:
            os.mknod(path, 0o20666, os.makedev(1, 3))
        except PermissionError:
            pytest.skip("only root may make a device")
    else:
        path.symlink_to({"link": precious, "link to a device": "/dev/null", "dead link": tmp_path / "no"}[kind])
    before = os.lstat(path)
    with pytest.raises(atomic.WriteError, match=r"out.html: expected a file, or a place for one, found a"):
        atomic.write(path, lambda place: place.write_text("new"))
    assert os.lstat(path).st_ino == before.st_ino
    assert precious.read_text() == "ten years"
    assert len(list(tmp_path.iterdir())) == 2  # nothing half written stays


def test_a_file_is_replaced_whole_with_the_rights_of_new_files(tmp_path: Path) -> None:
    path, other = tmp_path / "a.txt", tmp_path / "b.txt"
    atomic.write(path, lambda place: place.write_text("old"))
    atomic.write(path, lambda place: place.write_text("new"))
    other.write_text("")
    assert path.read_text() == "new"
    assert path.stat().st_mode == other.stat().st_mode
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.txt", "b.txt"]


def test_the_place_of_a_partial_file_cannot_be_taken_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    precious = tmp_path / "precious"
    precious.write_text("ten years")
    monkeypatch.setattr("secrets.token_hex", lambda n: "00")  # as if somebody had guessed it
    (tmp_path / ".a.txt.00.partial").symlink_to(precious)
    with pytest.raises(atomic.WriteError):
        atomic.write(tmp_path / "a.txt", lambda place: place.write_text("new"))
    assert precious.read_text() == "ten years"


def test_reading_waits_for_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ReadError, match="expected a file, found a pipe"):
        read_file(tmp_path / "pipe")
    with pytest.raises(ReadError, match="expected a file, found a device"):
        read_file("/dev/zero")
    with pytest.raises(ReadError, match="expected a file, found a folder"):
        read_file(tmp_path)
    with pytest.raises(ReadError, match="expected the name of a file"):
        read_file("a\0b")
    with pytest.raises(FileNotFoundError):
        read_file(tmp_path / "nothing")
    (tmp_path / "a").write_bytes(b"content")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert read_file(tmp_path / "link") == b"content"


@pytest.mark.parametrize("at_end", [False, True])
def test_a_seal_notices_every_changed_byte(at_end: bool) -> None:
    parts = [b"head ", seal.UNSEALED.encode(), b" body"]
    content = seal.seal(b"".join(parts), at_end=at_end)
    assert seal.is_intact(content, at_end=at_end) is True
    assert seal.is_intact(b"no mark") is None
    for at in range(len(content)):
        changed = content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
        assert seal.is_intact(changed, at_end=at_end) is not True
