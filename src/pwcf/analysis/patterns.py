"""What perturbations look like: how sparse they are, how large their entries, and how alike those of two runs.

Soft sparsity of d = x' - x (paper, "sparsity measure"):  ||d||_1 / ||d||_2,  1 where one entry moves and sqrt(entries)
where all move alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pwcf._common import statistics
from pwcf.analysis.masks import found_in, needs_recording, shared_places
from pwcf.analysis.naming import NamedRuns, attacks_name, metric_name, takes_runs
from pwcf.evaluation import Run
from pwcf.problems import MaxLoss
from pwcf.runs import RecordedRun


def sparsity_of(run: Run, images: Tensor | None = None) -> Tensor:
    """Soft sparsity ||d||_1 / ||d||_2 of the perturbations of a run.

    Args:
        run: about n samples; recorded ones know it, others need the images.
        images: (n, ...) that were attacked.

    Returns:
        (n,) float64; NaN where no point was found.
    """
    if images is not None:
        d = perturbations_of(run, images).flatten(1).double()
        values = d.abs().sum(1) / torch.linalg.vector_norm(d, dim=1)
    elif isinstance(run, RecordedRun):
        values = torch.from_numpy(run.rows["sparsity"].to_numpy().copy()).double()
    else:
        raise ValueError("images: expected those that were attacked, found none; only recorded runs do without")
    return torch.where(found_in(run), values, torch.nan)


def perturbations_of(run: Run, images: Tensor) -> Tensor:
    """Perturbations x' - x of a run.

    Args:
        run: about n samples, with its points.
        images: (n, ...) that were attacked.

    Returns:
        (n, ...) on the CPU; zero where no point was found.
    """
    if len(run.status) and not len(run.x_adv):
        raise ValueError("run: expected one with its points, found none; load_run(..., tensors=True)")
    if tuple(images.shape) != tuple(run.x_adv.shape):
        raise ValueError(f"images: expected shape {tuple(run.x_adv.shape)}, found {tuple(images.shape)}")
    return run.x_adv.detach().cpu() - images.detach().cpu()


@dataclass(frozen=True)
class SparsityRow:
    """Sparsity of one run, as a row of a table."""

    name: str
    metric: str
    loss: str | None
    """what was maximised; None for min-radius"""
    attacks: str
    found: int
    low: float
    """first quartile"""
    median: float
    high: float
    """third quartile"""


@takes_runs
def sparsity_table(runs: NamedRuns, images: Tensor | None = None) -> list[SparsityRow]:
    """Quartiles of the soft sparsity of each run.

    Only runs of one metric can be compared, best on the same samples.

    Args:
        runs: by name.
        images: (n, ...) that all of them attacked, for runs that were not recorded.

    Returns:
        A row for each run, in their order.
    """
    rows = []
    for name, run in runs.items():
        values = sparsity_of(run, None if isinstance(run, RecordedRun) else images)
        values = values[torch.isfinite(values)]
        quartiles = statistics.quantiles(values.numpy(), (0.25, 0.5, 0.75))
        loss = run.problem.loss if isinstance(run.problem, MaxLoss) else None
        rows.append(SparsityRow(name, metric_name(run), loss, attacks_name(run), len(values), *quartiles))
    return rows


@dataclass(frozen=True)
class PatternDifference:
    """How different two runs' perturbations of the same samples are."""

    samples: int
    """on which both have a point"""
    sparser: float
    """share of them on which the first is the sparser one; where they tie it counts half"""
    distance: float
    """between the two distributions of sparsity: Kolmogorov and Smirnov's, 0 alike, 1 apart"""
    cosine: float
    """median over the samples of the cosine of the two perturbations; NaN without images"""


def pattern_difference(first: RecordedRun, second: RecordedRun, images: Tensor | None = None) -> PatternDifference:
    """Compare the perturbations of two runs, on the samples they share and for which both have a point.

    Args:
        first, second: recorded runs.
        images: (n, ...) of the first run, for the cosine.

    Returns:
        Which is sparser, how far the distributions of sparsity are apart, and the median cosine.
    """
    for run in (first, second):
        needs_recording(run, "pattern_difference")
    here, there = shared_places(first, second)
    both = found_in(first)[here] & found_in(second)[there]
    here, there = here[both], there[both]
    if not len(here):
        return PatternDifference(0, torch.nan, torch.nan, torch.nan)
    a, b = sparsity_of(first)[here], sparsity_of(second)[there]
    sparser = float(((a < b).double() + 0.5 * (a == b).double()).mean())
    cosine = torch.nan
    if images is not None:
        d = perturbations_of(first, images)[here].flatten(1).double()
        e = perturbations_of(second.select(there), images[here]).flatten(1).double()
        cosine = statistics.median(torch.nn.functional.cosine_similarity(d, e).numpy())
    return PatternDifference(len(here), sparser, kolmogorov_smirnov(a, b), cosine)


def kolmogorov_smirnov(a: Tensor, b: Tensor) -> float:
    """Kolmogorov and Smirnov's distance: the largest difference between the shares of a and of b up to a value.

    Args:
        a: (n,) values.
        b: (m,) values.

    Returns:
        0 for samples alike, 1 for samples apart; NaN where either is empty.
    """
    if not len(a) or not len(b):
        return torch.nan
    a, b = a.double().sort().values, b.double().sort().values
    steps = torch.cat((a, b))
    shares = [torch.searchsorted(side, steps, right=True).double() / len(side) for side in (a, b)]
    return float((shares[0] - shares[1]).abs().max())


@dataclass(frozen=True)
class Magnitudes:
    """A histogram of |x' - x| over all entries of some perturbations."""

    edges: Tensor
    """(k + 1,)"""
    share: Tensor
    """(k,) of the entries"""
    untouched: float
    """share of entries that did not move at all"""


def magnitudes_of(run: Run, images: Tensor, samples: list[int] | None = None, bins: int = 40) -> Magnitudes:
    """Histogram of |x' - x| over all entries of the perturbations of a run.

    Args:
        run: about n samples, with its points.
        images: (n, ...) that were attacked.
        samples: places of those to take; None: all that have a point.
        bins: of the histogram, k.

    Returns:
        Edges (k + 1,) from 0 to the largest entry, shares (k,) of the entries, and the share that did not move.
    """
    d = perturbations_of(run, images)
    chosen = found_in(run).nonzero().squeeze(1) if samples is None else torch.tensor(samples, dtype=torch.int64)
    size = d[chosen].abs().flatten().double()
    if not size.numel():
        return Magnitudes(torch.linspace(0, 1, bins + 1), torch.zeros(bins), torch.nan)
    edges = torch.linspace(0, float(size.max()) or 1.0, bins + 1, dtype=torch.float64)
    # The last bin has its right edge too.
    place = torch.bucketize(size, edges, right=True).sub(1).clamp(0, bins - 1)
    share = torch.bincount(place, minlength=bins).double() / size.numel()
    return Magnitudes(edges, share, float((size == 0).double().mean()))


def amplified(perturbation: Tensor) -> tuple[Tensor, float]:
    """Amplify a perturbation so that it can be shown as a picture.

    Args:
        perturbation: (...) x' - x.

    Returns:
        The picture (...) in [0, 1], where 1/2 is no change and the largest entry is 0 or 1; and the factor.
    """
    largest = float(perturbation.abs().max()) if perturbation.numel() else 0.0
    factor = 0.5 / largest if largest > 0 else 1.0
    return perturbation * factor + 0.5, factor
