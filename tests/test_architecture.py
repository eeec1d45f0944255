"""Imports only go upwards: a folder of src/pwcf uses itself and the folders above it in ORDER."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = "pwcf"
SOURCE = Path(__file__).parent.parent / "src" / PACKAGE
ORDER = (
    "_common",
    "zoo",
    "data",
    "models",
    "metrics",
    "losses",
    "problems",
    "testproblems",
    "solvers",
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
FRONT = "the package's own __init__.py"


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
        if folder is None and place.name != "__init__.py":
            found.append(f"{place}: modules live in folders; only __init__.py stands at the top")
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
    return found


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
    for folder in ("", "metrics", "problems", "solvers"):
        (root / folder).mkdir(parents=True, exist_ok=True)
        (root / folder / "__init__.py").write_text("import math\n")
    (root / place).parent.mkdir(parents=True, exist_ok=True)
    (root / place).write_text(code)
    return root


@pytest.mark.parametrize(
    ("place", "code"),
    [
        ("problems/a.py", "import pwcf.solvers"),
        ("problems/a.py", "import math, pwcf.solvers.loop as loop"),
        ("problems/a.py", "from pwcf.solvers.loop import run"),
        ("problems/a.py", "from pwcf import metrics, solvers"),
        ("problems/a.py", "from ..solvers import loop"),
        ("problems/a.py", "from .. import solvers"),
        ("problems/deep/a.py", "from ...solvers.loop import run"),
        ("problems/a.py", "def f():\n    from pwcf import solvers"),
        ("problems/a.py", "if TYPE_CHECKING:\n    from pwcf.solvers import Solution"),
        ("problems/a.py", "importlib.import_module('pwcf.solvers')"),
        ("problems/a.py", "import_module('..solvers', __package__)"),
        ("problems/a.py", "import pwcf"),
        ("problems/a.py", "from pwcf import minimize"),
        ("problems/a.py", "from .. import minimize"),
        ("problems/__init__.py", "from ..solvers import loop"),
        ("compat/a.py", "import pwcf.cli"),
        ("__init__.py", "from pwcf.cli import main"),
        ("extras/__init__.py", ""),
        ("helpers.py", ""),
    ],
)
def test_the_check_catches(tmp_path, place, code):
    found = violations(package_with(tmp_path, place, code))
    assert len(found) == 1
    assert found[0].startswith(place)


@pytest.mark.parametrize(
    ("place", "code"),
    [
        ("solvers/a.py", "from pwcf.problems import ineq\nfrom pwcf.solvers import loop\nimport torch"),
        ("solvers/a.py", "from ..metrics import lp\nfrom . import loop\nfrom .loop import run"),
        ("solvers/deep/a.py", "from ..loop import run\nfrom ...problems import eq"),
        ("problems/a.py", "from solvers import thing\nimport pwcf_other.solvers"),
        ("cli/main.py", "import pwcf\nfrom pwcf import evaluate\nfrom pwcf.report import html"),
        ("cli/__main__.py", "from pwcf.cli.main import main"),
        ("__init__.py", "from pwcf.solvers import minimize\nfrom .problems import ineq"),
    ],
)
def test_the_check_allows(tmp_path, place, code):
    assert violations(package_with(tmp_path, place, code)) == []
