"""Data of every kind: the same images piece by piece, little memory, and every mistake in one line that helps."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import time
import tracemalloc
import types
import warnings
import zipfile
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors.torch import save_file
from torch import Tensor

from pwcf.data import DataError, Source, array_files, idx, list_kinds, open_data

Image = pytest.importorskip("PIL.Image")
COUNT = 23
KINDS = ("npz", "compressed npz", "safetensors", "folder", "folder with CSV")
Bytes = NDArray[np.uint8]


def _pixels(count: int = COUNT, channels: int = 3, height: int = 5, width: int = 4) -> Bytes:
    return np.random.default_rng(0).integers(0, 256, (count, channels, height, width), dtype=np.uint8)


def _labels(count: int = COUNT, classes: int = 3) -> NDArray[np.int64]:
    return np.sort(np.random.default_rng(1).integers(0, classes, count))  # sorted: so class folders keep the order


def _picture(pixels: Bytes) -> Any:
    return Image.fromarray(pixels[0] if len(pixels) == 1 else np.ascontiguousarray(pixels.transpose(1, 2, 0)))


def _save_pictures(
    folder: Path, pixels: Bytes, labels: NDArray[np.int64] | None = None, ending: str = "png"
) -> list[str]:
    """Numbered files, in folders class0, class1, ... if there are labels."""
    inside = ["" if labels is None else f"class{labels[i]}/" for i in range(len(pixels))]
    names = [f"{inside[i]}{i:03}.{ending}" for i in range(len(pixels))]
    for name, one in zip(names, pixels, strict=True):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        _picture(one).save(folder / name)
    return names


def _save_csv(path: Path, *rows: str, header: str = "file,label") -> Path:
    path.write_text("\n".join((header, *rows)) + "\n", "utf-8")
    return path


def _stored(kind: str, folder: Path, pixels: Bytes, labels: NDArray[np.int64]) -> Source:
    folder.mkdir(parents=True, exist_ok=True)
    if kind == "safetensors":
        save_file({"x": torch.from_numpy(pixels), "y": torch.from_numpy(labels)}, folder / "a.safetensors")
        return open_data(str(folder / "a.safetensors"))
    if kind == "folder":
        _save_pictures(folder / "set", pixels, labels)
        return open_data(str(folder / "set"))
    if kind == "folder with CSV":
        names = _save_pictures(folder / "set", pixels)
        rows = [f"{name},{label}" for name, label in zip(names, labels, strict=True)]
        return open_data(str(folder / "set"), labels=_save_csv(folder / "labels.csv", *rows))
    save = np.savez if kind == "npz" else np.savez_compressed
    save(folder / "a.npz", images=pixels, labels=labels)
    return open_data(str(folder / "a.npz"))


def _npz(folder: Path, **arrays: Any) -> str:
    path = folder / "a.npz"
    np.savez(path, **arrays)
    return str(path)


def _in_pieces(source: Source, size: int) -> tuple[Tensor, Tensor]:
    pieces = [source.read(start, min(start + size, len(source))) for start in range(0, len(source), size)]
    return torch.cat([images for images, _ in pieces]), torch.cat([labels for _, labels in pieces])


def _fails(*parts: str, spec: str, **arguments: Any) -> None:
    """Opening, then reading everything, ends in one line that holds all of ``parts``."""
    with pytest.raises(DataError) as caught:
        _in_pieces(open_data(spec, **arguments), 4)
    said = str(caught.value)
    assert "\n" not in said
    for part in parts:
        assert part in said


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Source]:
    root = tmp_path_factory.mktemp("kinds")
    return {kind: _stored(kind, root / kind, _pixels(), _labels()) for kind in KINDS}


# What comes out


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25, deadline=None)
@given(cuts=st.lists(st.integers(0, COUNT), max_size=6), start=st.integers(0, COUNT), stop=st.integers(0, COUNT))
def test_every_slicing_gives_the_same_bits(
    sources: dict[str, Source], kind: str, cuts: list[int], start: int, stop: int
) -> None:
    source = sources[kind]
    images, labels = torch.from_numpy(_pixels()).float() / 255, torch.from_numpy(_labels())
    edges = [0, *sorted(cuts), COUNT]
    pieces = [source.read(a, b) for a, b in pairwise(edges)]
    assert torch.equal(torch.cat([x for x, _ in pieces]), images)
    assert torch.equal(torch.cat([y for _, y in pieces]), labels)
    start, stop = sorted((start, stop))
    some, theirs = source.read(start, stop)
    assert (some.dtype, theirs.dtype) == (torch.float32, torch.int64)
    assert torch.equal(some, images[start:stop])
    assert torch.equal(theirs, labels[start:stop])


@pytest.mark.parametrize("kind", KINDS)
def test_writing_to_a_piece_changes_nothing(sources: dict[str, Source], kind: str) -> None:
    first, labels = sources[kind].read(2, 9)
    kept, kept_labels = first.clone(), labels.clone()
    first.zero_()
    labels.zero_()
    again = sources[kind].read(2, 9)
    assert torch.equal(again[0], kept)
    assert torch.equal(again[1], kept_labels)


@pytest.mark.parametrize("compressed", [False, True])
@settings(max_examples=20, deadline=None)
@given(
    dtype=st.sampled_from(["<f2", "<f4", "<f8", ">f4", ">f8", "|u1"]),
    label=st.sampled_from(["|u1", "<i4", "<i8", ">i2"]),
    shape=st.lists(st.integers(1, 4), max_size=2).map(lambda sides: [*sides, 4]),
    fortran=st.booleans(),
)
def test_every_way_to_store_an_array(compressed: bool, dtype: str, label: str, shape: list[int], fortran: bool) -> None:
    values = np.random.default_rng(2).random((7, *shape))
    images = np.asarray(values * 255 if dtype == "|u1" else values, dtype, order="F" if fortran else "C")
    with tempfile.TemporaryDirectory() as folder:
        save = np.savez_compressed if compressed else np.savez
        save(Path(folder) / "a.npz", junk=np.zeros(3), x_test=images, y_test=np.arange(7).astype(label))
        source = open_data(f"{folder}/a.npz")
        found, labels = _in_pieces(source, 3)
        assert source.read(1, 6)[0].is_contiguous()
    expected = images.astype(np.float32) / np.float32(255) if dtype == "|u1" else images.astype(np.float32)
    assert np.array_equal(found.numpy(), expected)
    assert labels.tolist() == list(range(7))


def test_half_precisions_of_safetensors(tmp_path: Path) -> None:
    images = torch.rand(5, 6).to(torch.bfloat16)
    save_file({"data": images, "targets": torch.arange(5, dtype=torch.int32)}, tmp_path / "a.safetensors")
    found, labels = _in_pieces(open_data(str(tmp_path / "a.safetensors")), 2)
    assert torch.equal(found, images.float())
    assert labels.tolist() == [0, 1, 2, 3, 4]


def test_what_is_known_of_a_source(sources: dict[str, Source]) -> None:
    for kind, source in sources.items():
        assert len(source) == COUNT
        assert f"{COUNT} " in source.about
        assert "3x5x4" in source.about
        assert "\n" not in source.about
        assert "/" not in source.about, "paths of this machine are nothing for the record"
        assert (source.names is None) == ("folder" not in kind)
    assert sources["folder"].classes == ["class0", "class1", "class2"]
    assert sources["folder with CSV"].classes is None
    names = sources["folder"].names
    assert names is not None
    assert names[0] == "class0/000.png"
    forms = list_kinds()
    assert [form for form, _ in forms] == [
        "FILE.npz",
        "FILE.safetensors",
        "FILE-images-idx3-ubyte[.gz]",
        "FOLDER",
        "torchvision:NAME",
        "hf:NAME[:CONFIG]",
        "zoo:fashion-mnist",
    ]
    assert all(text and "\n" not in text for _, text in forms)


def test_class_names_of_a_csv_and_its_order_of_files(tmp_path: Path) -> None:
    names = _save_pictures(tmp_path / "set", _pixels(4))
    rows = [f"{names[2]},wolf", f'./{names[0]},"ape, great"', f"{names[3]},wolf", f"{names[1]},bear"]
    source = open_data(str(tmp_path / "set"), labels=str(_save_csv(tmp_path / "l.csv", *rows, "", "")))
    images, labels = _in_pieces(source, 3)
    assert source.classes == ["ape, great", "bear", "wolf"]
    assert labels.tolist() == [2, 0, 2, 1]
    assert list(source.names or ()) == [names[2], names[0], names[3], names[1]]
    assert torch.equal(images, torch.from_numpy(_pixels(4)[[2, 0, 3, 1]]).float() / 255)


def test_a_csv_from_a_spreadsheet(tmp_path: Path) -> None:
    _save_pictures(tmp_path / "set" / "inside", _pixels(2))
    text = "\ufefflabel,remark,file\r\n1,fine,inside\\000.png\r\n0,,inside\\001.png\r\n"
    (tmp_path / "l.csv").write_bytes(text.encode())
    source = open_data(str(tmp_path / "set"), labels=tmp_path / "l.csv")
    assert source.read(0, 2)[1].tolist() == [1, 0]


# Fingerprints


def test_the_fingerprint_is_of_the_content_not_of_the_format(sources: dict[str, Source]) -> None:
    arrays = [sources[kind] for kind in ("npz", "compressed npz", "safetensors")]
    assert len({source.fingerprint(7) for source in arrays}) == 1
    assert len({source.fingerprint(7) for source in sources.values()}) == 3
    prints = [source.fingerprint(count) for source in sources.values() for count in (7, 8, COUNT)]
    assert len(set(prints)) == 9
    assert all(len(found) == 64 for found in prints)


def test_the_fingerprint_of_arrays_sees_every_change_of_the_samples_asked_for(tmp_path: Path) -> None:
    def printed(images: Any, labels: Any, count: int = 5) -> str:
        return open_data(_npz(tmp_path, images=images, labels=labels)).fingerprint(count)

    images, labels = np.zeros((9, 2, 6), np.float32), np.zeros(9, np.int64)
    before = printed(images, labels)
    pixel, label, later = images.copy(), labels.copy(), images.copy()
    pixel[4, 1, 5], label[4], later[5] = 1, 1, 1
    others = [
        printed(pixel, labels),
        printed(images, label),
        printed(images, labels.astype(np.int32)),
        printed(images, labels.astype(np.uint64)),  # the same bytes
        printed(images.astype(np.float64), labels),
        printed(images.reshape(9, 3, 4), labels),
        printed(images, labels, 4),
    ]
    assert len({before, *others}) == 8
    assert printed(later, labels) == before
    assert printed(images[:5], labels[:5]) == before, "samples that are not asked for do not count"


def test_the_fingerprint_of_a_folder_sees_every_change_of_the_samples_asked_for(tmp_path: Path) -> None:
    root, count = tmp_path / "set", 3
    # PPM: files of one size, whatever they show.
    names = _save_pictures(root, _pixels(5, height=8, width=8), ending="ppm")

    def printed(labels: str = "01201", **arguments: Any) -> str:
        rows = [f"{name},{label}" for name, label in zip(sorted(p.name for p in root.iterdir()), labels, strict=True)]
        return open_data(str(root), labels=_save_csv(tmp_path / "l.csv", *rows), **arguments).fingerprint(count)

    before = printed()
    found = [before, printed("11201"), printed(resize=8), printed(resize=(8, 8)), printed(crop=8), printed(resize=6)]
    content = (root / names[2]).read_bytes()
    Image.new("RGB", (8, 8)).save(root / names[2])
    found.append(printed())
    (root / names[2]).write_bytes(content)
    assert printed() == before
    Image.new("RGB", (8, 8)).save(root / names[3])
    assert printed("01211") == before, "the fourth was not asked for"
    (root / names[0]).rename(root / "000a.ppm")
    found.append(printed())
    assert len(set(found)) == len(found)


# Memory


def _anonymous() -> int:
    """Bytes of this process that are no pages of a file, 0 where the system does not say."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon")), 0)


