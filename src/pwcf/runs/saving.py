"""A run that ``evaluate`` returned as a recorded one, with header and rows; and into a folder of its own.

Its model is known by what it is, not by where it came from. So such a folder cannot be continued, and whoever verifies
it has to name the model; the images lie in it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from pwcf._common.text import format_shape
from pwcf.data import DataError
from pwcf.data.arrays import ArraySource, MemoryArray
from pwcf.evaluation import Asked, Run
from pwcf.models import Classifier
from pwcf.models.loading.fingerprint import fingerprint
from pwcf.problems import MaxLoss
from pwcf.runs.folder import RunFolder
from pwcf.runs.header import ORIGINALS, About, AttackAbout, Environment, Header, new_name
from pwcf.runs.load import RecordedRun, load_run
from pwcf.runs.settings import RunError, Settings
from pwcf.runs.shard import Chunk, Shard, digest, shard_of, write_tensors
from pwcf.runs.summary import summarize

RunLike = Run | str | os.PathLike[str]
"""a run in memory, a loaded one, or the folder of one"""
IN_MEMORY = "from Python"
"""where the data of a run are from that is in no folder"""
# Logits that differ by less, relative to the largest, are the same model's: devices and batches round differently.
SAME_LOGITS = 1e-3


def recorded(run: RunLike) -> Run:
    """A run with header and rows, as far as it can have them.

    Args:
        run: in memory or loaded, or the path of its folder.

    Returns:
        A ``RecordedRun``; the run itself if it was made by hand, or each of its samples has an eps of its own.
    """
    if isinstance(run, (str, os.PathLike)):
        return load_run(run)
    if not isinstance(run, Run):
        raise TypeError(f"run: expected a Run or the path of a run's folder, found {type(run).__name__}")
    return run if isinstance(run, RecordedRun) or _obstacle(run) else record_of(run)


def record_of(run: Run, model: str | None = None, classes: Sequence[str] = ()) -> RecordedRun:
    """Header and rows of a run that ``evaluate`` returned.

    Args:
        run: about at least one sample.
        model: what its model is called; default: the name of its class or function.
        classes: their names.

    Raises:
        RunError: the run cannot be recorded.
    """
    obstacle = _obstacle(run)
    if obstacle or run.asked is None:
        raise RunError(f"run: {obstacle}")
    header = _header(run, model, classes)
    table = _shard(run).table()
    held = {each.name: getattr(run, each.name) for each in fields(Run)}
    return RecordedRun(**held, header=header, rows=table, index=torch.arange(header.samples))


def save_run(
    run: Run, folder: str | os.PathLike[str], *, model: str | None = None, classes: Sequence[str] = ()
) -> Path:
    """Write a run that ``evaluate`` returned to a folder; see ``Run.save``."""
    if isinstance(run, RecordedRun) and run.folder is not None:
        raise RunError(f"run: expected one that evaluate returned, found one of a folder; copy {run.folder}")
    if isinstance(run.problem, MaxLoss) and not run.problem.clip:
        raise RunError("run: expected a question that folders know, found MaxLoss(clip=False); keep run.x_adv yourself")
    found = record_of(run, model, classes)
    asked = found.asked
    if asked is None or asked.images.dtype != torch.float32:
        told = None if asked is None else asked.images.dtype
        raise RunError(f"images: expected float32, as folders of runs have them, found {told}; evaluate the run in it")
    _source(asked)  # which says what is wrong with their layout
    place = RunFolder(folder)
    _check_empty(place.path)
    with place.locked():
        images, labels = asked.images.cpu(), asked.labels.cpu()
        write_tensors(place.path / ORIGINALS, {"images": images.contiguous(), "labels": labels.contiguous()})
        settings = replace(found.header.settings, data=ORIGINALS, out=str(folder))
        place.create(replace(found.header, settings=settings, run=new_name()).to_json())
        _shard(run).write(place)
        place.finish(summarize(found.header, found.rows).to_json())
    return place.path


def _check_empty(place: Path) -> None:
    if place.exists() and not place.is_dir():
        raise RunError(f"{place}: expected a folder, or a place for one, found a file; choose another folder")
    names = sorted(path.name for path in place.iterdir()) if place.is_dir() else []
    if names:
        raise RunError(
            f"{place}: expected an empty folder, or none yet, found {', '.join(names[:3])}; choose another folder"
        )


def _obstacle(run: Run) -> str:
    """Why there can be no record of a run; empty where there can."""
    if run.asked is None:
        return "expected one that evaluate returned, found one without images and labels"
    if not len(run.status):
        return "expected samples, found none"
    if isinstance(run.problem, MaxLoss) and torch.as_tensor(run.problem.eps).dim():
        return "expected one eps for all samples, found one for each; a record has one"
    return ""


def _shard(run: Run) -> Shard:
    """All samples in one: a run's warnings count samples of all of them."""
    assert run.asked is not None
    images, labels = run.asked.images.detach().cpu(), run.asked.labels.cpu()
    return shard_of(Chunk(0, 0, torch.arange(len(images)), images, labels), run, sum(run.asked.budgets))


