"""Our ``AutoAttack`` under the name of the original's package, for code that imports it from there."""

from __future__ import annotations

import sys
import warnings
from types import ModuleType, TracebackType

from pwcf.compat.autoattack import AutoAttack
from pwcf.compat.state import EvaluationState

PACKAGE = "autoattack"
# The original's modules, and what is taken from them.
SHIMS: dict[str, dict[str, type]] = {
    PACKAGE: {"AutoAttack": AutoAttack},
    f"{PACKAGE}.autoattack": {"AutoAttack": AutoAttack},
    f"{PACKAGE}.state": {"EvaluationState": EvaluationState},
}


class Installation:
    """``undo()``, or the end of a ``with`` block, brings back what was there."""

    def __init__(self, before: dict[str, ModuleType]) -> None:
        self._before: dict[str, ModuleType] | None = before

    def undo(self) -> None:
        """Take our modules out of ``sys.modules``, and put those back that were there; once."""
        if self._before is None:
            return
        _remove()
        sys.modules.update(self._before)
        self._before = None

    def __enter__(self) -> Installation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undo()


def install_as_autoattack() -> Installation:
    """From here on ``from autoattack import AutoAttack`` gives ours, in RobustBench's ``benchmark()``, too.

    Call it before the code that imports AutoAttack is imported itself: what has the original already keeps it, and a
    warning names it.

    Returns:
        What undoes it: ``installed.undo()``, or ``with install_as_autoattack(): ...``.
    """
    original = getattr(sys.modules.get(PACKAGE), "AutoAttack", None)
    late = [
        name
        for name, module in list(sys.modules.items())
        if original not in (None, AutoAttack)
        and name.partition(".")[0] != PACKAGE
        and getattr(module, "__dict__", {}).get("AutoAttack") is original
    ]
    if late:
        warnings.warn(
            f"{', '.join(sorted(late))}: imported AutoAttack before install_as_autoattack() and keeps the original; "
            "call it first",
            stacklevel=2,
        )
    before = _remove()
    for name, content in SHIMS.items():
        module = ModuleType(name, "pwcf's AutoAttack in the place of the original; see pwcf.compat")
        for attribute, value in content.items():
            setattr(module, attribute, value)
        sys.modules[name] = module
    package = sys.modules[PACKAGE]
    package.__path__ = []  # a package, without modules on disk
    for name in SHIMS:
        if name != PACKAGE:
            setattr(package, name.rpartition(".")[2], sys.modules[name])
    return Installation(before)


def _remove() -> dict[str, ModuleType]:
    """All modules of the package, taken out of ``sys.modules``."""
    names = [name for name in sys.modules if name.partition(".")[0] == PACKAGE]
    return {name: sys.modules.pop(name) for name in names}
