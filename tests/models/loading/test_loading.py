"""Models by name: every form gives the same function, nothing in a file is run, and mistakes are said in a line."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import runpy
import subprocess
import sys
import types
import urllib.error
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pwcf.models import Classifier
from pwcf.models.loading import LoadedModel, ModelError, list_kinds, load_model
from timm_here import timm_here

# What a user's file may look like: an ordinary CNN and every way to name it.
SOURCE = """
import functools
import torch
from torch import nn
from pwcf.models import Classifier


class Net(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.second, self.drop = nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.Dropout(0.5)
        self.pool, self.mean, self.last = nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Linear(8, classes)

    def forward(self, x):
        h = torch.relu(self.norm(self.first(x)))
        h = self.pool(torch.relu(self.second(h) + h))
        return self.last(self.drop(self.mean(h).flatten(1)))


def of_ready_parts():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 2, stride=2), nn.AdaptiveAvgPool2d(1), nn.Flatten())


def made(seed):
    torch.manual_seed(seed)
    net = Net()
    net.norm.running_mean.normal_()
    net.norm.running_var.uniform_(0.5, 2)
    return net


def factory():
    return made(0)


def blank():
    return made(1)


def classifier():
    return Classifier(made(0), (0.0, 1.0), 0.5, 0.25)


def function_factory():
    net = made(0).eval()
    return lambda x: net(x)


NET = made(0)
FIXED = made(0).eval()
NUMBER = 3


def logits(x):
    return FIXED(x)


def two(x, y):
    return x


def raises():
    raise RuntimeError("no data\\nsecond line")


def factory_of_a_factory():
    return factory


class Needs(nn.Module):
    def __init__(self, width):
        super().__init__()


class Callable:
    def __call__(self, x):
        return FIXED(x)


INSTANCE = Callable()
PARTIAL = functools.partial(lambda net, x: net(x), FIXED)
"""


class _Evil:
    """Unpickled, it makes a folder."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return os.mkdir, (str(self.marker),)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The net in every form that is a file."""
    place = tmp_path_factory.mktemp("models")
    (place / "nets.py").write_text(SOURCE)
    net = runpy.run_path(str(place / "nets.py"))["factory"]().eval()
    import safetensors.torch

    safetensors.torch.save_file(net.state_dict(), place / "net.safetensors")
    torch.save(net.state_dict(), place / "net.pt")
    wrapped = {f"module.{name}": value for name, value in net.state_dict().items()}
    torch.save({"model": wrapped, "epoch": 3}, place / "wrapped.pth")
    images = torch.rand(3, 3, 8, 8)
    batch = torch.export.Dim("batch")
    torch.export.save(torch.export.export(net, (images,), dynamic_shapes=({0: batch},)), place / "net.pt2")
    torch.export.save(torch.export.export(net, (images,)), place / "three_rows.pt2")
    _save_onnx(net, images, place / "net.onnx", dynamic=True)
    _save_onnx(net, images[:1], place / "one_row.onnx", dynamic=False)
    return place


def _save_onnx(net: nn.Module, images: Tensor, path: Path, dynamic: bool) -> None:
    axes = {"images": {0: "batch"}, "logits": {0: "batch"}} if dynamic else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter says that there is a newer one
        torch.onnx.export(
            net,
            (images,),
            str(path),
            dynamo=False,
            dynamic_axes=axes,
            input_names=["images"],
            output_names=["logits"],
        )


@pytest.fixture(scope="module")
def net(folder: Path) -> nn.Module:
    found: nn.Module = runpy.run_path(str(folder / "nets.py"))["factory"]().eval()
    return found


@pytest.fixture(scope="module")
def timm(folder: Path) -> Any:
    return timm_here()


@pytest.fixture(autouse=True)
def _paths_given_back() -> Iterator[None]:
    """Loading makes folders importable; one test's must not be the next one's."""
    paths, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = paths
    for name in set(sys.modules) - modules:
        if "nets" in name or name.startswith("broken"):
            del sys.modules[name]


