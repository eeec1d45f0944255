"""Fingerprints: the same for the same model, others where anything differs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from model_files import SOURCE, load
from pwcf.models import Classifier
from pwcf.models.loading import load_model

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
from pwcf.models import Classifier
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
    here = [load(folder, form, weights).fingerprint for form, weights in STABLE]
    assert found.stdout.split() == here
    assert here == [load(folder, form, weights).fingerprint for form, weights in STABLE]
    assert all(len(one) == 64 for one in here)
    assert len(set(here)) == len(here)


def test_a_fingerprint_changes_with_one_weight(folder: Path, tmp_path: Path) -> None:
    state = torch.load(folder / "net.pt", weights_only=True)
    before = load(folder, "nets.py:blank", "net.pt")
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
    assert len({load(folder, form, **one).fingerprint for one in given}) == len(given)
    assert load(folder, form, mean=0, std=1).fingerprint == load(folder, form, mean=0.0, std=1.0).fingerprint


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
    loaded = load(folder, "nets.py:factory")
    from pwcf.models.loading.fingerprint import fingerprint

    before = fingerprint(loaded.classifier, "net")
    model = loaded.classifier.model
    assert isinstance(model, nn.Module)
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    assert not model.first.weight.is_contiguous()  # type: ignore[operator,union-attr]
    assert fingerprint(loaded.classifier, "net") == before


def test_stored_fingerprints_stay_valid() -> None:
    """Runs on disk hold these values: a run must still know its model after the package has changed."""
    from pwcf.models.loading.fingerprint import fingerprint
    from pwcf.models.loading.hubs import _OnlyLogits
    from pwcf.models.loading.request import FixedBatch

    stored = {
        "zoo:fashion-standard": "d46abcb007ddf61718ffd6a5c0905dd1d01b1e39a943b1155f4fec3b190a791e",
        "zoo:fashion-linf": "a7312fb8365e7bc9088b1be8c68a0ec8bfc2957e8a269561b85eb7f4868f9895",
    }
    assert {name: load_model(name).fingerprint for name in stored} == stored
    # The wrappers of this package are part of the fingerprint, by the names of their classes and attributes.
    wrapped = {
        FixedBatch(nn.Flatten(), 3): "2516f96433320af6331acdf0ce66b83d74ed3b001b62db53312b2f32016adebd",
        _OnlyLogits(nn.Flatten()): "4e23044a841e2538814bf5ca91a3bc36db79780e993831b5a66b16e3364e501a",
    }
    assert [fingerprint(Classifier(model), "net") for model in wrapped] == list(wrapped.values())
