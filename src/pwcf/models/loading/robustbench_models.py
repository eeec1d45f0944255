"""Models of RobustBench. They take images in [0, 1] and normalise them themselves."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from pwcf.models.loading.built import Built, Wanted
from pwcf.models.loading.errors import ModelError
from pwcf.models.loading.library import fetched, library, must_be_module, named_with_version
from pwcf.models.loading.weights import named_with_checksum, refuse_strangers


def build(wanted: Wanted) -> Built:
    dataset, threat, name = _parts(wanted)
    utils = library("robustbench.utils", wanted.spec, "robustbench")
    cache = f"models/{dataset}/{threat}/{name}.pt, where RobustBench looks for it"

    def load(folder: str | None) -> Any:
        place = {} if folder is None else {"model_dir": folder}
        return utils.load_model(model_name=name, dataset=dataset, threat_model=threat, **place)

    if wanted.weights is None:
        model = fetched(wanted.spec, cache, lambda: load(None))
    else:
        refuse_strangers(wanted.weights)
        with tempfile.TemporaryDirectory() as folder:
            # RobustBench knows how the names in its files fit its models, so it reads the file from a cache of its own.
            there = Path(folder) / dataset / threat / f"{name}.pt"
            there.parent.mkdir(parents=True)
            os.symlink(wanted.weights.resolve(), there)
            model = fetched(wanted.spec, cache, lambda: load(folder))
    source = named_with_checksum(wanted.weights) if wanted.weights else "pretrained weights"
    shown = f"robustbench:{dataset}/{threat}/{name}"
    return Built(must_be_module(model, wanted.spec), shown, (shown, named_with_version("robustbench"), source))


def _parts(wanted: Wanted) -> tuple[str, str, str]:
    match wanted.rest.split("/"):
        case [name] if name:
            return "cifar10", "Linf", name
        case [dataset, threat, name] if dataset and threat and name:
            return dataset, threat, name
    raise ModelError(
        f"model {wanted.spec}: expected robustbench:NAME or robustbench:DATASET/THREAT/NAME, "
        f"found {wanted.rest!r}; write for instance robustbench:cifar10/L2/Standard"
    )
