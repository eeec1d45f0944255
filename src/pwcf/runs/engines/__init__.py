"""Where chunks are worked on. An engine turns chunks into shards, in whatever order they finish."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from pwcf.runs.engines.in_process import InProcess
from pwcf.runs.shard import Chunk, Shard

__all__ = ["Engine", "InProcess"]


class Engine(Protocol):
    """Several may exist; none knows of folders or progress."""

    def shards(self, chunks: Iterable[Chunk]) -> Iterator[Shard]:
        """One shard for every chunk. Chunks are drawn only as they are needed: the whole set never sits in memory."""
        ...
