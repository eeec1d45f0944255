"""The border between host and device: what is packed for one transfer comes out as it went in."""

from __future__ import annotations

import numpy as np
import torch

from pwcf.solvers.host import fetch, largest, part, positions, select, send, transfer


def test_a_transfer_gives_what_the_tensors_hold() -> None:
    tensors = (
        torch.randn(3, dtype=torch.float64),
        torch.randn(3, 2, 4),
        torch.tensor([[True], [False], [True]]),
        torch.zeros(3, 0),
    )
    for array, direct, tensor in zip(transfer(tensors), fetch(*tensors), tensors, strict=True):
        assert array.dtype == np.float64
        assert array.flags.c_contiguous
        assert np.array_equal(array, tensor.double().numpy())
        assert np.array_equal(array, direct)
    assert [array.shape for array in transfer([tensor[:0] for tensor in tensors])] == [(0,), (0, 2, 4), (0, 1), (0, 0)]


def test_numbers_are_sent_in_the_dtype_of_the_vectors() -> None:
    assert send(np.ones(2), torch.zeros(1)).dtype == torch.float32
    assert send(np.array([True]), torch.zeros(1)).dtype == torch.bool
    assert positions(np.arange(2), torch.device("cpu")).dtype == torch.int64


def test_all_rows_are_not_copied() -> None:
    array, tensor = np.arange(6.0).reshape(3, 2), torch.arange(6.0).reshape(3, 2)
    assert part(array, np.arange(3)) is array
    assert select(tensor, np.arange(3)) is tensor
    assert part(array, np.array([2, 0])).tolist() == select(tensor, np.array([2, 0])).tolist() == [[4, 5], [0, 1]]


def test_largest_over_short_and_long_axes() -> None:
    for columns in (1, 3, 20):
        table = np.random.default_rng(0).standard_normal((4, 5, columns))
        assert np.array_equal(largest(table), table.max(-1))
