"""In this process: one device after the other's own thread, chunk by chunk."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice

from pwcf.models import Classifier
from pwcf.runs.settings import Settings
from pwcf.runs.shard import Chunk, Shard
from pwcf.runs.worker import Worker


class InProcess:
    """One worker for each device; each has a model of its own."""

    def __init__(self, settings: Settings, classifier: Classifier) -> None:
        devices = settings.devices
        own = [classifier, *(copy.deepcopy(classifier) for _ in devices[1:])]
        self._workers = [Worker(settings, c.to(d), d) for c, d in zip(own, devices, strict=True)]

    def shards(self, chunks: Iterable[Chunk]) -> Iterator[Shard]:
        if len(self._workers) == 1:
            yield from map(self._workers[0], chunks)
            return
        waiting, free = iter(chunks), list(self._workers)
        with ThreadPoolExecutor(len(self._workers)) as pool:
            under_way: dict[Future[Shard], Worker] = {}
            try:
                while True:
                    for chunk in islice(waiting, len(free)):
                        worker = free.pop()
                        under_way[pool.submit(worker, chunk)] = worker
                    if not under_way:
                        return
                    for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                        free.append(under_way.pop(future))
                        yield future.result()
            finally:
                for future in under_way:
                    future.cancel()
