"""Measure how robust a classifier is: verified nearest adversarial points in any metric.

``evaluate`` answers ``MinRadius`` and ``MaxLoss`` questions about a PyTorch classifier. ``minimize`` is the batched
solver for nonsmooth constrained problems that it builds on; it can be used on its own.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from pwcf._common import later
from pwcf._common.optional import installed_version

if TYPE_CHECKING:
    from pwcf import analysis, attacks, compat, losses, metrics, report, testproblems, training, zoo
    from pwcf._common.status import Status
    from pwcf.evaluation import Run, evaluate
    from pwcf.models import Classifier
    from pwcf.problems import MaxLoss, MinRadius
    from pwcf.runs import load_run
    from pwcf.solvers import (
        Constraint,
        Evidence,
        Restarts,
        Solution,
        SolverState,
        Trajectory,
        eq,
        ineq,
        minimize,
        noisy_starts,
    )

    __version__: str

__all__ = [
    "Classifier",
    "Constraint",
    "Evidence",
    "MaxLoss",
    "MinRadius",
    "Restarts",
    "Run",
    "Solution",
    "SolverState",
    "Status",
    "Trajectory",
    "analysis",
    "attacks",
    "compat",
    "eq",
    "evaluate",
    "ineq",
    "load_run",
    "losses",
    "metrics",
    "minimize",
    "noisy_starts",
    "report",
    "testproblems",
    "training",
    "zoo",
]

# Loaded at the first use of a name: importing torch takes seconds that commands which only read a run can do without.
_FOLDERS = ("analysis", "attacks", "compat", "losses", "metrics", "report", "testproblems", "training", "zoo")
_HOMES = {
    "_common.status": ("Status",),
    "evaluation": ("Run", "evaluate"),
    "models": ("Classifier",),
    "problems": ("MaxLoss", "MinRadius"),
    "runs": ("load_run",),
    "solvers": (
        "Constraint", "Evidence", "Restarts", "Solution", "SolverState", "Trajectory", "eq", "ineq", "minimize",
        "noisy_starts",
    ),
}  # fmt: skip
# Methods of a Run, which its own room cannot do.
later.offer("save", f"{__name__}.runs.saving:save_run")
later.offer("report", f"{__name__}.report.page:report_run")
later.offer("html", f"{__name__}.report.notebook:html_of")
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "__version__":  # pyproject.toml has it
        return installed_version("pwcf") or "unknown"
    if name in _FOLDERS:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
