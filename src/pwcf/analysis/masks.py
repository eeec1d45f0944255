"""Which samples an analysis is about: who was attacked, what was found, and which samples runs share.

``pwcf._common.statistics`` defines the masks; here they are tensors.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pwcf._common import statistics
from pwcf.evaluation import Run
from pwcf.problems import MinRadius
from pwcf.runs import RecordedRun
from pwcf.runs.comparison import sample_places


def defined_in(run: Run) -> Tensor:
    """Mask of the samples for which the model gives finite logits.

    Args:
        run: about n samples.

    Returns:
        (n,) bool, on the CPU.
    """
    return torch.from_numpy(statistics.defined(status_values(run)))


def attacked_in(run: Run) -> Tensor:
    """Mask of the samples that are classified correctly as they are, so that there was something to attack.

    Args:
        run: about n samples.

    Returns:
        (n,) bool, on the CPU.
    """
    return torch.from_numpy(statistics.attacked(status_values(run)))


def found_in(run: Run) -> Tensor:
    """Mask of the samples that were attacked and have a verified adversarial point.

    Args:
        run: about n samples.

    Returns:
        (n,) bool, on the CPU.
    """
    return torch.from_numpy(statistics.found(status_values(run), run.adversarial.cpu().numpy()))


def converged_in(run: Run) -> Tensor:
    """Mask of the samples whose min-radius search converged: the evidence leaves nothing to gain nearby.

    Args:
        run: about n samples.

    Returns:
        (n,) bool, on the CPU; all False for max-loss.
    """
    return torch.from_numpy(statistics.converged(status_values(run)))


def status_values(run: Run) -> list[str]:
    """(n,) how each sample's search ended, as text."""
    return [status.value for status in run.status]


def needs_radii(run: Run, what: str) -> None:
    """Raise where a run is of max-loss."""
    if not isinstance(run.problem, MinRadius):
        raise ValueError(f"{what}: expected a run of MinRadius, found {run.problem}; its distances are no radii")


def needs_recording(run: Run, what: str) -> RecordedRun:
    """Raise where a run has no folder."""
    if not isinstance(run, RecordedRun):
        raise ValueError(f"{what}: expected a recorded run (pwcf.load_run), found what evaluate returned; see pwcf run")
    return run


def one_metric(runs: Sequence[Run], what: str) -> None:
    """Raise where runs are in different metrics."""
    names = {run.problem.metric.name for run in runs}
    if len(names) > 1:
        raise ValueError(f"{what}: expected runs in one metric, found {', '.join(sorted(names))}: they are no match")


def shared_places(first: Run, second: Run) -> tuple[Tensor, Tensor]:
    """(m,) and (m,): where the samples that two runs share are in each. Without records: one after the other."""
    if isinstance(first, RecordedRun) and isinstance(second, RecordedRun):
        a, b = sample_places(first.rows), sample_places(second.rows)
        shared = [(a[key], b[key]) for key in a if key in b]
        pairs = torch.tensor(shared, dtype=torch.int64).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1]
    _same_number((first, second))
    everyone = torch.arange(len(first.status))
    return everyone, everyone


def different_samples(runs: Sequence[Run]) -> str:
    """Say that runs side by side are about different samples, so that a share of one is no match for another's.

    Args:
        runs: those that are shown together; of runs without records only the numbers of samples are known.

    Returns:
        A sentence without a full stop, the same in page and figures; "" where the samples are the same.
    """
    recorded = [run for run in runs if isinstance(run, RecordedRun)]
    sets = {frozenset(sample_places(run.rows)) for run in recorded} if len(recorded) == len(runs) else set()
    sizes = sorted({len(run.status) for run in runs})
    if len(sizes) < 2 and len(sets) < 2:
        return ""
    number = f"{sizes[0]} to {sizes[-1]}" if len(sizes) > 1 else f"{sizes[0]} each"
    return f"the runs are about different samples ({number}), so their shares are no match"


def align(runs: Sequence[RecordedRun]) -> list[RecordedRun]:
    """Restrict runs to the samples that all of them have, in one order. A sample is known by its image and label.

    Args:
        runs: recorded ones.

    Returns:
        The same runs about the m shared samples, in the order of the first run.
    """
    if not runs:
        return []
    places = [sample_places(needs_recording(run, "align").rows) for run in runs]
    shared = [key for key in places[0] if all(key in each for each in places)]
    return [
        run.select(torch.tensor([place[key] for key in shared], dtype=torch.int64))
        for run, place in zip(runs, places, strict=True)
    ]


def aligned(runs: Sequence[Run]) -> list[Run]:
    """``align`` where all runs are recorded; others must be about the same samples in the same order."""
    recorded = [run for run in runs if isinstance(run, RecordedRun)]
    if len(recorded) == len(runs):
        return [*align(recorded)]
    _same_number(runs)
    return list(runs)


def _same_number(runs: Sequence[Run]) -> None:
    lengths = sorted({len(run.status) for run in runs})
    if len(lengths) > 1:
        raise ValueError(f"runs: expected the same samples, found {' and '.join(map(str, lengths))} of them")
