"""ONNX models of today in the forms of opset 17, which onnx2torch knows.

torch exports opset 18 and later, where many operators differ from their older selves only in the types they allow, some
take as an input what was an attribute, and a few mean something else. The first are left alone, the second rewritten,
the last refused: a converted model that computes something else would be worse than none.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from pwcf.models.loading.errors import ModelError
from pwcf.models.loading.onnx_converter import OUR_OPERATORS, OURS

OLDER = 17
_READ_UP_TO = 25
"""the newest opset whose changes were read for the lists below"""
_ONNX = ("", "ai.onnx")
# Changed after opset 17, up to 25, in the types they allow and in nothing a network of floats can notice.
_SAME = re.compile(
    r"Acos|Asin|Atan|Cast|Constant|ConstantOfShape|Conv|ConvTranspose|Cos|Dropout|Elu|Equal|EyeLike|Flatten"
    r"|GlobalAveragePool|HardSigmoid|HardSwish|Identity|InstanceNormalization|IsInf|IsNaN|MaxPool|Reshape|Round"
    r"|Selu|Shape|Sin|Softplus|Softsign|Squeeze|Tan|Transpose|Unsqueeze"
)


def in_older_form(onnx: Any, model: Any, where: str) -> Any:
    """The same model for onnx2torch; an error where that cannot be said."""
    if model.functions:
        model = onnx.inliner.inline_local_functions(model)
    # Before anything is rewritten: some conversions need shapes, which cannot be told beyond operators of our own.
    model = onnx.shape_inference.infer_shapes(model)
    opset = max((one.version for one in model.opset_import if one.domain in _ONNX), default=OLDER)
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
        if _since(onnx, node.op_type, opset) > OLDER:
            _rewrite(onnx, node, constants, where, opset)
    del model.opset_import[:]
    model.opset_import.extend([onnx.helper.make_opsetid("", min(opset, OLDER)), onnx.helper.make_opsetid(OURS, 1)])
    return model


def _since(onnx: Any, operator: str, opset: int) -> int:
    """The opset in which the operator took the form it has in this one."""
    try:
        return int(onnx.defs.get_schema(operator, max_inclusive_version=opset, domain="").since_version)
    except onnx.defs.SchemaError:
        return 0  # unknown to ONNX: onnx2torch will say so


def _rewrite(onnx: Any, node: Any, constants: dict[str, Any], where: str, opset: int) -> None:
    operator = node.op_type
    if operator in OUR_OPERATORS:
        node.domain = OURS
        return
    rule = _reduction if operator.startswith("Reduce") else _RULES.get(operator)
    if _since(onnx, operator, opset) > _READ_UP_TO or (rule is None and not _SAME.fullmatch(operator)):
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
        f"export it with opset_version={OLDER}, or with torch.export.save as FILE.pt2"
    )
