"""The loop that owns slots, queue, budgets, compaction and trajectory. A solver supplies init, trial and step.

A tick evaluates exactly the rows in work. A row that ends leaves its slot, the next one waiting takes it;
when nobody waits the state is compacted, so that work shrinks with the number of rows left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from pwcf._common.status import Status
from pwcf.solvers.constraints import total_violation
from pwcf.solvers.oracle import Evaluation, Oracle
from pwcf.solvers.state import CODE, RUNNING, START, SolverRows

# Compact when this share of the slots is empty: copying the state each time a row ends would cost more
# than carrying a few empty slots.
EMPTY_SHARE = 1 / 8


class Solver(Protocol):
    """The interface between the loop and an algorithm."""

    def init(self, x0: Tensor, index: Tensor) -> SolverRows:
        """Fresh state for rows that start at x0 (B, n); ``index`` (B,) are their places in the user's batch."""

    def trial(self, S: SolverRows) -> Tensor:
        """The points to evaluate next, (B, n)."""

    def step(self, S: SolverRows, trial: Tensor, ev: Evaluation, alive: Tensor) -> None:
        """Digest the evaluation of ``trial``; rows that are not ``alive`` (B,) stay as they are."""

    def assess(self, S: SolverRows, rows: Tensor) -> None:
        """Evidence for those of ``rows`` that a limit has stopped."""


@dataclass(frozen=True)
class Limits:
    """When rows must end: iterations, and evaluations per row (P,) or None. ``slots`` rows are in work at once."""

    max_iterations: int
    budget: Tensor | None
    slots: int


@dataclass
class Log:
    """What to record beside the answers, and whom to tell of rows that end."""

    keep_state: bool = False
    trajectory: bool = False
    on_end: Callable[[Tensor], None] | None = None
    entries: list[tuple[Tensor, ...]] = field(default_factory=list)


class Queue:
    """Rows waiting for a slot: fresh starts or saved states."""

    def __init__(self, solver: Solver, x0: Tensor, users: Tensor, saved: SolverRows | None) -> None:
        self.solver, self.x0, self.users, self.saved = solver, x0, users, saved
        self.position, self.total = 0, users.numel()

    def take(self, count: int) -> tuple[Tensor, SolverRows]:
        """The next ``count`` problems and their states."""
        ids = torch.arange(self.position, min(self.position + count, self.total), device=self.users.device)
        self.position += ids.numel()
        if self.saved is not None:
            return ids, self.saved.select(ids)
        return ids, self.solver.init(self.x0[ids], self.users[ids])

    @property
    def waiting(self) -> int:
        return self.total - self.position


def run(solver: Solver, oracle: Oracle, queue: Queue, limits: Limits, log: Log) -> SolverRows:
    """Solve all problems of the queue; returns their final states, problem by problem.

    Without ``log.keep_state`` the bulky parts (pairs, cuts, gradients) are dropped as rows leave.
    """
    ids, S = queue.take(limits.slots)
    left: list[tuple[Tensor, SolverRows]] = []
    while ids.numel():
        alive = (S.status == RUNNING) & (ids >= 0)
        _stop_at_limits(S, ids, alive, limits)
        alive = alive & (S.status == RUNNING)
        if not bool(alive.all()):
            gone = (~alive & (ids >= 0)).nonzero().squeeze(-1)
            if gone.numel():
                solver.assess(S, gone)
                left.append((ids[gone], S.select(gone) if log.keep_state else S.answers(gone)))
                ids[gone] = -1
                if log.on_end is not None:
                    log.on_end(S.status[gone])
            free = (ids < 0).nonzero().squeeze(-1)
            if queue.waiting:
                new, fresh = queue.take(free.numel())
                S.assign(free[: new.numel()], fresh)
                ids[free[: new.numel()]] = new
                continue
            if free.numel() == ids.numel():
                break
            if free.numel() >= EMPTY_SHARE * ids.numel():
                kept = (ids >= 0).nonzero().squeeze(-1)
                ids, S = ids[kept], S.select(kept)
                alive = alive[kept]
        trial = solver.trial(S)
        before = S.iterations.clone() if log.trajectory else None
        solver.step(S, trial, _evaluate(oracle, S, trial, alive), alive)
        if before is not None:
            _trace(log, oracle, S, ids, (S.iterations > before) & alive)
    return _in_order(left)


def _stop_at_limits(S: SolverRows, ids: Tensor, alive: Tensor, limits: Limits) -> None:
    late = alive & (S.iterations >= limits.max_iterations) & (S.phase != START)
    S.status[late] = CODE[Status.MAX_ITERATIONS]
    if limits.budget is not None:
        spent = alive & (S.evaluations >= limits.budget[ids.clamp(min=0)])
        S.status[spent] = CODE[Status.BUDGET]


def _evaluate(oracle: Oracle, S: SolverRows, trial: Tensor, alive: Tensor) -> Evaluation:
    """Evaluate just the rows alive; the others get zeros that nobody reads."""
    if bool(alive.all()):
        return oracle.evaluate(trial, S.index)
    rows = alive.nonzero().squeeze(-1)
    part = oracle.evaluate(trial[rows], S.index[rows])
    whole = (new.new_zeros(S.count, *new.shape[1:]) for new in part)
    return Evaluation(*(w.index_copy(0, rows, new) for w, new in zip(whole, part, strict=True)))


def _trace(log: Log, oracle: Oracle, S: SolverRows, ids: Tensor, moved: Tensor) -> None:
    rows = moved.nonzero().squeeze(-1)
    if rows.numel():
        entry = (
            ids[rows], S.iterations[rows], S.values[rows, 0], total_violation(S.values[rows][:, 1:], oracle.equality),
            S.gap[rows], S.mu[rows], S.stride[rows],
        )  # fmt: skip
        log.entries.append(tuple(tensor.clone() for tensor in entry))


def _in_order(left: list[tuple[Tensor, SolverRows]]) -> SolverRows:
    ids = torch.cat([i for i, _ in left])
    order = ids.argsort()
    tensors = [rows.tensors() for _, rows in left]
    return SolverRows.from_tensors({name: torch.cat([t[name] for t in tensors])[order] for name in tensors[0]})
