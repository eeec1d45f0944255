"""A model's fingerprint: it changes where tensors, code or structure of the model change.

Runs store it, so the same model must have the same fingerprint in every version of this package.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import re
import sys
import sysconfig
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pwcf.models.classifier import Classifier

# Code of installed packages is not read: records have its version, and what changes in it shows in the structure.
_INSTALLED = ("site-packages", "dist-packages")
_KNOWN = (*(Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")), Path(__file__).parents[2])
# Types whose printed form is their value.
_PLAIN = (bool, int, float, str, tuple)
# Where an object lies in memory is no part of what it does.
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def fingerprint(classifier: Classifier, name: str, content: bytes = b"") -> str:
    """SHA-256 of the architecture's name, its tensors, its own code and ``content``; the device does not matter."""
    whole = hashlib.sha256()
    for part in (name.encode(), content, *_code(classifier.model)):
        whole.update(hashlib.sha256(part).digest())  # of equal length each, so that no two lists run together
    tensors = {**_tensors(classifier.model), **classifier.state()}
    for key in sorted(tensors):
        value = tensors[key]
        value = value.to_dense() if value.layout is not torch.strided else value
        value = value.detach().cpu()
        whole.update(f"{key}|{value.dtype}|{tuple(value.shape)}|".encode())
        whole.update(hashlib.sha256(value.reshape(-1).view(torch.uint8).numpy().tobytes()).digest())
    return whole.hexdigest()


def _tensors(model: object) -> dict[str, Tensor]:
    """Tensors that a state dict does not have: unsaved buffers, and those that a function uses from outside."""
    if isinstance(model, nn.Module):
        return {f"buffer.{name}": value for name, value in model.named_buffers()}
    found: dict[str, Tensor] = {}
    for name, value in _outside_values(model):
        if isinstance(value, Tensor):
            found[f"around.{name}"] = value
        elif isinstance(value, nn.Module):
            held = {**dict(value.named_buffers()), **value.state_dict()}
            found |= {f"around.{name}.{key}": one for key, one in held.items() if isinstance(one, Tensor)}
    return found


def _outside_values(model: object) -> Iterator[tuple[str, Any]]:
    """Names and values that a callable uses: its closure, the globals it names, its attributes, bound arguments."""
    if isinstance(model, functools.partial):
        yield from ((str(place), value) for place, value in enumerate(model.args))
        yield from model.keywords.items()
        yield from _outside_values(model.func)
    elif inspect.isfunction(model):
        try:
            seen = inspect.getclosurevars(model)
        except ValueError:  # a cell that is still empty
            return
        yield from {**seen.globals, **seen.nonlocals}.items()
    elif inspect.ismethod(model):
        yield from _outside_values(model.__self__)
    else:
        yield from vars(model).items() if hasattr(model, "__dict__") else ()


def _code(model: object) -> Iterator[bytes]:
    """The structure of a module and the code of its classes; for a function, the whole file that defines it."""
    owner = getattr(model, "__self__", model)
    if isinstance(owner, nn.Module):
        for name, module in owner.named_modules():
            yield f"{name}|{_plain_attributes(module)}".encode()
        # The printed structure has what weights do not: strides, paddings, kinds of activation.
        yield _ADDRESS.sub("", repr(owner)).encode()
        kinds = {kind for module in owner.modules() for kind in type(module).__mro__}
        for kind in sorted(kinds, key=lambda kind: f"{kind.__module__}.{kind.__qualname__}"):
            yield from _own_source(kind)
        return
    while isinstance(model, functools.partial):
        model = model.func
    code = model if inspect.isroutine(model) else type(model)
    yield getattr(code, "__qualname__", "").encode()
    for file in _own_files(code):
        yield file.read_bytes()


def code_fingerprint(function: object) -> str:
    """SHA-256 of a function that is no model: its code, that of its own modules, and the tensors it names."""
    whole = hashlib.sha256()
    for part in _code(function):
        whole.update(hashlib.sha256(part).digest())
    for key, value in sorted(_tensors(function).items()):
        whole.update(key.encode() + value.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
    return whole.hexdigest()


def _plain_attributes(module: nn.Module) -> str:
    """Plain values among a module's attributes: a temperature, a number of steps."""
    held = {name: value for name, value in vars(module).items() if not name.startswith("_") and name != "training"}
    return repr(sorted((name, value) for name, value in held.items() if isinstance(value, _PLAIN)))


def _own_files(code: Any) -> list[Path]:
    """The file that defines it, and those of all the user's own modules that it reaches by imports."""
    found: dict[str, Path] = {}
    waiting = [code]
    while waiting:
        file = _own_file(waiting.pop())
        if file is None or str(file) in found:
            continue
        found[str(file)] = file
        module = next((each for each in list(sys.modules.values()) if _file_of(each) == str(file)), None)
        for value in list(vars(module).values()) if module is not None else ():
            if inspect.ismodule(value) or inspect.isfunction(value) or inspect.isclass(value):
                waiting.append(value)
    return sorted(found.values())


def _file_of(module: object) -> str | None:
    return getattr(module, "__file__", None)


def _own_source(kind: type) -> Iterator[bytes]:
    """The syntax tree of the user's own class, in which comments and blanks do not count."""
    if _own_file(kind) is None:
        return
    try:
        yield ast.dump(ast.parse(textwrap.dedent(inspect.getsource(kind)))).encode()
    except (OSError, TypeError, SyntaxError):  # made on the fly: known by its structure only
        return


def _own_file(code: Any) -> Path | None:
    """The file that defines it; None if that belongs to an installed package or does not exist."""
    try:
        file = inspect.getsourcefile(code)
    except TypeError:
        return None
    if file is None or not Path(file).is_file():
        return None
    path = Path(file)
    known = any(part in _INSTALLED for part in path.parts) or any(place in path.parents for place in _KNOWN)
    return None if known else path
