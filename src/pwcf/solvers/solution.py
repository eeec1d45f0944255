"""What ``minimize`` returns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from typing import Any, Protocol

import torch
from torch import Tensor, nn

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
        tensors = torch.load(path, map_location=device, weights_only=True)
        try:
            return cls(SolverRows.from_tensors(tensors))
        except TypeError as error:
            raise ValueError(
                f"path: expected a state saved by this version of pwcf, found other fields ({error})"
            ) from None

    def select(self, rows: Tensor) -> SolverState:
        """Select the state of some rows.

        Args:
            rows: (m,) indices, int64.

        Returns:
            The state of these m rows.
        """
        return SolverState(self.rows.select(rows.cpu().numpy()))


class FindsMultipliers(Protocol):
    """Finds the multipliers when they are asked for."""

    def multipliers(self) -> tuple[list[Tensor], Any]:
        """Those of every constraint, and those of the bounds."""


@dataclass(frozen=True)
class Solution:
    """The result of ``minimize`` for all b rows. For one problem no field has the batch axis b."""

    x: Any
    """(b, ...) the best feasible point seen, else the least violating one. In the form of x0: a tensor or a structure
    of tensors; of a module, a dict of its parameters."""
    objective: Tensor
    """(b,) float64, f at x."""
    status: Any
    """How each row ended, a list of ``pwcf.Status``; for one problem a single one. CONVERGED, STALLED, INFEASIBLE,
    MAX_ITERATIONS, BUDGET, TIME_LIMIT, TARGET, STOPPED, UNBOUNDED or NONFINITE."""
    evidence: Evidence
    iterations: Tensor
    """(b,) int64, directions taken."""
    evaluations: Tensor
    """(b,) int64, evaluations of the functions with their gradients, those of all restarts included."""
    trajectory: Trajectory | None = None
    """Only with ``trajectory=True``."""
    state: SolverState | None = None
    """Only with ``keep_state=True``."""
    lagrangian: FindsMultipliers | None = field(default=None, repr=False, compare=False)
    """Finds the multipliers; not part of a pickled solution, because it holds the functions."""

    @property
    def converged(self) -> Tensor:
        """(b,) bool: which rows have status CONVERGED."""
        if isinstance(self.status, Status):
            return torch.tensor(self.status is Status.CONVERGED)
        return torch.tensor([s is Status.CONVERGED for s in self.status], dtype=torch.bool)

    @cached_property
    def multipliers(self) -> list[Tensor]:
        """Lagrange multipliers at x, for every constraint a float64 tensor (b,), or (b, k) of k columns.

        They satisfy  grad f + sum_i k_i grad c_i + bound_multipliers = 0  as far as x is stationary, in your units:
        k >= 0 of an inequality, 0 where it is inactive, of either sign of an equality. Raising the right-hand side of
        c <= 0 by a little lowers the optimum by k times as much. A folded constraint has one, of its fold. For one
        problem they have the shapes of the constraints' values.

        They are found at the first access, with one evaluation at x: those that come closest to the equation. Where
        several faces of a nonsmooth function meet at x, one gradient is not enough. Then rows that converged have the
        multipliers of all faces if ``keep_state=True``, else those of the solver's last step, which are less accurate.
        Of other rows they are the least-squares estimate. NaN where a gradient is not finite.
        """
        return self._all_multipliers[0]

    @cached_property
    def bound_multipliers(self) -> Any:
        """Multipliers of the bounds in the form of x: positive at an upper bound, negative at a lower one, else 0.

        NaN at the bounds of rows where several faces of a nonsmooth function meet and no state was kept.
        """
        return self._all_multipliers[1]

    @cached_property
    def _all_multipliers(self) -> tuple[list[Tensor], Any]:
        if self.lagrangian is None:
            raise RuntimeError(
                "multipliers: a copied or loaded solution no longer has the functions to find them with; expected an "
                "access to solution.multipliers before it was copied or saved"
            )
        return self.lagrangian.multipliers()

    def load_into(self, module: nn.Module) -> None:
        """Copy the solution of a problem whose x0 was a module into the parameters of that module or another like it.

        Args:
            module: with parameters of the names and shapes of ``x``.
        """
        if not isinstance(self.x, Mapping):
            raise TypeError(f"x: expected a dict of parameters, as of x0 = module, found {type(self.x).__name__}")
        parameters = dict(module.named_parameters())
        for name, value in self.x.items():
            if name not in parameters or parameters[name].shape != value.shape:
                found = f"shape {tuple(parameters[name].shape)}" if name in parameters else "none of this name"
                raise ValueError(f"module: expected a parameter {name!r} of shape {tuple(value.shape)}, found {found}")
        with torch.no_grad():
            for name, value in self.x.items():
                parameters[name].copy_(value)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "lagrangian": None}

    def summary(self) -> str:
        """Describe statuses, objectives, violations and cost in a few lines of text."""
        if isinstance(self.status, Status):
            return (
                f"{self.status.value}: {self.status.sentence}\n"
                f"objective {self.objective:.6g}, violation {self.evidence.violation:.2g}, "
                f"evaluations {int(self.evaluations)}, iterations {int(self.iterations)}"
            )
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
