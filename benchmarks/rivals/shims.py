"""Stand-ins for what adv-lib imports and the attacks measured here never use.

adv-lib's package imports visdom (live plots) and torchvision (LPIPS backbones) unconditionally. Neither is
needed for l1, l2 and linf, and torchvision's compiled part fails to load beside a CPU build of torch.
"""

from __future__ import annotations

import importlib
import sys
import types


def _stub(name: str, **attributes: object) -> types.ModuleType:
    module = types.ModuleType(name)
    for key, value in attributes.items():
        setattr(module, key, value)
    sys.modules[name] = module
    return module


def install() -> None:
    """Make ``import adv_lib.attacks`` work; whatever is importable is left as it is."""
    try:
        importlib.import_module("visdom")
    except ImportError:
        _stub("visdom", Visdom=object)
    try:
        importlib.import_module("torchvision.models")
    except (ImportError, RuntimeError):  # RuntimeError: operator torchvision::nms does not exist
        for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
            del sys.modules[name]
        models = _stub("torchvision.models")
        _stub("torchvision", models=models)
