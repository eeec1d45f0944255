"""The images a run was about: they are not in its folder, so its data are opened again and every image is checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from pwcf._common.errors import UserError
from pwcf.data import Source
from pwcf.runs.load import RecordedRun
from pwcf.runs.resolve import open_source
from pwcf.runs.settings import RunError, Settings
from pwcf.runs.shard import digest
from pwcf.runs.trust import is_safe_data


def original_images(run: RecordedRun, data: str | None = None) -> Tensor:
    """(n, ...) in the order of the run's rows.

    Args:
        run: as ``pwcf.load_run`` gives it.
        data: where the data are now. Default: where they were, if that is a regular file.

    Raises:
        DataError: they cannot be opened or read.
        RunError: an image is not the one that was attacked.
    """
    if data is None and run.asked is not None:
        return run.asked.images.detach().cpu()
    settings = run.header.settings if data is None else replace(run.header.settings, data=data)
    if data is None and not is_safe_data(settings.data):
        raise RunError(_unasked(settings.data))
    source = open_source(settings)
    images: list[Tensor] = []
    for place, image in _checked(source, run, range(len(run.index))):
        if image is None:
            raise RunError(
                f"{settings.data}: sample {int(run.index[place])} is not the image that was attacked; "
                "give data=, its place"
            )
        images.append(image)
    return torch.stack(images) if images else torch.zeros((0, *run.header.shape))


@dataclass
class OriginalImages:
    """Images of several runs, as far as they can be had; each data set is opened once."""

    data: str | None = None
    """another place of the data; tried before the one that the run names"""
    remarks: list[str] = field(default_factory=list)
    """what is missing, and why, in sentences"""
    _opened: dict[tuple[object, ...], Source | str] = field(default_factory=dict)

    def read(self, run: RecordedRun, name: str, places: Sequence[int]) -> dict[int, Tensor]:
        """Images of the samples at these places of the run's rows, without those that are not what the run saw."""
        if run.asked is not None:
            return {place: run.asked.images[place].detach().cpu() for place in places}
        found: dict[int, Tensor] = {}
        reasons = []
        for spec in dict.fromkeys(filter(None, (self.data, run.header.settings.data))):
            if spec != self.data and not is_safe_data(spec):
                reasons.append(_unasked(spec))
                continue
            source = self._open(replace(run.header.settings, data=spec))
            if isinstance(source, str):
                reasons.append(source)
                continue
            missing = [place for place in places if place not in found]
            try:
                for place, image in _checked(source, run, missing):
                    if image is not None:
                        found[place] = image
            except UserError as error:
                reasons.append(f"{spec}: {error}")
                continue
            except Exception as error:  # a library of the user's choice: a report is made without it
                reasons.append(f"{spec}: cannot be read ({type(error).__name__}: {error})")
                continue
            if len(found) == len(places):
                return found
            reasons.append(f"{spec}: its images are not those of the run")
        absent = len(places) - len(found)
        whose = "all" if absent == len(places) else f"{absent} of {len(places)}"
        self.remarks.append(
            f"{name}: original images of {whose} samples in the gallery are missing ({'; '.join(reasons)}); "
            "--data names another place of the data"
        )
        return found

    def _open(self, settings: Settings) -> Source | str:
        """The source, or why there is none."""
        key = (
            settings.data, settings.labels, settings.classes, settings.resize, settings.crop, settings.split,
            *settings.bounds, settings.order, settings.seed,
        )  # fmt: skip
        if key not in self._opened:
            try:
                self._opened[key] = open_source(settings)
            except UserError as error:
                self._opened[key] = str(error)
            except Exception as error:  # as above
                self._opened[key] = f"{settings.data}: cannot be opened ({type(error).__name__}: {error})"
        return self._opened[key]


def _unasked(spec: str) -> str:
    return (
        f"{spec}: not opened, as only the run's folder names it and it is no regular file: it may go to the network or "
        "wait for ever; give data= (--data), its place"
    )


def _checked(source: Source, run: RecordedRun, places: Sequence[int]) -> Iterator[tuple[int, Tensor | None]]:
    """Images of the samples at these places of a run's rows; None where it is not the one that was attacked."""
    index, digests = run.rows["index"].to_pylist(), run.rows["image"].to_pylist()
    for first, last in _stretches(index, places, run.header.settings.chunk):
        start, end = index[places[first]], min(index[places[last - 1]] + 1, len(source))
        images: list[Tensor] = [*source.read(start, end)[0]] if end > start else []
        for i, place in enumerate(places[first:last]):
            image = images[i] if i < len(images) else None
            yield place, image if image is not None and digest(image) == digests[place] else None


def _stretches(index: Sequence[int], places: Sequence[int], longest: int) -> list[tuple[int, int]]:
    """(first, last + 1) of neighbours among ``places`` whose samples can be read at once."""
    found: list[tuple[int, int]] = []
    for i, place in enumerate(places):
        if found and index[place] == index[places[i - 1]] + 1 and i - found[-1][0] < longest:
            found[-1] = found[-1][0], i + 1
        else:
            found.append((i, i + 1))
    return found
