"""What the solver works with: its settings, the problem, and one array or tensor per quantity for the rows in work."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from pwcf._common.status import Status
from pwcf.solvers.bounds import Bounds
from pwcf.solvers.bundle import Cuts, CuttingPlaneModel, Vicinity, cutting_plane_model
from pwcf.solvers.constraints import total_violation
from pwcf.solvers.hessian import InverseHessian, hessian_from
from pwcf.solvers.host import Array, positions, select
from pwcf.solvers.oracle import Oracle

# Phases of a row. A row STARTs with one evaluation, then SEARCHes along quasi-Newton SQP directions by
# weak Wolfe; where that fails or crawls it takes BUNDLE steps; where these end it SAMPLEs gradients around
# what it has, after RESTOREing feasibility if need be. Before it ends it tries to CONFIRM that there is nothing better
# near, and if it knew something better elsewhere it RETURNs there.
START, SEARCH, BUNDLE, RESTORE, SAMPLE, CONFIRM, RETURN = 0, 1, 2, 3, 4, 5, 6
RUNNING = -1
# What is to be confirmed of x: nothing, that it passed the stopping test (judged by the gradients at x alone, or by
# cuts), or that there is no way on.
NOTHING, PASSED_AT_X, PASSED_BY_CUTS, GIVEN_UP = 0, 1, 2, 3
STATUSES = (
    Status.CONVERGED,
    Status.STALLED,
    Status.INFEASIBLE,
    Status.MAX_ITERATIONS,
    Status.BUDGET,
    Status.UNBOUNDED,
    Status.NONFINITE,
    Status.TIME_LIMIT,
    Status.TARGET,
    Status.STOPPED,
)
"""How a row of ``minimize`` can end: the solver's part of ``pwcf.Status``, by the code that tensors (and saved states)
carry: new ones are added at the end."""
CODE = {status: code for code, status in enumerate(STATUSES)}
RESUMABLE = (Status.MAX_ITERATIONS, Status.BUDGET, Status.TIME_LIMIT, Status.TARGET, Status.STOPPED)


@dataclass(frozen=True)
class SolverSettings:
    """Settings of one call of ``minimize``, with all defaults resolved."""

    tol: float
    feasibility: float
    hessian: str
    memory: int
    cuts: int
    columns: int
    mu0: float
    test: str
    window: int
    all_faces: bool
    """Whether the store can hold all the cuts that the proof of a vertex needs."""
    bundles: bool
    """Whether bundle steps follow SEARCH. Without, they are the last resort of a restoration that fails."""

    walls: bool
    """Whether bounds are constraints of the quadratic programs; otherwise steps are projected onto them."""

    @property
    def published(self) -> bool:
        """Whether the paper's stopping test is used in place of the bundle bound."""
        return self.test == "published"