def _growth(use: Callable[[Callable[[], None]], None]) -> tuple[int, int]:
    """Bytes at most allocated meanwhile: by Python and NumPy, and by everything."""
    gc.collect()
    start, most = _anonymous(), 0

    def look() -> None:
        nonlocal most
        most = max(most, _anonymous() - start)

    tracemalloc.start()
    try:
        use(look)
        return tracemalloc.get_traced_memory()[1], most
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", ["npz", "compressed npz", "safetensors"])
def test_memory_does_not_grow_with_the_number_of_images(tmp_path: Path, kind: str) -> None:
    whole = 10_000 * 3 * 32 * 32
    pixels = np.zeros((10_000, 3, 32, 32), np.uint8)
    pixels[:, 0, 0, 0] = np.arange(10_000) % 251
    _stored(kind, tmp_path, pixels, np.arange(10_000) % 10)
    del pixels
    path = str(next(tmp_path.iterdir()))
    seen = []

    def read_all(look: Callable[[], None]) -> None:
        source = open_data(path)
        for start in range(0, 10_000, 32):
            images, _ = source.read(start, min(start + 32, 10_000))
            seen.append(round(images[0, 0, 0, 0].item() * 255))
            if start % 320 == 0:
                look()
        source.fingerprint(10_000)
        look()

    open_data(path).read(0, 32)  # whatever libraries keep from their first use is not of this data
    traced, anonymous = _growth(read_all)
    assert seen == [start % 251 for start in range(0, 10_000, 32)]
    assert traced < 4 * 2**20
    assert anonymous < whole / 3


