"""How large windows are as the queries go by."""

from __future__ import annotations

from bisect import bisect_left
from itertools import groupby

# Queries out of 10000 after which the share of entries in a window is halved (the authors' values, for all norms).
HALVINGS = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)
OUT_OF = 10_000


def stages(steps: int, p: float) -> list[tuple[float, int]]:
    """(share of entries, number of steps) in turn; the halvings are rescaled to this many steps, as in AutoAttack."""
    levels = [bisect_left(HALVINGS, step * OUT_OF // steps) for step in range(steps)]
    return [(p / 2**level, len(list(some))) for level, some in groupby(levels)]
