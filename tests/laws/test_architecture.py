"""Imports only go upwards: a folder of src/pwcf uses itself and the folders above it in ORDER; no attack another."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = "pwcf"
SOURCE = Path(__file__).parents[2] / "src" / PACKAGE
ORDER = (
    "_common",
    "solvers",
    "testproblems",
    "zoo",
    "data",
    "models",
    "metrics",
    "losses",
    "problems",
    "attacks",
    "verify",
    "evaluation",
    "training",
    "runs",
    "bench",
    "analysis",
    "report",
    "compat",
    "cli",
)
SHARED = ("linearised",)
"""folders of attacks that are no attack: what several have in common"""
FRONT = "the package's own __init__.py"
COMMAND = Path("__main__.py")
"""``python -m pwcf``, a part of the command line that Python wants at the top"""


def targets(tree: ast.AST, package: tuple[str, ...]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """(line, absolute dotted name) of everything imported anywhere in a module of ``package``.

    ast.walk goes into functions, classes and ``if TYPE_CHECKING``. Of ``from a import b`` it gives
    a.b, as b may be a folder. Imports by a literal string (importlib) count too.
    """
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    yield node.lineno, tuple(alias.name.split("."))
            case ast.ImportFrom(module=module, names=names, level=level):
                base = package[: len(package) - level + 1] if level else ()
                for alias in names:
                    yield node.lineno, (*base, *(module.split(".") if module else ()), alias.name)
            case ast.Call(
                func=ast.Name(id="__import__" | "import_module") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                dots = len(name) - len(name.lstrip("."))
                base = package[: len(package) - dots + 1] if dots else ()
                yield node.lineno, (*base, *filter(None, name.lstrip(".").split(".")))


def violations(root: Path) -> list[str]:
    """One sentence for each breach of the order in the package at ``root``."""
    found = []
    for path in sorted(root.rglob("*.py")):
        place = path.relative_to(root)
        folder = place.parts[0] if len(place.parts) > 1 else None
        if place == COMMAND:
            folder = "cli"
        elif folder is None and place.name != "__init__.py":
            found.append(f"{place}: modules live in folders; only __init__.py and __main__.py stand at the top")
        if folder is not None and folder not in ORDER:
            found.append(f"{place}: folder {folder} is not in the order")
            continue
        tree = ast.parse(path.read_text("utf-8"), str(path))
        for line, name in targets(tree, (PACKAGE, *place.parent.parts)):
            if name[0] != PACKAGE:
                continue
            target = name[1] if len(name) > 1 and name[1] in ORDER else FRONT
            if not allowed(folder, target):
                found.append(f"{place}:{line}: {folder or FRONT} imports {target}")
            elif (attack := attack_of(place)) and (other := sibling(root, attack, name)):
                found.append(f"{place}:{line}: the attack {attack} imports {other} of attacks")
    return found


def attack_of(place: Path) -> str | None:
    """The folder of an attack that a module is in; modules beside these folders, the registry's too, are shared."""
    return place.parts[1] if place.parts[0] == "attacks" and len(place.parts) > 2 else None


def sibling(root: Path, attack: str, name: tuple[str, ...]) -> str | None:
    """What a dotted name has of other attacks: their folders, or what imports them all, the registry and the front."""
    if name[:2] != (PACKAGE, "attacks"):
        return None
    part = name[2] if len(name) > 2 else "__init__"
    shared = part in SHARED or (part not in ("__init__", "registry") and (root / "attacks" / f"{part}.py").is_file())
    return None if shared or part == attack else part


def allowed(folder: str | None, target: str) -> bool:
    if target == "cli":
        return folder == "cli"
    if target == FRONT:  # it imports everything but cli, so only cli may import it without a circle
        return folder in (None, "cli")
    return folder is None or ORDER.index(target) <= ORDER.index(folder)


def test_imports_only_go_upwards():
    assert list(SOURCE.rglob("*.py")), f"nothing to check in {SOURCE}"
    assert violations(SOURCE) == []


