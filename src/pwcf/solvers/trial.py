"""What the host must know of an evaluation, by one transfer."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from pwcf.solvers.bounds import Bounds
from pwcf.solvers.bundle import NewCuts, probe
from pwcf.solvers.host import Array, factor, fetch, select
from pwcf.solvers.linalg import bmm, norm
from pwcf.solvers.oracle import Evaluation
from pwcf.solvers.state import SolverRows


class Trial(NamedTuple):
    """The trial points x + t d of all rows within their bounds, and what the functions are there."""

    x: Tensor
    """(B, n)"""
    moved: Tensor
    """(B, n) from the row's x to here, and ``step`` from its reference."""
    step: Tensor
    gradients: Tensor
    """(B, 1+p, n)"""
    values: Array
    """(B, 1+p)"""
    finite: Array
    """(B,) whether all values and gradients are."""
    linear: Array
    """(B, 1+p) change that the gradients at the row's x promise."""
    slopes: Array
    """(B, 1+p) along d, without entries that a bound has stopped."""
    ahead: Array
    """(B, 1+p) products of the gradients with the step from the reference, and with ``bundle.probe``."""
    sketch: Array
    steepness: Array | None
    """(B, 1+p) lengths of the gradients, if they were asked for."""
    length: Array
    """(B,) of the move, of the point, and of the step from the reference."""
    size: Array
    distance: Array

    def cuts(self, rows: Array) -> NewCuts:
        """The linear models at the trial points of some rows."""
        values, ahead, sketch = (array[rows] for array in (self.values, self.ahead, self.sketch))
        return NewCuts(select(self.step, rows), select(self.gradients, rows), values, ahead, sketch)


def trial_points(S: SolverRows, bounds: Bounds, snap: bool) -> Tensor:
    """The points to evaluate next, (B, n)."""
    ahead = torch.addcmul(S.x, factor(S.t, S.x), S.d)
    return bounds.snap(ahead) if snap else bounds.project(ahead)


def digest(S: SolverRows, x: Tensor, ev: Evaluation, bounded: bool, steepness: bool) -> Trial:
    """The evaluation of the trial points x (B, n)."""
    moved, step, d = x - S.x, x - S.reference, S.d
    if bounded:
        d = d * (x == torch.addcmul(S.x, factor(S.t, x), d))
    n = x.shape[1]
    along = bmm(ev.gradients, torch.stack([step, probe(n, x.dtype, x.device).expand_as(x), d], 1).mT)
    linear = bmm(S.gradients, moved.unsqueeze(-1))
    lengths = torch.stack([norm(moved), norm(x), norm(step)], 1)
    steep = (norm(ev.gradients),) if steepness else ()
    values, along_, linear_, lengths_, *rest = fetch(ev.values, along, linear, lengths, *steep)
    # No entry of the probe is zero: its product with a gradient is finite only if the gradient is.
    finite = np.isfinite(values.sum(1) + along_[..., 1].sum(1))
    return Trial(
        x, moved, step, ev.gradients, values, finite, linear_[..., 0], along_[..., 2], along_[..., 0], along_[..., 1],
        rest[0] if rest else None, lengths_[:, 0], lengths_[:, 1], lengths_[:, 2],
    )  # fmt: skip
