"""How a budget is spent: on how many runs, of how many steps, in which phases."""

from __future__ import annotations

import math
from dataclasses import dataclass

# The published length of a run.
STEPS = 100
# Where restarts are wished for and steps are not, a run is not cut below this many: fewer lead nowhere.
SHORT = 10
# l1 (Croce and Hein 2021): the ball is this many times as large over that share of the steps. Runs that are too short
# to be divided stay in the ball itself.
LARGER, SHARES, LEAST_DIVIDED = (3.0, 2.0, 1.0), (0.3, 0.3, 0.4), 10


@dataclass(frozen=True)
class Phase:
    """So many steps in a ball so many times as large."""

    factor: float
    steps: int


@dataclass(frozen=True)
class Plan:
    runs: int
    steps: int

    @classmethod
    def within(cls, budget: int, p: float | None, steps: int | None, most_runs: int | None) -> Plan:
        """What fits: fewer runs first, then fewer steps. None: whatever uses the budget best, at about 100 steps."""
        wished = STEPS if steps is None else steps
        if steps is not None:
            fitting = budget // cost(p, steps)
        elif most_runs is None:
            fitting = round(budget / cost(p, STEPS))
        else:
            fitting = budget // cost(p, SHORT)
        runs = max(1, fitting if most_runs is None else min(fitting, most_runs))
        longest = longest_run(p, budget // runs)
        return cls(runs, longest if steps is None else min(wished, longest))


def phases(p: float | None, steps: int) -> list[Phase]:
    """The parts of a run."""
    if p != 1 or steps < LEAST_DIVIDED:
        return [Phase(1.0, steps)]
    first, second = (math.ceil(share * steps) for share in SHARES[:2])
    return [Phase(factor, n) for factor, n in zip(LARGER, (first, second, steps - first - second), strict=True)]


def cost(p: float | None, steps: int) -> int:
    """Passes of a run: value and slope where a phase begins and after every step, but at the last point no slope."""
    return 2 * (steps + len(phases(p, steps))) - 1


def longest_run(p: float | None, budget: int) -> int:
    """Steps of the longest run within the budget; 0 if none is."""
    longest = (budget - 1) // 2
    while longest > 0 and cost(p, longest) > budget:
        longest -= 1
    return max(0, longest)
