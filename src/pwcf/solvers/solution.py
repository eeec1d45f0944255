"""What ``minimize`` returns."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from os import PathLike

import torch
from torch import Tensor

from pwcf.solvers.state import Rows
from pwcf.solvers.status import Status


@dataclass(frozen=True)
class Evidence:
    """How far an answer can be trusted, per row, in the user's own units and for the user's own problem."""

    stationarity: Tensor
    """(b,) what is left to gain, relative to the objective, under the linear models around the answer: for a
    convex problem a bound on the excess over the best point within reach. inf where nothing is known."""
    violation: Tensor
    """(b,) total constraint violation at the answer: sum of max(c, 0) and |h|, unfolded values folded."""
    step: Tensor
    """(b,) the published measure, the length of the step of the augmented dual; not what is judged by."""


@dataclass(frozen=True)
class Trajectory:
    """Progress per row and iteration, (b, iterations), NaN after a row's end."""

    objective: Tensor
    violation: Tensor
    stationarity: Tensor
    mu: Tensor
    step: Tensor


@dataclass(frozen=True)
class SolverState:
    """All that is needed to go on exactly where rows stopped: ``minimize(..., state=solution.state)``."""

    rows: Rows

    def save(self, path: str | PathLike[str]) -> None:
        """Write to a file that holds tensors only."""
        torch.save(self.rows.tensors(), path)

    @classmethod
    def load(cls, path: str | PathLike[str], device: torch.device | str | None = None) -> SolverState:
        """Read a saved state; nothing but tensors is unpickled."""
        return cls(Rows.from_tensors(torch.load(path, map_location=device, weights_only=True)))

    def select(self, rows: Tensor) -> SolverState:
        """The state of some rows."""
        return SolverState(self.rows.select(rows))


@dataclass(frozen=True)
class Solution:
    """Answers of all rows. ``x`` is the best feasible point seen, else the least violating one."""

    x: Tensor
    objective: Tensor
    status: list[Status]
    evidence: Evidence
    iterations: Tensor
    evaluations: Tensor
    trajectory: Trajectory | None = None
    state: SolverState | None = None

    @property
    def converged(self) -> Tensor:
        """(b,) bool."""
        return torch.tensor([s is Status.CONVERGED for s in self.status], dtype=torch.bool)

    def summary(self) -> str:
        """A few lines: how rows ended, objective, violation, cost."""
        b = len(self.status)
        if b == 0:
            return "0 rows"
        counts = Counter(s.value for s in self.status)
        ended = ", ".join(f"{count} {name}" for name, count in counts.most_common())
        return (
            f"{b} rows: {ended}\n"
            f"objective   median {self.objective.median():.6g}  (from {self.objective.min():.6g} "
            f"to {self.objective.max():.6g})\n"
            f"violation   at most {self.evidence.violation.max():.2g}\n"
            f"evaluations mean {self.evaluations.double().mean():.1f} per row, "
            f"iterations mean {self.iterations.double().mean():.1f}"
        )