@dataclass(frozen=True)
class SolverProblem:
    """What all parts of the solver share: the functions, the bounds and the settings."""

    oracle: Oracle
    bounds: Bounds
    settings: SolverSettings

    @property
    def p(self) -> int:
        """Number of constraint columns."""
        return self.oracle.p

    @cached_property
    def equality(self) -> Array:
        """(p,) which constraint columns are equalities."""
        return self.oracle.equality.cpu().numpy()

    @property
    def wall_sides(self) -> int:
        """Number of sides on which bounds are constraints of the quadratic programs."""
        sides = (self.bounds.lower is not None) + (self.bounds.upper is not None)
        return sides if self.settings.walls else 0

    @property
    def complete(self) -> bool:
        """Whether a bundle can hold every face it needs: they are few, and none is hidden by a fold."""
        return self.settings.all_faces and not self.oracle.folded

    def bounds_of(self, S: SolverRows, rows: Array) -> Bounds:
        """The bounds of some rows."""
        return self.bounds.of(select(S.index, rows)) if self.bounds.per_row else self.bounds

    def violation(self, values: Array) -> Array:
        """Total violation (r,) of values (r, 1+p), in their units."""
        return total_violation(values[:, 1:], self.equality)

    def objective_scale(self, S: SolverRows, rows: Array) -> Array:
        """What "relative" means: |F|, or near zero a small share of what was gained, or of the first slope."""
        feasible = S.best_violation[rows] <= self.settings.feasibility
        F = np.where(feasible, S.best_values[rows, 0], S.values[rows, 0])
        gained = np.abs(S.first[rows, 0] - F)
        scale = S.scale[rows, 0]
        slope = np.minimum(np.where(scale > 0, 1e-4 / scale, 0.0), 1e-4)
        size: Array = np.maximum(np.maximum(np.abs(F), slope), np.minimum(1e-3 * gained, 1.0))
        return size

    def reach(self, S: SolverRows, rows: Array) -> Array:
        """How far a better point may lie: as far as the row has come, and a tenth of the size of x at least."""
        return np.maximum(S.distance[rows], 0.1 * (1 + S.size[rows]))

    def cutting_plane_model(self, S: SolverRows, rows: Array, within: Array | None = None) -> CuttingPlaneModel:
        """The linear models of ``rows`` at their current points; only those made ``within`` (r,), if it is given."""
        # What counts as near x is a tenth of its size.
        at = Vicinity(
            step=select(S.x, rows) - select(S.reference, rows),
            values=S.values[rows],
            reach=self.reach(S, rows),
            near=0.1 * (1 + S.size[rows]),
            extent=S.size[rows] + S.first_size[rows],
        )
        model = cutting_plane_model(
            S.cuts, rows, at, S.scales[rows], self.equality, S.evaluations[rows], self.settings.columns, within
        )
        S.concave[rows] |= model.concave
        return model

    def portion(self, S: SolverRows) -> int:
        """Rows at a time: a portion's gathered cuts must not take more than about 200 MB."""
        cuts = self.settings.cuts
        size = max(S.x.shape[1] * max(self.settings.columns, cuts * (1 + self.p)), 4 * cuts * cuts * (1 + self.p))
        return max(1, 25_000_000 // max(1, size))


# What has n entries a row, and the row's place in the user's batch, which the functions are called with.
ON_DEVICE = ("index", "x", "reference", "unit", "gradients", "d", "best_x", "cuts.gradients", "cuts.points")


@dataclass
class SolverRows:
    """State of the rows in work. Arrays of numbers are float64 whatever the dtype of x."""

    index: Tensor
    """(B,) which of the user's rows this is."""
    x: Tensor
    """(B, n) current point, in the solver's units; ``reference`` is where the row started."""
    reference: Tensor
    unit: Tensor
    """(B, n) factors from the solver's units to the user's, or (B, 0) if all are 1."""
    size: Array
    """(B,) length of x, of the reference and of what lies between them."""
    first_size: Array
    distance: Array
    values: Array
    """(B, 1+p) f and constraints at x, in the user's units; ``first`` holds those at the start."""
    first: Array
    trial_values: Array
    """(B, 1+p) those at the last trial point"""
    gradients: Tensor
    """(B, 1+p, n) their gradients."""
    scale: Array
    """(B, 1+p) factors 1/|gradient| from the first nonzero gradient; 0 while there was none."""
    mu: Array
    multipliers: Array
    wall_prices: Array
    """(B, m) multipliers of the walls in the last direction, in the order of ``Bounds.walls``; (B, 0) without."""
    d: Tensor
    """(B, n) search direction; the trial point is x + t d, projected onto the bounds."""
    promise: Array
    """(B,) change of the penalty function that the model promises for d (negative)."""
    t: Array
    t_low: Array
    t_high: Array
    trials: Array
    phase: Array
    best_x: Tensor
    best_values: Array
    best_violation: Array
    iterations: Array
    evaluations: Array
    gap: Array
    """(B,) the latest bound on what is left to gain, relative; inf before the first test."""
    stationarity: Array
    """(B,) the published measure: length of the smallest step of the augmented dual."""
    mark: Array
    """(B,) merit at the last check of progress, and the iteration of that check."""
    marked_at: Array
    tau: Array
    """(B,) factor on H in bundle steps; ``plain`` where the identity takes the place of H."""
    nulls: Array
    plain: Array
    radius: Array
    """(B,) the longest bundle step, inf if any length will do."""
    stride: Array
    """(B,) length of the last accepted move; ``nulls`` counts bundle steps since."""
    early: Array
    """(B,) whether the bundle may take over early: until that has come to nothing once."""
    path: Array
    """(B,) total length of all moves."""
    concave: Array
    """(B,) whether the row has seen anything that is not convex."""
    returns: Array
    """(B,) how often the row has gone back to its best point."""
    came_back_with: Array
    """(B,) the objective with which it has begun anew, inf if it has not."""
    verdict: Array
    """(B,) what the phase CONFIRM is to try: NOTHING, PASSED_AT_X, PASSED_BY_CUTS or GIVEN_UP."""
    status: Array
    cuts: Cuts
    hessian: InverseHessian

    def fields(self) -> dict[str, Tensor | Array]:
        """All arrays and tensors by name."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("cuts", "hessian")}
        cuts = {f"cuts.{name}": value for name, value in self.cuts.fields().items()}
        hessian = {f"hessian.{name}": tensor for name, tensor in self.hessian.tensors().items()}
        return own | cuts | hessian

    @classmethod
    def from_fields(cls, values: dict[str, Any]) -> SolverRows:
        own = {k: v for k, v in values.items() if "." not in k}
        cuts = {k.split(".", 1)[1]: v for k, v in values.items() if k.startswith("cuts.")}
        hessian = {k.split(".", 1)[1]: v for k, v in values.items() if k.startswith("hessian.")}
        return cls(**own, cuts=Cuts(**cuts), hessian=hessian_from(hessian))

    def tensors(self) -> dict[str, Tensor]:
        """All state as tensors, for ``from_tensors``."""
        values = self.fields().items()
        return {name: value if isinstance(value, Tensor) else torch.from_numpy(value) for name, value in values}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> SolverRows:
        on_device = (*ON_DEVICE, *(name for name in tensors if name.startswith("hessian.")))
        return cls.from_fields({k: v if k in on_device else v.cpu().numpy() for k, v in tensors.items()})

    def select(self, rows: Array) -> SolverRows:
        """A copy of some rows."""
        index = positions(rows, self.x.device)
        return SolverRows.from_fields({name: _take(value, rows, index) for name, value in self.fields().items()})

    def assign(self, rows: Array, other: SolverRows) -> None:
        """Overwrite some rows in place."""
        index = positions(rows, self.x.device)
        for mine, theirs in zip(self.fields().values(), other.fields().values(), strict=True):
            if isinstance(mine, Tensor):
                mine[index.to(mine.device)] = cast(Tensor, theirs)
            else:
                mine[rows] = theirs

    def put(self, name: str, rows: Array, value: Tensor) -> None:
        """Set the tensor ``name`` of some rows; it is replaced, not written into, where these are all rows."""
        if len(rows) == self.count:
            setattr(self, name, value)
        elif len(rows):
            getattr(self, name)[positions(rows, value.device)] = value

    def answers(self, rows: Array) -> SolverRows:
        """A copy of some rows without gradients, cuts and pairs."""
        bulky = ("gradients", "d", "cuts.gradients", "cuts.points", "cuts.excess", "hessian.H", "hessian.pairs")
        index = positions(rows, self.x.device)
        values = self.fields().items()
        return SolverRows.from_fields({k: _take(v[..., :0] if k in bulky else v, rows, index) for k, v in values})

    def resume(self) -> None:
        """Let rows that a limit had stopped run on."""
        self.status[np.isin(self.status, [CODE[status] for status in RESUMABLE])] = RUNNING

    @property
    def answer(self) -> Tensor:
        """(B, n) the best points, in the user's units."""
        return self.best_x if self.unit.shape[1] == 0 else self.best_x * self.unit

    @property
    def scales(self) -> Array:
        """(B, 1+p) factors in force: 1 where no gradient has been seen yet."""
        return np.where(self.scale > 0, self.scale, 1.0)

    @property
    def count(self) -> int:
        return self.x.shape[0]


def _take(value: Tensor | Array, rows: Array, index: Tensor) -> Tensor | Array:
    return value[index.to(value.device)] if isinstance(value, Tensor) else value[rows]
