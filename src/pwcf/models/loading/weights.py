"""State dicts from files that are read, never run."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from pwcf._common.files import file_checksum
from pwcf._common.text import describe_error, first_few
from pwcf.models.loading.request import ModelError, ModelRequest, import_library

# Where training scripts put the state dict of the model among other things.
_WRAPPED_AS = ("state_dict", "model_state_dict", "model")
# What torch's own wrappers put before every name: DataParallel and torch.compile.
_PREFIXES = ("module.", "_orig_mod.")
# In the way of no evaluation: only training looks at it, and old files lack it.
_UNUSED = "num_batches_tracked"


def read_weights(path: Path) -> dict[str, Tensor]:
    """The state dict in a file, names to tensors; nothing in the file is executed."""
    check_weights_file(path)
    state = _from_safetensors(path) if path.suffix.lower() == ".safetensors" else _from_torch(path)
    for _ in range(len(_WRAPPED_AS)):  # {"model": {"state_dict": ...}} happens too
        inner = next((state[name] for name in _WRAPPED_AS if isinstance(state.get(name), dict)), None)
        state = state if inner is None else inner
    strangers = [str(name) for name, value in state.items() if not isinstance(value, Tensor)]
    if not state or strangers:
        found = f"other values under {first_few(strangers)}" if strangers else "nothing"
        raise ModelError(
            f"weights: expected a state dict, names to tensors, found {found} in {path}; "
            "save it with torch.save(model.state_dict(), FILE)"
        )
    return {str(name): value for name, value in state.items()}


def put_weights(model: nn.Module, state: dict[str, Tensor], path: Path) -> None:
    """Load a state dict into a model; an error lists the first names that do not match."""
    own = model.state_dict()
    state = _without_prefixes(state, own)
    wrong = {
        "missing": [name for name in own if name not in state and not name.endswith(_UNUSED)],
        "unexpected": [name for name in state if name not in own],
        "of another shape": [
            f"{name} {tuple(state[name].shape)} instead of {tuple(value.shape)}"
            for name, value in own.items()
            if name in state and isinstance(value, Tensor) and value.shape != state[name].shape
        ],
    }
    if any(wrong.values()):
        what = "; ".join(f"{how}: {first_few(names)}" for how, names in wrong.items() if names)
        raise ModelError(
            f"weights: expected the {len(own)} tensors of {type(model).__name__}, found in {path.name} {what}; "
            "give the architecture this file was saved from"
        )
    try:
        model.load_state_dict(state)
    except Exception as error:
        raise ModelError(
            f"weights: {path.name} does not load into {type(model).__name__} ({describe_error(error)}); "
            "give the architecture this file was saved from"
        ) from error


def classes_in(model: nn.Module, state: dict[str, Tensor]) -> int | None:
    """How many classes a state dict is for; None if as many as the model was made for.

    The last tensor of a classifier is the bias, or the weight, of its last layer: one row per class.
    """
    own = {name: value for name, value in model.state_dict().items() if isinstance(value, Tensor) and value.dim() > 0}
    last = next(reversed(own), "")
    found = _without_prefixes(state, own).get(last)
    if found is None or found.dim() == 0 or found.shape[0] == own[last].shape[0]:
        return None
    return found.shape[0]


def name_and_checksum(path: Path) -> str:
    """For the record: the file's name and the first digits of its SHA-256."""
    return f"weights {path.name} {file_checksum(path)}"


def _is_torchscript(path: Path) -> bool:
    """TorchScript is a zip archive with code in it, whatever its name ends with."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any(name.partition("/")[2].startswith("code/") for name in archive.namelist())


def check_weights_file(path: Path) -> None:
    """Raise where there is no file, or where it is one of the usual things that are not weights."""
    if not path.is_file():
        found = "a folder" if path.is_dir() else "none"
        raise ModelError(f"weights: expected a file, found {found} at {path}; check the path")
    with path.open("rb") as file:
        start = file.read(256).lstrip().lower()
    if start.startswith((b"<!doctype", b"<html", b"<?xml")):
        raise ModelError(f"weights: expected a state dict, found a web page in {path}; download the file itself")
    if start.startswith(b"version https://git-lfs"):
        raise ModelError(f"weights: expected a state dict, found a pointer of Git LFS in {path}; run git lfs pull")
    if _is_torchscript(path):
        raise ModelError(
            f"weights: expected a state dict, found a TorchScript archive in {path}; "
            "save model.state_dict(), or the whole program with torch.export.save"
        )


def refuse_as_model(request: ModelRequest) -> NoReturn:
    """Raise for a file given as a model that is none: weights alone, or a pickled module, which runs when read."""
    path = Path(request.spec)
    if path.is_file() and _is_torchscript(path):
        raise ModelError(
            f"model {path}: expected a model that is data, found TorchScript, a pickled archive that runs when read; "
            "save the program with torch.export.save as FILE.pt2"
        )
    raise ModelError(
        f"model {path}: expected a model, found a file of weights, or a pickled module, which is never run; a state "
        "dict needs a factory: --model package.module:factory --weights FILE"
    )


def _from_safetensors(path: Path) -> dict[str, Any]:
    safetensors = import_library("safetensors.torch", f"with weights {path.name}")
    try:
        state: dict[str, Any] = safetensors.load_file(path)
    except Exception as error:
        raise ModelError(
            f"weights: expected a file of safetensors, found {path} ({describe_error(error)}); save it again with "
            "safetensors.torch.save_file(model.state_dict(), FILE)"
        ) from error
    return state


def _from_torch(path: Path) -> dict[str, Any]:
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        # torch's own message recommends ways to run the file all the same; only the name of what is in it is repeated.
        stranger = re.search(r"GLOBAL (\S+)", str(error))
        found = f"the Python object {stranger[1]}" if stranger else describe_error(error)
        raise ModelError(
            f"weights: expected a state dict of tensors and nothing else, found {found} in {path}, which was not run; "
            "save it with torch.save(model.state_dict(), FILE)"
        ) from error
    if not isinstance(state, dict):
        raise ModelError(
            f"weights: expected a state dict, names to tensors, found {type(state).__name__} in {path}; "
            "save it with torch.save(model.state_dict(), FILE)"
        )
    return state


def _without_prefixes(state: dict[str, Tensor], own: dict[str, Any]) -> dict[str, Tensor]:
    """Without what wrappers put before every name; a model that has such names itself keeps them."""
    for prefix in _PREFIXES * 2:  # one wrapper may be inside the other
        if all(name.startswith(prefix) for name in state) and not any(name.startswith(prefix) for name in own):
            state = {name.removeprefix(prefix): value for name, value in state.items()}
    return state
