"""Libraries that only some forms need: imported when such a model is loaded, never before."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from pwcf.models.loading.errors import ModelError, said

_FORCE, _FORBID = "TORCH_FORCE_WEIGHTS_ONLY_LOAD", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"


def library(module: str, spec: str, extra: str | None = None) -> Any:
    """The module, or an error that says what to install for this model: an extra of pwcf, or the library itself."""
    try:
        return importlib.import_module(module)
    except Exception as error:  # a library built for another torch raises RuntimeError, not ImportError
        package = module.partition(".")[0]
        install = package if extra is None else f"'pwcf[{extra}]'"
        raise ModelError(
            f"model {spec}: needs {package}, which cannot be imported ({said(error)}); pip install {install}"
        ) from error


def named_with_version(package: str) -> str:
    """For the record: results may move between versions."""
    try:
        return f"{package} {importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:
        return package


def fetched(spec: str, cache: str, load: Callable[[], Any]) -> Any:
    """What ``load`` returns; it may download, and unpickles nothing but tensors whatever it asks torch for."""
    try:
        with nothing_but_weights():
            return load()
    except Exception as error:
        raise ModelError(
            f"model {spec}: its pretrained weights cannot be had ({said(error)}); check its name, "
            f"connect to the network, give the file with --weights, or put it in {cache}"
        ) from error


@contextmanager
def nothing_but_weights() -> Iterator[None]:
    """torch.load takes files of tensors only, also where a library asks for more."""
    before = {name: os.environ.pop(name, None) for name in (_FORCE, _FORBID)}
    os.environ[_FORCE] = "1"
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def must_be_module(model: object, spec: str) -> nn.Module:
    """The model itself, once it is known to be a module."""
    if not isinstance(model, nn.Module):
        raise ModelError(f"model {spec}: expected a torch.nn.Module, found {type(model).__name__}; name another model")
    return model
