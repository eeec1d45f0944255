"""The answers about one chunk of samples, as rows and tensors."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from pwcf._common import atomic, seal
from pwcf._common.text import first_line
from pwcf.evaluation import Run
from pwcf.metrics import as_metric, distance64
from pwcf.runs.folder import POINTS, RunFolder, damaged, points_digest
from pwcf.runs.header import Header
from pwcf.runs.settings import RunError
from pwcf.runs.summary import SENTENCES, row_numbers

if TYPE_CHECKING:
    import pyarrow

DISTANCES = ("l0", "l1", "l2", "linf")


@dataclass(frozen=True)
class Chunk:
    """Samples that are worked on together: all of a shard, or those that a continued run has to search."""

    number: int
    revision: int
    """which evaluation of the shard this is: 0 the first"""
    index: Tensor
    """(n,) int64, rising"""
    images: Tensor
    labels: Tensor


@dataclass(frozen=True)
class Shard:
    """What became of a chunk."""

    number: int
    columns: dict[str, Any]
    """name -> n values, numpy arrays, Arrow arrays or lists"""
    x_adv: Tensor
    revision: int = 0

    def table(self) -> pyarrow.Table:
        import pyarrow

        return pyarrow.table(self.columns)

    def write(self, folder: RunFolder) -> None:
        """Tensors first: rows that exist have theirs. Those of the revision before go last."""
        index = torch.from_numpy(np.asarray(self.columns["index"]).copy())
        digest = write_tensors(
            folder.tensors_file(self.number, self.revision), {"x_adv": self.x_adv.contiguous(), "index": index}
        )
        rows = replace(self, columns={**self.columns, POINTS: [digest] * len(index)})
        folder.write_rows(self.number, self.number, rows.table())
        if self.revision:
            folder.tensors_file(self.number, self.revision - 1).unlink(missing_ok=True)


def write_tensors(path: Path, tensors: dict[str, Tensor]) -> str | None:
    """Whole or not at all, with a seal, and with the errors and rights of ordinary files. The digest of the file."""
    from safetensors.torch import save

    content = seal.seal(save(tensors, metadata={seal.NAME: seal.UNSEALED}))
    atomic.write(path, lambda place: place.write_bytes(content))
    return points_digest(content)


def shard_of(chunk: Chunk, run: Run, budget: int) -> Shard:
    """Rows and tensors of a run about a chunk, in which every sample had a budget of so many passes."""
    images, points = chunk.images.cpu(), run.x_adv.detach().cpu()
    n = len(images)
    before, after = run.clean_logits.float(), run.logits.float()
    labels = chunk.labels.cpu()
    distance = {name: distance64(as_metric(name), images, points) for name in DISTANCES}
    columns: dict[str, Any] = {
        "index": chunk.index,
        "label": labels,
        "clean_label": before.argmax(1),
        "adversarial_label": after.argmax(1),
        "adversarial": run.adversarial,
        "radius": run.radius,
        "loss": run.loss,
        **{name: value.double() for name, value in distance.items()},
        # ||d||_1 / ||d||_2 (paper, eq. soft sparsity): 1 where one entry moves, sqrt(entries) where all move alike.
        "sparsity": distance["l1"].double() / distance["l2"].double(),
        **vars(run.evidence),
        "nearest": run.nearest,
        "forward": run.passes.forward,
        "backward": run.passes.backward,
        "metric_forward": run.metric_passes.forward,
        "metric_backward": run.metric_passes.backward,
        "seconds": torch.full((n,), run.seconds / max(n, 1), dtype=torch.float64),
        "budget": torch.full((n,), budget),
        "revision": torch.full((n,), chunk.revision),
    }
    for each in run.contributions:
        columns[f"radius:{each.name}"] = each.radius
        columns[f"passes:{each.name}"] = each.passes
        columns[f"seconds:{each.name}"] = torch.full((n,), each.seconds / max(n, 1), dtype=torch.float64)
    texts: dict[str, Any] = {
        "status": [status.value for status in run.status],
        "attack": list(run.attack),
        "image": [digest(image) for image in images],
        "warnings": [SENTENCES.join(run.warnings)] * n,
    }
    arrays = {name: value.cpu().numpy() for name, value in columns.items()}
    return Shard(chunk.number, arrays | texts, points, chunk.revision)


@dataclass(frozen=True)
class RecordedShard:
    """A shard that has rows: its samples, and which revision of its tensors has their points."""

    number: int
    revision: int
    index: list[int]


def recorded_shards(rows: pyarrow.Table, size: int) -> Iterator[RecordedShard]:
    """The shards, of ``size`` samples each, that these rows are of; in the order of the rows."""
    pairs = zip(rows["index"].to_pylist(), row_numbers(rows, "revision", 0).tolist(), strict=True)
    for number, group in groupby(pairs, lambda pair: pair[0] // size):
        index, revisions = zip(*group, strict=True)
        # Rows that a later evaluation left alone keep their number; the points of all were written again.
        yield RecordedShard(number, max(revisions), list(index))


def read_tensors(folder: RunFolder, shard: RecordedShard) -> dict[str, Tensor]:
    """x_adv and index of a shard."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    path: Path = folder.tensors_file(shard.number, shard.revision)
    try:
        tensors = load(folder.read_intact(path))
    except FileNotFoundError:
        raise RunError(f"{path}: missing; run the same command again: its samples are redone") from None
    except (SafetensorError, ValueError) as error:
        raise RunError(damaged(path, first_line(error))) from error
    if set(tensors) != {"x_adv", "index"} or tensors["index"].tolist() != shard.index:
        raise RunError(damaged(path, "it has other tensors or samples than its rows"))
    if len(tensors["x_adv"]) != len(shard.index):
        raise RunError(damaged(path, f"it has {len(tensors['x_adv'])} points for {len(shard.index)} samples"))
    return tensors


def tensors_of(folder: RunFolder, header: Header, rows: pyarrow.Table) -> Iterator[dict[str, Tensor]]:
    """Of all shards that have rows, in the order of their samples. Of the rows, index and revision are needed."""
    for shard in recorded_shards(rows, header.settings.chunk):
        yield read_tensors(folder, shard)


def check_tensors(folder: RunFolder, shard: RecordedShard) -> bool:
    """Whether a shard's tensors are there; an error if they are not as they were written."""
    if not folder.tensors_file(shard.number, shard.revision).exists():
        return False
    read_tensors(folder, shard)
    return True


def digest(image: Tensor) -> str:
    """By which an image is known again."""
    return hashlib.blake2b(image.contiguous().numpy().tobytes(), digest_size=8).hexdigest()
