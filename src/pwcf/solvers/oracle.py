"""Values and gradients of the user's functions for chosen rows, with checks of what the functions return."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pwcf.solvers.bounds import Bounds
from pwcf.solvers.constraints import Constraint
from pwcf.solvers.folding import fold
from pwcf.solvers.units import Units

Function = Callable[..., Any]


# Columns behind folds that the stopping test looks at one by one; its QP grows with the cube of their number.
MAX_COMPONENTS = 128
# Up to so many columns of a function are differentiated one by one: a vmap costs as much as about three passes back.
FEW_COLUMNS = 3
# Rows that the functions are checked with: a check of all costs as much as an evaluation and a half.
CHECKED_ROWS = 8
_NEEDS_ROWS = (
    "objective/constraints: values change when fewer rows are evaluated. With slots= smaller than the batch a "
    "function must accept any rows: let it take a second argument `rows` (indices into the batch) to pick "
    "per-row data"
)


class Evaluation(NamedTuple):
    """Values and gradients of f and all constraint columns for a rows.

    ``values`` (a, 1+p) in float64 and ``gradients`` (a, 1+p, n), as the functions give them: finite or not.
    """

    values: Tensor
    gradients: Tensor


@dataclass
class _Source:
    """A user's function and whether it wants the row indices."""

    function: Function
    takes_rows: bool

    def __call__(self, x: Tensor, rows: Tensor) -> Any:
        return self.function(x, rows) if self.takes_rows else self.function(x)


