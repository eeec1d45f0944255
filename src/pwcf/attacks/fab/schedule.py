"""How a budget of passes is spent: runs of so many steps, towards so many targets, so many times."""

from __future__ import annotations

from dataclasses import dataclass

# The paper's length of a run. To have more targets runs may be half as long: with 500 passes four targets of 62 steps
# are better on a CIFAR-10 net, and no worse on an MNIST net, than two of 124 or nine of 27.
STEPS, SHORT = 100, 50
# A run of fewer steps reaches nothing: rather than that, fewer classes are looked at in a step.
LEAST_STEPS = 10
# Passes beside the runs: the look at the image, and the paper's three looks along the segment at the end.
LOOK, FINAL = 1, 3
# Passes of a run beside its steps: whether its last point is an answer.
CHECK = 1


@dataclass(frozen=True)
class Plan:
    """restarts x targets runs of ``steps`` steps, each with the planes of ``classes`` classes."""

    restarts: int
    targets: int
    steps: int
    classes: int

    @property
    def passes(self) -> int:
        """What a sample costs at most."""
        return LOOK + FINAL + self.restarts * self.targets * (CHECK + self.steps * (1 + self.classes))


def planned(budget: int, targets: int, classes: int, steps: int | None, restarts: int | None) -> Plan | None:
    """What the budget allows of ``targets`` targets in turn, ``classes`` planes a step; None: not even one step.

    Steps and restarts that are None are as many as there is budget for: the published number of steps, or some more or
    less so that restarts come out even. Where it is small, restarts go first, then targets, then steps.
    """
    left = budget - LOOK - FINAL
    classes = max(1, min(classes, (left - CHECK) // LEAST_STEPS - 1))
    cost = 1 + classes
    if left < CHECK + cost:
        return None
    shortest = CHECK + cost * (SHORT if steps is None else steps)
    targets = max(1, min(targets, left // shortest))
    every = targets * (CHECK + cost * (STEPS if steps is None else steps))
    repeats = max(1, (left + every // 2) // every if steps is None else left // every)
    repeats = repeats if restarts is None else min(restarts, repeats)
    most = (left // (repeats * targets) - CHECK) // cost
    return Plan(repeats, targets, most if steps is None else min(steps, most), classes)
