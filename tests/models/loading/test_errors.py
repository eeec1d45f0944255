"""Mistakes are named in one line that says what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from model_files import assert_same, images, load, save_onnx
from pwcf.models.loading import ModelError, list_kinds, load_model


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ("nets.py:factroy", "expected 'factroy' in .*found none, which has .*did you mean factory"),
        ("nets.py:NUMBER", "expected a module, a function or a factory, found int; name a callable"),
        ("nets.py:two", "expected a factory without arguments, found one that needs x, y; write a function"),
        ("nets.py:Needs", "found one that needs width; write a function without arguments"),
        ("nets.py:raises", "the factory raised RuntimeError: no data; call it in Python"),
        ("nets.py:factory_of_a_factory", "expected the factory to return a module or .*found function"),
        ("nothing.py:factory", "expected a Python file, found none at"),
        ("nets.py", "expected what to take from the file, found none; write .*nets.py:callable"),
        ("nothing.pt2", "expected a file, found none"),
        ("nothing.onnx", "expected a file, found none"),
        ("net.safetensors", "a state dict needs a factory"),
    ],
)
def test_wrong_specs_are_told(folder: Path, form: str, message: str) -> None:
    with pytest.raises(ModelError, match=message) as raised:
        load(folder, form)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("no_such_package.nets:factory", "expected a module no_such_package, found none in the current folder"),
        ("nets.deeper:factory", "expected a module nets.deeper, found none|nets.deeper cannot be imported"),
        ("not-a-name:factory", "expected package.module:name or .* found 'not-a-name' before the colon"),
        ("broken:factory", r"broken cannot be imported \(ModuleNotFoundError: No module named 'no_such_library'\)"),
        ("resnet18", "model: expected one of package.module:callable, .*, found 'resnet18'"),
        ("timm:", "expected a name behind timm:, found none; write timm:NAME"),
        ("zoo:net", "expected a network of the zoo, fashion-standard, .*, found none of that name"),
        ("zoo:cnn", "expected --weights, as an architecture has none of its own"),
    ],
)
def test_wrong_names_are_told(folder: Path, monkeypatch: pytest.MonkeyPatch, spec: str, message: str) -> None:
    (folder / "broken.py").write_text("import no_such_library")
    monkeypatch.chdir(folder)
    with pytest.raises(ModelError, match=message):
        load_model(spec)


def _written(path: Path, content: bytes | object) -> Path:
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        torch.save(content, path)
    return path


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "page.pt",
            b"\n<!DOCTYPE html><html>Too many requests</html>",
            "found a web page in .*download the file itself",
        ),
        ("pointer.pth", b"version https://git-lfs.github.com/spec/v1\n", "found a pointer of Git LFS .*git lfs pull"),
        ("noise.pt", b"\x01\x02\x03", "expected a state dict of tensors and nothing else"),
        ("noise.safetensors", b"\x01\x02\x03", "expected a file of safetensors"),
        ("list.pt", [torch.zeros(1)], "expected a state dict, names to tensors, found list"),
        ("empty.pt", {}, "expected a state dict, names to tensors, found nothing"),
        ("other.pt", {"epoch": 3, "best": torch.zeros(1)}, "found other values under epoch"),
    ],
)
def test_files_that_are_no_weights_are_told(
    folder: Path, tmp_path: Path, name: str, content: bytes | object, message: str
) -> None:
    path = _written(tmp_path / name, content)
    with pytest.raises(ModelError, match=message) as raised:
        load_model(f"{folder / 'nets.py'}:factory", weights=path)
    assert "\n" not in str(raised.value)


def test_weights_that_do_not_fit_are_named(folder: Path, tmp_path: Path) -> None:
    state = torch.load(folder / "net.pt", weights_only=True)
    state["last.wieght"] = state.pop("last.weight")
    state["first.bias"] = torch.zeros(9)
    del state["norm.num_batches_tracked"]  # which nobody misses
    torch.save(state, tmp_path / "net.pt")
    expected = (
        r"missing: last\.weight; unexpected: last\.wieght; of another shape: first\.bias \(9,\) instead of \(8,\);"
    )
    with pytest.raises(ModelError, match=expected):
        load_model(f"{folder / 'nets.py'}:factory", weights=tmp_path / "net.pt")
    torch.save({f"a{i}": torch.zeros(1) for i in range(5)}, tmp_path / "net.pt")
    with pytest.raises(ModelError, match="unexpected: a0, a1, a2 and 2 more"):
        load_model(f"{folder / 'nets.py'}:factory", weights=tmp_path / "net.pt")


@pytest.mark.parametrize(
    ("form", "given", "message"),
    [
        ("nets.py:factory", {"weights": "nothing.pt"}, "weights: expected a file, found none at .*check the path"),
        ("nets.py:factory", {"weights": "."}, "weights: expected a file, found a folder"),
        ("nets.py:logits", {"weights": "net.pt"}, "weights: expected .* to give a torch.nn.Module .*found function"),
        ("net.pt2", {"weights": "net.pt"}, "weights: expected none for net.pt2, which holds its own"),
        ("net.onnx", {"weights": "net.pt"}, "weights: expected none for net.onnx, which holds its own"),
        ("nets.py:factory", {"device": "gpu"}, "device: expected cpu, cuda, .* found 'gpu'"),
        ("nets.py:factory", {"mean": 0.5}, "mean, std: expected both or neither, found mean alone"),
        ("nets.py:factory", {"mean": "a", "std": 1}, "mean: expected a number or one per channel, found 'a'"),
        ("nets.py:factory", {"mean": 0.5, "std": 0}, "std: expected positive values"),
        ("nets.py:factory", {"bounds": (1, 0)}, "bounds: expected finite numbers"),
    ],
)
def test_wrong_arguments_are_named(folder: Path, form: str, given: dict[str, Any], message: str) -> None:
    if "weights" in given:
        given = {"weights": folder / given["weights"]}
    with pytest.raises(ModelError, match=message):
        load_model(str(folder / form), **given)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_named(folder: Path) -> None:
    with pytest.raises(ModelError, match=r"device: expected one that the model can be put on, found 'cuda'.*take cpu"):
        load(folder, "nets.py:factory", device="cuda")


def test_files_that_are_no_programs_are_told(folder: Path, tmp_path: Path) -> None:
    for name in ("text.pt2", "text.onnx"):
        (tmp_path / name).write_bytes(b"<html>not found</html>")
        with pytest.raises(ModelError, match=r"expected (a program saved by torch\.export\.save|an ONNX model)"):
            load_model(str(tmp_path / name))
    torch.save({}, tmp_path / "weights.pt2")
    with pytest.raises(ModelError, match="found another archive; export it again"):
        load_model(str(tmp_path / "weights.pt2"))


def test_a_program_exported_in_train_mode_is_refused(tmp_path: Path) -> None:
    for module in (nn.BatchNorm2d(3), nn.Dropout(0.5)):
        torch.export.save(torch.export.export(module.train(), (images(),)), tmp_path / "train.pt2")
        with pytest.raises(ModelError, match=r"found one in train mode; call model\.eval\(\) before torch\.export"):
            load_model(str(tmp_path / "train.pt2"))


def test_weights_may_be_standardised_in_every_mode(tmp_path: Path) -> None:
    class Standardised(nn.Conv2d):
        def forward(self, x: Tensor) -> Tensor:
            weight = nn.functional.batch_norm(self.weight.reshape(1, 4, -1), None, None, training=True)
            return nn.functional.conv2d(x, weight.reshape(self.weight.shape), self.bias).mean((2, 3))

    net = Standardised(3, 4, 2).eval()
    torch.export.save(torch.export.export(net, (images(),)), tmp_path / "net.pt2")
    assert_same(load_model(str(tmp_path / "net.pt2")).classifier, net, images())


def test_programs_and_onnx_with_several_outputs_are_refused(tmp_path: Path) -> None:
    class Two(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return x.sum((2, 3)), x.mean((2, 3))

    torch.export.save(torch.export.export(Two(), (images(),)), tmp_path / "two.pt2")
    save_onnx(Two(), images(), tmp_path / "two.onnx", dynamic=False)
    for name in ("two.pt2", "two.onnx"):
        with pytest.raises(ModelError, match="expected one output, logits, found"):
            load_model(str(tmp_path / name))


def test_the_forms_are_listed() -> None:
    forms = dict(list_kinds())
    assert {"zoo:NAME", "timm:NAME", "FILE.pt2", "FILE.onnx", "package.module:callable"} <= set(forms)
    assert all(help_ and "\n" not in help_ for help_ in forms.values())
