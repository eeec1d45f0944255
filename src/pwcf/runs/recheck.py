"""Every recorded point against the model again, without what found it."""

from __future__ import annotations

from dataclasses import dataclass, field

from pwcf._common.errors import UserError
from pwcf._common.status import Status
from pwcf._common.text import describe_error
from pwcf.models import CountedClassifier
from pwcf.problems import is_wrong
from pwcf.runs.folder import RunFolder
from pwcf.runs.header import Header
from pwcf.runs.resolve import Loader, check_devices, resolve_problem
from pwcf.runs.settings import RunError, Settings
from pwcf.runs.shard import digest, tensors_of
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


def recheck_run(folder: RunFolder, header: Header, settings: Settings, loader: Loader | None = None) -> Rechecked:
    """Check every recorded point of a run, shard by shard.

    Args:
        folder: of the run.
        header: of the run.
        settings: those of the run, or with another place of its model and data.
        loader: opens model and data; give one to several runs of the same network.
    """
    try:
        return _recheck_run(folder, header, settings, loader or Loader())
    except UserError:
        raise
    except Exception as error:
        raise RunError(f"model, data: they do not fit this run ({describe_error(error)})") from error


def _recheck_run(folder: RunFolder, header: Header, settings: Settings, loader: Loader) -> Rechecked:
    check_devices(settings)
    model, source = loader.model(settings), loader.source(settings)
    found = Rechecked(remarks=[] if header.unchecked is None else [header.unchecked])
    if header.saved:
        found.remarks.append("the run was saved from Python: its points are checked against the model that you named")
    elif model.fingerprint != header.model.fingerprint:
        found.remarks.append(
            f"another model than that of the run (digest {model.fingerprint[:8]}, then {header.model.fingerprint[:8]})"
        )
    problem = resolve_problem(settings).bind(model.classifier)
    counted = CountedClassifier(model.classifier, header.settings.chunk, settings.batch or 64)
    rows, device, begin = folder.rows(), settings.devices[0], 0
    for tensors in tensors_of(folder, header, rows):
        part = rows.slice(begin, len(tensors["index"])).to_pylist()
        begin += len(part)
        points = tensors["x_adv"].to(device)
        first = part[0]["index"]
        images, labels = source.read(first, first + len(part))
        with model.classifier.in_use():
            checked = recheck(counted, problem, images.to(device), labels.to(device), points)
        wrong = is_wrong(checked.logits, labels.to(device), problem.targeted).tolist()
        for i, row in enumerate(part):
            if digest(images[i]) != row["image"] or int(labels[i]) != row["label"]:
                found.failed.append(Failure(row["index"], "image or label in the data is not that of the run"))
            elif not row["adversarial"]:
                continue
            else:
                # A sample that is wrong as it is is its own point, at distance 0, whatever is allowed.
                itself = row["status"] == Status.ALREADY_MISCLASSIFIED.value
                holds = wrong[i] if itself else bool(checked.adversarial[i])
                what = _difference(holds, float(checked.distance[i]), row["radius"])
                if what is None:
                    found.hold += 1
                else:
                    found.failed.append(Failure(row["index"], what))
            found.checked += 1
    return found


def _difference(holds: bool, distance: float, recorded: float) -> str | None:
    """What is wrong with a point, if anything is."""
    if not holds:
        return "its point is not adversarial for this model"
    if abs(distance - recorded) > SAME_DISTANCE * max(abs(recorded), 1e-12):
        return f"distance {distance:.6g}, recorded is {recorded:.6g}"
    return None
