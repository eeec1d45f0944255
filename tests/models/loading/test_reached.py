"""What a model's fingerprint sees of the user's own code: every file and every value that the model computes with."""

from __future__ import annotations

import builtins
import json
import os
import subprocess
import sys
import types
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from pwcf.models.loading import load_model

NETS = """
import collections
import functools
import json
from pathlib import Path

import numpy as np
import torch
from torch import nn

import nets_helper
from nets_base import Base

GAIN, LIMITS, CALLS = 1.0, [], 0
Pair = collections.namedtuple("Pair", "low high")


class Scaled:
    def __init__(self, by):
        self.by = by

    def __call__(self, x):
        return self.by * x


class Slotted:
    __slots__ = ("by",)


def times(by):
    return lambda *a: a[-1] * by


def decorated(by):
    def wrap(f):
        @functools.wraps(f)
        def inner(self, x):
            return by * f(self, x)

        return inner

    return wrap


class Net(Base):
    kinds = [1]

    def __init__(self, s):
        super().__init__()
        self.last = nn.Linear(4, 3)
        self.steps, self.options = s["list"], {"a": {"b": s["nested"]}}
        self.shift, self.table = torch.full((3,), s["tensor"]), np.full(3, s["array"])
        self.act, self.post, self.cut = times(s["closure"]), Scaled(s["object"]), functools.partial(max, s["partial"])
        self.some, self.pair, self.slots = {s["set"], "x"}, Pair(0, s["tuple"]), Slotted()
        self.slots.by = s["slots"]
        self.hidden = [nn.Linear(1, 1)]
        with torch.no_grad():
            self.hidden[0].weight.fill_(s["unregistered"])
        self.register_buffer("scale", torch.tensor(s["buffer"]), persistent=False)
        self.method = Scaled(s["method"]).__call__

    def forward(self, x):
        global CALLS
        CALLS += 1
        return self.last(x) * GAIN * nets_helper.FACTOR + sum(LIMITS) + self.shift


def net():
    global GAIN, LIMITS
    s = json.loads((Path(__file__).parent / "settings.json").read_text())
    torch.manual_seed(0)
    made = Net(s)
    GAIN, LIMITS, nets_helper.FACTOR, Net.kinds = s["global"], [s["global list"]], s["global of a module"], [s["class"]]
    nets_helper.helped.by = s["function attribute"]
    made.last.register_forward_hook(times(s["hook"]))
    made.last.register_forward_pre_hook(lambda module, args: (args[0] * s["pre-hook"],))
    made.helper = nets_helper.helped
    if s["patched forward"]:
        made.forward = functools.partial(Net.forward, made)
    if s["patched layer"]:
        made.last.forward = times(2)
    if s["one more hook"]:
        made.register_forward_hook(times(2))
    made.chosen = {"a": (lambda x: x), "b": (lambda x: -x)}[s["lambda"]]
    made.default = eval("lambda x, by=by: x", {"by": s["default"]})
    made.wrapped = decorated(s["decorator"])(Net.forward)
    return made


def compiled():
    return torch.compile(net())


def plain():
    s = json.loads((Path(__file__).parent / "settings.json").read_text())
    weight, options = torch.ones(4, 3), [s["list"], Scaled(s["object"])]
    return lambda x: x.flatten(1) @ weight * len(options)
"""
HELPER = """
from nets_deep import deep
FACTOR = 1.0


def helped(x):
    return deep(x)
"""
DEEP = """
def deep(x):
    from nets_late import late

    return late(x)
"""
FILES = {
    "nets.py": NETS,
    "nets_helper.py": HELPER,
    "nets_deep.py": DEEP,
    "nets_late.py": "def late(x):\n    return x\n",
    "nets_base.py": "from torch import nn\n\n\nclass Base(nn.Module):\n    def half(self, x):\n        return x / 2\n",
    "nets_other.py": "UNUSED = 1\n",
}
# By what a model computes with: how it is made of V, and how a model uses it.
MADE_OF_V = {
    "nested namespace": ("C = types.SimpleNamespace(a=types.SimpleNamespace(by=V))", "x * C.a.by"),
    "nested dictionary of a library": ("C = collections.UserDict(a=collections.UserDict(by=V))", "x * C['a']['by']"),
    "cache": ("C = functools.lru_cache((lambda v: lambda: v)(V))", "x * C()"),
    "default of a dictionary": ("C = collections.defaultdict((lambda v: lambda: v)(V))", "x * C[0]"),
    "nested class": ("class C:\n    class D:\n        by = 1\nC.D.by = V", "x * C.D.by"),
    "metaclass": ("class M(type):\n    pass\nclass C(metaclass=M):\n    pass\nM.by = V", "x * C.by"),
    "property": ("class C:\n    by = property((lambda v: lambda self: v)(V))", "x * C().by"),
    "descriptor": ("class D:\n    def __init__(s, v):\n        s.v = v\n    def __get__(s, o, t):\n        return s.v\n"
                   "class C:\n    by = D(V)", "x * C().by"),
    "method of an object": ("class C:\n    def __init__(s, v):\n        s.v = v\n    def f(s):\n        return s.v\n"
                            "f = C(V).f", "x * f()"),
    "module in a module": ("import nets_package.sub\nnets_package.sub.BY = V", "x * nets_package.sub.BY"),
    "function of a module": ("import nets_package.sub as sub\nsub.BY = V", "x * sub.by()"),
    "function of torch": ("F.relu = (lambda v: lambda x, inplace=False: v * x)(V)", "F.relu(x)"),
    "function that torch calls": ("F.relu = (lambda v: lambda x, inplace=False: v * x)(V)", "nn.ReLU()(x)"),
    "method of torch": ("nn.Linear.forward = (lambda v: lambda self, x: v * x[..., :3])(V)", "x"),
    "method of tensors": ("torch.Tensor.relu = (lambda v: lambda self: v * self)(V)", "x.relu()"),
    "Python's names": ("builtins.sum = (lambda v: lambda x: v * x)(V)", "sum(x)"),
    "text in code": ("C = eval(f\"lambda x: getattr(x, '{['abs', 'neg'][V - 1]}')()\")", "C(x)"),
    "tuple in code": ("C = eval(f'lambda x: x.sum({[(0, 1), (0,)][V - 1]})')", "x + C(x).sum()"),
    "lambdas on one line": ("C = {1: lambda x, y: x - y, 2: lambda x, y: y - x}[V]", "C(x, 1)"),
    "texts on one line": ("C = {1: lambda x: getattr(x, 'abs')(), 2: lambda x: getattr(x, 'neg')()}[V]", "C(x)"),
    "other code": ("def f(x):\n    return x\ndef g(x):\n    return -x\nf.__code__ = [f, g][V - 1].__code__", "f(x)"),
    "member of an enum": ("class E(enum.Enum):\n    A = 1\nE.A._value_ = V", "x * E.A.value"),
    "attribute of a number": ("class I(float):\n    pass\nC = I(1)\nC.by = V", "x * C.by"),
    "attribute of a text": ("class I(str):\n    pass\nC = I('a')\nC.by = V", "x * C.by"),
    "attribute of a list": ("class I(list):\n    pass\nC = I()\nC.by = V", "x * C.by"),
    "class of a list": ("class I(list):\n    by = 1\nC = I()\nI.by = V", "x * C.by"),
    "attribute of a tensor": ("C = torch.ones(1)\nC.by = V", "x * C.by"),
    "class of a tensor": ("class T(torch.Tensor):\n    by = 1\nT.by = V\nC = torch.ones(1).as_subclass(T)", "x * C.by"),
    "hook of a tensor": ("C = nn.Parameter(torch.ones(1))\nC.register_hook((lambda v: lambda g: g * v)(V))", "x * C"),
    "bytes": ("C = memoryview(bytes([V]))", "x * C[0]"),
    "C array": ("C = (ctypes.c_double * 1)(V)", "x * C[0]"),
    "function of torch by an object": ("class Q(P):\n    def __call__(s, x, inplace=False):\n        return s.v * x\n"
                                       "F.relu = Q(V)", "nn.ReLU()(x)"),
    "function of torch by a partial one": ("torch.relu = functools.partial(lambda v, x: v * x, V)", "torch.relu(x)"),
    "function of torch by another": ("F.relu = [F.gelu, F.silu][V - 1]", "F.relu(x)"),
    "built-in function by another": ("torch.relu = [torch.abs, torch.sin][V - 1]", "torch.relu(x)"),
    "method of torch by an object": ("class Q(P):\n    def __call__(s, x):\n        return s.v * x[..., :3]\n"
                                     "nn.Linear.forward = Q(V)", "x"),
    "method of torch by a partial one": ("f = lambda s, v, x: v * x[..., :3]\n"
                                         "nn.Linear.forward = functools.partialmethod(f, V)", "x"),
    "method of torch by a text": ("nn.Linear.forward = eval('(lambda v: lambda s, x: v * x[..., :3])(V)')", "x"),
    "property of tensors": ("torch.Tensor.by = property((lambda v: lambda s: s * v)(V))", "x.by"),
    "number put into torch": ("torch.GAIN = V", "x * torch.GAIN"),
    "function of a part of torch": ("torch.linalg.norm = (lambda v: lambda x: v * x)(V)", "torch.linalg.norm(x)"),
    "function of NumPy": ("np.tanh = (lambda v: lambda x: v * x)(V)", "x * np.tanh(1)"),
    "Python's names, an object": ("builtins.sum = P(V)", "sum(x)"),
    "Python's names, another": ("builtins.sum = [max, min][V - 1]", "x * sum([1, 2])"),
    "names that a module makes": ("import nets_package.sub as sub\nsub.__getattr__ = (lambda v: lambda n: v)(V)",
                                  "x * sub.ANY"),
    "module in a dictionary": ("import nets_package.sub as sub\nsub.BY = V\nC = {'m': sub}\ndel sub", "x * C['m'].BY"),
    "fraction in a namespace": ("C = types.SimpleNamespace(a=fractions.Fraction(V))", "x * float(C.a)"),
    "distribution in another": ("C = torch.distributions.Independent(\n"
                                "    torch.distributions.Normal(torch.zeros(3), torch.full((3,), float(V))), 1)",
                                "x * C.stddev"),
    "data in a subset": ("C = torch.utils.data.Subset(torch.utils.data.TensorDataset(torch.ones(1) * V), [0])",
                         "x * C[0][0]"),
    "table of pandas": ("import pandas\nC = pandas.DataFrame({'a': [0] * 100 + [V] + [0] * 100})",
                        "x * float(C['a'][100])"),
    "bytes in memory": ("C = io.BytesIO(bytes([V]))", "x * C.getvalue()[0]"),
    "context": ("C = contextvars.ContextVar('C')\nC.set(V)", "x * C.get()"),
    "iterator": ("C = itertools.cycle([V])", "x * next(C)"),
    "generator": ("C = (lambda v: (v for _ in range(99)))(V)", "x * next(C)"),
    "long pattern": ("C = re.compile('a' * 300 + str(V))", "x * int(C.pattern[-1])"),
    "attribute of an array": ("class I(np.ndarray):\n    pass\nC = np.ones(1).view(I)\nC.by = V", "x * C.by"),
    "attribute of an enum": ("class E(enum.Enum):\n    A = 1\nE.A.by = V\nC = [E.A]", "x * C[0].by"),
    "slot of a number": ("class I(float):\n    __slots__ = ('by',)\nC = I(1)\nC.by = V", "x * C.by"),
    "operator of a number": ("class I(float):\n    __slots__ = ()\nC = I(1)\n"
                             "I.__mul__ = (lambda v: lambda s, o: v * o)(V)", "C * x"),
    "private slot": ("class O:\n    __slots__ = ('__a',)\n    def __init__(s, v):\n        s.__a = v\n"
                     "    def get(s):\n        return s.__a\nC = O(V)", "x * C.get()"),
    "made data class": ("C = dataclasses.make_dataclass('C', [('a', int, dataclasses.field(default=V))])", "x * C().a"),
    "C structure": ("class S(ctypes.Structure):\n    _fields_ = [('a', ctypes.c_int)]\nC = S(V)", "x * C.a"),
    "cell": ("C = types.CellType(V)", "x * C.cell_contents"),
    "weak set": ("keep = [P(V)]\nC = weakref.WeakSet(keep)", "x * list(C)[0].v"),
    "hook of a gradient": ("C = nn.Parameter(torch.ones(1))\n"
                           "C.register_post_accumulate_grad_hook((lambda v: lambda p: p.data.mul_(v))(V))", "x * C"),
    "hook before a compiled module": ("C = torch.compile(nn.Identity())\n"
                                      "C.register_forward_pre_hook((lambda v: lambda m, a: (a[0] * v,))(V))", "C(x)"),
    "number of a scripted module": ("class M(nn.Module):\n    by: float\n    def __init__(s, v):\n"
                                    "        super().__init__()\n        s.by = float(v)\n"
                                    "    def forward(s, x):\n        return x * s.by\n"
                                    "C = torch.jit.script(M(V))", "C(x)"),
    "function that a traced module calls": ("torch.fx.wrap('held')\nG = V\ndef held(x):\n    return x * G\n"
                                            "C = torch.fx.symbolic_trace(nn.Sequential(M_(held)))", "C(x)"),
    "compiled function": ("C = torch.compile((lambda v: lambda x: x * v)(V))", "C(x)"),
    "function made by torch": ("C = torch.func.vmap((lambda v: lambda x: x * v)(V))", "C(x)"),
    "weak reference": ("class O:\n    pass\no = O()\no.by = V\nC = weakref.ref(o)\nkeep = [o]", "x * C().by"),
}  # fmt: skip
MADE_NET = """
import builtins, collections, contextvars, ctypes, dataclasses, enum, fractions, functools, io, itertools, json, re
import types, weakref
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

V = json.loads((Path(__file__).parent / "settings.json").read_text())["V"]


class P:
    def __init__(self, v):
        self.v = v

    def __call__(self, x):
        return self.v * x


class M_(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, x):
        return self.f(x)


{made}
del V


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(4, 3)

    def forward(self, x):
        x = self.last(x)
        return {used}


def net():
    torch.manual_seed(0)
    return Net()
"""
# By where code lies that a model calls: how the model takes f from there, and the files; one with x is changed to -x.
CODE = "def f(x):\n    return g(x)\n\n\ndef g(x):\n    return x\n"
CLASS = "class K:\n    def __call__(self, x):\n        return x\n"
BESIDE: dict[str, tuple[str, str, dict[str, str]]] = {
    "package imported late": ("", "from late.sub import f", {"late/__init__.py": "", "late/sub.py": CODE}),
    "package imported late from inside": (
        "",
        "from late.deep.sub import f",
        {"late/__init__.py": "", "late/deep/__init__.py": "", "late/deep/sub.py": "from ..g import f\n",
         "late/g.py": CODE},
    ),
    "package imported late by its name": ("", "from late import f", {"late/__init__.py": CODE}),
    "name of a package imported late": ("", "from late import f", {"late/__init__.py": "from .g import f\n",
                                                                   "late/g.py": CODE}),
    "package without a file": ("", "from late.sub import f", {"late/sub.py": CODE}),
    "text that is run": ("N = {}\nexec((HERE / 'f.txt').read_text(), N)", "f = N['f']", {"f.txt": CODE}),
    "class in a text": ("N = {}\nexec((HERE / 'f.txt').read_text(), N)", "f = N['K']()", {"f.txt": CLASS}),
    "class of a made module": (
        "M = types.ModuleType('made_here')\nsys.modules['made_here'] = M\n"
        "exec((HERE / 'f.txt').read_text(), vars(M))",
        "f = M.K()",
        {"f.txt": CLASS},
    ),
    "class in an archive": (
        "sys.path.insert(0, str(HERE / 'f.zip'))\nimport in_archive",
        "f = in_archive.K()",
        {"f.zip": CLASS},
    ),
}  # fmt: skip
BESIDE_NET = """
import sys, types
from pathlib import Path

import torch
from torch import nn

HERE = Path(__file__).parent
{made}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(4, 3)

    def forward(self, x):
        {used}
        return f(self.last(x))


def net():
    torch.manual_seed(0)
    return Net()
"""
SETTINGS: dict[str, Any] = {
    "list": [1, 2], "nested": 1, "tensor": 0.0, "array": 1.0, "closure": 1.0, "object": 1.0, "partial": 1.0, "set": "a",
    "tuple": 1, "slots": 1, "unregistered": 1.0, "buffer": 1.0, "method": 1.0, "global": 1.0, "global list": 1.0,
    "global of a module": 1.0, "class": 1, "function attribute": 1, "hook": 1.0, "pre-hook": 1.0,
    "patched forward": False, "patched layer": False, "one more hook": False, "lambda": "a", "default": 1.0,
    "decorator": 1.0,
}  # fmt: skip
CHANGES = [
    ("nets.py", "return self.last(x)", "return -self.last(x)"),
    ("nets_helper.py", "return deep(x)", "return -deep(x)"),
    ("nets_deep.py", "return late(x)", "return -late(x)"),
    ("nets_late.py", "return x", "return -x"),  # imported only when it is called
    ("nets_base.py", "return x / 2", "return x / 3"),
    ("nets.py", "return by * f(self, x)", "return f(self, x)"),
]
OTHER = {"list": [1, 3], "set": "b", "lambda": "b"}


