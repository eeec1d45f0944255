"""What ``minimize`` returns."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from os import PathLike

import torch
from torch import Tensor

from pwcf._common.status import Status
from pwcf.solvers.state import SolverRows


@dataclass(frozen=True)
class Evidence:
    """How far an answer can be trusted, per row, in the user's own units and for the user's own problem."""

    stationarity: Tensor
    """(b,) possible gain under linear models around the answer, relative to the objective. For a convex problem it
    bounds the excess over the best point within reach. inf where nothing is known."""
    violation: Tensor
    """(b,) total constraint violation at the answer: sum of max(c, 0) and |h|, unfolded values folded."""
    step: Tensor
    """(b,) the published measure, the length of the augmented dual's step; the status does not use it."""


@dataclass(frozen=True)
class Trajectory:
    """Progress per row and iteration, (b, iterations), NaN after a row's end."""

    objective: Tensor
    """f at the current point."""
    violation: Tensor
    """Total violation there."""
    stationarity: Tensor
    """The latest bound on what is left to gain, as in ``Evidence``."""
    mu: Tensor
    """Penalty parameter: the weight of the objective in the penalty function."""
    step: Tensor
    """Length of the last accepted move."""


@dataclass(frozen=True)
class SolverState:
    """The solver's state, to continue exactly where rows stopped: ``minimize(..., state=solution.state)``."""

    rows: SolverRows

    def save(self, path: str | PathLike[str]) -> None:
        """Write the state to a file of tensors.

        Args:
            path: the file to write.
        """
        torch.save(self.rows.tensors(), path)

    @classmethod
    def load(cls, path: str | PathLike[str], device: torch.device | str | None = None) -> SolverState:
        """Read a saved state. Only tensors are unpickled.

        Args:
            path: a file written by ``save``.
            device: where to put the tensors; None: where they were.

        Returns:
            The state.
        """
        return cls(SolverRows.from_tensors(torch.load(path, map_location=device, weights_only=True)))

    def select(self, rows: Tensor) -> SolverState:
        """Select the state of some rows.

        Args:
            rows: (m,) indices, int64.

        Returns:
            The state of these m rows.
        """
        return SolverState(self.rows.select(rows))


@dataclass(frozen=True)
class Solution:
    """The result of ``minimize`` for all b rows."""

    x: Tensor
    """(b, ...) the best feasible point seen, else the least violating one."""
    objective: Tensor
    """(b,) float64, f at x."""
    status: list[Status]
    """How each row ended: CONVERGED, STALLED, INFEASIBLE, MAX_ITERATIONS, BUDGET, UNBOUNDED or NONFINITE."""
    evidence: Evidence
    iterations: Tensor
    """(b,) int64, directions taken."""
    evaluations: Tensor
    """(b,) int64, evaluations of the functions with their gradients, those of all restarts included."""
    trajectory: Trajectory | None = None
    """Only with ``trajectory=True``."""
    state: SolverState | None = None
    """Only with ``keep_state=True``."""

    @property
    def converged(self) -> Tensor:
        """(b,) bool: which rows have status CONVERGED."""
        return torch.tensor([s is Status.CONVERGED for s in self.status], dtype=torch.bool)

    def summary(self) -> str:
        """Describe statuses, objectives, violations and cost in a few lines of text."""
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