def _unpacked_here(folder: Path) -> int:
    maps = Path("/proc/self/maps")
    if not maps.exists():
        pytest.skip("this system does not list what a process has mapped")
    return sum(str(folder) in line for line in maps.read_text().splitlines())


@pytest.mark.parametrize("how", ["close", "forget"])
def test_what_was_unpacked_goes_with_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    spare = tmp_path / "spare"
    spare.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(spare))
    monkeypatch.setattr(array_files, "SMALL", 0)
    source = _stored("compressed npz", tmp_path, _pixels(), _labels())
    assert _unpacked_here(spare) > 0
    assert list(spare.iterdir()) == [], "a killed process would leave it behind"
    source.read(0, 4)
    if how == "close":
        source.close()  # type: ignore[attr-defined]
        with pytest.raises(DataError, match="closed; open it again"):
            source.read(0, 4)
    else:
        del source
        gc.collect()
    assert _unpacked_here(spare) == 0


def test_uncompressed_arrays_are_not_copied_to_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(**_: Any) -> None:
        raise AssertionError("a temporary file was made")

    monkeypatch.setattr(tempfile, "TemporaryFile", none)
    monkeypatch.setattr(array_files, "SMALL", 0)
    assert len(_stored("npz", tmp_path, _pixels(), _labels())) == COUNT


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    monkeypatch.setattr(array_files, "SMALL", 0)
    np.savez_compressed(tmp_path / "a.npz", images=_pixels(), labels=_labels())
    _fails("No space left", "TMPDIR", spec=str(tmp_path / "a.npz"))


# Files that change while they are read


@pytest.mark.parametrize("kind", ["npz", "safetensors", "idx"])
@pytest.mark.parametrize("how", ["cut short", "overwritten", "replaced"])
@pytest.mark.parametrize("small", [False, True])
def test_a_file_that_changes_is_never_mixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, how: str, small: bool
) -> None:
    """A copy, or the file that was opened, or an error; never other pixels, and never the end of the process."""
    for place in (array_files, idx):
        monkeypatch.setattr(place, "SMALL", 2**20 if small else 0)
    pixels = np.arange(6 * 3 * 4 * 4, dtype=np.uint8).reshape(6, 3, 4, 4)
    if kind == "idx":
        path = tmp_path / "t10k-images-idx4-ubyte"
        path.write_bytes(bytes((0, 0, 8, 4)) + b"".join(n.to_bytes(4, "big") for n in pixels.shape) + pixels.tobytes())
        (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(bytes((0, 0, 8, 1, 0, 0, 0, 6)) + bytes(6))
        source = open_data(str(path))
    else:
        source = _stored(kind, tmp_path, pixels, np.zeros(6, np.int64))
        (path,) = tmp_path.iterdir()
    before = source.read(0, 6)[0]
    time.sleep(0.02)  # the clock of a file system may go in steps
    if how == "cut short":
        os.truncate(path, 50)
    elif how == "overwritten":
        path.write_bytes(bytes(path.stat().st_size))
    else:
        path.rename(tmp_path / "away")
        path.write_bytes(b"something else")
    if small or how == "replaced":
        assert torch.equal(source.read(0, 6)[0], before)
    else:
        with pytest.raises(DataError, match="was changed or cut short while it was read"):
            source.read(0, 6)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda z: z.writestr("images.npy", b""), "every array once, found images twice"),
        (lambda z: z.writestr("images", b""), "every array once, found images twice"),
    ],
)
def test_an_array_that_is_there_twice_is_not_chosen(tmp_path: Path, change: Any, said: str) -> None:
    np.savez(tmp_path / "a.npz", images=_pixels(), labels=_labels())
    with zipfile.ZipFile(tmp_path / "a.npz", "a") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python says that the name is there already
        change(archive)
    _fails(said, spec=str(tmp_path / "a.npz"))


@pytest.mark.parametrize("shape", ["(-6, -3, 4, 4)", "(-1,)", f"({10**4000}, 4)", "(6, 3, 4, 4, -1, -1)"])
def test_shapes_that_cannot_be_are_named(tmp_path: Path, shape: str) -> None:
    head = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}}}".encode()
    head += b" " * (-len(head) % 64) + b"\n"
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        content = b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head
        archive.writestr("images.npy", content + bytes(288))
        archive.writestr("labels.npy", content + bytes(6))
    _fails("a.npz", "images.npy", spec=str(tmp_path / "a.npz"))


def test_counts_are_compared_before_anything_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unpacked(*_: Any) -> None:
        raise AssertionError("unpacked")

    np.savez_compressed(tmp_path / "a.npz", images=np.zeros((50, 3, 8, 8), np.uint8), labels=np.zeros(7, np.int64))
    monkeypatch.setattr(array_files, "_open", unpacked)
    _fails("50 images and 7 labels", spec=str(tmp_path / "a.npz"))


# Arrays with mistakes


@pytest.mark.parametrize(
    ("arrays", "parts"),
    [
        ({"pictures": _pixels(), "labels": _labels()}, ("images, x, x_test, data", "found labels, pictures")),
        ({"images": _pixels(), "answers": _labels()}, ("labels, y, y_test, targets", "found answers, images")),
        ({"images": _pixels(), "x": _pixels(), "y": _labels()}, ("exactly one", "found images, x, y")),
        ({"images": _pixels(4), "labels": _labels(5)}, ("4 images and 5 labels",)),
        ({"images": np.zeros(4, np.float32), "labels": _labels(4)}, ("shape (n, ...), found (4,)",)),
        (
            {"images": np.zeros((4, 8, 8, 3), np.uint8), "labels": _labels(4)},
            ("channels last", "transpose(0, 3, 1, 2)"),
        ),
        ({"images": np.zeros((4, 8, 8, 1), np.uint8), "labels": _labels(4)}, ("channels last",)),
        ({"images": np.zeros((4, 3, 8, 8), np.int32), "labels": _labels(4)}, ("images: expected uint8", "found int32")),
        ({"images": np.full((4, 2), "a"), "labels": _labels(4)}, ("images: expected uint8", "found str")),
        ({"images": _pixels(4), "labels": np.zeros(4)}, ("labels: expected integers, found float64",)),
        ({"images": _pixels(4), "labels": np.zeros(4, bool)}, ("labels: expected integers, found bool",)),
        ({"images": _pixels(4), "labels": np.zeros((4, 1), int)}, ("labels: expected shape (n,)", "flatten")),
        ({"images": _pixels(4), "labels": np.eye(4, dtype=int)}, ("labels: expected shape (n,)", "argmax")),
        ({"images": _pixels(4), "labels": np.array([0, 1, -1, 0])}, ("sample 2", "label >= 0, found -1")),
        ({"images": _pixels(2), "labels": np.array([0, None])}, ("labels.npy", "Python objects", "pickle")),
    ],
)
def test_wrong_arrays_are_named(tmp_path: Path, arrays: dict[str, Any], parts: tuple[str, ...]) -> None:
    _fails("a.npz", *parts, spec=_npz(tmp_path, **arrays))


