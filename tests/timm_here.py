"""timm, whose import wants torchvision but whose models do not: stood in for where it is missing."""

import importlib.abc
import importlib.machinery
import sys
import types
from typing import Any

import pytest


def timm_here() -> Any:
    """The library, or the test is skipped."""
    try:
        import timm as found
    except Exception:  # a torchvision made for another torch raises RuntimeError
        finder = _StandInFinder()
        sys.meta_path.insert(0, finder)
        try:
            found = pytest.importorskip("timm")
        finally:
            sys.meta_path.remove(finder)
            for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
                del sys.modules[name]
    return found


class _AnyName(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _AnyName(name, (), {})


class _StandIn(types.ModuleType):
    __getattr__ = _AnyName.__getattr__


class _StandInFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """A torchvision that has every name and does nothing."""

    def find_spec(self, name: str, *_: object) -> importlib.machinery.ModuleSpec | None:
        ours = name.partition(".")[0] == "torchvision"
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if ours else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass
