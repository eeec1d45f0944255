"""IDX files, MNIST's own format: the pixels that are stored, and every mistake in one line that helps."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from pwcf.data import DataError, open_data

COUNT = 17
Bytes = NDArray[np.uint8]


def pixels(*shape: int) -> Bytes:
    return np.random.default_rng(0).integers(0, 256, shape or (COUNT, 5, 4), dtype=np.uint8)


def answers(count: int = COUNT) -> Bytes:
    return np.random.default_rng(1).integers(0, 10, count, dtype=np.uint8)


def idx(array: Bytes) -> bytes:
    """Written out by hand, as the format's description has it."""
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes((0, 0, 8, array.ndim)) + sizes + array.tobytes()


def save(folder: Path, images: bytes, labels: bytes | None, ending: str = "", labels_ending: str | None = None) -> str:
    packed = {"": bytes, ".gz": gzip.compress}
    path = folder / f"t10k-images-idx3-ubyte{ending}"
    path.write_bytes(packed[ending](images))
    if labels is not None:
        theirs = ending if labels_ending is None else labels_ending
        (folder / f"t10k-labels-idx1-ubyte{theirs}").write_bytes(packed[theirs](labels))
    return str(path)


def fails(spec: str, *parts: str, **arguments: Any) -> None:
    with pytest.raises(DataError) as caught:
        open_data(spec, **arguments).read(0, 1)
    said = str(caught.value)
    assert "\n" not in said
    for part in parts:
        assert part in said


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("labels_ending", ["", ".gz"])
def test_what_is_stored_comes_out(tmp_path: Path, ending: str, labels_ending: str) -> None:
    source = open_data(save(tmp_path, idx(pixels()), idx(answers()), ending, labels_ending))
    assert len(source) == COUNT
    images, labels = source.read(3, 12)
    assert torch.equal(images, torch.from_numpy(pixels()[3:12]).unsqueeze(1).float() / 255)
    assert labels.tolist() == answers()[3:12].tolist()
    assert (images.dtype, labels.dtype) == (torch.float32, torch.int64)
    assert source.about == f"t10k-images-idx3-ubyte{ending}: {COUNT} samples of shape 1x5x4, stored as uint8"
    images.zero_()
    assert source.read(3, 4)[0].any(), "writing to a piece changes nothing"


def test_channels_and_other_spellings(tmp_path: Path) -> None:
    (tmp_path / "images.idx4-ubyte").write_bytes(idx(pixels(COUNT, 3, 5, 4)))
    (tmp_path / "labels.idx1-ubyte").write_bytes(idx(answers()))
    images, _ = open_data(str(tmp_path / "images.idx4-ubyte")).read(0, COUNT)
    assert torch.equal(images, torch.from_numpy(pixels(COUNT, 3, 5, 4)).float() / 255)


def test_the_fingerprint_is_that_of_the_same_arrays_elsewhere(tmp_path: Path) -> None:
    found = open_data(save(tmp_path, idx(pixels()), idx(answers()), ".gz"))
    np.savez(tmp_path / "a.npz", images=pixels()[:, None], labels=answers())
    assert found.fingerprint(9) == open_data(str(tmp_path / "a.npz")).fingerprint(9)


def test_labels_packed_as_the_images_are_come_first(tmp_path: Path) -> None:
    save(tmp_path, idx(pixels()), idx(answers()), ".gz")
    spec = save(tmp_path, idx(pixels()), idx(9 - answers()))
    assert open_data(spec).read(0, COUNT)[1].tolist() == (9 - answers()).tolist()
    assert open_data(f"{spec}.gz").read(0, COUNT)[1].tolist() == answers().tolist()


def test_what_is_unpacked_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spare = tmp_path / "spare"
    spare.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(spare))
    source = open_data(save(tmp_path, idx(pixels()), idx(answers()), ".gz"))
    assert list(spare.iterdir()) == []
    assert source.read(0, 1)[0].any()


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: Any) -> None:
        raise OSError(28, "No space left on device")

    spec = save(tmp_path, idx(pixels()), idx(answers()), ".gz")
    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    fails(spec, "No space left", "TMPDIR")