def _images(rows: int = 5) -> Tensor:
    return torch.rand(rows, 3, 8, 8, generator=torch.Generator().manual_seed(2))


def _answers(model: Callable[[Tensor], Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
    """Logits, and the gradient in the images of a function of them that treats all classes differently."""
    leaf = x.clone().requires_grad_(True)
    logits = model(leaf)
    (gradient,) = torch.autograd.grad((logits * torch.arange(1.0, logits.shape[1] + 1)).sum(), leaf)
    return logits.detach(), gradient


def _assert_same(model: Callable[[Tensor], Tensor], other: Callable[[Tensor], Tensor], x: Tensor) -> None:
    (logits, gradient), (expected, slope) = _answers(model, x), _answers(other, x)
    assert slope.abs().max() > 1e-3
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(gradient, slope, atol=1e-5, rtol=0)


def _load(folder: Path, form: str, weights: str | None = None, **given: Any) -> LoadedModel:
    """``form`` and ``weights`` are names in the folder."""
    return load_model(str(folder / form), weights=None if weights is None else folder / weights, **given)


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
    loaded = _load(folder, form, weights)
    for rows in (5, 1):
        _assert_same(loaded.classifier, net, _images(rows))
    model = loaded.classifier.model
    assert not isinstance(model, nn.Module) or not any(module.training for module in model.modules())


@pytest.mark.parametrize("form", ["three_rows.pt2", "one_row.onnx"])
def test_no_rows_have_the_shape_of_logits_too(folder: Path, form: str) -> None:
    assert _load(folder, form).classifier(_images(0)).shape == (0, 4)


def test_fixed_batches_are_told(folder: Path) -> None:
    assert "batches of 1, so called with 1 row at a time" in _load(folder, "one_row.onnx").about
    assert "batches of 3, so called with 3 rows" in _load(folder, "three_rows.pt2").about
    assert "batches" not in _load(folder, "net.onnx").about + _load(folder, "net.pt2").about


def test_modules_are_found_in_the_current_folder(folder: Path, net: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    loaded = load_model("nets:factory")
    _assert_same(loaded.classifier, net, _images())
    assert loaded.about.startswith("nets:factory, torch ")


def test_a_file_imports_its_neighbours_and_hides_no_package(folder: Path, tmp_path: Path, net: nn.Module) -> None:
    (tmp_path / "nets_beside.py").write_text(SOURCE)
    (tmp_path / "json.py").write_text("from nets_beside import factory")
    _assert_same(load_model(f"{tmp_path / 'json.py'}:factory").classifier, net, _images())
    assert sys.modules["json"] is json


def test_normalisation_and_bounds_are_those_given(folder: Path, net: nn.Module) -> None:
    mean, std = (0.4, 0.5, 0.6), [0.2, 0.3, 0.1]
    loaded = _load(folder, "nets.py:factory", mean=mean, std=std, bounds=(-1, 2))
    _assert_same(loaded.classifier, Classifier(net, (0, 1), list(mean), std), _images())
    assert loaded.classifier.bounds == (-1.0, 2.0)
    assert "mean [0.4, 0.5, 0.6] and std [0.2, 0.3, 0.1]" in loaded.about


def test_a_classifier_is_kept_as_it_is(folder: Path, net: nn.Module) -> None:
    loaded = _load(folder, "nets.py:classifier", "net.pt")
    _assert_same(loaded.classifier, lambda x: net(4 * x - 2), _images())
    with pytest.raises(ModelError, match=r"mean, std: expected none for .*set them where it is made"):
        _load(folder, "nets.py:classifier", mean=0.5, std=0.5)
    with pytest.raises(ModelError, match=r"bounds: expected .*leave them out"):
        _load(folder, "nets.py:classifier", bounds=(-1.0, 1.0))


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

    path = _changed(folder, tmp_path / "some.pt2", "data/weights/model_weights_config.json", moved)
    path = _changed(tmp_path, tmp_path / "net.pt2", "models/model.json", moved, start=path)
    _assert_same(load_model(str(path)).classifier, net, _images())


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
                net, (_images(),), str(path), dynamo=True, verbose=False, dynamic_shapes=sizes, external_data=True
            )
        loaded = load_model(str(path))
        _assert_same(loaded.classifier, net, _images())
        _assert_same(loaded.classifier, net, _images(1))
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
    _save_onnx(net, _images(2), tmp_path / "modern.onnx", dynamic=True)
    import onnx

    assert max(one.version for one in onnx.load(tmp_path / "modern.onnx").opset_import) > 17
    _assert_same(load_model(str(tmp_path / "modern.onnx")).classifier, net, _images())


@ONNX2TORCH_WARNS
def test_a_conversion_that_does_not_run_is_told_at_once(tmp_path: Path) -> None:
    """Behind padding the old exporter loses track of shapes, without which onnx2torch makes a layer of no width."""
    _save_onnx(_Modern(padded_first=True).eval(), _images(2), tmp_path / "modern.onnx", dynamic=True)
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


# Libraries


def test_timm_with_a_file_works_offline(timm: Any, tmp_path: Path) -> None:
    import safetensors.torch

    x = torch.rand(2, 3, 64, 64)
    for classes in (1000, 7):
        net = timm.create_model("test_resnet", num_classes=classes).eval()
        safetensors.torch.save_file(net.state_dict(), tmp_path / "net.safetensors")
        loaded = load_model("timm:test_resnet", weights=tmp_path / "net.safetensors")
        config = net.pretrained_cfg
        _assert_same(loaded.classifier, Classifier(net, (0, 1), list(config["mean"]), list(config["std"])), x)
        assert f"timm:test_resnet, timm {timm.__version__}, weights net.safetensors " in loaded.about
        _assert_same(
            load_model("timm:test_resnet", weights=tmp_path / "net.safetensors", mean=0, std=1).classifier, net, x
        )
    with pytest.raises(ModelError, match=r"none of that name; did you mean .*resnet18"):
        load_model("timm:resnet81")


def _fake(monkeypatch: pytest.MonkeyPatch, name: str, **held: Any) -> None:
    """A library that is not installed here, by what this package uses of it."""
    module = types.ModuleType(name)
    vars(module).update(held)
    monkeypatch.setitem(sys.modules, name, module)
    if "." in name:
        monkeypatch.setitem(sys.modules, name.partition(".")[0], types.ModuleType(name.partition(".")[0]))


def _linear(classes: int = 4) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, classes))


