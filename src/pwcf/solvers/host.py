"""The border between the host and the device.

What decides (values, penalties, step lengths, phases, quadratic programs) is small and lives on the host, as NumPy
arrays in float64; an operation there costs a fraction of a launch. What has n entries a row stays on the device, as
tensors. Every transfer makes the host wait for the device, so that what belongs together is moved together.

The batch law holds for the arrays too: sums go over the last axis of contiguous arrays, and products through
``np.matmul``, which multiplies the matrices of a batch one by one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Array = npt.NDArray[Any]


def fetch(*tensors: Tensor) -> list[Array]:
    """Tensors (r, ...) as arrays of the host in float64, by one transfer. On the host itself they may share memory."""
    if tensors[0].device.type == "cpu":
        return [tensor.double().numpy() for tensor in tensors]
    return transfer(tensors)


def transfer(tensors: Sequence[Tensor]) -> list[Array]:
    """Pack tensors (r, ...) of any dtypes into one, move it to the host, and unpack it there."""
    r = tensors[0].shape[0]
    columns = [tensor.reshape(r, math.prod(tensor.shape[1:])).double() for tensor in tensors]
    packed = torch.cat(columns, 1).cpu().numpy()
    parts = np.split(packed, np.cumsum([column.shape[1] for column in columns])[:-1], 1)
    return [np.ascontiguousarray(part).reshape(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]


def fetch_one(tensor: Tensor) -> Array:
    """A tensor on the host, in float64."""
    return fetch(tensor)[0]


def send(array: Array, like: Tensor) -> Tensor:
    """An array as a tensor on the device of ``like``, numbers in its dtype."""
    tensor = torch.from_numpy(array)
    if tensor.dtype == torch.float64:
        return tensor.to(device=like.device, dtype=like.dtype)
    return tensor.to(like.device)


def factor(array: Array, like: Tensor) -> Tensor:
    """One number a row (r,) as a factor (r, 1) of vectors ``like`` (r, n)."""
    return send(array[:, None], like)


def positions(rows: Array | Tensor, device: torch.device) -> Tensor:
    """Row numbers as an index on the device."""
    return rows if isinstance(rows, Tensor) else torch.from_numpy(rows).to(device)


def select(tensor: Tensor, rows: Array) -> Tensor:
    """The ``rows`` (r,) of a tensor, in ascending order, without a copy when they are all of them."""
    return tensor if len(rows) == tensor.shape[0] else tensor[positions(rows, tensor.device)]


def part(array: Array, rows: Array) -> Array:
    """The ``rows`` of an array, to be read only: they are not copied when they are all of them."""
    return array if len(rows) == len(array) else array[rows]


def largest(table: Array) -> Array:
    """The largest entries over the last axis, which is short: one pass for each of its entries."""
    if table.shape[-1] > 8:
        return np.asarray(table.max(-1))
    found = table[..., 0].copy()
    for column in range(1, table.shape[-1]):
        np.maximum(found, table[..., column], out=found)
    return found


def where_true(mask: Array) -> Array:
    """The rows of a mask (B,)."""
    return mask.nonzero()[0]


def portions(rows: Array, size: int) -> list[Array]:
    """``rows`` in pieces of at most ``size``."""
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def matvec(matrix: Array, vector: Array) -> Array:
    """Batched product "b i k, b k -> b i"."""
    product: Array = np.matmul(matrix, vector[..., None])[..., 0]
    return product


def dot(left: Array, right: Array) -> Array:
    """Inner products over the last axis."""
    product: Array = (left * right).sum(-1)
    return product