def package_with(root: Path, place: str, code: str) -> Path:
    """A package in which every module is innocent but the one at ``place``."""
    for folder in ("", "models", "metrics", "attacks"):
        (root / folder).mkdir(parents=True, exist_ok=True)
        (root / folder / "__init__.py").write_text("import math\n")
    for name in ("loop", "registry"):
        (root / "attacks" / f"{name}.py").write_text("import math\n")
    (root / place).parent.mkdir(parents=True, exist_ok=True)
    (root / place).write_text(code)
    return root


@pytest.mark.parametrize(
    ("place", "code"),
    [
        ("metrics/a.py", "import pwcf.attacks"),
        ("metrics/a.py", "import math, pwcf.attacks.loop as loop"),
        ("metrics/a.py", "from pwcf.attacks.loop import run"),
        ("metrics/a.py", "from pwcf import models, attacks"),
        ("metrics/a.py", "from ..attacks import loop"),
        ("metrics/a.py", "from .. import attacks"),
        ("metrics/deep/a.py", "from ...attacks.loop import run"),
        ("metrics/a.py", "def f():\n    from pwcf import attacks"),
        ("metrics/a.py", "if TYPE_CHECKING:\n    from pwcf.attacks import Solution"),
        ("metrics/a.py", "importlib.import_module('pwcf.attacks')"),
        ("metrics/a.py", "import_module('..attacks', __package__)"),
        ("metrics/a.py", "import pwcf"),
        ("metrics/a.py", "from pwcf import minimize"),
        ("metrics/a.py", "from .. import minimize"),
        ("metrics/__init__.py", "from ..attacks import loop"),
        ("compat/a.py", "import pwcf.cli"),
        ("__init__.py", "from pwcf.cli import main"),
        ("attacks/fab/search.py", "from pwcf.attacks.apgd.rules import ApgdBall"),
        ("attacks/fab/search.py", "from pwcf.attacks import apgd"),
        ("attacks/fab/search.py", "from pwcf.attacks import Task"),
        ("attacks/fab/search.py", "import pwcf.attacks"),
        ("attacks/fab/search.py", "from pwcf.attacks.registry import ATTACKS"),
        ("attacks/fab/search.py", "from ..apgd import Apgd"),
        ("attacks/fab/deep/search.py", "from pwcf.attacks.apgd import Apgd"),
        ("extras/__init__.py", ""),
        ("helpers.py", ""),
        ("metrics/a.py", "import pwcf.__main__"),
    ],
)
def test_the_check_catches(tmp_path, place, code):
    found = violations(package_with(tmp_path, place, code))
    assert len(found) == 1
    assert found[0].startswith(place)


@pytest.mark.parametrize(
    ("place", "code"),
    [
        ("attacks/a.py", "from pwcf.metrics import ineq\nfrom pwcf.attacks import loop\nimport torch"),
        ("attacks/a.py", "from ..models import lp\nfrom . import loop\nfrom .loop import run"),
        ("attacks/deep/a.py", "from ..loop import run\nfrom ...metrics import eq"),
        ("metrics/a.py", "from attacks import thing\nimport pwcf_other.attacks"),
        ("attacks/fab/search.py", "from pwcf.attacks.loop import run\nfrom pwcf.attacks.fab.geometry import Plane"),
        ("attacks/registry.py", "from pwcf.attacks.apgd import Apgd\nfrom pwcf.attacks.fab import Fab"),
        ("cli/main.py", "import pwcf\nfrom pwcf import evaluate\nfrom pwcf.report import html"),
        ("cli/__main__.py", "from pwcf.cli.main import main"),
        ("__main__.py", "from pwcf.cli import main"),
        ("__init__.py", "from pwcf.attacks import minimize\nfrom .metrics import ineq"),
    ],
)
def test_the_check_allows(tmp_path, place, code):
    assert violations(package_with(tmp_path, place, code)) == []
