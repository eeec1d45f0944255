"""The images a run was about: they are not in its folder, so its data are opened again and every image is checked."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from pwcf.data import DataError
from pwcf.runs.errors import RunError
from pwcf.runs.execution import open_source
from pwcf.runs.load import RecordedRun
from pwcf.runs.shard import digest


def original_images(run: RecordedRun, data: str | None = None) -> Tensor:
    """(n, ...) in the order of the run's rows.

    Args:
        run: as ``pwcf.load_run`` gives it.
        data: where the data are now, if not where they were.

    Raises:
        RunError: they cannot be opened, or an image is not the one that was attacked.
    """
    settings = run.header.settings if data is None else replace(run.header.settings, data=data)
    source = open_source(settings)
    images: list[Tensor] = []
    try:
        for first, last in _stretches(run.index.tolist(), settings.chunk):
            images += source.read(first, last)[0]
    except DataError as error:
        raise RunError(str(error)) from error
    if not images:
        return torch.zeros((0, *run.header.shape))
    for index, image, known in zip(run.index.tolist(), images, run.rows["image"].to_pylist(), strict=True):
        if digest(image) != known:
            raise RunError(f"{settings.data}: sample {index} is not the image that was attacked; give data=, its place")
    return torch.stack(images)


def _stretches(indices: list[int], longest: int) -> list[tuple[int, int]]:
    """(first, last + 1) of neighbours that can be read at once."""
    found: list[tuple[int, int]] = []
    for index in indices:
        if found and index == found[-1][1] and index - found[-1][0] < longest:
            found[-1] = found[-1][0], index + 1
        else:
            found.append((index, index + 1))
    return found
