"""Everything that a model, a metric or an attack of the user's own computes with, as bytes in a fixed order.

Two of them with the same bytes do the same, as far as Python can tell: the whole of all own files that they reach,
hooks and patched methods, attributes, and the values that their functions take from outside. What they read while they
run, from files or from the environment, is not seen.
"""

from __future__ import annotations

import ast
import builtins
import ctypes
import dis
import functools
import hashlib
import importlib.util
import inspect
import logging
import os
import re
import sys
import sysconfig
import types
import weakref
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

# Code of installed packages is not read: records have its version, and what changes in it shows in the structure.
_INSTALLED = ("site-packages", "dist-packages")
_KNOWN = (*(Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")), Path(__file__).parents[2])
# Where an object lies in memory is no part of what it does.
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
# What models of libraries call: what the user has put in there is found in them.
_CALLED = (torch, torch.nn.functional, torch.Tensor)
# Types whose printed form is their value.
_PLAIN = (type(None), bool, int, float, complex, str, bytes, np.generic, torch.dtype, range, slice, type(...))
# Of these, that there is one is all that counts: where a model lies, what it prints.
_SILENT = (torch.device, torch.Generator, logging.Logger, PurePath, type(os.environ))
# What torch keeps in every module beside its parts and hooks: whether it is in train mode, and caches.
_TORCH_OWN = {"training", "_non_persistent_buffers_set", "_is_full_backward_hook", "_compiled_call_impl"}
_PARTS = ("_parameters", "_buffers", "_modules")
# Of a class: what Python keeps there.
_CLASS_OWN = {"__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "_abc_impl", "__abstractmethods__"}


def reached(root: object) -> Iterator[bytes]:
    """Descriptions of all objects that ``root`` reaches, then digests of all own files these are made in."""
    seen: dict[int, int] = {}
    alive: list[object] = []  # an object that is gone leaves its id to the next one
    files: set[Path] = set()
    # Objects, and the library's object they belong to: those that belong to one are known by their type, but for what
    # it nests of its own kind.
    waiting: list[tuple[object, object]] = [(root, None), *((each, None) for each in (*_global_hooks(), *_patches()))]
    while waiting:
        value, owner = waiting.pop()
        if _is_plain(value):
            yield _plain(value)
            continue
        of_library = _belongs_to_library(value)
        if of_library and owner is not None and type(owner) is not type(value):
            yield _kind_name(value).encode()
            continue
        if id(value) in seen:
            yield f"again {seen[id(value)]}".encode()
            continue
        seen[id(value)] = len(seen)
        alive.append(value)
        files |= _files(value)
        told, parts = _described(value)
        yield told
        outer = value if of_library else owner
        waiting += [(part, outer) for part in reversed(parts)]
    yield from sorted(hashlib.sha256(_syntax(file)).digest() for file in _with_imports(files))


def tensor_bytes(value: Tensor) -> bytes:
    """dtype, shape and SHA-256 of a tensor, wherever it lies."""
    value = value.to_dense() if value.layout is not torch.strided else value
    value = value.dequantize() if value.is_quantized else value
    head = f"{value.dtype}|{tuple(value.shape)}|".encode()
    if value.is_meta:
        return head
    content = value.detach().cpu().resolve_conj().resolve_neg().reshape(-1).view(torch.uint8).numpy()
    return head + hashlib.sha256(content.data).digest()


def _kind_name(value: object) -> str:
    """The name of its class; of the user's own without the module, whose file may move."""
    kind = type(value)
    return f"{kind.__module__}.{kind.__qualname__}" if _is_library_kind(kind) else kind.__qualname__


def _described(value: Any) -> tuple[bytes, list[object]]:
    """What an object is, and what it is made of."""
    kind, name = type(value), _kind_name(value)
    parts: list[object] = []
    if isinstance(value, _PLAIN):
        return _plain(value), _put_there(value)
    if isinstance(value, Tensor):
        hooks: list[object] = list((value._backward_hooks or {}).values()) if value.is_leaf else []
        # A class with a dispatch of its own says where and how values lie: on a device, in shards.
        placed = type(value).__torch_dispatch__ is not Tensor.__torch_dispatch__
        return tensor_bytes(value), hooks if placed else [*hooks, *_put_there(value)]
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            return name.encode(), list(value.flat)
        return f"{name}|{value.dtype}|{value.shape}|".encode() + hashlib.sha256(value.tobytes()).digest(), []
    if isinstance(value, (*_SILENT, types.ModuleType)):
        return name.encode(), []
    if isinstance(value, Enum):
        return f"{name}.{value.name}".encode(), [value.value]
    if isinstance(value, (memoryview, ctypes.Array, ctypes._SimpleCData)):
        return name.encode(), [bytes(value)]
    if isinstance(value, weakref.ref):
        return name.encode(), [value()]
    if isinstance(value, nn.Module):
        return f"{name}{_program(value)}".encode(), [kind, *_module_parts(value)]
    if isinstance(value, types.FunctionType):
        return _function(value), _function_parts(value)
    if isinstance(value, (types.BuiltinFunctionType, types.MethodWrapperType)):
        owner = value.__self__
        return f"{name}|{value.__qualname__}".encode(), [] if isinstance(owner, (types.ModuleType, type)) else [owner]
    if isinstance(value, types.MethodType):
        parts = [value.__func__, value.__self__]
    elif isinstance(value, functools.partial):
        parts = [value.func, value.args, value.keywords]
    elif isinstance(value, type):
        return f"class {value.__qualname__}".encode(), _class_parts(value)
    elif isinstance(value, (staticmethod, classmethod)):
        parts = [value.__func__]
    elif isinstance(value, property):
        parts = [value.fget]
    elif isinstance(value, (set, frozenset)):
        parts = sorted(value, key=_text_of)
    elif isinstance(value, (list, tuple, deque)):
        parts = list(value)
    elif isinstance(value, Mapping):
        parts = [one for pair in value.items() for one in pair]
    if isinstance(value, (list, tuple, deque, set, frozenset, Mapping)):
        factory = [value.default_factory] if isinstance(value, defaultdict) else []
        return f"{name} {len(parts)}".encode(), parts + factory + _put_there(value)
    if not parts:
        held = _attributes(value)
        if not held and _is_library_kind(kind):
            return f"{name}|{_text_of(value)}".encode(), []
        parts = [kind, *(one for pair in held.items() for one in pair)]
    return name.encode(), parts


def _text_of(value: object) -> str:
    try:
        return _ADDRESS.sub("", repr(value))
    except Exception:  # whatever a class of somebody else's does
        return ""


def _is_plain(value: object) -> bool:
    return isinstance(value, _PLAIN) and not hasattr(value, "__dict__")


def _put_there(value: object) -> list[object]:
    """What the user's own subclass of a number, a tensor or a collection adds, and attributes that were set."""
    own = [] if _is_library_kind(type(value)) else [type(value)]
    return [*own, *(one for pair in getattr(value, "__dict__", {}).items() for one in pair)]


def _plain(value: object) -> bytes:
    try:
        return f"{type(value).__qualname__}|{value!r}".encode("utf-8", "surrogatepass")
    except ValueError:  # an integer of more digits than Python writes
        return f"int|{value:x}".encode()


def _attributes(value: object) -> dict[str, object]:
    """Those of its own, in slots, too."""
    slots = [name for kind in type(value).__mro__ for name in _names(getattr(kind, "__slots__", ()))]
    held = {name: getattr(value, name) for name in slots if name != "__weakref__" and hasattr(value, name)}
    held |= getattr(value, "__dict__", {})
    held.pop("__module__", None)  # of the user's own it has its file's place, which may be another one
    return held


def _names(slots: str | Iterable[str]) -> list[str]:
    return [slots] if isinstance(slots, str) else [name for name in slots if name != "__dict__"]


def _program(module: nn.Module) -> str:
    """What a module that torch has made of a program does: its class is the same for all of them."""
    if isinstance(module, torch.fx.GraphModule):
        return module.code
    if isinstance(module, torch.jit.ScriptModule):
        return str(module.inlined_graph) if hasattr(module, "forward") else ""
    return ""


def _module_parts(module: nn.Module) -> list[object]:
    if isinstance(module, torch.jit.ScriptModule):
        return [*module.state_dict().values()]
    if "_orig_mod" in module._modules:  # torch.compile's: how it is made fast is not the same twice
        return [module._modules["_orig_mod"], *(hook for hook in module._forward_hooks.values())]
    held = {name: value for name, value in vars(module).items() if name not in _TORCH_OWN}
    if isinstance(module, torch.fx.GraphModule):  # beside its code, how torch came to it
        held = {name: value for name, value in held.items() if name in _PARTS or name.endswith("_hooks")}
    parts: list[object] = []
    for name, value in sorted(held.items()):
        if "_hooks" in name and name in _NO_HOOKS:  # by numbers, which are given out in turn
            parts += value.values() if isinstance(value, Mapping) else []
        else:
            parts += [name, value]
    return parts


_NO_HOOKS = vars(nn.Module())


def _global_hooks() -> list[object]:
    """Hooks that torch calls for every module."""
    places = vars(nn.modules.module)
    return [
        hook
        for name, held in sorted(places.items())
        if name.startswith("_global_") and name.endswith("_hooks") and isinstance(held, Mapping)
        for hook in held.values()
    ]


def _patches() -> list[object]:
    """Functions of the user's own in the place of torch's."""
    found: list[object] = []
    for place in _CALLED:
        for name, value in sorted(vars(place).items()):
            if isinstance(value, types.FunctionType) and _is_own_code(value):
                found += [name, value]
    return found


def _class_parts(kind: type) -> list[object]:
    """Of the user's own classes everything; of a library's, what the user has put into it."""
    parts: list[object] = [] if _is_library_kind(type(kind)) else [type(kind)]
    for each in kind.__mro__:
        own = _own_file(each) is not None or each.__module__ not in sys.modules
        for name, value in sorted(vars(each).items()):
            if own and name not in _CLASS_OWN and not isinstance(value, types.MemberDescriptorType):
                parts += [name, value]
            elif not own and isinstance(value, types.FunctionType) and _own_file(value) is not None:
                parts += [each.__qualname__, name, value]
    return parts


def _function(function: types.FunctionType) -> bytes:
    """Its name and, of the user's own, its program: of several lambdas on one line it may be any."""
    if not _is_own_code(function):
        return f"{function.__module__}.{function.__qualname__}".encode()
    told = f"def {function.__qualname__}|".encode()
    return told + b"|".join(_plain(_constants(code)) + code.co_code for code in _codes(function.__code__))


def _constants(code: types.CodeType) -> tuple[object, ...]:
    """Names and values in a program; a set's in an order of their own."""
    values = (sorted(map(repr, one)) if isinstance(one, frozenset) else one for one in code.co_consts)
    plain = [one for one in values if not isinstance(one, types.CodeType)]
    return code.co_names, code.co_varnames, code.co_freevars, plain


_own_codes: dict[str, bool] = {}


def _is_own_code(function: types.FunctionType) -> bool:
    name = function.__code__.co_filename
    if name not in _own_codes:
        path = Path(name)
        _own_codes[name] = (not path.is_file() and not path.name.startswith("<frozen")) or _own(path)
    return _own_codes[name]


def _function_parts(function: types.FunctionType) -> list[object]:
    """Values that it takes from outside: defaults, closure, attributes and, of the user's own, the globals it names."""
    if (compiled := vars(function).get("_torchdynamo_orig_callable")) is not None:
        return [compiled]
    parts: list[object] = [function.__defaults__, function.__kwdefaults__]
    for cell in function.__closure__ or ():
        try:
            parts.append(cell.cell_contents)
        except ValueError:  # still empty
            continue
    parts += [one for pair in vars(function).items() for one in pair]
    if not _is_own_code(function):
        return parts
    codes = list(_codes(function.__code__))
    names = sorted({name for code in codes for name in code.co_names})
    # What it sets itself is a state, a count of its calls perhaps, which changes while it is used.
    state = {each.argval for code in codes for each in dis.get_instructions(code) if each.opname == "STORE_GLOBAL"}
    # Among Python's own names, what somebody has put there.
    added = {name: each for name, each in vars(builtins).items() if isinstance(each, types.FunctionType)}
    added |= {name: each for name, each in vars(builtins).items() if not callable(each)}
    outside = added | function.__globals__
    for name in names:
        if name in outside and name not in state:
            parts += [name, outside[name], *_named_in(outside[name], names, set())]
    return parts


def _named_in(value: object, names: list[str], seen: set[int]) -> list[object]:
    """What a program may take from a module that it names, and from own modules in there."""
    if not isinstance(value, types.ModuleType) or _own_file(value) is None or id(value) in seen:
        return []
    seen.add(id(value))
    held = [(name, vars(value)[name]) for name in names if name in vars(value)]
    return [one for name, each in held for one in (name, each, *_named_in(each, names, seen))]


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """It and all that is defined inside it."""
    yield code
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield from _codes(one)


def _belongs_to_library(value: object) -> bool:
    """Whether it is an object of a library's class, and no number, module, function or collection."""
    holds = (
        Tensor,
        np.ndarray,
        Enum,
        nn.Module,
        type,
        types.FunctionType,
        types.MethodType,
        functools.partial,
        list,
        tuple,
        set,
        frozenset,
    )
    return not isinstance(value, (*holds, deque, Mapping)) and _is_library_kind(type(value))


_library_kinds: weakref.WeakKeyDictionary[type, bool] = weakref.WeakKeyDictionary()


def _is_library_kind(kind: type) -> bool:
    """Whether a class is of an installed package; asked for every object, so it is known from the first on."""
    if kind not in _library_kinds:
        _library_kinds[kind] = _own_file(kind) is None
    return _library_kinds[kind]


def _files(value: object) -> set[Path]:
    """The own file in which an object is defined."""
    if isinstance(value, (types.ModuleType, types.FunctionType, type)):
        found = _own_file(value)
        return set() if found is None else {found}
    return set()


def _with_imports(files: set[Path]) -> set[Path]:
    """Own files, and all own files that they import, also where a function imports only when it is called."""
    found: set[Path] = set()
    waiting = list(files)
    while waiting:
        file = waiting.pop()
        if file in found:
            continue
        found.add(file)
        modules = [each for each in list(sys.modules.values()) if _file_of(each) == str(file)]
        for module in modules[:1]:
            for value in list(vars(module).values()):
                waiting += _files(value)
        package = getattr(modules[0], "__package__", None) if modules else None
        waiting += [other for name in _imported(file, package or "") for other in _find(name)]
    return found


def _imported(file: Path, package: str) -> set[str]:
    """Names of the modules that a file may import."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return set()
    names: set[str] = set()
    for each in ast.walk(tree):
        if isinstance(each, ast.Import):
            names |= {alias.name for alias in each.names}
        elif isinstance(each, ast.ImportFrom):
            parent = package.split(".")[: len(package.split(".")) - each.level + 1] if each.level else []
            base = ".".join([*parent, *([each.module] if each.module else [])])
            names |= {base, *(f"{base}.{alias.name}" for alias in each.names)}
    return {name for name in names if name and name.partition(".")[0] not in sys.stdlib_module_names}


def _find(name: str) -> list[Path]:
    """The own file of a module, found without importing it."""
    parent = name.rpartition(".")[0]
    if parent and parent not in sys.modules:  # to find it would run its package's code
        return []
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return []
    if spec is None or spec.origin is None or not _own(Path(spec.origin)):
        return []
    return [Path(spec.origin)] if Path(spec.origin).is_file() else []


def _file_of(module: object) -> str | None:
    return getattr(module, "__file__", None)


def _syntax(file: Path) -> bytes:
    """The syntax tree of a file, in which comments and blanks do not count; of what is no Python, all."""
    content = file.read_bytes()
    try:
        return ast.dump(ast.parse(content)).encode("utf-8", "surrogatepass")
    except (SyntaxError, ValueError):
        return content


def _own_file(code: Any) -> Path | None:
    """The file that defines it; None if that belongs to an installed package or does not exist."""
    try:
        file = inspect.getsourcefile(code) or inspect.getfile(code)
    except TypeError:
        return None
    path = Path(file)
    return path if path.is_file() and _own(path) else None


def _own(path: Path) -> bool:
    return not (any(part in _INSTALLED for part in path.parts) or any(place in path.parents for place in _KNOWN))
