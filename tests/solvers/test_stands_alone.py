"""The solver stands alone: it loads no other room than the common helpers, and its words are those of optimisation."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import pwcf.solvers

LOADED = """
import sys
import pwcf.solvers
names = (name.split(".") for name in sys.modules)
print(*sorted({parts[1] for parts in names if parts[0] == "pwcf" and len(parts) > 1}))
"""
SOURCES = sorted(Path(pwcf.solvers.__file__).parent.glob("*.py"))
FOREIGN = r"FOUND\b|MISCLASSIFIED|\bimages?\b|\b[Cc]lassifiers?\b|\bmetrics\b|\badversarial\b|\battacks?\b"


def test_importing_the_solver_loads_no_other_room() -> None:
    """In particular no models, metrics, losses, problems, attacks or verify."""
    found = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["_common", "solvers"]


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_the_solver_speaks_of_optimisation_only(source: Path) -> None:
    assert re.findall(FOREIGN, source.read_text("utf-8")) == []
