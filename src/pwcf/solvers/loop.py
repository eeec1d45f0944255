"""The one loop: slots, queue, budgets, compaction, trajectory. Solvers supply init, trial and step.

A tick evaluates exactly the rows in work. A row that ends leaves its slot, the next one waiting takes it;
when nobody waits the state is compacted, so that work shrinks with the number of rows left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from pwcf.solvers.bfgs_sqp import BfgsSqp
from pwcf.solvers.oracle import Evaluation, Oracle
from pwcf.solvers.state import RUNNING, START, Rows
from pwcf.solvers.status import STATUSES, Status

# Compact when this share of the slots is empty: copying the state each time a row ends would cost more
# than carrying a few empty slots.
EMPTY_SHARE = 1 / 8


@dataclass(frozen=True)
class Limits:
    """When rows must end: iterations, and evaluations per row (P,) or None."""

    max_iterations: int
    budget: Tensor | None
    slots: int


@dataclass
class Log:
    """What was asked to be kept beside the answers."""

    keep_state: bool = False
    trajectory: bool = False
    on_end: Callable[[Tensor], None] | None = None
    entries: list[tuple[Tensor, ...]] = field(default_factory=list)


class Queue:
    """Rows waiting for a slot: fresh starts or saved states."""

    def __init__(self, solver: BfgsSqp, x0: Tensor, users: Tensor, saved: Rows | None) -> None:
        self.solver, self.x0, self.users, self.saved = solver, x0, users, saved
        self.position, self.total = 0, users.numel()

    def take(self, count: int) -> tuple[Tensor, Rows]:
        """The next ``count`` problems and their states."""
        ids = torch.arange(self.position, min(self.position + count, self.total), device=self.users.device)
        self.position += ids.numel()
        if self.saved is not None:
            return ids, self.saved.select(ids)
        return ids, self.solver.init(self.x0[ids], self.users[ids])

    @property
    def waiting(self) -> int:
        return self.total - self.position


def run(solver: BfgsSqp, oracle: Oracle, queue: Queue, limits: Limits, log: Log) -> Rows:
    """Solve all problems of the queue; returns their final states, problem by problem.

    Without ``log.keep_state`` the bulky parts (pairs, cuts, gradients) are dropped as rows leave.
    """
    ids, S = queue.take(limits.slots)
    left: list[tuple[Tensor, Rows]] = []
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
            _trace(log, solver, S, ids, (S.iterations > before) & alive)
    return _in_order(left)


def _stop_at_limits(S: Rows, ids: Tensor, alive: Tensor, limits: Limits) -> None:
    late = alive & (S.iterations >= limits.max_iterations) & (S.phase != START)
    S.status[late] = STATUSES.index(Status.MAX_ITERATIONS)
    if limits.budget is not None:
        spent = alive & (S.evaluations >= limits.budget[ids.clamp(min=0)])
        S.status[spent] = STATUSES.index(Status.BUDGET)


def _evaluate(oracle: Oracle, S: Rows, trial: Tensor, alive: Tensor) -> Evaluation:
    """Evaluate just the rows alive; the others get zeros that nobody reads."""
    if bool(alive.all()):
        return oracle.evaluate(trial, S.index)
    rows = alive.nonzero().squeeze(-1)
    part = oracle.evaluate(trial[rows], S.index[rows])
    whole = (new.new_zeros(S.count, *new.shape[1:]) for new in part)
    return Evaluation(*(w.index_copy(0, rows, new) for w, new in zip(whole, part, strict=True)))


def _trace(log: Log, solver: BfgsSqp, S: Rows, ids: Tensor, moved: Tensor) -> None:
    rows = moved.nonzero().squeeze(-1)
    if rows.numel():
        entry = (
            ids[rows], S.iterations[rows], S.values[rows, 0], solver.user_violation(S.values[rows]),
            S.gap[rows], S.mu[rows], S.stride[rows],
        )  # fmt: skip
        log.entries.append(tuple(tensor.clone() for tensor in entry))


def _in_order(left: list[tuple[Tensor, Rows]]) -> Rows:
    ids = torch.cat([i for i, _ in left])
    order = ids.argsort()
    tensors = [rows.tensors() for _, rows in left]
    return Rows.from_tensors({name: torch.cat([t[name] for t in tensors])[order] for name in tensors[0]})