class Oracle:
    """Evaluates objective and constraints for any selection of rows.

    A function written for one argument gets just the rows being evaluated. If it takes ``rows`` too it
    gets their indices, so that it can pick per-row data. A one-argument function that carries data for
    the whole batch (found out by a trial) is served whole batches; then rows cannot be queued.
    """

    def __init__(
        self, objective: Function, constraints: Sequence[Constraint], shape: torch.Size, batch: int, unit: Units
    ) -> None:
        self.shape, self.batch, self.unit = shape, batch, unit
        self.constraints = tuple(constraints)
        self.objective = _source(objective, "objective")
        self.sources = [
            None if c.function is None else _source(c.function, f"constraints[{i}]")
            for i, c in enumerate(self.constraints)
        ]
        self.whole_batch: Tensor | None = None
        self.project: Callable[[Tensor], Tensor] = lambda x: x
        self.columns: list[int] = []
        self.equality: Tensor = torch.zeros(0, dtype=torch.bool)

    @property
    def fused(self) -> bool:
        return any(source is None for source in self.sources)

    @property
    def p(self) -> int:
        """Number of constraint columns after folding."""
        return sum(self.columns)

    @property
    def folded(self) -> bool:
        """Whether some constraint shows only the norm of its columns."""
        return any(c.fold is not None for c in self.constraints)

    def prepare(self, x: Tensor, rows: Tensor, bounds: Bounds) -> None:
        """Learn the number of columns from one evaluation, and check that rows are independent."""
        if x.shape[0] <= CHECKED_ROWS or not self._few_suffice(x[:CHECKED_ROWS], rows[:CHECKED_ROWS], bounds):
            self._learn(x, rows, bounds)

    def _few_suffice(self, x: Tensor, rows: Tensor, bounds: Bounds) -> bool:
        """Learn from a few rows; False if their function needs the whole batch, or is not as it should be."""
        try:
            self._learn(x, rows, bounds)
        except (RuntimeError, IndexError, ValueError, TypeError):
            return False
        return True

    def _learn(self, x: Tensor, rows: Tensor, bounds: Bounds) -> None:
        self.project = bounds.of(rows).project
        pick = torch.arange(x.shape[0] - 1, -1, -2, device=x.device)
        shifted = self._others_moved(self.project(x), pick)
        try:
            with torch.no_grad():
                outputs = self._outputs(shifted, rows)
        except (RuntimeError, IndexError) as error:
            if x.shape[0] == self.batch:
                raise
            raise ValueError(f"{_NEEDS_ROWS} ({error})") from error
        self.columns = [o.shape[1] for o in outputs[1:]]
        eq = [c.sense == "eq" and c.fold is None for c in self.constraints]
        flags = [flag for flag, k in zip(eq, self.columns, strict=True) for _ in range(k)]
        self.equality = torch.tensor(flags, dtype=torch.bool, device=x.device)
        if x.shape[0] > 1:
            self._check_rows(shifted, rows, pick, torch.cat(outputs, 1))

    def evaluate(self, x: Tensor, rows: Tensor) -> Evaluation:
        """Values and gradients at x (a, n) for the rows (a,) of the user's batch."""
        point = x.detach().clone().requires_grad_(True)
        with torch.enable_grad():
            outputs = self._outputs(point, rows)
            gradients = _gradients(outputs, point)
        values = torch.cat([o.detach() for o in outputs], 1).double()
        return Evaluation(values, gradients)

    def components(self, x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor] | None:
        """The columns behind the folds, one by one: values (a, k), gradients (a, k, n), equality (k,).

        Only for constraints with a function of their own (a fused one would cost the objective's pass) and
        at most MAX_COMPONENTS columns; None otherwise.
        """
        folded = [(c, s) for c, s in zip(self.constraints, self.sources, strict=True) if c.fold is not None]
        if not folded or self.whole_batch is not None or any(source is None for _, source in folded):
            return None
        point = x.detach().clone().requires_grad_(True)
        with torch.enable_grad():
            outputs = []
            for constraint, source in folded:
                assert source is not None
                value = source(self.unit.to_user(point, rows).reshape(-1, *self.shape), rows)
                outputs.append(_column(value, x.shape[0], constraint.name, False))
            if sum(o.shape[1] for o in outputs) > MAX_COMPONENTS:
                return None
            gradients = _gradients(outputs, point)
        values = torch.cat([o.detach() for o in outputs], 1).double()
        equality = [c.sense == "eq" for (c, _), o in zip(folded, outputs, strict=True) for _ in range(o.shape[1])]
        # Columns that are not finite say nothing: zero ones do not change the bound.
        finite = torch.isfinite(values) & torch.isfinite(gradients.sum(-1))
        gradients = torch.where(finite.unsqueeze(-1), gradients, torch.zeros_like(gradients))
        return torch.where(finite, values, 0.0), gradients, torch.tensor(equality, device=x.device)

    # ---- calling the user's functions -------------------------------------------------------------

    def _outputs(self, x: Tensor, rows: Tensor) -> list[Tensor]:
        """[f (a, 1), columns of each constraint (a, k)], through the whole batch if need be."""
        x = self.unit.to_user(x, rows)
        if self.whole_batch is None:
            return self._call(x.reshape(-1, *self.shape), rows)
        full = self.whole_batch.clone().index_copy(0, rows, x)
        everyone = torch.arange(self.batch, device=x.device)
        outputs = self._call(full.reshape(-1, *self.shape), everyone)
        return [o[rows] for o in outputs]

    def _call(self, x: Tensor, rows: Tensor) -> list[Tensor]:
        a = x.shape[0]
        result = self.objective(x, rows)
        extra: list[Any] = []
        if self.fused:
            if not isinstance(result, (tuple, list)):
                raise TypeError(
                    "objective: some constraints have no function of their own, so the objective must return "
                    f"(f, c_1, ...); found {type(result).__name__}"
                )
            result, *extra = result
            wanted = sum(source is None for source in self.sources)
            if len(extra) != wanted:
                raise ValueError(
                    f"objective: returned {len(extra)} constraint values beside f, but constraints= has "
                    f"{wanted} without a function of their own"
                )
        outputs = [_column(result, a, "objective", True)]
        given = iter(extra)
        for i, (constraint, source) in enumerate(zip(self.constraints, self.sources, strict=True)):
            value = next(given) if source is None else source(x, rows)
            value = _column(value, a, f"constraints[{i}] ({constraint.name})", False)
            if constraint.fold is not None:
                value = fold(value, constraint.sense, constraint.fold).unsqueeze(1)
            outputs.append(value)
        return outputs

    # ---- rows must be independent -----------------------------------------------------------------

    def _check_rows(self, x: Tensor, rows: Tensor, pick: Tensor, values: Tensor) -> None:
        """Values of the rows ``pick`` must be the same without the other rows."""
        try:
            with torch.no_grad():
                alone = torch.cat(self._outputs(x[pick], rows[pick]), 1)
            if _same(alone, values[pick]):
                return
        except (RuntimeError, IndexError, ValueError, TypeError):
            pass
        # Not served by fewer rows: either rows are coupled, or the function holds data of the whole batch.
        if x.shape[0] != self.batch:
            raise ValueError(_NEEDS_ROWS)
        again = torch.cat(self._evaluate_whole(x, rows), 1)
        others = torch.cat(self._evaluate_whole(self._others_moved(x, pick), rows), 1)
        labels = ["objective"] + [
            f"constraints[{i}] ({c.name})"
            for i, (c, k) in enumerate(zip(self.constraints, self.columns, strict=True))
            for _ in range(k)
        ]
        for j, label in enumerate(labels):
            if not _same(again[:, j], values[:, j]):
                raise ValueError(
                    f"{label}: two calls with the same input gave different values; expected a deterministic "
                    "function (put the model in eval mode, fix the randomness)"
                )
            if not _same(others[pick, j], values[pick, j]):
                raise ValueError(
                    f"{label}: the value of a row changes when other rows change; expected a function that treats "
                    "rows independently, (b, ...) -> (b,) (no mean or sum over the batch, no batch norm in train mode)"
                )
        self.whole_batch = self.unit.to_user(x, rows).detach().clone()

    def _others_moved(self, x: Tensor, pick: Tensor) -> Tensor:
        """x with all rows but ``pick`` moved a little, each by another amount: equal rows would hide a coupling."""
        size = 1e-2 * torch.linspace(1, 2, x.shape[0], dtype=x.dtype, device=x.device).unsqueeze(-1)
        step = size * (1 + x.abs())
        up, down = self.project(x + step), self.project(x - step)
        moved = torch.where(up != x, up, down)
        moved[pick] = x[pick]
        return moved

    def _evaluate_whole(self, x: Tensor, rows: Tensor) -> list[Tensor]:
        with torch.no_grad():
            return self._call(self.unit.to_user(x, rows).reshape(-1, *self.shape), rows)


