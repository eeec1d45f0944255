"""Models of libraries: pretrained or with a file, offline, and imported only when needed."""

from __future__ import annotations

import subprocess
import sys
import types
import urllib.error
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from model_files import assert_same, fake_library, images, linear, load
from pwcf.models import Classifier
from pwcf.models.loading import ModelError, load_model


def test_timm_with_a_file_works_offline(timm: Any, tmp_path: Path) -> None:
    import safetensors.torch

    x = torch.rand(2, 3, 64, 64)
    for classes in (1000, 7):
        net = timm.create_model("test_resnet", num_classes=classes).eval()
        safetensors.torch.save_file(net.state_dict(), tmp_path / "net.safetensors")
        loaded = load_model("timm:test_resnet", weights=tmp_path / "net.safetensors")
        config = net.pretrained_cfg
        assert_same(loaded.classifier, Classifier(net, (0, 1), list(config["mean"]), list(config["std"])), x)
        assert f"timm:test_resnet, timm {timm.__version__}, weights net.safetensors " in loaded.about
        assert_same(
            load_model("timm:test_resnet", weights=tmp_path / "net.safetensors", mean=0, std=1).classifier, net, x
        )
    with pytest.raises(ModelError, match=r"none of that name; did you mean .*resnet18"):
        load_model("timm:resnet81")


def _offline(*_: object, **__: object) -> Any:
    raise urllib.error.URLError("Name or service not known")


def test_torchvision_brings_its_normalisation(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = []

    def get_model(name: str, weights: str | None = None, num_classes: int = 4) -> nn.Module:
        asked.append((name, weights, num_classes))
        return linear(num_classes)

    transforms = types.SimpleNamespace(mean=[0.1, 0.2, 0.3], std=[0.5, 0.6, 0.7])
    default = types.SimpleNamespace(DEFAULT=types.SimpleNamespace(transforms=lambda: transforms))
    held = {"get_model": get_model, "list_models": lambda: ["net"], "get_model_weights": lambda name: default}
    fake_library(monkeypatch, "torchvision.models", **held)
    expected = Classifier(linear(), (0, 1), transforms.mean, transforms.std)
    assert_same(load_model("torchvision:net").classifier, expected, images())
    assert asked == [("net", "DEFAULT", 4)]
    torch.save(linear(7).state_dict(), tmp_path / "seven.pt")
    loaded = load_model("torchvision:net", weights=tmp_path / "seven.pt", mean=0.0, std=1.0)
    assert_same(loaded.classifier, linear(7), images())
    with pytest.raises(ModelError, match="expected a model of torchvision, found none of that name"):
        load_model("torchvision:other")


def test_transformers_give_their_logits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Model(nn.Module):
        def __init__(self, config: types.SimpleNamespace) -> None:
            super().__init__()
            self.net = linear(config.num_labels)

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
    fake_library(monkeypatch, "transformers", ImageProcessingMixin=processor, **held)
    normal = (settings["image_mean"], settings["image_std"])
    assert_same(load_model("hf:owner/net").classifier, Classifier(linear(), (0, 1), *normal), images())
    torch.save({f"net.{name}": value for name, value in linear(7).state_dict().items()}, tmp_path / "seven.pt")
    loaded = load_model("hf:owner/net", weights=tmp_path / "seven.pt")
    assert_same(loaded.classifier, Classifier(linear(7), (0, 1), *normal), images())
    settings["do_normalize"] = False  # type: ignore[assignment]
    assert_same(load_model("hf:owner/net").classifier, linear(), images())


def test_robustbench_is_asked_for_the_right_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = []

    def load(model_name: str, dataset: str, threat_model: str, model_dir: str = "models") -> nn.Module:
        asked.append((model_name, dataset, threat_model))
        net = linear()
        if model_dir != "models":
            net.load_state_dict(torch.load(f"{model_dir}/{dataset}/{threat_model}/{model_name}.pt"))
        return net

    fake_library(monkeypatch, "robustbench.utils", load_model=load)
    loaded = load_model("robustbench:Standard")
    assert_same(loaded.classifier, linear(), images())
    assert loaded.about.startswith("robustbench:cifar10/Linf/Standard, robustbench, pretrained")
    other = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 4))
    torch.save(other.state_dict(), tmp_path / "own.pt")
    loaded = load_model("robustbench:cifar100/L2/Name", weights=tmp_path / "own.pt")
    assert_same(loaded.classifier, other, images())
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
    fake_library(monkeypatch, module, **held)
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
        load(folder, "nets.py:factory", "net.safetensors")


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
