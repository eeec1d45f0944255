"""A run from settings to its folder: what is there is kept, the rest is worked on and recorded as it comes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

import torch

from pwcf.data import Source
from pwcf.models.loading import LoadedModel
from pwcf.runs.engines import Engine, InProcess
from pwcf.runs.folder import HEADER, MERGED, RunFolder, check_unused, read_rows
from pwcf.runs.header import About, Environment, Header, differences, header_from
from pwcf.runs.resolve import Loader, ResolvedSettings, check_devices, resolve
from pwcf.runs.settings import RunError, Settings
from pwcf.runs.shard import Chunk, Shard, check_tensors
from pwcf.runs.summary import COLUMNS, RunSummary, summarize


class Listener(Protocol):
    """Hears of a run: a progress bar, a tracker."""

    def begin(self, header: Header, folder: RunFolder, done: Sequence[int]) -> None: ...
    def add(self, shard: Shard) -> None: ...
    def end(self) -> None: ...


@dataclass(frozen=True)
class Prepared:
    """All that a run needs, opened and checked."""

    settings: Settings
    source: Source
    model: LoadedModel
    resolved: ResolvedSettings
    header: Header


def prepare(settings: Settings, asked: dict[str, Any], loader: Loader | None = None) -> Prepared:
    """Open data and model, resolve the attacks, and write down what they are. Nothing is written to disk.

    Args:
        settings: of the run.
        asked: the same as they were passed, for the record.
        loader: opens model and data; give one to several runs of the same network.
    """
    settings, loader = with_threads(settings), loader or Loader()
    check_devices(settings)
    model, source = loader.model(settings), loader.source(settings)
    samples = min(len(source), settings.limit or len(source))
    images, _ = source.read(0, 1)
    data_fingerprint = loader.data_fingerprint(settings, samples)
    resolved = resolve(settings, model.classifier, images.to(settings.devices[0]))
    header = Header(
        settings,
        asked,
        About(settings.model, model.about, model.fingerprint),
        About(settings.data, source.about, data_fingerprint),
        samples,
        tuple(images.shape[1:]),
        list(source.classes or []),
        resolved.about,
        sum(resolved.budgets),
        resolved.metric,
        asdict(Environment.current(settings.threads or 1)),
    )
    return Prepared(settings, source, model, resolved, header)


def with_threads(settings: Settings) -> Settings:
    """Settings that say how many threads: a run that goes on has as many as it had, so that it finds the same bits."""
    if settings.threads is not None:
        return settings
    folder = RunFolder(settings.out)
    if folder.exists and (then := header_from(folder.header(), str(folder.path)).settings.threads) is not None:
        return replace(settings, threads=then)
    several = settings.engine == "ray" or len(settings.devices) > 1
    return replace(settings, threads=1 if several else torch.get_num_threads())


def execute(prepared: Prepared, listeners: Sequence[Listener] = ()) -> RunSummary:
    """Work on what is not there yet until the folder is complete, and return the summary of it."""
    settings, header = prepared.settings, prepared.header
    folder = RunFolder(settings.out)
    check_unused(folder.path, HEADER, "run")
    with folder.locked():
        folder.tidy()
        _open(folder, header)
        done = _checked(folder, header)
        todo = [number for number in range(header.chunks) if number not in done]
        for listener in listeners:
            listener.begin(header, folder, sorted(done))
        try:
            if todo:
                folder.unfinish()
                _work(folder, _engine(prepared), _chunks(prepared, todo), listeners)
        finally:  # a progress line that is not ended spoils what is written next
            for listener in listeners:
                listener.end()
        folder.merge()
        summary = summarize(header, folder.rows(list(COLUMNS)))
        folder.finish(summary.to_json())
    return summary


def _work(folder: RunFolder, engine: Engine, chunks: Iterator[Chunk], listeners: Sequence[Listener]) -> None:
    """Record what comes, as it comes."""
    for count, shard in enumerate(engine.shards(chunks), 1):
        shard.write(folder)
        if count % MERGED == 0:
            folder.merge()
        for listener in listeners:
            listener.add(shard)


def _open(folder: RunFolder, header: Header) -> None:
    """A new folder, or one whose run is this one."""
    if not folder.exists or not folder.rows_files():
        # Nothing is lost by beginning anew: the first try may have failed for what was asked then.
        folder.create(header.to_json())
        return
    there = header_from(folder.header(), str(folder.path))
    if found := differences(there, header):
        raise RunError(
            f"{folder.path}: holds another run: {'; '.join(found)}. Give the old settings to go on, or another --out"
        )


def _checked(folder: RunFolder, header: Header) -> set[int]:
    """Shards that are there and whole; those whose tensors are gone are worked on again."""
    seen: set[int] = set()
    missing: list[int] = []
    size = header.settings.chunk
    for each in folder.rows_files():
        indices = read_rows(each.path, ["index"])["index"].to_pylist()
        first, last = each.first * size, min((each.last + 1) * size, header.samples)
        if indices != list(range(first, last)):
            raise RunError(
                f"{each.path}: expected samples {first} to {last - 1}, found others; remove this file and run the same "
                "command again: its samples are redone"
            )
        for number in range(each.first, each.last + 1):
            count = min(size, header.samples - number * size)
            if check_tensors(folder, number, count):
                seen.add(number)
            else:
                missing.append(number)
    for number in missing:  # they will have rows of their own again
        folder.drop(number, size)
    return seen


def _chunks(prepared: Prepared, numbers: Sequence[int]) -> Iterator[Chunk]:
    size, samples = prepared.settings.chunk, prepared.header.samples
    for number in numbers:
        start = number * size
        images, labels = prepared.source.read(start, min(start + size, samples))
        yield Chunk(number, start, images, labels)


def _engine(prepared: Prepared) -> Engine:
    settings, resolved, classifier = prepared.settings, prepared.resolved, prepared.model.classifier
    if settings.engine == "ray":
        from pwcf.runs.ray_engine import OnRay

        return OnRay(settings, resolved, classifier)
    return InProcess(settings, resolved, classifier)
