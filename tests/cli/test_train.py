"""``pwcf train``: files, exit codes, interruptions and mistakes told in a line."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import pwcf
from pwcf.cli import main
from pwcf.training import Epoch


def write_idx(folder: Path, images: Tensor, labels: Tensor) -> str:
    def content(array: Tensor) -> bytes:
        sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
        return bytes((0, 0, 8, array.dim())) + sizes + array.numpy().tobytes()

    (folder / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(content(images)))
    (folder / "train-labels-idx1-ubyte").write_bytes(content(labels))
    return str(folder / "train-images-idx3-ubyte.gz")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Tiny images whose class is which third is bright, and a network for them."""
    monkeypatch.chdir(tmp_path)
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 3, (120,), generator=generator)
    images = torch.rand(120, 6, 6, generator=generator) * 100
    for i, label in enumerate(labels.tolist()):
        images[i, 2 * label : 2 * label + 2] += 120
    write_idx(tmp_path, images.to(torch.uint8), labels.to(torch.uint8))
    (tmp_path / "tiny_net.py").write_text(
        "from torch import nn\n\n\ndef made():\n    return nn.Sequential(nn.Flatten(), nn.Linear(36, 16), nn.ReLU(), "
        "nn.Linear(16, 3))\n\n\ndef own(a, b):\n    return (a - b).flatten(1).norm(dim=1)\n"
    )
    return tmp_path


def command(*more: str, out: str = "net.safetensors", data: str = "train-images-idx3-ubyte.gz") -> int:
    return main(["train", "--model", "tiny_net.py:made", "--data", data, "--out", out, *more])