@pytest.mark.parametrize(
    ("images", "labels", "parts"),
    [
        (torch.zeros(4, 8, 8, 3), torch.zeros(4).long(), ("channels last",)),
        (torch.zeros(0, 3, 8, 8), torch.zeros(0).long(), ("at least one sample",)),
        (torch.zeros(4, 0), torch.zeros(4).long(), ("at least one entry each",)),
        (torch.tensor(0.5), torch.tensor(1), ("shape (n, ...), found ()",)),
        (torch.zeros(4, 2).to(torch.float8_e4m3fn), torch.zeros(4).long(), ("images: expected uint8", "found float8")),
        (torch.zeros(4, 2), torch.zeros(4), ("labels: expected integers, found float32",)),
        (torch.zeros(4, 2), torch.tensor([0, 1, 2, -3]), ("sample 3", "found -3")),
    ],
)
def test_wrong_tensors_are_named(tmp_path: Path, images: Tensor, labels: Tensor, parts: tuple[str, ...]) -> None:
    save_file({"images": images, "labels": labels}, tmp_path / "a.safetensors")
    _fails("a.safetensors", *parts, spec=str(tmp_path / "a.safetensors"))


@pytest.mark.parametrize("shape", [(4, 64, 1, 1), (4, 2, 3, 3), (4, 3, 5, 3), (4, 1, 8, 1), (4, 8, 3)])
def test_channels_first_and_features_are_no_mistake(tmp_path: Path, shape: tuple[int, ...]) -> None:
    source = open_data(_npz(tmp_path, images=np.zeros(shape, np.float32), labels=_labels(4)))
    assert source.read(0, 4)[0].shape == shape


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        (np.nan, ("sample 13", "finite pixels, found nan")),
        (np.inf, ("sample 13", "finite pixels, found inf")),
        (-np.inf, ("sample 13", "finite pixels, found -inf")),
        (1.25, ("sample 13", "bounds (0, 1)", "0.5 to 1.25", "give bounds")),
        (-0.25, ("sample 13", "-0.25 to 0.5")),
        (254.0, ("sample 13", "divide by 255")),
    ],
)
def test_a_wrong_pixel_is_named_when_its_piece_is_read(tmp_path: Path, value: float, parts: tuple[str, ...]) -> None:
    images = np.full((20, 3, 2, 2), 0.5, np.float32)
    images[13, 2, 1, 0] = value
    source = open_data(_npz(tmp_path, images=images, labels=_labels(20)))
    source.read(0, 13)
    source.read(14, 20)
    with pytest.raises(DataError) as caught:
        source.read(10, 16)
    assert all(part in str(caught.value) for part in parts)
    assert "divide" not in str(caught.value) or value == 254


def test_bounds_are_those_of_the_caller(tmp_path: Path) -> None:
    images = np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 6)
    spec = _npz(tmp_path, images=images, labels=_labels(4))
    assert torch.equal(open_data(spec, bounds=(-1, 1)).read(0, 4)[0], torch.from_numpy(images))
    _fails("sample 0", "bounds (0, 1)", spec=spec)
    # As float32 it is a little more than 0.3, and still meant to be on the bound.
    on_it = _npz(tmp_path, images=np.full((2, 2), 0.3, np.float32), labels=_labels(2))
    open_data(on_it, bounds=(0, 0.3)).read(0, 2)
    for bounds in ((1, 0), (0, np.nan), (0, 1, 2), "ab"):
        _fails("bounds: expected", spec=spec, bounds=bounds)


def test_8_bit_images_want_bounds_0_to_1(tmp_path: Path) -> None:
    _save_pictures(tmp_path / "set", _pixels(3), np.arange(3))
    for spec in (_npz(tmp_path, images=_pixels(), labels=_labels()), str(tmp_path / "set")):
        _fails("8-bit images become values 0 to 1", "bounds (0, 255)", spec=spec, bounds=(0, 255))


@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (0, COUNT + 1), (3, 2)])
def test_a_piece_that_is_not_there(sources: dict[str, Source], start: int, stop: int) -> None:
    for source in sources.values():
        with pytest.raises(DataError, match=f"0 <= start <= stop <= {COUNT}, found start {start}, stop {stop}"):
            source.read(start, stop)
        for count in (0, COUNT + 1):
            with pytest.raises(DataError, match=f"count: expected 1 to {COUNT}.*found {count}"):
                source.fingerprint(count)


# Files that are something else


