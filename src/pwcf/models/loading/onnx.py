"""ONNX models, turned into PyTorch by onnx2torch so that gradients flow through them.

onnx2torch knows opset 17. torch exports opset 18 and later, where many operators differ from their older selves only in
the types they allow, some take as an input what was an attribute, and a few mean something else. The first are left
alone, the second rewritten, the last refused: a converted model that computes something else would be worse than none.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import torch
from torch import nn

from pwcf._common.files import file_checksum
from pwcf._common.optional import name_and_version
from pwcf._common.text import describe_error
from pwcf.models.loading.request import BuiltModel, ModelError, ModelRequest, import_library, with_batch_size

# ONNX's number for 32-bit floats.
_FLOAT = 1
# A domain of our own: operators of this package are never mistaken for ONNX's, whatever onnx2torch learns later.
_OWN_DOMAIN = "pwcf"
_OWN_OPERATORS = ("Gelu",)
_OPSET = 17
"""the newest that onnx2torch knows"""
_NEWEST_REVIEWED = 25
"""the newest opset whose changes were read for the lists below"""
_ONNX = ("", "ai.onnx")
# Changed after opset 17, up to 25, in the types they allow and in nothing a network of floats can notice.
_UNCHANGED = re.compile(
    r"Acos|Asin|Atan|Cast|Constant|ConstantOfShape|Conv|ConvTranspose|Cos|Dropout|Elu|Equal|EyeLike|Flatten"
    r"|GlobalAveragePool|HardSigmoid|HardSwish|Identity|InstanceNormalization|IsInf|IsNaN|MaxPool|Reshape|Round"
    r"|Selu|Shape|Sin|Softplus|Softsign|Squeeze|Tan|Transpose|Unsqueeze"
)


def build(request: ModelRequest) -> BuiltModel:
    """``FILE.onnx``."""
    path = request.file_with_weights()
    onnx = import_library("onnx", request.spec, "onnx")
    convert = converter(request.spec)
    try:
        # With the weights beside it, which the newer exporter puts in a file FILE.data.
        described = onnx.load(str(path))
    except Exception as error:
        raise ModelError(
            f"model {path}: expected an ONNX model, found a file that cannot be read ({describe_error(error)}); "
            "export it again, and keep the file of weights that belongs to it beside it"
        ) from error
    rows = _batch_size(described.graph, path)
    try:
        described = to_opset_17(onnx, described, str(path))
        module: nn.Module = convert(described)
        _call_once(module.eval(), described.graph, rows)
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(
            f"model {path}: onnx2torch cannot convert it ({describe_error(error)}); "
            f"export it with opset_version={_OPSET}, or with torch.export.save as FILE.pt2"
        ) from error
    about: tuple[str, ...] = (
        path.name,
        name_and_version("onnx2torch"),
        name_and_version("onnx"),
        f"file {file_checksum(path)}",
    )
    model, about = with_batch_size(module, rows, about)
    return BuiltModel(model, "onnx", about, content=path.read_bytes())


def _batch_size(graph: Any, path: Path) -> int | None:
    """How many rows its batches must have, None for any number; an error unless images are its only input."""
    inputs = _inputs(graph)
    for what, found in (("input, images", inputs), ("output, logits", list(graph.output))):
        if len(found) != 1:
            names = ", ".join(one.name for one in found) or "none"
            raise ModelError(f"model {path}: expected one {what}, found {names}; export a model with one")
    sizes = inputs[0].type.tensor_type.shape.dim
    return sizes[0].dim_value or None if sizes else None


def _inputs(graph: Any) -> list[Any]:
    held = {tensor.name for tensor in graph.initializer}  # old files list weights among the inputs
    return [one for one in graph.input if one.name not in held]


def _call_once(module: nn.Module, graph: Any, rows: int | None) -> None:
    """One call, where the file tells the size of images: some conversions fail only then."""
    kind = _inputs(graph)[0].type.tensor_type
    sizes = [size.dim_value for size in kind.shape.dim][1:]
    if sizes and all(sizes) and kind.elem_type == _FLOAT:
        with torch.no_grad():
            module(torch.zeros(rows or 1, *sizes))


# onnx2torch, importable without torchvision, and with the operators it lacks


def converter(spec: str) -> Callable[[Any], nn.Module]:
    """onnx2torch's function from an ONNX model to a module."""
    with _torchvision_not_needed():
        onnx2torch = import_library("onnx2torch", spec, "onnx")
    _register_operators(spec)
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


def _register_operators(spec: str) -> None:
    """Operators that onnx2torch does not know, registered once."""
    registry = import_library("onnx2torch.node_converters.registry", spec, "onnx")
    common = import_library("onnx2torch.utils.common", spec, "onnx")
    try:
        registry.get_converter(operation_type="Gelu", version=1, domain=_OWN_DOMAIN)
    except NotImplementedError:

        def gelu(node: Any, graph: Any) -> Any:
            module = nn.GELU(approximate=node.attributes.get("approximate", "none"))
            return common.OperationConverterResult(module, common.onnx_mapping_from_node(node))

        registry.add_converter("Gelu", version=1, domain=_OWN_DOMAIN)(gelu)


# The same model in the operators of opset 17