def made_fingerprint(
    place: Path, settings: dict[str, Any] | None = None, files: dict[str, str] | None = None, name: str = "net"
) -> str:
    place.mkdir(exist_ok=True)
    for file, text in (FILES | (files or {})).items():
        (place / file).write_text(text)
    (place / "settings.json").write_text(json.dumps(SETTINGS | (settings or {})))
    for module in [module for module in sys.modules if module.startswith(("nets_", "late", "made_here", "in_archive"))]:
        del sys.modules[module]
    sys.path[:] = [entry for entry in sys.path if not entry.startswith(str(place.parent))]
    return load_model(f"{place / 'nets.py'}:{name}").fingerprint


def made_of(place: Path, what: str, value: int) -> str:
    """The fingerprint of a model one of whose parts is made of 1 or 2; what that changes in Python is put back."""
    made, used = MADE_OF_V[what]
    package = place / "nets_package"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text("")
    (package / "sub.py").write_text("BY = 1\n\n\ndef by():\n    return BY\n")
    places = (torch, functional, torch.linalg, nn.Linear, torch.Tensor, builtins, np)
    before = [dict(vars(place)) for place in places]
    try:
        return made_fingerprint(place, {"V": value}, {"nets.py": MADE_NET.format(made=made, used=used)})
    finally:
        for where, names in zip(places, before, strict=True):
            put = {name: each for name, each in vars(where).items() if each is not names.get(name)}
            for name in [name for name, each in put.items() if not isinstance(each, types.ModuleType)]:
                setattr(where, name, names[name]) if name in names else delattr(where, name)


