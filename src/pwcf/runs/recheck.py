"""Every recorded point against the model again, without what found it."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from pwcf.data import DataError
from pwcf.models import Counted
from pwcf.runs.errors import RunError
from pwcf.runs.execution import open_model, open_source
from pwcf.runs.folder import RunFolder
from pwcf.runs.header import Header
from pwcf.runs.settings import Settings
from pwcf.runs.shard import digest, read_tensors
from pwcf.runs.worker import plan_of
from pwcf.solvers import Status
from pwcf.verify import recheck

# Distances are computed in float64 from the same numbers; another machine sums in another order.
SAME_DISTANCE = 1e-6


@dataclass(frozen=True)
class Failure:
    """A point that does not hold, and why."""

    index: int
    what: str


@dataclass
class Rechecked:
    """What became of the points of a run."""

    checked: int = 0
    hold: int = 0
    failed: list[Failure] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def recheck_run(folder: RunFolder, header: Header, settings: Settings) -> Rechecked:
    """``settings``: those of the run, or with another place of its model and data. Shard by shard."""
    model, source = open_model(settings), open_source(settings)
    found = Rechecked()
    if model.fingerprint != header.model.fingerprint:
        found.remarks.append(
            f"another model than that of the run (digest {model.fingerprint[:8]}, then {header.model.fingerprint[:8]})"
        )
    rows, size = folder.rows(), header.settings.chunk
    device = settings.devices[0]
    counted = Counted(model.classifier, size, settings.batch or 64)
    problem = None
    for number in sorted({i // size for i in rows["index"].to_pylist()}):
        part = rows.slice(_place(rows, number * size), min(size, header.samples - number * size))
        tensors = read_tensors(folder, number)
        points = tensors["x_adv"].to(device)
        try:
            images, labels = source.read(number * size, number * size + len(points))
        except DataError as error:
            raise RunError(str(error)) from error
        if problem is None:
            problem = plan_of(settings, model.classifier, None).problem.of(model.classifier)
        same = [digest(image) == then for image, then in zip(images, part["image"].to_pylist(), strict=True)]
        with model.classifier.in_use():
            checked = recheck(counted, problem, images.to(device), labels.to(device), points)
        recorded = torch.from_numpy(part["radius"].to_numpy().copy())
        # A sample that is wrong as it is has itself as its point, at distance 0, which counts whatever is allowed.
        adversarial, distance = checked.adversarial.cpu(), checked.distance.cpu()
        near = (distance - recorded).abs() <= SAME_DISTANCE * recorded.abs().clamp(min=1e-12)
        for i, status in enumerate(part["status"].to_pylist()):
            index = number * size + i
            if not same[i]:
                found.failed.append(Failure(index, "the image in the data is not the one of the run"))
            elif not part["adversarial"][i].as_py():
                continue
            elif not adversarial[i] and status != Status.ALREADY_MISCLASSIFIED.value:
                found.failed.append(Failure(index, "its point is not adversarial for this model"))
            elif not near[i]:
                found.failed.append(Failure(index, f"distance {distance[i]:.6g}, recorded is {recorded[i]:.6g}"))
            else:
                found.hold += 1
            found.checked += 1
    return found


def _place(rows: object, index: int) -> int:
    """Where in the rows a sample is; shards may be missing before it."""
    import pyarrow.compute as pc

    return int(pc.index(rows["index"], index).as_py())  # type: ignore[index]
