"""adv-lib imported where what it does not need is missing.

Its packages import visdom (live plots) and torchvision (backbones of LPIPS) unconditionally, and no attack here uses
either. Where one cannot be imported an empty module stands in for it, while adv-lib is being imported and no longer.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module, metadata, util
from types import ModuleType

NEEDLESS: dict[str, dict[str, tuple[str, ...]]] = {
    "visdom": {"visdom": ("Visdom",)},
    "torchvision": {"torchvision": ("models",), "torchvision.models": ()},
}
"""Packages, the modules of theirs that adv-lib imports, and the names it takes from these."""


def available() -> bool:
    """Whether adv-lib is installed. It is not imported to find out."""
    return util.find_spec("adv_lib") is not None


def version() -> str:
    try:
        return metadata.version("adv-lib")
    except metadata.PackageNotFoundError:
        return "of unknown version"


def adv_lib_module(name: str) -> ModuleType:
    """``adv_lib.attacks``, or another module of adv-lib."""
    if name in sys.modules:
        return sys.modules[name]
    with _stand_ins(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it compares versions by a module that is going away; no user can help that
        return import_module(name)


@contextmanager
def _stand_ins() -> Iterator[None]:
    missing = [package for package in NEEDLESS if not _importable(package)]
    stubs = {name: ModuleType(name) for package in missing for name in NEEDLESS[package]}
    for package in missing:
        for name, attributes in NEEDLESS[package].items():
            for attribute in attributes:
                setattr(stubs[name], attribute, stubs.get(f"{name}.{attribute}", object))
    sys.modules.update(stubs)
    try:
        yield
    finally:
        for name in stubs:
            del sys.modules[name]


def _importable(package: str) -> bool:
    """Whether it is there and works; what a failed attempt leaves behind is taken away."""
    before = set(sys.modules)
    try:
        for name in NEEDLESS[package]:
            import_module(name)
    except Exception:  # torchvision beside another build of torch: "operator torchvision::nms does not exist"
        for name in set(sys.modules) - before:
            if name.split(".")[0] == package:
                del sys.modules[name]
        return False
    return True
