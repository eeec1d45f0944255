"""A run from settings to its folder: what is there is kept, the rest is worked on and recorded as it comes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

import torch

from pwcf._common.text import first_few
from pwcf.data import Source, lies_by_class
from pwcf.data.checks import sample_name
from pwcf.models.loading import LoadedModel
from pwcf.runs.continuation import Todo, combine, samples_to_search
from pwcf.runs.engines import Engine, InProcess
from pwcf.runs.folder import HEADER, MERGED, RunFolder, check_unused
from pwcf.runs.header import About, Environment, Header, continued_header, differences, header_from, new_name
from pwcf.runs.resolve import Loader, ResolvedSettings, check_devices, resolve
from pwcf.runs.settings import RunError, Settings
from pwcf.runs.shard import Chunk, Shard, digest, recorded_shards
from pwcf.runs.summary import COLUMNS, RunSummary, summarize


class Listener(Protocol):
    """Hears of a run: a progress bar, a tracker."""

    def begin(self, header: Header, folder: RunFolder, todo: int) -> None:
        """``todo``: samples that are to be searched, some of which the folder may have an answer to."""
        ...

    def add(self, shard: Shard) -> None:
        """Samples that were searched, as they are recorded."""
        ...

    def end(self) -> None: ...


@dataclass(frozen=True)
class Prepared:
    """All that a run needs, opened and checked."""

    settings: Settings
    source: Source
    model: LoadedModel
    resolved: ResolvedSettings
    header: Header
    remarks: list[str]
    """what was decided about the data that a user should know, in sentences"""


def prepare(settings: Settings, asked: dict[str, Any], loader: Loader | None = None) -> Prepared:
    """Open data and model, resolve the attacks, and write down what they are. Nothing is written to disk.

    Args:
        settings: of the run.
        asked: the same as they were passed, for the record.
        loader: opens model and data; give one to several runs of the same network.
    """
    settings, loader = with_threads(settings), loader or Loader()
    check_devices(settings)
    model, (settings, remarks) = loader.model(settings), with_order(settings, loader)
    source = loader.source(settings)
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
        run=new_name(),
    )
    return Prepared(settings, source, model, resolved, header, [*source.remarks, *remarks])


def with_threads(settings: Settings) -> Settings:
    """Settings that say how many threads: a run that goes on has as many as it had, so that it finds the same bits."""
    if settings.threads is not None:
        return settings
    folder = RunFolder(settings.out)
    if folder.exists and (then := header_from(folder.header(), str(folder.path)).settings.threads) is not None:
        return replace(settings, threads=then)
    several = settings.engine == "ray" or len(settings.devices) > 1
    return replace(settings, threads=1 if several else torch.get_num_threads())


def with_order(settings: Settings, loader: Loader) -> tuple[Settings, list[str]]:
    """Settings that say in which order samples are taken, and what a user should know of it.

    A run that goes on has the order it had. The first samples of data that lie class by class would be of few classes.
    """
    if settings.order is not None:
        return settings, []
    folder = RunFolder(settings.out)
    if folder.exists:
        return replace(settings, order=header_from(folder.header(), str(folder.path)).settings.order), []
    source = loader.source(settings)
    if settings.limit is None or settings.limit >= len(source) or not lies_by_class(source):
        return replace(settings, order="stored"), []
    return replace(settings, order="balanced"), [
        f"samples: the data lie class by class, so the {settings.limit} are drawn from every class in turn, with seed "
        f"{settings.seed}; --order stored takes the first ones"
    ]


def execute(prepared: Prepared, listeners: Sequence[Listener] = ()) -> RunSummary:
    """Work on what is not there yet until the folder is complete, and return the summary of it."""
    folder = RunFolder(prepared.settings.out)
    check_unused(folder.path, HEADER, "run")
    with folder.locked():
        folder.tidy()
        header = _open(folder, prepared)
        todo = samples_to_search(folder, header)
        for listener in listeners:
            listener.begin(header, folder, sum(len(each.index) for each in todo))
        try:
            if todo:
                folder.unfinish()
                _work(folder, header, _engine(prepared).shards(_chunks(prepared.source, todo)), listeners)
        finally:  # a progress line that is not ended spoils what is written next
            for listener in listeners:
                listener.end()
        folder.merge()
        summary = summarize(header, folder.rows(list(COLUMNS)))
        folder.finish(summary.to_json())
    return summary


def _work(folder: RunFolder, header: Header, shards: Iterable[Shard], listeners: Sequence[Listener]) -> None:
    """Record what comes, as it comes."""
    for count, shard in enumerate(shards, 1):
        whole, searched = combine(folder, header, shard) if shard.revision else (shard, shard)
        whole.write(folder)
        if count % MERGED == 0:
            folder.merge()
        for listener in listeners:
            listener.add(searched)


def _open(folder: RunFolder, prepared: Prepared) -> Header:
    """The header of a new folder, or of one whose run is this one, perhaps with fewer samples or a smaller budget."""
    asked = prepared.header
    if not folder.exists or not folder.rows_files():
        # Nothing is lost by beginning anew: the first try may have failed for what was asked then.
        folder.create(asked.to_json())
        return asked
    there = header_from(folder.header(), str(folder.path))
    if there.saved:
        raise RunError(
            f"{folder.path}: was saved from Python (Run.save), which does not name its model: it cannot be continued; "
            "choose another --out"
        )
    if found := differences(there, asked, prepared.source.fingerprint):
        if len(found) == 1 and found[0].startswith("data "):
            found.append(_changed_samples(folder, prepared.source, there))
        raise RunError(
            f"{folder.path}: holds another run: {'; '.join(found)}. Give the old settings to go on, or another --out"
        )
    header = continued_header(there, asked, len(folder.rows(["index"])))
    if header is not there:
        folder.unfinish()  # first: a result is of a run that is complete
        folder.create(header.to_json())
    return header


def _changed_samples(folder: RunFolder, source: Source, header: Header) -> str:
    """Which recorded samples are others by now, in words."""
    rows, changed = folder.rows(["index", "image", "label", "revision"]), list[int]()
    then = zip(rows["image"].to_pylist(), rows["label"].to_pylist(), strict=True)
    for shard in recorded_shards(rows, header.settings.chunk):
        images, labels = source.read(shard.index[0], shard.index[-1] + 1)
        for index, image, label in zip(shard.index, images, labels.tolist(), strict=True):
            if next(then) != (digest(image), label):
                changed.append(index)
    if not changed:
        return f"the {len(rows)} recorded samples are the same: the change is among the others"
    return f"changed are {first_few([sample_name(i, source.names) for i in changed])}"


def _chunks(source: Source, todo: Sequence[Todo]) -> Iterator[Chunk]:
    for each in todo:
        start, index = each.index[0], torch.tensor(each.index)
        images, labels = source.read(start, each.index[-1] + 1)
        yield Chunk(each.number, each.revision, index, images[index - start], labels[index - start])


def _engine(prepared: Prepared) -> Engine:
    settings, resolved, classifier = prepared.settings, prepared.resolved, prepared.model.classifier
    if settings.engine == "ray":
        from pwcf.runs.ray_engine import OnRay

        return OnRay(settings, resolved, classifier)
    return InProcess(settings, resolved, classifier)
