"""Programs saved by torch.export.save, read without unpickling or evaluating anything.

torch.export.load unpickles the sample inputs, unpickles weights that say so, loads compiled libraries, and executes
guards, as the file wants it. So the archive it gets is not the file, but a copy of the parts that are data: raw tensors
and the description of the graph. The description is data only as long as torch is not made to evaluate it: torch turns
names into Python source, symbolic sizes into expressions it evaluates, and operators into whatever they name. Each of
these is restricted to what an exported classifier can need. What cannot be left out is refused.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import torch
from torch.export import passes

from pwcf._common.files import file_checksum
from pwcf._common.text import describe_error
from pwcf.models.classifier import Logits
from pwcf.models.loading.request import BuiltModel, ModelError, ModelRequest, with_batch_size


def build(request: ModelRequest) -> BuiltModel:
    """``FILE.pt2``."""
    path = request.file_with_weights()
    archive, rows = _clean_archive(path)
    try:
        program = torch.export.load(archive)
        if request.device != "cpu":
            # A program names the device of every tensor it makes; moving its weights alone would not do.
            program = passes.move_to_device_pass(program, request.device)
        module: Logits = program.module()
    except Exception as error:
        raise ModelError(
            f"model {path}: torch {torch.__version__} cannot read this program ({describe_error(error)}); "
            "export it again with this version of torch"
        ) from error
    about: tuple[str, ...] = (path.name, f"torch {torch.__version__}", f"file {file_checksum(path)}")
    model, about = with_batch_size(module, rows, about)
    return BuiltModel(model, "pt2", about, content=path.read_bytes())


# The archive, written anew with nothing in it that torch.export.load would run


_PROGRAM = "models/model.json"
_TENSORS = {  # the description of tensors: how the files with their numbers are called
    "data/weights/model_weights_config.json": ("data/weights/", re.compile(r"weight_\d+")),
    "data/constants/model_constants_config.json": ("data/constants/", re.compile(r"tensor_\d+")),
}
_COPIED = ("archive_format", "archive_version", ".data/version", "byteorder")
_SAMPLES = "data/sample_inputs/model.pt"


def _clean_archive(path: Path) -> tuple[io.BytesIO, int | None]:
    """(an archive for torch.export.load, how many rows its batches must have or None for any)."""
    try:
        parts = _read(path)
        if _PROGRAM not in parts or any(name not in parts for name in _TENSORS):
            raise ModelError(
                f"model {path}: expected a program with raw weights as torch.export.save of torch 2.9 and later writes "
                "it, found another archive; export it again"
            )
        program = json.loads(parts[_PROGRAM])
        _check_plain(program, str(path))
        rows = _batch_size(program, str(path))
        program["guards_code"] = []  # Python that torch would execute had it samples; shapes are checked without
        program["verifiers"] = ["TRAINING"]  # torch's own check of the operators, which a file could do without
        clean = {name: parts[name] for name in _COPIED if name in parts}
        clean |= {_PROGRAM: _to_json(program), _SAMPLES: b""}  # sample inputs are pickled, and nobody needs them
        for described, (folder, pattern) in _TENSORS.items():
            config = json.loads(parts[described])
            _check_plain(config, str(path))
            names = _tensor_files(config, pattern, path)
            clean |= {described: _to_json(config), **{folder + name: parts[folder + name] for name in names}}
    except (zipfile.BadZipFile, KeyError, TypeError, IndexError, AttributeError, ValueError, RecursionError) as error:
        raise ModelError(
            f"model {path}: expected a program saved by torch.export.save, found something else "
            f"({type(error).__name__}: {error}); export it again"
        ) from error
    return _zipped(clean), rows


def _read(path: Path) -> dict[str, bytes]:
    """Every file in the archive by its name below the one folder all of them are in."""
    with zipfile.ZipFile(path) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


def _tensor_files(config: Any, pattern: re.Pattern[str], path: Path) -> set[str]:
    names = set()
    for tensor, described in config["config"].items():
        name = described["path_name"]
        if described["use_pickle"] is not False or not pattern.fullmatch(name):
            raise ModelError(
                f"model {path}: expected plain tensors, found {tensor} as a pickled object, which is never run; "
                "export the model without such objects"
            )
        names.add(name)
    return names


def _to_json(program: Any) -> bytes:
    # Written anew, so that what torch reads is what was checked, also where a file has the same key twice.
    return json.dumps(_on_cpu(program)).encode()


def _on_cpu(part: Any) -> Any:
    """The same with every device the CPU: a program made on a GPU is read on any machine, and moved afterwards."""
    if isinstance(part, dict):
        places = ("device", "as_device")
        return {key: {"type": "cpu", "index": None} if key in places else _on_cpu(one) for key, one in part.items()}
    return [_on_cpu(one) for one in part] if isinstance(part, list) else part


def _zipped(parts: dict[str, bytes]) -> io.BytesIO:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        for name, content in parts.items():
            file.writestr(f"model/{name}", content)
    archive.seek(0)
    return archive


# The description of the graph, restricted to what is plain data


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


def _check_plain(part: Any, where: str, key: str = "") -> None:
    """Raise where the description could make torch do anything but what an operator of a network does."""
    if isinstance(part, dict):
        if "target" in part:
            part["metadata"] = {}  # where the code stood that was exported; of no use here
            _check_mode(part, where)
        for name, one in part.items():
            if not _NAME.fullmatch(name) or name == "class_fqn":
                raise _refusal(where, f"the name {name!r}")
            _check_plain(one, where, name)
    elif isinstance(part, list):
        for one in part:
            _check_plain(one, where, key)
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


def _batch_size(program: dict[str, Any], where: str) -> int | None:
    """How many rows its batches must have, None for any number; an error unless images are its only input."""
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