def _source(function: Function, label: str) -> _Source:
    if not callable(function):
        raise TypeError(f"{label}: expected a function (b, ...) -> (b,), found {type(function).__name__}")
    return _Source(function, takes_rows(function))


def takes_rows(function: Function) -> bool:
    """Whether a function of the user wants the row indices as its second argument."""
    target = function.forward if isinstance(function, torch.nn.Module) else function
    try:
        parameters = list(inspect.signature(target).parameters.values())
    except (TypeError, ValueError):
        return False
    positional = [q for q in parameters if q.kind in (q.POSITIONAL_ONLY, q.POSITIONAL_OR_KEYWORD)]
    required = [q for q in positional if q.default is q.empty]
    return len(required) >= 2 or any(q.name == "rows" for q in positional[1:])


def _column(value: Any, a: int, label: str, single: bool) -> Tensor:
    expected = f"({a},)" if single else f"({a},) or ({a}, k)"
    if not isinstance(value, Tensor):
        raise TypeError(f"{label}: expected a tensor of shape {expected}, found {type(value).__name__}")
    if not value.is_floating_point():
        raise TypeError(f"{label}: expected a floating point tensor, found {value.dtype}")
    right = value.shape == (a,) or (value.dim() == 2 and value.shape[0] == a and (not single or value.shape[1] == 1))
    if not right:
        raise ValueError(
            f"{label}: expected shape {expected} for {a} rows (one value per row), found {tuple(value.shape)}"
        )
    return value.unsqueeze(1) if value.dim() == 1 else value


def _gradients(outputs: Sequence[Tensor], x: Tensor) -> Tensor:
    """Gradients of every column with respect to its own row: (a, columns, n)."""
    a, n = x.shape
    last = len(outputs) - 1
    parts = [
        _jacobian(output, x, keep=index < last) if output.requires_grad else x.new_zeros(a, output.shape[1], n)
        for index, output in enumerate(outputs)
    ]
    return parts[0] if last == 0 else torch.cat(parts, 1)


def _jacobian(output: Tensor, x: Tensor, keep: bool) -> Tensor:
    """Gradients of the columns of one output (a, k): (a, k, n). Many columns go through one vmap."""
    a, k = output.shape
    if k > FEW_COLUMNS:
        seeds = torch.eye(k, dtype=output.dtype, device=output.device).unsqueeze(1).expand(k, a, k)
        try:
            (grad,) = torch.autograd.grad(output, x, seeds, retain_graph=True, allow_unused=True, is_grads_batched=True)
            return x.new_zeros(a, k, x.shape[1]) if grad is None else grad.transpose(0, 1).to(x.dtype)
        except RuntimeError:  # an operation without a batching rule: column by column
            pass
    seeds = torch.ones_like(output)
    if k > 1:
        seeds = torch.eye(k, dtype=output.dtype, device=output.device).unsqueeze(1).expand(k, a, k)
    grads = []
    for j in range(k):
        seed = seeds[j] if k > 1 else seeds
        (grad,) = torch.autograd.grad(output, x, seed, retain_graph=keep or j < k - 1, allow_unused=True)
        grads.append(torch.zeros_like(x) if grad is None else grad)
    if k == 1:
        return grads[0].unsqueeze(1)
    return torch.stack(grads, 1) if grads else x.new_zeros(a, 0, x.shape[1])


def _same(left: Tensor, right: Tensor) -> bool:
    """Equal up to the rounding that another batch size may cause (NaN equals NaN)."""
    if left.shape != right.shape:
        return False
    tolerance = 1e-8 if left.dtype == torch.float64 else 1e-3
    return torch.allclose(left, right, rtol=tolerance, atol=tolerance, equal_nan=True)