@pytest.mark.parametrize(
    ("name", "content", "parts"),
    [
        ("a.npz", b"<!DOCTYPE html><html><body>404</body></html>", ("web page", "download the file itself")),
        ("a.npz", b"\n  <html>sign in</html>", ("web page",)),
        ("a.safetensors", b"<html>sign in</html>", ("web page",)),
        ("a.npz", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", ("Git LFS", "git lfs pull")),
        ("a.npz", b"", ("empty file",)),
        ("a.npz", b"\x93NUMPY\x01\x00", ("no npz file",)),
        ("a.safetensors", b"\xff" * 64, ("no safetensors file",)),
        ("a.pt", b"PK", ("pickle", "npz or safetensors")),
        ("a.bin", b"abc", ("unknown kind", "FILE.npz", "hf:NAME")),
    ],
)
def test_something_else_than_the_data(tmp_path: Path, name: str, content: bytes, parts: tuple[str, ...]) -> None:
    (tmp_path / name).write_bytes(content)
    _fails(name, *parts, spec=str(tmp_path / name))


@pytest.mark.parametrize("name", ["a.npz", "a.safetensors", "folder", "tfds:mnist"])
def test_data_that_is_not_there(tmp_path: Path, name: str) -> None:
    _fails(name, "no such file", spec=str(tmp_path / name))


@pytest.mark.parametrize("kind", ["npz", "compressed npz", "safetensors"])
@pytest.mark.parametrize("kept", [0.1, 0.5, 0.99])
def test_a_file_that_was_cut_short(tmp_path: Path, kind: str, kept: float) -> None:
    _stored(kind, tmp_path, _pixels(), _labels())
    path = next(tmp_path.iterdir())
    path.write_bytes(path.read_bytes()[: int(kept * path.stat().st_size)])
    _fails(path.name, "cut short", "copy or download it again", spec=str(path))


@pytest.mark.parametrize("at", [60, 300])  # in the first block's own header, and in what it holds
def test_a_damaged_compressed_array(tmp_path: Path, at: int) -> None:
    np.savez_compressed(tmp_path / "a.npz", images=_pixels(), labels=_labels())
    content = bytearray((tmp_path / "a.npz").read_bytes())
    content[at : at + 20] = b"\xff" * 20
    (tmp_path / "a.npz").write_bytes(content)
    _fails("damaged", "copy or download it again", spec=str(tmp_path / "a.npz"))


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_an_array_of_another_size_than_it_says(tmp_path: Path, compression: int) -> None:
    np.save(tmp_path / "whole.npy", _pixels())
    whole = (tmp_path / "whole.npy").read_bytes()
    for name, content, part in (("short", whole[:-60], "damaged"), ("none", b"hello there", "no NumPy array")):
        with zipfile.ZipFile(tmp_path / f"{name}.npz", "w", compression) as archive:
            archive.writestr("images.npy", content)
            archive.writestr("labels.npy", whole)
        _fails("images.npy", part, spec=str(tmp_path / f"{name}.npz"))


def test_an_array_that_ends_beyond_its_file(tmp_path: Path) -> None:
    """Mapped, it would end the process when it is read."""
    header = {"descr": "|u1", "fortran_order": False, "shape": (2**20, 4)}
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        with archive.open("labels.npy", "w") as file:
            np.save(file, np.zeros(2**20, np.uint8))
        with archive.open("images.npy", "w") as file:
            np.lib.format.write_array_header_1_0(file, header)
        last = archive.filelist[-1]
        last.file_size += 2**22
        last.compress_size += 2**22
    _fails("a.npz", "damaged", spec=str(tmp_path / "a.npz"))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_no_samples(tmp_path: Path, save: Any) -> None:
    save(tmp_path / "a.npz", images=_pixels(0), labels=_labels(0))
    _fails("a.npz", "at least one sample", spec=str(tmp_path / "a.npz"))


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ({"resize": 8}, ("resize: found 8", "leave it out")),
        ({"crop": 8}, ("crop: found 8",)),
        ({"labels": "l.csv"}, ("labels: found 'l.csv'",)),
        ({"split": "train"}, ("split: found 'train'",)),
    ],
)
def test_arguments_that_would_do_nothing(tmp_path: Path, arguments: dict[str, Any], parts: tuple[str, ...]) -> None:
    _fails("a.npz", *parts, spec=_npz(tmp_path, images=_pixels(), labels=_labels()), **arguments)


# Folders


@pytest.mark.parametrize(
    ("rows", "parts"),
    [
        (["000.png,0", "001.png,", "002.png,1"], ("line 3", "sample 1", "001.png", "column label is empty")),
        (["000.png,0", ",1", "002.png,1"], ("line 3", "sample 1", "column file is empty")),
        (["000.png,0", "001.png", "002.png,1"], ("line 3", "sample 1", "expected 2 columns", "found 1")),
        (["000.png,0", "001.png,0,1", "002.png,1"], ("line 3", "expected 2 columns", "found 3")),
        (["000.png,0", "", "001.png,1", "002.png,1"], ("line 3", "empty line")),
        (["000.png,0", "001.png,1", "./000.png,0"], ("line 4", "sample 2, 000.png", "line 2 already")),
        (["000.png,0", "001.png,1.5", "002.png,1"], ("line 3", "sample 1, 001.png", "found 1.5")),
        (["000.png,0", "001.png,nan", "002.png,1"], ("line 3", "sample 1, 001.png", "found nan")),
        (["000.png,0", "001.png,dog", "002.png,1"], ("line 3", "sample 1, 001.png", "expected an integer", "'dog'")),
        (["000.png,0", "001.png,-1", "002.png,1"], ("line 3", "sample 1, 001.png", "label >= 0, found -1")),
        (["000.png,0", "001.png,99999999999999999999", "002.png,1"], ("line 3", "label >= 0")),
        (["000.png,0", "001.png,0", "gone.png,1", "off.png,1"], ("line 4", "sample 2 (gone.png)", "and 1 more")),
        (["000.png,0", "001.png,0", "../set/002.png,1"], ("line 4", "sample 2", "relative to the folder")),
        (["000.png,0", "001.png,0", "C:\\set\\002.png,1"], ("line 4", "sample 2", "relative to the folder")),
        (["001.png,0"], ("2 without", "000.png, 002.png", "add lines")),
        ([], ("the header alone",)),
    ],
)
def test_wrong_lines_of_a_csv_are_named(tmp_path: Path, rows: list[str], parts: tuple[str, ...]) -> None:
    _save_pictures(tmp_path / "set", _pixels(3))
    _fails("l.csv", *parts, spec=str(tmp_path / "set"), labels=_save_csv(tmp_path / "l.csv", *rows))


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (b"000.png,0\n", ("line 1", "columns file,label, found '000.png,0'", "first line")),
        (b"file;label\n000.png;0\n", ("line 1", "separate the columns by commas")),
        (b"", ("line 1", "found ''")),
        (b"file,label\n\xff.png,0\n", ("UTF-8",)),
        (b'file,label\n"000.png,0\n', ("cannot be read as CSV",)),
        (None, ("no such file",)),
    ],
)
def test_no_table_of_labels(tmp_path: Path, content: bytes | None, parts: tuple[str, ...]) -> None:
    _save_pictures(tmp_path / "set", _pixels(1))
    if content is not None:
        (tmp_path / "l.csv").write_bytes(content)
    _fails("l.csv", *parts, spec=str(tmp_path / "set"), labels=tmp_path / "l.csv")


def test_folders_that_cannot_be_meant(tmp_path: Path) -> None:
    root = tmp_path / "set"
    root.mkdir()
    (root / "notes.txt").write_text("hello")
    _fails("set", "expected images", "found none", spec=str(root))
    names = _save_pictures(root, _pixels(5))
    _fails("images without one", "000.png, 001.png, 002.png and 2 more", "columns file,label", spec=str(root))
    _save_csv(root / "answers.csv")
    _fails("answers.csv?", spec=str(root))
    for name, inside in zip(names, ("ape", "ape", "bear", "bear"), strict=False):
        (root / inside).mkdir(exist_ok=True)
        (root / name).rename(root / inside / name)
    _fails("beside class folders (ape, bear): 004.png", spec=str(root))
    (root / "004.png").unlink()
    (root / "._005.png").write_bytes(b"a note of another system")
    (root / ".hidden").mkdir()
    assert open_data(str(root)).classes == ["ape", "bear"]
    (root / "aardvark").mkdir()
    _fails("class folders without images: aardvark", "shift", spec=str(root))


def test_folders_of_splits_are_no_classes(tmp_path: Path) -> None:
    for split in ("train", "test"):
        _save_pictures(tmp_path / "set" / split, _pixels(4), np.arange(4) % 2)
    _fails("those of splits: test, train", "set/test", spec=str(tmp_path / "set"))
    assert open_data(str(tmp_path / "set" / "test")).classes == ["class0", "class1"]


