"""Wrong words, models and data: one sentence that says what to do."""

from pathlib import Path

import numpy as np
import pytest
import torch

import pwcf
from pwcf.cli import main
from pwcf.runs import RunError, settings_from
from runfolders import SAID, Place, ruined


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ({"metric": "l3.x"}, "metric: expected"),
        ({"metric": "no.module:function"}, "metric: expected a name, or module:function"),
        ({"attacks": "magic"}, "attacks: expected names"),
        ({"question": "why"}, "question: expected one of"),
        ({"question": "max-loss"}, "eps: expected a number"),
        ({"eps": "1,2", "question": "max-loss"}, "eps: expected one number for max-loss"),
        ({"eps": "1,x"}, "eps: expected a number, or a fraction"),
        ({"eps": "-1,2"}, "eps: expected numbers >= 0"),
        ({"workers": 2}, "workers: expected it beside engine ray"),
        ({"address": "auto"}, "address: expected it beside engine ray"),
        ({"attacks": "pgd"}, "found 'pgd'; did you mean 'apgd'?"),
        ({"eps": "a/b", "question": "max-loss"}, "eps: expected a number, or a fraction"),
        ({"loss": "hinge", "question": "max-loss", "eps": "1"}, "loss: expected"),
        ({"budget": "10"}, "budget: expected"),
        ({"limit": "0"}, "limit: expected an integer > 0"),
        ({"data": "nowhere.npz"}, "nowhere.npz"),
        ({"model": "nowhere.py:net"}, "nowhere.py"),
        ({"device": "cuda:7"}, "device"),
    ],
)
def test_wrong_words_are_named(place: Place, capsys: pytest.CaptureFixture[str], said, named: str) -> None:
    assert named in ruined(place, capsys, **({"metric": "l2", "budget": 60} | said))


def test_a_model_that_does_not_fit_the_data_is_told(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(place.path / "data.npz", images=np.zeros((4, 3, 5, 5), np.float32), labels=np.zeros(4, np.int64))
    assert "shape (3, 5, 5)" in ruined(place, capsys, **SAID)


def test_pixels_that_are_no_numbers_are_told_with_their_sample(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    data = dict(np.load(place.path / "data.npz"))
    data["images"][17, 0, 2, 2] = np.nan
    np.savez(place.path / "data.npz", **data)
    assert "17" in ruined(place, capsys, **SAID)
    # What came before it is there.
    assert len(pwcf.load_run(place.path / "out").radius) == 16


def test_unknown_names_in_a_file_are_told(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    (place.path / "run.toml").write_text('modell = "x"\n')
    assert main(["run", str(place.path / "run.toml")]) == 2
    assert "modell" in capsys.readouterr().err
    with pytest.raises(RunError, match="attacks"):
        settings_from({"model": "m", "data": "d", "out": "o", "attacks": []})


@pytest.fixture
def pictures(place: Place) -> Path:
    """A folder of eight images and labels.csv, as --data and --labels."""
    from PIL import Image

    folder = place.path / "pictures"
    folder.mkdir()
    data = np.load(place.path / "data.npz")
    lines = ["file,label"]
    for i in range(8):
        Image.fromarray((255 * data["images"][i, 0]).round().astype(np.uint8)).save(folder / f"{i}.png")
        lines.append(f"{i}.png,{data['labels'][i]}")
    (place.path / "labels.csv").write_text("\n".join(lines) + "\n")
    return folder


def test_a_folder_of_images_with_labels_is_data(place: Place, pictures: Path) -> None:
    said = {"metric": "l2", "budget": 60, "data": pictures, "labels": place.path / "labels.csv"}
    assert place.run("out", **said) == 0
    rows = pwcf.load_run(place.path / "out").to_pandas()
    assert rows["label"].tolist() == np.load(place.path / "data.npz")["labels"][:8].tolist()


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (lambda folder, labels: (folder / "3.png").unlink(), "3.png"),
        (lambda folder, labels: (folder / "3.png").write_bytes(b"\x89PNG no more"), "3.png"),
        (lambda folder, labels: labels.write_text(labels.read_text().replace("2.png,", "2.png,\n#")), "labels.csv"),
        (lambda folder, labels: labels.write_text("file,label\n0.png,\n"), "labels.csv"),
        (lambda folder, labels: labels.unlink(), "labels.csv"),
    ],
)
def test_damaged_images_and_labels_are_named(
    place: Place, pictures: Path, capsys: pytest.CaptureFixture[str], damage, named: str
) -> None:
    damage(pictures, place.path / "labels.csv")
    said = {"metric": "l2", "budget": 60, "data": pictures, "labels": place.path / "labels.csv"}
    assert named in ruined(place, capsys, **said)


class Malicious:
    """Unpickled it would leave a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self):
        return (Path.touch, (self.marker,))


def test_a_malicious_pickle_is_refused_and_not_run(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    path, marker = place.path / "weights.pt", place.path / "owned"
    torch.save({"0.weight": Malicious(marker)}, path)
    assert "weights.pt" in ruined(place, capsys, weights=path, **SAID)
    assert "weights.pt" in ruined(place, capsys, model=path, **SAID)
    assert not marker.exists()
    torch.load(path, weights_only=False)
    assert marker.exists(), "the file is harmless, and the test proves nothing"
