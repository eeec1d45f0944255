"""The user's variables as rows (b, n): a tensor, a structure of tensors or the parameters of a module.

The solver knows rows only. Here x0 and bounds are flattened, and objective and constraints are wrapped so that they
get the variables in the form of x0, without a batch axis if x0 is one problem.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from pwcf.solvers.bounds import Bounds, make_bounds
from pwcf.solvers.constraints import Constraint
from pwcf.solvers.oracle import takes_rows

Function = Callable[..., Any]


class Leaf(NamedTuple):
    """One tensor of the variables."""

    label: str
    """How error messages call it: ``x0['weight']``."""
    shape: torch.Size
    """Without the batch axis."""
    dtype: torch.dtype

    @property
    def size(self) -> int:
        return math.prod(self.shape)


class Variables:
    """The form of x0, and the way from it to rows (b, n) and back.

    Args:
        x0: a tensor or array, a dict, list or tuple of these (nested as you like), or a module.
        batched: whether the first axis of every tensor counts problems. None: only that of a single tensor with two
            or more axes does.
    """

    def __init__(self, x0: Any, batched: bool | None = None) -> None:
        if batched is not None and not isinstance(batched, bool):
            raise TypeError(f"batched: expected True, False or None, found {batched!r}")
        self.module: nn.Module | None = None
        if isinstance(x0, nn.Module):
            if batched:
                raise ValueError("batched: expected False or None where x0 is a module, found True")
            self.module = x0
            x0 = trainable(x0)
            if not x0:
                raise ValueError("x0: expected a module with parameters that require gradients, found none")
        given = [(label, checked_leaf(label, leaf)) for label, leaf in leaves(x0, "x0")]
        self.tree = x0
        alone = len(given) == 1 and not isinstance(x0, (Mapping, list, tuple))
        self.single = not (batched if batched is not None else alone and given[0][1].dim() >= 2)
        tensors = [tensor.unsqueeze(0) if self.single else tensor for _, tensor in given]
        self.leaves = [Leaf(label, t.shape[1:], t.dtype) for (label, _), t in zip(given, tensors, strict=True)]
        self.flat = self._flattened([label for label, _ in given], tensors)
        self.plain = alone and not self.single
        self.value_shapes: dict[int, torch.Size] = {}
        """Shapes of the values of each constraint, for one problem: what they are flattened from."""

    def _flattened(self, labels: Sequence[str], tensors: Sequence[Tensor]) -> Tensor:
        """All tensors side by side, (b, n), a copy."""
        if not tensors:
            raise ValueError("x0: expected at least one tensor, found an empty structure")
        first = tensors[0]
        for label, tensor in zip(labels, tensors, strict=True):
            if tensor.dim() == 0:
                raise ValueError(f"{label}: expected (b, ...) with batched=True, found shape ()")
            if tensor.shape[0] != first.shape[0]:
                raise ValueError(
                    f"{label}: expected {first.shape[0]} rows as in {labels[0]}, found shape {tuple(tensor.shape)}"
                )
            if tensor.device != first.device:
                raise ValueError(f"{label}: expected device {first.device} as of {labels[0]}, found {tensor.device}")
        b, n = first.shape[0], sum(leaf.size for leaf in self.leaves)
        if b and n == 0:
            found = f"shape {tuple(first.shape)}" if len(tensors) == 1 else f"{len(tensors)} empty tensors"
            raise ValueError(f"x0: expected at least one entry per row, found {found}")
        dtype = torch.float64 if any(tensor.dtype == torch.float64 for tensor in tensors) else first.dtype
        rows = [t.detach().to(dtype).reshape(b, leaf.size) for t, leaf in zip(tensors, self.leaves, strict=True)]
        return torch.cat(rows, 1) if len(rows) > 1 else rows[0].clone()

    @property
    def shape(self) -> torch.Size:
        """Shape of a row as the oracle passes it on: the user's only for a batch given as one tensor."""
        return self.leaves[0].shape if self.plain else self.flat.shape[1:]

    def drop_batch(self, tensor: Tensor) -> Tensor:
        """(b, ...) -> the same, or (...) for one problem."""
        return tensor[0] if self.single else tensor

    def unflatten(self, rows: Tensor) -> Any:
        """Rows (b, n) in the form of x0; of a module, as a dict of its parameters."""
        return self._structure(rows[0] if self.single else rows)

    def _structure(self, x: Tensor) -> Any:
        """x (n,) or (a, n) in the form of x0."""
        parts = x.split_with_sizes([leaf.size for leaf in self.leaves], -1)
        given = zip(parts, self.leaves, strict=True)
        return rebuild(self.tree, (part.reshape((*x.shape[:-1], *leaf.shape)).to(leaf.dtype) for part, leaf in given))

    # ---- bounds and starts ------------------------------------------------------------------------

    def bounds(self, bounds: Any) -> Bounds:
        """The user's (lo, hi) as bounds of rows; a side is a number, None, or of the form of x0."""
        if isinstance(bounds, (tuple, list)):
            bounds = tuple(_as_tensor(side) for side in bounds)
        if len(self.leaves) == 1 and self.leaves[0].label == "x0":
            return make_bounds(bounds, self.flat, self.leaves[0].shape)
        if not isinstance(bounds, tuple) or len(bounds) != 2:
            return make_bounds(bounds, self.flat, self.shape)
        lower, upper = (
            list(spread(self.tree, side, f"bounds: {name}")) for side, name in zip(bounds, ("lo", "hi"), strict=True)
        )
        boxes = []
        for leaf, lo, hi in zip(self.leaves, lower, upper, strict=True):
            like = self.flat.new_zeros(self.flat.shape[0], leaf.size)
            try:
                boxes.append(make_bounds((lo, hi), like, leaf.shape))
            except (TypeError, ValueError) as error:
                raise type(error)(f"bounds of {leaf.label}: {str(error).removeprefix('bounds: ')}") from None
        return Bounds(
            self._side([box.lower for box in boxes], -torch.inf), self._side([b.upper for b in boxes], torch.inf)
        )

    def _side(self, sides: Sequence[Tensor | None], absent: float) -> Tensor | None:
        given = [side for side in sides if side is not None]
        if not given:
            return None
        rows = max(side.shape[0] for side in given)
        return torch.cat(
            [
                self.flat.new_full((rows, leaf.size), absent) if side is None else side.expand(rows, -1)
                for side, leaf in zip(sides, self.leaves, strict=True)
            ],
            1,
        )

    def starts(self, points: Any) -> Tensor:
        """Further starts in the form of x0, with one more axis in front: (R, b, *shape)."""
        if self.plain:
            return points  # type: ignore[no-any-return]  # the restarts check it
        label, b = "restarts.points", self.flat.shape[0]
        given = [checked_leaf(label, leaf) for leaf in spread(self.tree, points, label)]
        R = given[0].shape[0] if given[0].dim() else 0
        for tensor, leaf in zip(given, self.leaves, strict=True):
            expected = (R, *leaf.shape) if self.single else (R, b, *leaf.shape)
            if tensor.shape != expected:
                raise ValueError(
                    f"{label}: expected {expected} (R starts) for {leaf.label}, found {tuple(tensor.shape)}"
                )
        return torch.cat([tensor.detach().to(self.flat).reshape(R, b, -1) for tensor in given], -1)

    # ---- the user's functions ---------------------------------------------------------------------

    def functions(self, objective: Function, constraints: Sequence[Constraint]) -> tuple[Function, list[Constraint]]:
        """Objective and constraints as functions of rows (a, n)."""
        if self.plain:
            return objective, list(constraints)
        without = [i for i, c in enumerate(constraints) if c.function is None]
        wrapped = [
            c
            if c.function is None
            else replace(c, function=self._wrap(c.function, f"constraints[{i}] ({c.name})", [i]))
            for i, c in enumerate(constraints)
        ]
        return self._wrap(objective, "objective", [None, *without]), wrapped

    def _wrap(self, function: Any, label: str, places: Sequence[int | None]) -> Function:
        """The user's function as one of rows. ``places``: whose values it returns, None for the objective's."""
        if not callable(function):
            return cast(Function, function)  # the oracle refuses it by its name
        if not self.single:
            if takes_rows(function):
                return lambda x, rows: function(self._structure(x), rows)
            return lambda x: function(self._structure(x))
        call = function if self.module is None else _with_parameters(self.module, function)

        def each_row(x: Tensor) -> Any:
            results = [self._of_one(call, row, label) for row in x]
            if not isinstance(results[0], (tuple, list)):
                return self._stacked(results, label, places[0])
            columns = list(zip(*results, strict=True))
            # Values too many are refused by the oracle.
            owners = [*places, *(len(columns) * [-1])][: len(columns)]
            return tuple(
                self._stacked(column, label if j == 0 else f"{label}, value {j}", owner)
                for j, (column, owner) in enumerate(zip(columns, owners, strict=True))
            )

        return each_row

    def _of_one(self, call: Function, row: Tensor, label: str) -> Any:
        try:
            return call(self._structure(row))
        except Exception as error:
            error.add_note(f"{label}: x0 is one problem, so functions get {self._described()}")
            raise

    def _described(self) -> str:
        if self.module is not None:
            return f"the module, a {type(self.module).__name__}"
        if len(self.leaves) == 1 and self.leaves[0].label == "x0":
            return f"a tensor of shape {tuple(self.leaves[0].shape)} without a batch axis"
        return "tensors in the form of x0, without a batch axis"

    def _stacked(self, values: Sequence[Any], label: str, place: int | None) -> Tensor:
        """One value of every row as the oracle wants it: (a,) of the objective, else (a, k)."""
        for value in values:
            if not isinstance(value, Tensor):
                raise TypeError(f"{label}: expected a tensor for one problem, found {type(value).__name__}")
            if place is None and value.numel() != 1:
                raise ValueError(
                    f"{label}: expected one value for one problem, found shape {tuple(value.shape)}; x0 with "
                    "batched=True is a batch of problems"
                )
        if place is not None:
            self.value_shapes[place] = values[0].shape
        return torch.stack([value.reshape(() if place is None else (-1,)) for value in values])


