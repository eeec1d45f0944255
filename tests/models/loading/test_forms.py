"""Every form of a model gives the same function."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from model_files import SOURCE, assert_same, edited_program, images, load, save_onnx
from pwcf.models import Classifier
from pwcf.models.loading import ModelError, load_model

FORMS = [
    ("nets.py:factory", None),
    ("nets.py:NET", None),
    ("nets.py:logits", None),
    ("nets.py:function_factory", None),
    ("nets.py:INSTANCE", None),
    ("nets.py:Callable", None),
    ("nets.py:PARTIAL", None),
    ("nets.py:FIXED.forward", None),
    ("nets.py:blank", "net.safetensors"),
    ("nets.py:Net", "net.pt"),
    ("nets.py:blank", "wrapped.pth"),
    ("net.pt2", None),
    ("three_rows.pt2", None),
    ("net.onnx", None),
    ("one_row.onnx", None),
]


@pytest.mark.parametrize(("form", "weights"), FORMS)
def test_every_form_gives_the_same_logits_and_gradients(
    folder: Path, net: nn.Module, form: str, weights: str | None
) -> None:
    loaded = load(folder, form, weights)
    for rows in (5, 1):
        assert_same(loaded.classifier, net, images(rows))
    model = loaded.classifier.model
    assert not isinstance(model, nn.Module) or not any(module.training for module in model.modules())


@pytest.mark.parametrize("form", ["three_rows.pt2", "one_row.onnx"])
def test_no_rows_have_the_shape_of_logits_too(folder: Path, form: str) -> None:
    assert load(folder, form).classifier(images(0)).shape == (0, 4)


def test_fixed_batches_are_told(folder: Path) -> None:
    assert "batches of 1, so called with 1 row at a time" in load(folder, "one_row.onnx").about
    assert "batches of 3, so called with 3 rows" in load(folder, "three_rows.pt2").about
    assert "batches" not in load(folder, "net.onnx").about + load(folder, "net.pt2").about


def test_modules_are_found_in_the_current_folder(folder: Path, net: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    loaded = load_model("nets:factory")
    assert_same(loaded.classifier, net, images())
    assert loaded.about.startswith("nets:factory, torch ")


def test_a_file_imports_its_neighbours_and_hides_no_package(folder: Path, tmp_path: Path, net: nn.Module) -> None:
    (tmp_path / "nets_beside.py").write_text(SOURCE)
    (tmp_path / "json.py").write_text("from nets_beside import factory")
    assert_same(load_model(f"{tmp_path / 'json.py'}:factory").classifier, net, images())
    assert sys.modules["json"] is json


def test_normalisation_and_bounds_are_those_given(folder: Path, net: nn.Module) -> None:
    mean, std = (0.4, 0.5, 0.6), [0.2, 0.3, 0.1]
    loaded = load(folder, "nets.py:factory", mean=mean, std=std, bounds=(-1, 2))
    assert_same(loaded.classifier, Classifier(net, (0, 1), list(mean), std), images())
    assert loaded.classifier.bounds == (-1.0, 2.0)
    assert "mean [0.4, 0.5, 0.6] and std [0.2, 0.3, 0.1]" in loaded.about


def test_a_classifier_is_kept_as_it_is(folder: Path, net: nn.Module) -> None:
    loaded = load(folder, "nets.py:classifier", "net.pt")
    assert_same(loaded.classifier, lambda x: net(4 * x - 2), images())
    with pytest.raises(ModelError, match=r"mean, std: expected none for .*set them where it is made"):
        load(folder, "nets.py:classifier", mean=0.5, std=0.5)
    with pytest.raises(ModelError, match=r"bounds: expected .*leave them out"):
        load(folder, "nets.py:classifier", bounds=(-1.0, 1.0))


def test_a_program_can_be_moved(folder: Path) -> None:
    """The meta device stands in for a GPU: nothing in the program stays where it was made."""
    from pwcf.models.loading import exported
    from pwcf.models.loading.request import ModelRequest

    spec = str(folder / "net.pt2")
    model = exported.build(ModelRequest(spec, spec, None, "meta")).model
    assert isinstance(model, nn.Module)
    assert {tensor.device.type for tensor in (*model.parameters(), *model.buffers())} == {"meta"}
    assert model(torch.zeros(2, 3, 8, 8, device="meta")).device.type == "meta"


def test_a_program_made_on_a_gpu_is_read_without_one(folder: Path, net: nn.Module, tmp_path: Path) -> None:
    def moved(part: Any) -> Any:
        if isinstance(part, dict):
            return {key: {"type": "cuda", "index": 0} if key == "device" else moved(one) for key, one in part.items()}
        return [moved(one) for one in part] if isinstance(part, list) else part

    path = edited_program(folder, tmp_path / "some.pt2", "data/weights/model_weights_config.json", moved)
    path = edited_program(tmp_path, tmp_path / "net.pt2", "models/model.json", moved, start=path)
    assert_same(load_model(str(path)).classifier, net, images())


def test_the_newer_onnx_exporter_is_understood(folder: Path, net: nn.Module, tmp_path: Path) -> None:
    """It writes opset 18 and later and the weights into a second file, which counts for the fingerprint."""
    pytest.importorskip("onnxscript")
    path, found = tmp_path / "net.onnx", []
    for scale in (1.0, 1.5):
        with torch.no_grad():
            net.last.weight.mul_(scale)  # type: ignore[operator,union-attr]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sizes = ({0: torch.export.Dim("batch")},)
            torch.onnx.export(
                net, (images(),), str(path), dynamo=True, verbose=False, dynamic_shapes=sizes, external_data=True
            )
        loaded = load_model(str(path))
        assert_same(loaded.classifier, net, images())
        assert_same(loaded.classifier, net, images(1))
        found.append(loaded.fingerprint)
    with torch.no_grad():
        net.last.weight.div_(1.5)  # type: ignore[operator,union-attr]
    assert found[0] != found[1]


ONNX2TORCH_WARNS = pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")


class _Modern(nn.Module):
    """Operators whose ONNX forms changed after opset 17, or which onnx2torch lacks."""

    def __init__(self, padded_first: bool = False) -> None:
        super().__init__()
        self.padded_first = padded_first
        self.stem, self.norm, self.last = nn.Conv2d(3, 8, 2, 2), nn.LayerNorm(8), nn.Linear(8, 4)
        self.mix = nn.Conv2d(8, 8, 1)
        equal = {"bias": self.stem.state_dict()["bias"]}  # weights that are exported once, and copied
        self.mix.load_state_dict({**self.mix.state_dict(), **equal})

    def forward(self, x: Tensor) -> Tensor:
        h = self.mix(nn.functional.avg_pool2d(self.stem(x), 2))
        h = nn.functional.pad(h, (1, 1, 1, 1)) if self.padded_first else h
        h = self.norm(nn.functional.gelu(self.norm(h.permute(0, 2, 3, 1))))
        h = nn.functional.pad(h, (0, 0, 1, 2))
        h = h.amax(2) + h.sum(2) + h.norm(dim=2)
        logits: Tensor = self.last(h.mean(1).clamp(-3, 3).reshape(-1, 8))
        return logits


@ONNX2TORCH_WARNS
def test_operators_of_later_opsets_are_converted(tmp_path: Path) -> None:
    net = _Modern().eval()
    save_onnx(net, images(2), tmp_path / "modern.onnx", dynamic=True)
    import onnx

    assert max(one.version for one in onnx.load(tmp_path / "modern.onnx").opset_import) > 17
    assert_same(load_model(str(tmp_path / "modern.onnx")).classifier, net, images())


@ONNX2TORCH_WARNS
def test_a_conversion_that_does_not_run_is_told_at_once(tmp_path: Path) -> None:
    """Behind padding the old exporter loses track of shapes, without which onnx2torch makes a layer of no width."""
    save_onnx(_Modern(padded_first=True).eval(), images(2), tmp_path / "modern.onnx", dynamic=True)
    with pytest.raises(ModelError, match=r"onnx2torch cannot convert it \(RuntimeError: .*normalized_shape"):
        load_model(str(tmp_path / "modern.onnx"))


def test_operators_that_would_change_their_meaning_are_refused(folder: Path, tmp_path: Path) -> None:
    import onnx

    model = onnx.load(folder / "net.onnx")
    model.graph.node.append(onnx.helper.make_node("Resize", [model.graph.node[0].output[0]], ["unused"]))
    onnx.save(model, tmp_path / "net.onnx")
    with pytest.raises(ModelError, match=r"found Resize of opset \d+; export it with opset_version=17, or"):
        load_model(str(tmp_path / "net.onnx"))


def test_onnx_is_read_without_torchvision_and_leaves_no_stand_in(folder: Path) -> None:
    code = f"""
import sys
sys.modules["torchvision"] = None
from pwcf.models.loading import load_model
load_model({str(folder / "net.onnx")!r})
assert sys.modules["torchvision"] is None and "torchvision.ops" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
