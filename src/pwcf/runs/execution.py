"""A run from settings to its folder: what is there already is kept, the rest is worked on and recorded as it comes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch

from pwcf.attacks import about, is_black_box
from pwcf.data import DataError, Source, open_data
from pwcf.models import Classifier
from pwcf.models.loading import LoadedModel, ModelError, load_model
from pwcf.runs.engines import Engine, InProcess
from pwcf.runs.errors import RunError
from pwcf.runs.folder import LOCK, MERGED, RunFolder, read_rows
from pwcf.runs.header import About, AttackAbout, Header, differences, header_from, made_here
from pwcf.runs.settings import Settings
from pwcf.runs.shard import Chunk, Shard, check_tensors
from pwcf.runs.summary import COLUMNS, summarize
from pwcf.runs.worker import code_of_metric, plan_of


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
    header: Header


def prepare(settings: Settings, asked: dict[str, Any]) -> Prepared:
    """Open data and model, and write down what they are. Nothing is written to disk."""
    settings = replace(settings, threads=settings.threads or _threads(settings))
    check_devices(settings)
    model, source = open_model(settings), open_source(settings)
    samples = min(len(source), settings.limit or len(source))
    try:
        images, _ = source.read(0, 1)
        print_of_data = source.fingerprint(samples)
    except DataError as error:
        raise RunError(str(error)) from error
    classes = _classes(model.classifier, images.to(settings.devices[0]))
    plan = plan_of(settings, model.classifier, classes)
    header = Header(
        settings,
        asked,
        About(settings.model, model.about, model.fingerprint),
        About(settings.data, source.about, print_of_data),
        samples,
        tuple(images.shape[1:]),
        list(source.classes or []),
        tuple(AttackAbout(each.name, about(each), is_black_box(each)) for each in plan.attacks),
        plan.budget,
        plan.problem.metric.about or code_of_metric(plan.problem.metric),
        made_here(settings.threads or 1),
    )
    return Prepared(settings, source, model, header)


def open_model(settings: Settings) -> LoadedModel:
    many = {"mean": settings.mean, "std": settings.std}
    given = {name: (value[0] if len(value) == 1 else value) for name, value in many.items() if value}
    bounds = (settings.bounds[0], settings.bounds[1])
    try:
        return load_model(settings.model, weights=settings.weights, bounds=bounds, device=settings.devices[0], **given)
    except ModelError as error:
        raise RunError(str(error)) from error


def open_source(settings: Settings) -> Source:
    try:
        return open_data(
            settings.data,
            labels=settings.labels,
            resize=settings.resize,
            crop=settings.crop,
            split=settings.split,
            bounds=(settings.bounds[0], settings.bounds[1]),
        )
    except DataError as error:
        raise RunError(str(error)) from error


def execute(prepared: Prepared, listeners: Sequence[Listener] = ()) -> RunFolder:
    """Work on what is not there yet. The folder, complete."""
    settings, header = prepared.settings, prepared.header
    folder = RunFolder(settings.out)
    _check_strangers(folder)
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
                _work(folder, _engine(settings, prepared.model.classifier), _chunks(prepared, todo), listeners)
        finally:  # a progress line that is not ended spoils what is written next
            for listener in listeners:
                listener.end()
        folder.merge()
        folder.finish(summarize(header, folder.rows(list(COLUMNS))).to_json())
    return folder


def _work(folder: RunFolder, engine: Engine, chunks: Iterator[Chunk], listeners: Sequence[Listener]) -> None:
    """Record what comes, as it comes."""
    for count, shard in enumerate(engine.shards(chunks), 1):
        shard.write(folder)
        if count % MERGED == 0:
            folder.merge()
        for listener in listeners:
            listener.add(shard)


def _check_strangers(folder: RunFolder) -> None:
    """Somebody's other folder is left as it is."""
    if folder.exists or not folder.path.is_dir():
        return
    names = sorted(path.name for path in folder.path.iterdir())
    if strangers := [name for name in names if name != LOCK and not name.endswith(".partial")]:
        raise RunError(
            f"{folder.path}: expected an empty folder or an earlier run, found {', '.join(strangers[:3])}; "
            "choose another --out"
        )


def check_devices(settings: Settings) -> None:
    """All of them now, not when the first chunk arrives there."""
    if not settings.devices:
        raise RunError(f"device: expected cpu, cuda, ...; found {settings.device!r}")
    for device in settings.devices:
        try:
            torch.ones(1, device=device).cpu()
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            reason = str(error).partition("\n")[0]
            raise RunError(f"device: {device!r} cannot be used here ({reason}); cpu always can") from error


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
        try:
            images, labels = prepared.source.read(start, min(start + size, samples))
        except DataError as error:
            raise RunError(str(error)) from error
        yield Chunk(number, start, images, labels)


def _engine(settings: Settings, classifier: Classifier) -> Engine:
    if settings.engine == "ray":
        from pwcf.runs.engines.on_ray import OnRay

        return OnRay(settings, classifier)
    return InProcess(settings, classifier)


def _threads(settings: Settings) -> int:
    """As many as a run that goes on had; it is to find the same bits."""
    folder = RunFolder(settings.out)
    if folder.exists and (then := header_from(folder.header(), str(folder.path)).settings.threads) is not None:
        return then
    several = settings.engine == "ray" or len(settings.devices) > 1
    return 1 if several else torch.get_num_threads()


def _classes(classifier: Classifier, image: torch.Tensor) -> int:
    try:
        with classifier.in_use(), torch.no_grad():
            return int(classifier(image).shape[1])
    except Exception as error:
        reason = str(error).partition("\n")[0]
        shape = tuple(image.shape[1:])
        raise RunError(
            f"model: cannot take inputs of shape {shape} of the data ({type(error).__name__}: {reason}); check "
            "resize and crop, or that model and data belong together"
        ) from error
