"""Files that are no model: weights alone, and pickled modules, which run when they are read."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from pwcf.models.loading.built import Wanted
from pwcf.models.loading.errors import ModelError
from pwcf.models.loading.weights import is_torchscript


def build(wanted: Wanted) -> NoReturn:
    path = Path(wanted.spec)
    if path.is_file() and is_torchscript(path):
        raise ModelError(
            f"model {path}: expected a model that is data, found TorchScript, a pickled archive that runs when read; "
            "save the program with torch.export.save as FILE.pt2"
        )
    raise ModelError(
        f"model {path}: expected a model, found a file of weights, or a pickled module, which is never run; a state "
        "dict needs a factory: --model package.module:factory --weights FILE"
    )