def beside(place: Path, where: str, code: str) -> str:
    """The fingerprint of a model that calls code which lies elsewhere: as it is, or changed."""
    made, used, files = BESIDE[where]
    for name, content in files.items():
        file = place / name
        file.parent.mkdir(parents=True, exist_ok=True)
        changed = content.replace("return x", code)
        if file.suffix == ".zip":
            with zipfile.ZipFile(file, "w") as archive:
                archive.writestr("in_archive.py", changed)
        else:
            file.write_text(changed)
    return made_fingerprint(place, files={"nets.py": BESIDE_NET.format(made=made, used=used)})


def other_value(changed: str) -> object:
    old = SETTINGS[changed]
    return OTHER[changed] if changed in OTHER else not old if isinstance(old, bool) else old + 1


@pytest.fixture
def usual(tmp_path: Path) -> str:
    return made_fingerprint(tmp_path / "usual")


@pytest.mark.parametrize("changed", sorted(SETTINGS))
def test_a_value_that_a_model_computes_with_is_part_of_it(tmp_path: Path, usual: str, changed: str) -> None:
    """No line of code differs: the values come from a file that is read while the model is made."""
    assert made_fingerprint(tmp_path / "changed", {changed: other_value(changed)}) != usual


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # torch about itself, where it compiles
@pytest.mark.parametrize("what", MADE_OF_V)
def test_a_value_is_found_wherever_python_keeps_it(tmp_path: Path, what: str) -> None:
    one, two, again = (made_of(tmp_path / str(i), what, value) for i, value in enumerate((1, 2, 1)))
    assert one == again != two