# ---- structures -----------------------------------------------------------------------------------


def leaves(tree: Any, label: str) -> Iterator[tuple[str, Any]]:
    """The leaves of nested dicts, lists and tuples, each with its label."""
    if isinstance(tree, Mapping):
        for key, part in tree.items():
            yield from leaves(part, f"{label}[{key!r}]")
    elif isinstance(tree, (list, tuple)):
        for i, part in enumerate(tree):
            yield from leaves(part, f"{label}[{i}]")
    else:
        yield label, tree


def rebuild(tree: Any, values: Iterator[Any]) -> Any:
    """A structure like ``tree`` with other leaves. Dicts of any kind become plain ones."""
    if isinstance(tree, Mapping):
        return {key: rebuild(part, values) for key, part in tree.items()}
    if isinstance(tree, (list, tuple)):
        parts = [rebuild(part, values) for part in tree]
        if isinstance(tree, list):
            return parts
        return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)
    return next(values)


def spread(tree: Any, value: Any, label: str) -> Iterator[Any]:
    """One value for every leaf of ``tree``, from the same structure; a number or None counts for all below it.

    Keys that a dict lacks count as None.
    """
    value = _as_tensor(value)
    common = not isinstance(value, (Mapping, list, tuple)) and not (isinstance(value, Tensor) and value.dim())
    if isinstance(tree, Mapping) and not common:
        if not isinstance(value, Mapping):
            raise TypeError(f"{label}: expected a dict as x0, a number or None, found {type(value).__name__}")
        unknown = [key for key in value if key not in tree]
        if unknown:
            raise ValueError(f"{label}: expected some of the keys {list(tree)}, found {unknown[0]!r}")
        for key, part in tree.items():
            yield from spread(part, value.get(key), f"{label}[{key!r}]")
    elif isinstance(tree, (list, tuple)) and not common:
        if not isinstance(value, (list, tuple)) or len(value) != len(tree):
            found = f"{len(value)} entries" if isinstance(value, (list, tuple)) else type(value).__name__
            raise TypeError(f"{label}: expected {len(tree)} entries as x0, a number or None, found {found}")
        for i, part in enumerate(tree):
            yield from spread(part, value[i], f"{label}[{i}]")
    elif isinstance(tree, (Mapping, list, tuple)):
        for _ in leaves(tree, label):
            yield value
    else:
        yield value


