"""The store of cuts: every face once, the cut at the current point never lost."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

import pwcf
from pwcf import testproblems
from pwcf.solvers.bundle import Cuts, NewCuts, probe
from pwcf.solvers.host import Array

F64 = torch.float64


def _insert(cuts: Cuts, step: Tensor, values: Tensor, gradients: Tensor, clock: int) -> Array:
    b, n = step.shape
    ahead = (gradients * step.unsqueeze(1)).sum(-1).numpy()
    sketch = (gradients * probe(n, F64, step.device)).sum(-1).numpy()
    new = NewCuts(step, gradients, values.numpy(), ahead, sketch)
    return cuts.insert(np.arange(b), new, np.full(b, clock), np.zeros(b), np.zeros(b, bool))


def _largest_entry(x: Tensor) -> tuple[Tensor, Tensor]:
    """max_i x_i and its gradient, as one function (r, 1), (r, 1, n)."""
    top = x.argmax(1)
    return x.amax(1, keepdim=True), torch.nn.functional.one_hot(top, x.shape[1]).to(x).unsqueeze(1)


def test_a_face_met_again_is_kept_once() -> None:
    cuts = Cuts.empty(2, 6, 1, 3, torch.zeros(1, dtype=F64))
    generator = torch.Generator().manual_seed(0)
    for clock in range(1, 30):
        x = torch.randn(2, 3, generator=generator, dtype=F64)
        _insert(cuts, x, *_largest_entry(x), clock)
        kept = cuts.gradients[0, torch.from_numpy(cuts.stamp[0, :, 0] >= 0)]
        assert len(kept.unique(dim=0)) == len(kept) <= 3
    assert (cuts.stamp >= 0).sum() == 6  # three faces in each row


def test_parallel_faces_are_different_cuts() -> None:
    cuts = Cuts.empty(1, 4, 1, 2, torch.zeros(1, dtype=F64))
    for clock, height in enumerate((0.0, 1.0), 1):
        _insert(
            cuts,
            torch.zeros(1, 2, dtype=F64),
            torch.tensor([[height]], dtype=F64),
            torch.ones(1, 1, 2, dtype=F64),
            clock,
        )
    assert (cuts.stamp >= 0).sum() == 2


def test_the_cut_at_the_current_point_outlives_its_copies() -> None:
    cuts = Cuts.empty(1, 3, 1, 2, torch.zeros(1, dtype=F64))
    row = np.zeros(1, dtype=np.int64)
    values, gradients = torch.zeros(1, 1, dtype=F64), torch.ones(1, 1, 2, dtype=F64)
    at = torch.zeros(1, 2, dtype=F64)
    cuts.move_home(row, _insert(cuts, at, values, gradients, 1), row + 1)
    copy = _insert(cuts, at, values, gradients, 2)
    assert cuts.stamp[0, copy, 0].item() == -1
    for clock in range(3, 9):
        _insert(cuts, at, values - clock, gradients * clock, clock)
    assert cuts.stamp[0, cuts.home[0], 0] == 1
    assert torch.equal(cuts.gradients[0, cuts.home[0]], gradients[0])


def test_a_row_moves_to_the_copy_of_its_cut() -> None:
    cuts = Cuts.empty(1, 3, 1, 2, torch.zeros(1, dtype=F64))
    row = np.zeros(1, dtype=np.int64)
    values, gradients = torch.zeros(1, 1, dtype=F64), torch.ones(1, 1, 2, dtype=F64)
    at = torch.zeros(1, 2, dtype=F64)
    cuts.move_home(row, _insert(cuts, at, values, gradients, 1), row + 1)
    copy = _insert(cuts, at, values, gradients, 2)
    cuts.move_home(row, copy, row + 2)
    assert cuts.home[0] == copy[0]
    assert cuts.stamp[0, copy[0], 0] == 2


def test_polyhedral_problems_are_certified() -> None:
    """100 faces in 50 dimensions: copies of a few of them must not fill the store."""
    problem = testproblems.get("classifier_linf")
    assert problem.n == 50
    x0 = problem.starts(8, seed=1)
    solution = pwcf.minimize(problem.objective, x0, problem.constraints)
    assert all(status == pwcf.Status.CONVERGED for status in solution.status)


def test_rows_the_bundle_cannot_finish_go_back_to_quasi_newton_steps() -> None:
    """Curved kinks take more cuts than the store holds: what an early bundle leaves, H must still gain."""
    problem = testproblems.get("chained_mifflin_2")
    solution = pwcf.minimize(problem.objective, problem.starts(4, seed=1), problem.constraints)
    assert ((solution.objective - problem.optimum) / abs(problem.optimum)).max() <= 5e-5
