"""Nothing in a file of a model is run."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from model_files import Evil, assert_same, edited_program, fake_library, images, linear
from pwcf.models.loading import ModelError, load_model


def _as_archive(evil: Evil, path: Path) -> None:
    torch.save({"last.weight": evil}, path)


def _as_plain_pickle(evil: Evil, path: Path) -> None:
    path.write_bytes(pickle.dumps(evil))


@pytest.mark.parametrize("save", [_as_archive, _as_plain_pickle])
def test_a_malicious_pickle_is_not_run(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save: Callable[[Evil, Path], None]
) -> None:
    marker, path = tmp_path / "marker", tmp_path / "evil.pt"
    save(Evil(marker), path)
    with pytest.raises(
        ModelError, match=r"weights: expected a state dict .*which was not run; save it with torch\.save"
    ):
        load_model(f"{folder / 'nets.py'}:factory", weights=path)
    with pytest.raises(
        ModelError, match=r"a state dict needs a factory: --model package\.module:factory --weights FILE"
    ):
        load_model(str(path))

    def careless(name: str, pretrained: bool) -> Any:
        return torch.load(path, weights_only=False)

    fake_library(monkeypatch, "timm", create_model=careless, is_model=lambda name: True)
    with pytest.raises(ModelError, match="its pretrained weights cannot be had"):
        load_model("timm:net")
    assert not marker.exists()
    assert "TORCH_FORCE_WEIGHTS_ONLY_LOAD" not in os.environ
    with contextlib.suppress(RuntimeError):
        torch.load(path, weights_only=False)  # the file does what is said of it, before anybody sees what it is
    assert marker.exists()


def test_torchscript_is_refused(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "script.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.script(linear()), path)
    with pytest.raises(ModelError, match=r"found TorchScript, .*torch\.export\.save"):
        load_model(str(path))
    with pytest.raises(ModelError, match=r"weights: .*TorchScript archive.*torch\.export\.save"):
        load_model(f"{folder / 'nets.py'}:factory", weights=path)


def _pickled(evil: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(evil, buffer)
    return buffer.getvalue()


def test_sample_inputs_of_a_program_are_not_unpickled(folder: Path, net: nn.Module, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    samples = "data/sample_inputs/model.pt"
    path = edited_program(folder, tmp_path / "evil.pt2", samples, lambda _: _pickled((Evil(marker),)))
    assert_same(load_model(str(path)).classifier, net, images())
    assert not marker.exists()
    with pytest.raises(Exception, match=r".*"):  # torch's own function runs it, whatever becomes of the rest
        torch.export.load(path)
    assert marker.exists()


def _at(*keys: str | int, value: Callable[[str], Any]) -> Callable[[Any], Any]:
    def change(program: Any) -> Any:
        part = program
        for key in keys[:-1]:
            part = part[key]
        part[keys[-1]] = value(str(part[keys[-1]]))
        return program

    return change


GRAPH = ("graph_module", "graph")
EVIL_CODE = "__import__('os').mkdir({marker!r})"


@pytest.mark.parametrize(
    ("inside", "keys", "value", "message"),
    [
        (
            "models/model.json",
            (*GRAPH, "nodes", 0, "target"),
            "torch.serialization.os.mkdir",
            "the operator 'torch.serial",
        ),
        (
            "models/model.json",
            (*GRAPH, "nodes", 0, "target"),
            "torch.ops.aten.from_file.default",
            "operator 'torch.ops.at",
        ),
        ("models/model.json", (*GRAPH, "nodes", 0, "target"), "_operator.methodcaller", "operator '_operator.methodc"),
        ("models/model.json", (*GRAPH, "tensor_values", "x", "sizes", 0, "as_expr", "expr_str"), EVIL_CODE, "the size"),
        ("models/model.json", (*GRAPH, "nodes", 0, "name"), 'x"), ' + EVIL_CODE, "the name"),
        (
            "models/model.json",
            ("graph_module", "signature", "input_specs", 0, "parameter", "parameter_name"),
            'x"), ' + EVIL_CODE,
            "the name",
        ),
        ("data/weights/model_weights_config.json", ("config", "first.bias", "use_pickle"), True, "as a pickled object"),
        (
            "data/weights/model_weights_config.json",
            ("config", "first.bias", "path_name"),
            "../x",
            "as a pickled object",
        ),
    ],
)
def test_programs_that_would_be_evaluated_are_refused(
    folder: Path, tmp_path: Path, inside: str, keys: tuple[str | int, ...], value: Any, message: str
) -> None:
    marker = tmp_path / "marker"
    value = value.format(marker=str(marker)) if isinstance(value, str) else value
    path = edited_program(folder, tmp_path / "evil.pt2", inside, _at(*keys, value=lambda _: value))
    with pytest.raises(ModelError, match=message):
        load_model(str(path))
    assert not marker.exists()


def test_guards_of_a_program_are_not_executed(folder: Path, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    guards = [EVIL_CODE.format(marker=str(marker)) + " is None"]
    path = edited_program(
        folder, tmp_path / "evil.pt2", "models/model.json", _at("guards_code", value=lambda _: guards)
    )
    load_model(str(path)).classifier(images())
    assert not marker.exists()
    torch.export.load(path).module()(images())
    assert marker.exists()


def test_names_in_onnx_files_do_not_become_code(folder: Path, net: nn.Module, tmp_path: Path) -> None:
    import onnx

    from pwcf.models.loading.onnx import converter, to_opset_17

    marker, path = tmp_path / "marker", tmp_path / "net.onnx"
    model = to_opset_17(onnx, onnx.load(folder / "net.onnx"), "net.onnx")  # which onnx2torch reads without us
    model.graph.node[0].name = f'forward") and getattr(__import__("os"), "mkdir")("{marker}") or getattr(self, "a'
    onnx.save(model, path)
    assert_same(load_model(str(path)).classifier, net, images())
    assert not marker.exists()
    with contextlib.suppress(Exception):
        converter("net.onnx")(model)(images())  # this is what the name is good for
    assert marker.exists()
