"""What the solver works with: its settings, the problem, and one tensor per quantity for the rows in work."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from pwcf._common.status import Status
from pwcf.solvers.bounds import Bounds
from pwcf.solvers.bundle import Cuts, CuttingPlaneModel, cutting_plane_model
from pwcf.solvers.constraints import total_violation
from pwcf.solvers.hessian import InverseHessian, hessian_from
from pwcf.solvers.linalg import norm, select
from pwcf.solvers.oracle import Oracle

# Phases of a row. A row STARTs with one evaluation, then SEARCHes along quasi-Newton SQP directions by
# weak Wolfe; where that fails or crawls it takes BUNDLE steps; where these end it tries to
# CERTIFY what it has, after RESTOREing feasibility if need be.
START, SEARCH, BUNDLE, RESTORE, CERTIFY = 0, 1, 2, 3, 4
RUNNING = -1
STATUSES = (
    Status.CONVERGED,
    Status.STALLED,
    Status.INFEASIBLE,
    Status.MAX_ITERATIONS,
    Status.BUDGET,
    Status.UNBOUNDED,
    Status.NONFINITE,
)
"""How a row of ``minimize`` can end: the solver's part of ``pwcf.Status``, by the code that tensors carry."""
CODE = {status: code for code, status in enumerate(STATUSES)}
RESUMABLE = (Status.MAX_ITERATIONS, Status.BUDGET)


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
    certifiable: bool
    """Whether the store can hold all the cuts that the proof of a vertex needs."""
    bundles: bool
    """Whether bundle steps follow SEARCH. Without, they are the last resort of a restoration that fails."""

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

    @property
    def equality(self) -> Tensor:
        """(p,) which constraint columns are equalities."""
        return self.oracle.equality

    @property
    def complete(self) -> bool:
        """Whether a bundle can hold every face it needs: they are few, and none is hidden by a fold."""
        return self.settings.certifiable and not self.oracle.folded

    def violation(self, values: Tensor) -> Tensor:
        """Total violation (r,) of values (r, 1+p), in their units."""
        return total_violation(values[:, 1:], self.equality)

    def objective_scale(self, S: SolverRows, rows: Tensor) -> Tensor:
        """What "relative" means: |F|, or where F is near zero a small share of what was gained."""
        feasible = S.best_violation[rows] <= self.settings.feasibility
        F = torch.where(feasible, S.best_values[rows, 0], S.values[rows, 0])
        gained = (S.first[rows] - F).abs()
        return torch.maximum(F.abs(), (1e-3 * gained).clamp(max=1.0))

    def reach(self, S: SolverRows, rows: Tensor) -> Tensor:
        """How far a better point may lie: as far as the row has come, and a tenth of the size of x at least."""
        x = select(S.x, rows)
        return torch.maximum(norm(x - select(S.reference, rows)), 0.1 * (1 + norm(x))).double()

    def cutting_plane_model(self, S: SolverRows, rows: Tensor) -> CuttingPlaneModel:
        """The linear models of ``rows`` at their current points."""
        step = S.x[rows] - S.reference[rows]
        return cutting_plane_model(
            S.cuts,
            rows,
            step,
            S.values[rows],
            S.scales[rows],
            self.equality,
            S.evaluations[rows],
            self.settings.columns,
        )

    def portion(self, S: SolverRows) -> int:
        """Rows at a time: a portion's gathered cuts must not take more than about 200 MB."""
        size = S.x.shape[1] * max(self.settings.columns, self.settings.cuts * (1 + self.p))
        return max(1, 25_000_000 // max(1, size))


@dataclass
class SolverRows:
    """State of the rows in work. Values, penalties and steps are float64 whatever the dtype of x."""

    index: Tensor
    """(B,) which of the user's rows this is."""
    x: Tensor
    """(B, n) current point; ``reference`` is where the row started."""
    reference: Tensor
    values: Tensor
    """(B, 1+p) f and constraints at x, in the user's units; ``first`` holds f at the start."""
    first: Tensor
    gradients: Tensor
    """(B, 1+p, n) their gradients."""
    scale: Tensor
    """(B, 1+p) factors 1/|gradient| from the first nonzero gradient; 0 while there was none."""
    mu: Tensor
    multipliers: Tensor
    d: Tensor
    """(B, n) search direction; the trial point is x + t d, projected onto the bounds."""
    promise: Tensor
    """(B,) change of the penalty function that the model promises for d (negative)."""
    t: Tensor
    t_low: Tensor
    t_high: Tensor
    trials: Tensor
    phase: Tensor
    best_x: Tensor
    best_values: Tensor
    best_violation: Tensor
    iterations: Tensor
    evaluations: Tensor
    gap: Tensor
    """(B,) the latest bound on what is left to gain, relative; inf before the first test."""
    stationarity: Tensor
    """(B,) the published measure: length of the smallest step of the augmented dual."""
    mark: Tensor
    """(B,) merit at the last check of progress, and the iteration of that check."""
    marked_at: Tensor
    tau: Tensor
    """(B,) factor on H in bundle steps; ``plain`` where the identity takes the place of H."""
    nulls: Tensor
    plain: Tensor
    stride: Tensor
    """(B,) length of the last accepted move; ``nulls`` counts bundle steps since."""
    early: Tensor
    """(B,) whether the bundle may take over early: until that has come to nothing once."""
    path: Tensor
    """(B,) total length of all moves."""
    status: Tensor
    cuts: Cuts
    hessian: InverseHessian

    def tensors(self) -> dict[str, Tensor]:
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("cuts", "hessian")}
        cuts = {f"cuts.{name}": tensor for name, tensor in self.cuts.tensors().items()}
        hessian = {f"hessian.{name}": tensor for name, tensor in self.hessian.tensors().items()}
        return own | cuts | hessian

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> SolverRows:
        own = {k: v for k, v in tensors.items() if "." not in k}
        cuts = {k.split(".", 1)[1]: v for k, v in tensors.items() if k.startswith("cuts.")}
        hessian = {k.split(".", 1)[1]: v for k, v in tensors.items() if k.startswith("hessian.")}
        return cls(**own, cuts=Cuts(**cuts), hessian=hessian_from(hessian))

    def select(self, rows: Tensor) -> SolverRows:
        """A copy of some rows."""
        return SolverRows.from_tensors({name: tensor[rows] for name, tensor in self.tensors().items()})

    def assign(self, rows: Tensor, other: SolverRows) -> None:
        """Overwrite some rows in place."""
        for mine, theirs in zip(self.tensors().values(), other.tensors().values(), strict=True):
            mine[rows] = theirs

    def put(self, name: str, rows: Tensor, value: Tensor) -> None:
        """Set the tensor ``name`` of some rows; it is replaced, not written into, where these are all rows."""
        if rows.numel() == self.count:
            setattr(self, name, value)
        else:
            getattr(self, name)[rows] = value

    def answers(self, rows: Tensor) -> SolverRows:
        """A copy of some rows without gradients, cuts and pairs."""
        bulky = ("gradients", "d", "cuts.gradients", "hessian.H", "hessian.pairs")
        tensors = self.tensors().items()
        return SolverRows.from_tensors({k: (v[..., :0] if k in bulky else v)[rows] for k, v in tensors})

    def resume(self) -> None:
        """Let rows that a limit had stopped run on."""
        for status in RESUMABLE:
            self.status[self.status == CODE[status]] = RUNNING

    @property
    def scales(self) -> Tensor:
        """(B, 1+p) factors in force: 1 where no gradient has been seen yet."""
        return torch.where(self.scale > 0, self.scale, torch.ones_like(self.scale))

    @property
    def count(self) -> int:
        return self.x.shape[0]
