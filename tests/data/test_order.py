"""How classes are numbered and which samples a limit takes: told, and the same whatever else is asked."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

import pwcf
from pwcf.cli import main
from pwcf.data import BalancedSource, DataError, lies_by_class, open_data
from pwcf.data.balanced import balanced_order
from pwcf.runs import RunFolder, header_from
from runfolders import SAID, Place, answers, make_place

NAMES = ("cat", "dog", "ape")


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Folders of four images for each class."""
    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 256, (3, 4, 6, 6), dtype=np.uint8)
    for name, some in zip(NAMES, pixels, strict=True):
        (tmp_path / "pets" / name).mkdir(parents=True)
        for i, one in enumerate(some):
            Image.fromarray(one).save(tmp_path / "pets" / name / f"{i}.png")
    return tmp_path / "pets"


def table(pictures: Path) -> str:
    rows = [f"{name}/{i}.png,{name}" for name in NAMES for i in range(4)]
    path = pictures.parent / "labels.csv"
    path.write_text("\n".join(["file,label", *rows]) + "\n")
    return str(path)


@pytest.mark.parametrize("by_table", [False, True])
def test_classes_are_numbered_by_name_and_that_is_told(pictures: Path, by_table: bool) -> None:
    source = open_data(str(pictures), labels=table(pictures) if by_table else None)
    assert source.classes == ["ape", "cat", "dog"]
    assert "3 classes, numbered by name (0 ape, 1 cat, 2 dog)" in source.about
    assert source.remarks == (
        "classes: numbered by name, 0 ape, 1 cat, 2 dog; if the model has another order, tell it with --classes",
    )


@pytest.mark.parametrize("by_table", [False, True])
def test_another_order_of_classes_can_be_told(pictures: Path, by_table: bool) -> None:
    labels = table(pictures) if by_table else None
    by_name = open_data(str(pictures), labels=labels)
    (pictures.parent / "names.txt").write_text("cat\ndog\nhorse\nape\n\n")
    prints = {by_name.fingerprint(12)}
    for told in ("cat, dog,horse, ape", str(pictures.parent / "names.txt")):
        source = open_data(str(pictures), labels=labels, classes=told)
        assert source.classes == ["cat", "dog", "horse", "ape"]  # no image is a horse
        assert "4 classes, numbered as told (0 cat, 1 dog, 2 horse, 3 ape)" in source.about
        assert source.remarks == ()
        assert source.names == by_name.names
        images, numbers = source.read(0, 12)
        assert torch.equal(images, by_name.read(0, 12)[0])
        assert [source.classes[i] for i in numbers] == [name.partition("/")[0] for name in source.names]
        prints.add(source.fingerprint(12))
    assert len(prints) == 2


@pytest.mark.parametrize(
    ("classes", "said"),
    [
        ("cat,dog", "classes: expected all class names of .*, found none of ape"),
        ("cat,dog,ape,cat", "found 'cat' twice"),
        ("cat,,ape", "found an empty one"),
        ("nowhere.txt", "found 'nowhere.txt', no such file"),
        ("x" * 5000, "no such file"),
    ],
)
def test_wrong_classes_are_refused(pictures: Path, classes: str, said: str) -> None:
    for labels in (None, table(pictures)):
        with pytest.raises(DataError, match=said):
            open_data(str(pictures), labels=labels, classes=classes)


def test_classes_of_other_data_are_refused(tmp_path: Path, pictures: Path) -> None:
    np.savez(tmp_path / "a.npz", images=np.zeros((3, 1, 4, 4), np.float32), labels=np.arange(3))
    for spec in (str(tmp_path / "a.npz"), "zoo:fashion-mnist"):
        with pytest.raises(DataError, match="classes: found 'a,b'"):
            open_data(spec, classes="a,b")
    numbers = tmp_path / "numbers.csv"
    numbers.write_text("file,label\n" + "\n".join(f"{name}/{i}.png,{i}" for name in NAMES for i in range(4)) + "\n")
    with pytest.raises(DataError, match="expected more than 3 names"):
        open_data(str(pictures), labels=numbers, classes="a,b,c")
    assert open_data(str(pictures), labels=numbers, classes="a,b,c,d").classes == ["a", "b", "c", "d"]