@pytest.mark.parametrize(("file", "old", "new"), CHANGES)
def test_the_whole_of_the_files_that_a_model_reaches_is_part_of_it(
    tmp_path: Path, usual: str, file: str, old: str, new: str
) -> None:
    assert old in FILES[file]
    assert made_fingerprint(tmp_path / "changed", files={file: FILES[file].replace(old, new)}) != usual


@pytest.mark.parametrize("where", BESIDE)
def test_code_is_found_wherever_it_lies(tmp_path: Path, where: str) -> None:
    one, two, again = (beside(tmp_path / str(i), where, f"return {x}") for i, x in enumerate(("x", "-x", "x")))
    assert one == again != two


@pytest.mark.parametrize("changed", ["list", "object"])
def test_values_around_a_function_are_part_of_it(tmp_path: Path, changed: str) -> None:
    values = ({}, {changed: [1, 3] if changed == "list" else 2.0})
    before, after = (made_fingerprint(tmp_path / str(i), one, name="plain") for i, one in enumerate(values))
    assert before != after


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # torch about itself, where it compiles
def test_another_process_finds_the_same(tmp_path: Path, usual: str) -> None:
    compiled = made_fingerprint(tmp_path / "usual", name="compiled")
    spec = str(tmp_path / "usual" / "nets.py:")
    code = f"""
from pwcf.models.loading import load_model
for name in ("net", "compiled"):
    print(load_model({spec!r} + name).fingerprint)
"""
    environment = {**os.environ, "PYTHONHASHSEED": "7"}  # sets and addresses are in another order there
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment)
    assert found.stdout.split() == [usual, compiled]