def test_links_are_followed_but_not_in_circles(tmp_path: Path) -> None:
    _save_pictures(tmp_path / "elsewhere", _pixels(2))
    for name in ("ape", "bear"):
        (tmp_path / "set").mkdir(exist_ok=True)
        (tmp_path / "set" / name).symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    (tmp_path / "elsewhere" / "round").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    source = open_data(str(tmp_path / "set"))
    assert list(source.names or ()) == ["ape/000.png", "ape/001.png", "bear/000.png", "bear/001.png"]
    assert source.read(0, 4)[1].tolist() == [0, 0, 1, 1]


def test_images_of_several_sizes(tmp_path: Path) -> None:
    root = tmp_path / "set"
    _save_pictures(root / "a", _pixels(1, height=6, width=9))
    _save_pictures(root / "b", _pixels(1, height=12, width=8))
    both = ("a/000.png is 6x9", "b/000.png is 12x8", "give resize and crop")
    _fails(*both, spec=str(root))
    _fails(*both, "shorter side resized to 4: 4x6 and 6x4", spec=str(root), resize=4)
    _fails("sample 0 (a/000.png)", "at least 7 pixels", "found 6x9", spec=str(root), crop=7)
    for arguments, shape in (
        ({"resize": 4, "crop": 3}, (3, 3, 3)),
        ({"resize": (4, 7)}, (3, 4, 7)),
        ({"crop": 5}, (3, 5, 5)),
    ):
        source = open_data(str(root), **arguments)
        assert source.read(0, 2)[0].shape == (2, *shape)
        assert "x".join(map(str, shape)) in source.about
    assert "shorter side resized to 4, centre crop 3 (Pillow" in open_data(str(root), resize=4, crop=3).about


@pytest.mark.parametrize("height", [7, 8])
@pytest.mark.parametrize("width", [9, 12])
def test_resize_and_crop_are_those_of_torchvision(tmp_path: Path, height: int, width: int) -> None:
    pixels = _pixels(1, height=height, width=width)
    _save_pictures(tmp_path / "set" / "a", pixels)
    found = open_data(str(tmp_path / "set"), resize=5, crop=4).read(0, 1)[0][0]
    # Its Resize rounds the longer side down; its CenterCrop rounds offsets, halves to even.
    longer = int(5 * width / height)
    left = {1: 0, 2: 1, 3: 2, 4: 2}[longer - 4]
    expected = _picture(pixels[0]).resize((longer, 5), Image.Resampling.BILINEAR).crop((left, 0, left + 4, 4))
    assert torch.equal(found, torch.from_numpy(np.array(expected)).permute(2, 0, 1).float() / 255)


@pytest.mark.parametrize(
    "arguments",
    [{"resize": 0}, {"resize": (4, 0)}, {"resize": (4, 4, 4)}, {"resize": True}, {"crop": -1}, {"crop": 2.0}],
)
def test_wrong_sizes_are_named(tmp_path: Path, arguments: dict[str, Any]) -> None:
    _save_pictures(tmp_path / "set" / "a", _pixels(1))
    _fails(f"{next(iter(arguments))}: expected pixels", "found", spec=str(tmp_path / "set"), **arguments)


def test_grey_stays_grey_only_if_all_are(tmp_path: Path) -> None:
    pixels = _pixels(2, channels=1)
    root = tmp_path / "set" / "a"
    _save_pictures(root, pixels)
    _picture(pixels[0]).convert("LA").save(root / "002.png")
    images, _ = open_data(str(tmp_path / "set")).read(0, 3)
    assert torch.equal(images, torch.from_numpy(pixels[[0, 1, 0]]).float() / 255)
    coloured = torch.from_numpy(pixels).float().expand(2, 3, 5, 4) / 255
    _picture(_pixels(1)[0]).save(root / "003.png")
    assert torch.equal(open_data(str(tmp_path / "set")).read(0, 2)[0], coloured)
    (root / "003.png").rename(root / "0.png")  # now the first
    assert torch.equal(open_data(str(tmp_path / "set")).read(1, 3)[0], coloured)


def test_alpha_is_dropped(tmp_path: Path) -> None:
    root = tmp_path / "set" / "a"
    pixels = _pixels(1)
    alpha = np.random.default_rng(3).integers(0, 256, (5, 4, 1), dtype=np.uint8)
    root.mkdir(parents=True)
    Image.fromarray(np.concatenate([pixels[0].transpose(1, 2, 0), alpha], 2)).save(root / "0.png")
    table = Image.new("P", (4, 5), 1)
    table.putpalette([10, 20, 30, 40, 50, 60])
    table.save(root / "1.png", transparency=b"\x00\x00")
    keyed = Image.new("RGB", (4, 5), (1, 2, 3))
    keyed.save(root / "2.png", transparency=(1, 2, 3))
    images = open_data(str(tmp_path / "set")).read(0, 3)[0] * 255
    assert torch.equal(images[0].round().byte(), torch.from_numpy(pixels[0]))
    assert images[1, :, 2, 2].round().tolist() == [40, 50, 60]
    assert images[2, :, 2, 2].round().tolist() == [1, 2, 3]


@pytest.mark.parametrize("ending", ["png", "tiff", "jpg"])
def test_orientation_is_applied(tmp_path: Path, ending: str) -> None:
    root = tmp_path / "set" / "a"
    root.mkdir(parents=True)
    upright, lying = _pixels(1)[0], Image.Exif()
    lying[0x0112] = 6  # to be turned clockwise
    turned = _picture(np.ascontiguousarray(np.rot90(upright, 1, (1, 2))))
    turned.save(root / f"0.{ending}", exif=lying)
    if ending == "jpg":  # it keeps pixels only nearly
        with Image.open(root / "0.jpg") as raw:
            upright = np.rot90(np.array(raw).transpose(2, 0, 1), -1, (1, 2)).copy()
    _picture(upright).save(root / "1.png")
    images, _ = open_data(str(tmp_path / "set")).read(0, 2)
    assert torch.equal(images[0], images[1])
    assert torch.equal(images[1], torch.from_numpy(upright).float() / 255)


def test_unreadable_images_are_named(tmp_path: Path) -> None:
    root = tmp_path / "set" / "a"
    _save_pictures(root, _pixels(6, height=32, width=32))
    (root / "004.png").write_bytes((root / "004.png").read_bytes()[:1500])
    source = open_data(str(tmp_path / "set"))
    source.read(0, 4)
    with pytest.raises(DataError, match=r"set: sample 4 \(a/004.png\): no readable image.*cut short.*take it out"):
        source.read(3, 6)
    (root / "005.png").write_bytes(b"<html></html>")
    _fails("sample 5 (a/005.png)", "no readable image", spec=str(tmp_path / "set"))
    (root / "005.png").unlink()
    Image.fromarray(np.zeros((32, 32), np.uint16)).save(root / "005.png")
    _fails("sample 5 (a/005.png)", "8 bits a channel", "I;16", spec=str(tmp_path / "set"))


