"""Products whose bits depend on their own row alone: neither on the batch nor on the place in it."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from pwcf.solvers.linalg import add_product_, bmm, matvec

SIZES = list(itertools.product((1, 3, 5, 13), (5, 9, 50), (1, 3, 8, 13, 40)))
DTYPES = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])


def _matrices(shape: tuple[int, int, int], transposed: bool, dtype: torch.dtype) -> Tensor:
    b, rows, columns = shape
    if transposed:
        return torch.randn(b, columns, rows, dtype=dtype).mT
    return torch.randn(shape, dtype=dtype)


@DTYPES
@pytest.mark.parametrize("transposed", [False, True])
def test_a_product_is_the_same_wherever_its_row_stands(dtype: torch.dtype, transposed: bool) -> None:
    """Matrices that do not begin at a cache line take other kernels: found on matrices of 13 columns and more."""
    b = 7
    for i, k, j in SIZES:
        left, right = torch.randn(b, i, k, dtype=dtype), _matrices((b, k, j), transposed, dtype)
        base = torch.randn(b, i, j, dtype=dtype)
        together, sums = bmm(left, right), base.clone()
        torch.testing.assert_close(together, torch.einsum("bik,bkj->bij", left, right))
        add_product_(sums, left, right)
        for row in range(b):
            for rows in ([row], [row, 0], [row, 3, 1]):
                assert torch.equal(bmm(left[rows], right[rows])[0], together[row]), (i, k, j)
                part = base[rows]
                add_product_(part, left[rows], right[rows])
                assert torch.equal(part[0], sums[row]), (i, k, j)


@DTYPES
def test_a_matrix_times_a_vector_is_too(dtype: torch.dtype) -> None:
    for n in (3, 21, 50, 64):
        matrix, vector = torch.randn(5, n, n, dtype=dtype), torch.randn(5, n, dtype=dtype)
        together = matvec(matrix, vector)
        for row in range(5):
            assert torch.equal(matvec(matrix[row:], vector[row:])[0], together[row])