def _offline(*_: object, **__: object) -> Any:
    raise urllib.error.URLError("Name or service not known")


def test_torchvision_brings_its_normalisation(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = []

    def get_model(name: str, weights: str | None = None, num_classes: int = 4) -> nn.Module:
        asked.append((name, weights, num_classes))
        return _linear(num_classes)

    transforms = types.SimpleNamespace(mean=[0.1, 0.2, 0.3], std=[0.5, 0.6, 0.7])
    default = types.SimpleNamespace(DEFAULT=types.SimpleNamespace(transforms=lambda: transforms))
    held = {"get_model": get_model, "list_models": lambda: ["net"], "get_model_weights": lambda name: default}
    _fake(monkeypatch, "torchvision.models", **held)
    expected = Classifier(_linear(), (0, 1), transforms.mean, transforms.std)
    _assert_same(load_model("torchvision:net").classifier, expected, _images())
    assert asked == [("net", "DEFAULT", 4)]
    torch.save(_linear(7).state_dict(), tmp_path / "seven.pt")
    loaded = load_model("torchvision:net", weights=tmp_path / "seven.pt", mean=0.0, std=1.0)
    _assert_same(loaded.classifier, _linear(7), _images())
    with pytest.raises(ModelError, match="expected a model of torchvision, found none of that name"):
        load_model("torchvision:other")


def test_transformers_give_their_logits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Model(nn.Module):
        def __init__(self, config: types.SimpleNamespace) -> None:
            super().__init__()
            self.net = _linear(config.num_labels)

        def forward(self, pixel_values: Tensor) -> types.SimpleNamespace:
            return types.SimpleNamespace(logits=self.net(pixel_values))

    def config(name: str, trust_remote_code: bool) -> types.SimpleNamespace:
        assert trust_remote_code is False
        return types.SimpleNamespace(num_labels=4)

    def pretrained(name: str, trust_remote_code: bool) -> Model:
        return Model(config(name, trust_remote_code))

    settings = {"image_mean": [0.1, 0.2, 0.3], "image_std": [0.5, 0.6, 0.7]}
    make = types.SimpleNamespace(
        from_pretrained=pretrained, from_config=lambda config, trust_remote_code: Model(config)
    )
    processor = types.SimpleNamespace(get_image_processor_dict=lambda name: (settings, {}))
    held = {"AutoModelForImageClassification": make, "AutoConfig": types.SimpleNamespace(from_pretrained=config)}
    _fake(monkeypatch, "transformers", ImageProcessingMixin=processor, **held)
    normal = (settings["image_mean"], settings["image_std"])
    _assert_same(load_model("hf:owner/net").classifier, Classifier(_linear(), (0, 1), *normal), _images())
    torch.save({f"net.{name}": value for name, value in _linear(7).state_dict().items()}, tmp_path / "seven.pt")
    loaded = load_model("hf:owner/net", weights=tmp_path / "seven.pt")
    _assert_same(loaded.classifier, Classifier(_linear(7), (0, 1), *normal), _images())
    settings["do_normalize"] = False  # type: ignore[assignment]
    _assert_same(load_model("hf:owner/net").classifier, _linear(), _images())


def test_robustbench_is_asked_for_the_right_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = []

    def load(model_name: str, dataset: str, threat_model: str, model_dir: str = "models") -> nn.Module:
        asked.append((model_name, dataset, threat_model))
        net = _linear()
        if model_dir != "models":
            net.load_state_dict(torch.load(f"{model_dir}/{dataset}/{threat_model}/{model_name}.pt"))
        return net

    _fake(monkeypatch, "robustbench.utils", load_model=load)
    loaded = load_model("robustbench:Standard")
    _assert_same(loaded.classifier, _linear(), _images())
    assert loaded.about.startswith("robustbench:cifar10/Linf/Standard, robustbench, pretrained")
    other = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 4))
    torch.save(other.state_dict(), tmp_path / "own.pt")
    loaded = load_model("robustbench:cifar100/L2/Name", weights=tmp_path / "own.pt")
    _assert_same(loaded.classifier, other, _images())
    assert asked == [("Standard", "cifar10", "Linf"), ("Name", "cifar100", "L2")]
    with pytest.raises(ModelError, match=r"expected robustbench:NAME or robustbench:DATASET/THREAT/NAME, found 'a/b'"):
        load_model("robustbench:a/b")


