"""A small network in every form of a model, and what tests of loading do with it."""

from __future__ import annotations

import json
import os
import sys
import types
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pwcf.models.loading import LoadedModel, load_model

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


class Evil:
    """Unpickled, it makes a folder."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return os.mkdir, (str(self.marker),)


def save_onnx(net: nn.Module, images: Tensor, path: Path, dynamic: bool) -> None:
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


def images(rows: int = 5) -> Tensor:
    return torch.rand(rows, 3, 8, 8, generator=torch.Generator().manual_seed(2))


def logits_and_gradient(model: Callable[[Tensor], Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
    """Logits, and the gradient in the images of a function of them that treats all classes differently."""
    leaf = x.clone().requires_grad_(True)
    logits = model(leaf)
    (gradient,) = torch.autograd.grad((logits * torch.arange(1.0, logits.shape[1] + 1)).sum(), leaf)
    return logits.detach(), gradient


def assert_same(model: Callable[[Tensor], Tensor], other: Callable[[Tensor], Tensor], x: Tensor) -> None:
    (logits, gradient), (expected, slope) = logits_and_gradient(model, x), logits_and_gradient(other, x)
    assert slope.abs().max() > 1e-3
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(gradient, slope, atol=1e-5, rtol=0)


def load(folder: Path, form: str, weights: str | None = None, **given: Any) -> LoadedModel:
    """``form`` and ``weights`` are names in the folder."""
    return load_model(str(folder / form), weights=None if weights is None else folder / weights, **given)


def edited_program(
    folder: Path, path: Path, inside: str, change: Callable[[Any], Any], start: Path | None = None
) -> Path:
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


def fake_library(monkeypatch: pytest.MonkeyPatch, name: str, **held: Any) -> None:
    """A library that is not installed here, by what this package uses of it."""
    module = types.ModuleType(name)
    vars(module).update(held)
    monkeypatch.setitem(sys.modules, name, module)
    if "." in name:
        monkeypatch.setitem(sys.modules, name.partition(".")[0], types.ModuleType(name.partition(".")[0]))


def linear(classes: int = 4) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, classes))
