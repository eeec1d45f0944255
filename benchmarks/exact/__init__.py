"""Parts of ``benchmarks/exact_radius.py``: each yields lines that compare ``pwcf.evaluate`` with what is exact."""

import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
# The oracles are the tests' own.
sys.path.insert(0, str(REPOSITORY / "tests"))
