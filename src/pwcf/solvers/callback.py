"""The user's callback: what it is shown after every evaluation, and which rows it ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pwcf.solvers.host import Array, positions, select, where_true
from pwcf.solvers.state import RUNNING, STATUSES, SolverRows
from pwcf.solvers.variables import Variables

Callback = Callable[["Progress"], Any]
"""Called with a ``Progress``. Returns None or False to go on, True to end all rows, (b,) bools to end some."""


@dataclass(frozen=True)
class Progress:
    """What a callback sees: the best point of every row until now. The tensors are copies.

    For one problem the batch axis is left out, as in ``Solution``.
    """

    x: Any
    """(b, ...), or the structure of x0: the best feasible point seen, else the least violating one."""
    objective: Tensor
    """(b,) float64, f at x; NaN for rows that wait for a slot."""
    violation: Tensor
    """(b,) float64, total violation at x; inf for rows that wait for a slot."""
    iterations: Tensor
    """(b,) int64, directions taken."""
    evaluations: Tensor
    """(b,) int64, evaluations of this call's functions, without those of the first stage of restarts."""
    running: Tensor
    """(b,) bool: rows in work or waiting for a slot."""
    status: Any
    """How each row ended, None while it runs: a list, or one value for one problem."""
    seconds: float
    """Time since the call of ``minimize``."""


class Watch:
    """Keeps the state of all b rows for the callback, and which of them it wants to end."""

    def __init__(self, callback: Callback, variables: Variables, x0: Tensor, began: float) -> None:
        b = x0.shape[0]
        self.callback, self.variables, self.began = callback, variables, began
        self.stop = np.zeros(b, dtype=bool)
        self.x = x0.clone()
        self.objective, self.violation = np.full(b, np.nan), np.full(b, np.inf)
        self.iterations, self.evaluations = np.zeros(b, dtype=np.int64), np.zeros(b, dtype=np.int64)
        self.status = np.full(b, RUNNING, dtype=np.int64)

    def record(self, S: SolverRows, ids: Array) -> None:
        """Take over the rows in the slots; ``ids`` (B,) tells which they are, -1 for an empty slot."""
        used = where_true(ids >= 0)
        who = ids[used]
        self.x[positions(who, self.x.device)] = select(S.answer, used)
        self.objective[who], self.violation[who] = S.best_values[used, 0], S.best_violation[used]
        self.iterations[who], self.evaluations[who] = S.iterations[used], S.evaluations[used]
        self.status[who] = S.status[used]

    def call(self) -> None:
        """Show the rows to the callback and keep which of them it ends."""
        device = self.x.device

        def shown(array: Array) -> Tensor:
            return self.variables.drop_batch(torch.from_numpy(array.copy()).to(device))

        ended = [None if code == RUNNING else STATUSES[code] for code in self.status.tolist()]
        progress = Progress(
            x=self.variables.unflatten(self.x.clone()),
            objective=shown(self.objective), violation=shown(self.violation),
            iterations=shown(self.iterations), evaluations=shown(self.evaluations),
            running=shown(self.status == RUNNING), status=ended[0] if self.variables.single else ended,
            seconds=time.monotonic() - self.began,
        )  # fmt: skip
        try:
            answer = self.callback(progress)
        except StopIteration:  # SciPy's way to stop
            answer = True
        if answer is not None:
            self.stop |= self._rows(answer)

    def _rows(self, answer: object) -> Array | bool:
        b = len(self.stop)
        if isinstance(answer, Tensor) and answer.dtype == torch.bool and answer.shape in ((), (b,)):
            return answer.cpu().numpy()
        if not isinstance(answer, (bool, np.bool_)):
            shape = f" {answer.dtype} {tuple(answer.shape)}" if isinstance(answer, Tensor) else ""
            raise TypeError(
                f"callback: expected it to return None, a bool or a bool tensor ({b},), "
                f"found {type(answer).__name__}{shape}"
            )
        return bool(answer)