def to_opset_17(onnx: Any, model: Any, where: str) -> Any:
    """The same model in operators that onnx2torch knows; an error where that cannot be guaranteed."""
    if model.functions:
        model = onnx.inliner.inline_local_functions(model)
    # Before anything is rewritten: some conversions need shapes, which cannot be told beyond operators of our own.
    model = onnx.shape_inference.infer_shapes(model)
    opset = max((one.version for one in model.opset_import if one.domain in _ONNX), default=_OPSET)
    graph = model.graph
    constants = _constants(onnx, graph)
    _merge_copies(graph, constants)
    for place, node in enumerate(graph.node):
        if node.domain not in _ONNX or not re.fullmatch(r"\w+", node.op_type):
            raise _refusal(where, f"{node.domain} {node.op_type}".strip(), opset)
        # Names become part of the Python source that torch.fx writes: none is taken from the file.
        node.name, node.domain = f"{node.op_type}_{place}", ""
        if node.op_type == "Reshape":
            # Whether 0 means "empty" or "as before" matters for shapes with an empty side only.
            _take(node, "allowzero")
        if _changed_in(onnx, node.op_type, opset) > _OPSET:
            _rewrite(onnx, node, constants, where, opset)
    del model.opset_import[:]
    model.opset_import.extend(
        [onnx.helper.make_opsetid("", min(opset, _OPSET)), onnx.helper.make_opsetid(_OWN_DOMAIN, 1)]
    )
    return model


def _changed_in(onnx: Any, operator: str, opset: int) -> int:
    """The opset in which the operator took the form it has in this one."""
    try:
        return int(onnx.defs.get_schema(operator, max_inclusive_version=opset, domain="").since_version)
    except onnx.defs.SchemaError:
        return 0  # unknown to ONNX: onnx2torch will say so


def _rewrite(onnx: Any, node: Any, constants: dict[str, Any], where: str, opset: int) -> None:
    operator = node.op_type
    if operator in _OWN_OPERATORS:
        node.domain = _OWN_DOMAIN
        return
    rule = _reduction if operator.startswith("Reduce") else _RULES.get(operator)
    if _changed_in(onnx, operator, opset) > _NEWEST_REVIEWED or (rule is None and not _UNCHANGED.fullmatch(operator)):
        raise _refusal(where, operator, opset)
    if rule is not None and not rule(onnx, node, constants):
        raise _refusal(where, operator, opset)


def _reduction(onnx: Any, node: Any, constants: dict[str, Any]) -> bool:
    """The axes were an attribute and became an input."""
    does_nothing_without = _take(node, "noop_with_empty_axes")
    if len(node.input) < 2 or not node.input[1]:
        return not (does_nothing_without and does_nothing_without.i)
    if node.input[1] not in constants:
        return False
    axes = constants[node.input[1]].reshape(-1).tolist()
    del node.input[1:]
    node.attribute.append(onnx.helper.make_attribute("axes", axes, attr_type=onnx.AttributeProto.INTS))
    return bool(axes)


def _pooling(onnx: Any, node: Any, constants: dict[str, Any]) -> bool:
    """Dilations are new."""
    dilations = _take(node, "dilations")
    return dilations is None or all(step == 1 for step in dilations.ints)


def _padding(onnx: Any, node: Any, constants: dict[str, Any]) -> bool:
    """The input of axes and the mode that wraps around are new."""
    modes = [attribute.s for attribute in node.attribute if attribute.name == "mode"]
    return (len(node.input) < 4 or not node.input[3]) and b"wrap" not in modes


def _splitting(onnx: Any, node: Any, constants: dict[str, Any]) -> bool:
    """Parts of unequal size without their sizes are new."""
    return len(node.input) > 1 and bool(node.input[1])


_RULES: dict[str, Callable[[Any, Any, dict[str, Any]], bool]] = {
    "AveragePool": _pooling,
    "Pad": _padding,
    "Split": _splitting,
}


def _take(node: Any, name: str) -> Any:
    """The attribute, which the node then has no longer; None if it had none."""
    found = next((attribute for attribute in node.attribute if attribute.name == name), None)
    if found is not None:
        node.attribute.remove(found)
    return found


def _constants(onnx: Any, graph: Any) -> dict[str, Any]:
    """Values that are known before the model runs."""
    known = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    for node in graph.node:
        for attribute in node.attribute if node.op_type == "Constant" else ():
            if attribute.name == "value":
                known[node.output[0]] = onnx.numpy_helper.to_array(attribute.t)
    return known


def _merge_copies(graph: Any, constants: dict[str, Any]) -> None:
    """Equal weights are exported once and copied by Identity, where onnx2torch looks for weights only."""
    outputs = {one.name for one in graph.output}
    copies: dict[str, str] = {}
    for node in list(graph.node):
        for place, name in enumerate(node.input):
            node.input[place] = copies.get(name, name)
        if node.op_type == "Identity" and node.input[0] in constants and node.output[0] not in outputs:
            copies[node.output[0]] = node.input[0]
            graph.node.remove(node)


def _refusal(where: str, operator: str, opset: int) -> ModelError:
    return ModelError(
        f"model {where}: expected operators that onnx2torch knows, found {operator} of opset {opset}; "
        f"export it with opset_version={_OPSET}, or with torch.export.save as FILE.pt2"
    )
