"""Everything that a model, a metric or an attack of the user's own computes with, as bytes in a fixed order.

Two of them with the same bytes do the same, as far as Python can tell: the whole of all own files that they reach,
hooks and patched methods, attributes, and the values that their functions take from outside. What they read while they
run, from files or from the environment, is not seen.
"""

from __future__ import annotations

import ast
import builtins
import contextvars
import copyreg
import ctypes
import dis
import functools
import hashlib
import importlib.machinery
import importlib.util
import inspect
import logging
import os
import random
import re
import sys
import sysconfig
import types
import weakref
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pwcf._common.user_code import USER_MODULE

# Code of installed packages is not read: records have its version, and what changes in it shows in the structure.
_INSTALLED = ("site-packages", "dist-packages")
_KNOWN = (*(Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")), Path(__file__).parents[2])
# So many kinds of libraries' objects inside each other are looked into.
_DEPTH = 4
# Where an object lies in memory is no part of what it does.
_ADDRESS = re.compile(r"( at |address=)0x[0-9a-fA-F]+")
# What models of libraries call: what the user has put in there is found in them.
_CALLED = (torch, torch.nn.functional, torch.Tensor)
# Types whose printed form is their value.
_PLAIN = (type(None), bool, int, float, complex, str, bytes, np.generic, torch.dtype, range, slice, type(...))
# Of these, that there is one is all that counts: where a model lies, what it draws, what it prints.
_SILENT = (
    torch.device,
    torch.Generator,
    random.Random,
    np.random.Generator,
    np.random.BitGenerator,
    np.random.RandomState,
    logging.Logger,
    PurePath,
    type(os.environ),
)
# Types whose printed form says which one it is; beside it they hold caches.
_PRINTED = (torch._ops.OperatorBase, torch._ops.OpOverloadPacket)
# With these begin descriptions of functions and classes, and no others.
_FUNCTION, _CLASS = b"def ", b"class "
# What torch keeps in every module beside its parts and hooks: whether it is in train mode, and caches.
_TORCH_OWN = {"training", "_non_persistent_buffers_set", "_is_full_backward_hook", "_compiled_call_impl"}
_PARTS = ("_parameters", "_buffers", "_modules")
# Of a class: what Python keeps there.
_CLASS_OWN = {"__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "_abc_impl", "__abstractmethods__"}


def reached(root: object) -> Iterator[bytes]:
    """Descriptions of all objects that ``root`` reaches, then digests of all own files these are made in."""
    files: set[Path] = set()
    yield from _walk([root, *_global_hooks(), *_patches()], files)
    yield from _digests(files)


def reached_code(root: object) -> Iterator[bytes]:
    """Of all that, functions, classes and files alone: what a model changes in itself when it is called is left out."""
    files: set[Path] = set()
    told = set(_walk([root, *_global_hooks(), *_patches()], files))
    yield from sorted(each for each in told if each.startswith((_FUNCTION, _CLASS)))
    yield from _digests(files)


def _digests(files: set[Path]) -> list[bytes]:
    return sorted(hashlib.sha256(syntax(file)).digest() for file in _with_imports(files))


def _walk(roots: list[object], files: set[Path]) -> Iterator[bytes]:
    """Descriptions of all objects that these reach; ``files`` gets the own files they are made in."""
    seen: dict[int, int] = {}
    alive: list[object] = []  # an object that is gone leaves its id to the next one
    # Objects, and the libraries' kinds they lie in: deep in there are caches and locks, of which the kind has to do.
    waiting: list[tuple[object, tuple[type, ...]]] = [(each, ()) for each in reversed(roots)]
    while waiting:
        value, inside = waiting.pop()
        if _is_plain(value):
            yield _placeless(_plain(value))
            continue
        kinds = inside
        if _belongs_to_library(value) and inside[-1:] != (type(value),):
            kinds = (*inside, type(value))
        if len(kinds) > _DEPTH:
            yield _kind_name(value).encode()
            continue
        if id(value) in seen:
            yield f"again {seen[id(value)]}".encode()
            continue
        seen[id(value)] = len(seen)
        alive.append(value)
        files.update(_files(value))
        told, parts = _described(value)
        yield _placeless(told)
        waiting += [(part, kinds) for part in reversed(parts)]


def _placeless(told: bytes) -> bytes:
    """Without the digits that tell modules of the same name in several folders apart."""
    return USER_MODULE.sub(rb"\1", told) if b"_pwcf_user_" in told else told


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
        kept = ("_backward_hooks", "_post_accumulate_grad_hooks") if value.is_leaf else ()
        hooks: list[object] = [hook for name in kept for hook in (getattr(value, name) or {}).values()]
        # A class with a dispatch of its own says where and how values lie: on a device, in shards.
        placed = type(value).__torch_dispatch__ is not Tensor.__torch_dispatch__
        return tensor_bytes(value), hooks if placed else [*hooks, *_put_there(value)]
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            return name.encode(), [*value.flat, *_put_there(value)]
        content = hashlib.sha256(value.tobytes()).digest()
        return f"{name}|{value.dtype}|{value.shape}|".encode() + content, _put_there(value)
    if isinstance(value, _SILENT):
        return name.encode(), []
    if isinstance(value, _PRINTED):
        return f"{name}|{_text_of(value)}".encode(), []
    if isinstance(value, types.ModuleType):  # held as a value, so that any of its names may be used
        return name.encode(), [] if _own_file(value) is None else _module_globals(value)
    if isinstance(value, Enum):
        return f"{name}.{value.name}".encode(), [value.value, *_put_there(value)]
    if isinstance(value, (memoryview, ctypes.Array, ctypes._SimpleCData)):
        return name.encode(), [bytes(value)]
    if isinstance(value, ctypes.Structure):
        return name.encode(), [getattr(value, each[0]) for each in value._fields_]
    if isinstance(value, weakref.ref):
        return name.encode(), [value()]
    if isinstance(value, types.CellType):
        return name.encode(), _in_cells([value])
    if isinstance(value, contextvars.ContextVar):
        try:
            return name.encode(), [value.get()]
        except LookupError:  # not set
            return name.encode(), []
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
        return _CLASS + value.__qualname__.encode(), _class_parts(value)
    elif isinstance(value, (staticmethod, classmethod)):
        parts = [value.__func__]
    elif isinstance(value, property):
        parts = [value.fget]
    elif isinstance(value, (set, frozenset)):
        parts = _in_order(value)
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
            return f"{name}|{_text_of(value)}".encode(), _as_pickled(value)
        reduce: object = kind.__reduce__
        compiled = reduce is not object.__reduce__ and not isinstance(reduce, types.FunctionType)
        more = _as_pickled(value) if compiled else []  # attributes are not all that it is made of
        parts = [kind, *(one for pair in held.items() for one in pair), *more]
    return name.encode(), parts


def _text_of(value: object) -> str:
    try:
        return _ADDRESS.sub("", repr(value))
    except Exception:  # whatever a class of somebody else's does
        return ""


def _as_pickled(value: object) -> list[object]:
    """What an object without attributes that Python sees is made of again, where its printed form leaves that out."""
    if isinstance(value, types.GeneratorType):
        return [value.gi_code.co_name, value.gi_frame and value.gi_frame.f_locals]
    reduce = copyreg.dispatch_table.get(type(value))
    try:
        made = reduce(value) if reduce is not None else value.__reduce_ex__(4)
    except Exception:  # it cannot be pickled
        return []
    return [*made[:3], *(list(each or ()) for each in made[3:5])] if isinstance(made, tuple) else []


def _in_order(members: Iterable[object]) -> list[object]:
    """Of a set: by their printed form and, where several have the same, by what they reach."""
    texts = [(_text_of(each), each) for each in members]
    counts = Counter(text for text, _ in texts)
    if _sorting.get():  # a set in what a member of a set reaches, which may be the same one: without end
        return [each if counts[text] == 1 else text for text, each in sorted(texts, key=lambda pair: pair[0])]

    def place(pair: tuple[str, object]) -> tuple[str, bytes]:
        text, each = pair
        return text, b"" if counts[text] == 1 else hashlib.sha256(b"".join(_walk([each], set()))).digest()

    token = _sorting.set(True)
    try:
        return [each for _, each in sorted(texts, key=place)]
    finally:
        _sorting.reset(token)


_sorting = contextvars.ContextVar("sorting", default=False)


def _is_plain(value: object) -> bool:
    return isinstance(value, _PLAIN) and not hasattr(value, "__dict__") and _is_library_kind(type(value))


def _put_there(value: object) -> list[object]:
    """What the user's own subclass of a number, a tensor or a collection adds, and attributes that were set."""
    own = [] if _is_library_kind(type(value)) else [type(value)]
    return [*own, *(one for pair in _attributes(value).items() for one in pair)]


def _plain(value: object) -> bytes:
    try:
        return f"{type(value).__qualname__}|{value!r}".encode("utf-8", "surrogatepass")
    except ValueError:  # an integer of more digits than Python writes
        return f"int|{value:x}".encode()


def _attributes(value: object) -> dict[str, object]:
    """Those of its own, in slots, too."""
    slots = [name for kind in type(value).__mro__ for name in _slots(kind)]
    held = {name: getattr(value, name) for name in slots if name != "__weakref__" and hasattr(value, name)}
    held |= getattr(value, "__dict__", {})
    held.pop("__module__", None)  # of the user's own it has its file's place, which may be another one
    return held


def _slots(kind: type) -> list[str]:
    slots: str | Iterable[str] = vars(kind).get("__slots__", ())
    named = [slots] if isinstance(slots, str) else [name for name in slots if name != "__dict__"]
    private = f"_{kind.__name__.lstrip('_')}"  # before which Python puts the class
    return [private + name if name.startswith("__") and not name.endswith("__") else name for name in named]


def _program(module: nn.Module) -> str:
    """What a module that torch has made of a program does: its class is the same for all of them."""
    if isinstance(module, torch.fx.GraphModule):
        return module.code
    if isinstance(module, torch.jit.ScriptModule):
        graph: Any = module.inlined_graph if hasattr(module, "forward") else None
        return "" if graph is None else str(graph.str(False))  # without the places of the code
    return ""


def _module_parts(module: nn.Module) -> list[object]:
    if isinstance(module, torch.jit.ScriptModule):
        return [*module.state_dict().values(), *_scripted_attributes(module)]
    if "_orig_mod" in module._modules:  # torch.compile's: how it is made fast is not the same twice
        return [module._modules["_orig_mod"], *module._forward_pre_hooks.values(), *module._forward_hooks.values()]
    held = {name: value for name, value in vars(module).items() if name not in _TORCH_OWN}
    parts: list[object] = []
    if isinstance(module, torch.fx.GraphModule):  # beside its code, how torch came to it
        held = {name: value for name, value in held.items() if name in _PARTS or name.endswith("_hooks")}
        parts += [node.target for node in module.graph.nodes if _is_put_in(node.target)]
    for name, value in sorted(held.items()):
        if "_hooks" in name and name in _NO_HOOKS:  # by numbers, which are given out in turn
            parts += value.values() if isinstance(value, Mapping) else []
        else:
            parts += [name, value]
    return parts


_NO_HOOKS = vars(nn.Module())
_ATTRIBUTE = re.compile(r'prim::GetAttr\[name="(\w+)"\]')


def _scripted_attributes(module: torch.jit.ScriptModule) -> list[object]:
    """Numbers, texts and tensors that a program takes from its modules, and that are no part of their state."""
    names = sorted(set(_ATTRIBUTE.findall(_program(module))))
    found: list[object] = []
    for part in module.modules():
        for name in names:
            value = getattr(part, name, None)
            if not isinstance(value, nn.Module):
                found.append(value)
    return found


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
            if _is_put_in(value):
                found += [name, value]
    return found


def _is_put_in(value: object) -> bool:
    """Whether something among a library's names is the user's own."""
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    elif isinstance(value, (functools.partial, functools.partialmethod)):
        value = value.func
    elif isinstance(value, property):
        value = value.fget
    if isinstance(value, types.FunctionType):
        return _is_own_code(value)
    return not isinstance(value, type) and not _is_library_kind(type(value))


def _class_parts(kind: type) -> list[object]:
    """Of the user's own classes everything; of a library's, what the user has put into it."""
    parts: list[object] = [] if _is_library_kind(type(kind)) else [type(kind)]
    for each in kind.__mro__:
        own = not _is_library_kind(each)
        for name, value in sorted(vars(each).items()):
            if own and name not in _CLASS_OWN and not isinstance(value, types.MemberDescriptorType):
                parts += [name, value]
            elif not own and _is_put_in(value):
                parts += [each.__qualname__, name, value]
    return parts


def _function(function: types.FunctionType) -> bytes:
    """Its name and, of the user's own, its program: of several lambdas on one line it may be any."""
    if not _is_own_code(function):
        return f"{function.__globals__.get('__name__')}.{function.__code__.co_qualname}".encode()
    told = f"{function.__qualname__}|".encode()
    return _FUNCTION + told + b"|".join(_plain(_constants(code)) + code.co_code for code in _codes(function.__code__))


def _constants(code: types.CodeType) -> tuple[object, ...]:
    """Names and values in a program; a set's in an order of their own."""
    values = (sorted(map(repr, one)) if isinstance(one, frozenset) else one for one in code.co_consts)
    plain = [one for one in values if not isinstance(one, types.CodeType)]
    return code.co_names, code.co_varnames, code.co_freevars, plain


_own_codes: dict[str, bool] = {}


def _is_own_code(function: types.FunctionType) -> bool:
    name = function.__code__.co_filename
    if name.startswith("<") and not name.startswith("<frozen"):  # made of a text, by the file that ran it
        name = function.__globals__.get("__file__") or name
    if name not in _own_codes:
        _own_codes[name] = not name.startswith("<frozen") and _own(Path(name))
    return _own_codes[name]


def _function_parts(function: types.FunctionType) -> list[object]:
    """Values that it takes from outside: defaults, closure, attributes and, of the user's own, the globals it names."""
    if (compiled := vars(function).get("_torchdynamo_orig_callable")) is not None:
        return [compiled]
    parts: list[object] = [function.__defaults__, function.__kwdefaults__]
    parts += _in_cells(function.__closure__ or ())
    parts += [one for pair in vars(function).items() for one in pair]
    if not _is_own_code(function):
        return parts
    codes = list(_codes(function.__code__))
    names = sorted({name for code in codes for name in code.co_names})
    # What it sets itself is a state, a count of its calls perhaps, which changes while it is used.
    state = {each.argval for code in codes for each in dis.get_instructions(code) if each.opname == "STORE_GLOBAL"}
    # Among Python's own names, what somebody has put there.
    added = {name: each for name, each in vars(builtins).items() if not _is_python_own(name, each)}
    outside = added | function.__globals__
    for name in names:
        if name in outside and name not in state:
            value = outside[name]
            parts += [name, *(_named_in(value, names, set()) if isinstance(value, types.ModuleType) else [value])]
    return parts


def _in_cells(cells: Iterable[types.CellType]) -> list[object]:
    found: list[object] = []
    for cell in cells:
        try:
            found.append(cell.cell_contents)
        except ValueError:  # still empty
            continue
    return found


def _is_python_own(name: str, value: object) -> bool:
    kinds = (type, types.BuiltinFunctionType)
    return isinstance(value, kinds) and value.__name__ == name and value.__module__ in ("builtins", "_io")


def _named_in(module: types.ModuleType, names: list[str], seen: set[int]) -> list[object]:
    """What a program may take from a module that it names, and from modules in there."""
    if id(module) in seen:
        return []
    seen.add(id(module))
    own = _own_file(module) is not None or _is_own_module(module.__name__)
    parts: list[object] = []
    for name in [*names, *(["__getattr__"] if own else [])]:
        value = vars(module).get(name, _NOTHING)
        if isinstance(value, types.ModuleType):
            parts += [name, *_named_in(value, names, seen)]
        elif value is not _NOTHING and (own or isinstance(value, _NUMBERS) or _is_put_in(value)):
            parts += [name, value]
        elif isinstance(value, types.FunctionType):  # another one than its name says, perhaps
            parts += [name, _function(value)]
        elif isinstance(value, types.BuiltinFunctionType):
            parts += [name, value.__qualname__]
    return parts


_NOTHING = object()
_NUMBERS = (bool, int, float, complex)


def _module_globals(module: types.ModuleType) -> list[object]:
    held = {name: value for name, value in vars(module).items() if not name.startswith("__")}
    kept = {name: value for name, value in held.items() if not isinstance(value, types.ModuleType)}
    return [one for pair in sorted(kept.items(), key=lambda pair: pair[0]) for one in pair]


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
        _library_kinds[kind] = _own_file(kind) is None and not _is_without_file(kind)
    return _library_kinds[kind]


def _is_without_file(kind: type) -> bool:
    """Whether a class was typed at a prompt or in a notebook, made of a text, or imported from an archive."""
    module: object = kind.__module__
    by_dataclasses = module == "types" and not hasattr(types, kind.__name__)
    return by_dataclasses or (isinstance(module, str) and _is_own_module(module))


def _is_own_module(name: str) -> bool:
    """Whether a module, or the package it is in, is the user's own, with a file or without."""
    module = sys.modules.get(name.partition(".")[0])
    file = getattr(module, "__file__", None)
    if file is None:  # Python's own have a spec
        return getattr(module, "__spec__", None) is None
    return _own(Path(file))


def _files(value: object) -> set[Path]:
    """The own file in which an object is defined."""
    if isinstance(value, (types.ModuleType, types.FunctionType, type)):
        found = _own_file(value)
        return set() if found is None else {found}
    return set()


def _with_imports(files: set[Path]) -> set[Path]:
    """Own files, and all own files that they import, also where a function imports only when it is called."""
    found: set[Path] = set()
    waiting = [(file, "") for file in files]
    while waiting:
        file, package = waiting.pop()
        if file in found:
            continue
        found.add(file)
        modules = [each for each in list(sys.modules.values()) if _file_of(each) == str(file)]
        for module in modules[:1]:
            package = getattr(module, "__package__", None) or ""
            waiting += [(other, "") for value in list(vars(module).values()) for other in _files(value)]
        waiting += [other for name in _imported(file, package) for other in _find(name)]
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


def _find(name: str) -> list[tuple[Path, str]]:
    """The own files of a module and of the packages it is in, each with its package; nothing is imported for it."""
    found: list[tuple[Path, str]] = []
    parts, places = name.split("."), None
    for end in range(1, len(parts) + 1):
        spec = _spec(".".join(parts[:end]), places)
        if spec is None:
            break
        if spec.origin is not None and Path(spec.origin).is_file():
            if not _own(Path(spec.origin)):
                break
            found.append((Path(spec.origin), spec.parent or ""))
        places = spec.submodule_search_locations
        if places is None:
            break
    return found


def _spec(name: str, places: Iterable[str] | None) -> importlib.machinery.ModuleSpec | None:
    """Where a module is, looked for in its package's ``places``: Python itself would run that package's code."""
    try:
        if places is None or name in sys.modules:
            return importlib.util.find_spec(name)
        return importlib.machinery.PathFinder.find_spec(name, list(places))
    except (ImportError, ValueError, AttributeError):
        return None


def _file_of(module: object) -> str | None:
    return getattr(module, "__file__", None)


def syntax(file: Path) -> bytes:
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
    except (TypeError, OSError):  # built in, or typed at a prompt
        return None
    path = Path(file)
    return path if path.is_file() and _own(path) else None


def _own(path: Path) -> bool:
    return not (any(part in _INSTALLED for part in path.parts) or any(place in path.parents for place in _KNOWN))
