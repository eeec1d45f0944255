"""onnx2torch, importable without torchvision, and with the operators it lacks."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NoReturn

from torch import nn

from pwcf.models.loading.library import library

# A domain of our own: operators of this package are told apart from ONNX's, whatever onnx2torch learns later.
OURS = "pwcf"
OUR_OPERATORS = ("Gelu",)


def converter(spec: str) -> Callable[[Any], nn.Module]:
    """onnx2torch's function from an ONNX model to a module."""
    with _torchvision_not_needed():
        onnx2torch = library("onnx2torch", spec, "onnx")
    _teach(spec)
    convert: Callable[[Any], nn.Module] = onnx2torch.convert
    return convert


@contextmanager
def _torchvision_not_needed() -> Iterator[None]:
    """A stand-in where torchvision is missing or broken, gone again after the import.

    onnx2torch imports it for two operators of object detectors, NonMaxSuppression and RoiAlign, and for nothing else;
    classifiers have neither. torchvision is hard to have: it only loads beside the very build of torch it was made for.
    """
    if "onnx2torch" in sys.modules or _imports("torchvision"):
        yield
        return
    held = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == "torchvision"}
    whole, operators = ModuleType("torchvision"), ModuleType("torchvision.ops")
    whole.ops = operators  # type: ignore[attr-defined]
    operators.roi_align = operators.nms = operators.box_convert = _only_for_detectors  # type: ignore[attr-defined]
    sys.modules |= {"torchvision": whole, "torchvision.ops": operators}
    try:
        yield
    finally:
        del sys.modules["torchvision"], sys.modules["torchvision.ops"]
        sys.modules |= held


def _imports(module: str) -> bool:
    try:
        importlib.import_module(module)
    except Exception:  # a torchvision made for another torch raises RuntimeError
        return False
    return True


def _only_for_detectors(*_: object, **__: object) -> NoReturn:
    raise NotImplementedError("an operator of object detectors, which needs torchvision")


def _teach(spec: str) -> None:
    """Operators that onnx2torch does not know, registered once."""
    registry = library("onnx2torch.node_converters.registry", spec, "onnx")
    common = library("onnx2torch.utils.common", spec, "onnx")
    try:
        registry.get_converter(operation_type="Gelu", version=1, domain=OURS)
    except NotImplementedError:

        def gelu(node: Any, graph: Any) -> Any:
            module = nn.GELU(approximate=node.attributes.get("approximate", "none"))
            return common.OperationConverterResult(module, common.onnx_mapping_from_node(node))

        registry.add_converter("Gelu", version=1, domain=OURS)(gelu)