def test_a_picture_that_changed_since(tmp_path: Path) -> None:
    _save_pictures(tmp_path / "set" / "a", _pixels(2))
    source = open_data(str(tmp_path / "set"))
    Image.new("RGB", (9, 9)).save(tmp_path / "set" / "a" / "001.png")
    with pytest.raises(DataError, match=r"sample 1 \(a/001.png\): expected shape 3x5x4, found 3x9x9"):
        source.read(0, 2)
    (tmp_path / "set" / "a" / "001.png").unlink()
    with pytest.raises(DataError, match=r"sample 1 \(a/001.png\): No such file"):
        source.fingerprint(2)


@pytest.mark.parametrize("how", ["other pixels", "same size and time", "gone", "a pipe"])
def test_a_picture_that_changes_after_its_fingerprint_is_never_mixed_in(tmp_path: Path, how: str) -> None:
    _save_pictures(tmp_path / "set" / "a", _pixels(3))
    source = open_data(str(tmp_path / "set"))
    source.fingerprint(3)
    before, path = source.read(0, 3)[0], tmp_path / "set" / "a" / "001.png"
    status, content = path.stat(), path.read_bytes()
    if how == "other pixels":
        path.write_bytes((tmp_path / "set" / "a" / "002.png").read_bytes())
    elif how == "same size and time":  # as tools that copy set it
        path.write_bytes(content[:-20] + bytes(8) + content[-12:])
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    else:
        path.unlink()
        if how == "a pipe":
            os.mkfifo(path)
    said = {"gone": "No such file", "a pipe": "found a pipe"}.get(how, "was changed while the data were read")
    with pytest.raises(DataError, match=rf"sample 1 \(a/001.png\): .*{said}"):
        source.read(0, 3)
    assert torch.equal(source.read(2, 3)[0], before[2:])


def test_a_pipe_among_the_pictures_is_named(tmp_path: Path) -> None:
    _save_pictures(tmp_path / "set" / "a", _pixels(2))
    os.mkfifo(tmp_path / "set" / "a" / "pipe.png")
    _fails("a/pipe.png", "found a pipe", spec=str(tmp_path / "set"))


# Libraries that may be missing


@pytest.mark.parametrize(
    ("module", "spec", "extra"),
    [
        ("PIL", "set", "images"),
        ("torchvision", "torchvision:CIFAR10", "datasets"),
        ("datasets", "hf:cifar10", "datasets"),
    ],
)
def test_a_missing_library_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, spec: str, extra: str
) -> None:
    _save_pictures(tmp_path / "set" / "a", _pixels(1))
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.chdir(tmp_path)
    called = {"PIL": "Pillow"}.get(module, module)
    _fails(f"needs {called}", f"pip install 'pwcf[{extra}]'", spec=spec)


# torchvision, in whose place a small module stands: it is not on every machine


class _CIFAR10:
    """As torchvision's: all pictures in memory, labels in a list."""

    classes = ("ape", "bear", "crow")
    tgz_md5 = "0123"
    answers = (0, 1, 2, 1, 0, 2, 2)

    def __init__(self, root: str, train: bool = True, transform: Any = None, download: bool = False) -> None:
        assert not download
        if not (Path(root) / "cifar").exists():
            raise RuntimeError("Dataset not found or corrupted.\nYou can use download=True to download it")
        self.train, self.targets, self.asked = train, list(self.answers), list[int]()

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        self.asked.append(index)
        return _picture(_pixels(7)[index]), self.targets[index]


class _Split(_CIFAR10):
    """Tells its parts by name, and has neither classes nor a list of labels."""

    classes = None  # type: ignore[assignment]

    def __init__(self, root: str, split: str = "train") -> None:
        if split not in ("train", "test"):
            raise ValueError(f"Unknown value {split!r} for argument split. Valid values are train, test.")
        super().__init__(root)
        self._kept, self.targets = self.targets, []

    def __len__(self) -> int:
        return 7

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return _picture(_pixels(7)[index]), -1 if index == 5 else self._kept[index]


