"""What the solver knows of each row: one tensor per quantity, rows along the first axis."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from pwcf.solvers.bundle import Cuts
from pwcf.solvers.hessian import InverseHessian, hessian_from

# Phases of a row. A row STARTs with one evaluation, then SEARCHes along quasi-Newton SQP directions by
# weak Wolfe; where that fails or crawls it takes BUNDLE steps; where these end it tries to
# CERTIFY what it has, after RESTOREing feasibility if need be.
START, SEARCH, BUNDLE, RESTORE, CERTIFY = 0, 1, 2, 3, 4
RUNNING = -1


@dataclass
class Rows:
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
    """(B,) factor on the metric of bundle steps; ``plain`` where that is the identity instead of H."""
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
    def from_tensors(cls, tensors: dict[str, Tensor]) -> Rows:
        own = {k: v for k, v in tensors.items() if "." not in k}
        cuts = {k.split(".", 1)[1]: v for k, v in tensors.items() if k.startswith("cuts.")}
        hessian = {k.split(".", 1)[1]: v for k, v in tensors.items() if k.startswith("hessian.")}
        return cls(**own, cuts=Cuts(**cuts), hessian=hessian_from(hessian))

    def select(self, rows: Tensor) -> Rows:
        """A copy of some rows."""
        return Rows.from_tensors({name: tensor[rows] for name, tensor in self.tensors().items()})

    def assign(self, rows: Tensor, other: Rows) -> None:
        """Overwrite some rows in place."""
        for mine, theirs in zip(self.tensors().values(), other.tensors().values(), strict=True):
            mine[rows] = theirs

    def answers(self, rows: Tensor) -> Rows:
        """A copy of some rows without gradients, cuts and pairs."""
        bulky = ("gradients", "d", "cuts.gradients", "hessian.H", "hessian.pairs")
        tensors = self.tensors().items()
        return Rows.from_tensors({k: (v[..., :0] if k in bulky else v)[rows] for k, v in tensors})

    @property
    def scales(self) -> Tensor:
        """(B, 1+p) factors in force: 1 where no gradient has been seen yet."""
        return torch.where(self.scale > 0, self.scale, torch.ones_like(self.scale))

    @property
    def count(self) -> int:
        return self.x.shape[0]