def test_no_more_is_unpacked_than_the_header_declares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few packed kilobytes can be gigabytes."""
    written = 0
    made = tempfile.TemporaryFile

    def watched(**arguments: Any) -> Any:
        file = made(**arguments)

        class Watched:
            def __enter__(self) -> Any:
                return self

            def __exit__(self, *_: object) -> None:
                file.close()

            def write(self, some: bytes) -> int:
                nonlocal written
                written += len(some)
                return file.write(some)

            def __getattr__(self, name: str) -> Any:
                return getattr(file, name)

        return Watched()

    monkeypatch.setattr(tempfile, "TemporaryFile", watched)
    spec = save(tmp_path, idx(pixels()) + bytes(2**24), idx(answers()), ".gz")
    fails(spec, "expected 340 bytes", "found 341 or more", "damaged")
    assert written == 341
    written = 0
    fails(save(tmp_path, b"PK\x03\x04" + bytes(2**24), idx(answers()), ".gz"), "found 504b0304")
    huge = b"\0\0\x08\x03" + 3 * (2**30).to_bytes(4, "big")
    fails(save(tmp_path, huge + bytes(100), idx(answers()), ".gz"), "cannot hold them")
    assert written == 0


@pytest.mark.parametrize(
    ("images", "labels", "parts"),
    [
        (idx(pixels())[:-1], idx(answers()), ("t10k-images", "expected 340 bytes", "found 339", "damaged")),
        (idx(pixels()) + b"\0", idx(answers()), ("expected 340 bytes", "found 341")),
        (idx(pixels())[:9], idx(answers()), ("t10k-images", "expected a header of 16 bytes, found 9", "damaged")),
        (idx(pixels())[:4], idx(answers()), ("expected a header of 16 bytes, found 4",)),
        (idx(pixels()), idx(answers())[:-2], ("t10k-labels", "expected 17 bytes", "found 15")),
        (idx(pixels()), idx(answers(16)), ("17 images and 16 labels",)),
        (idx(pixels()), idx(pixels()), ("t10k-labels", "magic number 00000801, found 00000803")),
        (idx(answers()), idx(answers()), ("t10k-images", "magic number 00000803 or 00000804, found 00000801")),
        (b"\0\0\x0d\x03" + idx(pixels())[4:], idx(answers()), ("8-bit images", "found 00000d03")),
        (b"PK\x03\x04 something else", idx(answers()), ("found 504b0304", "right file")),
        (b"\0\0", idx(answers()), ("found 0000",)),
        (b"\0\0\x08\x03" + bytes(12), idx(answers()), ("at least one sample",)),
        (idx(pixels()), None, ("expected its labels beside it in t10k-labels-idx1-ubyte", "found neither")),
    ],
)
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_mistakes_are_named(
    tmp_path: Path, images: bytes, labels: bytes | None, parts: tuple[str, ...], ending: str
) -> None:
    fails(save(tmp_path, images, labels, ending), *parts)


@pytest.mark.parametrize(
    ("name", "content", "parts"),
    [
        ("t10k-images-idx3-ubyte.gz", gzip.compress(idx(pixels()), mtime=0)[:200], ("cut short", "download it again")),
        ("t10k-images-idx3-ubyte.gz", gzip.compress(idx(pixels()), mtime=0)[:5], ("cut short",)),
        ("t10k-images-idx3-ubyte.gz", idx(pixels()), ("no gzip file",)),
        ("t10k-images-idx3-ubyte.gz", b"<html>sign in</html>", ("web page",)),
        ("t10k-images-idx3-ubyte", b"", ("empty file",)),
    ],
)
def test_something_else_than_the_data(tmp_path: Path, name: str, content: bytes, parts: tuple[str, ...]) -> None:
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(idx(answers()))
    (tmp_path / name).write_bytes(content)
    fails(str(tmp_path / name), name, *parts)


def test_a_file_that_is_not_there_and_arguments_that_would_do_nothing(tmp_path: Path) -> None:
    fails(str(tmp_path / "t10k-images-idx3-ubyte.gz"), "no such file")
    spec = save(tmp_path, idx(pixels()), idx(answers()))
    fails(spec, "resize", "leave it out", resize=4)
    fails(spec, "split", "leave it out", split="train")
    fails(spec, "bounds (0, 255)", bounds=(0, 255))
