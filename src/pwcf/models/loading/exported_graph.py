"""The description of an exported program: data, unless torch is made to evaluate it.

torch turns names into Python source, symbolic sizes into expressions it evaluates, and operators into whatever they
name, so each of these is held to what an exported classifier can need.
"""

from __future__ import annotations

import re
from typing import Any

from pwcf.models.loading.errors import ModelError

_OPERATOR = re.compile(
    r"torch\.ops\.aten\.(?!__|(save|from_file|_print|warn)\.)\w+\.(?!_)\w+"
    r"|torch\.ops\.higher_order\.(cond|wrap_with_autocast|wrap_with_set_grad_enabled)"
    r"|_operator\.(getitem|add|mul|sub|truediv|floordiv|mod|pow|neg|abs|ge|le|gt|lt|eq|ne|and_|or_|not_)"
    r"|math\.(ceil|floor|trunc)|torch\.sym_\w+|torch\._C\._set_grad_enabled"
)
_NAME = re.compile(r"[\w.:+\- \[\]<>=/]*")
_QUOTED = re.compile(r"'([a-z]+\d+|[\d.e+\-]+)'")
_EXPRESSION = re.compile(r"[\w\s.+\-*/(),<>=&|~%]*")
_WORD = re.compile(r"[A-Za-z_]\w*")
# What torch itself writes into sizes that depend on others: symbols, what is known of them, and functions.
_KNOWN = re.compile(
    r"[a-z]+\d+|Symbol|Integer|Rational|Float|precision|positive|nonnegative|nonzero|integer|real|finite|Add|Mul|Pow"
    r"|FloorDiv|ModularIndexing|Where|PythonMod|Mod|CleanDiv|CeilToInt|FloorToInt|CeilDiv|LShift|RShift"
    r"|PowByNatural|FloatPow|FloatTrueDiv|IntTrueDiv|TruncToFloat|TruncToInt|RoundToInt|RoundDecimal|ToFloat"
    r"|Identity|Max|Min|Abs|Eq|Ne|Lt|Le|Gt|Ge|And|Or|Not|True|False|oo|int_oo|floor|ceiling|sqrt"
)
# Names of parameters, as torch serialises them, that mean: computed as in training.
_TRAINING = {"torch.ops.aten.batch_norm.default": "training", "torch.ops.aten.dropout.default": "train"}


def check_plain(part: Any, where: str, key: str = "") -> None:
    """Raise where the description could make torch do anything but what an operator of a network does."""
    if isinstance(part, dict):
        if "target" in part:
            part["metadata"] = {}  # where the code stood that was exported; of no use here
            _check_mode(part, where)
        for name, one in part.items():
            if not _NAME.fullmatch(name) or name == "class_fqn":
                raise _refusal(where, f"the name {name!r}")
            check_plain(one, where, name)
    elif isinstance(part, list):
        for one in part:
            check_plain(one, where, key)
    elif isinstance(part, str):
        _check_text(part, where, key)


def _check_text(text: str, where: str, key: str) -> None:
    match key:
        case "target" | "as_operator":
            if not _OPERATOR.fullmatch(text):
                raise _refusal(where, f"the operator {text!r}")
        case "expr_str":
            bare = _QUOTED.sub("0", text)
            if not _EXPRESSION.fullmatch(bare) or not all(_KNOWN.fullmatch(word) for word in _WORD.findall(bare)):
                raise _refusal(where, f"the size {text!r}")
        case "in_spec" | "out_spec":
            if "__enum__" in text:  # names a module that would be imported
                raise _refusal(where, "inputs or outputs of a type of their own")
        case "as_string" | "as_strings" | "guards_code":
            pass  # handed to operators as text; guards are thrown away
        case _:
            if not _NAME.fullmatch(text):
                raise _refusal(where, f"the name {text!r}")


def _check_mode(node: dict[str, Any], where: str) -> None:
    mode = _TRAINING.get(str(node["target"]))
    given = {one["name"]: one["arg"] for one in node["inputs"]} if mode else {}
    if given.get(mode, {}).get("as_bool") is not True:
        return
    # Some networks standardise their weights with it, and have no running mean to take instead.
    if "running_mean" not in given or "as_tensor" in given["running_mean"]:
        raise ModelError(
            f"model {where}: expected a program in eval mode, found one in train mode; "
            "call model.eval() before torch.export.export"
        )


def rows_taken(program: dict[str, Any], where: str) -> int | None:
    """How many rows its batches must have, None for any number; raise where it takes more than a batch of images."""
    module = program["graph_module"]
    inputs = [one["user_input"]["arg"] for one in module["signature"]["input_specs"] if "user_input" in one]
    outputs = [one["user_output"]["arg"] for one in module["signature"]["output_specs"] if "user_output" in one]
    for what, found in (("input, images", inputs), ("output, logits", outputs)):
        if len(found) != 1 or "as_tensor" not in found[0]:
            raise ModelError(f"model {where}: expected one {what}, found {len(found)}; export a model with one")
    size = module["graph"]["tensor_values"][inputs[0]["as_tensor"]["name"]]["sizes"][0]
    rows: int | None = size.get("as_int")
    return rows


def _refusal(where: str, what: str) -> ModelError:
    return ModelError(
        f"model {where}: expected the operators and names of an exported network, found {what}, which is not run; "
        "export the model again, or name it as package.module:callable"
    )
