"""Files of models, made once for all tests of this folder."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from model_files import SOURCE, save_onnx
from timm_here import timm_here


@pytest.fixture(scope="session")
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
    save_onnx(net, images, place / "net.onnx", dynamic=True)
    save_onnx(net, images[:1], place / "one_row.onnx", dynamic=False)
    return place


@pytest.fixture(scope="session")
def net(folder: Path) -> nn.Module:
    found: nn.Module = runpy.run_path(str(folder / "nets.py"))["factory"]().eval()
    return found


@pytest.fixture(scope="session")
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