def test_every_class_comes_in_turn_and_more_samples_keep_the_first() -> None:
    labels = [0] * 50 + [1] * 30 + [2] * 5
    order = balanced_order(labels, 0)
    assert sorted(order) == list(range(85))
    for limit in (3, 9, 15):
        assert set(Counter(labels[i] for i in order[:limit]).values()) == {limit // 3}
    assert {labels[i] for i in order[15:]} == {0, 1}
    assert order != balanced_order(labels, 1)
    assert len(set(order[:6])) == 6


@pytest.mark.parametrize(
    ("labels", "expected"),
    [([0] * 9 + [1] * 9, True), ([2, 2, 0, 0, 1], True), ([0, 1] * 9, False), ([3] * 8, False), ([0, 0, 1, 0], False)],
)
def test_data_that_lie_class_by_class_are_known(tmp_path: Path, labels: list[int], expected: bool) -> None:
    np.savez(tmp_path / "a.npz", images=np.zeros((len(labels), 1, 2, 2), np.float32), labels=np.array(labels))
    assert lies_by_class(open_data(str(tmp_path / "a.npz"))) == expected


def test_a_balanced_source_has_the_samples_of_the_other_one(pictures: Path) -> None:
    stored = open_data(str(pictures))
    source = BalancedSource(stored, 3)
    images, labels = source.read(0, 12)
    for place, name in enumerate(source.names or []):
        image, label = stored.read(stored.names.index(name), stored.names.index(name) + 1)
        assert torch.equal(images[place], image[0])
        assert labels[place] == label[0]
    assert torch.equal(source.read(4, 9)[0], images[4:9])
    assert source.labels(range(12)) == labels.tolist()
    assert len(source.read(5, 5)[0]) == 0
    assert source.fingerprint(5) == BalancedSource(open_data(str(pictures)), 3).fingerprint(5)
    assert len({source.fingerprint(5), source.fingerprint(6), BalancedSource(stored, 4).fingerprint(5)}) == 3


def by_class(tmp_path: Path) -> Place:
    """A place whose samples lie class by class."""
    place = make_place(tmp_path, 24)
    data = dict(np.load(place.path / "data.npz"))
    order = np.argsort(data["labels"], kind="stable")
    np.savez(place.path / "data.npz", images=data["images"][order], labels=data["labels"][order])
    return place


def order_of(path: Path) -> str | None:
    return header_from(RunFolder(path).header(), str(path)).settings.order


def test_a_limit_takes_every_class_and_more_samples_keep_the_old(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = by_class(tmp_path)
    classes = len(set(np.load(place.path / "data.npz")["labels"]))
    assert classes > 2
    assert place.run("out", limit=classes, **SAID) == 0
    said = capsys.readouterr()
    assert "note: samples: the data lie class by class" in said.err
    assert "of every class in turn (seed 0)" in " ".join(said.out.split())
    few = pwcf.load_run(place.path / "out")
    assert sorted(few.rows["label"].to_pylist()) == sorted(set(few.rows["label"].to_pylist()))
    assert place.run("out", limit=16, **SAID) == 0
    assert place.run("out", **SAID) == 0  # all of them, in the same order
    more = pwcf.load_run(place.path / "out")
    assert len(more.radius) == 24
    assert more.rows["image"].to_pylist()[:classes] == few.rows["image"].to_pylist()
    assert torch.equal(more.x_adv[:classes], few.x_adv)
    assert len(more.header.earlier) == 2
    assert main(["verify", "--trust", str(place.path / "out")]) == 0
    assert len(pwcf.runs.original_images(more)) == 24
    capsys.readouterr()
    assert place.run("out", "--order", "stored", **SAID) == 2
    assert "order was 'balanced', now 'stored'" in capsys.readouterr().err
    assert place.run("first", "--order", "stored", limit=classes, **SAID) == 0
    assert "note" not in capsys.readouterr().err
    assert len(set(pwcf.load_run(place.path / "first").rows["label"].to_pylist())) == 1
    # Without a limit nothing is left out, and the order is the data's.
    assert place.run("whole", **SAID) == 0
    assert order_of(place.path / "whole") == "stored"


def test_runs_of_before_there_were_orders_go_on_with_the_first_samples(tmp_path: Path) -> None:
    import json

    place = by_class(tmp_path)
    assert place.run("old", "--order", "stored", limit=8, **SAID) == 0
    path = place.path / "old" / "header.json"
    header = json.loads(path.read_text())
    for name in ("order", "classes", "accuracy_at"):
        del header["settings"][name]
    header["asked"].pop("order")
    RunFolder(place.path / "old").create({name: value for name, value in header.items() if name != "seal"})
    assert place.run("old", limit=16, **SAID) == 0
    assert place.run("new", "--order", "stored", limit=8, **SAID) == 0
    assert place.run("new", limit=16, **SAID) == 0
    assert order_of(place.path / "old") == "stored"
    old, new = answers(place.path / "old"), answers(place.path / "new")
    assert old == new


def test_the_order_of_classes_is_told_by_run_and_show(
    pictures: Path, place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    assert place.run("out", data=pictures, **SAID) == 0
    assert "note: classes: numbered by name, 0 ape, 1 cat, 2 dog" in capsys.readouterr().err
    for quiet in ("--json", "--quiet"):
        assert place.run("out", quiet, data=pictures, **SAID) == 0
        assert capsys.readouterr().err == ""
    assert main(["show", str(place.path / "out")]) == 0
    assert "classes 0 ape, 1 cat, 2 dog " in " ".join(capsys.readouterr().out.split())
    assert place.run("told", data=pictures, classes="cat,dog,ape", **SAID) == 0
    assert "note" not in capsys.readouterr().err
    assert place.run("out", data=pictures, classes="ape,cat,dog", **SAID) == 0  # the same numbers
    assert place.run("out", data=pictures, classes="cat,dog,ape", **SAID) == 2
    assert "another digest" in capsys.readouterr().err
