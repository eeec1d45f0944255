"""Batched linear algebra in which a row's result does not depend on the rows beside it.

The batch law (rows solved together equal rows solved alone) is kept to the last bit by using only
kernels that treat every row alike. ``torch.bmm`` takes another kernel for a batch of one and for matrices
that do not begin at a cache line, so ``bmm`` here computes a lone row as two equal ones and pads; elementwise
products followed by a sum are safe as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn.functional import pad

from pwcf.solvers.host import Array, positions

CACHE_LINE = 64
"""Bytes."""
SMALL = 400
"""Products of fewer multiplications are plain loops, which know nothing of batches and cache lines."""


def bmm(left: Tensor, right: Tensor) -> Tensor:
    """Batched product "b i k, b k j -> b i j", the same bits for any batch size and wherever a row stands in it.

    Kernels of processors multiply with a matrix on the right in another way where it does not begin at a cache line,
    and where it begins is a matter of the rows before it. So its rows get zeros up to the next one.
    """
    j = right.shape[2]
    if left.shape[1] * left.shape[2] * j < SMALL:
        return torch.bmm(left, right)
    left, right = _at_cache_lines(left, right)
    if left.shape[0] == 1:
        product = torch.bmm(left.expand(2, -1, -1), right.expand(2, -1, -1))[:1]
    else:
        product = torch.bmm(left, right)
    return product if product.shape[2] == j else product[:, :, :j].contiguous()


def _at_cache_lines(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """The factors of a product with zeros appended, so that every matrix of ``right`` begins at a cache line."""
    if right.device.type != "cpu":
        return left, right
    k, j = right.shape[1:]
    unit = CACHE_LINE // right.element_size()
    if j == 1 or right.stride(2) != 1:  # the numbers of a column are side by side
        if k % unit:
            return pad(left, (0, -k % unit)), pad(right.mT, (0, -k % unit)).mT
        # A lone column counts as one of these only if its strides say so; else the product takes five times as long.
        flat = right.squeeze(2).unsqueeze(1).contiguous() if j == 1 else right.mT.contiguous()
        return left, (flat if flat.data_ptr() % CACHE_LINE == 0 else flat.clone()).mT
    if j % unit:
        return left, pad(right, (0, -j % unit))
    flat = right.contiguous()
    return left, flat if flat.data_ptr() % CACHE_LINE == 0 else flat.clone()


def solve_triangular(matrix: Tensor, right: Tensor, upper: bool) -> Tensor:
    """Batched solution, the same bits wherever in the batch a row stands.

    Where the matrices of a batch begin at odd multiples of 8 bytes, some kernels take another way for those.
    """
    m = matrix.shape[-1]
    if m % 2:
        matrix, right = _even(matrix), pad(right, (0, 0, 0, 1))
    solved: Tensor = torch.linalg.solve_triangular(matrix, right, upper=upper)
    return solved[:, :m]


def cholesky(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Batched factors for ``cholesky_solve``, and whether they failed (0: no); the same bits wherever a row stands.

    The factor of a matrix of odd size is one larger than the matrix.
    """
    factor, info = torch.linalg.cholesky_ex(_even(matrix) if matrix.shape[-1] % 2 else matrix)
    return factor, info


def cholesky_solve(right: Tensor, factor: Tensor) -> Tensor:
    """Batched solution with the factors of ``cholesky``."""
    m = right.shape[1]
    return torch.cholesky_solve(pad(right, (0, 0, 0, factor.shape[-1] - m)), factor)[:, :m]


def _even(matrix: Tensor) -> Tensor:
    """The matrix with one more row and column of the identity."""
    m = matrix.shape[-1]
    matrix = pad(matrix, (0, 1, 0, 1))
    matrix[:, m, m] = 1
    return matrix


@lru_cache(maxsize=8)
def identity(n: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The identity (n, n), to be read only."""
    return torch.eye(n, dtype=dtype, device=device)


def add_product_(base: Tensor, left: Tensor, right: Tensor) -> None:
    """base += left right, batched, the same bits for any batch size."""
    if base.shape[2] % (CACHE_LINE // base.element_size()):
        base += bmm(left, right)
        return
    left, right = _at_cache_lines(left, right)
    if left.shape[0] == 1:
        base.copy_(torch.baddbmm(base.expand(2, -1, -1), left.expand(2, -1, -1), right.expand(2, -1, -1))[:1])
    else:
        base.baddbmm_(left, right)


def with_stored(
    product: Callable[[Tensor, Tensor], Tensor], store: Tensor, rows: Array | Tensor, part: Tensor
) -> Tensor:
    """product(store[rows], part) for a batched product. Where ``rows`` are most of a large store it is not copied.

    The whole store with zeros beside ``part`` is read once; a copy of some rows is read, written and read again.
    """
    b, r = store.shape[0], len(rows)
    if r == b:
        return product(store, part)
    rows = positions(rows, store.device)
    row, extra = store[0].numel(), 2 * part[:1].numel()
    if b * (row + extra) < 3 * r * row:
        return product(store, spread(part, rows, b))[rows]
    return product(store[rows], part)


def spread(part: Tensor, rows: Array | Tensor, b: int) -> Tensor:
    """``part`` at its ``rows`` among b, zeros elsewhere."""
    if len(rows) == b:
        return part
    return part.new_zeros(b, *part.shape[1:]).index_copy(0, positions(rows, part.device), part)


def matvec(matrix: Tensor, vector: Tensor) -> Tensor:
    """Batched product "b i k, b k -> b i"."""
    return bmm(matrix, vector.unsqueeze(-1)).squeeze(-1)


def dot(left: Tensor, right: Tensor) -> Tensor:
    """Inner products over the last axis."""
    return (left * right).sum(-1)


def norm(vector: Tensor) -> Tensor:
    """Euclidean norm over the last axis, without a copy of the vectors.

    The kernel may split a single vector among threads, so that one is computed as two equal ones.
    """
    if vector.numel() == vector.shape[-1]:
        both: Tensor = torch.linalg.vector_norm(vector.expand(2, *vector.shape), dim=-1)
        return both[0]
    length: Tensor = torch.linalg.vector_norm(vector, dim=-1)
    return length


def distances(left: Tensor, right: Tensor) -> Tensor:
    """Between all points (r, k, n) and (r, l, n) of a row, (r, k, l); accurate for neighbours far from the origin."""
    return torch.cdist(left, right, compute_mode="donot_use_mm_for_euclid_dist")


def weighted(weights: Tensor, V: Tensor) -> Tensor:
    """sum_k weights_k V_k: (r, k), (r, k, n) -> (r, n)."""
    return bmm(weights.to(V.dtype).unsqueeze(1), V).squeeze(1)
