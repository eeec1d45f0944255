"""Weights from files on this machine: found, and loaded without running what is in them."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import torch
from torch import Tensor

VARIABLE = "PWCF_WEIGHTS"
# Anything else in such a file is no weights: a page that says the download failed, for instance.
ENDINGS = ("pt", "pth")


def folders() -> list[Path]:
    """Where weights are looked for: the folders in PWCF_WEIGHTS, and torch's own cache of downloads."""
    named = [Path(folder) for folder in os.environ.get(VARIABLE, "").split(os.pathsep) if folder]
    return [*named, Path(torch.hub.get_dir()) / "checkpoints"]


def find(what: str, *patterns: str, also: list[Path] | None = None) -> Path:
    """The first file of these patterns, without ending, in the folders and in ``also``."""
    places = [*folders(), *(also or [])]
    for place in places:
        for pattern in patterns:
            for ending in ENDINGS:
                if found := sorted(place.glob(f"{pattern}.{ending}")):
                    return found[0]
    names = " or ".join(f"{pattern}.{ending}" for pattern in patterns for ending in ENDINGS)
    raise FileNotFoundError(
        f"{what}: no {names} in {', '.join(map(str, places))}. Nothing is downloaded unasked: give the file itself, "
        f"put it in one of these folders, or name its folder in {VARIABLE}."
    )


def package_folder(package: str, inside: str) -> list[Path]:
    """A folder of an installed package, which need not be importable; empty where it is not installed."""
    spec = importlib.util.find_spec(package)
    return [] if spec is None or spec.origin is None else [Path(spec.origin).parent / inside]


def load(argument: str, path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """A state dict. Nothing but tensors is unpickled; what is no state dict is an error that names the argument."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"{argument}: expected a file of weights, found none at {path}")
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise ValueError(
            f"{argument}: expected a file of weights that torch.load reads with weights_only=True, found {path}: "
            f"{type(error).__name__} {str(error).partition(chr(10))[0]}"
        ) from error
    if isinstance(state, dict) and isinstance(state.get("state_dict"), dict):
        state = state["state_dict"]
    if not isinstance(state, dict) or not state or not all(isinstance(value, Tensor) for value in state.values()):
        raise ValueError(f"{argument}: expected a state dict, names to tensors, found {type(state).__name__} in {path}")
    return state
