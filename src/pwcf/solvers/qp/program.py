"""Quadratic programs with one program per row, and products of stacks that treat every row alike."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pwcf.solvers import linalg

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
Mask = NDArray[np.bool_]


class QpSolutions(NamedTuple):
    """The solution z (b, k), the price y (b,) of the equality and the prices omega (b, g) of the caps."""

    z: Array
    y: Array
    omega: Array


class QuadraticPrograms(NamedTuple):
    """One program per row; every column belongs to at most one row of the 0/1 matrices E and e."""

    Q: Array
    """(b, k, k)"""
    q: Array
    """(b, k)"""
    E: Array
    """(b, g, k) 0/1: the groups"""
    caps: Array
    """(b, g) > 0"""
    e: Array | None = None
    """(b, k) 0/1: the simplex"""
    mass: Array | None = None
    """(b,) > 0"""

    def take(self, rows: Indices) -> QuadraticPrograms:
        """The programs of some rows."""
        return QuadraticPrograms._make(None if array is None else array[rows] for array in self)

    def restrict(self, columns: Indices) -> QuadraticPrograms:
        """With just some columns (b, j) of each row."""
        Q = np.take_along_axis(np.take_along_axis(self.Q, columns[:, None, :], 2), columns[:, :, None], 1)
        q, E = np.take_along_axis(self.q, columns, 1), np.take_along_axis(self.E, columns[:, None, :], 2)
        e = None if self.e is None else np.take_along_axis(self.e, columns, 1)
        return self._replace(Q=Q, q=q, E=E, e=e)


def to_columns(E: Array, prices: Array) -> Array:
    """E'prices: the price of its group for every column."""
    product: Array = (E * prices[..., None]).sum(1)
    return product


def cholesky(matrix: Array) -> tuple[Tensor, Array]:
    """Factors for ``cholesky_solve``, and whether they failed (b,) (0: no); the same bits wherever a row stands."""
    factor, info = linalg.cholesky(torch.from_numpy(matrix))
    return factor, info.numpy()


def cholesky_solve(right: Array, factor: Tensor) -> Array:
    """Batched solution for right-hand sides (b, m, r)."""
    solved: Array = linalg.cholesky_solve(torch.from_numpy(right), factor).numpy()
    return solved