@pytest.mark.parametrize(
    ("spec", "module", "held"),
    [
        ("timm:net", "timm", {"create_model": _offline, "is_model": lambda name: True}),
        ("torchvision:net", "torchvision.models", {"get_model": _offline, "list_models": lambda: ["net"]}),
        (
            "hf:net",
            "transformers",
            {"AutoModelForImageClassification": types.SimpleNamespace(from_pretrained=_offline)},
        ),
        ("robustbench:net", "robustbench.utils", {"load_model": _offline}),
    ],
)
def test_offline_the_error_says_where_to_put_the_weights(
    monkeypatch: pytest.MonkeyPatch, spec: str, module: str, held: dict[str, Any]
) -> None:
    _fake(monkeypatch, module, **held)
    with pytest.raises(
        ModelError, match=rf"^model {spec}: .*Name or service not known.*--weights, or put it in "
    ) as it:
        load_model(spec)
    assert "\n" not in str(it.value)


@pytest.mark.parametrize(
    ("spec", "package", "extra"),
    [
        ("timm:resnet18", "timm", "timm"),
        ("torchvision:resnet18", "torchvision", "torchvision"),
        ("hf:owner/net", "transformers", "hf"),
        ("robustbench:Standard", "robustbench", "robustbench"),
        ("net.onnx", "onnx", "onnx"),
        ("net.onnx", "onnx2torch", "onnx"),
    ],
)
def test_missing_libraries_are_named_with_their_extra(
    folder: Path, monkeypatch: pytest.MonkeyPatch, spec: str, package: str, extra: str
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    spec = str(folder / spec) if spec.endswith("onnx") else spec
    with pytest.raises(ModelError, match=rf"needs {package}, which cannot be imported .*pip install 'pwcf\[{extra}\]'"):
        load_model(spec)


def test_missing_safetensors_are_named_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    with pytest.raises(ModelError, match=r"needs safetensors, .*pip install safetensors"):
        _load(folder, "nets.py:factory", "net.safetensors")


def test_heavy_libraries_are_imported_only_when_needed(folder: Path) -> None:
    code = f"""
import sys
from pwcf.models.loading import load_model
load_model({str(folder / "nets.py") + ":factory"!r}, weights={str(folder / "net.pt")!r})
heavy = ("timm", "torchvision", "onnx", "onnx2torch", "transformers", "safetensors")
print([name for name in heavy if name in sys.modules])
"""
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == "[]"


# Nothing in a file is run


def _as_archive(evil: _Evil, path: Path) -> None:
    torch.save({"last.weight": evil}, path)


def _as_plain_pickle(evil: _Evil, path: Path) -> None:
    path.write_bytes(pickle.dumps(evil))


@pytest.mark.parametrize("save", [_as_archive, _as_plain_pickle])
def test_a_malicious_pickle_is_not_run(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save: Callable[[_Evil, Path], None]
) -> None:
    marker, path = tmp_path / "marker", tmp_path / "evil.pt"
    save(_Evil(marker), path)
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

    _fake(monkeypatch, "timm", create_model=careless, is_model=lambda name: True)
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
        torch.jit.save(torch.jit.script(_linear()), path)
    with pytest.raises(ModelError, match=r"found TorchScript, .*torch\.export\.save"):
        load_model(str(path))
    with pytest.raises(ModelError, match=r"weights: .*TorchScript archive.*torch\.export\.save"):
        load_model(f"{folder / 'nets.py'}:factory", weights=path)


def _changed(folder: Path, path: Path, inside: str, change: Callable[[Any], Any], start: Path | None = None) -> Path:
    """net.pt2 with one of its files changed; those that are JSON are given to ``change`` as such."""
    with zipfile.ZipFile(start or folder / "net.pt2") as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name.partition("/")[2] == inside and inside.endswith("json"):
                content = json.dumps(change(json.loads(content))).encode()
            elif name.partition("/")[2] == inside:
                content = change(content)
            new.writestr(name, content)
    return path


def _pickled(evil: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(evil, buffer)
    return buffer.getvalue()


def test_sample_inputs_of_a_program_are_not_unpickled(folder: Path, net: nn.Module, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    samples = "data/sample_inputs/model.pt"
    path = _changed(folder, tmp_path / "evil.pt2", samples, lambda _: _pickled((_Evil(marker),)))
    _assert_same(load_model(str(path)).classifier, net, _images())
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
    path = _changed(folder, tmp_path / "evil.pt2", inside, _at(*keys, value=lambda _: value))
    with pytest.raises(ModelError, match=message):
        load_model(str(path))
    assert not marker.exists()


def test_guards_of_a_program_are_not_executed(folder: Path, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    guards = [EVIL_CODE.format(marker=str(marker)) + " is None"]
    path = _changed(folder, tmp_path / "evil.pt2", "models/model.json", _at("guards_code", value=lambda _: guards))
    load_model(str(path)).classifier(_images())
    assert not marker.exists()
    torch.export.load(path).module()(_images())
    assert marker.exists()


def test_names_in_onnx_files_do_not_become_code(folder: Path, net: nn.Module, tmp_path: Path) -> None:
    import onnx

    from pwcf.models.loading.onnx import converter, to_opset_17

    marker, path = tmp_path / "marker", tmp_path / "net.onnx"
    model = to_opset_17(onnx, onnx.load(folder / "net.onnx"), "net.onnx")  # which onnx2torch reads without us
    model.graph.node[0].name = f'forward") and getattr(__import__("os"), "mkdir")("{marker}") or getattr(self, "a'
    onnx.save(model, path)
    _assert_same(load_model(str(path)).classifier, net, _images())
    assert not marker.exists()
    with contextlib.suppress(Exception):
        converter("net.onnx")(model)(_images())  # this is what the name is good for
    assert marker.exists()


# Mistakes


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
        _load(folder, form)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("no_such_package.nets:factory", "expected a module no_such_package, found none in the current folder"),
        ("nets.deeper:factory", "expected a module nets.deeper, found none|nets.deeper cannot be imported"),
        ("not-a-name:factory", "expected package.module:callable or .* found 'not-a-name' before the colon"),
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
        _load(folder, "nets.py:factory", device="cuda")


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
        torch.export.save(torch.export.export(module.train(), (_images(),)), tmp_path / "train.pt2")
        with pytest.raises(ModelError, match=r"found one in train mode; call model\.eval\(\) before torch\.export"):
            load_model(str(tmp_path / "train.pt2"))


def test_weights_may_be_standardised_in_every_mode(tmp_path: Path) -> None:
    class Standardised(nn.Conv2d):
        def forward(self, x: Tensor) -> Tensor:
            weight = nn.functional.batch_norm(self.weight.reshape(1, 4, -1), None, None, training=True)
            return nn.functional.conv2d(x, weight.reshape(self.weight.shape), self.bias).mean((2, 3))

    net = Standardised(3, 4, 2).eval()
    torch.export.save(torch.export.export(net, (_images(),)), tmp_path / "net.pt2")
    _assert_same(load_model(str(tmp_path / "net.pt2")).classifier, net, _images())


def test_programs_and_onnx_with_several_outputs_are_refused(tmp_path: Path) -> None:
    class Two(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return x.sum((2, 3)), x.mean((2, 3))

    torch.export.save(torch.export.export(Two(), (_images(),)), tmp_path / "two.pt2")
    _save_onnx(Two(), _images(), tmp_path / "two.onnx", dynamic=False)
    for name in ("two.pt2", "two.onnx"):
        with pytest.raises(ModelError, match="expected one output, logits, found"):
            load_model(str(tmp_path / name))


def test_the_forms_are_listed() -> None:
    forms = dict(list_kinds())
    assert {"zoo:NAME", "timm:NAME", "FILE.pt2", "FILE.onnx", "package.module:callable"} <= set(forms)
    assert all(help_ and "\n" not in help_ for help_ in forms.values())


# Fingerprints

STABLE = [
    ("nets.py:factory", None),
    ("nets.py:logits", None),
    ("nets.py:function_factory", None),
    ("nets.py:blank", "net.pt"),
    ("net.pt2", None),
    ("net.onnx", None),
]


def test_fingerprints_are_the_same_in_every_process(folder: Path) -> None:
    code = f"""
from pathlib import Path
from pwcf.models.loading import load_model
folder = Path({str(folder)!r})
for form, weights in {STABLE!r}:
    print(load_model(str(folder / form), weights=weights and folder / weights).fingerprint)
"""
    found = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": "7"},
    )
    here = [_load(folder, form, weights).fingerprint for form, weights in STABLE]
    assert found.stdout.split() == here
    assert here == [_load(folder, form, weights).fingerprint for form, weights in STABLE]
    assert all(len(one) == 64 for one in here)
    assert len(set(here)) == len(here)


def test_a_fingerprint_changes_with_one_weight(folder: Path, tmp_path: Path) -> None:
    state = torch.load(folder / "net.pt", weights_only=True)
    before = _load(folder, "nets.py:blank", "net.pt")
    torch.save(state, tmp_path / "net.pt")
    spec = f"{folder / 'nets.py'}:blank"
    assert load_model(spec, weights=tmp_path / "net.pt").fingerprint == before.fingerprint
    state["second.weight"][3, 2, 1, 0] += 1e-6
    torch.save(state, tmp_path / "net.pt")
    after = load_model(spec, weights=tmp_path / "net.pt")
    assert after.fingerprint != before.fingerprint
    assert after.about != before.about
    assert "net.pt" in after.about
    assert str(tmp_path) not in after.about


@pytest.mark.parametrize("form", ["nets.py:factory", "nets.py:logits", "net.pt2", "net.onnx"])
def test_a_fingerprint_changes_with_bounds_and_normalisation(folder: Path, form: str) -> None:
    given: list[dict[str, Any]] = [
        {},
        {"bounds": (-1.0, 1.0)},
        {"mean": 0.5, "std": 1.0},
        {"mean": 0.25, "std": 1.0},
        {"mean": 0.5, "std": 0.5},
    ]
    assert len({_load(folder, form, **one).fingerprint for one in given}) == len(given)
    assert _load(folder, form, mean=0, std=1).fingerprint == _load(folder, form, mean=0.0, std=1.0).fingerprint


@pytest.mark.parametrize(
    ("form", "old", "new", "other"),
    [
        ("factory", "torch.relu(self.second", "torch.tanh(self.second", True),  # what weights do not show
        ("factory", "nn.MaxPool2d(2)", "nn.MaxPool2d(2, 1)", True),
        ("factory", "    def forward", "    # for the better\n\n    def forward", False),
        ("of_ready_parts", "stride=2", "stride=1", True),
        ("logits", "FIXED = made(0)", "FIXED = made(1)", True),
        ("function_factory", "net = made(0)", "net = made(1)", True),
        ("logits", "return FIXED(x)", "return FIXED(x) + 1", True),
    ],
)
def test_a_fingerprint_changes_with_the_code(tmp_path: Path, form: str, old: str, new: str, other: bool) -> None:
    assert old in SOURCE
    changed = SOURCE.replace(old, new, 1)
    (tmp_path / "nets.py").write_text(SOURCE)
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "nets.py").write_text(changed)
    before, after = (load_model(f"{tmp_path / part / 'nets.py'}:{form}") for part in ("", "there"))
    assert (before.fingerprint != after.fingerprint) is other


def test_what_a_function_takes_from_around_it_is_seen(tmp_path: Path) -> None:
    source = "import torch\nNET = torch.nn.Linear(4, 3)\nwith torch.no_grad(): NET.weight.copy_(torch.load(PATH))\n"
    source += "def logits(x):\n    return NET(x)\n"
    torch.manual_seed(0)
    weight, found = torch.zeros(3, 4), []
    for value in (0.0, 1.0):
        weight[0, 0] = value
        torch.save(weight, tmp_path / "weight.pt")
        (tmp_path / "nets.py").write_text(
            f"import torch\ntorch.manual_seed(0)\nPATH = {str(tmp_path / 'weight.pt')!r}\n" + source
        )
        found.append(load_model(f"{tmp_path / 'nets.py'}:logits").fingerprint)
    assert found[0] != found[1]


def test_a_fingerprint_does_not_depend_on_the_device(folder: Path) -> None:
    """Seen on the CPU alone: the bytes are those of the CPU's copy, whatever the layout in memory."""
    loaded = _load(folder, "nets.py:factory")
    from pwcf.models.loading.fingerprint import fingerprint

    before = fingerprint(loaded.classifier, "net")
    model = loaded.classifier.model
    assert isinstance(model, nn.Module)
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    assert not model.first.weight.is_contiguous()  # type: ignore[operator,union-attr]
    assert fingerprint(loaded.classifier, "net") == before