def test_the_file_that_is_named_counts_where_the_model_is_made_in_another(tmp_path: Path) -> None:
    named = "import nets_made\n\nnet = nets_made.net\n"
    files = {"nets_made.py": BESIDE_NET.format(made="def f(x):\n    return x", used="pass"), "nets.py": named}
    usual = made_fingerprint(tmp_path / "usual", files=files)
    assert made_fingerprint(tmp_path / "comment", files=files | {"nets.py": f"# better\n{named}"}) == usual
    assert made_fingerprint(tmp_path / "more", files=files | {"nets.py": f"{named}nets_made.SEED = 1\n"}) != usual


def test_what_does_not_count_is_not_part_of_it(tmp_path: Path, usual: str) -> None:
    assert made_fingerprint(tmp_path / "moved") == usual
    assert made_fingerprint(tmp_path / "comment", files={"nets_deep.py": "# for the better\n" + DEEP}) == usual
    assert made_fingerprint(tmp_path / "unused", files={"nets_other.py": "UNUSED = 2\n"}) == usual


ORDERLESS = """
import itertools, random, re, types, weakref

import numpy as np
import torch
from torch import nn


class O:
    def __init__(self, v):
        self.v = v


torch.manual_seed(0)
A = {lambda x: x * 2, lambda x: -x, lambda x: x + 3}
B = {O(i) for i in range(9)}
C = {nn.Linear(1, 1) for i in range(9)}
D = weakref.WeakSet(C)
E = {O(i) for i in range(40)}
for each in E:
    each.all = E
F = [np.random.default_rng(), np.random.PCG64(), random.Random()]


def net():
    return lambda x: x.flatten(1) * len([A, B, C, D, E, F])
"""


def test_order_in_sets_and_random_states_do_not_count(tmp_path: Path) -> None:
    """Where a process has put its objects decides the order of a set of them."""
    (tmp_path / "orderless.py").write_text(ORDERLESS)
    code = f"""
import torch
from pwcf.models.loading import load_model
print(load_model({str(tmp_path / "orderless.py:net")!r}).fingerprint)
"""
    found = set()
    for seed in ("1", "2", "3"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONMALLOC": "malloc" if seed == "3" else "pymalloc"}
        done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment)
        found.add(done.stdout)
    assert len(found) == 1