def _header(run: Run, model: str | None, classes: Sequence[str]) -> Header:
    asked, problem = run.asked, run.problem
    assert asked is not None
    n, shape = len(run.status), tuple(asked.images.shape[1:])
    max_loss = isinstance(problem, MaxLoss)
    owner = None if asked.classifier is None else asked.classifier.model
    name = model or (_name_of(owner) if owner is not None else "model")
    mean, std = (None, None) if asked.classifier is None else asked.classifier.normalisation
    calls = 1 if asked.classifier is None else asked.classifier.samples
    averaged = f", mean logits of {calls} calls" if calls > 1 else ""
    told = f"{n} samples of shape {format_shape(shape)}, given in Python"
    settings = Settings(
        model=name,
        data=IN_MEMORY,
        out=IN_MEMORY,
        question="max-loss" if max_loss else "min-radius",
        metric=problem.metric.name,
        eps=float(problem.eps) if isinstance(problem, MaxLoss) else None,
        loss=problem.loss if isinstance(problem, MaxLoss) else "margin",
        targeted=problem.targeted,
        attacks=[each.name for each in run.contributions],
        budget=sum(asked.budgets),
        stop=asked.stop,
        tol=asked.tol,
        eight_bit=asked.eight_bit,
        seed=asked.seed,
        bounds=list(asked.bounds),
        mean=_numbers(mean),
        std=_numbers(std),
        batch=asked.batch,
        chunk=n,
        threads=torch.get_num_threads(),
    )
    return Header(
        settings,
        {},
        About(name, f"{name}, given in Python{averaged}", _fingerprint(run)),
        About(IN_MEMORY, told, _data_fingerprint(asked)),
        n,
        shape,
        list(classes),
        tuple(AttackAbout(each.name, each.about, each.black_box) for each in run.contributions),
        sum(asked.budgets),
        problem.metric.about,
        asdict(Environment.current(torch.get_num_threads())),
        saved=True,
    )


def _name_of(model: object) -> str:
    """Of a module the name of its class; of a function or method its own."""
    if isinstance(model, nn.Module):
        return type(model).__name__
    return getattr(model, "__name__", type(model).__name__)


def _numbers(value: float | Tensor | list[float] | None) -> list[float]:
    return [] if value is None else [float(each) for each in torch.as_tensor(value).flatten().tolist()]


def _source(asked: Asked) -> ArraySource:
    """The data as the file has them that ``save_run`` writes."""
    return ArraySource(
        IN_MEMORY, MemoryArray(asked.images.detach().cpu()), MemoryArray(asked.labels.cpu()), asked.bounds
    )


def _data_fingerprint(asked: Asked) -> str:
    try:
        return _source(asked).fingerprint(len(asked.images))
    except DataError:  # of a layout that no folder has, such as channels last
        digests = [digest(image.detach().cpu()) for image in asked.images]
        return hashlib.sha256("".join(digests).encode()).hexdigest()


def _fingerprint(run: Run) -> str:
    """SHA-256 of the model; where it is not what it was when it was evaluated, of what it said of the images then."""
    assert run.asked is not None
    classifier = run.asked.classifier
    if classifier is not None and _answers_as_then(classifier, run):
        try:
            return fingerprint(classifier, "", own=True)  # whatever it is called
        except Exception:  # whatever the user's own objects do when they are looked at
            pass
    return hashlib.sha256(run.clean_logits.contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()


def _answers_as_then(classifier: Classifier, run: Run) -> bool:
    """Whether the model says of the first image what it said when it was evaluated."""
    assert run.asked is not None
    try:
        with torch.no_grad(), classifier.in_use():
            now = classifier(run.asked.images[:1]).cpu()
    except Exception:  # it was moved to another device, or refuses to answer any longer
        return False
    then = run.clean_logits[:1]
    size = float(then.abs().amax())
    return now.shape == then.shape and bool(((now - then).abs() <= SAME_LOGITS * size).all())