def trainable(x0: Any) -> Any:
    """x0, or of a module the dict of its parameters that require gradients."""
    if isinstance(x0, nn.Module):
        return {name: tensor.detach() for name, tensor in x0.named_parameters() if tensor.requires_grad}
    return x0


def _as_tensor(value: Any) -> Any:
    """Arrays and numbers of NumPy as tensors; anything else as it is."""
    return torch.as_tensor(value) if isinstance(value, (np.ndarray, np.generic)) else value


def checked_leaf(label: str, value: Any) -> Tensor:
    """A leaf as a tensor; anything but float32 and float64 is refused."""
    value = _as_tensor(value)
    if not isinstance(value, Tensor):
        raise TypeError(
            f"{label}: expected a tensor, a dict, list or tuple of tensors, or a module, found {type(value).__name__}"
        )
    if value.dtype not in (torch.float32, torch.float64):
        raise TypeError(f"{label}: expected float32 or float64, found {value.dtype}")
    return value


# ---- modules --------------------------------------------------------------------------------------


class _Holder(nn.Module):
    """Calls a function of a module, so that ``functional_call`` can exchange the module's parameters meanwhile."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, function: Function) -> Any:
        return function(self.module)


def _with_parameters(module: nn.Module, function: Function) -> Function:
    """A function of a dict of parameters: the user's function of the module while it has these parameters.

    The module itself is lent, not a copy: functions that reach it by another way see the same parameters. Buffers
    (running means) are copies that are thrown away, so that evaluations neither depend on each other nor leave a trace.
    """
    holder = _Holder(module)

    def call(parameters: dict[str, Tensor]) -> Any:
        tensors = {f"module.{name}": buffer.clone() for name, buffer in module.named_buffers()}
        tensors |= {f"module.{name}": tensor for name, tensor in parameters.items()}
        return torch.func.functional_call(holder, tensors, (function,))

    return call
