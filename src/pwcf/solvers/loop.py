"""The loop that owns slots, queue, budgets, compaction and trajectory. A solver supplies init, trial and step.

A tick evaluates exactly the rows in work. A row that ends leaves its slot, the next one waiting takes it;
when nobody waits the state is compacted, so that work shrinks with the number of rows left.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from pwcf._common.status import Status
from pwcf.solvers.callback import Watch
from pwcf.solvers.host import Array, positions, where_true
from pwcf.solvers.oracle import Evaluation, Oracle
from pwcf.solvers.state import CODE, RUNNING, START, SolverProblem, SolverRows

# Compact when this share of the slots is empty: copying the state each time a row ends would cost more
# than carrying a few empty slots.
EMPTY_SHARE = 1 / 8


class Solver(Protocol):
    """The interface between the loop and an algorithm."""

    @property
    def problem(self) -> SolverProblem:
        """What is solved."""

    def init(self, x0: Tensor, index: Tensor) -> SolverRows:
        """Fresh state for rows that start at x0 (B, n); ``index`` (B,) are their places in the user's batch."""

    def trial(self, S: SolverRows) -> Tensor:
        """The points to evaluate next, (B, n)."""

    def step(self, S: SolverRows, x: Tensor, ev: Evaluation, alive: Array) -> None:
        """Digest the evaluation of the trial points x (B, n); rows that are not ``alive`` (B,) stay as they are."""

    def assess(self, S: SolverRows, rows: Array) -> None:
        """Evidence for those of ``rows`` that a limit has stopped."""


@dataclass(frozen=True)
class Limits:
    """When rows must end, beside the solver's own reasons. ``slots`` rows are in work at once."""

    max_iterations: int
    budget: Array | None
    """(P,) evaluations per row."""
    slots: int
    deadline: float | None = None
    """In seconds of ``time.monotonic``. Every row is evaluated at least once."""
    target: Array | None = None
    """(P,) a row ends at a feasible point with an objective this low."""
    feasibility: float = 0.0
    """The total violation up to which a point counts as feasible."""


@dataclass
class Log:
    """What to record beside the answers, and whom to tell of rows that end and of every tick."""

    keep_state: bool = False
    trajectory: bool = False
    on_end: Callable[[Array], None] | None = None
    watch: Watch | None = None
    entries: list[tuple[Array, ...]] = field(default_factory=list)


class Queue:
    """Rows waiting for a slot: fresh starts or saved states."""

    def __init__(self, solver: Solver, x0: Tensor, users: Tensor, saved: SolverRows | None) -> None:
        self.solver, self.x0, self.users, self.saved = solver, x0, users, saved
        self.position, self.total = 0, users.numel()

    def take(self, count: int) -> tuple[Array, SolverRows]:
        """The next ``count`` problems and their states."""
        first, last = self.position, min(self.position + count, self.total)
        self.position = last
        ids = np.arange(first, last)
        if self.saved is not None:
            return ids, self.saved.select(ids)
        return ids, self.solver.init(self.x0[first:last].clone(), self.users[first:last].clone())

    @property
    def waiting(self) -> int:
        return self.total - self.position


def run(solver: Solver, oracle: Oracle, queue: Queue, limits: Limits, log: Log) -> SolverRows:
    """Solve all problems of the queue; returns their final states, problem by problem.

    Without ``log.keep_state`` the bulky parts (pairs, cuts, gradients) are dropped as rows leave.
    """
    ids, S = queue.take(limits.slots)
    left: list[tuple[Array, SolverRows]] = []
    while len(ids):
        alive = (S.status == RUNNING) & (ids >= 0)
        _stop_at_limits(S, ids, alive, limits, log.watch)
        alive &= S.status == RUNNING
        if not alive.all():
            gone = where_true(~alive & (ids >= 0))
            if len(gone):
                solver.assess(S, gone)
                if log.watch is not None:
                    log.watch.record(S, ids)
                left.append((ids[gone], S.select(gone) if log.keep_state else S.answers(gone)))
                ids[gone] = -1
                if log.on_end is not None:
                    log.on_end(S.status[gone])
            free = where_true(ids < 0)
            if queue.waiting:
                new, fresh = queue.take(len(free))
                S.assign(free[: len(new)], fresh)
                ids[free[: len(new)]] = new
                continue
            if len(free) == len(ids):
                break
            if len(free) >= EMPTY_SHARE * len(ids):
                kept = where_true(ids >= 0)
                ids, S, alive = ids[kept], S.select(kept), alive[kept]
        x = solver.trial(S)
        before = S.iterations.copy() if log.trajectory else None
        solver.step(S, x, _evaluate(oracle, S, x, alive), alive)
        if before is not None:
            _trace(log, solver, S, ids, (S.iterations > before) & alive)
        if log.watch is not None:
            log.watch.record(S, ids)
            log.watch.call()
    return _in_order(left)


def _stop_at_limits(S: SolverRows, ids: Array, alive: Array, limits: Limits, watch: Watch | None) -> None:
    started = alive & (S.phase != START)
    S.status[started & (S.iterations >= limits.max_iterations)] = CODE[Status.MAX_ITERATIONS]
    # Empty slots have a number too, for nothing.
    if limits.budget is not None:
        S.status[alive & (S.evaluations >= limits.budget[ids])] = CODE[Status.BUDGET]
    if limits.deadline is not None and time.monotonic() >= limits.deadline:
        S.status[started] = CODE[Status.TIME_LIMIT]
    if watch is not None:
        S.status[started & watch.stop[ids]] = CODE[Status.STOPPED]
    if limits.target is not None:
        reached = started & (S.best_violation <= limits.feasibility) & (S.best_values[:, 0] <= limits.target[ids])
        S.status[reached] = CODE[Status.TARGET]


def _evaluate(oracle: Oracle, S: SolverRows, x: Tensor, alive: Array) -> Evaluation:
    """Evaluate just the rows alive; the others get zeros that nobody reads."""
    if alive.all():
        return oracle.evaluate(x, S.index)
    rows = positions(where_true(alive), x.device)
    part = oracle.evaluate(x[rows], S.index[rows])
    whole = (new.new_zeros(S.count, *new.shape[1:]) for new in part)
    return Evaluation(*(w.index_copy_(0, rows, new) for w, new in zip(whole, part, strict=True)))


def _trace(log: Log, solver: Solver, S: SolverRows, ids: Array, moved: Array) -> None:
    rows = where_true(moved)
    if len(rows):
        values = S.values[rows]
        log.entries.append(
            (
                ids[rows], S.iterations[rows], values[:, 0], solver.problem.violation(values),
                S.gap[rows], S.mu[rows], S.stride[rows],
            )
        )  # fmt: skip


def _in_order(left: list[tuple[Array, SolverRows]]) -> SolverRows:
    order = np.concatenate([ids for ids, _ in left]).argsort()
    tables = [rows.fields() for _, rows in left]

    def joined(parts: list[Any]) -> Any:
        if isinstance(parts[0], Tensor):
            whole = torch.cat(parts)
            return whole[positions(order, whole.device)]
        return np.concatenate(parts)[order]

    return SolverRows.from_fields({name: joined([table[name] for table in tables]) for name in tables[0]})
