"""The commands of ``pwcf``, a file each: its ``add_to(app)`` is all that the command line needs of it."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

# The order in which the help lists them; a command that is not named here comes after these.
FIRST = ("run", "train", "show", "verify", "compare", "report", "figure", "export", "listing", "doctor", "bench")


def modules() -> list[ModuleType]:
    """The modules of this folder, in the order of the help."""
    names = [each.name for each in pkgutil.iter_modules(__path__)]
    ordered = sorted(names, key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name))
    return [importlib.import_module(f"{__name__}.{name}") for name in ordered]
