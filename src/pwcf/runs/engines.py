"""Where chunks are worked on. An engine turns chunks into shards, in whatever order they finish."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from itertools import islice
from typing import Protocol, cast

import torch

from pwcf._common.text import describe_error
from pwcf._common.user_code import UserCodeError, kept_alive
from pwcf.attacks import Stop
from pwcf.evaluation import evaluate
from pwcf.models import Classifier
from pwcf.runs.resolve import ResolvedSettings
from pwcf.runs.settings import RunError, Settings
from pwcf.runs.shard import Chunk, Shard, shard_of


class Engine(Protocol):
    """Works on chunks. No engine knows of folders or progress."""

    def shards(self, chunks: Iterable[Chunk]) -> Iterator[Shard]:
        """One shard for every chunk. Chunks are drawn only as they are needed: the whole set never sits in memory."""
        ...


class Worker:
    """Answers about chunks, on one device. Every engine has these, in one process or in many.

    The model is placed on the device when the first chunk comes: by then the worker is where it works.
    """

    def __init__(self, settings: Settings, resolved: ResolvedSettings, classifier: Classifier, device: str) -> None:
        self.settings, self.resolved, self.classifier, self.device = settings, resolved, classifier, device
        self._placed = False

    def __call__(self, chunk: Chunk) -> Shard:
        if self.settings.threads is not None:
            torch.set_num_threads(self.settings.threads)
        images, labels = chunk.images.to(self.device), chunk.labels.to(self.device)
        try:
            if not self._placed:
                self.classifier.to(self.device)
                self._placed = True
            with kept_alive(), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the run keeps them
                run = evaluate(
                    self.classifier,
                    images,
                    labels,
                    self.resolved.problem,
                    attacks=self.resolved.attacks,
                    budget=self.resolved.budgets,
                    seed=self.settings.seed,
                    eight_bit=self.settings.eight_bit,
                    batch=self.settings.batch,
                    tol=self.settings.tol,
                    stop=cast(Stop, self.settings.stop),
                )
                # It was given attacks alone: which ones a preset has left out is known here.
                told = replace(run, warnings=[*self.resolved.left_out, *run.warnings])
                return shard_of(chunk, told, sum(self.resolved.budgets))
        except RunError:
            raise
        except Exception as error:
            first, last = int(chunk.index[0]), int(chunk.index[-1])
            said = str(error) if isinstance(error, UserCodeError) else describe_error(error)
            raise RunError(f"samples {first} to {last}: {said}") from error


class InProcess:
    """In this process: one worker and one thread for each device. Each worker has its own model and attacks."""

    def __init__(self, settings: Settings, resolved: ResolvedSettings, classifier: Classifier) -> None:
        first, *others = settings.devices
        self._workers = [Worker(settings, resolved, classifier, first)]
        # Both in one copy: the metric of a problem may measure with the classifier.
        self._workers += [Worker(settings, *copy.deepcopy((resolved, classifier)), device) for device in others]

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