class _Whole(_CIFAR10):
    """Without parts; not every item is what it should be."""

    wrong: Any = None

    def __init__(self, root: str) -> None:
        super().__init__(root)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        picture, label = super().__getitem__(index)
        return self.wrong(picture, label) if index == 4 else (picture, label)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of a torchvision that is none."""
    package, sets = types.ModuleType("torchvision"), types.ModuleType("torchvision.datasets")
    for made in (_CIFAR10, _Split, _Whole):
        setattr(sets, made.__name__.removeprefix("_"), made)
    package.datasets = sets  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torchvision", package)
    monkeypatch.setitem(sys.modules, "torchvision.datasets", sets)
    monkeypatch.setenv("PWCF_DATA", str(tmp_path))
    (tmp_path / "cifar").mkdir()
    return tmp_path


def test_sets_of_torchvision(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = open_data("torchvision:CIFAR10")
    images, labels = _in_pieces(source, 3)
    assert torch.equal(images, torch.from_numpy(_pixels(7)).float() / 255)
    assert labels.tolist() == [0, 1, 2, 1, 0, 2, 2]
    assert source.classes == ["ape", "bear", "crow"]
    assert source.names is None
    assert source.about == "torchvision:CIFAR10 (test): 7 images, shape 3x5x4, version 0123"
    assert open_data("torchvision:CIFAR10", resize=(3, 2)).read(0, 1)[0].shape == (1, 3, 3, 2)
    prints = [
        source.fingerprint(5),
        source.fingerprint(6),
        open_data("torchvision:CIFAR10", split="train").fingerprint(5),
        open_data("torchvision:CIFAR10", resize=4).fingerprint(5),
        open_data("torchvision:Split").fingerprint(5),
    ]
    assert open_data("torchvision:CIFAR10").fingerprint(5) == prints[0]
    for name, value in (("answers", (0, 1, 2, 1, 1, 2, 2)), ("tgz_md5", "4567")):
        monkeypatch.setattr(_CIFAR10, name, value)
        prints.append(open_data("torchvision:CIFAR10").fingerprint(5))
    assert len(set(prints)) == 7


def test_a_set_is_asked_only_for_the_piece(shop: Path) -> None:
    source = open_data("torchvision:CIFAR10")
    dataset = source._items.dataset  # type: ignore[attr-defined]
    dataset.asked.clear()
    source.read(2, 4)
    source.fingerprint(7)
    assert dataset.asked == [2, 3]


def test_the_part_reaches_the_set(shop: Path) -> None:
    for split in ("train", "test"):
        source = open_data("torchvision:CIFAR10", split=split)
        assert source._items.dataset.train == (split == "train")  # type: ignore[attr-defined]
    _fails("expected train or test, found 'val'", spec="torchvision:CIFAR10", split="val")
    _fails("split 'val'", "Valid values are train, test", spec="torchvision:Split", split="val")
    _fails("has no splits, found 'train'", spec="torchvision:Whole", split="train")


def test_a_set_that_is_not_there_tells_how_to_fetch_it(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fails("no such set", "CIFAR10", spec="torchvision:CIFAR1O")
    _fails("after the colon", spec="torchvision:")
    _fails("labels: found", spec="torchvision:CIFAR10", labels="l.csv")
    _fails("8-bit images", spec="torchvision:CIFAR10", bounds=(-1, 1))
    (shop / "cifar").rmdir()
    fetch = f"d.CIFAR10({str(shop)!r}, train=False, download=True)"
    _fails(str(shop), "PWCF_DATA", fetch, spec="torchvision:CIFAR10")
    _fails("by hand", spec="torchvision:Split")
    monkeypatch.delenv("PWCF_DATA")
    monkeypatch.setenv("HOME", str(shop))
    _fails(str(Path("~/.cache/pwcf/data").expanduser()), spec="torchvision:CIFAR10")


def test_a_withheld_label_is_named(shop: Path) -> None:
    _fails("torchvision:Split (test): sample 5", "found -1", "a split that has its labels", spec="torchvision:Split")


@pytest.mark.parametrize(
    ("wrong", "parts"),
    [
        (lambda picture, label: (np.array(picture), label), ("found ndarray",)),
        (lambda picture, label: (picture, [label]), ("an integer label, found [0]",)),
        (lambda picture, label: (picture, None), ("an integer label, found None",)),
        (lambda picture, label: (picture.resize((9, 9)), label), ("sample 0 has shape 3x5x4", "3x9x9", "give resize")),
        (lambda picture, label: (picture.convert("I"), label), ("8 bits",)),
        (lambda picture, label: dict[str, Any]()["gone"], ("no readable image", "gone")),
    ],
)
def test_wrong_items_of_a_set_are_named(
    shop: Path, monkeypatch: pytest.MonkeyPatch, wrong: Any, parts: tuple[str, ...]
) -> None:
    monkeypatch.setattr(_Whole, "wrong", staticmethod(wrong))
    _fails("torchvision:Whole (whole set)", "sample 4", *parts, spec="torchvision:Whole")


def test_one_grey_picture_does_not_make_a_set_grey(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def mostly(self: Any, index: int) -> tuple[Any, int]:
        return _picture(_pixels(7)[index]).convert("RGB" if index == 6 else "L"), 0

    monkeypatch.setattr(_CIFAR10, "__getitem__", mostly)
    assert open_data("torchvision:CIFAR10").read(0, 2)[0].shape == (2, 3, 5, 4)
    monkeypatch.setattr(_CIFAR10, "__getitem__", lambda self, index: mostly(self, 0))
    assert open_data("torchvision:CIFAR10").read(0, 2)[0].shape == (2, 1, 5, 4)


# Hugging Face, with the library itself on a folder of this machine


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The library, without a network and with a cache of its own."""
    library = pytest.importorskip("datasets")
    monkeypatch.setattr(library.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(library.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(pytest.importorskip("huggingface_hub").constants, "HF_HUB_OFFLINE", True)
    library.disable_progress_bars()
    yield library
    library.enable_progress_bars()


def test_sets_of_the_hub(hub: Any, tmp_path: Path) -> None:
    labels = np.array([0, 0, 0, 1, 1, 2, 2])
    for split, pixels in (("train", _pixels(7)[::-1]), ("test", _pixels(7))):
        _save_pictures(tmp_path / "animals" / split, pixels, labels)
    source = open_data(f"hf:{tmp_path / 'animals'}")
    images, found = _in_pieces(source, 3)
    assert torch.equal(images, torch.from_numpy(_pixels(7)).float() / 255)
    assert found.tolist() == labels.tolist()
    assert source.classes == ["class0", "class1", "class2"]
    assert source.about.startswith("hf:animals (test): 7 images, shape 3x5x4")
    assert str(tmp_path) not in source.about
    train = open_data(f"hf:{tmp_path / 'animals'}", split="train")
    assert torch.equal(train.read(0, 7)[0], images.flip(0))
    prints = [source.fingerprint(6), source.fingerprint(7), train.fingerprint(7)]
    assert len(set(prints)) == 3
    assert open_data(f"hf:{tmp_path / 'animals'}").fingerprint(7) == prints[1]
    assert open_data(f"hf:{tmp_path / 'animals'}", resize=6, crop=4).read(1, 3)[0].shape == (2, 3, 4, 4)
    _fails("hf:animals", "split 'val'", "train", "test", spec=f"hf:{tmp_path / 'animals'}", split="val")


def test_columns_of_the_hub(hub: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pictures = [_picture(one) for one in _pixels(3)]
    asked = []

    def given(name: str, config: str | None, split: str) -> Any:
        asked.append((name, config, split))
        columns = {"cifar": ("img", "fine_label"), "other": ("photo", "label"), "text": ("image", "words")}[name]
        dataset = hub.Dataset.from_dict({columns[0]: pictures, columns[1]: [2, 0, 1], "coarse_label": [0, 0, 0]})
        return dataset.cast_column(columns[0], hub.Image())

    monkeypatch.setattr(hub, "load_dataset", given)
    source = open_data("hf:cifar:plain", split="train")
    assert asked == [("cifar", "plain", "train")]
    assert source.read(0, 3)[1].tolist() == [2, 0, 1]
    assert source.classes is None
    assert "hf:cifar:plain (train)" in source.about
    _fails("images: expected a column image, img", "found photo, label, coarse_label", spec="hf:other")
    _fails("labels: expected a column label", "found image, words", spec="hf:text")


def test_no_network_is_said(hub: Any) -> None:
    _fails("hf:nobody/nothing", "neither in the cache nor reachable", "HF_HOME", spec="hf:nobody/nothing")


@pytest.mark.parametrize(
    ("error", "part"),
    [
        (ValueError("Config name is missing.\nPlease pick one among: a, b"), "pick one among: a, b"),
        (FileNotFoundError("Dataset 'x' doesn't exist on the Hub"), "no such set"),
        (RuntimeError("scripts are no longer supported"), "cannot open it: scripts are no longer supported"),
        (ConnectionError("x" * 5000), "neither in the cache nor reachable (xxx"),
    ],
)
def test_what_the_library_says_fits_one_line(
    hub: Any, monkeypatch: pytest.MonkeyPatch, error: Exception, part: str
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(hub, "load_dataset", refuse)
    with pytest.raises(DataError) as caught:
        open_data("hf:x")
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600
