"""Measurements kept as they are made: numbers in JSON, points beside them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

Numbers = dict[str, Any]


class Cells:
    """A folder of measurements by name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def numbers(self, name: str, measure: Callable[[], tuple[Numbers, Tensor | None]]) -> Numbers:
        """Those of an earlier run, or measured now. Points are written first: a file of numbers is complete."""
        path = self.folder / f"{name}.json"
        if not path.exists():
            found, points = measure()
            if points is not None:
                torch.save(points, self._points(name))
            partial = path.with_suffix(".partial")
            partial.write_text(json.dumps(found), encoding="utf-8")
            os.replace(partial, path)
            shown = {key: round(value, 4) for key, value in found.items() if isinstance(value, float)}
            print(f"{name}: {shown}", flush=True)
        read: Numbers = json.loads(path.read_text(encoding="utf-8"))
        return read

    def points(self, name: str) -> Tensor:
        loaded: Tensor = torch.load(self._points(name), weights_only=True)
        return loaded

    def _points(self, name: str) -> Path:
        return self.folder / f"{name}.pt"
