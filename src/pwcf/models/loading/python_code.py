"""Models from the user's own Python: a module by its name, or a file by its path, and something callable in it."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import torch
from torch import nn

from pwcf.models.classifier import Classifier
from pwcf.models.loading.built import Built, Wanted
from pwcf.models.loading.callables import model_from
from pwcf.models.loading.errors import ModelError, a_few, meant, said
from pwcf.models.loading.library import named_with_version
from pwcf.models.loading.weights import named_with_checksum, put_weights, read_weights


def build(wanted: Wanted) -> Built:
    where, _, name = wanted.spec.rpartition(":")
    is_file = where.lower().endswith(".py")
    module = _from_file(Path(where), wanted.spec) if is_file else _from_name(where, wanted.spec)
    model = model_from(_attribute(module, name, wanted.spec), wanted.spec)
    # A folder's name is nobody else's business, and the file may move: only its own name is kept.
    shown = f"{Path(where).name}:{name}" if is_file else wanted.spec
    about = [shown, f"torch {torch.__version__}"]
    if not is_file and (version := named_with_version(where.partition(".")[0])) != where.partition(".")[0]:
        about.append(version)
    if wanted.weights is not None:
        put_weights(_module_in(model, wanted.spec), read_weights(wanted.weights), wanted.weights)
        about.append(named_with_checksum(wanted.weights))
    return Built(model, f"python:{name}", tuple(about))


def _module_in(model: object, spec: str) -> nn.Module:
    inner = model.model if isinstance(model, Classifier) else model
    if not isinstance(inner, nn.Module):
        raise ModelError(
            f"weights: expected {spec} to give a torch.nn.Module to load them into, found {type(inner).__name__}; "
            "name a factory that returns the module"
        )
    return inner


def _from_name(name: str, spec: str) -> ModuleType:
    if not name or not all(part.isidentifier() for part in name.split(".")):
        raise ModelError(
            f"model {spec}: expected package.module:callable or path/to/file.py:callable, found {name!r} before the "
            "colon; write one of these"
        )
    # As uvicorn does: what lies in the folder one works in is found. It stays, as models import more when first called.
    _importable(Path.cwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise ModelError(
                f"model {spec}: expected a module {error.name}, found none in the current folder or among the "
                "installed packages; check its name, or give a file: path/to/file.py:callable"
            ) from error
        raise _failed(name, spec, error) from error
    except (Exception, SystemExit) as error:
        raise _failed(name, spec, error) from error


def _from_file(path: Path, spec: str) -> ModuleType:
    if not path.is_file():
        raise ModelError(f"model {spec}: expected a Python file, found none at {path}; check the path")
    path = path.resolve()
    _importable(path.parent)
    # A name of its own, so that no file called like an installed package takes its place.
    name = f"_pwcf_model_{path.stem}_{hashlib.sha256(os.fsencode(path)).hexdigest()[:12]}"
    found = importlib.util.spec_from_file_location(name, path)
    if found is None or found.loader is None:
        raise ModelError(f"model {spec}: expected a Python file, found {path.name}; give a file that ends in .py")
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module  # dataclasses and the like look their module up there
    try:
        found.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise _failed(path.name, spec, error) from error
    return module


def _importable(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _failed(name: str, spec: str, error: BaseException) -> ModelError:
    return ModelError(f"model {spec}: {name} cannot be imported ({said(error)}); import it in Python to see where")


def _attribute(module: ModuleType, name: str, spec: str) -> object:
    found: object = module
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError as error:
            held = [known for known in vars(found) if not known.startswith("_")] if hasattr(found, "__dict__") else []
            there = f", which has {a_few(held)}" if held else ""
            hint = meant(part, held) or "; name a callable"
            raise ModelError(
                f"model {spec}: expected {part!r} in {spec.rpartition(':')[0]}, found none{there}{hint}"
            ) from error
    return found