def test_train_then_run(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("--metric", "linf", "--eps", "10/255", "--epochs", "6", "--lr", "1e-2", "--batch", "20") == 0
    said = capsys.readouterr().out
    assert "6 of 6 epochs" in said
    line = next(line for line in said.splitlines() if line.startswith("  pwcf run"))
    log = json.loads((place / "net.json").read_text())
    assert log["complete"]
    assert [epoch["number"] for epoch in log["epochs"]] == [1, 2, 3, 4, 5, 6]
    assert log["epochs"][-1]["loss"] < log["epochs"][0]["loss"]
    assert log["settings"] == {"epochs": 6, "batch": 20, "lr": 0.01, "inner_steps": 7, "seed": 0}
    assert log["eps"] == pytest.approx(10 / 255)
    assert "torch" in log["made"]["packages"]
    assert str(place) not in json.dumps(log)
    words = line.replace("DATA", "train-images-idx3-ubyte.gz").replace("RUN", "run").split()[1:]
    assert main([*words, "--limit", "20", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["clean_accuracy"] > 0.9


def test_the_same_command_gives_the_same_file_and_goes_on_from_weights(place: Path) -> None:
    for out in ("a.safetensors", "deep/b.safetensors"):
        assert command("--metric", "tiny_net:own", "--eps", "0.3", "--epochs", "2", "--threads", "1", out=out) == 0
    first, again = load_file(place / "a.safetensors"), load_file(place / "deep" / "b.safetensors")
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert command("--epochs", "1", "--lr", "1e-12", "--weights", "a.safetensors", out="c.safetensors") == 0
    more = load_file(place / "c.safetensors")
    assert all(torch.allclose(first[name], more[name], atol=1e-6) for name in first)
    assert json.loads((place / "c.json").read_text())["metric"] is None


def test_json_is_for_machines(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("--epochs", "1", "--json") == 0
    content = json.loads(capsys.readouterr().out)
    assert content["out"] == "net.safetensors"
    assert content["epochs"][0]["robust_accuracy"] is None


def _stop_in_epoch(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the middle of an epoch."""
    from pwcf.cli.commands import train

    class Stops:
        def __init__(self, *_: object) -> None: ...

        def __enter__(self) -> Callable[[Epoch, float], None]:
            def on_batch(epoch: Epoch, share: float) -> None:
                if epoch.number == number and share > 0.4:
                    raise KeyboardInterrupt  # what the signal becomes; jobs in the background may not get signals

            return on_batch

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr(train, "_progress", Stops)


def test_ctrl_c_keeps_the_last_whole_epoch(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _stop_in_epoch(3, monkeypatch)
    assert command("--epochs", "4", "--batch", "20") == 130
    assert "the weights of epoch 2 of 4 are in net.safetensors" in capsys.readouterr().err
    log = json.loads((place / "net.json").read_text())
    assert len(log["epochs"]) == 2
    assert not log["complete"]
    kept = load_file(place / "net.safetensors")
    assert set(kept) == {"1.weight", "1.bias", "3.weight", "3.bias"}
    assert sorted(path.name for path in place.glob(".*partial")) == []


def test_ctrl_c_in_the_first_epoch_leaves_nothing(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _stop_in_epoch(1, monkeypatch)
    assert command("--epochs", "2", "--batch", "20") == 130
    assert "nothing was written" in capsys.readouterr().err
    assert not (place / "net.safetensors").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--metric", "l2"], "--metric, --eps: expected both or neither, found --metric alone"),
        (["--metric", "l2", "--eps", "a/b"], "--eps: expected a number >= 0"),
        (["--metric", "no", "--eps", "1"], "metric: expected"),
        (["--metric", "l0", "--eps", "1"], "metric l0: expected a distance with a slope"),
        (
            ["--metric", "nowhere:own", "--eps", "1"],
            "expected a name, or module:function or file.py:function to import",
        ),
        (["--out", "net.pt"], "--out: expected a file that ends in .safetensors, found net.pt"),
        (["--out", "there.safetensors"], "exists already; --force"),
        (["--model", "zoo:nothing"], "expected a network of the zoo"),
        (["--model", "zoo:cnn"], "mat1 and mat2"),
        (["--model", "tiny_net.py:absent"], "tiny_net.py"),
        (["--data", "absent.npz"], "no such file"),
        (["--data", "zoo:fashion-mnist"], "mat1 and mat2"),
        (["--epochs", "0"], "epochs: expected an integer >= 1"),
        (["--limit", "0"], "--limit: expected an integer > 0"),
        (["--lr", "1e30", "--batch", "20"], "the loss became"),
        (["--lr", "1e36", "--epochs", "1"], "no longer finite after epoch 1 with lr 1e+36"),
        (["--lr", "1e38", "--epochs", "1"], "lr: expected a number > 0, at most 1e+37, found 1e+38"),
        (["--seed", str(2**63)], "--seed: expected an integer of 64 bits"),
        (["--model", "net.pt2"], "--model: expected one that can be trained, found net.pt2; a .pt2 file is a program"),
        (["--device", "nowhere"], "--device"),
    ],
)
def test_mistakes_are_told_in_a_line(
    place: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    (place / "there.safetensors").write_bytes(b"kept")
    assert command("--epochs", "2", *words) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.strip().splitlines()) == 1
    assert (place / "there.safetensors").read_bytes() == b"kept"
    assert not (place / "net.safetensors").exists()


def test_force_writes_over(place: Path) -> None:
    (place / "net.safetensors").write_bytes(b"old")
    assert command("--epochs", "1", "--force") == 0
    assert load_file(place / "net.safetensors")


def test_a_place_that_cannot_be_written_to_is_noticed_first(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(path: Path, _: bytes) -> int:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "write_bytes", refused)  # the tests may run as root, who may write anywhere
    monkeypatch.setattr(pwcf.training, "train", None)
    assert command("--epochs", "1") == 2
    assert "--out: . cannot be written to: Permission denied; choose another place" in capsys.readouterr().err


def test_no_probe_stays_behind(place: Path) -> None:
    assert command("--epochs", "1") == 0
    assert sorted(path.name for path in place.glob(".*")) == []


def test_a_disk_that_fills_up_is_told_in_a_sentence(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import safetensors
    import safetensors.torch

    def full(*_: object) -> None:
        raise safetensors.SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(safetensors.torch, "save_file", full)
    assert command("--epochs", "1") == 2
    said = capsys.readouterr().err
    assert "net.safetensors: the disk is full" in said
    assert "SafetensorError" not in said


def test_eps_is_written_as_it_was_given(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("--metric", "linf", "--eps", "8/255", "--epochs", "1") == 0
    said = capsys.readouterr().out
    assert "linf within 8/255" in said
    assert "--eps 8/255" in said
    assert command("--metric", "linf", "--eps", "0.0123456", "--epochs", "1", "--force") == 0
    assert "--eps 0.0123456" in capsys.readouterr().out
